"""Survival curves: the product-limit estimate as steps, its interval as a band, and the people at risk below the axis.

Kaplan and Meier (1958): the estimate is 1 before the first time and changes at the times of the table alone. A time whose
estimate was withheld ends the line until the next one that was not; nothing is drawn through the gap. A row of the table is
about the interval that ends at its time, and so its people at risk stand under the time where that interval begins: none is
interpolated, and one that may not be published reads ``<k``.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from cohortsum.report.records import Record, grouped, leading, records, value
from cohortsum.report.scales import Frame, Scale
from cohortsum.report.svg import SERIES, Figure, Panel, fitted, path, words
from cohortsum.study.results import NO_DATA, Absent, Status, Table

WITHHELD: Final = "<k"
CAPTION: Final = (
    "Survival (steps) with its 95 % interval (band); numbers at risk after that time below the axis."
)
SUPPRESSED: Final = f" {WITHHELD}: fewer people than may be published."
MOST_GROUPS: Final = len(SERIES)

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 380.0, 40.0, 362.0, 24.0, 190.0
_STEP = 15.0
_MOST_TIMES = 7


def survival_figures(table: Table) -> tuple[Figure, ...]:
    """Return the curves of a table of kind ``kaplan_meier``, at most `MOST_GROUPS` in one panel; none without a number."""
    by = leading(table, "time")
    groups = list(grouped(records(table), by).items())
    panels: list[Panel] = []
    suppressed = False
    for start in range(0, len(groups), MOST_GROUPS):
        part = groups[start : start + MOST_GROUPS]
        if any(value(row, "survival") is not None for _, rows in part for row in rows):
            panels.append(_panel([(", ".join(name) or "all people", rows) for name, rows in part]))
            suppressed |= any(count_text(row, "at_risk") == WITHHELD for _, rows in part for row in rows)
    if not panels:
        return ()
    title = f"Survival by {', '.join(by)}" if by else "Survival"
    return (Figure(title, CAPTION + (SUPPRESSED if suppressed else ""), tuple(panels)),)


def count_text(row: Record, column: str) -> str:
    """Return a count as printed: the number, `WITHHELD` for one below the threshold, a dash for none at all."""
    cell = row.get(column, NO_DATA)
    if isinstance(cell, Absent):
        return WITHHELD if Status.BELOW_THRESHOLD in (cell.reason, row["status"]) else "\N{EN DASH}"
    return f"{cell:.0f}" if isinstance(cell, int | float) else cell


def _panel(groups: Sequence[tuple[str, Sequence[Record]]]) -> Panel:
    times = sorted({time for _, rows in groups for row in rows if (time := value(row, "time")) is not None})
    last = times[-1] if times[-1] > 0 else 1.0
    frame = Frame(Scale(min(0.0, times[0]), last, _LEFT, _RIGHT), Scale(0.0, 1.0, _TOP + _HEIGHT, _TOP))
    shown = chosen([frame.x.low, *times[:-1]], frame.x)
    parts = [frame.axes("time", "survival", shown)]
    for place, (_, rows) in enumerate(groups):
        parts.append(_curve(frame, rows, place))
    y = _TOP + _HEIGHT + 50
    parts.append(words(4, y, "Number at risk", "f-small", font_weight=600))
    for place, (name, rows) in enumerate(groups):
        y += _STEP
        parts.append(path(f"f-line f-line{place}", [(4, y - 3.5), (26, y - 3.5)], dash=SERIES[place][2]))
        parts.append(fitted(31, y, name, _WIDTH - 34, "f-small", 10.0))
        y += _STEP - 2
        at = _by_start(rows, frame.x.low)
        for time in shown:
            if time in at:
                parts.append(words(frame.x.at(time), y, count_text(at[time], "at_risk"), "f-small", "middle"))
    return Panel(_WIDTH, y + 8, "".join(parts), f"survival curves: {', '.join(name for name, _ in groups)}")


def _by_start(rows: Sequence[Record], first: float) -> dict[float, Record]:
    """Return the rows of a group by the time at which their interval begins."""
    timed = sorted(
        ((time, row) for row in rows if (time := value(row, "time")) is not None), key=lambda pair: pair[0]
    )
    starts = [first, *(time for time, _ in timed)]
    return {start: row for start, (time, row) in zip(starts, timed, strict=False) if start < time}


def chosen(times: Sequence[float], scale: Scale) -> list[float]:
    """Return times of the table, few enough for their numbers to stand side by side: near ticks where it has many."""
    if len(times) <= _MOST_TIMES and _apart(times, scale):
        return list(times)
    picked = sorted({min(times, key=lambda time: abs(time - tick)) for tick in scale.ticks(_MOST_TIMES)})
    kept = picked[:1]
    for time in picked[1:]:
        if _apart([kept[-1], time], scale):
            kept.append(time)
    return kept


def _apart(times: Sequence[float], scale: Scale) -> bool:
    places = [scale.at(time) for time in times]
    return all(b - a >= 36 for a, b in pairwise(places))


def _curve(frame: Frame, rows: Sequence[Record], place: int) -> str:
    """Return the steps and the band of one group; a withheld estimate interrupts both."""
    parts: list[str] = []
    for piece in _pieces(frame, rows):
        time, survival, _, _ = (list(column) for column in zip(*piece, strict=True))
        line: list[tuple[float, float]] = []
        for index, point in enumerate(zip(time, survival, strict=True)):
            if index:
                line.append((point[0], survival[index - 1]))
            line.append(point)
        band = _band(piece)
        if band:
            parts.append(path(f"f-band f-fill{place}", [frame.point(*point) for point in band], close=True))
        parts.append(
            path(f"f-line f-line{place}", [frame.point(*point) for point in line], dash=SERIES[place][2])
        )
    return "".join(parts)


_Point = tuple[float, float, float, float]


def _pieces(frame: Frame, rows: Sequence[Record]) -> list[list[_Point]]:
    """Return runs of (time, survival, low, high) without a gap; a missing limit is NaN."""
    pieces: list[list[_Point]] = [[]]
    start = frame.x.low
    ordered = sorted(rows, key=lambda row: value(row, "time") or 0.0)
    if ordered and (value(ordered[0], "time") or 0.0) > start and value(ordered[0], "survival") is not None:
        pieces[-1].append((start, 1.0, 1.0, 1.0))
    for row in ordered:
        time, survival = value(row, "time"), value(row, "survival")
        if time is None or survival is None:
            pieces.append([])
            continue
        low, high = value(row, "low"), value(row, "high")
        pieces[-1].append(
            (time, survival, math.nan if low is None else low, math.nan if high is None else high)
        )
    return [piece for piece in pieces if piece]


def _band(piece: Sequence[_Point]) -> list[tuple[float, float]]:
    """Return the outline of the longest beginning of ``piece`` that has both limits, as steps."""
    lower: list[tuple[float, float]] = []
    upper: list[tuple[float, float]] = []
    for time, _, low, high in piece:
        if math.isnan(low) or math.isnan(high):
            break
        if lower:
            lower.append((time, lower[-1][1]))
            upper.append((time, upper[-1][1]))
        lower.append((time, low))
        upper.append((time, high))
    return [*upper, *reversed(lower)] if len(lower) > 1 else []
