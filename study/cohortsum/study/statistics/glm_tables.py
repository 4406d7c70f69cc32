"""The tables of a generalised linear model: coefficients with odds or rate ratios, and how each model fits.

A coefficient of a normalised column becomes a natural one by the half width of the column; the intercept takes up the middles,
the scale of a count and the offset's upper end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, log

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import INTERCEPT, NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.families import Family
from cohortsum.study.statistics.glm_totals import SEPARATED, Opened
from cohortsum.study.statistics.likelihood_tables import Model, columns, failed, rows
from cohortsum.study.statistics.newton import Failure, Maximum
from cohortsum.study.statistics.targets import Shift, Target

FIT_COLUMNS = (
    *("outcome", "n", "events", "df", "deviance", "null_deviance", "log_likelihood", "aic"),
    *("iterations", "status"),
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Request:
    """What the models are; as the attributes of `Glm`."""

    analysis: str
    family: Family
    targets: tuple[Target, ...]
    columns: tuple[Column, ...]
    shift: Shift | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return (INTERCEPT, *(column.name for column in self.columns))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished outcome: its maximum, or why there is none; and the sums of its last round, if they were opened."""

    outcome: Maximum | Failure | Status
    last: Opened | None

    @property
    def status(self) -> Status:
        """What became of the model as a whole."""
        match self.outcome:
            case Maximum():
                return Status.OK if self.df >= 1 else Status.NOT_ESTIMABLE
            case Failure():
                return Status.NOT_ESTIMABLE
            case Status():
                return self.outcome

    @property
    def reason(self) -> Absent:
        """Why there are no numbers."""
        match self.outcome:
            case Maximum():
                return NO_DATA if self.df >= 1 else Absent("no degrees of freedom")
            case Failure(reason):
                return Absent(reason)
            case Status.TOO_FEW_SITES | Status.NOT_FINISHED:
                return Absent(self.outcome)
            case Status():
                return NO_DATA

    @property
    def df(self) -> int:
        """People less coefficients in the model; 0 without a fit."""
        if not isinstance(self.outcome, Maximum) or self.last is None:
            return 0
        return self.last.people - self.outcome.statuses.count(Status.OK)


def tables(request: Request, fits: Sequence[Fitted]) -> tuple[Table, ...]:
    """Return the coefficients and the fits."""
    models = [_model(request, target, fit) for target, fit in zip(request.targets, fits, strict=True)]
    notes = tuple(_notes(request, fits))
    coefficients = Table(
        request.analysis, "glm", columns(request.family.ratio), rows(request.names, models), notes
    )
    lines = tuple(_fit_row(target.name, fit) for target, fit in zip(request.targets, fits, strict=True))
    return coefficients, Table(f"{request.analysis}.fit", "fit", FIT_COLUMNS, lines)


def _model(request: Request, target: Target, fit: Fitted) -> Model:
    """Return one model in natural units."""
    people: Cell = fit.reason if fit.last is None else fit.last.people
    if not isinstance(fit.outcome, Maximum) or fit.status is not Status.OK:
        return failed(target.name, fit.status, fit.reason, len(request.names), people)
    # natural = turn @ normalised + moved
    half_widths = np.array([column.half_width for column in request.columns])
    middles = np.array([column.middle for column in request.columns])
    turn = np.diag(np.concatenate(([1.0], 1.0 / half_widths)))
    turn[0, 1:] = -middles / half_widths
    moved = log(target.unit) - (0.0 if request.shift is None else request.shift.highest)
    b = np.array([fsum(row * fit.outcome.beta) for row in turn])
    b[0] += moved
    covariance = turn @ fit.outcome.covariance @ turn.T
    return Model(target.name, fit.outcome.statuses, NO_DATA, b, covariance, people, fit.df)


def _fit_row(outcome: str, fit: Fitted) -> tuple[Cell, ...]:
    """Return the row of one model in the table of fits."""
    last, reason, uncounted = fit.last, fit.reason, Absent("not an event")
    if last is None:
        return (outcome, *(reason,) * 8, fit.status.value)
    head: tuple[Cell, ...] = (outcome, last.people, uncounted if last.events is None else last.events)
    if fit.status is not Status.OK or not isinstance(fit.outcome, Maximum):
        done: Cell = reason if isinstance(fit.outcome, Status) else fit.outcome.iterations
        return (*head, *(reason,) * 5, done, fit.status.value)
    deviance = fit.outcome.objective
    likelihood = last.saturated - deviance / 2
    aic = 2 * (fit.outcome.statuses.count(Status.OK) - likelihood)
    numbers: tuple[Cell, ...] = (
        fit.df,
        deviance,
        last.null_deviance,
        likelihood,
        aic,
        fit.outcome.iterations,
    )
    return (*head, *numbers, fit.status.value)


def _notes(request: Request, fits: Sequence[Fitted]) -> list[str]:
    """Return why models have no answer, and what is aliased."""
    notes: list[str] = []
    for target, fit in zip(request.targets, fits, strict=True):
        if isinstance(fit.outcome, Failure):
            cause = (
                "terms predict the outcome perfectly for some people, and the likelihood has no maximum"
                if fit.outcome.reason == SEPARATED
                else "the coefficients did not settle; terms that predict the outcome nearly perfectly do that"
            )
            notes.append(
                f"{target.name}: not estimable: {fit.outcome.reason} after {fit.outcome.iterations} iterations: {cause}."
            )
        elif isinstance(fit.outcome, Maximum):
            notes += [
                f"{target.name}: {name} is aliased, that is determined by the terms before it; the others are estimated "
                "without it."
                for name, status in zip(request.names, fit.outcome.statuses, strict=True)
                if status is Status.ALIASED
            ]
    return notes
