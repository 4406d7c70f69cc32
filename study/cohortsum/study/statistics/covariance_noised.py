"""Covariances from noised products (`scatter_noised`), and the noise in each.

With S the centred products, d = n - centres and c = S_ij / d, the noise of c is to first order (v_i' G v_j - c G_00) / d: G_00 is the
noise of n, which is in S as well. Its variance is that of v_i' G v_j, less 2 v_i0 v_j0 c, plus c^2, times s^2 / d^2.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.noised import Forecast
from cohortsum.study.statistics.scatter_noised import Noised, triangle_noise
from cohortsum.study.statistics.summary_noised import ASSUMED_SD
from cohortsum.study.variables import Number

Floats = NDArray[np.float64]
COVARIANCE_NOISE_COLUMNS = ("covariance_noise_se", "n_noise_sd")
FLOORED = 1.0
"""A variance that is not so many standard deviations of its noise above 0 is flagged, as in a summary."""


def noised_covariances(
    opened: Noised, numbers: tuple[Number, ...], shrinkage: float
) -> tuple[Floats, Floats]:
    """Return the covariance matrix in natural units and the standard deviations of its noise; the status is ``ok``."""
    widths = np.array([number.half_width for number in numbers])
    weights = np.outer(widths, widths) * (1.0 - shrinkage * (1.0 - np.eye(len(widths))))
    freedom = opened.n - opened.centres
    matrix = opened.cross / freedom
    vectors = opened.vectors(np.eye(len(widths)))
    shared = np.outer(vectors[:, 0], vectors[:, 0])
    variance = triangle_noise(vectors) - 2 * shared * matrix + matrix * matrix
    noise = opened.sd / freedom * np.sqrt(np.maximum(variance, 0.0))
    return weights * matrix, weights * noise


def covariance_cells(
    opened: Noised | None, numbers: tuple[Number, ...], shrinkage: float
) -> Iterator[tuple[Cell, ...]]:
    """Yield covariance, n, status and the noise of both for every pair of numbers, each with itself included."""
    rows, columns = np.triu_indices(len(numbers))
    if opened is None:
        why = Absent(Status.TOO_FEW_SITES)
        yield from ((why, why, Status.TOO_FEW_SITES.value, why, why) for _ in rows)
        return
    if opened.status is not Status.OK:
        large = opened.status is Status.NOISE_TOO_LARGE
        why = Absent(Status.NOISE_TOO_LARGE) if large else NO_DATA
        yield from ((why, opened.people, opened.status.value, why, opened.sd) for _ in rows)
        return
    matrix, noise = noised_covariances(opened, numbers, shrinkage)
    floored = opened.drowned(np.eye(len(numbers)), FLOORED)
    for i, j in zip(rows, columns, strict=True):
        status = Status.VARIANCE_FLOORED if floored[i] or floored[j] else Status.OK
        yield (float(matrix[i, j]), opened.people, status.value, float(noise[i, j]), opened.sd)


def forecast_covariance(numbers: int, noise: float, people: float) -> Forecast:
    """Return the errors of the covariance of two numbers that do not go together and spread as ranges are assumed to."""
    return Forecast(
        "each covariance, in half-ranges of both",
        "1",
        noise / people,
        ASSUMED_SD**2 / people**0.5,
        numbers * (numbers + 1) // 2,
    )
