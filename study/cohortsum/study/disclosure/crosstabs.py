"""Groups and contingency tables at the cohort gate: all of a study's, and those of earlier releases over the same people, judged together.

A cell is hidden that is small, and the cheapest others that keep it hidden (`suppression`). Judged with the cells of crosstabs are the
counts of factors that proportions print, and how many people each group of any table has, whether that is printed or not: a group is
then hidden in all tables or in none. Nobody prints a margin, but it may follow from another table; how many people there are is known
to every site, so that is public. The people in no cell are nobody's number, and are protected like a cell.

Earlier releases are public where they showed a number, and what they hid stays hidden. If no pattern is safe because of them, the new
tables are held whole.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition import CrosstabSpec
from cohortsum.study.definition.expressions import Condition
from cohortsum.study.disclosure.counted_lines import (
    GroupKey,
    VariableLines,
    group_key,
    group_totals,
    subgroup,
    whole,
)
from cohortsum.study.disclosure.rounding import Figure
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.suppression import Held, suppress
from cohortsum.study.disclosure.tables import Standing, Tables
from cohortsum.study.disclosure.universe import (
    INSIDE,
    MISSING,
    OUTSIDE,
    Choice,
    Coordinate,
    Counted,
    Universe,
)
from cohortsum.study.results import Cell, Table
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.variables import Factor

PEOPLE = "people"
MISSING_NAME = "missing"
GIVEN_AWAY = "what is public already would give small counts away, whatever is hidden here"
DIFFERENT_SITES = (
    "sites supply some of these tables and not others, so that they cannot be checked against each other"
)


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
    """What became of groups and crosstabs.

    Attributes:
        figures: every count by its name, as it may be shown.
        small: names of the counts that are hidden for their own sake.
        further: names of those hidden with them.
        hidden_groups: groups of which no table shows anything.
        totals: how many people are in every group, and have a level that a crosstab counts; hidden ones included.
        counted: all of this, as other tables must take it: public, or withheld.
        coordinates: that it is told by.
        held: why nothing of it may be shown; empty where some of it may.
    """

    figures: Mapping[str, Figure]
    small: frozenset[str]
    further: frozenset[str]
    hidden_groups: frozenset[GroupKey]
    totals: Mapping[GroupKey, int]
    counted: tuple[Counted, ...]
    coordinates: Mapping[Coordinate, tuple[str, ...]]
    held: str = ""


NO_CROSSINGS = Crossings({}, frozenset(), frozenset(), frozenset(), {}, (), {})


def judge_crosstabs(
    settings: Settings,
    crosstabs: Sequence[Table],
    people: int,
    earlier: Sequence[Earlier],
    described: Sequence[VariableLines],
) -> Crossings:
    """Return what may be shown of crosstabs, and of the groups in tables about single variables.

    Args:
        settings: of the release.
        crosstabs: the tables of that kind, as finished.
        people: of the cohort.
        earlier: releases over the same people.
        described: the counts of single variables.
    """
    factors = settings.study.factors
    universe = Universe({factor: (*entry.levels, MISSING) for factor, entry in factors.items()})
    for one in described:
        universe.coordinates |= {
            name: parts for name, parts in one.coordinates.items() if name != one.coordinate
        }
    counted = [cell for table in crosstabs for cell in _cells(settings, table, people, universe)]
    counted += [count for one in described if one.variable in factors for count in one.counted()]
    groups = _groups(settings, crosstabs, described)
    counted += groups.values()
    for name in _complete(settings, crosstabs, people).union(*(one.complete for one in described)):
        universe.coordinates[name] = factors[name].levels
    for release in earlier:
        _add_earlier(universe, release)
    universe.add(Counted(PEOPLE, {}, people, Standing.PUBLIC), *counted)
    held = Crossings(
        {},
        frozenset(),
        frozenset(),
        frozenset(groups),
        {**_levels(settings, crosstabs), **{key: total.people for key, total in groups.items()}},
        tuple(replace(one, standing=Standing.WITHHELD) for one in counted),
        universe.coordinates,
    )
    try:
        known = universe.tables()
        found = suppress(known, settings.rounding.rule)
    except RefusedError as error:
        return replace(held, held=error.message)
    except ValueError:  # the counts contradict each other
        return replace(held, held=DIFFERENT_SITES)
    if isinstance(found, Held):
        return replace(held, held=GIVEN_AWAY)
    hidden = frozenset(found.hidden) | _withheld(known)
    return replace(
        held,
        figures=settings.rounding.table(known, found),
        small=frozenset(found.primary),
        further=frozenset(found.secondary),
        hidden_groups=frozenset(key for key, total in groups.items() if total.name in hidden),
        counted=tuple(
            replace(one, standing=Standing.WITHHELD if one.name in hidden else Standing.PUBLIC)
            if one.standing is Standing.ASKED
            else one
            for one in counted
        ),
    )


def cell_name(table: Table, row: Sequence[Cell]) -> str:
    """Return the name of a crosstab's cell."""
    return set_name(table.analysis, *(f"{name}[{level}]" for name, level in levels_of(table, row)))


