"""Contingency tables at the cohort gate: all of a study's, and those of earlier releases over the same people, judged together.

Every cell is hidden that is small, and the cheapest others that keep it hidden (`suppression`); what remains is rounded, and percentages
and measures of association are made of the rounded counts (`rounding`). Nobody prints a margin, but it may follow from another table,
and how many people there are is known to every site: the total is held to be public. The people in no cell are nobody's number, and
are protected like a cell.

Earlier releases are public where they showed a number, and what they hid stays hidden. If no pattern is safe because of them, the new
tables are held whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition import CrosstabSpec
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.disclosure.rounding import HIDDEN, Figure, percent
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.suppression import Held, suppress
from cohortsum.study.disclosure.tables import Standing
from cohortsum.study.disclosure.universe import (
    INSIDE,
    MISSING,
    OUTSIDE,
    Choice,
    Coordinate,
    Counted,
    Universe,
)
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.association import associate
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.variables import Factor

PEOPLE = "people"
MISSING_NAME = "missing"
GIVEN_AWAY = "what is public already would give small counts away, whatever is hidden here"


@dataclass(frozen=True, slots=True)
class Earlier:
    """Tables over the same people that an earlier study released.

    Attributes:
        study: its id, for names.
        factors: of the study, by name.
        specs: of its crosstabs, by name.
        counts: the true counts of a crosstab's cells, by analysis and levels.
        shown: which of them were released with a number.
    """

    study: str
    factors: Mapping[str, Factor]
    specs: Mapping[str, CrosstabSpec]
    counts: Mapping[tuple[str, tuple[str, ...]], int]
    shown: frozenset[tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Crossings:
    """What became of the crosstabs.

    Attributes:
        tables: crosstabs and their measures, as they may be shown.
        results: of the rules.
        counted: the cells as other tables must take them: public, or withheld.
        coordinates: that they are told by.
    """

    tables: tuple[Table, ...]
    results: tuple[RuleResult, ...]
    counted: tuple[Counted, ...]
    coordinates: Mapping[Coordinate, tuple[str, ...]]


def subgroup(where: Condition) -> Coordinate:
    """Return the coordinate of a subgroup; conditions that read alike are one."""
    return ("where", render(where))


def judge_crosstabs(
    settings: Settings, tables: Sequence[Table], people: int, earlier: Sequence[Earlier]
) -> Crossings:
    """Return the crosstabs of a study, and the measures made of them, as they may be shown.

    Args:
        settings: of the release.
        tables: those of kind ``crosstab`` and ``association``, as finished.
        people: of the cohort.
        earlier: releases over the same people.
    """
    crosstabs = [table for table in tables if table.kind == "crosstab"]
    if not crosstabs:
        return Crossings((), (), (), universe_of(settings.study.factors).coordinates)
    universe = universe_of(settings.study.factors)
    counted = [one for table in crosstabs for one in _counted(settings, table, people, universe)]
    for name in _complete(settings, crosstabs, people):
        universe.coordinates[name] = settings.study.factors[name].levels
    for release in earlier:
        _add_earlier(universe, release)
    universe.add(Counted(PEOPLE, {}, people, Standing.PUBLIC), *counted)
    rounding = settings.rounding
    try:
        known = universe.tables()
        found = suppress(known, rounding.rule)
    except RefusedError as error:
        return _held(tables, counted, universe, error.message)
    if isinstance(found, Held):
        return _held(tables, counted, universe, GIVEN_AWAY)
    figures = rounding.table(known, found)
    shown = [_shown(table, figures) for table in crosstabs]
    by_name = {table.analysis: table for table in shown}
    measures = [
        _measures(table, by_name[table.analysis.partition(".")[0]])
        for table in tables
        if table.kind == "association"
    ]
    hidden = frozenset(found.hidden)
    final = [
        replace(one, standing=Standing.WITHHELD if one.name in hidden else Standing.PUBLIC)
        if one.standing is Standing.ASKED
        else one
        for one in counted
    ]
    order = {table.analysis: place for place, table in enumerate(tables)}
    return Crossings(
        tuple(sorted((*shown, *measures), key=lambda table: order[table.analysis])),
        tuple(
            result
            for table in crosstabs
            for result in _results(settings, table, found.primary, found.secondary)
        ),
        tuple(final),
        universe.coordinates,
    )


def universe_of(factors: Mapping[str, Factor]) -> Universe:
    """Return the coordinates of a study's factors; somebody may have no level of any."""
    return Universe({factor: (*entry.levels, MISSING) for factor, entry in factors.items()})


def within(universe: Universe, where: Condition | None) -> Choice:
    """Return the choice of a subgroup, and add its coordinate."""
    if where is None:
        return {}
    name = subgroup(where)
    universe.coordinates[name] = (INSIDE, OUTSIDE)
    return {name: (INSIDE,)}


def _counted(settings: Settings, table: Table, people: int, universe: Universe) -> list[Counted]:
    """Return the cells of a crosstab, and who is in none of them."""
    spec = settings.study.analyses[table.analysis]
    assert isinstance(spec, CrosstabSpec)  # noqa: S101 - the kind of the table says so
    inside = within(universe, spec.where)
    names = table.columns[: len(spec.factors)]
    count = table.columns.index("count")
    found = [
        Counted(_name(table, row), _choice(names, row, inside), number)
        for row in table.rows
        if (number := whole(row[count])) is not None
    ]
    if len(found) == len(table.rows) and spec.where is None:
        every: Choice = {name: settings.study.factors[name].levels for name in names}
        rest = people - sum(one.people for one in found)
        if rest:
            found.append(
                Counted(set_name(table.analysis, MISSING_NAME), inside, rest, Standing.UNASKED, every)
            )
    return found


