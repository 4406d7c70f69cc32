"""What a study asks of its quantiles, and the table of them from the counts of one round or two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cohortsum.study.results import NO_DATA, QUANTILE_COLUMNS, REFINED_COLUMN, Absent, Cell, Status, Table
from cohortsum.study.statistics.bins import SLACK, Bins
from cohortsum.study.statistics.groups import Groups
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.statistics.ranks import Spot, bin_of, ranks, spot
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Number

Place = tuple[int, int, int]
"""A bin of a group of a variable: the numbers of variable, group and bin."""
Counts = Mapping[str, tuple[int, ...]]
"""People of the bins of a block in order, then those without a value; blocks with too few suppliers are absent."""
Parts = Mapping[Place, tuple[int, ...]]
"""People of the parts of bins that were looked at more closely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the study asks for.

    Attributes:
        analysis: name of the analysis.
        variables: what the quantiles are of.
        probabilities: ascending, above 0 and below 1.
        edges: bin edges in the unit of the variables.
        groups: who is together.
        refine: the width to which a second round looks at the bins that hold a quantile; None for one round.
        min_bin: people that such a bin has at least.
        where: the subgroup, or everybody.
    """

    analysis: str
    variables: tuple[Number, ...]
    probabilities: tuple[float, ...]
    edges: tuple[float, ...]
    groups: Groups
    refine: float | None
    min_bin: int
    where: Where | None

    def bins(self, row: int) -> Bins:
        """Return the bins of a variable."""
        return Bins(self.variables[row], self.edges)

    def block(self, row: int, column: int) -> str:
        """Return the name of the block of a group of a variable; the bins' people sets begin with it."""
        return set_name(self.analysis, *self._parts(row, column))

    def sets(self, row: int, column: int) -> tuple[str, ...]:
        """Return the names of the people sets of a block: every bin, then those without a value."""
        parts = self._parts(row, column)
        return tuple(set_name(self.analysis, *parts, last) for last in (*self.bins(row).names, "missing"))

    def part_sets(self, place: Place) -> tuple[str, ...]:
        """Return the names of the people sets of the parts of a bin."""
        row, column, number = place
        parts = self._parts(row, column)
        names = self.bins(row).part_names(number, self.width)
        return tuple(set_name(self.analysis, *parts, last) for last in names)

    @property
    def width(self) -> float:
        """The width to refine to; asked of a study that refines."""
        assert self.refine is not None, "this study refines no quantile"  # noqa: S101
        return self.refine

    @property
    def blocks(self) -> Iterator[tuple[int, int, str]]:
        """Yield the numbers of every variable and group, and the name of their block."""
        for row in range(len(self.variables)):
            for column in range(len(self.groups.cells)):
                yield row, column, self.block(row, column)

    def worth_refining(self, counts: Counts) -> tuple[Place, ...]:
        """Return the bins that hold the person of a wanted rank, are wider than asked and have enough people, in order."""
        found: set[Place] = set()
        for row, column, block in self.blocks:
            *people, _ = counts.get(block, (0,))
            bins = self.bins(row)
            for number in {bin_of(people, rank)[0] for rank in self._wanted(sum(people))}:
                if people[number] >= self.min_bin and len(bins.parts(number, self.width)) > 2:
                    found.add((row, column, number))
        return tuple(sorted(found))

    def table(self, counts: Counts, parts: Parts) -> Table:
        """Return one row per variable, group and probability."""
        rows: list[tuple[Cell, ...]] = []
        wide = 0
        for row, column, block in self.blocks:
            held = counts.get(block)
            for probability in self.probabilities:
                cells, refined = self._quantile(held, (row, column), probability, parts)
                wide += refined == "no"
                end: tuple[Cell, ...] = () if self.refine is None else (refined,)
                head: tuple[Cell, ...] = (self.variables[row].name, *self.groups.cells[column], probability)
                rows.append((*head, *cells, *end))
        further = () if self.refine is None else (REFINED_COLUMN,)
        columns = ("variable", *self.groups.columns, "probability", *QUANTILE_COLUMNS, *further)
        return Table(self.analysis, "quantiles", columns, tuple(rows), self._notes(wide, len(rows)))

    def _quantile(
        self, held: tuple[int, ...] | None, at: tuple[int, int], probability: float, parts: Parts
    ) -> tuple[tuple[Cell, ...], Cell]:
        """Return value, error_bound, status, n and missing of one row, and whether the value is as exact as asked."""
        if held is None:
            why = Absent(Status.TOO_FEW_SITES)
            return (why, why, Status.TOO_FEW_SITES.value, why, why), why
        *people, missing = held
        n = sum(people)
        if n == 0:
            return (NO_DATA, NO_DATA, Status.ALL_MISSING.value, n, missing), NO_DATA
        weighed = [(weight, self._spot(at, people, rank, parts)) for rank, weight in ranks(n, probability)]
        value = sum(weight * one.value for weight, one in weighed)
        bound = sum(weight * one.width for weight, one in weighed)
        near = self.refine is not None and bound <= self.refine * (1 + 2 * SLACK)
        return (value, bound, Status.OK.value, n, missing), "yes" if near else "no"

    def _spot(self, at: tuple[int, int], people: Sequence[int], rank: int, parts: Parts) -> Spot:
        """Return where the person of ``rank`` is put: in a part of her bin if it was looked at and shows the same people."""
        number, within = bin_of(people, rank)
        finer = parts.get((*at, number))
        bins = self.bins(at[0])
        if finer is None or sum(finer) != people[number]:
            return spot(*bins.intervals[number], people[number], within)
        part, inside = bin_of(finer, within)
        low, high = list(pairwise(bins.parts(number, self.width)))[part]
        return spot(low, high, finer[part], inside)

    def _wanted(self, n: int) -> set[int]:
        """Return the ranks that some quantile of ``n`` people weighs."""
        return {rank for one in self.probabilities for rank, _ in ranks(n, one)} if n else set()

    def _parts(self, row: int, column: int) -> tuple[str, ...]:
        return (self.variables[row].name, *self.groups.names(self.groups.cells[column]))

    def _notes(self, wide: int, rows: int) -> tuple[str, ...]:
        notes = ["Between the values of two people a quantile is interpolated (type 7 of Hyndman and Fan)."]
        if self.groups.columns:
            notes.append(f"People without a value of {', '.join(self.groups.columns)} are in no row.")
        if wide:
            notes.append(
                f"{wide} of {rows} quantiles are not refined to {self.refine}: a bin of fewer than {self.min_bin} people is "
                "not looked at more closely, nor is one whose people were not the same in both rounds."
            )
        return tuple(notes)
