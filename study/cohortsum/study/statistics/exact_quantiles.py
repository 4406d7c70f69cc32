"""Exact quantiles of numbers by groups, found by a committee on a public grid.

A quantile of n values lies between two of them (type 7 of Hyndman and Fan, as numpy's default): which ranks these have follows from n,
and where ranks lie is searched on shares, so that nothing is opened but their levels. What a site brings to a search is how many of its
people lie in each of some intervals of levels. What it would send in a round of its own is n alone, one people set per variable and
group; a site's rules about sets of people are about these.

Of a group of fewer people than the study lets be counted nothing is searched, and of others no quantile with fewer people than that on
one of its sides: it would nearly be one person's value. The minimum and the maximum are searched where the study asks for them by the
probabilities 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.committee import OrderStatistics, Place, percentile
from cohortsum.protocol.committee.programs import Interval
from cohortsum.study.batch import Batch
from cohortsum.study.definition.fields import as_written
from cohortsum.study.definition.grids import Grid
from cohortsum.study.results import HIDDEN, QUANTILE_COLUMNS, Absent, Cell, Status, Table
from cohortsum.study.statistics.by_committee import NOT_OPENED, CountTable, Found, closed_note
from cohortsum.study.statistics.crossing import NOWHERE
from cohortsum.study.statistics.groups import Groups
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Number

Integers = NDArray[np.int64]
TAILS = Absent("quantile_tails")
FAILED = Absent(Status.NOT_FINISHED)
Levels = Mapping[str, tuple[OrderStatistics, tuple[Interval, ...]]]
"""By search, its last stage and the level of every rank, as an interval of one level."""


@dataclass(frozen=True, slots=True)
class ExactQuantiles(Statistic):
    """Quantiles on a grid.

    Attributes:
        name: name of the analysis.
        variables: what the quantiles are of.
        probabilities: ascending, from 0 to 1.
        step: of the grid, in the unit of the variables.
        groups: who is together.
        least: people that a group has, and that lie on either side of a quantile, at least.
        where: the subgroup, or everybody.
    """

    name: str
    variables: tuple[Number, ...]
    probabilities: tuple[float, ...]
    step: float
    groups: Groups
    least: int
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return one block per variable and group: how many of its people have a value."""
        cells = self.groups.cells
        return tuple(
            Block(
                name,
                "additive",
                1,
                1.0,
                "person",
                0,
                (self.groups.items(cells[column]) | {self.variables[row].name},),
                (name,),
            )
            for row, column, name in self._blocks
        )

    def accumulate(self, batch: Batch) -> State:
        """Return, per variable, the people with a value by group, (groups,) int64."""
        people, groups = self._grouped(batch)
        return {
            variable.name: np.bincount(
                groups[~np.isnan(clipped(batch, variable, people))], minlength=len(self.groups.cells)
            ).astype(np.int64)
            for variable in self.variables
        }

    def members(self, batch: Batch) -> Members:
        """Return who has a value of each variable, by group."""
        people, groups = self._grouped(batch)
        return {
            name: marked(
                batch.people,
                people[(groups == column) & ~np.isnan(clipped(batch, self.variables[row], people))],
            )
            for row, column, name in self._blocks
        }

    def contribute(self, state: State) -> Sums:
        """Return the count of every block."""
        return {
            name: state[self.variables[row].name][column : column + 1].astype(np.int64)
            for row, column, name in self._blocks
        }

    def count_tables(self) -> tuple[CountTable, ...]:
        """Return one table per variable: the people of its groups."""
        cells = range(len(self.groups.cells))
        return tuple(
            CountTable(
                set_name(self.name, variable.name), tuple((self._block(row, column), 0) for column in cells)
            )
            for row, variable in enumerate(self.variables)
        )

    def searches(self, found: Found, width: int) -> tuple[OrderStatistics, ...]:
        """Return the first stage of every search, from the numbers of people that were opened.

        Args:
            found: the opened counts.
            width: intervals into which a stage cuts a bracket.
        """
        programs: list[OrderStatistics] = []
        for row, column, name in self._blocks:
            n = self._people(found, row, column)
            ranks = sorted(
                {rank for place in self._places(n).values() for rank in (place.lower, place.upper)}
            )
            if n is not None and ranks:
                levels = Grid(self.variables[row], self.step).levels
                programs.append(OrderStatistics(name, levels, n, tuple(ranks), width=width))
        return tuple(programs)

    def counted(self, batch: Batch, searches: Sequence[OrderStatistics]) -> Mapping[str, Integers]:
        """Return, per search of this analysis, how many people of a batch lie in each of its intervals, int64."""
        mine = {search.name: search for search in searches}
        people, groups = self._grouped(batch)
        counts: dict[str, Integers] = {}
        for row, variable in enumerate(self.variables):
            values = clipped(batch, variable, people)
            has = ~np.isnan(values)
            levels = Grid(variable, self.step).places(values[has])
            for column in range(len(self.groups.cells)):
                search = mine.get(self._block(row, column))
                if search is not None:
                    starts = [low for low, _ in search.intervals]
                    places = np.searchsorted(starts, levels[groups[has] == column], side="right") - 1
                    counts[search.name] = np.bincount(places, minlength=search.length).astype(np.int64)
        return counts

    def finish_levels(self, found: Found, levels: Levels) -> tuple[Table, ...]:
        """Return one row per variable, group and probability.

        Args:
            found: the opened counts.
            levels: what the searches found; one that is not there came to no end.
        """
        rows: list[tuple[Cell, ...]] = []
        for row, column, name in self._blocks:
            n = self._people(found, row, column)
            places, grid = self._places(n), Grid(self.variables[row], self.step)
            for probability in self.probabilities:
                head: tuple[Cell, ...] = (self.variables[row].name, *self.groups.cells[column], probability)
                cells = _cells(n, places.get(probability), levels.get(name), grid)
                rows.append((*head, *cells, HIDDEN if n is None else n, NOT_OPENED))
        columns = ("variable", *self.groups.columns, "probability", *QUANTILE_COLUMNS)
        return (Table(self.name, "quantiles", columns, tuple(rows), self._notes()),)

    def finish_counts(self, found: Found) -> tuple[Table, ...]:
        """Return the table where nothing could be searched."""
        return self.finish_levels(found, {})

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Refuse: no round of sums answers this."""
        raise ValueError(
            f"analysis {self.name}: a committee finds these quantiles, and no round of sums does"
        )

    def _places(self, n: int | None) -> Mapping[float, Place]:
        """Return where the quantiles that are searched lie among n people."""
        if n is None:
            return {}
        found: dict[float, Place] = {}
        for probability in self.probabilities:
            exact = as_written(probability)
            beside = n * min(exact, 1 - exact)
            if exact in (0, 1) or beside >= self.least:
                found[probability] = percentile(n, 100 * exact)
        return found

    def _people(self, found: Found, row: int, column: int) -> int | None:
        n = found[set_name(self.name, self.variables[row].name)][column]
        return n if n else None

    def _grouped(self, batch: Batch) -> tuple[NDArray[np.intp], Integers]:
        """Return the people who are in a group, and the group of each."""
        people = selected(batch, self.where)
        groups = self.groups.places(batch, people)
        return people[groups != NOWHERE], groups[groups != NOWHERE]

    def _block(self, row: int, column: int) -> str:
        cell = self.groups.cells[column]
        return set_name(self.name, self.variables[row].name, *self.groups.names(cell), "people")

    @property
    def _blocks(self) -> tuple[tuple[int, int, str], ...]:
        return tuple(
            (row, column, self._block(row, column))
            for row in range(len(self.variables))
            for column in range(len(self.groups.cells))
        )

    def _notes(self) -> tuple[str, ...]:
        notes = [
            "Between the values of two people a quantile is interpolated (type 7 of Hyndman and Fan).",
            f"Values are told in steps of {self.step:g}.",
            closed_note(self.least),
        ]
        if any(0.0 < probability < 1.0 for probability in self.probabilities):
            notes.append(
                f"A quantile with fewer than {self.least} people on one of its sides is not searched."
            )
        if self.groups.columns:
            notes.append(f"People without a value of {', '.join(self.groups.columns)} are in no row.")
        return tuple(notes)


def _cells(
    n: int | None,
    place: Place | None,
    found: tuple[OrderStatistics, tuple[Interval, ...]] | None,
    grid: Grid,
) -> tuple[Cell, Cell, Cell]:
    """Return value, error_bound and status of a row."""
    if n is None:
        return HIDDEN, HIDDEN, Status.HIDDEN.value
    if place is None:
        return TAILS, TAILS, Status.HIDDEN.value
    if found is None:
        return FAILED, FAILED, Status.NOT_FINISHED.value
    search, intervals = found
    level_of = {rank: low for rank, (low, _) in zip(search.ranks, intervals, strict=True)}
    low, high = (grid.value(level_of[rank]) for rank in (place.lower, place.upper))
    return place.between(low, high), float(Fraction(as_written(grid.step), 2)), Status.OK.value
