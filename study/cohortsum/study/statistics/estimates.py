"""From the opened sums of one outcome to its coefficients in natural units.

With centred sums C over people and sites: b = Cxx^-1 Cxy, RSS = Cyy - b'Cxy, covariance of b = RSS/df Cxx^-1. Centring
costs one degree of freedom per centre: K, the sites with at least one person, when each site centred its own people
(then this is the regression with one dummy per site), or 1 when the sums are centred as one. A normalised coefficient
becomes a natural one by the ratio of the half widths of outcome and column; shifts drop out, save in the intercept.

The variance inflation of a column is its Cxx times its entry in Cxx^-1. A ridge with penalty k solves (Cxx + k D) b = Cxy,
D being the diagonal of Cxx: in correlation form this is (R + k I) beta = r (Hoerl and Kennard 1970, Technometrics 12), so k
has no unit and does not depend on the number of people. It gives no standard errors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import INTERCEPT, Status
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.distributions import f_upper
from cohortsum.study.statistics.fit import Fit, fit
from cohortsum.study.variables import Number

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Totals:
    """The opened sums of one outcome.

    Attributes:
        people: people in the sums.
        levels: people at each level of the effect.
        sites: sites with at least one person; then, per further level of the effect, sites with both arms.
        cross: (p + 1, p + 1) float64 centred products of the normalised columns, outcome last.
        floor: greatest error of an entry of ``cross`` by rounding.
        means: (p + 1,) float64 means of the normalised columns, outcome last; None where each site centred its own.
        mass: sum of the weights, which is ``people`` without any; not known where each site centred its own.
    """

    people: int
    levels: tuple[int, ...]
    sites: tuple[int, ...]
    cross: Floats
    floor: float
    means: Floats | None
    mass: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The coefficients of one outcome.

    Attributes:
        totals: what they rest on, or None where too few sites supply the outcome.
        statuses: one per term name.
        b: (terms,) float64 in natural units; meaningful where the status is ``ok``.
        covariance: (terms, terms) float64 of ``b``, likewise.
        df: residual degrees of freedom; a ridge takes the trace of its hat matrix.
        residual: residual mean square of the normalised outcome.
        slopes: (columns,) float64 of the normalised columns, 0 for those left out.
        inverse: (columns, columns) float64, the inverse of Cxx of the kept columns, 0 for those left out.
        robust: (terms, terms) float64, a covariance of ``b`` that stands without equal variances, where it is asked for.
    """

    totals: Totals | None
    statuses: tuple[Status, ...]
    b: Floats
    covariance: Floats
    df: float
    residual: float
    slopes: Floats
    inverse: Floats
    robust: Floats | None = None

    @property
    def errors(self) -> Floats:
        """The covariance that standard errors come from."""
        return self.covariance if self.robust is None else self.robust

    @property
    def inflation(self) -> Floats:
        """The variance inflation of every column, (columns,) float64; meaningful where the status is ``ok``."""
        assert self.totals is not None, "nothing was estimated"  # noqa: S101
        return np.diag(self.inverse) * np.diag(self.totals.cross)[:-1]

    @property
    def failure(self) -> Status | None:
        """Why nothing at all was estimated for this outcome, or None."""
        return self.statuses[0] if Status.OK not in self.statuses else None


def term_names(columns: tuple[Column, ...], intercept: bool) -> tuple[str, ...]:
    """Return the names of the coefficients in the order of the tables."""
    return ((INTERCEPT,) if intercept else ()) + tuple(column.name for column in columns)


def estimate(
    outcome: Number,
    columns: tuple[Column, ...],
    totals: Totals | None,
    intercept: bool,
    ridge: float | None = None,
) -> Estimate:
    """Return the estimate of one outcome; every coefficient carries its own status."""
    terms = len(columns) + intercept
    if totals is None:
        return _nothing(None, Status.TOO_FEW_SITES, terms, 0)
    if totals.people == 0:
        return _nothing(totals, Status.ALL_MISSING, terms, 0)
    cross = totals.cross.copy()
    diagonal = np.diag_indices(len(columns))
    cross[diagonal] *= 1.0 if ridge is None else 1.0 + ridge
    fitted = fit(cross, range(len(columns)), totals.floor)
    kept = list(fitted.kept)
    df: float = degrees_of_freedom(totals, fitted)
    if (
        ridge is not None
    ):  # the trace of (Cxx + k D)^-1 Cxx is the number of columns less that of (Cxx + k D)^-1 k D
        df += ridge * float(np.diag(fitted.inverse) @ totals.cross[kept, kept])
    if df < 1:
        return _nothing(totals, Status.NOT_ESTIMABLE, terms, df)
    if totals.cross[-1, -1] <= totals.floor:
        return _nothing(totals, Status.CONSTANT, terms, df)
    if fitted.exact:  # no residual spread, so no standard error
        return _nothing(totals, Status.NOT_ESTIMABLE, terms, df)
    residual = fitted.rss / df
    scale = outcome.half_width / np.array([column.half_width for column in columns])
    slopes, inverse = np.zeros(len(columns)), np.zeros((len(columns), len(columns)))
    slopes[kept] = fitted.b
    inverse[np.ix_(kept, kept)] = fitted.inverse
    b, covariance = slopes * scale, residual * inverse * np.outer(scale, scale)
    statuses = [Status.ALIASED] * len(columns)
    for position in fitted.kept:
        statuses[position] = Status.OK
    if totals.means is not None:  # varies nowhere; centred by site, it may still vary between sites
        for position in fitted.unvarying:
            statuses[position] = Status.CONSTANT
        b, covariance = _with_intercept(outcome, columns, totals, b, covariance, residual)
        statuses.insert(0, Status.OK)
    return Estimate(totals, tuple(statuses), b, covariance, df, residual, slopes, inverse)


