"""The log-rank test between groups, from counts on a grid of times.

Events of one interval count as tied, and everybody at risk at its start is at risk for them:

    E_g = sum d n_g / n        V_gh = sum d (n - d) / (n - 1) (n_g / n) (1[g = h] - n_h / n)
    chi2 = (O - E)' V^-1 (O - E) over all groups but one, on as many degrees of freedom

with d events among n people, n_g of them in group g, per interval (Mantel 1966; the variance is hypergeometric). Where every
time is a time of the grid this is the test by exact times. Groups that nobody is in do not count.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, OBSERVED_COLUMNS, Absent, Cell, Status, Table
from cohortsum.study.statistics.distributions import chi2_upper
from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.followed import Followed, LifeTable
from cohortsum.study.statistics.interface import Sums

COLUMNS = ("comparison", "chi2", "df", "p", "n", "events", "status")
FLOOR = 1e-9
"""Events of variance below which groups were never at risk together."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logrank(Followed):
    """The test that all groups have one survival curve."""

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the test, and observed and expected events by group."""
        opened = self.life_tables(sums)
        groups = [table for table in opened if table is not None]
        comparison = ":".join(factor.name for factor in self.by)
        names = (*(factor.name for factor in self.by), *OBSERVED_COLUMNS)
        withheld = Absent(Status.TOO_FEW_SITES)
        if len(groups) < len(opened):
            line: tuple[Cell, ...] = (comparison, *(withheld,) * 5, Status.TOO_FEW_SITES.value)
            rows: list[tuple[Cell, ...]] = [
                (*cell, *(withheld,) * 3, Status.TOO_FEW_SITES.value) for cell in self.cells
            ]
        else:
            observed, expected, variance = compare(groups)
            line = (comparison, *_test(groups, observed - expected, variance))
            rows = [
                (
                    *cell,
                    table.people,
                    int(o),
                    float(e),
                    Status.OK.value if table.people else Status.ALL_MISSING.value,
                )
                for cell, table, o, e in zip(self.cells, groups, observed, expected, strict=True)
            ]
        return (
            Table(self.name, "logrank", COLUMNS, (line,)),
            Table(f"{self.name}.groups", "observed", names, tuple(rows)),
        )


def compare(groups: list[LifeTable]) -> tuple[Floats, Floats, Floats]:
    """Return observed and expected events by group, and the variance of their difference."""
    at_risk = np.array([table.at_risk for table in groups], np.float64)
    events = np.array([table.events for table in groups], np.float64)
    n, d = at_risk.sum(axis=0), events.sum(axis=0)
    used = d > 0
    at_risk, n, d = at_risk[:, used], n[used], d[used]
    share = at_risk / n
    spread = d * (n - d) / np.maximum(n - 1, 1)
    variance = np.diag((spread * share).sum(axis=1)) - (spread * share) @ share.T
    return events.sum(axis=1), (d * share).sum(axis=1), variance


def _test(groups: list[LifeTable], difference: Floats, variance: Floats) -> tuple[Cell, ...]:
    """Return chi2, df, p, n, events and status."""
    people = sum(table.people for table in groups)
    events = sum(int(table.events.sum()) for table in groups)
    held = [place for place, table in enumerate(groups) if table.people][1:]
    if people == 0:
        return (NO_DATA, NO_DATA, NO_DATA, 0, 0, Status.ALL_MISSING.value)
    cross = np.zeros((len(held) + 1,) * 2)
    cross[:-1, :-1] = variance[np.ix_(held, held)]
    cross[-1, :-1] = cross[:-1, -1] = difference[held]
    swept = fit(cross, range(len(held)), FLOOR)
    if not swept.kept:
        return (NO_DATA, NO_DATA, NO_DATA, people, events, Status.NOT_ESTIMABLE.value)
    chi2, df = max(0.0, -swept.rss), len(swept.kept)
    return (chi2, df, chi2_upper(chi2, df), people, events, Status.OK.value)
