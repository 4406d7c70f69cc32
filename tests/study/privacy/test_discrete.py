"""The sum of integer Gaussian shares: known answers, and the bound against the sum's own law."""

from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.privacy.discrete import LEAST_SIGMA, NoisySum, tau
from cohortsum.study.privacy.subsampled import epsilon_of
from cohortsum.study.privacy.zcdp import nano_up
from tests.study.privacy.written import written

# privacy.md 4.2, nine sites
TAU = {
    0.5: "2.23",
    0.75: "0.0515",
    1.0: "5.433e-4",
    1.5: "2.27e-9",
    2.0: "7.16e-17",
    3.0: "2.65e-38",
    4.0: "2.6e-68",
    8.0: "4.7e-274",
}


def scalar(sites: int, variance: Fraction, sensitivity: int = 1) -> NoisySum:
    return NoisySum(sites, variance, dimensions=1, l1=sensitivity, squared_l2=sensitivity**2)


def law(sites: int, sigma: float) -> NDArray[np.float64]:
    """Return the probabilities of the sum of the shares, each cut off at 40 units."""
    reach = 40
    points = np.arange(-reach, reach + 1)
    share = np.exp(-(points**2) / (2 * sigma**2))
    share /= np.sum(share)
    total = np.ones(1, np.float64)
    for _ in range(sites):
        total = np.asarray(np.convolve(total, share), np.float64)
    return total


@pytest.mark.parametrize("sigma", TAU)
def test_tau_of_the_table(sigma: float) -> None:
    assert tau(9, sigma) == written(TAU[sigma])


def test_tau_that_is_too_small_for_a_float_is_not_zero() -> None:
    assert 0 < tau(9, 9.0) <= 2.3e-308
    assert tau(9, 9.0) == tau(9, 2048.0) == tau(2, 1e100)


def test_one_share_alone_is_discrete_gaussian() -> None:
    assert tau(1, 1.0) == 0.0
    assert scalar(1, Fraction(100)).rho() == Fraction(1, 200)


@pytest.mark.parametrize(("sigma", "epsilon"), [(1, "1.55827"), (2, "0.74079")])
def test_epsilon_of_nine_shares(sigma: int, epsilon: str) -> None:
    """privacy.md 4.2: orders 2 to 511, delta 1e-6, sensitivity 1."""
    noisy = scalar(9, Fraction(sigma**2))
    assert epsilon_of({order: noisy.rdp(order) for order in range(2, 512)}, 1e-6)[0] == written(epsilon)


def test_from_two_units_on_the_sum_is_as_good_as_continuous_noise() -> None:
    noisy = scalar(9, Fraction(4))
    assert noisy.rdp(10.0) == pytest.approx(10 / (2 * 9 * 4), rel=1e-13)


@pytest.mark.parametrize(
    ("sites", "sigma", "sensitivity"),
    [(2, 0.5, 1), (9, 0.5, 1), (9, 0.5, 3), (3, 0.75, 2), (9, 0.75, 1), (9, 1.0, 2), (2, 1.0, 5)],
)
def test_the_bound_covers_the_divergence_of_the_sum_itself(
    sites: int, sigma: float, sensitivity: int
) -> None:
    """Both laws are computed by convolution; the tails that are cut off at 40 units weigh nothing."""
    noisy = scalar(sites, Fraction(sigma) ** 2, sensitivity)
    p = law(sites, sigma)[sensitivity:]
    q = law(sites, sigma)[:-sensitivity]
    both = (p > 1e-250) & (q > 1e-250)
    for order in (1.1, 1.5, 2.0, 4.0, 8.0):
        log_terms = order * np.log(p[both]) - (order - 1) * np.log(q[both])
        divergence = float(np.logaddexp.reduce(log_terms)) / (order - 1)
        assert divergence <= noisy.rdp(order)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 50), st.floats(0.5, 6.0), st.integers(1, 2000), st.integers(1, 100), st.floats(1.01, 100.0)
)
def test_the_bound_is_the_least_of_the_three_of_the_paper(
    sites: int, sigma: float, dimensions: int, l1: int, order: float
) -> None:
    noisy = NoisySum(sites, Fraction(sigma) ** 2, dimensions, l1, l1)
    t = 10 * sum(np.exp(-2 * pi**2 * sigma**2 * j / (j + 1)) for j in range(1, sites))
    scale = sqrt(sites) * sigma
    assert noisy.rdp(order) == pytest.approx(
        min(
            order * l1 / (2 * scale**2) + t * dimensions,
            order / 2 * (l1 / scale**2 + 2 * t * l1 / scale + t**2 * dimensions),
            order / 2 * (sqrt(l1) / scale + t * sqrt(dimensions)) ** 2,
        ),
        rel=1e-9,
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 50), st.integers(16, 5_000_000), st.integers(1, 1000), st.integers(1, 5000))
def test_rho_is_that_of_continuous_noise_and_never_less(
    sites: int, variance: int, dimensions: int, l1: int
) -> None:
    noisy = NoisySum(sites, Fraction(variance), dimensions, l1, l1)
    continuous = Fraction(l1, 2 * sites * variance)
    assert noisy.rho() > continuous if sites > 1 else noisy.rho() == continuous
    assert noisy.rho() - continuous < Fraction(1, 10**50)
    assert nano_up(noisy.rho()) - nano_up(continuous) in (0, 1)
    for order in (2.0, 64.0):
        assert noisy.rdp(order) <= order * float(noisy.rho()) * (1 + 1e-12)


def test_a_grid_too_coarse_for_its_noise_is_refused() -> None:
    """Acceptance check 10: at s = 1 and d = 1000, tau d is 0.54; s = 4 is accepted."""
    assert tau(9, 1.0) * 1000 == written("0.54")
    coarse, fine = (NoisySum(9, Fraction(s * s), 1000, 1000, 1000) for s in (1, LEAST_SIGMA))
    with pytest.raises(
        ConfigurationError, match="standard deviation of 1 units of the grid, expected at least 4"
    ):
        coarse.rho()
    assert float(fine.rho()) == pytest.approx(1000 / (2 * 9 * 16), rel=1e-15)
    with pytest.raises(ConfigurationError):
        scalar(9, Fraction(16) - Fraction(1, 10**9)).rho()


@pytest.mark.parametrize(
    "bad", [(0, 16, 1, 1, 1), (9, 0, 1, 1, 1), (9, 16, 0, 1, 1), (9, 16, 1, 0, 1), (9, 16, 1, 1, 0)]
)
def test_numbers_outside_the_theorem_are_refused(bad: tuple[int, int, int, int, int]) -> None:
    sites, variance, dimensions, l1, squared_l2 = bad
    with pytest.raises(ValueError, match="at least"):
        NoisySum(sites, Fraction(variance), dimensions, l1, squared_l2)
