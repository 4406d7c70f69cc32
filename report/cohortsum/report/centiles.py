"""Centile charts: a normative table as one line per centile over age, one panel per combination of the other factors.

Centiles that mirror each other (5 and 95) are dashed alike, the middle one is heavy, and each line carries its number
at its right end. All panels of an outcome share both axes, so that they can be compared. A point that was withheld
interrupts its line.
"""

import re
from collections.abc import Sequence
from typing import Final

from cohortsum.report.records import Record, grouped, leading, records, value
from cohortsum.report.scales import Frame, Scale, rounded_out
from cohortsum.report.svg import Figure, Panel, path, shortened, words
from cohortsum.study.results import Table

MOST_OUTCOMES: Final = 12
"""Charts per table; beyond it nobody looks at them one by one, and the table has every number."""

_COLUMN: Final = re.compile(r"p([0-9]+(?:\.[0-9]+)?)")
_DASHES: Final = ("", "7 3", "2 3", "7 3 2 3", "1 2")
_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 360.0, 50.0, 322.0, 44.0, 210.0


def centile_figures(table: Table) -> tuple[Figure, ...]:
    """Return a chart per outcome, at most `MOST_OUTCOMES`; none where the table has no centiles or no numeric grid."""
    rows = records(table)
    grid = leading(table, "mean")[1:]
    centiles = {name: _percent(found[1]) for name in table.columns if (found := _COLUMN.fullmatch(name))}
    numeric = [name for name in grid if any(value(row, name) is not None for row in rows)]
    if not centiles or not numeric:
        return ()
    x_name = max(numeric, key=lambda name: len({value(row, name) for row in rows}))
    others = [name for name in grid if name != x_name]
    figures: list[Figure] = []
    for (outcome,), part in grouped(rows, ["outcome"]).items():
        drawn = [y for row in part for name in centiles if (y := value(row, name)) is not None]
        if not drawn or len(figures) == MOST_OUTCOMES:
            continue
        xs = [x for row in part if (x := value(row, x_name)) is not None]
        low, high = rounded_out(min(drawn), max(drawn))
        right = max(xs) if max(xs) > min(xs) else min(xs) + 1.0
        frame = Frame(Scale(min(xs), right, _LEFT, _RIGHT), Scale(low, high, _TOP + _HEIGHT, _TOP))
        panels = [
            _panel(frame, name, each, x_name, outcome, centiles)
            for name, each in grouped(part, others).items()
        ]
        shown = ", ".join(f"{percent:g}" for percent in sorted(centiles.values()))
        number = str(len(figures) + 1) if figures else ""
        caption = f"Centiles {shown}; the heavy line is the median."
        if 50.0 not in centiles.values():
            caption = f"Centiles {shown}."
        figures.append(Figure(f"{outcome} by {x_name}", caption, tuple(panels), number))
    return tuple(figures)


def _percent(digits: str) -> float:
    """Return 5 for ``05``, 97.5 for ``97.5`` and for ``975``: three digits without a point are tenths."""
    return float(digits) / 10 if len(digits) == 3 and digits != "100" else float(digits)


def _panel(
    frame: Frame,
    names: Sequence[str],
    rows: Sequence[Record],
    x_name: str,
    outcome: str,
    centiles: dict[str, float],
) -> Panel:
    title = ", ".join(names) or "all people"
    parts = [
        words(4, 14, shortened(title, _WIDTH - 8, 12), "f-head"),
        frame.axes(shortened(x_name, 240), shortened(outcome, 280)),
    ]
    distances = sorted({abs(percent - 50.0) for percent in centiles.values()})
    ends: list[tuple[float, str]] = []
    ordered = sorted(rows, key=lambda row: value(row, x_name) or 0.0)
    for column, percent in centiles.items():
        middle = percent == 50.0
        dash = "" if middle else _DASHES[distances.index(abs(percent - 50.0)) % len(_DASHES)]
        for piece in _pieces(ordered, x_name, column):
            points = [frame.point(*point) for point in piece]
            more = "f-line f-line0 f-heavy" if middle else "f-line f-line0"
            parts.append(path(more, points, dash=dash))
        last = [y for row in ordered if (y := value(row, column)) is not None]
        if last:
            ends.append((frame.y.at(last[-1]), f"{percent:g}"))
    place = -1e9
    for y, text in sorted(ends):
        place = max(y, place + 11)
        parts.append(words(_RIGHT + 5, place + 3.5, text, "f-small"))
    return Panel(_WIDTH, _TOP + _HEIGHT + 38, "".join(parts), f"centiles of {outcome}, {title}")


def _pieces(rows: Sequence[Record], x_name: str, column: str) -> list[list[tuple[float, float]]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for row in rows:
        x, y = value(row, x_name), value(row, column)
        if x is None or y is None:
            pieces.append([])
        else:
            pieces[-1].append((x, y))
    return [piece for piece in pieces if len(piece) > 1]
