"""Shares of people: above a threshold of a number, or at a level of a factor, by groups.

Everything opened is a count. Of a number, per group: who has a value, who has none, and who is above each threshold. Of a
factor, per group: who is at each level, and who has none; a site that lacks a level does not supply its count, and without
it no share of the group is known. Shares are of the people of the group who have a value, with Wilson's interval. `proportion_noised`
says how far one person moves the counts, and finishes under noise.

People sets are those counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, PROPORTION_COLUMNS, Absent, Cell, Status, Table
from cohortsum.study.statistics.binomial import wilson
from cohortsum.study.statistics.counts_noised import COUNTS_NOTE
from cohortsum.study.statistics.crossing import NOWHERE, Crossing
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.proportion_noised import (
    LIMITS_NOTE,
    PROPORTION_NOISE_COLUMNS,
    NoisedShare,
    forecast_share,
    proportion_part,
)
from cohortsum.study.statistics.texts import plain
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Factor, Number

WITHHELD = Absent(Status.TOO_FEW_SITES)
Place = tuple[str, int]
"""A count that is opened: the name of its block, and its place there."""
Opened = Mapping[str, NDArray[np.int64] | NDArray[np.float64]]
"""Opened blocks by name, without noise or with it."""


@dataclass(frozen=True, slots=True)
class Row:
    """Where the numbers of one row are.

    Attributes:
        head: what the share is of, and of which group.
        count: the people above a threshold, or at a level.
        n: those who have a value: one count, or the counts of every level.
        missing: those who have none.
    """

    head: tuple[str, ...]
    count: Place
    n: tuple[Place, ...]
    missing: Place

    def totals(self, opened: Opened) -> tuple[float | None, float | None, float | None]:
        """Return count, n and missing; None where one of the counts behind it was not opened."""
        return _total(opened, self.count), _total(opened, *self.n), _total(opened, self.missing)


@dataclass(frozen=True, slots=True)
class Proportion(Statistic):
    """How many people of each group are above thresholds, and at the levels of factors.

    Attributes:
        name: name of the analysis.
        variables: numbers, each compared with every threshold.
        thresholds: in the unit of the variables, ascending; people above one count, people at it do not.
        factors: whose levels are counted; none of them in ``by``.
        by: factors whose levels, crossed, are the groups; without them one group holds everybody.
        where: the subgroup, or everybody.
    """

    name: str
    variables: tuple[Number, ...]
    thresholds: tuple[float, ...]
    factors: tuple[Factor, ...]
    by: tuple[Factor, ...]
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return one block per number and group; per factor and group one block per level, then those without."""
        blocks = [
            self._block(sets[0], 2 + len(self.thresholds), {variable.name}, group, sets)
            for variable in self.variables
            for group in self._groups.cells
            for sets in (self._sets(variable, group),)
        ]
        for factor in self.factors:
            for group in self._groups.cells:
                *at, missing = self._places(factor, group)
                blocks += [
                    self._block(name, 1, {factor.level_name(level)}, group, (name,))
                    for name, level in zip(at, factor.levels, strict=True)
                ]
                blocks.append(self._block(missing, 1, set[str](), group, (missing,)))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return ``numbers``, (variables, groups, 2 + thresholds) int64, and per factor (groups, levels + 1) int64."""
        people, groups = self._people_by_group(batch)
        cells = len(self._groups.cells)
        counts = np.zeros((len(self.variables), cells, 2 + len(self.thresholds)), np.int64)
        for row, variable in enumerate(self.variables):
            for column, mask in enumerate(self._counted(batch, variable, people)):
                counts[row, :, column] = np.bincount(groups[mask], minlength=cells)
        state = {"numbers": counts}
        for factor in self.factors:
            masks = _at_levels(batch, factor, people)
            state[factor.name] = np.array(
                [np.bincount(groups[mask], minlength=cells) for mask in masks], np.int64
            ).T
        return state

    def members(self, batch: Batch) -> Members:
        """Return who of each group has a value, has none, is above each threshold, or is at each level."""
        people, groups = self._people_by_group(batch)
        masks: dict[str, NDArray[np.bool_]] = {}
        for position, group in enumerate(self._groups.cells):
            here = groups == position
            for variable in self.variables:
                counted = self._counted(batch, variable, people)
                for name, mask in zip(self._sets(variable, group), counted, strict=True):
                    masks[name] = marked(batch.people, people[mask & here])
            for factor in self.factors:
                counted = _at_levels(batch, factor, people)
                for name, mask in zip(self._places(factor, group), counted, strict=True):
                    masks[name] = marked(batch.people, people[mask & here])
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block."""
        sums: dict[str, NDArray[np.int64]] = {}
        for position, group in enumerate(self._groups.cells):
            for row, variable in enumerate(self.variables):
                sums[self._sets(variable, group)[0]] = state["numbers"][row, position].astype(np.int64)
            for factor in self.factors:
                for place, name in enumerate(self._places(factor, group)):
                    sums[name] = state[factor.name][position, place : place + 1].astype(np.int64)
        return sums

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table: numbers first, one row per threshold or level within each group."""
        rows: list[tuple[Cell, ...]] = []
        for asked in self._rows:
            count, n, missing = (None if total is None else int(total) for total in asked.totals(sums))
            rows.append((*asked.head, *_share(count, n, missing)))
        return (Table(self.name, "proportion", self._columns, tuple(rows), self._notes),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part: everything together."""
        names = tuple(block.name for block in self.layout())
        asked = (len(self.variables), len(self.thresholds), len(self.factors), len(self._groups.cells))
        return (proportion_part(names, *asked, adjacency),)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, with intervals that hold the noise."""
        rows: list[tuple[Cell, ...]] = []
        for asked in self._rows:
            sd = noisy.sd[asked.count[0]]
            share = NoisedShare(*asked.totals(noisy.values), len(asked.n), asked.count in asked.n, sd)
            rows.append((*asked.head, *share.cells))
        columns = (*self._columns, *PROPORTION_NOISE_COLUMNS)
        notes = (*self._notes, COUNTS_NOTE, LIMITS_NOTE)
        return (Table(self.name, "proportion", columns, tuple(rows), notes),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of every share, were it one half of a group; groups being of one size."""
        here = people / len(self._groups.cells)
        per = len(self.variables) * len(self.thresholds) + len(self.factors)
        return tuple(
            forecast_share(
                f"share of {', '.join(asked.head)}",
                len(asked.n),
                asked.count in asked.n,
                sd[asked.count[0]],
                here,
                per,
            )
            for asked in self._rows
        )

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("variable", "level", *(factor.name for factor in self.by), *PROPORTION_COLUMNS)

    @property
    def _notes(self) -> tuple[str, ...]:
        names = ", ".join(factor.name for factor in self.by)
        return (f"People without a value of {names} are in no row.",) if self.by else ()

    @property
    def _rows(self) -> Iterator[Row]:
        """Yield the rows of the table: numbers first, one per threshold or level within each group."""
        for variable in self.variables:
            for position, threshold in enumerate(self.thresholds):
                for group in self._groups.cells:
                    block = self._sets(variable, group)[0]
                    head = (variable.name, f"> {plain(threshold)}", *group)
                    yield Row(head, (block, 2 + position), ((block, 0),), (block, 1))
        for factor in self.factors:
            for position, level in enumerate(factor.levels):
                for group in self._groups.cells:
                    *levels, missing = ((name, 0) for name in self._places(factor, group))
                    yield Row((factor.name, level, *group), levels[position], tuple(levels), missing)

    @property
    def _groups(self) -> Crossing:
        return Crossing(self.by)

    def _people_by_group(self, batch: Batch) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the people who are in a group, and the group of each."""
        people = selected(batch, self.where)
        groups = self._groups.places(batch, people)
        return people[groups != NOWHERE], groups[groups != NOWHERE]

    def _counted(
        self, batch: Batch, variable: Number, people: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], ...]:
        """Return who of ``people`` has a value, has none, and is above each threshold."""
        values = clipped(batch, variable, people)
        absent = np.isnan(values)
        return (~absent, absent, *(values > threshold for threshold in self.thresholds))

    def _block(
        self, name: str, size: int, items: set[str], group: tuple[str, ...], sets: tuple[str, ...]
    ) -> Block:
        supply = frozenset({*items, *self._groups.level_names(group)})
        return Block(name, "additive", size, 1.0, "person", 0, (supply,), sets)

    def _sets(self, variable: Number, group: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the people sets of a number: with a value (the block's name too), without, above each."""
        parts = (variable.name, *self._groups.level_names(group))
        above = (f"above {plain(threshold)}" for threshold in self.thresholds)
        return tuple(
            set_name(self.name, *parts, *last) for last in ((), ("missing",), *((one,) for one in above))
        )

    def _places(self, factor: Factor, group: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the blocks, and people sets, of a factor: at each level, and without one."""
        parts = (factor.name, *self._groups.level_names(group))
        levels = (factor.level_name(level) for level in factor.levels)
        return tuple(set_name(self.name, *parts, last) for last in (*levels, "missing"))


def _at_levels(batch: Batch, factor: Factor, people: NDArray[np.intp]) -> tuple[NDArray[np.bool_], ...]:
    """Return who of ``people`` is at each level of a factor, and at none."""
    levels = batch.levels[factor.name][people]
    return tuple(levels == level for level in (*range(len(factor.levels)), -1))


def _total(opened: Opened, *places: Place) -> float | None:
    """Return the sum of some counts, or None where one of them was not opened."""
    if any(block not in opened for block, _ in places):
        return None
    return sum(float(opened[block][place]) for block, place in places)


def _share(count: int | None, n: int | None, missing: int | None) -> tuple[Cell, ...]:
    """Return count, n, proportion, low, high, status and missing of one row; None was not opened."""
    without = WITHHELD if missing is None else missing
    if count is None or n is None:
        held: Cell = WITHHELD if count is None else count
        return (held, WITHHELD, WITHHELD, WITHHELD, WITHHELD, Status.TOO_FEW_SITES.value, without)
    if n == 0:
        return (count, n, NO_DATA, NO_DATA, NO_DATA, Status.ALL_MISSING.value, without)
    return (count, n, count / n, *wilson(count, n), Status.OK.value, without)
