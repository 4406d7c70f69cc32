"""Principal component analysis from one set of centred products.

What is opened is what a covariance opens (`covariance`); the correlation matrix is that matrix divided by the standard
deviations, so one round suffices. Given are the first components alone. A variable that does not vary leaves, and says so. `pca_noised`
finishes under noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.components import principal_components
from cohortsum.study.statistics.covariance import Covariance, covariances, shrunk, unestimable
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.pca_noised import (
    PCA_NOISE_COLUMNS,
    PCA_NOISE_NOTE,
    Asked,
    forecast_eigenvalue,
    pca_rows,
)
from cohortsum.study.statistics.scatter import Products, centring
from cohortsum.study.statistics.scatter_noised import noised_centring

COLUMNS = ("component", "variance_share", "variable", "loading", "status", "eigenvalue", "n")
FEW = 100
"""People below which disclosure rules for imaging measures keep components back; said in a note, not enforced."""


@dataclass(frozen=True, slots=True)
class Pca(Statistic):
    """The first principal components of some numbers.

    Attributes:
        name: name of the analysis.
        covariance: what is opened.
        components: how many are given; at most one per variable.
        matrix: ``correlation`` gives every variable the same weight, ``covariance`` keeps their units.
    """

    name: str
    covariance: Covariance
    components: int
    matrix: Literal["correlation", "covariance"]

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the covariance."""
        return self.covariance.layout()

    def accumulate(self, batch: Batch) -> State:
        """Return the sums of the products."""
        return self.covariance.accumulate(batch)

    def members(self, batch: Batch) -> Members:
        """Return the complete cases."""
        return self.covariance.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block."""
        return self.covariance.contribute(state)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per component and variable."""
        opened = self.covariance.opened(sums)
        status = unestimable(opened)
        if opened is None or status is not None:
            rows = self._nothing(opened, status or Status.TOO_FEW_SITES)
        else:
            rows = self._rows(opened)
        notes = self._notes(
            0 if opened is None else opened.people, centring(self.covariance.site_effect, opened)
        )
        return (Table(self.name, "pca", COLUMNS, tuple(rows), notes),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return the parts of the covariance."""
        return self.covariance.parts(adjacency)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, with the size of the noise in the eigenvalues."""
        opened, asked = self.covariance.noised(noisy), self.covariance
        rows = pca_rows(opened, Asked(asked.numbers, self.components, self.matrix, asked.shrinkage))
        centred = noised_centring(asked.site_effect, (opened,))
        notes = (*self._notes(0 if opened is None else opened.people, centred), PCA_NOISE_NOTE)
        return (Table(self.name, "pca", (*COLUMNS, *PCA_NOISE_COLUMNS), tuple(rows), notes),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the eigenvalues of variables that do not go together."""
        asked = self.covariance
        return (forecast_eigenvalue(len(asked.numbers), asked.noise(sd), people),)

    def _rows(self, opened: Products) -> list[tuple[Cell, ...]]:
        asked = self.covariance
        varying = [place for place in range(len(asked.numbers)) if opened.cross[place, place] > opened.floor]
        if not varying:
            return self._nothing(opened, Status.CONSTANT)
        matrix = covariances(opened, asked.numbers, 0.0)[np.ix_(varying, varying)]
        if self.matrix == "correlation":
            spread = np.sqrt(np.diag(matrix))
            matrix = matrix / np.outer(spread, spread)
        found = principal_components(shrunk(matrix, asked.shrinkage), self.components)
        rows: list[tuple[Cell, ...]] = []
        for place in range(self.components):
            component = found[place] if place < len(found) else None
            share: Cell = NO_DATA if component is None else component.share
            eigenvalue: Cell = NO_DATA if component is None else component.eigenvalue
            for variable, number in enumerate(asked.numbers):
                loading: Cell = NO_DATA
                status = Status.NOT_ESTIMABLE
                if variable not in varying:
                    status = Status.CONSTANT
                elif component is not None and component.loadings is not None:
                    loading, status = float(component.loadings[varying.index(variable)]), Status.OK
                rows.append((place + 1, share, number.name, loading, status.value, eigenvalue, opened.people))
        return rows

    def _nothing(self, opened: Products | None, status: Status) -> list[tuple[Cell, ...]]:
        """Return the rows without a number."""
        why = NO_DATA if opened is not None else Absent(Status.TOO_FEW_SITES)
        people: Cell = why if opened is None else opened.people
        return [
            (place + 1, why, number.name, why, status.value, why, people)
            for place in range(self.components)
            for number in self.covariance.numbers
        ]

    def _notes(self, people: int, centred: tuple[str, ...]) -> tuple[str, ...]:
        asked = self.covariance
        notes = [
            f"Components of the {self.matrix} matrix of {len(asked.numbers)} variables; loadings have length 1."
        ]
        notes += centred
        if asked.shrinkage:
            notes.append(f"Entries off the diagonal of that matrix are shrunk by {asked.shrinkage}.")
        if 0 < people < FEW:
            notes.append(f"Fewer than {FEW} people: have this table checked before it is passed on.")
        return tuple(notes)
