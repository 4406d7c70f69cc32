"""Differences of means between groups, from the moments of each group.

With n, m and s^2 the people, mean and unbiased variance of a group, SS = (n - 1) s^2, and the second group less the first:

    Student   t = (m2 - m1) / sqrt(v (1/n1 + 1/n2)),  v = (SS1 + SS2) / (n1 + n2 - 2),  df = n1 + n2 - 2
    Welch     t = (m2 - m1) / sqrt(w1 + w2),  w = s^2 / n,  df = (w1 + w2)^2 / (w1^2 / (n1 - 1) + w2^2 / (n2 - 1))
    ANOVA     F = (sum n (m - grand)^2 / (k - 1)) / (sum SS / (N - k)),  df = k - 1,  df2 = N - k

Student 1908; Welch 1947; Fisher 1925. Student and ANOVA suppose equal variances, Welch does not. Differences are formed in
rational arithmetic. Groups with nobody do not count in k. Where no group has any spread there is no test: the status says
whether the means differ (``not estimable``) or not (``constant, not estimated``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.distributions import f_upper, t_quantile, t_two_sided
from cohortsum.study.statistics.moments import Moments

COVERAGE = 0.95
TEST_COLUMNS = (
    *("outcome", "test", "comparison", "estimate", "statistic", "df", "df2", "p", "n", "status"),
    *("low", "high"),
)
NO_SINGLE_ESTIMATE = Absent("no single estimate")
ONE_DF = Absent("no second df")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test.

    Attributes:
        estimate: the difference of means and its 95 % interval; absent for more than two groups.
        statistic: t or F.
        df: its degrees of freedom; those of the denominator second.
        p: the probability of one at least as far out.
        n: people.
        status: whether the test could be made.
    """

    estimate: tuple[Cell, Cell, Cell]
    statistic: Cell
    df: tuple[Cell, Cell]
    p: Cell
    n: Cell
    status: Status

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return estimate, statistic, df, df2, p, n, status, low and high."""
        estimate, low, high = self.estimate
        return (estimate, self.statistic, *self.df, self.p, self.n, self.status.value, low, high)


def withheld(status: Status, n: Cell) -> Comparison:
    """Return no test at all, for the reason in ``status``."""
    why = Absent(status) if status is Status.TOO_FEW_SITES else NO_DATA
    return Comparison((why, why, why), why, (why, why), why, n, status)


def student(first: Moments, second: Moments) -> Comparison:
    """Return Student's t test of ``second`` less ``first``."""
    n = first.n + second.n
    df = n - 2
    if min(first.n, second.n) < 1 or df < 1:
        return withheld(Status.NOT_ESTIMABLE if n else Status.ALL_MISSING, n)
    squares = first.squares + second.squares
    if squares == 0:
        return withheld(Status.CONSTANT if first.mean == second.mean else Status.NOT_ESTIMABLE, n)
    error = sqrt(squares / df * (Fraction(1, first.n) + Fraction(1, second.n)))
    return _t_test(float(second.mean - first.mean), error, df, n)


def welch(first: Moments, second: Moments) -> Comparison:
    """Return Welch's t test of ``second`` less ``first``."""
    n = first.n + second.n
    if min(first.n, second.n) < 2:
        return withheld(Status.NOT_ESTIMABLE if n else Status.ALL_MISSING, n)
    if first.squares == 0 and second.squares == 0:
        return withheld(Status.CONSTANT if first.mean == second.mean else Status.NOT_ESTIMABLE, n)
    w1, w2 = first.variance / first.n, second.variance / second.n
    df = float((w1 + w2) ** 2 / (w1**2 / (first.n - 1) + w2**2 / (second.n - 1)))
    return _t_test(float(second.mean - first.mean), sqrt(w1 + w2), df, n)


def anova(groups: Sequence[Moments]) -> Comparison:
    """Return the one-way analysis of variance over groups."""
    held = [group for group in groups if group.n]
    n = sum(group.n for group in held)
    df, df2 = len(held) - 1, n - len(held)
    if df < 1 or df2 < 1:
        return withheld(Status.NOT_ESTIMABLE if n else Status.ALL_MISSING, n)
    grand = sum(group.n * group.mean for group in held) / n
    between = sum(group.n * (group.mean - grand) ** 2 for group in held)
    within = sum(group.squares for group in held)
    if within == 0:
        return withheld(Status.NOT_ESTIMABLE if between else Status.CONSTANT, n)
    f = float((between / df) / (within / df2))
    none = (NO_SINGLE_ESTIMATE, NO_SINGLE_ESTIMATE, NO_SINGLE_ESTIMATE)
    return Comparison(none, f, (df, df2), f_upper(f, df, df2), n, Status.OK)


def _t_test(estimate: float, error: float, df: float, n: int) -> Comparison:
    t, reach = estimate / error, t_quantile(0.5 + COVERAGE / 2, df) * error
    interval = (estimate, estimate - reach, estimate + reach)
    return Comparison(interval, t, (df, ONE_DF), t_two_sided(t, df), n, Status.OK)
