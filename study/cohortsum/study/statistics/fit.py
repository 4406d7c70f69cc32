"""Least squares from centred cross-products, by the sweep operator.

``cross`` is the matrix of centred products of p columns with the outcome last, ``[[Cxx, Cxy], [Cxy', Cyy]]``. Sweeping
column j moves it into the model: its pivot is what the columns before leave unexplained of it, and the corner falls by
the sum of squares that it explains. After all sweeps the matrix holds the inverse of Cxx, the coefficients and the
residual sum of squares (Goodnight 1979, A tutorial on the SWEEP operator, The American Statistician 33).

Rank: a column is left out when its pivot is at most ``TOLERANCE`` of its own sum of squares, so a kept column has a
sequential variance inflation below 1 / TOLERANCE, or lies within what rounding of the sums can make of nothing. Columns
are tried in the order of the study, so the later of two aliased columns is the one named. There is no pseudo-inverse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-8
"""Least share of a column's sum of squares that earlier columns may leave. Sums are right to about 1e-14 of it, so
coefficients of a kept column are right to about 1e-6 in the worst case and to 1e-12 where inflation is below 100."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model.

    Attributes:
        kept: columns in the model, in the order they entered.
        unvarying: columns without variation about the centre.
        aliased: columns that those before them determine.
        gains: sum of squares each kept column added when it entered, aligned with ``kept``.
        b: (kept,) float64 coefficients.
        inverse: (kept, kept) float64, the inverse of Cxx of the kept columns.
        rss: residual sum of squares.
        exact: whether ``rss`` is within the rounding of the sums, so that it says nothing about spread.
    """

    kept: tuple[int, ...]
    unvarying: tuple[int, ...]
    aliased: tuple[int, ...]
    gains: tuple[float, ...]
    b: NDArray[np.float64]
    inverse: NDArray[np.float64]
    rss: float
    exact: bool


def fit(cross: NDArray[np.float64], order: Sequence[int], floor: float) -> Fit:
    """Return the least squares fit of the last variable of ``cross`` on the others.

    Args:
        cross: (p + 1, p + 1) float64 centred cross-products, outcome last; left untouched.
        order: the order in which columns enter; a permutation of range(p).
        floor: greatest error of an entry of ``cross`` by rounding.
    """
    swept = cross.copy()
    kept: list[int] = []
    unvarying: list[int] = []
    aliased: list[int] = []
    gains: list[float] = []
    for j in order:
        if cross[j, j] <= floor:
            unvarying.append(j)
            continue
        if swept[j, j] <= TOLERANCE * cross[j, j] + _error(swept[kept, j], floor):
            aliased.append(j)
            continue
        gains.append(float(swept[j, -1] ** 2 / swept[j, j]))
        sweep(swept, j)
        kept.append(j)
    b, rss = swept[kept, -1], float(swept[-1, -1])
    return Fit(
        kept=tuple(kept),
        unvarying=tuple(unvarying),
        aliased=tuple(aliased),
        gains=tuple(gains),
        b=b,
        inverse=swept[np.ix_(kept, kept)],
        rss=rss,
        exact=rss <= _error(b, floor),
    )


def _error(coefficients: NDArray[np.float64], floor: float) -> float:
    """Return the greatest error of the residual products left by ``coefficients``, entries being off by ``floor``."""
    return float(floor * (1.0 + np.abs(coefficients).sum()) ** 2)


def sweep(matrix: NDArray[np.float64], k: int) -> None:
    """Sweep ``matrix`` on pivot ``k`` in place, signed so that swept blocks hold the inverse itself."""
    pivot = matrix[k, k]
    row = matrix[k] / pivot
    column = matrix[:, k].copy()
    matrix -= column[:, np.newaxis] * row
    matrix[k] = row
    matrix[:, k] = -column / pivot
    matrix[k, k] = 1.0 / pivot


@dataclass(frozen=True, slots=True)
class Residuals:
    """What some columns leave unexplained of others.

    Attributes:
        kept: the columns held fixed, by place.
        dropped: those that vary nowhere, or that the ones before them determine; they change nothing.
        products: (others, others) float64 centred products of the residuals of the other columns.
        unvarying: other columns without variation about the centre, by place among the others.
        explained: other columns of which nothing is left, likewise.
    """

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    products: NDArray[np.float64]
    unvarying: frozenset[int]
    explained: frozenset[int]


def residuals(cross: NDArray[np.float64], given: int, floor: float) -> Residuals:
    """Return what the first ``given`` columns of ``cross`` leave of the others.

    Args:
        cross: (columns, columns) float64 centred cross-products; left untouched.
        given: how many of them are held fixed.
        floor: greatest error of an entry of ``cross`` by rounding.
    """
    swept = cross.copy()
    kept: list[int] = []
    dropped: list[int] = []

    def nothing_left(j: int) -> bool:
        return bool(swept[j, j] <= TOLERANCE * cross[j, j] + _error(swept[kept, j], floor))

    for j in range(given):
        if cross[j, j] <= floor or nothing_left(j):
            dropped.append(j)
            continue
        sweep(swept, j)
        kept.append(j)
    others = range(given, len(cross))
    return Residuals(
        kept=tuple(kept),
        dropped=tuple(dropped),
        products=swept[given:, given:],
        unvarying=frozenset(j - given for j in others if cross[j, j] <= floor),
        explained=frozenset(j - given for j in others if nothing_left(j)),
    )
