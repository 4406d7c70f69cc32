"""Result tables as HTML: every cell of a table, and forest plots whose words and numbers are text of the page.

A forest plot here is a table with one drawing per row, so that labels wrap, numbers can be copied, and the whole fits a
narrow screen. All drawings of one plot share their scale.
"""

from typing import Final

from cohortsum.report.effects import RATIOS, Effects
from cohortsum.report.forest_lines import Line, arrange, axis_range
from cohortsum.report.scales import Scale, labels
from cohortsum.report.svg import clean, element, number
from cohortsum.report.text import cell_text
from cohortsum.study.results import Absent, Cell, Table

MOST_OPEN: Final = 14
"""Rows of a table that is not folded."""

MOST_ROWS: Final = 1500
"""Rows that a page shows of one table; its CSV file has all."""

MOST_IN_A_FOREST: Final = 150
LEVEL: Final = 0.05
_HEIGHT: Final = 24
_START, _END = 5.0, 95.0  # per cent of the column, so that markers keep their shape at every width


def table_html(table: Table, folded: bool = False) -> str:
    """Return the table; a long one, or one that is shown in another form beside it, is folded."""
    numbers = [
        any(isinstance(row[place], int | float) for row in table.rows) for place in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col"{" class=n" if right else ""}>{clean(name)}</th>'
        for name, right in zip(table.columns, numbers, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            _cell(name, cell, right) for name, cell, right in zip(table.columns, row, numbers, strict=True)
        )
        + "</tr>"
        for row in table.rows[:MOST_ROWS]
    )
    name = clean(table.analysis)
    html = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table {name}"><table><thead><tr>{head}</tr></thead>'
        f"\n<tbody>\n{body}\n</tbody></table></div>\n"
    )
    left_out = len(table.rows) - MOST_ROWS
    if left_out > 0:
        html += f"<p>{left_out:,} further rows in the CSV file.</p>\n"
    count = len(table.rows)
    if count <= MOST_OPEN and not folded:
        return html
    return f"<details><summary>Table {name}: {count:,} {'row' if count == 1 else 'rows'}</summary>\n{html}</details>\n"


def forest_html(effects: Effects) -> str:
    """Return a forest plot: the reader's labels, intervals on one scale, numbers; at most `MOST_IN_A_FOREST` rows."""
    shown = effects.strongest(MOST_IN_A_FOREST)
    lines = arrange(shown, "estimate", LEVEL)
    scale = _scale(shown)
    p_head = "p (FDR)" if effects.corrected else "p"
    left_out = len(effects.rows) - len(shown.rows)
    title = f"{effects.term}: {effects.measure} with 95 % interval" + (
        f", the {len(shown.rows)} smallest p of {len(effects.rows)}" if left_out else ""
    )
    counted = any(not isinstance(effect.n, Absent) for effect in shown.rows)
    count_head = '<th scope=col class="n wide">n</th>' if counted else ""
    head = (
        f"<tr><th scope=col>{'term' if effects.of_terms else 'outcome'}</th><th scope=col></th>"
        f'<th scope=col class=n>{clean(effects.measure)} [95 % CI]</th><th scope=col class="n">{p_head}</th>'
        f"{count_head}</tr>"
    )
    body = "\n".join(_line(line, effects, scale, counted) for line in lines)
    return (
        f'<div class="scroll"><table class="forest"><caption>{clean(title)}</caption>\n<thead>{head}</thead>\n'
        f"<tbody>\n{body}\n</tbody>\n<tfoot><tr><td></td><td class=plot>{_axis(scale)}</td>"
        f'<td colspan="3" class="absent">filled square: {p_head} &lt; {LEVEL:g}</td></tr></tfoot></table></div>\n'
    )


def _cell(name: str, cell: Cell, right: bool) -> str:
    kind = "n" if right else "t"
    text = clean(cell_text(name, cell))
    if isinstance(cell, Absent):
        return f'<td class="{kind} absent">{text}</td>'
    return f'<td class="{kind}">{text}</td>'


def _scale(effects: Effects) -> Scale:
    low, high = axis_range(effects)
    return Scale(low, high, _START, _END, log=effects.measure in RATIOS)


def _line(line: Line, effects: Effects, scale: Scale, counted: bool) -> str:
    if line.effect is None:
        return f'<tr class="group"><th scope="rowgroup" colspan="5">{clean(line.label)}</th></tr>'
    label = f'<td class="o" title="{clean(line.effect.outcome)}">{clean(line.label)}</td>'
    null = _stroke("f-axis", scale.at(effects.null), scale.at(effects.null), 0, _HEIGHT)
    interval = line.effect.interval
    n = line.effect.n
    count = f'<td class="n wide">{"" if isinstance(n, Absent) else f"{n:,.0f}"}</td>' if counted else ""
    if interval is None:
        return (
            f"<tr>{label}<td class=plot>{_drawing(null)}</td>"
            f'<td colspan="2" class="n absent">{clean(line.reason)}</td>{count}</tr>'
        )
    low, estimate, high = (scale.at(end) for end in interval)
    middle = _HEIGHT // 2
    left, right = (min(max(end, _START), _END) for end in (low, high))
    marks = _stroke(f"f-line f-line{0 if line.significant else 5}", left, right, middle, middle)
    for beyond, x, arrow in ((low < _START, _START, "◂"), (high > _END, _END, "▸")):
        if beyond:
            marks += element("text", "f-small", arrow, x=f"{number(x)}%", y=middle + 4, text_anchor="middle")
    at = f"{number(estimate)}%"
    if not _START <= estimate <= _END:
        pass  # the arrow says where it lies
    elif line.significant:
        marks += element("rect", "f-fill0", x=at, y=middle - 4, width=8, height=8, transform="translate(-4)")
    else:
        marks += element("circle", "f-paper f-line5", cx=at, cy=middle, r=3.6)
    strong = " class=strong" if line.significant else ""
    return (
        f"<tr{strong}>{label}<td class=plot>{_drawing(null + marks)}</td><td class=n>{clean(line.estimate)}</td>"
        f"<td class=n>{clean(line.p)}</td>{count}</tr>"
    )


def _drawing(body: str) -> str:
    return f'<svg width="100%" height="{_HEIGHT}" aria-hidden="true">{body}</svg>'


def _stroke(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return element("line", kind, x1=f"{number(x1)}%", x2=f"{number(x2)}%", y1=y1, y2=y2)


def _axis(scale: Scale) -> str:
    ticks = scale.ticks(4)
    parts = [_stroke("f-axis", scale.start, scale.end, 1, 1)]
    for value, label in zip(ticks, labels(ticks), strict=True):
        x = scale.at(value)
        parts.append(_stroke("f-axis", x, x, 1, 5))
        parts.append(element("text", "f-small", clean(label), x=f"{number(x)}%", y=17, text_anchor="middle"))
    return _drawing("".join(parts))
