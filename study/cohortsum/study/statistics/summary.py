"""Means and standard deviations by group, from sums about the public centre.

Per variable and group cell every person adds ``(1 or missing)`` to the counts and ``(u, u^2)``, each rounded to the
grid, to the sums. The integers are added exactly, so batches, sites and order cannot change a digit; mean and variance
are formed from them in rational arithmetic and rounded once, so nothing cancels. Rounding moves a mean by at most
``half_width * 2**-(fraction_bits + 1)`` and the variance by about ``half_width**2 * 2**-fraction_bits``; a variance that
small is reported as 0.

People sets, per variable and cell: those who have a value, and those of the cell who do not.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, SUMMARY_COLUMNS, Absent, Cell, Status, Table
from cohortsum.study.statistics.crossing import NOWHERE, Crossing
from cohortsum.study.statistics.interface import (
    Block,
    Members,
    State,
    Statistic,
    Sums,
    marked,
    set_name,
    to_grid,
)
from cohortsum.study.statistics.units import Where, clipped, normalised, selected
from cohortsum.study.variables import Factor, Number

NO_NOISE = Absent("no noise")


@dataclass(frozen=True, slots=True)
class Summary(Statistic):
    """n, missing, mean, SD and variance of each variable in each cell of the ``by`` factors.

    Attributes:
        name: name of the analysis.
        variables: what is summarised.
        by: factors whose levels, crossed, are the cells; without them one cell holds everybody.
        fraction_bits: grid of the sums.
        where: the subgroup, or everybody.
    """

    name: str
    variables: tuple[Number, ...]
    by: tuple[Factor, ...]
    fraction_bits: int
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return, per variable and cell, a block of counts (n, missing) and a block of sums (u, u^2)."""
        blocks: list[Block] = []
        for variable in self.variables:
            for cell in self._crossing.cells:
                prefix = self._prefix(variable, cell)
                supply = (frozenset({variable.name, *self._crossing.level_names(cell)}),)
                sets, bits = self._sets(variable, cell), self.fraction_bits
                blocks.append(Block(f"{prefix}/people", "additive", 2, 1.0, "person", 0, supply, sets))
                blocks.append(Block(f"{prefix}/sums", "additive", 2, 1.0, "person", bits, supply, sets[:1]))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return ``people`` and ``sums``, (variables, cells, 2) int64."""
        people, cells = self._people_by_cell(batch)
        edges = np.searchsorted(cells, np.arange(len(self._crossing.cells) + 1))
        shape = (len(self.variables), len(self._crossing.cells), 2)
        counts, sums = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, variable in enumerate(self.variables):
            u, missing = _values(batch, variable, people)
            for column, counted in enumerate((~missing, missing)):
                counts[row, :, column] = _sums_between(counted.astype(np.int64), edges)
            for column, values in enumerate((u, u * u)):
                sums[row, :, column] = _sums_between(to_grid(values, self.fraction_bits), edges)
        return {"people": counts, "sums": sums}

    def members(self, batch: Batch) -> Members:
        """Return, per variable and cell, who has a value and who has none."""
        people, cells = self._people_by_cell(batch)
        masks: dict[str, NDArray[np.bool_]] = {}
        for variable in self.variables:
            _, missing = _values(batch, variable, people)
            for position, cell in enumerate(self._crossing.cells):
                here, (present, absent) = cells == position, self._sets(variable, cell)
                masks[present] = marked(batch.people, people[here & ~missing])
                masks[absent] = marked(batch.people, people[here & missing])
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block; they are the state itself."""
        return {
            f"{self._prefix(variable, cell)}/{part}": state[part][row, column].astype(np.int64)
            for row, variable in enumerate(self.variables)
            for column, cell in enumerate(self._crossing.cells)
            for part in ("people", "sums")
        }

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per variable and cell."""
        columns = ("variable", *(factor.name for factor in self.by), *SUMMARY_COLUMNS)
        rows = tuple(
            (variable.name, *cell, *self._finish_cell(sums, variable, cell))
            for variable in self.variables
            for cell in self._crossing.cells
        )
        names = ", ".join(factor.name for factor in self.by)
        notes = (f"People without a value of {names} are in no row.",) if self.by else ()
        return (Table(self.name, "summary", columns, rows, notes),)

    def _finish_cell(self, sums: Sums, variable: Number, cell: tuple[str, ...]) -> tuple[Cell, ...]:
        """Return n, missing, mean, sd, mean_noise_se, status and variance of one cell."""
        prefix = self._prefix(variable, cell)
        if f"{prefix}/people" not in sums or f"{prefix}/sums" not in sums:
            withheld = Absent(Status.TOO_FEW_SITES)
            return (withheld,) * 4 + (NO_NOISE, Status.TOO_FEW_SITES.value, withheld)
        n, missing = (int(count) for count in sums[f"{prefix}/people"])
        if n == 0:
            return (n, missing, NO_DATA, NO_DATA, NO_NOISE, Status.ALL_MISSING.value, NO_DATA)
        grid = 2**self.fraction_bits
        su, su2 = (Fraction(int(total), grid) for total in sums[f"{prefix}/sums"])
        half_width = (Fraction(variable.upper) - Fraction(variable.lower)) / 2
        mean = (Fraction(variable.upper) + Fraction(variable.lower)) / 2 + half_width * su / n
        if n == 1:
            return (n, missing, float(mean), NO_DATA, NO_NOISE, Status.OK.value, NO_DATA)
        deviations = su2 - su * su / n
        # n people, each with u and u^2 off by half a grid unit: at most 3/2 unit each
        resolution = Fraction(3 * n, 2 * grid)
        variance = 0.0 if deviations <= resolution else float(deviations * half_width**2 / (n - 1))
        return (n, missing, float(mean), sqrt(variance), NO_NOISE, Status.OK.value, variance)

    @property
    def _crossing(self) -> Crossing:
        return Crossing(self.by)

    def _prefix(self, variable: Number, cell: tuple[str, ...]) -> str:
        return "/".join((self.name, variable.name, *self._crossing.level_names(cell)))

    def _sets(self, variable: Number, cell: tuple[str, ...]) -> tuple[str, str]:
        """Return the names of the people sets of a cell: with a value, and without one."""
        parts = (variable.name, *self._crossing.level_names(cell))
        return set_name(self.name, *parts), set_name(self.name, *parts, "missing")

    def _people_by_cell(self, batch: Batch) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the people who are in a cell, sorted by cell, and the cell of each."""
        people = selected(batch, self.where)
        cells = self._crossing.places(batch, people)
        people, cells = people[cells != NOWHERE], cells[cells != NOWHERE]
        order = np.argsort(cells, kind="stable")
        return people[order], cells[order]


def _values(
    batch: Batch, variable: Number, people: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the normalised values of ``people``, 0 where there is none, and for whom there is none."""
    u = normalised(clipped(batch, variable, people), variable.middle, variable.half_width)
    missing = np.isnan(u)
    u[missing] = 0.0
    return u, missing


def _sums_between(values: NDArray[np.int64], edges: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the exact sum of each run ``values[edges[i]:edges[i + 1]]``, empty runs included."""
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    return running[edges[1:]] - running[edges[:-1]]
