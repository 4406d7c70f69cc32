"""The sampled Gaussian under replace-one: its integral to the last digit, Google's accountant below it, and why the pair is the worst."""

from fractions import Fraction
from itertools import pairwise
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy import sampled_replace, subsampled
from cohortsum.study.privacy.accountant import epsilon
from cohortsum.study.privacy.events import DiscreteGaussian, Release, SampledGaussian
from cohortsum.study.privacy.sampled_replace import multiplier_for, rdp
from cohortsum.study.privacy.subsampled import ORDERS

WHY = "dp-accounting, and mpmath with it, is an oracle of the tests only; pip install dp-accounting"

# privacy.md 3.4: q, sigma, T, delta and the column PLD REPLACE_ONE
TRAINING = [
    (0.01, 1.1, 1000, 1e-5, 2.4778),
    (0.01, 1.1, 2000, 1e-5, 3.65593),
    (0.01, 1.1, 5000, 1e-5, 6.21409),
    (0.01, 1.1, 10000, 1e-5, 9.42232),
    (0.01, 4.0, 1000, 1e-5, 0.5614),
    (0.01, 4.0, 10000, 1e-5, 1.9932),
    (256 / 60000, 1.1, 14062, 1e-5, 4.22136),
    (0.1, 2.0, 100, 1e-6, 4.886),
    (0.1, 2.0, 1000, 1e-6, 19.25),
]

rates = st.floats(1e-4, 0.99)
multipliers = st.floats(0.4, 10.0)
orders = st.sampled_from(ORDERS)


def exact(rate: float, multiplier: float, order: float) -> Any:
    """Return the divergence from its definition, by Gauss-Legendre quadrature with 28 digits on pieces of four deviations."""
    mp: Any = pytest.importorskip("mpmath", reason=WHY)
    mp.mp.dps = 28
    q, m, a = mp.mpf(rate), 1 / mp.mpf(multiplier), mp.mpf(order)

    def bracket(z: Any) -> Any:
        return 1 - q + q * mp.exp(m * z - m * m / 2)

    def excess(z: Any) -> Any:
        u, w = bracket(z), bracket(-z)
        return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) * (u**a * w ** (1 - a) - w - a * (u - w))

    end = (2 * a - 1) * m + 12
    return mp.log1p(mp.quad(excess, mp.linspace(-12, end, int(end / 4) + 8))) / (a - 1)


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 0.999])
@pytest.mark.parametrize(
    ("multiplier", "order"), [(0.5, 2.0), (0.7, 7.3), (1.0, 1.1), (3.0, 5.3), (3.0, 32.0), (100.0, 2.5)]
)
def test_the_divergence_is_rounded_up_and_has_nine_digits(
    rate: float, multiplier: float, order: float
) -> None:
    truth, found = exact(rate, multiplier, order), rdp(rate, multiplier, order)
    assert truth <= found <= truth * (1 + 2e-10)


@pytest.mark.parametrize(("rate", "multiplier", "steps", "delta", "pld"), TRAINING)
def test_epsilon_is_a_little_above_the_privacy_loss_distribution(
    rate: float, multiplier: float, steps: int, delta: float, pld: float
) -> None:
    found = sampled_replace.epsilon(rate, multiplier, steps, delta)
    assert pld < found < 1.11 * pld
    assert found >= subsampled.epsilon(rate, multiplier, steps, delta)


@pytest.mark.parametrize(
    ("rate", "multiplier", "steps", "delta"),
    [(0.01, 1.1, 1000, 1e-5), (0.1, 2.0, 100, 1e-6), (0.5, 5.0, 20, 1e-6)],
)
def test_google_s_accountant_is_below(rate: float, multiplier: float, steps: int, delta: float) -> None:
    dp: Any = pytest.importorskip("dp_accounting", reason=WHY)
    accountant = dp.pld.PLDAccountant(
        neighboring_relation=dp.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3
    )
    sampled = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(multiplier))
    accountant.compose(dp.SelfComposedDpEvent(sampled, steps))
    truth = float(accountant.get_epsilon(delta))
    found = epsilon([Release("t", SampledGaussian(rate, multiplier, steps), "replace_one")], delta)
    assert found.method == "RDP"
    assert truth < found.epsilon < 1.15 * truth


def test_without_sampling_the_sensitivity_is_two_clips() -> None:
    assert rdp(1.0, 3.0, 7.0) == pytest.approx(7 * 2 / 3.0**2, rel=1e-15)
    assert rdp(1.0 - 1e-12, 3.0, 7.0) == pytest.approx(rdp(1.0, 3.0, 7.0), rel=1e-9)
    assert sampled_replace.epsilon(1.0, 3.0, 10, 1e-6) == subsampled.epsilon(1.0, 1.5, 10, 1e-6)


@settings(max_examples=60, deadline=None)
@given(rates, multipliers, orders)
def test_replacing_costs_more_than_removing_and_less_than_without_sampling(
    rate: float, multiplier: float, order: float
) -> None:
    found = rdp(rate, multiplier, order)
    assert subsampled.rdp(rate, multiplier, order) <= found + 1e-10
    assert found <= rdp(1.0, multiplier, order) * (1 + 2e-10)


@settings(max_examples=60, deadline=None)
@given(rates, multipliers, orders, st.floats(1.001, 2.0))
def test_more_sampling_or_less_noise_costs_more(
    rate: float, multiplier: float, order: float, factor: float
) -> None:
    found = rdp(rate, multiplier, order)
    assert found <= rdp(min(1.0, rate * factor), multiplier, order) * (1 + 2e-10)
    assert found >= rdp(rate, multiplier * factor, order)