def levels_of(table: Table, row: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return factor and level of a crosstab's cell: the columns before the count."""
    end = table.columns.index("count")
    return [(name, str(level)) for name, level in zip(table.columns[:end], row[:end], strict=True)]


def _withheld(known: Tables) -> frozenset[str]:
    gone = (cell for cell in known.cells if cell.standing is Standing.WITHHELD)
    return frozenset(name for cell in gone for name in (cell.name, *cell.also))


def _spec(settings: Settings, table: Table) -> CrosstabSpec:
    spec = settings.study.analyses[table.analysis]
    assert isinstance(spec, CrosstabSpec)  # noqa: S101 - the kind of the table says so
    return spec


def _inside(universe: Universe, where: Condition | None) -> Choice:
    """Return the choice of a subgroup, and add its coordinate."""
    if where is None:
        return {}
    universe.coordinates[subgroup(where)] = (INSIDE, OUTSIDE)
    return {subgroup(where): (INSIDE,)}


def _cells(settings: Settings, table: Table, people: int, universe: Universe) -> list[Counted]:
    """Return the cells of a crosstab, and who is in none of them."""
    spec = _spec(settings, table)
    inside = _inside(universe, spec.where)
    count = table.columns.index("count")
    found = [
        Counted(cell_name(table, row), {**inside, **_choice(table, row)}, number)
        for row in table.rows
        if (number := whole(row[count])) is not None
    ]
    if len(found) == len(table.rows) and spec.where is None:
        every: Choice = {name: settings.study.factors[name].levels for name in spec.factors}
        rest = people - sum(one.people for one in found)
        if rest:
            name = set_name(table.analysis, MISSING_NAME)
            found.append(Counted(name, inside, rest, Standing.UNASKED, every))
    return found


def _choice(table: Table, row: Sequence[Cell]) -> Choice:
    return {name: (level,) for name, level in levels_of(table, row)}


def _groups(
    settings: Settings, crosstabs: Iterable[Table], described: Iterable[VariableLines]
) -> dict[GroupKey, Counted]:
    """Return the groups of tables about single variables, with the people that a crosstab knows of them where these are more."""
    found = dict(group_totals(described))
    for table in crosstabs:
        spec, count = _spec(settings, table), table.columns.index("count")
        inside: Choice = {} if spec.where is None else {subgroup(spec.where): (INSIDE,)}
        sums: dict[GroupKey, int] = {}
        for row in table.rows:
            for key in found:
                choice = {**inside, **_choice(table, row)}
                if key <= group_key(choice) and {*inside} <= {name for name, _ in key}:
                    sums[key] = sums.get(key, 0) + (whole(row[count]) or 0)
        for key, people in sums.items():
            if people > found[key].people:
                found[key] = replace(found[key], people=people)
    return found


def _levels(settings: Settings, crosstabs: Iterable[Table]) -> dict[GroupKey, int]:
    """Return how many people have each level of the factors that crosstabs of everybody count."""
    found: dict[GroupKey, int] = {}
    for table in crosstabs:
        if _spec(settings, table).where is not None:
            continue
        count, sums = table.columns.index("count"), dict[GroupKey, int]()
        for row in table.rows:
            for name, level in levels_of(table, row):
                key = group_key({name: (level,)})
                sums[key] = sums.get(key, 0) + (whole(row[count]) or 0)
        found |= {key: max(people, found.get(key, 0)) for key, people in sums.items()}
    return found


def _complete(settings: Settings, crosstabs: Iterable[Table], people: int) -> frozenset[str]:
    """Return the factors of which everybody has a level: an attacker may know that, so nothing is hidden behind it."""
    found: set[str] = set()
    for table in crosstabs:
        spec = _spec(settings, table)
        counts = [whole(row[table.columns.index("count")]) for row in table.rows]
        if spec.where is None and None not in counts:
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
        choice: dict[Coordinate, Collection[str]] = {**_inside(universe, spec.where)}
        for name, level in zip(spec.factors, levels, strict=True):
            known = release.factors[name].levels
            same = universe.coordinates[name][: len(known)] == known
            choice[name if same else (release.study, name)] = (level,)
        public = (analysis, levels) in release.shown
        called = set_name(f"{release.study}:{analysis}", *levels)
        universe.add(Counted(called, choice, people, Standing.PUBLIC if public else Standing.WITHHELD))


def level_total(crossings: Crossings, factor: str, level: str) -> int | None:
    """Return how many people have a level, where some table counts them; None where none does."""
    return crossings.totals.get(group_key({factor: (level,)}))
