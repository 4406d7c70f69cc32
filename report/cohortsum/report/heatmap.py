"""A correlation matrix as a square of coloured cells, one panel per set of variables that was held fixed.

The scale always runs from -1 to 1. A pair that was not estimated is hatched; the diagonal is left blank, for it says
nothing.
"""

from typing import Final

from cohortsum.report.colours import diverging, legend, readable_on
from cohortsum.report.records import Record, grouped, records, value
from cohortsum.report.scales import MINUS
from cohortsum.report.svg import Figure, Panel, element, shortened, tip, width_of, words
from cohortsum.study.results import Table

MOST_NAMED: Final = 36
MOST_WITH_NUMBERS: Final = 8
_WIDTH: Final = 380.0


def heatmap_figures(table: Table) -> tuple[Figure, ...]:
    """Return the map of a table of kind ``correlation``; none where no pair was estimated."""
    panels: list[Panel] = []
    gaps = False
    by = [name for name in ("given",) if name in table.columns]
    for given, rows in grouped(records(table), by).items():
        if all(value(row, "r") is None for row in rows):
            continue
        held = ", ".join(name for name in given if name not in ("no data", "none", "nothing"))
        panel, missing = _panel(rows, f"given {held}" if held else "")
        panels.append(panel)
        gaps |= missing
    if not panels:
        return ()
    caption = "Pearson correlation of each pair." + (" Hatched: not available." if gaps else "")
    return (Figure("Correlations", caption, tuple(panels)),)


def _panel(rows: list[Record], title: str) -> tuple[Panel, bool]:
    names = list(dict.fromkeys(str(row[side]) for side in ("variable_1", "variable_2") for row in rows))
    pairs: dict[tuple[str, str], float | None] = {}
    for row in rows:
        one, other = str(row["variable_1"]), str(row["variable_2"])
        pairs[one, other] = pairs[other, one] = value(row, "r")
    named = len(names) <= MOST_NAMED
    room = min(130.0, max(width_of(name, 10) for name in names) + 8) if named else 6.0
    beyond = 0.45 * room if named else 4.0  # slanted labels reach over the right edge
    cell = min(38.0, (_WIDTH - room - beyond) / len(names))
    top = (20.0 if title else 4.0) + (0.72 * room + 6 if named else 0.0)
    parts = [words(4, 13, shortened(title, _WIDTH - 8, 12), "f-head")] if title else []
    missing = False
    size = min(10.0, cell * 0.95)
    for i, one in enumerate(names):
        middle = top + cell * (i + 0.5)
        if named:
            label = shortened(one, room - 6, size)
            parts.append(words(room - 4, middle + 0.35 * size, label, "f-small", "end", font_size=size))
            x = room + cell * (i + 0.5)
            turn = f"rotate(-45 {x:.2f} {top - 4:.2f})"
            short = shortened(one, min(room, (_WIDTH - x) / 0.72), size)
            parts.append(words(x, top - 4, short, "f-small", font_size=size, transform=turn))
        for j, other in enumerate(names):
            if i == j:
                continue
            r = pairs.get((one, other))
            missing |= r is None
            said = tip(f"{one}, {other}: {'not available' if r is None else _text(r, 3)}")
            box = {"x": room + cell * j, "y": top + cell * i, "width": cell - 0.6, "height": cell - 0.6}
            if r is None:
                parts.append(element("rect", "f-hatch", said, **box))
                continue
            parts.append(element("rect", "", said, **box, fill=diverging(r, 1.0)))
            if len(names) <= MOST_WITH_NUMBERS:
                at = (room + cell * (j + 0.5), middle + 3.5)
                text = element(
                    "text",
                    "",
                    _text(r, 2),
                    x=at[0],
                    y=at[1],
                    text_anchor="middle",
                    font_size=min(10.0, 0.27 * cell),
                    fill=readable_on(r, 1.0),
                )
                parts.append(text)
    bottom = top + cell * len(names) + 24
    parts.append(legend(room, bottom, min(200.0, _WIDTH - room - 8), 1.0, "correlation r"))
    return Panel(
        _WIDTH, bottom + 28, "".join(parts), f"correlation matrix of {len(names)} variables"
    ), missing


def _text(r: float, decimals: int) -> str:
    text = f"{r:.{decimals}f}"
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")
