"""The tables of a proportional hazards model: coefficients with hazard ratios, the fit, and the test of proportional hazards."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.cox_totals import Opened, proportionality
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.distributions import chi2_upper
from cohortsum.study.statistics.likelihood_tables import Model, columns, failed, rows
from cohortsum.study.statistics.newton import Failure, Maximum

FIT_COLUMNS = (
    *("outcome", "n", "events", "df", "log_likelihood", "null_log_likelihood", "statistic", "p"),
    *("iterations", "status"),
)
TEST_COLUMNS = ("outcome", "term", "chi2", "df", "p", "status")
EVERY = "all"
"""What the test of all coefficients together is called."""
NO_RESIDUAL = Absent("tests on the normal law")


@dataclass(frozen=True, slots=True)
class Request:
    """What the model is; as the attributes of `Cox`, and ``outcome``, the name of the event."""

    analysis: str
    outcome: str
    columns: tuple[Column, ...]
    proportionality: Literal["time", "log_time"] | None
    ties: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A finished fit: its maximum, or why there is none; and the sums of its last round, if they were opened."""

    outcome: Maximum | Failure | Status
    last: Opened | None

    @property
    def status(self) -> Status:
        """What became of the model as a whole."""
        match self.outcome:
            case Maximum():
                return Status.OK if Status.OK in self.outcome.statuses else Status.NOT_ESTIMABLE
            case Failure():
                return Status.NOT_ESTIMABLE
            case Status():
                return self.outcome

    @property
    def reason(self) -> Absent:
        """Why there are no numbers."""
        match self.outcome:
            case Failure(reason):
                return Absent(reason)
            case Status.TOO_FEW_SITES | Status.NOT_FINISHED:
                return Absent(self.outcome)
            case _:
                return NO_DATA


def tables(request: Request, fit: Fitted, tested: Opened | None) -> tuple[Table, ...]:
    """Return the coefficients, the fit and, where it is asked for, the test; ``tested`` are the sums of its round."""
    model = _model(request, fit)
    found = [
        Table(request.analysis, "cox", columns("hazard"), rows(request.names, [model]), _notes(request, fit)),
        Table(f"{request.analysis}.fit", "fit", FIT_COLUMNS, (_fit_row(request.outcome, fit),)),
    ]
    if request.proportionality is not None:
        found.append(_tests(request, fit, tested))
    return tuple(found)


def _model(request: Request, fit: Fitted) -> Model:
    """Return the model in natural units."""
    people: Cell = fit.reason if fit.last is None else fit.last.people
    if not isinstance(fit.outcome, Maximum):
        return failed(request.outcome, fit.status, fit.reason, len(request.names), people)
    scale = np.array([1.0 / column.half_width for column in request.columns])
    b, covariance = fit.outcome.beta * scale, fit.outcome.covariance * np.multiply.outer(scale, scale)
    return Model(request.outcome, fit.outcome.statuses, NO_DATA, b, covariance, people, NO_RESIDUAL)


def _fit_row(outcome: str, fit: Fitted) -> tuple[Cell, ...]:
    """Return the row of the table of fits, with the likelihood ratio test of all coefficients."""
    last, reason = fit.last, fit.reason
    if last is None:
        return (outcome, *(reason,) * 8, fit.status.value)
    head: tuple[Cell, ...] = (outcome, last.people, last.used)
    if not isinstance(fit.outcome, Maximum) or fit.status is not Status.OK:
        done: Cell = reason if isinstance(fit.outcome, Status) else fit.outcome.iterations
        return (*head, *(reason,) * 5, done, fit.status.value)
    df = fit.outcome.statuses.count(Status.OK)
    ratio = max(0.0, last.null_objective - fit.outcome.objective)
    likelihoods = (-fit.outcome.objective / 2, -last.null_objective / 2)
    return (*head, df, *likelihoods, ratio, chi2_upper(ratio, df), fit.outcome.iterations, fit.status.value)


def _tests(request: Request, fit: Fitted, tested: Opened | None) -> Table:
    """Return the test of each coefficient, and of all together."""
    lines: list[tuple[Cell, ...]] = []
    places = [*([place] for place in range(len(request.names))), list(range(len(request.names)))]
    for name, tried in zip((*request.names, EVERY), places, strict=True):
        if fit.status is not Status.OK:
            lines.append((request.outcome, name, *(fit.reason,) * 3, fit.status.value))
            continue
        if tested is None or not isinstance(fit.outcome, Maximum):
            open_still = Absent(Status.NOT_FINISHED)
            lines.append((request.outcome, name, *(open_still,) * 3, Status.NOT_FINISHED.value))
            continue
        chi2, df = proportionality(tested, tried)
        if df == 0:
            status = fit.outcome.statuses[tried[0]] if len(tried) == 1 else Status.NOT_ESTIMABLE
            status = Status.NOT_ESTIMABLE if status is Status.OK else status
            lines.append((request.outcome, name, *(NO_DATA,) * 3, status.value))
            continue
        lines.append((request.outcome, name, chi2, df, chi2_upper(chi2, df), Status.OK.value))
    what = {"time": "time", "log_time": "the logarithm of time"}[request.proportionality or "time"]
    note = (
        f"Score tests of whether effects change with {what}; a small p speaks against proportional hazards."
    )
    return Table(
        f"{request.analysis}.proportionality", "proportionality", TEST_COLUMNS, tuple(lines), (note,)
    )


def _notes(request: Request, fit: Fitted) -> tuple[str, ...]:
    """Return how sites and ties count, why there is no answer, and what is aliased."""
    notes: list[str] = []
    if fit.last is not None:
        notes.append(
            f"Stratified by site: {fit.last.sites} sites with events in the likelihood; ties by {request.ties}."
        )
        if fit.last.used < fit.last.events:
            notes.append(
                f"{fit.last.events - fit.last.used} of {fit.last.events} events are at sites with fewer than min_events and "
                "count for nothing."
            )
    if isinstance(fit.outcome, Failure):
        notes.append(
            f"{request.outcome}: not estimable: {fit.outcome.reason} after {fit.outcome.iterations} iterations; where a term "
            "parts those with the event from all others at risk, the likelihood has no maximum."
        )
    if isinstance(fit.outcome, Maximum):
        notes += [
            f"{name} is aliased, that is determined within sites by the terms before it; the others are estimated without it."
            for name, status in zip(request.names, fit.outcome.statuses, strict=True)
            if status is Status.ALIASED
        ]
    return tuple(notes)
