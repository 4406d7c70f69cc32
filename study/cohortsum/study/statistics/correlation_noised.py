"""Correlations from noised products (`scatter_noised`), with intervals that hold the noise.

With S what the columns held fixed leave of the centred products, r = S_ij / sqrt(S_ii S_jj). What S_ij owes to the noise G in the sums
of zz' is v_i' G v_j to first order, v_i being column i less its regression on those held fixed and on 1: the regression itself is at
its least squares, and does not matter. Divided by the roots of S_ii and S_jj, as a and b,

    e(r) = a'Gb - r (a'Ga + b'Gb) / 2,

a weighted sum of the independent entries of G: with K = (ab' + ba') / 2 - r (aa' + bb') / 2 its variance is s^2 (2 |K|^2 - |diag K|^2).

The 95 % limits are Fisher's, each at a distance w from r, moved to sqrt(w^2 + (1.96 e)^2), e the standard deviation of e(r), and
within -1 and 1 (Zou and Donner 2008). p is two-sided from t = r / sqrt((1 - r^2) / df + e^2): without noise the test of Pearson's r.

First order does not hold where a variance is near its noise: no correlation is given with a variable whose S_ii is less than
`LEAST_COUNTS` standard deviations of its noise, nor any where that is so of a column held fixed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import atanh, hypot, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.distributions import t_two_sided
from cohortsum.study.statistics.noised import Forecast
from cohortsum.study.statistics.scatter_noised import Noised
from cohortsum.study.statistics.summary_noised import ASSUMED_SD, LEAST_COUNTS, NORMAL_95

Floats = NDArray[np.float64]
CORRELATION_NOISE_COLUMNS = ("r_noise_se", "n_noise_sd")
INTERVAL_NOTE = (
    "low and high are 95 % limits from the sampling error (Fisher) and the noise together; p takes both into account. There is no "
    "correlation with a variable whose variance is below three standard deviations of its noise."
)


@dataclass(frozen=True, slots=True)
class Correlations:
    """Every two of some columns, others held fixed.

    Attributes:
        r: (columns, columns) float64 within -1 and 1; means something where both columns are ``known``.
        noise: standard deviation of the noise in each, likewise.
        known: which columns vary by enough.
    """

    r: Floats
    noise: Floats
    known: NDArray[np.bool_]


def correlations(opened: Noised, held: int) -> Correlations | None:
    """Return the correlations of the columns after the first ``held``; None where one of these is drowned in noise."""
    left = _residuals(opened, held)
    if left is None:
        return None
    known = ~opened.drowned(left, LEAST_COUNTS)
    products = left @ opened.cross @ left.T
    spread = np.sqrt(np.where(known, np.diag(products), 1.0))
    r = np.clip(products / np.outer(spread, spread), -1.0, 1.0)
    scaled = opened.vectors(left) / spread[:, np.newaxis]
    return Correlations(r, opened.sd * np.sqrt(np.maximum(_ratio_noise(scaled, r), 0.0)), known)


def _residuals(opened: Noised, held: int) -> Floats | None:
    """Return what the first ``held`` columns leave of each further one, as combinations of all columns."""
    left = np.eye(len(opened.cross))
    for place in range(held):  # in turn, so that no system is solved that noise could have made singular
        before = opened.cross[:place, :place]
        left[place, :place] = -np.linalg.solve(before, opened.cross[:place, place])
        if opened.drowned(left[place : place + 1], LEAST_COUNTS)[0]:
            return None
    fixed = opened.cross[:held, :held]
    left[held:, :held] = -np.linalg.solve(fixed, opened.cross[:held, held:]).T
    return left[held:]


def _ratio_noise(vectors: Floats, r: Floats) -> Floats:
    """Return 2 |K|^2 - |diag K|^2 for every two of some vectors, of the K of the module."""
    inner, squares = vectors @ vectors.T, vectors * vectors
    lengths, fourths = np.diag(inner), (squares * squares).sum(axis=1)
    mixed = (squares * vectors) @ vectors.T
    both = squares @ squares.T
    matrix = (
        (np.outer(lengths, lengths) + inner * inner) / 2
        - r * inner * np.add.outer(lengths, lengths)
        + r * r / 4 * (np.add.outer(lengths**2, lengths**2) + 2 * inner * inner)
    )
    diagonal = both - r * (mixed + mixed.T) + r * r / 4 * (np.add.outer(fourths, fourths) + 2 * both)
    return np.asarray(2 * matrix - diagonal, np.float64)


def correlation_cells(opened: Noised | None, held: int, numbers: int) -> Iterator[tuple[Cell, ...]]:
    """Yield r, low, high, p, n, status, df and the noise of r and n for every pair of ``numbers`` numbers."""
    pairs = list(combinations(range(numbers), 2))
    if opened is None:
        why = Absent(Status.TOO_FEW_SITES)
        status = Status.TOO_FEW_SITES.value
        yield from ((why, why, why, why, why, status, why, why, why) for _ in pairs)
        return
    lost = opened.centres + held + 1
    df = opened.people - lost
    shown: Cell = df if df >= 1 else NO_DATA
    found = correlations(opened, held) if opened.status is Status.OK and df >= 1 else None
    for i, j in pairs:
        status = _status(opened, df, found, i, j)
        if found is None or status is not Status.OK:
            why = NO_DATA if status in _WITHOUT_NOISE else Absent(status)
            yield (why, why, why, why, opened.people, status.value, shown, why, opened.sd)
            continue
        r, noise = float(found.r[i, j]), float(found.noise[i, j])
        yield (r, *_tested(r, noise, opened.n - lost), opened.people, status.value, shown, noise, opened.sd)


_WITHOUT_NOISE = (Status.ALL_MISSING, Status.NOT_ESTIMABLE)


def _status(opened: Noised, df: int, found: Correlations | None, i: int, j: int) -> Status:
    if opened.status is not Status.OK:
        return opened.status
    if df < 1:
        return Status.NOT_ESTIMABLE
    if found is None:
        return Status.NOISE_TOO_LARGE
    return Status.OK if found.known[i] and found.known[j] else Status.VARIANCE_FLOORED


def _tested(r: float, noise: float, df: float) -> tuple[Cell, Cell, Cell]:
    """Return low, high and p."""
    rest = (1.0 - r) * (1.0 + r)
    error = sqrt(rest / df + noise * noise)
    p = t_two_sided(r / error, df) if error > 0.0 else 0.0
    if rest > 0.0 and df <= 1:
        return NO_DATA, NO_DATA, p
    z, reach = (atanh(r), NORMAL_95 / sqrt(df - 1)) if rest > 0.0 else (0.0, 0.0)
    ends = (tanh(z - reach), tanh(z + reach)) if rest > 0.0 else (r, r)
    low, high = (
        r + side * hypot(r - end, NORMAL_95 * noise) for side, end in zip((-1, 1), ends, strict=True)
    )
    return max(low, -1.0), min(high, 1.0), p


def forecast_correlation(pairs: int, noise: float, people: float) -> Forecast:
    """Return the errors of the correlation of two numbers that do not go together and spread as ranges are assumed to."""
    return Forecast("each correlation", "1", noise / (people * ASSUMED_SD**2), 1.0 / sqrt(people), pairs)
