"""Newton's method for a log-likelihood that is a sum over sites: one round per evaluation.

A round gives minus twice the log-likelihood, the score s (its gradient) and the information I (minus its second derivatives)
at a point b that everybody derived from the sums before. The next point is b + I^-1 s; where it made things worse, half the
way back is tried instead. With the *decrement* s' I^-1 s (the square of the step in standard errors) at most `CLOSE` and no
linear predictor moving by more than `STILL`, b + I^-1 s is the maximum: Newton's steps square the error, so what is left lies
far below rounding. A likelihood without a maximum (separation) never comes to rest: its decrement vanishes while the steps
stay near 1, and it ends as a failure.

Coefficients belong to columns in [-1, 1], so the sum of the absolute steps bounds the move of every linear predictor. Columns
that the first evaluation finds aliased leave the model for good. All of it is done with plain operations on few numbers, and
a point is rounded before it is used, so that every site and the coordinator derive the same one.
"""

from dataclasses import dataclass, replace
from math import fsum, inf

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import Status
from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.parameters import rounded

CLOSE = 1e-12
"""Greatest decrement at the maximum: every coefficient is within 1e-6 of its standard error before the last step."""
STILL = 1e-5
"""Greatest move of a linear predictor in the last step, which bounds the relative error of the information."""
SLACK = 1e-9
"""A relative rise of minus twice the log-likelihood that may be rounding."""
MOST_HALVINGS = 10

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The opened sums of one round at one point.

    Attributes:
        people: people in the sums.
        objective: minus twice the log-likelihood.
        score: (coefficients,) float64.
        information: (coefficients, coefficients) float64.
        floor: greatest error of an entry of ``information`` by rounding.
    """

    people: int
    objective: float
    score: Floats
    information: Floats
    floor: float


@dataclass(frozen=True, slots=True)
class Point:
    """Where the sums of the next round are formed, and how the fit came there.

    Attributes:
        beta: the coefficients; 0 for those that left the model.
        accepted: the last point that was no worse than the one before it.
        objective: minus twice the log-likelihood there; inf before the first evaluation.
        people: people in the sums there.
        iterations: evaluations made.
        halvings: how often the way from ``accepted`` was halved.
        statuses: per coefficient ``ok``, or why it left the model; empty before the first evaluation.
    """

    beta: tuple[float, ...]
    accepted: tuple[float, ...]
    objective: float = inf
    people: int = 0
    iterations: int = 0
    halvings: int = 0
    statuses: tuple[Status, ...] = ()


@dataclass(frozen=True, slots=True)
class Maximum:
    """A fit that came to rest.

    Attributes:
        beta: (coefficients,) float64; meaningful where the status is ``ok``.
        covariance: (coefficients, coefficients) float64, the inverse information, likewise.
        objective: minus twice the log-likelihood.
        iterations: evaluations made.
        statuses: per coefficient ``ok``, or why it left the model.
    """

    beta: Floats
    covariance: Floats
    objective: float
    iterations: int
    statuses: tuple[Status, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A fit that has no answer, and why, after how many evaluations."""

    reason: str
    iterations: int


SINGULAR = "singular information"
UNSETTLED = "no convergence"


def first_point(beta: tuple[float, ...]) -> Point:
    """Return the first point."""
    return Point(beta, beta)


def advance(
    point: Point, here: Evaluation, limit: int, intercept: bool, unvarying: Status
) -> Point | Maximum | Failure:
    """Return where a fit goes from ``point``, whose sums are ``here``.

    Args:
        point: where the sums were formed.
        here: the sums.
        limit: most evaluations.
        intercept: whether coefficient 0 is an intercept, about which the other columns are centred.
        unvarying: the status of a column without variation.
    """
    iterations = point.iterations + 1
    if here.people == point.people and here.objective > point.objective + SLACK * (abs(point.objective) + 1):
        if point.halvings == MOST_HALVINGS or iterations >= limit:
            return Failure(UNSETTLED, iterations)
        middle = (np.array(point.beta) + np.array(point.accepted)) / 2
        return replace(point, beta=_exact(middle), iterations=iterations, halvings=point.halvings + 1)
    step = _step(here, intercept, unvarying, point.statuses)
    if step.statuses != (point.statuses or step.statuses) or Status.NOT_ESTIMABLE in step.statuses:
        return Failure(SINGULAR, iterations)
    if step.decrement <= CLOSE and fsum(abs(step.move)) <= STILL:
        objective = here.objective - step.decrement
        return Maximum(
            np.array(point.beta) + step.move, step.covariance, objective, iterations, step.statuses
        )
    if iterations >= limit:
        return Failure(UNSETTLED, iterations)
    beta = _exact(np.array(point.beta) + step.move)
    if not np.all(np.isfinite(beta)):
        return Failure(SINGULAR, iterations)
    return Point(beta, point.beta, here.objective, here.people, iterations, 0, step.statuses)


@dataclass(frozen=True, slots=True)
class _Step:
    """I^-1 s over the columns in the model, I^-1, s' I^-1 s, and a status per coefficient."""

    move: Floats
    covariance: Floats
    decrement: float
    statuses: tuple[Status, ...]


def _step(here: Evaluation, intercept: bool, unvarying: Status, statuses: tuple[Status, ...]) -> _Step:
    """Return the step; columns that left the model before are not tried again."""
    size = len(here.score)
    score, information, first = here.score, here.information, int(intercept)
    mean = np.zeros(size)
    if intercept:
        if not information[0, 0] > here.floor:
            nothing = np.zeros((size, size))
            return _Step(np.zeros(size), nothing, inf, (Status.NOT_ESTIMABLE,) * size)
        mean = information[0] / information[0, 0]
        information = information - information[0, 0] * np.multiply.outer(mean, mean)
        score = score - mean * score[0]
    cross = np.zeros((size - first + 1,) * 2)
    cross[:-1, :-1] = information[first:, first:]
    cross[-1, :-1] = cross[:-1, -1] = score[first:]
    tried = [place for place in range(size) if place >= first and _in_model(statuses, place)]
    found = fit(cross, [place - first for place in tried], here.floor)
    kept = [place + first for place in found.kept]
    move, covariance = np.zeros(size), np.zeros((size, size))
    move[kept] = found.b
    covariance[np.ix_(kept, kept)] = found.inverse
    reached = list(statuses) if statuses else [Status.ALIASED] * size
    for place in tried:
        reached[place] = Status.ALIASED
    for place in found.unvarying:
        reached[place + first] = unvarying
    for place in kept:
        reached[place] = Status.OK
    if intercept:
        reached[0] = Status.OK
        tilted = np.array([fsum(row * mean) for row in covariance])
        covariance[0, :] = covariance[:, 0] = -tilted
        covariance[0, 0] = 1.0 / here.information[0, 0] + fsum(mean * tilted)
        move[0] = here.score[0] / here.information[0, 0] - fsum(mean * move)
    return _Step(move, covariance, fsum(move * here.score), tuple(reached))


def _in_model(statuses: tuple[Status, ...], place: int) -> bool:
    return not statuses or statuses[place] is Status.OK


def _exact(beta: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in rounded(beta))
