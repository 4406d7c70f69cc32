"""Groups of people: the levels of factors crossed with bands of numbers.

A band is closed on the left and open on the right, the last one closed on both sides; together the bands of a number cover its
public range. A person without a level of one of the factors, or without a value of one of the banded numbers, is in no group.
"""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.crossing import NOWHERE, Crossing
from cohortsum.study.statistics.texts import plain
from cohortsum.study.statistics.units import clipped
from cohortsum.study.variables import Factor, Number


@dataclass(frozen=True, slots=True)
class Banded:
    """A number parted at public cuts, ascending and inside its range."""

    variable: Number
    cuts: tuple[float, ...]

    @property
    def bands(self) -> tuple[str, ...]:
        """The bands as intervals, such as ``[20, 25)``."""
        ends = [plain(end) for end in (self.variable.lower, *self.cuts, self.variable.upper)]
        opened = [f"[{low}, {high})" for low, high in pairwise(ends)]
        return (*opened[:-1], f"{opened[-1][:-1]}]")

    def places(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the band of each person, or NOWHERE, (people,) int64."""
        values = clipped(batch, self.variable, people)
        bands = np.searchsorted(self.cuts, values, side="right")
        return np.where(np.isnan(values), NOWHERE, bands).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Groups:
    """Every combination of the levels of ``factors`` and of the bands of ``banded``; without both one group holds everybody."""

    factors: tuple[Factor, ...]
    banded: tuple[Banded, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what makes the groups, as columns of a table."""
        return (*(factor.name for factor in self.factors), *(one.variable.name for one in self.banded))

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The groups as one level per factor, then one band per number; the last runs fastest."""
        bands = tuple(product(*(one.bands for one in self.banded)))
        return tuple((*levels, *chosen) for levels, chosen in product(self._crossing.cells, bands))

    def items(self, cell: tuple[str, ...]) -> frozenset[str]:
        """Return what a site must supply to have people of a group."""
        levels = self._crossing.level_names(cell[: len(self.factors)])
        return frozenset({*levels, *(one.variable.name for one in self.banded)})

    def names(self, cell: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the levels and bands of a group, as parts of the name of a people set."""
        split = len(self.factors)
        bands = (f"{one.variable.name}{band}" for one, band in zip(self.banded, cell[split:], strict=True))
        return (*self._crossing.level_names(cell[:split]), *bands)

    def places(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the number of each person's group, or NOWHERE, (people,) int64."""
        places = self._crossing.places(batch, people)
        for one in self.banded:
            bands = one.places(batch, people)
            known = (places != NOWHERE) & (bands != NOWHERE)
            places = np.where(known, places * len(one.bands) + bands, NOWHERE)
        return places

    @property
    def _crossing(self) -> Crossing:
        return Crossing(self.factors)
