"""The accountant against Google's dp_accounting, an independent implementation."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy import gaussian, subsampled, zcdp
from cohortsum.study.privacy.accountant import epsilon
from cohortsum.study.privacy.events import (
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Release,
    SampledGaussian,
)
from tests.study.privacy.written import written

WHY = "dp-accounting is an oracle of the tests only; pip install dp-accounting"
DP: Any = pytest.importorskip("dp_accounting", reason=WHY)
LOSS: Any = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason=WHY)

deltas = st.floats(1e-12, 0.01)


def claimed(*events: Event, delta: float) -> float:
    return epsilon([Release("r", event, "add_or_remove") for event in events], delta).epsilon


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 30.0), deltas)
def test_gaussian_sigma(wanted: float, delta: float) -> None:
    assert gaussian.sigma_of(wanted, delta) == pytest.approx(DP.get_sigma_gaussian(wanted, delta), rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 100.0), st.integers(1, 1000), deltas)
def test_gaussian_epsilon(sigma: float, k: int, delta: float) -> None:
    oracle = float(DP.get_epsilon_gaussian(sigma / k**0.5, delta))
    assert claimed(*[Gaussian(sigma)] * k, delta=delta) == pytest.approx(oracle, rel=1e-9, abs=1e-11)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.02, 10.0), st.floats(1e-9, 0.01))
def test_zcdp_is_at_most_its_value_at_the_finite_orders(rho: float, delta: float) -> None:
    accountant = DP.rdp.RdpAccountant()
    accountant.compose(DP.ZCDpEvent(rho))
    oracle = float(accountant.get_epsilon(delta))
    found = zcdp.epsilon_of(rho, delta)
    assert found <= oracle * (1 + 1e-12)
    assert found == pytest.approx(oracle, rel=1e-2)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 0.9), st.floats(0.5, 5.0))
def test_sampled_gaussian_at_whole_orders(rate: float, multiplier: float) -> None:
    orders = [2.0, 3.0, 5.0, 11.0, 32.0, 63.0, 256.0]
    accountant = DP.rdp.RdpAccountant(orders)
    accountant.compose(DP.PoissonSampledDpEvent(rate, DP.GaussianDpEvent(multiplier)))
    for delta in (1e-3, 1e-6):
        curve = {order: subsampled.rdp(rate, multiplier, order) for order in orders}
        oracle = float(accountant.get_epsilon(delta))
        # where even the total variation is below delta, it says 0 by a bound of its own
        assert oracle in (0.0, pytest.approx(subsampled.epsilon_of(curve, delta)[0], rel=1e-9, abs=1e-11))


@pytest.mark.parametrize("order", [1.5, 2.5, 3.7, 4.7, 9.6])
def test_sampled_gaussian_at_fractional_orders(order: float) -> None:
    """Version 0.6.0 adds the absolute values of alternating terms and lies above: by 6e-4 at 3.7, by nothing at 9.6."""
    oracle = DP.rdp.RdpAccountant([order])
    oracle.compose(DP.PoissonSampledDpEvent(0.1, DP.GaussianDpEvent(2.0)))
    above = float(oracle.get_epsilon(1e-6))
    found = subsampled.epsilon_of({order: subsampled.rdp(0.1, 2.0, order)}, 1e-6)[0]
    assert found <= above * (1 + 1e-12)
    assert found == pytest.approx(above, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "pld"),
    [(1, 1, "4.430238"), (2, 1, "2.011340"), (10, 1, "0.340818"), (1000, 100, "0.3406694")],
)
def test_one_discrete_gaussian_is_within_its_claim_and_not_within_the_continuous_one(
    sigma: int, sensitivity: int, pld: str
) -> None:
    """privacy.md 4.1: on a coarse grid the exact Gaussian curve promises too much; zCDP holds on every grid."""
    noise = LOSS.from_discrete_gaussian_mechanism(sigma, sensitivity=sensitivity)
    truth = float(noise.get_epsilon_for_delta(1e-5))
    assert truth == written(pld)
    assert gaussian.epsilon_of(sensitivity / sigma, 1e-5) < truth
    assert truth < claimed(DiscreteGaussian(Fraction(sensitivity**2, 2 * sigma**2)), delta=1e-5)


def test_a_thousand_laplace_releases_are_within_their_claim() -> None:
    """Acceptance check 4: 18.95 continuous; on the coarsest grid the noise is randomised response, 19.34."""
    continuous = LOSS.from_laplace_mechanism(10.0).self_compose(1000)
    coarse = LOSS.from_discrete_laplace_mechanism(0.1, sensitivity=1).self_compose(1000)
    assert float(continuous.get_epsilon_for_delta(1e-6)) == written("18.95")
    worst = float(coarse.get_epsilon_for_delta(1e-6))
    assert worst == written("19.34")
    assert worst < claimed(*[Laplace(0.1)] * 1000, delta=1e-6)


@pytest.mark.parametrize(
    ("sigma", "gaussians", "pure", "laplaces"),
    [(1.0, 1, 0.5, 1), (5.0, 10, 0.1, 50), (5.0, 1, 0.1, 500), (2.0, 3, 2.0, 2), (20.0, 1, 1.0, 30)],
)
def test_a_mixture_is_within_its_claim(sigma: float, gaussians: int, pure: float, laplaces: int) -> None:
    """The privacy loss distribution of both, with the worst mechanism of that epsilon in place of Laplace noise."""
    wide = LOSS.from_gaussian_mechanism(sigma / gaussians**0.5, value_discretization_interval=1e-3)
    coarse = LOSS.from_discrete_laplace_mechanism(pure, sensitivity=1, value_discretization_interval=1e-3)
    truth = float(wide.compose(coarse.self_compose(laplaces)).get_epsilon_for_delta(1e-6))
    found = claimed(*[Gaussian(sigma)] * gaussians, *[Laplace(pure)] * laplaces, delta=1e-6)
    assert truth * (1 - 2e-3) < found < 1.25 * truth


def test_private_training_is_within_its_claim() -> None:
    accountant = DP.pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(DP.SelfComposedDpEvent(DP.PoissonSampledDpEvent(0.01, DP.GaussianDpEvent(1.1)), 1000))
    truth = float(accountant.get_epsilon(1e-5))
    assert truth == pytest.approx(1.51537, abs=2e-3)
    assert truth < claimed(SampledGaussian(0.01, 1.1, 1000), delta=1e-5)


@pytest.mark.parametrize(("pure", "k"), [(0.1, 100), (0.5, 50), (1.0, 20)])
def test_exponential_mechanisms_are_within_their_claim(pure: float, k: int) -> None:
    """Scores of two options a sensitivity apart, both ways: randomised response of half the epsilon, a mechanism of that range."""
    half = LOSS.from_discrete_laplace_mechanism(pure / 2, sensitivity=1).self_compose(k)
    assert float(half.get_epsilon_for_delta(1e-6)) < claimed(*[Exponential(pure)] * k, delta=1e-6)
