"""Principal components of a noised covariance or correlation matrix.

The matrix is the nearest one without negative eigenvalues (`scatter_noised`). Its entries carry independent noise, or nearly so; if
their standard deviation were s in all of p rows, every eigenvalue would be moved by about s sqrt(p) (the eigenvalues of the noise alone
reach 2 s sqrt(p): Wigner 1955). `eigenvalue_noise_sd` is that for the root mean square of the entries' own. The noise of the greatest
eigenvalues is rather less, and the smallest ones are noise where they are below it; all eigenvalues are spread by it, so that the first
are too great. Directions turn by about as much as the noise is of the gap to the nearest other eigenvalue: no loading is given where
the gap is smaller than the noise.

A variable whose variance is below three standard deviations of its noise leaves, and says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.components import Component, principal_components
from cohortsum.study.statistics.correlation_noised import correlations
from cohortsum.study.statistics.covariance_noised import noised_covariances
from cohortsum.study.statistics.noised import Forecast
from cohortsum.study.statistics.scatter_noised import Noised
from cohortsum.study.statistics.summary_noised import ASSUMED_SD, LEAST_COUNTS
from cohortsum.study.variables import Number

Floats = NDArray[np.float64]
PCA_NOISE_COLUMNS = ("eigenvalue_noise_sd", "n_noise_sd")
PCA_NOISE_NOTE = (
    "eigenvalue_noise_sd is the size of what the noise does to an eigenvalue; it spreads them, so that the first are too great. A "
    "component has no loadings where its eigenvalue is no farther than that from another, and a variable none where its variance is "
    "below three standard deviations of its noise."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: the variables, the number of components, the kind of matrix, and the shrinkage off its diagonal."""

    numbers: tuple[Number, ...]
    components: int
    matrix: Literal["correlation", "covariance"]
    shrinkage: float


def pca_rows(opened: Noised | None, asked: Asked) -> Iterator[tuple[Cell, ...]]:
    """Yield component, share, variable, loading, status, eigenvalue, n and the noise of the last two, by component and variable."""
    if opened is None:
        yield from _nothing(asked, Absent(Status.TOO_FEW_SITES), Status.TOO_FEW_SITES, None)
        return
    known = np.zeros(len(asked.numbers), np.bool_)
    if opened.status is Status.OK:
        known = ~opened.drowned(np.eye(len(asked.numbers)), LEAST_COUNTS)
    if not known.any():
        status = Status.VARIANCE_FLOORED if opened.status is Status.OK else opened.status
        noisy = status in (Status.VARIANCE_FLOORED, Status.NOISE_TOO_LARGE)
        yield from _nothing(asked, Absent(status) if noisy else NO_DATA, status, opened)
        return
    matrix, noise = (whole[np.ix_(known, known)] for whole in _matrix(opened, asked))
    level = sqrt(float((noise * noise).sum()) / len(matrix))
    found = principal_components(matrix, len(matrix))
    columns = np.cumsum(known) - 1
    for place in range(asked.components):
        component = found[place] if place < len(found) else None
        share: Cell = NO_DATA if component is None else component.share
        eigenvalue: Cell = NO_DATA if component is None else component.eigenvalue
        direction = _direction(found, place, level)
        for variable, number in enumerate(asked.numbers):
            loading: Cell = NO_DATA
            row_status = _row_status(bool(known[variable]), direction)
            if row_status in (Status.VARIANCE_FLOORED, Status.NOISE_TOO_LARGE):
                loading = Absent(row_status)
            elif not isinstance(direction, Status):
                loading = float(direction[columns[variable]])
            head = (place + 1, share, number.name, loading, row_status.value, eigenvalue)
            yield (*head, opened.people, NO_DATA if component is None else level, opened.sd)


def forecast_eigenvalue(numbers: int, noise: float, people: float) -> Forecast:
    """Return the errors of an eigenvalue of the correlations of numbers that do not go together."""
    entry = noise / (people * ASSUMED_SD**2)
    return Forecast(
        "each eigenvalue of the correlations",
        "1",
        entry * sqrt(numbers),
        sqrt(2 / people),
        numbers * (numbers + 1) // 2,
    )


def _matrix(opened: Noised, asked: Asked) -> tuple[Floats, Floats]:
    """Return the matrix of all variables and the noise of its entries; those of variables that leave mean nothing."""
    if asked.matrix == "covariance":
        return noised_covariances(opened, asked.numbers, asked.shrinkage)
    found = correlations(opened, 0)
    assert found is not None, "no column is held fixed"  # noqa: S101
    weights = 1.0 - asked.shrinkage * (1.0 - np.eye(len(asked.numbers)))
    return weights * found.r, weights * found.noise


def _direction(found: tuple[Component, ...], place: int, level: float) -> Floats | Status:
    """Return the loadings of a component, or why there are none."""
    if place >= len(found):
        return Status.NOT_ESTIMABLE
    loadings, value = found[place].loadings, found[place].eigenvalue
    if any(abs(one.eigenvalue - value) <= level for one in (*found[:place], *found[place + 1 :])):
        return Status.NOISE_TOO_LARGE if level > 0.0 else Status.NOT_ESTIMABLE
    return Status.NOT_ESTIMABLE if loadings is None else loadings


def _row_status(known: bool, direction: Floats | Status) -> Status:
    if not known:
        return Status.VARIANCE_FLOORED
    return direction if isinstance(direction, Status) else Status.OK


def _nothing(asked: Asked, why: Absent, status: Status, opened: Noised | None) -> Iterator[tuple[Cell, ...]]:
    people: Cell = why if opened is None else opened.people
    sd: Cell = why if opened is None else opened.sd
    for place in range(asked.components):
        for number in asked.numbers:
            yield (place + 1, why, number.name, why, status.value, why, people, why, sd)