@settings(max_examples=10, deadline=None)
@given(rates, st.floats(0.1, 10.0))
def test_the_curve_rises_with_the_order(rate: float, multiplier: float) -> None:
    """Down to noise so weak that high orders are bounded and not integrated."""
    curve = [rdp(rate, multiplier, order) for order in (*ORDERS[::9], *ORDERS[-3:])]
    assert all(low <= high * (1 + 2e-10) for low, high in pairwise(curve))


def test_more_steps_cost_more() -> None:
    costs = [sampled_replace.epsilon(0.05, 1.5, steps, 1e-6) for steps in (1, 10, 100, 1000)]
    assert all(few < many for few, many in pairwise(costs))


def test_a_bound_stands_for_an_integral_that_would_take_too_long() -> None:
    """At sigma 0.1 and order 1024 the divergence is that of the tails: 2 a / sigma^2, less what sampling takes off."""
    bound, top = rdp(0.5, 0.1, 1024.0), rdp(1.0, 0.1, 1024.0)
    assert 0.999 * top < bound < top
    assert rdp(0.5, 0.1, 10.0) < rdp(1.0, 0.1, 10.0)  # integrated


vectors = st.tuples(st.floats(0, 1), st.floats(0, 2 * pi)).map(
    lambda polar: polar[0] * np.array([np.cos(polar[1]), np.sin(polar[1])])
)


def in_the_plane(
    rate: float, sigma: float, order: float, g: np.ndarray[Any, Any], other: np.ndarray[Any, Any], step: float
) -> float:
    """Return the divergence between two mixtures in the plane, by a sum over a lattice of the given step, normalised."""
    reach = (2 * order - 1) * max(1.0, float(np.linalg.norm(g))) + 10 * sigma
    line = np.arange(-int(reach / step), int(reach / step) + 1) * step
    x, y = np.meshgrid(line, line)

    def log_law(v: np.ndarray[Any, Any]) -> Any:
        tilt = (x * v[0] + y * v[1] - v @ v / 2) / sigma**2
        return np.logaddexp(np.log1p(-rate), np.log(rate) + tilt)

    log_phi = -(x**2 + y**2) / (2 * sigma**2)
    log_f = log_phi + order * log_law(g) + (1 - order) * log_law(other)
    total = np.logaddexp.reduce(log_f, axis=None) - np.logaddexp.reduce(log_phi, axis=None)
    return float(total) / (order - 1)


@settings(max_examples=40, deadline=None)
@given(vectors, vectors, st.floats(0.01, 0.9), st.floats(1.0, 3.0), st.sampled_from([1.5, 2.0, 4.0]))
def test_no_two_vectors_of_the_plane_are_worse_than_two_opposite_ones(
    g: np.ndarray[Any, Any], other: np.ndarray[Any, Any], rate: float, sigma: float, order: float
) -> None:
    worst = rdp(rate, sigma, order)
    assert in_the_plane(rate, sigma, order, g, other, 0.2 * sigma) <= worst + 1e-9


@pytest.mark.parametrize("order", [1.5, 3.0, 6.0])
@pytest.mark.parametrize(("g", "sigma"), [((3, 4), 10.0), ((1, 0), 4.0), ((5, 12), 13.0)])
def test_integer_noise_has_the_same_divergence(g: tuple[int, int], sigma: float, order: float) -> None:
    """Discrete Gaussians on the integer points of the plane; nothing but the last digits tells them from continuous ones."""
    vector = np.array(g, np.float64)
    norm = sqrt(float(vector @ vector))
    lattice = in_the_plane(0.1, sigma / norm, order, vector / norm, -vector / norm, 1 / norm)
    assert lattice == pytest.approx(rdp(0.1, sigma / norm, order), rel=1e-9)


@pytest.mark.parametrize("adjacent", [sampled_replace, subsampled])
@pytest.mark.parametrize(("rate", "steps", "budget"), [(0.05, 200, 3.0), (1.0, 10, 1.0), (0.01, 50, 0.5)])
def test_the_multiplier_is_the_least_that_keeps_the_budget(
    adjacent: Any, rate: float, steps: int, budget: float
) -> None:
    found = adjacent.multiplier_for(rate, steps, budget, 1e-6)
    assert round(100 * found) / 100 == found
    assert adjacent.epsilon(rate, found, steps, 1e-6) <= budget
    assert adjacent.epsilon(rate, found - 0.01, steps, 1e-6) > budget


def test_no_multiplier_is_below_two_tenths_and_none_above_a_thousand() -> None:
    assert multiplier_for(0.001, 1, 100.0, 1e-6) == 0.2
    with pytest.raises(ValueError, match="1000 clip norms does not bring 1000 steps at rate 1 down"):
        multiplier_for(1.0, 1000, 0.01, 1e-6)


def test_a_claim_adds_sampled_steps_to_other_noise() -> None:
    steps = Release("training", SampledGaussian(0.01, 1.1, 1000), "replace_one")
    mean = Release("mean", DiscreteGaussian(Fraction(1, 50)), "replace_one")
    alone, together = epsilon([steps], 1e-5), epsilon([steps, mean], 1e-5)
    assert alone.epsilon == sampled_replace.epsilon(0.01, 1.1, 1000, 1e-5)
    curve = {order: 1000 * rdp(0.01, 1.1, order) + order / 50 for order in ORDERS}
    assert together.epsilon == pytest.approx(subsampled.epsilon_of(curve, 1e-5)[0], rel=1e-12)
    assert (together.method, together.adjacency) == ("RDP", "replace_one")
