"""The table of mixed models: coefficients with Wald tests, and the variances between and within sites.

Tests and intervals are those of large samples: b / se is compared with the normal law, so there are no degrees of freedom.
The intraclass correlation is tau2 / (tau2 + sigma2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.distributions import normal_quantile, normal_two_sided
from cohortsum.study.statistics.estimates import term_names
from cohortsum.study.statistics.profile import Peak, place, ratio
from cohortsum.study.statistics.regression_tables import COEFFICIENT_COLUMNS, COVERAGE
from cohortsum.study.variables import Number

MIXED_COLUMNS = (*COEFFICIENT_COLUMNS, "tau2", "sigma2", "icc")
LARGE_SAMPLE = Absent("large-sample test")


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one outcome.

    Attributes:
        status: ``ok``, or why there is nothing.
        people: people in the sums; 0 where they are not known.
        kept: columns in the model, the intercept being 0.
        peak: the estimates in normalised units, where the status is ``ok``.
        sites: sites with at least one person.
        note: what a reader must know of it.
    """

    status: Status
    people: int = 0
    kept: tuple[int, ...] = ()
    peak: Peak | None = None
    sites: int = 0
    note: str = ""


def mixed_table(
    analysis: str,
    outcomes: Sequence[Number],
    columns: tuple[Column, ...],
    answers: Sequence[Answer],
    site_size: float,
    max_ratio: float,
) -> Table:
    """Return one row per outcome and coefficient; the variances are repeated in each row of an outcome."""
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    greatest = place(max_ratio, site_size)
    for outcome, answer in zip(outcomes, answers, strict=True):
        peak, status = answer.peak, answer.status
        if peak is not None and peak.v >= greatest * (1.0 - 1e-6):
            peak, status = None, Status.NOT_ESTIMABLE
            notes.append(
                f"{outcome.name}: tau2 / sigma2 is at max_ratio, {max_ratio:g}; declare a greater one."
            )
        if answer.note:
            notes.append(f"{outcome.name}: {answer.note}.")
        if peak is None:
            reason = Absent(status.value) if status is Status.TOO_FEW_SITES else NO_DATA
            people = reason if status is Status.TOO_FEW_SITES else answer.people
            rows += [
                (outcome.name, name, *(reason,) * 6, people, reason, status.value, *(reason,) * 3)
                for name in term_names(columns, intercept=True)
            ]
            continue
        if peak.v == 0.0:
            notes.append(
                f"{outcome.name}: the likelihood is greatest at tau2 = 0; sites differ no more than people do."
            )
        rows += _rows(outcome, columns, answer, peak, site_size)
    sites = sorted({answer.sites for answer in answers if answer.sites})
    if sites:
        span = str(sites[0]) if len(sites) == 1 else f"{sites[0]} to {sites[-1]}, by outcome"
        notes.insert(
            0, f"Contributing sites: {span}. Restricted maximum likelihood; tests are of large samples."
        )
    return Table(analysis, "mixed", MIXED_COLUMNS, tuple(rows), tuple(notes))


def _rows(
    outcome: Number, columns: tuple[Column, ...], answer: Answer, peak: Peak, site_size: float
) -> list[tuple[Cell, ...]]:
    """Return the rows of one outcome that has a model."""
    b, covariance = _natural(outcome, columns, answer, peak)
    sigma2 = peak.s2 * outcome.half_width**2
    theta = ratio(peak.v, site_size)
    variances: tuple[Cell, ...] = (theta * sigma2, sigma2, theta / (1.0 + theta))
    reach = normal_quantile(0.5 + COVERAGE / 2)
    rows: list[tuple[Cell, ...]] = []
    for column, name in enumerate(term_names(columns, intercept=True)):
        numbers: tuple[Cell, ...] = (NO_DATA,) * 6
        status = Status.ALIASED
        if column in answer.kept:
            value, se = float(b[column]), sqrt(float(covariance[column, column]))
            z, status = value / se, Status.OK
            numbers = (value, se, z, normal_two_sided(z), value - reach * se, value + reach * se)
        rows.append((outcome.name, name, *numbers, answer.people, LARGE_SAMPLE, status.value, *variances))
    return rows


def _natural(
    outcome: Number, columns: tuple[Column, ...], answer: Answer, peak: Peak
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients and their covariance in natural units, the intercept first; 0 for those left out."""
    kept, size = list(answer.kept), len(columns) + 1
    slopes, inverse = np.zeros(size), np.zeros((size, size))
    slopes[kept], inverse[np.ix_(kept, kept)] = peak.b, peak.inverse
    change = np.diag(outcome.half_width / np.array([1.0, *(column.half_width for column in columns)]))
    change[0, 1:] = [-outcome.half_width * column.middle / column.half_width for column in columns]
    b = change @ slopes
    b[0] += outcome.middle
    return b, peak.s2 * change @ inverse @ change.T
