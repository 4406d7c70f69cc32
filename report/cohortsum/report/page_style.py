"""The style sheet of the page: one column, light and dark, narrow and wide, and on paper."""

from typing import Final

from cohortsum.report.svg import FONT
from cohortsum.report.svg import STYLE as FIGURES

STYLE: Final = (
    """
:root{--ink:#1b1f24;--muted:#57606a;--paper:#ffffff;--line:#d5dae0;--band:#f5f7f9;--link:#0b5cad;--mark:#8a5a00;
--warm:#fff7e6}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--muted:#a3adb8;--paper:#16191d;--line:#3a424b;--band:#1e2328;
--link:#7db8f0;--mark:#e0b45c;--warm:#2b2416}}
*{box-sizing:border-box}
html{background:var(--paper);color:var(--ink);font:15px/1.5 """
    + FONT
    + """;-webkit-text-size-adjust:100%}
body{max-width:1120px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.6rem;line-height:1.25;margin:.2em 0 .5em;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 .5em;overflow-wrap:anywhere}
h2 small{font-weight:400;color:var(--muted);font-size:.95rem;margin-left:.4em}
a{color:var(--link)}
code{font-size:.92em}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:2px 28px;margin:0 0 1.4em}
dl div{display:grid;grid-template-columns:118px 1fr;gap:8px;border-top:1px solid var(--line);padding:4px 0}
dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
.warnings{list-style:none;margin:0 0 1.2em;padding:8px 14px;background:var(--warm);border-left:4px solid var(--mark)}
.warnings li{margin:2px 0}
nav{border:1px solid var(--line);border-radius:6px;padding:12px 16px;margin-bottom:2em}
nav h2{font-size:1rem}
nav ol{margin:0;padding-left:1.6em;columns:auto 300px;column-gap:32px}
nav li{break-inside:avoid;overflow-wrap:anywhere}nav span{color:var(--muted)}
section{border-top:2px solid var(--line);padding-top:16px;margin-bottom:40px}
.notes{color:var(--muted);margin:0 0 1em;padding-left:1.2em}
figure{margin:0 0 1.6em}
figcaption{max-width:76ch;font-size:.9rem;color:var(--muted);overflow-wrap:anywhere}figcaption strong{color:var(--ink)}
.panels{display:flex;flex-wrap:wrap;gap:14px 26px;align-items:flex-start}
.panels svg{flex:1 1 320px;width:100%;height:auto}
svg.definitions{position:absolute}
.scroll{overflow-x:auto;margin:0 0 1em}
.scroll:focus{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:0 0 6px;overflow-wrap:anywhere}
th,td{padding:3px 10px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{border-bottom:2px solid var(--line);white-space:nowrap}
tbody tr:nth-child(even){background:var(--band)}
td.n,th.n{text-align:right;white-space:nowrap}
td.t{max-width:40ch;overflow-wrap:break-word}
.absent{color:var(--muted);font-style:italic}
table.forest{width:100%;max-width:860px}
table.forest td,table.forest th{padding:2px 8px}
table.forest td.plot{padding:0;width:40%;min-width:120px;border-bottom:0}
table.forest tbody tr{background:none}
table.forest td.plot svg{display:block;overflow:visible}
table.forest tr.group th{padding-top:9px;border-bottom:0}
table.forest td.o{overflow-wrap:anywhere;min-width:14ch}
table.forest tr.strong td{font-weight:600}
table.forest tfoot td{border-bottom:0;font-size:.8rem}
details{margin:0 0 1em}
summary{cursor:pointer;color:var(--link);padding:4px 0}
footer{color:var(--muted);border-top:1px solid var(--line);padding-top:10px;font-size:.9rem}
@media (max-width:560px){body{padding:14px 12px 40px}table.forest td,table.forest th{padding:2px 4px}
table.forest{font-size:.76rem}table.forest .wide{display:none}table.forest td.plot{min-width:60px;width:24%}table.forest td.o{min-width:11ch}
table.forest thead th{white-space:normal}table.forest th,table.forest td.n{letter-spacing:-.02em}
dl div{grid-template-columns:104px 1fr}}
@media print{:root{--ink:#000;--muted:#444;--paper:#fff;--line:#bbb;--band:#f4f4f4;--link:#000;--warm:#fff;--mark:#555}
body{max-width:none;padding:0}figure,tr,nav{break-inside:avoid}h2{break-after:avoid}.scroll{overflow:visible}
html{font-size:11px}a{text-decoration:none}details:not([open])>summary::after{content:" (folded; see the CSV file)"}}
"""
    + FIGURES
)
"""CSS as text; it refers to nothing outside the page."""
