"""Composition of mechanisms that are known by epsilon and delta only."""

from math import exp, log, prod, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy.composition import basic, compose_pure, drv10, kov15
from tests.study.privacy.written import written

parts = st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 0.01)), min_size=1, max_size=20)
slacks = st.floats(1e-12, 0.1)


def test_a_thousand_laplace_releases() -> None:
    """Acceptance check 4 and rule 8: in truth 18.95; the seed's formula without the linear term says 16.62."""
    assert compose_pure(0.1, 1000, 1e-6) == written("21.62")
    assert drv10(0.1, 1000, 1e-6) == written("27.14")
    assert 0.1 * sqrt(2 * 1000 * log(1e6)) == written("16.62")
    assert compose_pure(0.1, 1000, 1e-6) >= 18.95


def test_a_hundred_laplace_releases_of_one() -> None:
    """Rule 8: in truth 71.5; without the linear term 52.6."""
    assert sqrt(2 * 100 * log(1e6)) == written("52.6")
    assert compose_pure(1.0, 100, 1e-6) >= 71.5


def test_few_releases_simply_add_up() -> None:
    assert compose_pure(1.0, 3, 1e-6) == 3.0
    assert kov15([(1.0, 1e-7), (2.0, 0.0)], 1e-6)[0] == 3.0


def test_the_variant_with_e_is_taken_where_it_is_less() -> None:
    """It is where the epsilons are small against delta': the logarithm is then near that of e, which is 1."""
    epsilon, k, slack = 1e-4, 100, 1e-3
    mean = k * epsilon * (exp(epsilon) - 1) / (exp(epsilon) + 1)
    spread = sqrt(2 * k * log(exp(1) + sqrt(k) * epsilon / slack)) * epsilon
    assert compose_pure(epsilon, k, slack) == pytest.approx(mean + spread, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(parts, slacks)
def test_bounds_of_kov15(mechanisms: list[tuple[float, float]], slack: float) -> None:
    epsilon, delta = kov15(mechanisms, slack)
    total, added = basic(mechanisms)
    assert epsilon <= total
    assert delta == pytest.approx(
        1 - (1 - slack) * prod(1 - each for _, each in mechanisms), rel=1e-6, abs=1e-15
    )
    assert slack * (1 - 1e-12) <= delta <= (slack + added) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 2.0), st.integers(1, 2000), slacks)
def test_the_older_bound_is_never_below_the_newer_one(epsilon: float, k: int, slack: float) -> None:
    assert compose_pure(epsilon, k, slack) <= drv10(epsilon, k, slack)


@settings(max_examples=100, deadline=None)
@given(parts, slacks)
def test_the_order_of_mechanisms_changes_no_digit(
    mechanisms: list[tuple[float, float]], slack: float
) -> None:
    assert kov15(mechanisms, slack) == kov15(mechanisms[::-1], slack) == kov15(sorted(mechanisms), slack)
    assert basic(mechanisms) == basic(mechanisms[::-1])


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 2.0), st.integers(1, 500), slacks, st.floats(1.0, 3.0))
def test_more_of_anything_means_more_epsilon(epsilon: float, k: int, slack: float, factor: float) -> None:
    least = compose_pure(epsilon, k, slack) * (1 - 1e-12)
    assert compose_pure(epsilon * factor, k, slack) >= least
    assert compose_pure(epsilon, k + 1, slack) >= least
    assert compose_pure(epsilon, k, slack / factor) >= least
