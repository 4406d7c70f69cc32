"""Coefficients of models that were fitted by maximum likelihood: Wald tests on the normal law, and ratios.

z = b / se, two-sided p from the normal law, interval b -+ 1.96 se (its 97.5 % quantile in full); exp of b and of the ends of its
interval are the odds, rate or hazard ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.distributions import chi2_upper, normal_quantile

REACH = normal_quantile(0.975)
LARGEST = 700.0
"""The greatest exponent whose exponential is a float64."""
COLUMNS = ("outcome", "term", "b", "se", "statistic", "p", "low", "high", "n", "df", "status")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Model:
    """One fitted model in natural units.

    Attributes:
        outcome: what it explains.
        statuses: per coefficient.
        reason: why nothing was fitted, if so.
        b: (coefficients,) float64; meaningful where the status is ``ok``.
        covariance: (coefficients, coefficients) float64, likewise.
        n: people in the sums.
        df: residual degrees of freedom.
    """

    outcome: str
    statuses: tuple[Status, ...]
    reason: Absent
    b: Floats
    covariance: Floats
    n: Cell
    df: Cell


def failed(outcome: str, status: Status, reason: Absent, coefficients: int, n: Cell) -> Model:
    """Return a model without a single coefficient."""
    nothing = np.zeros((coefficients, coefficients))
    return Model(outcome, (status,) * coefficients, reason, nothing[0], nothing, n, reason)


def columns(ratio: str) -> tuple[str, ...]:
    """Return the columns of a table of coefficients whose exponentials are ``ratio``: odds, rate or hazard."""
    return (*COLUMNS, f"{ratio}_ratio", f"{ratio}_low", f"{ratio}_high")


def rows(names: Sequence[str], models: Sequence[Model]) -> tuple[tuple[Cell, ...], ...]:
    """Return one row per model and coefficient."""
    found: list[tuple[Cell, ...]] = []
    for model in models:
        for place, (name, status) in enumerate(zip(names, model.statuses, strict=True)):
            variance = float(model.covariance[place, place])
            head, tail = (model.outcome, name), (model.n, model.df)
            if status is Status.OK and variance > 0.0:
                b, se = float(model.b[place]), sqrt(variance)
                low, high = b - REACH * se, b + REACH * se
                z = b / se
                ratios = tuple(_exponential(value) for value in (b, low, high))
                numbers: tuple[Cell, ...] = (b, se, z, chi2_upper(z * z, 1.0), low, high)
                found.append((*head, *numbers, *tail, status.value, *ratios))
                continue
            if status is Status.OK:  # coefficients so entangled that rounding ate the variance
                status = Status.NOT_ESTIMABLE
            reason = model.reason if Status.OK not in model.statuses else NO_DATA
            found.append((*head, *(reason,) * 6, *tail, status.value, *(reason,) * 3))
    return tuple(found)


def _exponential(value: float) -> Cell:
    return exp(value) if abs(value) <= LARGEST else Absent("beyond the range of numbers")