def degrees_of_freedom(totals: Totals, fitted: Fit) -> int:
    """Return people less centres less columns in the model."""
    centres = totals.sites[0] if totals.means is None else 1
    return totals.people - centres - len(fitted.kept)


@dataclass(frozen=True, slots=True)
class FTest:
    """A nested F test; ``df`` is 0 where the dropped columns explain nothing that the others do not."""

    f: float
    df: int
    df2: float
    p: float


def f_test(totals: Totals, columns: tuple[Column, ...], dropped: tuple[str, ...], full: Estimate) -> FTest:
    """Return the joint test of all columns of the terms ``dropped``, from sub-blocks of the same sums.

    The dropped columns enter last, so their gains are the difference of the two residual sums of squares, formed
    without subtracting them. Where standard errors are robust, it is the Wald test with their covariance.
    """
    if full.robust is not None:
        return _wald_test(columns, dropped, full)
    last = [position for position, column in enumerate(columns) if column.term in dropped]
    first = [position for position in range(len(columns)) if position not in last]
    fitted = fit(totals.cross, [*first, *last], totals.floor)
    gains = [gain for position, gain in zip(fitted.kept, fitted.gains, strict=True) if position in last]
    if not gains:
        return FTest(0.0, 0, full.df, 1.0)
    f = sum(gains) / len(gains) / full.residual
    return FTest(f, len(gains), full.df, f_upper(f, len(gains), full.df))


def _wald_test(columns: tuple[Column, ...], dropped: tuple[str, ...], full: Estimate) -> FTest:
    """Return F = b' V^-1 b / q of the q kept coefficients of the terms ``dropped``, V their robust covariance."""
    assert full.robust is not None, "a Wald test needs a covariance"  # noqa: S101
    first = len(full.statuses) - len(columns)  # the intercept's place
    places = [
        place + first
        for place, column in enumerate(columns)
        if column.term in dropped and full.statuses[place + first] is Status.OK
    ]
    covariance = full.robust[np.ix_(places, places)]
    scale = np.sqrt(np.diag(covariance))
    if not places or not np.all(scale > 0.0):
        return FTest(0.0, 0, full.df, 1.0)
    t = full.b[places] / scale
    fitted = fit(_bordered(covariance / np.outer(scale, scale), t), range(len(places)), 0.0)
    if len(fitted.kept) < len(places):  # the variances of the coefficients are entangled
        return FTest(0.0, 0, full.df, 1.0)
    f = float(fitted.b @ t) / len(places)
    return FTest(f, len(places), full.df, f_upper(f, len(places), full.df))


def _bordered(matrix: Floats, vector: Floats) -> Floats:
    """Return ``matrix`` with ``vector`` as its last row and column."""
    return np.block([[matrix, vector[:, np.newaxis]], [vector[np.newaxis, :], np.zeros((1, 1))]])


def _nothing(totals: Totals | None, status: Status, terms: int, df: float) -> Estimate:
    """Return an estimate without a single coefficient, and why."""
    vector, matrix = np.zeros(terms), np.zeros((terms, terms))
    return Estimate(totals, (status,) * terms, vector, matrix, df, 0.0, vector, matrix)


def _with_intercept(
    outcome: Number,
    columns: tuple[Column, ...],
    totals: Totals,
    b: Floats,
    covariance: Floats,
    residual: float,
) -> tuple[Floats, Floats]:
    """Put the intercept before coefficients in natural units: mean of y less b times the means of x."""
    assert totals.means is not None, "an intercept needs the means"  # noqa: S101
    middles = np.array([*(column.middle for column in columns), outcome.middle])
    half_widths = np.array([*(column.half_width for column in columns), outcome.half_width])
    means = middles + half_widths * totals.means
    x, y = means[:-1], means[-1]
    cross = -covariance @ x
    variance = residual * outcome.half_width**2 / totals.mass + x @ covariance @ x
    top = np.concatenate(([variance], cross))
    return (
        np.concatenate(([y - b @ x], b)),
        np.vstack((top, np.column_stack((cross, covariance)))),
    )
