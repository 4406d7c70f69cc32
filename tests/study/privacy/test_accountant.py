"""Claims: the acceptance checks, the least of sound bounds, and one adjacency."""

from fractions import Fraction
from math import exp, expm1, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.privacy import gaussian, zcdp
from cohortsum.study.privacy.accountant import Claim, epsilon
from cohortsum.study.privacy.events import (
    Adjacency,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Release,
    SampledGaussian,
)
from tests.study.privacy.written import written

SAMPLED = SampledGaussian(0.01, 1.1, 1000)

events: st.SearchStrategy[Event] = st.one_of(
    st.floats(0.5, 100.0).map(Gaussian),
    st.fractions(Fraction(1, 1000), 1).map(DiscreteGaussian),
    st.floats(0.01, 2.0).map(Laplace),
    st.floats(0.01, 2.0).map(Exponential),
)


def claim(*released: Event, delta: float = 1e-6, adjacency: Adjacency = "add_or_remove") -> Claim:
    return epsilon([Release(f"r{place}", event, adjacency) for place, event in enumerate(released)], delta)


def test_a_hundred_releases_and_which_bound_was_used() -> None:
    """Acceptance check 2."""
    exact = claim(*[Gaussian(10.0)] * 100, delta=1e-5, adjacency="replace_one")
    assert (exact.method, exact.adjacency, exact.delta) == ("exact Gaussian", "replace_one", 1e-5)
    assert exact.epsilon == written("4.3771781")
    discrete = claim(*[DiscreteGaussian(Fraction(1, 200))] * 100)
    assert discrete.method == "zCDP"
    assert discrete.epsilon == written("5.2215344445")


@pytest.mark.parametrize(
    ("releases", "total"), [(1000, "71.27"), (450, "39.67"), (100, "14.43"), (10, "3.62")]
)
def test_epsilon_one_for_each_release_is_not_epsilon_one(releases: int, total: str) -> None:
    """Acceptance check 3 and rule 7: regional means planned "at eps 1, delta 1e-5 each"."""
    each = Gaussian(gaussian.sigma_of(1.0, 1e-5))
    assert claim(*[each] * releases, delta=1e-5).epsilon == written(total)


def test_what_a_thousand_releases_need_for_epsilon_one_together() -> None:
    """Acceptance check 3: the multiplier of the joint release."""
    multiplier = gaussian.sigma_of(1.0, 1e-6) * sqrt(1000)
    assert multiplier == written("133.6")
    assert claim(*[Gaussian(multiplier)] * 1000).epsilon == pytest.approx(1.0, rel=1e-11)


def test_a_thousand_laplace_releases() -> None:
    """Acceptance check 4: at least the truth of 18.95 (19.34 for the worst mechanism of that epsilon), less than KOV15."""
    total = claim(*[Laplace(0.1)] * 1000)
    assert 19.34 < total.epsilon < 21.62
    assert total.method == "zCDP"
    assert total.epsilon == zcdp.epsilon_of(Fraction(5), 1e-6) == pytest.approx(20.5519488, abs=1e-7)


def test_the_least_sound_bound_is_claimed_and_named() -> None:
    pair = claim(Laplace(1.0), Exponential(0.5))
    assert (pair.epsilon, pair.method) == (1.5, "sum")
    assert claim(*[Laplace(1.0)] * 100).method == "KOV15"
    assert claim(Gaussian(1.0), Laplace(0.5)).method == "exact Gaussian + sum"
    assert claim(DiscreteGaussian(Fraction(1, 2)), Laplace(3.0)).method == "zCDP + sum"
    assert claim(Gaussian(5.0), *[Laplace(0.1)] * 500).method == "zCDP"
    assert claim(SAMPLED, Gaussian(10.0)).method == "RDP"
    assert claim(SAMPLED, Laplace(5.0)).method == "RDP + sum"


def test_private_training_and_its_gate() -> None:
    """The curves add up: one noised count next to the steps costs less than its own epsilon."""
    training = claim(SAMPLED, delta=1e-5)
    assert training.epsilon == written("1.71177009")
    gate = claim(Laplace(0.1), delta=1e-5)
    both = claim(SAMPLED, Laplace(0.1), delta=1e-5)
    assert training.epsilon < both.epsilon < training.epsilon + gate.epsilon


def test_steps_in_two_releases_are_the_steps_of_one() -> None:
    halves = claim(SampledGaussian(0.01, 1.1, 500), SampledGaussian(0.01, 1.1, 500))
    assert halves.epsilon == pytest.approx(claim(SAMPLED).epsilon, rel=1e-13)


def test_without_sampling_the_exact_curve_is_below_the_renyi_curve() -> None:
    steps = SampledGaussian(1.0, 10.0, 100)
    assert claim(steps).epsilon == written("5.22154")
    assert claim(*[Gaussian(10.0)] * 100).epsilon < claim(steps).epsilon


def test_releases_of_different_adjacency_are_refused() -> None:
    mixed = [
        Release("means", Gaussian(5.0), "replace_one"),
        Release("training", SAMPLED, "add_or_remove"),
    ]
    with pytest.raises(
        ConfigurationError, match="'training' is under add_or_remove and 'means' under replace_one"
    ):
        epsilon(mixed, 1e-6)


def test_no_release_and_no_delta_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one release"):
        epsilon([], 1e-6)
    for delta in (0.0, 1.0, -1e-6, float("nan")):
        with pytest.raises(ValueError, match="delta lies between 0 and 1"):
            claim(Gaussian(1.0), delta=delta)


@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=1, max_size=12))
def test_the_order_of_releases_changes_no_digit(released: list[Event]) -> None:
    assert claim(*released) == claim(*released[::-1])
    assert claim(SAMPLED, *released) == claim(*released[::-1], SAMPLED)


@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=1, max_size=12), events, st.floats(1.0, 100.0))
def test_one_release_more_or_less_delta_means_more_epsilon(
    released: list[Event], further: Event, factor: float
) -> None:
    least = claim(*released).epsilon * (1 - 1e-12)
    assert claim(*released, further).epsilon >= least
    assert claim(*released, delta=1e-6 / factor).epsilon >= least


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 5.0), st.floats(1.01, 200.0))
def test_randomised_response_is_within_what_a_pure_epsilon_is_charged(pure: float, order: float) -> None:
    """Randomised response dominates every mechanism of its epsilon (Kairouz, Oh and Viswanath 2015)."""
    assert divergence(pure, -pure, order) <= min(order * pure**2 / 2, pure) * (1 + 1e-9)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 5.0), st.floats(0.01, 0.99), st.floats(1.01, 200.0))
def test_losses_in_a_range_are_within_what_an_exponential_mechanism_is_charged(
    width: float, part: float, order: float
) -> None:
    """Two losses, ``width`` apart, dominate the mechanisms of that range (Dong, Durfee and Rogers 2020)."""
    charged = min(order * width**2 / 8, width)
    assert divergence(part * width, (part - 1) * width, order) <= charged * (1 + 1e-9) + 1e-12


def divergence(high: float, low: float, order: float) -> float:
    """Return the Renyi divergence of two laws on two points whose log ratios are ``high`` and ``low``, below 0."""
    log_both = log(exp(high) - exp(low))
    log_first, log_second = high + log(-expm1(low)) - log_both, low + log(expm1(high)) - log_both
    moment = np.logaddexp(log_first + (order - 1) * high, log_second + (order - 1) * low)
    return float(moment) / (order - 1)
