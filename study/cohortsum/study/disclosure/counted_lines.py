"""Counts in tables that describe single variables, as sets of people: summaries, histograms, proportions, quantiles.

The number is parted wherever one of these tables parts it, and who has no value is a part of its own. A row's group is a choice along
the coordinates of its factors, of its bands and of its subgroup (`universe`). A factor whose levels a proportion counts is no different
from one that makes groups, so its counts are those of a crosstab.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.study.definition import FrozenStudy, HistogramSpec, ProportionSpec, QuantilesSpec, SummarySpec
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.disclosure.tables import Standing
from cohortsum.study.disclosure.universe import INSIDE, MISSING, OUTSIDE, Choice, Coordinate, Counted
from cohortsum.study.results import Absent, Cell, Table
from cohortsum.study.statistics.texts import plain

FIRST_FIGURE = {"summary": "n", "histogram": "count", "proportion": "count", "quantiles": "value"}
"""By kind, the column from which on a row holds figures; before it stands what names the row."""
Asked = SummarySpec | HistogramSpec | ProportionSpec | QuantilesSpec
Cut = tuple[float, int]
"""Where a number is parted: below a value (0), or up to and with it (1)."""
TOTAL = "total"
GroupKey = frozenset[tuple[Coordinate, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Place:
    """A count in a table: its row and its column."""

    table: str
    row: int
    column: str


@dataclass(frozen=True, slots=True)
class Line:
    """A count with who it is about.

    Attributes:
        place: where it stands.
        group: along the coordinates of groups.
        part: along the coordinate of the variable.
        people: how many.
    """

    place: Place
    group: Choice
    part: tuple[str, ...]
    people: int

    @property
    def name(self) -> str:
        """Return a name that is unique among all lines."""
        return f"{self.place.table}#{self.place.row}#{self.place.column}"


def subgroup(where: Condition) -> Coordinate:
    """Return the coordinate of a subgroup; conditions that read alike are one."""
    return ("where", render(where))


def whole(cell: Cell) -> int | None:
    """Return a cell that holds a whole number, None for any other."""
    return None if isinstance(cell, Absent | str | float) else int(cell)


def group_key(group: Choice) -> GroupKey:
    """Return a group as something that can be compared."""
    return frozenset((coordinate, tuple(parts)) for coordinate, parts in group.items())


@dataclass
class VariableLines:
    """All counts about one variable.

    Attributes:
        variable: a number, or a factor whose levels a proportion counts.
        coordinate: of the variable.
        coordinates: of the variable, of bands and of subgroups, with their parts.
        lines: the counts.
        complete: factors of which everybody has a level: an attacker may know that, so nothing is hidden behind it.
    """

    study: FrozenStudy
    variable: str
    tables: Sequence[Table]
    people: int
    coordinate: Coordinate = field(init=False)
    coordinates: dict[Coordinate, tuple[str, ...]] = field(init=False)
    lines: tuple[Line, ...] = field(init=False)
    complete: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Read the tables."""
        place = "variable"
        self.tables = [
            table
            for table in self.tables
            if self.variable in {str(row[table.columns.index(place)]) for row in table.rows}
        ]
        factor = self.study.factors.get(self.variable)
        self._cuts = sorted({cut for table in self.tables for cut in self._cuts_of(table)})
        bands = tuple(map(str, range(len(self._cuts) + 1)))
        self._parts = bands if factor is None else factor.levels
        self.coordinate = ("value", self.variable) if factor is None else self.variable
        self.coordinates = {self.coordinate: (*self._parts, MISSING)}
        self.lines = tuple(line for table in self.tables for line in self._lines(table))
        self.complete = frozenset(self._complete())

    @property
    def totals(self) -> Iterator[tuple[Choice, int]]:
        """Yield every group with its people, those without a value included."""
        rows: dict[tuple[str, int], dict[str, Line]] = {}
        for line in self.lines:
            rows.setdefault((line.place.table, line.place.row), {})[line.place.column] = line
        for held in rows.values():
            if {"n", "missing"} <= held.keys():
                yield held["n"].group, held["n"].people + held["missing"].people

    def counted(self) -> Iterator[Counted]:
        """Yield the counts of a factor, as a crosstab has them."""
        for line in self.lines:
            yield Counted(line.name, {**line.group, self.coordinate: line.part}, line.people)

    def _spec(self, table: Table) -> Asked:
        spec = self.study.analyses[table.analysis]
        assert isinstance(spec, Asked)  # noqa: S101 - the kind of the table says so
        return spec

    def _complete(self) -> Iterator[str]:
        for table in self.tables:
            spec = self._spec(table)
            if isinstance(spec, SummarySpec | ProportionSpec) and spec.where is None:
                n, missing = table.columns.index("n"), table.columns.index("missing")
                rows = {
                    tuple(row[table.columns.index(name)] for name in spec.by): row
                    for row in table.rows
                    if row[0] == self.variable
                }
                counts = [whole(row[place]) for row in rows.values() for place in (n, missing)]
                if None not in counts and sum(count or 0 for count in counts) == self.people:
                    yield from spec.by

    def _cuts_of(self, table: Table) -> Iterator[Cut]:
        if self.variable in self.study.factors:
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
        mine = [place for place, row in enumerate(table.rows) if row[0] == self.variable]
        for place in mine[:-1]:
            end = table.rows[place][high]
            assert isinstance(end, float | int)  # noqa: S101 - edges are numbers
            yield place, (float(end), int(end == spec.edges[-1]))
        yield mine[-1], None

    def _lines(self, table: Table) -> Iterator[Line]:
        """Yield every count of the variable in a table."""
        spec = self._spec(table)
        inside: Choice = {}
        if spec.where is not None:
            self.coordinates[subgroup(spec.where)] = (INSIDE, OUTSIDE)
            inside = {subgroup(spec.where): (INSIDE,)}
        if isinstance(spec, HistogramSpec):
            yield from self._histogram(table, spec, inside)
            return
        for row in range(len(table.rows)):
            if table.rows[row][0] == self.variable:
                group = {**inside, **self._group(table, spec, row)}
                yield from self._of(table, row, group, "n", self._parts)
                yield from self._of(table, row, group, "missing", (MISSING,))
                if isinstance(spec, ProportionSpec):
                    yield from self._of(table, row, group, "count", self._counted(table, spec, row))

    def _histogram(self, table: Table, spec: HistogramSpec, inside: Choice) -> Iterator[Line]:
        below = 0
        for row, cut in self._bins(table, spec):
            above = len(self._cuts) if cut is None else self._cuts.index(cut)
            yield from self._of(table, row, inside, "count", self._parts[below : above + 1])
            yield from self._of(table, row, inside, "missing", (MISSING,))
            below = above + 1

    def _counted(self, table: Table, spec: ProportionSpec, row: int) -> tuple[str, ...]:
        """Return the parts of the variable that a row of a proportion counts."""
        level = str(table.rows[row][table.columns.index("level")])
        if self.variable in self.study.factors:
            return (level,)
        (threshold,) = (one for one in spec.thresholds if f"> {plain(one)}" == level)
        return self._parts[self._cuts.index((threshold, 1)) + 1 :]

    def _group(self, table: Table, spec: SummarySpec | ProportionSpec | QuantilesSpec, row: int) -> Choice:
        """Return the choice of a row's group; a banded number is a coordinate of its own."""
        choice: dict[Coordinate, tuple[str, ...]] = {
            name: (str(table.rows[row][table.columns.index(name)]),) for name in spec.by
        }
        if isinstance(spec, QuantilesSpec):
            for name, cuts in spec.bands.items():
                at = table.columns.index(name)
                bands = tuple(dict.fromkeys(str(one[at]) for one in table.rows))
                coordinate: Coordinate = ("bands", name, tuple(cuts))
                self.coordinates[coordinate] = (*bands, MISSING)
                choice[coordinate] = (str(table.rows[row][at]),)
        return choice

    def _of(
        self, table: Table, row: int, group: Choice, column: str, part: tuple[str, ...]
    ) -> Iterator[Line]:
        people = whole(table.rows[row][table.columns.index(column)])
        if people is not None:
            yield Line(Place(table.analysis, row, column), group, part, people)


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


def group_totals(variables: Iterable[VariableLines]) -> Mapping[GroupKey, Counted]:
    """Return how many people each group of these tables has, the greatest number that any of them knows.

    A variable that fewer sites supply is about fewer people; what an attacker may know of a group is the whole of it.
    """
    found: dict[GroupKey, Counted] = {}
    for one in variables:
        for group, people in one.totals:
            if not group:
                continue
            key = group_key(group)
            if key not in found or found[key].people < people:
                name = f"{TOTAL}#{'#'.join(sorted(map(repr, key)))}"
                found[key] = Counted(name, group, people, Standing.ASKED)
    return found
