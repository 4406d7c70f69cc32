"""Tables that describe single variables at the cohort gate: summaries, histograms, proportions, quantiles.

Per variable, everything that a release counts of it is judged together and with the crosstabs: how many of each group have a value and
how many have none, the bins of its histograms, who is above a threshold. The number is parted wherever one of these tables parts it.

Two things may have to be hidden. A *group* that is small, and further groups with it: then nothing of their rows is shown, since a mean of
all and the means of the others give that of the rest. A *number* of people that tells a small one by subtraction, as n does where
nearly everybody has a value: then numbers of people are hidden, and means stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition import HistogramSpec, ProportionSpec, QuantilesSpec, SummarySpec
from cohortsum.study.definition.expressions import Condition
from cohortsum.study.disclosure.crosstabs import PEOPLE, Crossings, whole, within
from cohortsum.study.disclosure.rounding import HIDDEN, Figure
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.suppression import Held, suppress
from cohortsum.study.disclosure.tables import Standing
from cohortsum.study.disclosure.universe import MISSING, Choice, Coordinate, Counted, Universe
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.texts import plain

FIRST_FIGURE = {"summary": "n", "histogram": "count", "proportion": "count", "quantiles": "value"}
"""The column from which on a row holds figures; before it stands what names the row."""
Asked = SummarySpec | HistogramSpec | ProportionSpec | QuantilesSpec
Cut = tuple[float, int]
"""Where a number is parted: below a value (0), or up to and with it (1)."""


@dataclass(frozen=True, slots=True)
class Place:
    """A count in a table: its row and its column."""

    table: str
    row: int
    column: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What may be shown of the tables about one variable.

    Attributes:
        figures: the counts, by their place.
        groups: rows of which nothing may be shown, as (table, row).
        small: whether some count was hidden for its own sake.
        further: whether some other was hidden with it.
    """

    figures: Mapping[Place, Figure]
    groups: frozenset[tuple[str, int]]
    small: bool
    further: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A count with who it is about, along the coordinates of groups and of the variable."""

    place: Place
    group: Choice
    part: tuple[str, ...]
    people: int


class Described:
    """All tables about one variable.

    Args:
        settings: of the release.
        variable: a number, or a factor whose levels a proportion counts.
        tables: those of `FIRST_FIGURE`.
        people: of the cohort.
        crossings: the cells of crosstabs, public or withheld.
    """

    def __init__(
        self,
        settings: Settings,
        variable: str,
        tables: Sequence[Table],
        people: int,
        crossings: Crossings,
    ) -> None:
        self._settings, self._variable, self._people = settings, variable, people
        self._tables = [table for table in tables if variable in self._names(table)]
        self._crossings = crossings.counted
        self._cuts = sorted({cut for table in self._tables for cut in self._cuts_of(table)})
        self._universe = Universe(dict(crossings.coordinates))
        factor = settings.study.factors.get(variable)
        bands = tuple(map(str, range(len(self._cuts) + 1)))
        self._parts = bands if factor is None else factor.levels
        self._coordinate: Coordinate = ("value", variable) if factor is None else variable
        self._universe.coordinates[self._coordinate] = (*self._parts, MISSING)
        for name in self._complete():
            self._universe.coordinates[name] = settings.study.factors[name].levels

    def judged(self) -> Judged:
        """Return what may be shown."""
        lines = [line for table in self._tables for line in self._lines(table)]
        rounding = self._settings.rounding
        rule = rounding.rule
        if rule.threshold <= 1 or not lines:
            return Judged(
                {line.place: rounding.count(line.people) for line in lines}, frozenset(), False, False
            )
        sizes = [line for line in lines if line.place.column == "n"]  # a histogram alone has none
        groups = self._hidden(sizes, set(), alone=True) if sizes else set[str]()
        rows = frozenset((line.place.table, line.place.row) for line in lines if _called(line) in groups)
        hidden = self._hidden(lines, groups)
        figures: dict[Place, Figure] = {
            line.place: HIDDEN if _called(line) in hidden else rounding.count(line.people) for line in lines
        }
        small = any(rule.least <= line.people < rule.threshold for line in lines)
        others = any(line.people >= rule.threshold for line in lines if _called(line) in hidden)
        return Judged(figures, rows, small, others)

    def _hidden(self, lines: Sequence[_Line], withheld: set[str], alone: bool = False) -> set[str]:
        """Return the names of the counts that are hidden, ``withheld`` among them; ``alone``: whatever totals and crosstabs tell."""
        universe = Universe(dict(self._universe.coordinates))
        if not alone:
            universe.add(Counted(PEOPLE, {}, self._people, Standing.PUBLIC), *self._near(lines))
        for line in lines:
            name = _called(line)
            standing = Standing.WITHHELD if name in withheld else Standing.ASKED
            universe.add(Counted(name, {**line.group, self._coordinate: line.part}, line.people, standing))
        rule = self._settings.rounding.rule
        try:
            found = suppress(universe.tables(), rule)
        except RefusedError:  # too many to be checked against each other: none of them is shown
            return {_called(line) for line in lines}
        if isinstance(found, Held):
            return {_called(line) for line in lines}
        return withheld | {*found.hidden}

    def _complete(self) -> frozenset[str]:
        """Return the grouping factors of which everybody has a level: an attacker may know that."""
        found: set[str] = set()
        for table in self._tables:
            spec = self._spec(table)
            if isinstance(spec, SummarySpec | ProportionSpec) and spec.where is None:
                n, missing = table.columns.index("n"), table.columns.index("missing")
                rows = {
                    tuple(row[table.columns.index(name)] for name in spec.by): row
                    for row in table.rows
                    if row[0] == self._variable
                }
                counts = [whole(row[place]) for row in rows.values() for place in (n, missing)]
                if None not in counts and sum(count or 0 for count in counts) == self._people:
                    found |= {*spec.by}
        return frozenset(found)

    def _near(self, lines: Sequence[_Line]) -> Iterator[Counted]:
        """Yield the cells of crosstabs that share a factor or a subgroup with these tables."""
        shared = {name for line in lines for name in line.group} | {self._coordinate}
        for one in self._crossings:
            if shared & one.choice.keys():
                yield one

    def _names(self, table: Table) -> frozenset[str]:
        place = table.columns.index("variable")
        return frozenset(str(row[place]) for row in table.rows)

    def _spec(self, table: Table) -> Asked:
        spec = self._settings.study.analyses[table.analysis]
        assert isinstance(spec, Asked)  # noqa: S101 - the kind of the table says so
        return spec

    def _cuts_of(self, table: Table) -> Iterator[Cut]:
        if self._variable in self._settings.study.factors:
            return
        match self._spec(table):
            case ProportionSpec(thresholds=thresholds):
                yield from ((threshold, 1) for threshold in thresholds)
            case HistogramSpec() as spec:
                yield from (cut for _, cut in self._bins(table, spec) if cut is not None)
            case _:
                return

    def _bins(self, table: Table, spec: HistogramSpec) -> Iterator[tuple[int, Cut | None]]:
        """Yield the rows of a histogram's bins with the cut above each; the last has none."""
        high = table.columns.index("high")
        mine = [place for place, row in enumerate(table.rows) if row[0] == self._variable]
        for place in mine[:-1]:
            end = table.rows[place][high]
            assert isinstance(end, float | int)  # noqa: S101 - edges are numbers
            yield place, (float(end), int(end == spec.edges[-1]))
        yield mine[-1], None

    def _lines(self, table: Table) -> Iterator[_Line]:
        """Yield every count of the variable in a table."""
        spec = self._spec(table)
        where: Condition | None = spec.where
        inside = within(self._universe, where)
        if isinstance(spec, HistogramSpec):
            yield from self._histogram(table, spec, inside)
            return
        for row in range(len(table.rows)):
            if table.rows[row][0] == self._variable:
                group = {**inside, **self._group(table, spec, row)}
                yield from self._of(table, row, group, "n", self._parts)
                yield from self._of(table, row, group, "missing", (MISSING,))
                if isinstance(spec, ProportionSpec):
                    yield from self._of(table, row, group, "count", self._counted(table, spec, row))

    def _histogram(self, table: Table, spec: HistogramSpec, inside: Choice) -> Iterator[_Line]:
        below = 0
        for row, cut in self._bins(table, spec):
            above = len(self._cuts) if cut is None else self._cuts.index(cut)
            yield from self._of(table, row, inside, "count", self._parts[below : above + 1])
            yield from self._of(table, row, inside, "missing", (MISSING,))
            below = above + 1

    def _counted(self, table: Table, spec: ProportionSpec, row: int) -> tuple[str, ...]:
        """Return the parts of the variable that a row of a proportion counts."""
        level = str(table.rows[row][table.columns.index("level")])
        if self._variable in self._settings.study.factors:
            return (level,)
        (threshold,) = (one for one in spec.thresholds if f"> {plain(one)}" == level)
        return self._parts[self._cuts.index((threshold, 1)) + 1 :]

    def _group(self, table: Table, spec: Asked, row: int) -> Choice:
        """Return the choice of a row's group; a banded number is a coordinate of its own."""
        assert not isinstance(spec, HistogramSpec)  # noqa: S101 - it has no groups
        choice: dict[Coordinate, tuple[str, ...]] = {}
        for name in spec.by:
            choice[name] = (str(table.rows[row][table.columns.index(name)]),)
        if isinstance(spec, QuantilesSpec):
            for name, cuts in spec.bands.items():
                at = table.columns.index(name)
                bands = tuple(dict.fromkeys(str(one[at]) for one in table.rows))
                coordinate: Coordinate = ("bands", name, tuple(cuts))
                self._universe.coordinates[coordinate] = (*bands, MISSING)
                choice[coordinate] = (str(table.rows[row][at]),)
        return choice

    def _of(
        self, table: Table, row: int, group: Choice, column: str, part: tuple[str, ...]
    ) -> Iterator[_Line]:
        people = whole(table.rows[row][table.columns.index(column)])
        if people is not None:
            yield _Line(Place(table.analysis, row, column), group, part, people)


def _called(line: _Line) -> str:
    return f"{line.place.table}#{line.place.row}#{line.place.column}"


def described_variables(tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the variables that tables of `FIRST_FIGURE` are about, in order."""
    return tuple(
        dict.fromkeys(
            str(row[table.columns.index("variable")])
            for table in tables
            if table.kind in FIRST_FIGURE
            for row in table.rows
        )
    )


def without_groups(table: Table, rows: frozenset[int]) -> Table:
    """Return a table in which nothing is shown of some rows but what names them."""
    end = table.columns.index("status")
    head = table.columns.index(FIRST_FIGURE[table.kind])
    return replace(
        table,
        rows=tuple(
            (*row[:head], *(HIDDEN,) * (end - head), Status.HIDDEN.value, *(HIDDEN,) * (len(row) - end - 1))
            if place in rows
            else row
            for place, row in enumerate(table.rows)
        ),
    )