def _complete(settings: Settings, crosstabs: Sequence[Table], people: int) -> frozenset[str]:
    """Return the factors of which everybody has a level: an attacker may know that, so nothing is hidden behind it."""
    found: set[str] = set()
    for table in crosstabs:
        spec = settings.study.analyses[table.analysis]
        counts = [whole(row[table.columns.index("count")]) for row in table.rows]
        if isinstance(spec, CrosstabSpec) and spec.where is None and None not in counts:
            found |= {*spec.factors} if sum(count or 0 for count in counts) == people else set()
    return frozenset(found)


def _add_earlier(universe: Universe, release: Earlier) -> None:
    for name, factor in release.factors.items():
        if name not in universe.coordinates:
            universe.coordinates[name] = (*factor.levels, MISSING)
        elif universe.coordinates[name][: len(factor.levels)] != factor.levels:
            universe.coordinates[release.study, name] = (*factor.levels, MISSING)
    for (analysis, levels), people in release.counts.items():
        spec = release.specs[analysis]
        choice: dict[Coordinate, Collection[str]] = {**within(universe, spec.where)}
        for name, level in zip(spec.factors, levels, strict=True):
            levels_of = release.factors[name].levels
            same = universe.coordinates[name][: len(levels_of)] == levels_of
            choice[name if same else (release.study, name)] = (level,)
        public = (analysis, levels) in release.shown
        called = set_name(f"{release.study}:{analysis}", *levels)
        universe.add(Counted(called, choice, people, Standing.PUBLIC if public else Standing.WITHHELD))


def _name(table: Table, row: Sequence[Cell]) -> str:
    levels = (f"{name}[{level}]" for name, level in _levels(table, row))
    return set_name(table.analysis, *levels)


def _levels(table: Table, row: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return factor and level of a cell: the columns before the count."""
    end = table.columns.index("count")
    return [(name, str(level)) for name, level in zip(table.columns[:end], row[:end], strict=True)]


def _choice(names: Sequence[str], row: Sequence[Cell], inside: Choice) -> Choice:
    return {**inside, **{name: (str(level),) for name, level in zip(names, row, strict=False)}}


def _shown(table: Table, figures: Mapping[str, Figure]) -> Table:
    """Return a crosstab with hidden and rounded counts, and percentages of these."""
    place = {name: table.columns.index(name) for name in ("count", "row_percent", "column_percent", "status")}
    counts = [figures.get(_name(table, row), row[place["count"]]) for row in table.rows]
    heads = [tuple(level for _, level in _levels(table, row)) for row in table.rows]
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


def _square(
    crosstab: Table, layer: tuple[str, ...]
) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]] | None":
    """Return the shown counts of a layer, (rows, columns); None where one is hidden."""
    count = crosstab.columns.index("count")
    held = [row for row in crosstab.rows if tuple(map(str, row[: len(layer)])) == layer]
    values = [number for row in held if (number := whole(row[count])) is not None]
    if len(values) < len(held):
        return None
    width = len({row[count - 1] for row in held})
    return np.array(values, np.int64).reshape(-1, width)


def whole(cell: Cell) -> int | None:
    """Return a cell that holds a whole number, None for any other."""
    return None if isinstance(cell, Absent | str | float) else int(cell)


def _held(tables: Sequence[Table], counted: Sequence[Counted], universe: Universe, what: str) -> Crossings:
    """Return nothing of the tables, for a reason."""
    return Crossings(
        tuple(all_hidden(table) for table in tables),
        tuple(
            RuleResult("complement_suppression", table.analysis, Outcome.WITHHELD, what) for table in tables
        ),
        tuple(replace(one, standing=Standing.WITHHELD) for one in counted),
        universe.coordinates,
    )


def all_hidden(table: Table, reason: Absent = HIDDEN, status: Status = Status.HIDDEN) -> Table:
    """Return a table without a number; what names its rows stays."""
    end = table.columns.index("status")
    rows = tuple(
        tuple(
            status.value if place == end else cell if isinstance(cell, str) else reason
            for place, cell in enumerate(row)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def _results(
    settings: Settings, table: Table, primary: Sequence[str], secondary: Sequence[str]
) -> list[RuleResult]:
    """Return what the rules about counts did to a crosstab."""
    names = {_name(table, row) for row in table.rows}
    return count_results(settings, table.analysis, bool(names & {*primary}), bool(names & {*secondary}))


def count_results(settings: Settings, table: str, small: bool, further: bool) -> list[RuleResult]:
    """Return the results of the rules about counts of people for one table."""
    if settings.noised:
        return [RuleResult("primary_suppression", table, Outcome.PASSED, "counts carry noise; none is exact")]
    if settings.threshold <= 1 and settings.base == 1:
        return []
    least, base = settings.threshold, settings.base
    primary = f"counts below {least} are hidden" if small else f"no count below {least}"
    complement = "further counts are hidden with them" if further else "no other count had to be hidden"
    return [
        RuleResult("primary_suppression", table, Outcome.CHANGED if small else Outcome.PASSED, primary),
        RuleResult(
            "complement_suppression", table, Outcome.CHANGED if further else Outcome.PASSED, complement
        ),
        RuleResult(
            "count_rounding",
            table,
            Outcome.CHANGED if base > 1 else Outcome.WAIVED,
            f"counts are multiples of {base}" if base > 1 else "counts are as they are",
        ),
    ]
