"""Contingency tables and measures of association, as they may be shown: of the counts that are.

Percentages are shares of rounded counts, and absent where one of the counts behind them is hidden. Measures of association are computed
again from the rounded counts, and hidden with any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.disclosure.counted_lines import whole
from cohortsum.study.disclosure.crosstabs import Crossings, cell_name, levels_of
from cohortsum.study.disclosure.rounding import Figure, percent
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.shown import Shown, all_hidden, count_results
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import HIDDEN, NO_DATA, Cell, Status, Table
from cohortsum.study.statistics.association import associate


def crossed_rows(settings: Settings, tables: Sequence[Table], crossings: Crossings) -> tuple[Shown, ...]:
    """Return a crosstab, and the measures made of it, as they may be shown."""
    if settings.noised:
        return tuple(
            Shown(table, tuple(count_results(settings, table.analysis, False, False))) for table in tables
        )
    if crossings.held:
        return tuple(
            Shown(
                all_hidden(table),
                (RuleResult("complement_suppression", table.analysis, Outcome.WITHHELD, crossings.held),),
            )
            for table in tables
        )
    (crosstab,) = (table for table in tables if table.kind == "crosstab")
    names = {cell_name(crosstab, row) for row in crosstab.rows}
    shown = _shown(crosstab, crossings.figures)
    small, further = bool(names & crossings.small), bool(names & crossings.further)
    return tuple(
        Shown(
            shown if table is crosstab else _measures(table, shown),
            tuple(count_results(settings, table.analysis, small, further)),
        )
        for table in tables
    )


def printed(tables: Sequence[Table], figures: Mapping[str, Figure]) -> tuple[Table, ...]:
    """Return a crosstab with these counts, and the measures made of them."""
    (crosstab,) = (table for table in tables if table.kind == "crosstab")
    shown = _shown(crosstab, figures)
    return tuple(shown if table is crosstab else _measures(table, shown) for table in tables)


def _shown(table: Table, figures: Mapping[str, Figure]) -> Table:
    """Return a crosstab with hidden and rounded counts, and percentages of these."""
    place = {name: table.columns.index(name) for name in ("count", "row_percent", "column_percent", "status")}
    counts = [figures.get(cell_name(table, row), row[place["count"]]) for row in table.rows]
    heads = [tuple(level for _, level in levels_of(table, row)) for row in table.rows]
    rows: list[tuple[Cell, ...]] = []
    for row, head, count in zip(table.rows, heads, counts, strict=True):
        cells = list(row)
        if cells[place["status"]] == Status.OK.value:
            cells[place["count"]] = count
            if count is HIDDEN:
                cells[place["status"]] = Status.HIDDEN.value
            cells[place["row_percent"]] = _share(count, _line(head, -1, heads, counts))
            cells[place["column_percent"]] = _share(count, _line(head, -2, heads, counts))
        rows.append(tuple(cells))
    return replace(table, rows=tuple(rows), notes=_notes(table))


def _line(
    head: tuple[str, ...], axis: int, heads: Sequence[tuple[str, ...]], counts: Sequence[Cell]
) -> list[Cell]:
    """Return the counts that differ from a cell along one axis only: its row (the last), or its column (the one before)."""
    if len(head) == 1:  # the row is the cell, and the column everything
        return [count for other, count in zip(heads, counts, strict=True) if axis == -2 or other == head]
    at = len(head) + axis
    return [
        count
        for other, count in zip(heads, counts, strict=True)
        if other[:at] + other[at + 1 :] == head[:at] + head[at + 1 :]
    ]


def _share(count: Cell, line: Sequence[Cell]) -> Cell:
    known = [number for cell in line if (number := whole(cell)) is not None]
    part = whole(count)
    if part is None or len(known) < len(line):
        return next(cell for cell in (count, *line) if whole(cell) is None)
    return percent(part, sum(known)) if sum(known) else NO_DATA


def _notes(table: Table) -> tuple[str, ...]:
    """Return the notes without the number of people in no cell."""
    names = ", ".join(table.columns[: table.columns.index("count")])
    return (f"People without a value of {names} are in no row.", *table.notes[1:])


def _measures(table: Table, crosstab: Table) -> Table:
    """Return the measures of association, computed again from the counts as shown; hidden where a count is."""
    first = table.columns.index("n")
    heads, end = table.columns[:first], table.columns.index("status")
    layers = [name for name in heads if name not in ("rows", "columns")]
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        if row[end] != Status.OK.value:
            rows.append(row)
            continue
        layer = tuple(str(row[heads.index(name)]) for name in layers)
        counts = _square(crosstab, layer)
        if counts is None:
            rows.append((*row[:first], *(HIDDEN,) * (end - first), Status.HIDDEN.value))
        else:
            rows.append((*row[:first], *associate(counts).cells))
    return replace(table, rows=tuple(rows))


def _square(crosstab: Table, layer: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Return the shown counts of a layer, (rows, columns); None where one is hidden."""
    count = crosstab.columns.index("count")
    held = [row for row in crosstab.rows if tuple(map(str, row[: len(layer)])) == layer]
    values = [number for row in held if (number := whole(row[count])) is not None]
    if len(values) < len(held):
        return None
    width = len({row[count - 1] for row in held})
    return np.array(values, np.int64).reshape(-1, width)
