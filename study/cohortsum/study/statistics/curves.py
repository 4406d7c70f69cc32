"""Columns of a smooth curve over one number: its powers, or a cubic B-spline on public knots.

The spline's knots are those of the study between the ends of the variable's public range, which are the outer ones, repeated.
Its basis functions (de Boor 1978, A Practical Guide to Splines, chapter IX) lie in [0, 1] and add to 1, so that the first is
left out beside an intercept. Powers are those of the normalised value u, in [-1, 1].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.units import clipped, normalised
from cohortsum.study.variables import Number

DEGREE = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over a number.

    Attributes:
        over: the number.
        basis: ``linear``, ``quadratic`` or ``spline``.
        knots: interior knots of a spline, ascending, inside the public range; none otherwise.
    """

    over: Number
    basis: Literal["linear", "quadratic", "spline"]
    knots: tuple[float, ...] = ()

    @property
    def columns(self) -> int:
        """How many columns the curve has."""
        return {"linear": 1, "quadratic": 2, "spline": len(self.knots) + DEGREE}[self.basis]

    def interval(self, column: int) -> tuple[float, float]:
        """Return the public range of one column."""
        return (0.0, 1.0) if self.basis == "spline" or column == 1 else (-1.0, 1.0)

    def values(self, values: Floats) -> Floats:
        """Return the columns at ``values``, (people, columns) float64; NaN where a value is."""
        if self.basis == "spline":
            return _splines(values, self.over.lower, self.over.upper, self.knots)[:, 1:]
        u = normalised(values, self.over.middle, self.over.half_width)
        return np.column_stack([u ** (column + 1) for column in range(self.columns)])

    def column(self, batch: Batch, people: NDArray[np.intp], column: int) -> Floats:
        """Return one column for ``people`` of a batch."""
        return self.values(clipped(batch, self.over, people))[:, column]


def _splines(values: Floats, lower: float, upper: float, interior: Sequence[float]) -> Floats:
    """Return all basis functions at ``values``, (people, interior + 4), by the recurrence of Cox and de Boor."""
    knots = np.array([lower] * (DEGREE + 1) + [*interior] + [upper] * (DEGREE + 1))
    x = values[:, np.newaxis]
    inside = (knots[:-1] <= x) & (x < knots[1:])
    last = len(interior) + DEGREE  # the last interval that is not empty is closed on the right
    inside[:, last] |= values == upper
    basis = inside.astype(np.float64)
    for degree in range(1, DEGREE + 1):
        left, right = knots[: -degree - 1], knots[degree + 1 :]
        rise, fall = knots[degree:-1] - left, right - knots[1:-degree]
        up = (x - left) / np.where(rise > 0.0, rise, 1.0) * (rise > 0.0)
        down = (right - x) / np.where(fall > 0.0, fall, 1.0) * (fall > 0.0)
        basis = up * basis[:, :-1] + down * basis[:, 1:]
    return basis
