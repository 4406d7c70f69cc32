"""Counts of people in every combination of the levels of one to three factors, and how far two of them go together.

Every person of the subgroup is in one cell, or among those who lack a level of some factor: the counts add up to the people
asked about. The last factor makes the columns of a table, the one before it the rows, and with three the first makes one
table per level. Counts are opened; percentages and tests are made of them afterwards (`association`). `counts_noised` says how far
one person moves the counts, and `crosstab_noised` what is made of noised ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import (
    ASSOCIATION_COLUMNS,
    CROSSTAB_COLUMNS,
    HIDDEN,
    NO_DATA,
    Absent,
    Cell,
    Status,
    Table,
)
from cohortsum.study.statistics.association import associate, withheld
from cohortsum.study.statistics.by_committee import CountTable, Found
from cohortsum.study.statistics.counts_noised import COUNTS_NOTE, forecast_count, places_part, whole
from cohortsum.study.statistics.crossing import NOWHERE, Crossing
from cohortsum.study.statistics.crosstab_noised import CROSSTAB_NOISE_COLUMNS, PERCENT_NOTE, noised_cells
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.units import Where, selected
from cohortsum.study.variables import Factor

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crosstab(Statistic):
    """A contingency table.

    Attributes:
        name: name of the analysis.
        factors: one to three: rows; rows and columns; or layers, rows and columns.
        where: the subgroup, or everybody.
    """

    name: str
    factors: tuple[Factor, ...]
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return one block per cell, which sites without one of its levels do not supply, then those in no cell."""
        cells = tuple(
            _block(self._called(cell), frozenset(self._crossing.level_names(cell)))
            for cell in self._crossing.cells
        )
        return (*cells, _block(self._missing, frozenset()))

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, (cells + 1,) int64; the last are in no cell."""
        number = len(self._crossing.cells)
        places = self._crossing.places(batch, selected(batch, self.where))
        counts = np.bincount(np.where(places == NOWHERE, number, places), minlength=number + 1)
        return {"people": counts.astype(np.int64)}

    def members(self, batch: Batch) -> Members:
        """Return who is in which cell, and who is in none."""
        people = selected(batch, self.where)
        places = self._crossing.places(batch, people)
        masks = {
            self._called(cell): marked(batch.people, people[places == position])
            for position, cell in enumerate(self._crossing.cells)
        }
        return masks | {self._missing: marked(batch.people, people[places == NOWHERE])}

    def contribute(self, state: State) -> Sums:
        """Return the count of every block."""
        return {
            block.name: state["people"][position : position + 1].astype(np.int64)
            for position, block in enumerate(self.layout())
        }

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the cells with their percentages and, of two or more factors, a table of measures per layer."""
        return self._tables(*self._counts(sums), self._notes(sums), Status.TOO_FEW_SITES)

    def count_tables(self) -> tuple[CountTable, ...]:
        """Return one table, of all cells; those in none are not told."""
        return (CountTable(self.name, tuple((self._called(cell), 0) for cell in self._crossing.cells)),)

    def finish_counts(self, found: Found) -> tuple[Table, ...]:
        """Return the tables of `finish` from the counts that a committee opened; what was not opened is hidden."""
        held = found[self.name]
        counts = np.array([count or 0 for count in held], np.int64).reshape(self._shape)
        opened = np.array([count is not None for count in held], np.bool_).reshape(self._shape)
        return self._tables(counts, opened, self._notes({}), Status.HIDDEN)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part: all cells and those in none, one table."""
        return (places_part(tuple(block.name for block in self.layout()), 1, adjacency),)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return the cells with their percentages and the noise of both; no measures."""
        held = [noisy.of(self._called(cell)) for cell in self._crossing.cells]
        noised = noised_cells(held, self._shape, noisy.sd[self._missing])
        rows = tuple(
            (*cell, *noised.cells(place))
            for cell, place in zip(self._crossing.cells, np.ndindex(self._shape), strict=True)
        )
        columns = (*(factor.name for factor in self.factors), *CROSSTAB_COLUMNS, *CROSSTAB_NOISE_COLUMNS)
        missing = noisy.of(self._missing)
        notes = self._notes({} if missing is None else {self._missing: np.array([whole(missing[0])])})
        return (Table(self.name, "crosstab", columns, rows, (*notes, COUNTS_NOTE, PERCENT_NOTE)),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the counts, people being spread evenly over the cells."""
        places = len(self._crossing.cells) + 1
        return (forecast_count("each count", places, sd[self._missing], people, 1),)

    def _tables(
        self, counts: Counts, opened: NDArray[np.bool_], notes: tuple[str, ...], otherwise: Status
    ) -> tuple[Table, ...]:
        """Return cells and measures; ``otherwise`` says what became of counts that were not opened."""
        names = tuple(factor.name for factor in self.factors)
        unknown: Cell = HIDDEN if otherwise is Status.HIDDEN else Absent(otherwise)
        rows: list[tuple[Cell, ...]] = []
        for cell, (layer, row, column) in zip(self._crossing.cells, np.ndindex(counts.shape), strict=True):
            here, known = counts[layer], opened[layer]
            if not known[row, column]:
                rows.append((*cell, unknown, unknown, unknown, otherwise.value))
                continue
            count = int(here[row, column])
            of_row = _percent(count, here[row], known[row], unknown)
            of_column = _percent(count, here[:, column], known[:, column], unknown)
            rows.append((*cell, count, of_row, of_column, Status.OK.value))
        cells = Table(self.name, "crosstab", (*names, *CROSSTAB_COLUMNS), tuple(rows), notes)
        return (cells,) if len(names) == 1 else (cells, self._measures(counts, opened, otherwise))

    def _measures(self, counts: Counts, opened: NDArray[np.bool_], otherwise: Status) -> Table:
        """Return chi-square of every layer, and odds and risk ratio where it is two by two."""
        *over, by_row, by_column = self.factors
        layers = tuple((level,) for factor in over for level in factor.levels) or ((),)
        rows: list[tuple[Cell, ...]] = []
        for layer, here, known in zip(layers, counts, opened, strict=True):
            found = associate(here) if known.all() else withheld(otherwise)
            rows.append((*layer, by_row.name, by_column.name, *found.cells))
        heads = (*(factor.name for factor in over), "rows", "columns")
        notes = [
            "Chi-square is Pearson's, without a continuity correction; levels that nobody has do not count."
        ]
        if len(by_row.levels) == len(by_column.levels) == 2:
            notes.append(
                f"Odds and risks are of {by_column.level_name(by_column.levels[1])}, at "
                f"{by_row.level_name(by_row.levels[1])} against {by_row.level_name(by_row.levels[0])}."
            )
        return Table(
            f"{self.name}.association",
            "association",
            (*heads, *ASSOCIATION_COLUMNS),
            tuple(rows),
            tuple(notes),
        )

    def _counts(self, sums: Sums) -> tuple[Counts, NDArray[np.bool_]]:
        """Return the counts as (layers, rows, columns) int64, and which of them were opened."""
        held = [sums.get(self._called(cell)) for cell in self._crossing.cells]
        counts = np.array([0 if one is None else int(one[0]) for one in held], np.int64)
        opened = np.array([one is not None for one in held], np.bool_)
        return counts.reshape(self._shape), opened.reshape(self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Layers, rows and columns."""
        sizes = tuple(len(factor.levels) for factor in self.factors)
        return {1: (1, *sizes, 1), 2: (1, *sizes), 3: sizes}[len(sizes)]

    def _notes(self, sums: Sums) -> tuple[str, ...]:
        names = ", ".join(factor.name for factor in self.factors)
        missing = sums.get(self._missing)
        people = "People" if missing is None else f"{int(missing[0])} people"
        return (f"{people} without a value of {names} are in no row.",)

    @property
    def _crossing(self) -> Crossing:
        return Crossing(self.factors)

    @property
    def _missing(self) -> str:
        return set_name(self.name, "missing")

    def _called(self, cell: tuple[str, ...]) -> str:
        """Return the name of a cell's block, and of the people in it."""
        return set_name(self.name, *self._crossing.level_names(cell))


def _block(name: str, items: frozenset[str]) -> Block:
    return Block(name, "additive", 1, 1.0, "person", 0, (items,), (name,))


def _percent(count: int, among: Counts, known: NDArray[np.bool_], unknown: Cell) -> Cell:
    """Return 100 times the share of a count among counts, ``unknown`` unless all of them are known."""
    if not known.all():
        return unknown
    total = int(among.sum())
    return 100 * count / total if total else NO_DATA
