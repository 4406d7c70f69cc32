"""From the opened sums of one outcome to its coefficients in natural units.

With centred sums C over people and sites: b = Cxx^-1 Cxy, RSS = Cyy - b'Cxy, covariance of b = RSS/df Cxx^-1. Centring
costs one degree of freedom per centre: K, the sites with at least one person, when each site centred its own people
(then this is the regression with one dummy per site), or 1 when the sums are centred as one. A normalised coefficient
becomes a natural one by the ratio of the half widths of outcome and column; shifts drop out, save in the intercept.
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
    """

    people: int
    levels: tuple[int, ...]
    sites: tuple[int, ...]
    cross: Floats
    floor: float
    means: Floats | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The coefficients of one outcome.

    Attributes:
        totals: what they rest on, or None where too few sites supply the outcome.
        statuses: one per term name.
        b: (terms,) float64 in natural units; meaningful where the status is ``ok``.
        covariance: (terms, terms) float64 of ``b``, likewise.
        df: residual degrees of freedom.
        residual: residual mean square of the normalised outcome.
    """

    totals: Totals | None
    statuses: tuple[Status, ...]
    b: Floats
    covariance: Floats
    df: int
    residual: float

    @property
    def failure(self) -> Status | None:
        """Why nothing at all was estimated for this outcome, or None."""
        return self.statuses[0] if Status.OK not in self.statuses else None


def term_names(columns: tuple[Column, ...], intercept: bool) -> tuple[str, ...]:
    """Return the names of the coefficients in the order of the tables."""
    return ((INTERCEPT,) if intercept else ()) + tuple(column.name for column in columns)


def estimate(
    outcome: Number, columns: tuple[Column, ...], totals: Totals | None, intercept: bool
) -> Estimate:
    """Return the estimate of one outcome; every coefficient carries its own status."""
    terms = len(columns) + intercept
    if totals is None:
        return _nothing(None, Status.TOO_FEW_SITES, terms, 0)
    if totals.people == 0:
        return _nothing(totals, Status.ALL_MISSING, terms, 0)
    fitted = fit(totals.cross, range(len(columns)), totals.floor)
    df = degrees_of_freedom(totals, fitted)
    if df < 1:
        return _nothing(totals, Status.NOT_ESTIMABLE, terms, df)
    if totals.cross[-1, -1] <= totals.floor:
        return _nothing(totals, Status.CONSTANT, terms, df)
    if fitted.exact:  # no residual spread, so no standard error
        return _nothing(totals, Status.NOT_ESTIMABLE, terms, df)
    residual = fitted.rss / df
    scale = outcome.half_width / np.array([column.half_width for column in columns])
    b, covariance = np.zeros(len(columns)), np.zeros((len(columns), len(columns)))
    kept = list(fitted.kept)
    b[kept] = fitted.b * scale[kept]
    covariance[np.ix_(kept, kept)] = residual * fitted.inverse * np.outer(scale[kept], scale[kept])
    statuses = [Status.ALIASED] * len(columns)
    for position in fitted.kept:
        statuses[position] = Status.OK
    if totals.means is not None:  # varies nowhere; centred by site, it may still vary between sites
        for position in fitted.unvarying:
            statuses[position] = Status.CONSTANT
        b, covariance = _with_intercept(outcome, columns, totals, b, covariance, residual)
        statuses.insert(0, Status.OK)
    return Estimate(totals, tuple(statuses), b, covariance, df, residual)


def degrees_of_freedom(totals: Totals, fitted: Fit) -> int:
    """Return people less centres less columns in the model."""
    centres = totals.sites[0] if totals.means is None else 1
    return totals.people - centres - len(fitted.kept)


@dataclass(frozen=True, slots=True)
class FTest:
    """A nested F test; ``df`` is 0 where the dropped columns explain nothing that the others do not."""

    f: float
    df: int
    df2: int
    p: float


def f_test(totals: Totals, columns: tuple[Column, ...], dropped: tuple[str, ...], full: Estimate) -> FTest:
    """Return the joint test of all columns of the terms ``dropped``, from sub-blocks of the same sums.

    The dropped columns enter last, so their gains are the difference of the two residual sums of squares, formed
    without subtracting them.
    """
    last = [position for position, column in enumerate(columns) if column.term in dropped]
    first = [position for position in range(len(columns)) if position not in last]
    fitted = fit(totals.cross, [*first, *last], totals.floor)
    gains = [gain for position, gain in zip(fitted.kept, fitted.gains, strict=True) if position in last]
    if not gains:
        return FTest(0.0, 0, full.df, 1.0)
    f = sum(gains) / len(gains) / full.residual
    return FTest(f, len(gains), full.df, f_upper(f, len(gains), full.df))


def _nothing(totals: Totals | None, status: Status, terms: int, df: int) -> Estimate:
    """Return an estimate without a single coefficient, and why."""
    return Estimate(totals, (status,) * terms, np.zeros(terms), np.zeros((terms, terms)), df, 0.0)


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
    variance = residual * outcome.half_width**2 / totals.people + x @ covariance @ x
    top = np.concatenate(([variance], cross))
    return (
        np.concatenate(([y - b @ x], b)),
        np.vstack((top, np.column_stack((cross, covariance)))),
    )
