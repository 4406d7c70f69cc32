"""Means, standard deviations and, where asked for, skewness and kurtosis by group, from sums about the public centre.

Per variable and group cell every person adds ``(1 or missing)`` to the counts and ``(u, u^2)``, each rounded to the
grid, to the sums. The integers are added exactly, so batches, sites and order cannot change a digit; mean and variance
are formed from them in rational arithmetic and rounded once, so nothing cancels. Rounding moves a mean by at most
``half_width * 2**-(fraction_bits + 1)`` and the variance by about ``half_width**2 * 2**-fraction_bits``; a variance that
small is reported as 0. With ``moments`` 4 every person adds ``(u^3, u^4)`` too, in a block of their own, so that what
is opened without them stays as it is; `moments` finishes. `summary_noised` says how far one person moves all this, and finishes
under noise.

People sets, per variable and cell: those who have a value, and those of the cell who do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import (
    NO_DATA,
    NOISED_COLUMNS,
    SHAPE_COLUMNS,
    SUMMARY_COLUMNS,
    Absent,
    Cell,
    Status,
    Table,
)
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
from cohortsum.study.statistics.moments import Moments, moments, shape
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.summary_noised import NOISED_NOTE, forecast_mean, noised_cell, summary_part
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
        moments: 2 for mean and spread, 4 for skewness and kurtosis too.
        everybody: whether the number of people whom the counts of a variable are about travels too; public, and only under noise.
    """

    name: str
    variables: tuple[Number, ...]
    by: tuple[Factor, ...]
    fraction_bits: int
    where: Where | None = None
    moments: Literal[2, 4] = 2
    everybody: bool = False

    def layout(self) -> tuple[Block, ...]:
        """Return, per variable and cell, counts (n, missing), sums (u, u^2) and, of four moments, (u^3, u^4)."""
        blocks: list[Block] = []
        for variable in self.variables:
            if self.everybody:
                supply, sets = (frozenset({variable.name}),), self._sets(variable, ())
                blocks.append(Block(self._total(variable), "additive", 1, 1.0, "person", 0, supply, sets))
            for cell in self._crossing.cells:
                prefix = self._prefix(variable, cell)
                supply = (frozenset({variable.name, *self._crossing.level_names(cell)}),)
                sets, bits = self._sets(variable, cell), self.fraction_bits
                blocks.append(Block(f"{prefix}/people", "additive", 2, 1.0, "person", 0, supply, sets))
                for part in self._sums:
                    blocks.append(
                        Block(f"{prefix}/{part}", "additive", 2, 1.0, "person", bits, supply, sets[:1])
                    )
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, ``sums`` and, of four moments, ``moments``, (variables, cells, 2) int64 each."""
        people, cells = self._people_by_cell(batch)
        edges = np.searchsorted(cells, np.arange(len(self._crossing.cells) + 1))
        shape = (len(self.variables), len(self._crossing.cells), 2)
        state = {part: np.zeros(shape, np.int64) for part in ("people", *self._sums)}
        for row, variable in enumerate(self.variables):
            u, missing = _values(batch, variable, people)
            for column, counted in enumerate((~missing, missing)):
                state["people"][row, :, column] = _sums_between(counted.astype(np.int64), edges)
            for place, part in enumerate(self._sums):
                for column, power in enumerate((2 * place + 1, 2 * place + 2)):
                    values = to_grid(_power(u, power), self.fraction_bits)
                    state[part][row, :, column] = _sums_between(values, edges)
        return state

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
        found = {
            f"{self._prefix(variable, cell)}/{part}": state[part][row, column].astype(np.int64)
            for row, variable in enumerate(self.variables)
            for column, cell in enumerate(self._crossing.cells)
            for part in ("people", *self._sums)
        }
        if self.everybody:
            counted = state["people"].astype(np.int64).sum(axis=(1, 2))
            found |= {
                self._total(variable): counted[row : row + 1] for row, variable in enumerate(self.variables)
            }
        return found

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part of everything together, and the public totals."""
        public = tuple(self._total(variable) for variable in self.variables) if self.everybody else ()
        names = tuple(block.name for block in self.layout() if block.name not in public)
        noised = summary_part(names, len(self.variables), len(self._crossing.cells), adjacency)
        return (noised, Part(public, 0.0, 0, 0.0)) if public else (noised,)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, one row per variable and cell, with intervals that hold the noise."""
        columns = ("variable", *(factor.name for factor in self.by), *SUMMARY_COLUMNS, *NOISED_COLUMNS)
        rows = tuple(
            (variable.name, *cell, *noised_cell(noisy, self._prefix(variable, cell), variable, total))
            for variable, total in ((one, noisy.of(self._total(one))) for one in self.variables)
            for cell in self._crossing.cells
        )
        names = ", ".join(factor.name for factor in self.by)
        notes = (f"People without a value of {names} are in no row.",) if self.by else ()
        return (Table(self.name, "summary", columns, rows, (*notes, NOISED_NOTE)),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of every mean, cells being of one size."""
        cells = self._crossing.cells
        per = len(self.variables)
        found: list[Forecast] = []
        for variable in self.variables:
            for cell in cells:
                noise = sd[f"{self._prefix(variable, cell)}/sums"]
                levels = ", ".join(self._crossing.level_names(cell))
                found.append(forecast_mean(variable, levels, noise, people / len(cells), per))
        return tuple(found)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per variable and cell."""
        further = SHAPE_COLUMNS if self.moments == 4 else ()
        columns = ("variable", *(factor.name for factor in self.by), *SUMMARY_COLUMNS, *further)
        rows = tuple(
            (variable.name, *cell, *self._finish_cell(sums, variable, cell))
            for variable in self.variables
            for cell in self._crossing.cells
        )
        names = ", ".join(factor.name for factor in self.by)
        notes = (f"People without a value of {names} are in no row.",) if self.by else ()
        return (Table(self.name, "summary", columns, rows, notes),)

    def opened(self, sums: Sums, variable: Number, cell: tuple[str, ...]) -> Moments | None:
        """Return the moments of a cell, or None where its blocks had too few suppliers."""
        people, totals = (sums.get(f"{self._prefix(variable, cell)}/{part}") for part in ("people", "sums"))
        if people is None or totals is None:
            return None
        return moments(variable, int(people[0]), [int(total) for total in totals], self.fraction_bits)

    def _finish_cell(self, sums: Sums, variable: Number, cell: tuple[str, ...]) -> tuple[Cell, ...]:
        """Return n, missing, mean, sd, mean_noise_se, status, variance and, of four moments, skewness and kurtosis."""
        prefix, further = self._prefix(variable, cell), (2 if self.moments == 4 else 0)
        if any(f"{prefix}/{part}" not in sums for part in ("people", *self._sums)):
            withheld = Absent(Status.TOO_FEW_SITES)
            return (withheld,) * 4 + (NO_NOISE, Status.TOO_FEW_SITES.value) + (withheld,) * (1 + further)
        n, missing = (int(count) for count in sums[f"{prefix}/people"])
        if n == 0:
            nothing = (NO_DATA,) * (1 + further)
            return (n, missing, NO_DATA, NO_DATA, NO_NOISE, Status.ALL_MISSING.value, *nothing)
        totals = [int(total) for part in self._sums for total in sums[f"{prefix}/{part}"]]
        found = moments(variable, n, totals[:2], self.fraction_bits)
        about_mean = shape(n, totals, self.fraction_bits) if self.moments == 4 else ()
        variance: Cell = NO_DATA if n == 1 else float(found.variance)
        sd: Cell = NO_DATA if n == 1 else sqrt(float(found.variance))
        return (n, missing, float(found.mean), sd, NO_NOISE, Status.OK.value, variance, *about_mean)

    @property
    def _sums(self) -> tuple[str, ...]:
        """The blocks of sums of powers, two powers each."""
        return ("sums", "moments") if self.moments == 4 else ("sums",)

    @property
    def _crossing(self) -> Crossing:
        return Crossing(self.by)

    def _total(self, variable: Number) -> str:
        return f"{self.name}/{variable.name}/everybody"

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


def _power(u: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """Return ``u`` times itself, by products alone, so that every platform rounds alike."""
    raised = u
    for _ in range(power - 1):
        raised = raised * u
    return raised


def _sums_between(values: NDArray[np.int64], edges: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the exact sum of each run ``values[edges[i]:edges[i + 1]]``, empty runs included."""
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
    return running[edges[1:]] - running[edges[:-1]]
