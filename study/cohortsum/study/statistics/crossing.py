"""Factors crossed: the cells that their levels make, and who is in which.

A person without a level of one of the factors is in no cell. Cells are numbered with the last factor running fastest.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.variables import Factor

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Crossing:
    """Every combination of the levels of ``factors``; without factors one cell holds everybody."""

    factors: tuple[Factor, ...]

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Return the cells as one level per factor, in order."""
        return tuple(product(*(factor.levels for factor in self.factors)))

    def level_names(self, cell: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the levels of a cell, as supply items and set names have them."""
        return tuple(factor.level_name(level) for factor, level in zip(self.factors, cell, strict=True))

    def places(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the number of each person's cell, or NOWHERE, (people,) int64."""
        cells = np.zeros(len(people), np.int64)
        known = np.ones(len(people), np.bool_)
        for factor in self.factors:
            levels = batch.levels[factor.name][people]
            cells = cells * len(factor.levels) + levels
            known &= levels >= 0
        return np.where(known, cells, NOWHERE)
