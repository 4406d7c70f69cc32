"""What the page of a queued item adds to the style sheet: boxes nobody overlooks, with and without colour, and on paper.

Nothing is said by colour alone: what differs has a word, a mark or a border of its own.
"""

from typing import Final

STYLE: Final = """
.state{font-size:1rem;font-weight:600;border:2px solid var(--ink);border-radius:4px;padding:1px 8px;margin-left:.6em;white-space:nowrap}
.digest{border:2px solid var(--ink);border-radius:6px;padding:10px 14px;margin:0 0 1.2em}
.digest p{margin:0 0 4px}
.digest code{font-size:1.12rem;font-weight:600;letter-spacing:.02em;overflow-wrap:anywhere}
.digest code span{margin-right:.55em;white-space:nowrap;display:inline-block}
.waived{border:4px double var(--ink);padding:10px 14px;margin:0 0 1.4em;background:var(--warm);break-inside:avoid}
.waived h2::before{content:"\\26A0\\00A0"}
.waived ul{list-style:none;margin:0;padding:0}.waived li+li{border-top:2px solid var(--ink);padding-top:8px}
.waived dl{margin:0 0 8px}.waived dl div:first-child dd{font-weight:600}
.waived p{margin:0 0 8px}.waived p.notes{margin:0}
p.notes{padding-left:0;margin-top:.5em}
td.hidden{border:2px dashed var(--ink);text-align:center;white-space:normal;font-size:.76rem;line-height:1.2}
td.hidden b{display:block;font-size:.86rem}
td.mark{white-space:nowrap;font-weight:600}
tr.plain td.mark{font-weight:400}
table.full{width:100%}
table.full td{overflow-wrap:anywhere}
table.full td.mark,table.full td.k{overflow-wrap:normal}
td small{display:block;color:var(--muted);font-size:.92em}
.check{list-style:none;margin:0 0 1.2em;padding:0}
.check li{display:grid;grid-template-columns:11em 1fr;gap:10px;padding:5px 0;border-bottom:1px solid var(--line);break-inside:avoid}
.check li>b{font-weight:600}
.check.people li{grid-template-columns:1.8em 1fr}
.check.people li>b{font-size:1.25rem;line-height:1.1}
.check small{display:block;color:var(--muted)}
pre{border:1px solid var(--line);border-radius:4px;background:var(--band);padding:8px 12px;margin:0 0 1em;white-space:pre-wrap;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.2em 0 .4em;break-after:avoid}
.item table tbody tr td:first-child{overflow-wrap:normal}
.wide-table{width:calc(100vw - 32px);margin-left:calc(50% - 50vw + 16px)}
.wide-table .item table{font-size:.78rem}.wide-table .item td,.wide-table .item th{padding:2px 6px}
.wide-table .item td:first-child,.wide-table .item th:first-child{position:sticky;left:0;background:var(--paper);white-space:nowrap}
.wide-table .item td.t{white-space:nowrap}
.sign{display:grid;grid-template-columns:repeat(3,1fr);gap:24px;margin:2.2em 0 .5em}
.sign span{border-top:1px solid var(--ink);padding-top:2px;color:var(--muted);font-size:.85rem}
footer{overflow-wrap:anywhere}
@page{size:A4;margin:14mm 12mm}
@page wide{size:A4 landscape;margin:10mm 8mm}
@media print{.wide-table{page:wide;width:auto;margin-left:0}.wide-table .item table{font-size:9.2px}.wide-table .item td,.wide-table .item th{padding:1px 3px}
.wide-table .item td:first-child,.wide-table .item th:first-child{position:static;background:none}
.wide-table .item td.hidden{font-size:7.5px}.wide-table .item thead th{white-space:normal}.scroll{margin:0}section{margin-bottom:18px}
thead{display:table-header-group}.digest,.sign,pre{break-inside:avoid}}
"""
"""CSS as text; it refers to nothing outside the page."""
