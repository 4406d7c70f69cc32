"""Covariances of every two of some numbers, over the people who have all of them.

With C the centred products in normalised units (`scatter`), w the half widths of the public ranges and d = n - centres
degrees of freedom:

    cov_ij = w_i w_j C_ij / d,  times (1 - shrinkage) where i and j differ

Shrinkage is a number of the study, towards the diagonal; at 0 this is the unbiased covariance, and ``within`` makes it the
pooled covariance within sites. `scatter_noised` says how far one person moves C, and `covariance_noised` finishes under noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.covariance_noised import (
    COVARIANCE_NOISE_COLUMNS,
    covariance_cells,
    forecast_covariance,
)
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.scatter import Products, Scatter, SiteEffect, centring, scatter_of
from cohortsum.study.statistics.scatter_noised import Noised, noised_centring, noised_products, scatter_parts
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Number, Variable

COLUMNS = ("variable_1", "variable_2", "covariance", "n", "status")
FEW = 200
"""People below which disclosure rules for imaging measures keep a covariance back; said in a note, not enforced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariance(Statistic):
    """The covariance matrix of some numbers.

    Attributes:
        name: name of the analysis.
        numbers: at least two.
        variables: the study's variables by name.
        site_effect: ``within`` takes differences between sites out, ``none`` does not.
        shrinkage: at least 0 and below 1.
        fraction_bits: grid of the products.
        where: the subgroup, or everybody.
    """

    name: str
    numbers: tuple[Number, ...]
    variables: Mapping[str, Variable]
    site_effect: SiteEffect
    shrinkage: float
    fraction_bits: int
    where: Where | None = None
    _scatter: Scatter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the products."""
        scatter = scatter_of(
            self.name,
            ("complete",),
            self.numbers,
            (),
            self.variables,
            self.site_effect,
            self.fraction_bits,
            self.where,
        )
        object.__setattr__(self, "_scatter", scatter)

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the products."""
        return self._scatter.layout()

    def accumulate(self, batch: Batch) -> State:
        """Return the sums of the products."""
        return self._scatter.accumulate(batch)

    def members(self, batch: Batch) -> Members:
        """Return the complete cases."""
        return self._scatter.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block."""
        return self._scatter.contribute(state)

    def opened(self, sums: Sums) -> Products | None:
        """Return the products behind the opened blocks; None where too few sites supply them."""
        return self._scatter.opened(sums)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per pair of variables, each with itself included."""
        opened = self.opened(sums)
        status = unestimable(opened)
        matrix = None
        if opened is not None and status is None:
            matrix = covariances(opened, self.numbers, self.shrinkage)
        rows: list[tuple[Cell, ...]] = []
        for i, one in enumerate(self.numbers):
            for j, other in enumerate(self.numbers[i:], start=i):
                if opened is None or matrix is None:
                    rows.append((one.name, other.name, *without(opened, status)))
                    continue
                constant = any(opened.cross[place, place] <= opened.floor for place in (i, j))
                cells: tuple[Cell, ...] = (
                    NO_DATA if constant else float(matrix[i, j]),
                    opened.people,
                    Status.CONSTANT.value if constant else Status.OK.value,
                )
                rows.append((one.name, other.name, *cells))
        notes = (*centring(self.site_effect, opened), *self._notes(0 if opened is None else opened.people))
        return (Table(self.name, "covariance", COLUMNS, tuple(rows), notes),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return the parts of the products."""
        return scatter_parts((self._scatter,), adjacency)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, of the nearest matrix that is a covariance, with the noise of each entry."""
        opened = self.noised(noisy)
        pairs = combinations_with_replacement(self.numbers, 2)
        rows = tuple(
            (one.name, other.name, *cells)
            for (one, other), cells in zip(
                pairs, covariance_cells(opened, self.numbers, self.shrinkage), strict=True
            )
        )
        notes = (
            *noised_centring(self.site_effect, (opened,)),
            *self._notes(0 if opened is None else opened.people),
        )
        return (Table(self.name, "covariance", (*COLUMNS, *COVARIANCE_NOISE_COLUMNS), rows, notes),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the covariance of two variables that do not go together."""
        return (forecast_covariance(len(self.numbers), self.noise(sd), people),)

    def noised(self, noisy: Noisy) -> Noised | None:
        """Return the products behind opened blocks under noise; None where too few sites supply them."""
        return noised_products(self._scatter, noisy)

    def noise(self, sd: Mapping[str, float]) -> float:
        """Return the standard deviation of the noise in the sums of products, of those by block."""
        return sd[self.layout()[-1].name]

    def _notes(self, people: int) -> tuple[str, ...]:
        notes: list[str] = []
        if self.shrinkage:
            notes.append(f"Covariances of two different variables are shrunk by {self.shrinkage}.")
        if 0 < people < FEW:
            notes.append(f"Fewer than {FEW} people: have this table checked before it is passed on.")
        return tuple(notes)


def covariances(opened: Products, numbers: tuple[Number, ...], shrinkage: float) -> NDArray[np.float64]:
    """Return the covariance matrix in natural units, (numbers, numbers) float64; there are degrees of freedom."""
    widths = np.array([number.half_width for number in numbers])
    return shrunk(opened.cross * np.outer(widths, widths) / (opened.people - opened.centres), shrinkage)


def shrunk(matrix: NDArray[np.float64], shrinkage: float) -> NDArray[np.float64]:
    """Return a matrix with everything off the diagonal times (1 - shrinkage)."""
    result = matrix * (1.0 - shrinkage)
    np.fill_diagonal(result, np.diag(matrix))
    return result


def unestimable(opened: Products | None) -> Status | None:
    """Return why there is no matrix at all, or None."""
    if opened is None:
        return Status.TOO_FEW_SITES
    if opened.people == 0:
        return Status.ALL_MISSING
    return Status.NOT_ESTIMABLE if opened.people <= opened.centres else None


def without(opened: Products | None, status: Status | None) -> tuple[Cell, ...]:
    """Return covariance, n and status of a row without a number."""
    if opened is None or status is None:
        why = Absent(Status.TOO_FEW_SITES)
        return (why, why, Status.TOO_FEW_SITES.value)
    return (NO_DATA, opened.people, status.value)
