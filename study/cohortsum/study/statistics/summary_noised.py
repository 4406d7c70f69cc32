"""Means and spreads under noise: how far one person moves their sums, and what may be said of the noised ones.

Per variable a person adds to one cell at most: (1, 0; u, u^2) with a value, (0, 1; 0, 0) without one, |u| <= 1, and nothing outside the
subgroup. Squared L2 norms: 3 and 1. Replacing one person's values

* inside one cell, with a value before and after: (a - b)^2 + (a^2 - b^2)^2 = d^2 (1 + s^2) with d = |a - b|, s = |a + b|, d + s <= 2,
  which is at most 4 (at s = 0);
* inside one cell, from a value to none: 1 + 1 + 2 = 4;
* from one cell to another: 3 + 3 = 6; out of the subgroup 3.

Variables add up: the bound for v of them is v times as much. One person more or less moves v times 3. How many people a variable's
n and missing are about together, without groups and subgroup, is public and does not move when values are replaced.

A noised mean is S1 / n, and its noise to first order (e(S1) - u e(n)) / n. A noised variance may come out below what noise alone makes
of equal values; it is then floored at 0 and flagged. Where the public total travels, n and missing are made to add up to it: both are
moved by half of what is amiss, which is least squares. All this happens after the noise and costs nothing.
"""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.variables import Number

NOISED_NOTE = (
    "mean_se is the sampling error, mean_noise_se what the noise adds; low and high are 95 % limits from both. Counts carry noise and "
    "are rounded."
)
NORMAL_95 = 1.959963984540054
LEAST_COUNTS = 3.0
"""A count that is not at least so many standard deviations of its noise above 0 carries no mean."""
ASSUMED_SD = 0.25
"""Spread of a variable in half-ranges where a forecast has nothing better: a public range of 4 standard deviations each way."""


def summary_part(blocks: tuple[str, ...], variables: int, cells: int, adjacency: Adjacency) -> Part:
    """Return the part of a summary of ``variables`` in ``cells`` cells; the module says why."""
    moved = 3 if adjacency == "add_or_remove" else 4 if cells == 1 else 6
    return Part(blocks, sqrt(variables * moved), variables * moved)


def noised_cell(
    noisy: Noisy, prefix: str, variable: Number, everybody: NDArray[np.float64] | None
) -> tuple[Cell, ...]:
    """Return n, missing, mean, sd, mean_noise_se, status, variance, mean_se, low and high of a cell.

    Args:
        noisy: the opened sums.
        prefix: of the names of the cell's blocks.
        variable: what is summarised.
        everybody: (1,), how many people n and missing are about together, where that is public and travelled.
    """
    people, sums = noisy.of(f"{prefix}/people"), noisy.of(f"{prefix}/sums")
    if people is None or sums is None:
        withheld = Absent(Status.TOO_FEW_SITES)
        return (withheld,) * 5 + (Status.TOO_FEW_SITES.value,) + (withheld,) * 4
    n, missing = _consistent(people, everybody)
    sd_n, sd_s = noisy.sd[f"{prefix}/people"], noisy.sd[f"{prefix}/sums"]
    counts: tuple[Cell, Cell] = (round(n), round(missing))
    if n < max(LEAST_COUNTS * sd_n, 2.0):
        nothing = Absent(Status.NOISE_TOO_LARGE)
        return (*counts, *(nothing,) * 3, Status.NOISE_TOO_LARGE.value, *(nothing,) * 4)
    half = variable.half_width
    mean = min(max(float(sums[0]) / n, -1.0), 1.0)
    noise = sqrt(sd_s**2 + (mean * sd_n) ** 2) / n
    squares = float(sums[1]) / n - mean * mean
    variance = max(squares, 0.0) * n / (n - 1)
    floored = squares <= sqrt(1 + 4 * mean**2) * sd_s / n
    sampling = sqrt(variance / n)
    limit = NORMAL_95 * sqrt(noise**2 + sampling**2)
    middle = variable.middle
    return (
        *counts,
        middle + half * mean,
        half * sqrt(variance),
        half * noise,
        Status.VARIANCE_FLOORED.value if floored else Status.OK.value,
        half * half * variance,
        half * sampling if not floored else NO_DATA,
        middle + half * (mean - limit) if not floored else NO_DATA,
        middle + half * (mean + limit) if not floored else NO_DATA,
    )


def forecast_mean(variable: Number, cell: str, noise: float, people: float, per: int) -> Forecast:
    """Return the errors of a mean of ``people`` people whose sum carries noise of standard deviation ``noise``."""
    half = variable.half_width
    what = f"mean of {variable.name}" + (f", {cell}" if cell else "")
    return Forecast(what, variable.unit, half * noise / people, half * ASSUMED_SD / sqrt(people), per)


def _consistent(people: NDArray[np.float64], everybody: NDArray[np.float64] | None) -> tuple[float, float]:
    """Return n and missing, not negative, and adding up where their total is public."""
    n, missing = float(people[0]), float(people[1])
    if everybody is not None:
        total = float(everybody[0])
        n = min(max(n + (total - n - missing) / 2, 0.0), total)
        return n, total - n
    return max(n, 0.0), max(missing, 0.0)
