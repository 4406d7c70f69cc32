"""How far the rows and columns of a table of counts go together.

Pearson's chi-square compares counts with what independent margins would give, without a continuity correction. Rows and
columns that nobody is in say nothing and are left out, also of the degrees of freedom. Of two rows and two columns, the odds
ratio with Woolf's interval (1955) and the risk ratio with that of Katz et al. (1978): both normal on the log scale, and
absent where a cell they divide by is empty.
"""

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import HIDDEN, NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.distributions import chi2_upper, normal_quantile

EMPTY_CELL = Absent("a cell is empty")
NOT_TWO_BY_TWO = Absent("not two by two")


Interval = tuple[Cell, Cell, Cell]
"""An estimate and the ends of its 95 % interval."""


@dataclass(frozen=True, slots=True)
class Association:
    """The measures of one table.

    Attributes:
        n: people.
        chi2: Pearson's statistic, its degrees of freedom, and the probability of a greater one under independence.
        least_expected: the smallest count that independence would give; below 5 the p-value is rough (Cochran 1954).
        odds_ratio: odds of the second column in the second row against the first.
        risk_ratio: share of the second column in the second row against the first.
        status: whether the test could be made.
    """

    n: Cell
    chi2: tuple[Cell, Cell, Cell]
    least_expected: Cell
    odds_ratio: Interval
    risk_ratio: Interval
    status: Status

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the measures in the order of `ASSOCIATION_COLUMNS`."""
        return (
            self.n,
            *self.chi2,
            self.least_expected,
            *self.odds_ratio,
            *self.risk_ratio,
            self.status.value,
        )


def withheld(status: Status) -> Association:
    """Return no measure at all, for the reason in ``status``."""
    why = HIDDEN if status is Status.HIDDEN else Absent(status)
    return Association(why, (why, why, why), why, _no_interval(why), _no_interval(why), status)


def associate(counts: NDArray[np.int64]) -> Association:
    """Return the measures of a table of counts, (rows, columns) int64."""
    n = int(counts.sum())
    odds, risk = _ratios(counts)
    held = counts[counts.any(axis=1)][:, counts.any(axis=0)].astype(np.float64)
    if min(held.shape) < 2:
        status = Status.NOT_ESTIMABLE if n else Status.ALL_MISSING
        return Association(n, (NO_DATA, NO_DATA, NO_DATA), NO_DATA, odds, risk, status)
    expected = np.outer(held.sum(axis=1), held.sum(axis=0)) / n
    chi2 = float(((held - expected) ** 2 / expected).sum())
    df = (held.shape[0] - 1) * (held.shape[1] - 1)
    return Association(n, (chi2, df, chi2_upper(chi2, df)), float(expected.min()), odds, risk, Status.OK)


def _ratios(counts: NDArray[np.int64]) -> tuple[Interval, Interval]:
    """Return odds ratio and risk ratio."""
    if counts.shape != (2, 2):
        return _no_interval(NOT_TWO_BY_TWO), _no_interval(NOT_TWO_BY_TWO)
    (a, b), (c, d) = ((int(count) for count in row) for row in counts)
    odds = _no_interval(EMPTY_CELL)
    if min(a, b, c, d) > 0:
        odds = _interval(a * d / (b * c), sqrt(1 / a + 1 / b + 1 / c + 1 / d))
    risk = _no_interval(EMPTY_CELL)
    if min(b, d) > 0:
        risk = _interval((d / (c + d)) / (b / (a + b)), sqrt(1 / d - 1 / (c + d) + 1 / b - 1 / (a + b)))
    return odds, risk


def _interval(ratio: float, se_of_log: float) -> Interval:
    reach = normal_quantile(0.975) * se_of_log
    return ratio, exp(log(ratio) - reach), exp(log(ratio) + reach)


def _no_interval(why: Absent) -> Interval:
    return why, why, why
