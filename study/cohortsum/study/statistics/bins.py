"""The public bins of a number: those of the study, and what its range reaches beyond them.

Bins are closed on the left and open on the right, the last one given is closed on both sides. Where the public range of a
variable reaches beyond the edges of the study, one more bin on that side holds the people there, so that counts and missing
people always add up to the people asked about. Every bin is a people set of its own, and so are the missing people.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.variables import Number

SLACK = 1e-12
"""Share of a bin by which its parts may be wider than asked, so that 0.1 in steps of 0.01 is ten parts."""


def refuse_no_bins(analysis: str, edges: tuple[float, ...]) -> None:
    """Raise StudyFileError for edges that are fewer than 2, not finite or not ascending."""
    finite = bool(np.all(np.isfinite(edges)))
    if len(edges) < 2 or not finite or any(low >= high for low, high in pairwise(edges)):
        raise StudyFileError(
            f"analysis '{analysis}', field 'edges': expected at least 2 finite numbers, each greater than the "
            "one before; correct the list"
        )


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of one variable.

    Attributes:
        variable: what is parted.
        edges: of the study, ascending, at least 2.
    """

    variable: Number
    edges: tuple[float, ...]

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """Low and high of every bin, the outer ones included."""
        below, above = self._outside
        first = (self.variable.lower,) if below else ()
        last = (self.variable.upper,) if above else ()
        return tuple(pairwise((*first, *self.edges, *last)))

    @property
    def names(self) -> tuple[str, ...]:
        """The bins as intervals, such as ``[20.0, 40.0)``."""
        return tuple(
            f"{left}{low}, {high}{right}"
            for (low, high), (left, right) in zip(self.intervals, self._brackets, strict=True)
        )

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the bin of each value within the range of the variable; NaN is one place after the last bin."""
        place = np.searchsorted(self.edges, values, side="right")
        place[values == self.edges[-1]] = len(self.edges) - 1
        place -= not self._outside[0]
        place[np.isnan(values)] = len(self.intervals)
        return place

    def parts(self, place: int, width: float) -> tuple[float, ...]:
        """Return the edges that part one bin into equal pieces no wider than ``width``, its own ends included."""
        low, high = self.intervals[place]
        count = part_count(low, high, width)
        return (*(low + (high - low) * part / count for part in range(count)), high)

    def part_names(self, place: int, width: float) -> tuple[str, ...]:
        """Return the pieces of one bin as intervals."""
        edges = self.parts(place, width)
        left, right = self._brackets[place]
        lefts = (left, *"[" * (len(edges) - 2))
        rights = (*")" * (len(edges) - 2), right)
        return tuple(
            f"{before}{low}, {high}{after}"
            for before, (low, high), after in zip(lefts, pairwise(edges), rights, strict=True)
        )

    @property
    def _outside(self) -> tuple[bool, bool]:
        """Whether the public range reaches below and above the edges."""
        return self.variable.lower < self.edges[0], self.variable.upper > self.edges[-1]

    @property
    def _brackets(self) -> tuple[tuple[str, str], ...]:
        below, above = self._outside
        last = len(self.edges) - 2 + below  # of those given; one above it is open on the left
        return tuple(
            ("(" if place > last else "[", ")" if place < last else "]") for place in range(last + 1 + above)
        )


def part_count(low: float, high: float, width: float) -> int:
    """Return how many equal pieces no wider than ``width`` a bin is parted into."""
    return max(1, ceil((high - low) / width * (1 - SLACK)))
