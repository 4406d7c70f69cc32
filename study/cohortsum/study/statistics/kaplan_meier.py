"""Kaplan-Meier curves from counts on a grid of times, with a bound on what the grid costs.

In an interval with n people at risk at its start, d events and c last seen in it, the product-limit factor of the exact times
lies between 1 - d / (n - c), all c having left before the first event, and 1 - d / n, all having stayed to the end. ``half``
takes 1 - d / (n - c / 2), the actuarial estimate; ``end`` takes 1 - d / n, which is exact where every time is a time of the
grid, by the convention that a person last seen at the time of an event was still at risk. The products of the two ends bound
the curve at every time of the grid: ``error_bound`` is the greatest distance of the estimate from them.

Standard errors are Greenwood's (with n - c / 2, or n, for n), intervals are on the log(-log S) scale (Kalbfleisch and Prentice).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Literal

import numpy as np

from cohortsum.study.results import (
    MEDIAN_COLUMNS,
    NO_DATA,
    SURVIVAL_COLUMNS,
    Absent,
    Cell,
    Status,
    Table,
)
from cohortsum.study.statistics.distributions import normal_quantile
from cohortsum.study.statistics.followed import Followed, LifeTable
from cohortsum.study.statistics.interface import Sums

REACH = normal_quantile(0.975)
NEAR = 1e-12
"""A survival this near to one half is one half."""
NOT_REACHED = Absent("not reached")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The curve at one time: survival, its standard error, interval and greatest error by the grid."""

    survival: float
    se: float
    low: Cell
    high: Cell
    error_bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KaplanMeier(Followed):
    """Survival curves; ``censored`` says how long those last seen in an interval count at risk in it."""

    censored: Literal["half", "end"] = "half"

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the curves and the medians."""
        names = tuple(factor.name for factor in self.by)
        curves: list[tuple[Cell, ...]] = []
        medians: list[tuple[Cell, ...]] = []
        for cell, table in zip(self.cells, self.life_tables(sums), strict=True):
            if table is None:
                withheld = Absent(Status.TOO_FEW_SITES)
                for time in (0.0, *self.times):
                    curves.append(
                        (*cell, time, *(withheld,) * 5, Status.TOO_FEW_SITES.value, *(withheld,) * 3)
                    )
                medians.append((*cell, *(withheld,) * 5, Status.TOO_FEW_SITES.value))
                continue
            estimates = estimate(table, self.censored)
            curves += [(*cell, *numbers) for numbers in self._curve(table, estimates)]
            medians.append((*cell, *self._median(table, estimates)))
        notes = (
            f"At {self.times[-1]:g} and before, survival by exact times lies within error_bound of the one shown.",
            "at_risk is at the start of the interval that ends at the time; events and censored are in it.",
        )
        found = (
            Table(self.name, "kaplan_meier", (*names, *SURVIVAL_COLUMNS), tuple(curves), notes),
            Table(
                f"{self.name}.median",
                "median",
                (*names, *MEDIAN_COLUMNS),
                tuple(medians),
                ("The median is the first time of the grid at which survival is one half or less.",),
            ),
        )
        return found

    def _curve(self, table: LifeTable, estimates: Sequence[Estimate]) -> list[tuple[Cell, ...]]:
        """Return the cells of a curve, from time 0 on; where nobody is at risk any more there is no estimate."""
        if table.people == 0:
            nothing = (NO_DATA,) * 4
            return [
                (time, 0, 0, *nothing[:3], Status.ALL_MISSING.value, NO_DATA, NO_DATA, 0)
                for time in (0.0, *self.times)
            ]
        lines: list[tuple[Cell, ...]] = [(0.0, table.people, 0, 1.0, 1.0, 1.0, Status.OK.value, 0.0, 0.0, 0)]
        nobody = Absent("nobody at risk")
        for place, time in enumerate(self.times):
            at_risk, events = int(table.at_risk[place]), int(table.events[place])
            censored = int(table.censored[place])
            if at_risk == 0:
                status = Status.NOT_ESTIMABLE.value
                lines.append((time, 0, events, nobody, nobody, nobody, status, nobody, nobody, censored))
                continue
            one = estimates[place]
            numbers = (time, at_risk, events, one.survival, one.low, one.high)
            lines.append((*numbers, Status.OK.value, one.se, one.error_bound, censored))
        return lines

    def _median(self, table: LifeTable, estimates: Sequence[Estimate]) -> tuple[Cell, ...]:
        """Return n, events, median, low, high and status of a group."""
        events = int(table.events.sum())
        if table.people == 0:
            return (0, 0, NO_DATA, NO_DATA, NO_DATA, Status.ALL_MISSING.value)
        reached = [
            self._first([estimate.survival for estimate in estimates]),
            self._first([_known(estimate.low, estimate) for estimate in estimates]),
            self._first([_known(estimate.high, estimate) for estimate in estimates]),
        ]
        return (table.people, events, *reached, Status.OK.value)

    def _first(self, values: Sequence[float]) -> Cell:
        """Return the first time at which a value is at most one half."""
        return next(
            (time for time, value in zip(self.times, values, strict=True) if value <= 0.5 + NEAR),
            NOT_REACHED,
        )


def _known(end: Cell, estimate: Estimate) -> float:
    """Return an end of an interval; without one, survival itself."""
    return estimate.survival if isinstance(end, Absent | str) else float(end)


def estimate(table: LifeTable, censored: Literal["half", "end"]) -> list[Estimate]:
    """Return the curve at the end of every interval; the last estimate stands where nobody is at risk any more."""
    survival, lowest, highest, greenwood = 1.0, 1.0, 1.0, 0.0
    found: list[Estimate] = []
    for n, d, c in zip(table.at_risk.tolist(), table.events.tolist(), table.censored.tolist(), strict=True):
        if d > 0:
            exposed = n - c / 2 if censored == "half" else float(n)
            survival *= 1.0 - d / exposed
            lowest *= 1.0 - d / (n - c)
            highest *= 1.0 - d / n
            greenwood += d / (exposed * (exposed - d)) if exposed > d else np.inf
        bound = max(highest - survival, survival - lowest)
        found.append(_with_interval(survival, greenwood, bound))
    return found


def _with_interval(survival: float, greenwood: float, bound: float) -> Estimate:
    if survival <= 0.0:
        none = Absent("survival is 0")
        return Estimate(0.0, 0.0, none, none, bound)
    if survival >= 1.0:
        return Estimate(1.0, 0.0, 1.0, 1.0, bound)
    reach = REACH * sqrt(greenwood) / abs(log(survival))
    return Estimate(
        survival, survival * sqrt(greenwood), survival ** exp(reach), survival ** exp(-reach), bound
    )
