"""From the sums of a ComBat round to what every site standardises by: grand mean, kept effects, pooled variance.

b comes from sums centred inside each site, so it is that of a model with one dummy per site; the grand mean is
S(y)/N - (S(x)/N) b, the mean of the sites' intercepts weighted by their people; the pooled variance is the residual sum of
squares over N. No site's own mean is in any of these sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import Status
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.opening import ROUNDING
from cohortsum.study.statistics.parameters import rounded
from cohortsum.study.statistics.products import symmetric
from cohortsum.study.variables import Number

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Standard:
    """What one outcome is standardised by; numbers mean something where the status is ``ok``, and are rounded as parameters.

    Attributes:
        outcome: the outcome.
        status: whether there is a standard.
        statuses: per kept column, whether its effect was estimated.
        grand: the grand mean of the normalised outcome, at normalised columns of 0.
        spread: the pooled SD of the normalised outcome.
        b: (columns,) float64 effects of the normalised columns; 0 for a column that is constant.
        people: in the fit.
        sites: in the fit.
    """

    outcome: Number
    status: Status
    statuses: tuple[Status, ...]
    grand: float
    spread: float
    b: Floats
    people: int
    sites: int

    def natural(self, columns: tuple[Column, ...]) -> tuple[float, float, Floats]:
        """Return grand mean (at columns of 0), pooled SD and effects in natural units."""
        outcome = self.outcome
        widths = np.array([column.half_width for column in columns])
        middles = np.array([column.middle for column in columns])
        b = outcome.half_width * self.b / widths
        grand = outcome.middle + outcome.half_width * self.grand - float(b @ middles)
        return grand, outcome.half_width * self.spread, b


def absent(outcome: Number, status: Status, columns: int, statuses: tuple[Status, ...] = ()) -> Standard:
    """Return a standard that is none."""
    return Standard(outcome, status, statuses or (status,) * columns, 0.0, 0.0, np.zeros(columns), 0, 0)


def standard(outcome: Number, columns: int, sums: Mapping[str, Integers], fraction_bits: int) -> Standard:
    """Return the standard of one outcome.

    A column that the sites determine cannot be kept: harmonising would take its effect away with theirs. The outcome then
    has no standard, and the column is named by its status. A level that nobody in the fit has, or everybody, is constant.

    Args:
        outcome: the outcome.
        columns: how many are kept.
        sums: people and sites, (1,) each; totals, (columns + 1,) sums of x and of y; covariates, the centred products of the
            columns, absent without any; products, those with the outcome and its square.
        fraction_bits: the grid of the last three.
    """
    people, sites = int(sums["people"][0]), int(sums["sites"][0])
    if people == 0:
        return absent(outcome, Status.ALL_MISSING, columns)
    grid = 2.0**-fraction_bits
    floor = people * ROUNDING + sites * grid
    cross = np.zeros((columns + 1, columns + 1))
    if columns:
        cross[:columns, :columns] = symmetric(sums["covariates"].astype(np.float64) * grid, columns)
    cross[columns, :] = cross[:, columns] = sums["products"].astype(np.float64) * grid
    totals = sums["totals"].astype(np.float64) * grid
    fitted = fit(cross, range(columns), floor)
    statuses = [Status.ALIASED] * columns
    for place in fitted.kept:
        statuses[place] = Status.OK
    for place in fitted.unvarying:
        if people - abs(totals[place]) <= floor:  # every normalised value lies at one end of the range
            statuses[place] = Status.CONSTANT
    if Status.ALIASED in statuses:
        lost = tuple(Status.NOT_ESTIMABLE if one is Status.OK else one for one in statuses)
        return absent(outcome, Status.ALIASED, columns, lost)
    if people - sites - len(fitted.kept) < 1:
        return absent(outcome, Status.NOT_ESTIMABLE, columns)
    if cross[columns, columns] <= floor:
        return absent(outcome, Status.CONSTANT, columns)
    if fitted.exact:
        return absent(outcome, Status.NOT_ESTIMABLE, columns)
    b = np.zeros(columns)
    b[list(fitted.kept)] = fitted.b
    b = rounded(b)
    numbers = np.array(
        [(totals[columns] - float(totals[:columns] @ b)) / people, np.sqrt(fitted.rss / people)]
    )
    grand, spread = rounded(numbers).tolist()
    return Standard(outcome, Status.OK, tuple(statuses), grand, spread, b, people, sites)
