"""Newton's method over rounds: where it goes, when it is at rest, and every way in which it fails."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.study.results import Status
from cohortsum.study.statistics.newton import (
    MOST_HALVINGS,
    SINGULAR,
    UNSETTLED,
    Evaluation,
    Failure,
    Maximum,
    Point,
    advance,
    first_point,
)
from cohortsum.study.statistics.parameters import BITS, rounded


def poisson(b: float, people: int = 10, events: int = 30) -> Evaluation:
    """Return the likelihood of a rate exp(b) for ten people with thirty events: its maximum is log 3."""
    return Evaluation(
        people,
        2 * (people * exp(b) - events * b),
        np.array([events - people * exp(b)]),
        np.array([[people * exp(b)]]),
        1e-9,
    )


def go_on(point: Point, here: Evaluation, limit: int = 25) -> Point | Maximum | Failure:
    return advance(point, here, limit, True, Status.CONSTANT)


def test_it_comes_to_rest_at_the_maximum() -> None:
    at: Point | Maximum | Failure = first_point((0.0,))
    while isinstance(at, Point):
        at = go_on(at, poisson(at.beta[0]))
    assert isinstance(at, Maximum)
    assert at.beta[0] == pytest.approx(log(3), rel=1e-14)
    assert at.covariance[0, 0] == pytest.approx(1 / 30, rel=1e-6)
    assert at.objective == pytest.approx(2 * (30 - 30 * log(3)), rel=1e-14)
    assert at.iterations <= 8


def test_a_step_that_made_it_worse_is_halved_and_at_last_given_up() -> None:
    at = go_on(first_point((0.0,)), poisson(0.0))
    assert isinstance(at, Point)
    worse = replace(poisson(0.0), objective=at.objective + 1.0)
    far = at.beta[0]
    for halvings in range(1, MOST_HALVINGS + 1):
        following = go_on(at, worse)
        assert isinstance(following, Point)
        at = following
        assert at.beta[0] == pytest.approx(far / 2**halvings, rel=1e-11)
        assert at.halvings == halvings
    assert go_on(at, worse) == Failure(UNSETTLED, at.iterations + 1)


def test_fewer_people_begin_anew_from_where_it_stands() -> None:
    at = go_on(first_point((0.0,)), poisson(0.0))
    assert isinstance(at, Point)
    other = replace(poisson(at.beta[0], people=9), objective=at.objective + 100.0)
    following = go_on(at, other)
    assert isinstance(following, Point)
    assert (following.halvings, following.people) == (0, 9)


def test_the_limit_ends_it() -> None:
    assert go_on(first_point((0.0,)), poisson(0.0), limit=1) == Failure(UNSETTLED, 1)
    at = go_on(first_point((0.0,)), poisson(0.0), limit=2)
    assert isinstance(at, Point)
    worse = replace(poisson(0.0), objective=at.objective + 1.0)
    assert go_on(at, worse, limit=2) == Failure(UNSETTLED, 2)


def test_information_that_vanishes_is_singular() -> None:
    nothing = replace(poisson(0.0), information=np.zeros((1, 1)))
    assert go_on(first_point((0.0,)), nothing) == Failure(SINGULAR, 1)
    two = Evaluation(10, 5.0, np.array([1.0, 1.0]), np.eye(2), 1e-9)
    at = advance(first_point((0.0, 0.0)), two, 25, False, Status.ALIASED)
    assert isinstance(at, Point)
    lost = replace(two, information=np.diag([1.0, 0.0]))
    assert advance(at, lost, 25, False, Status.ALIASED) == Failure(SINGULAR, 2)


def test_aliased_columns_leave_for_good() -> None:
    twins = Evaluation(
        10, 5.0, np.array([1.0, 1.0, 2.0]), np.array([[4.0, 4, 0], [4, 4, 0], [0, 0, 1]]), 1e-9
    )
    at = advance(first_point((0.0, 0.0, 0.0)), twins, 25, False, Status.ALIASED)
    assert isinstance(at, Point)
    assert at.statuses == (Status.OK, Status.ALIASED, Status.OK)
    assert at.beta == (0.25, 0.0, 2.0)


@given(st.floats(-1e300, 1e300, allow_subnormal=False))
def test_rounding_a_parameter_keeps_40_bits_and_stays_put(value: float) -> None:
    once = rounded(np.array([value]))
    assert rounded(once)[0] == once[0]
    assert abs(once[0] - value) <= abs(value) * 2.0**-BITS
