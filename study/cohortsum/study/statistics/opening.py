"""From the opened integers of one outcome to centred sums in float64.

Blocks that sites centred are scaled back. Plain sums over all people are centred here about the means of all, in
integer arithmetic with one rounding per number at the end, so that a mean far from the public centre costs no digits.
"""

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.estimates import Totals
from cohortsum.study.statistics.products import symmetric

ROUNDING = 2.0**-50
"""Bound on the error per person of a float64 sum of products in [-1, 1]."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def opened(
    people: Integers,
    sites: Integers,
    covariates: Integers,
    products: Integers,
    fraction_bits: int,
    intercept: bool,
    weighted: bool = False,
) -> Totals:
    """Return the totals behind the four opened blocks of an outcome.

    Args:
        people: n, then the people at each level of the effect.
        sites: contributing sites, then those with both arms per further level.
        covariates: xx, upper triangle by rows; with an intercept the sums of x before it, and with weights that of w first.
        products: xy, then yy; with an intercept the sum of y before them.
        fraction_bits: the grid of ``covariates`` and ``products``.
        intercept: whether the sums are plain and have to be centred.
        weighted: whether people carry weights, whose sum then stands in for n where means are formed.
    """
    n = int(people[0])
    size = len(products) - (2 if intercept else 1)
    grid = 2.0**-fraction_bits
    means: Floats | None = None
    mass = n << fraction_bits  # on the grid
    if intercept:
        if weighted:
            mass, covariates = int(covariates[0]), covariates[1:]
        totals_x, totals_y = [int(total) for total in covariates[:size]], int(products[0])
        rows, columns = np.triu_indices(size)
        first, second = [totals_x[row] for row in rows], [totals_x[column] for column in columns]
        triangle = _about_means(mass, covariates[size:], first, second, fraction_bits)
        last = _about_means(mass, products[1:], [*totals_x, totals_y], [totals_y] * (size + 1), fraction_bits)
        means = np.array([total / max(mass, 1) for total in (*totals_x, totals_y)], np.float64)
        floor = n * (1.5 * grid + ROUNDING)  # three roundings of half a unit per person
    else:
        triangle = covariates.astype(np.float64) * grid
        last = products.astype(np.float64) * grid
        floor = n * ROUNDING + int(sites[0]) * grid
    cross = np.empty((size + 1, size + 1))
    cross[:size, :size] = symmetric(triangle, size)
    cross[size, :] = cross[:, size] = last
    return Totals(
        people=n,
        levels=tuple(int(count) for count in people[1:]),
        sites=tuple(int(count) for count in sites),
        cross=cross,
        floor=floor,
        means=means,
        mass=mass * grid if weighted else float(n),
    )


def about_means(n: int, raw: Integers, first: list[int], second: list[int], fraction_bits: int) -> Floats:
    """Return ``raw - first * second / n`` for sums on the grid, each number rounded once; n = 0 gives zeros."""
    return _about_means(n << fraction_bits, raw, first, second, fraction_bits)


def _about_means(mass: int, raw: Integers, first: list[int], second: list[int], fraction_bits: int) -> Floats:
    """Return ``raw - first * second / mass`` for sums on the grid, each number rounded once; nobody gives zeros."""
    unit, mass = 1 << fraction_bits, max(mass, 1)
    return np.array(
        [(mass * int(total) - a * b) / (mass * unit) for total, a, b in zip(raw, first, second, strict=True)],
        np.float64,
    )
