"""The Renyi curve of the sampled Gaussian: known answers, its own integral, and the shape such a curve has."""

from itertools import pairwise
from math import fsum, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy.subsampled import ORDERS, epsilon_of, rdp
from tests.study.privacy.written import written

# privacy.md 3.4: q, sigma, T, delta; RDP by opacus 1.6.0 where the table has it, and by dp_accounting 0.6.0; PLD
TRAINING = [
    (0.01, 1.1, 1000, 1e-5, "1.71177009", "1.71177", 1.51537),
    (0.01, 1.1, 2000, 1e-5, None, "2.380935", 2.159739),
    (0.01, 1.1, 5000, 1e-5, "3.84705892", "3.847059", 3.527251),
    (0.01, 1.1, 10000, 1e-5, "5.63199237", "5.632011", 5.19262),
    (0.01, 4.0, 1000, 1e-5, None, "0.3011612", 0.2721729),
    (0.01, 4.0, 10000, 1e-5, "1.03549", "1.03549", 0.9469993),
    (256 / 60000, 1.1, 14062, 1e-5, "2.59655587", "2.596556", 2.381686),
    (0.1, 2.0, 100, 1e-6, None, "2.914174", 2.675036),
    (0.1, 2.0, 1000, 1e-6, None, "9.823879", 9.181994),
]
# privacy.md 3.2, column RDP: epsilon at delta 1e-5 of 1, 10, 100 and 1000 releases without sampling
UNSAMPLED = {
    1.0: ("4.7285071", "19.053598", "96.116308", "654.86126"),
    2.0: ("2.1657157", "8.0794062", "35.081754", "198.53553"),
    5.0: ("0.79452203", "2.8136532", "10.72551", "48.801693"),
    10.0: ("0.37529122", "1.3084973", "4.7285071", "19.053598"),
    50.0: ("0.070204816", "0.22881802"),
    100.0: ("0.032289034", "0.10860482"),
}

rates = st.floats(1e-4, 0.99)
multipliers = st.floats(0.3, 10.0)


def claimed(rate: float, multiplier: float, steps: int, delta: float) -> float:
    return epsilon_of({order: steps * rdp(rate, multiplier, order) for order in ORDERS}, delta)[0]


def integral(rate: float, multiplier: float, order: float) -> float:
    """Return the divergence from its definition, by the trapezoidal rule, which is exact to the last digits here.

    The integrand is analytic in a strip of half-width pi sigma^2 and falls like a Gaussian on both sides of [0, a].
    """
    z = np.linspace(-14 * multiplier, order + 14 * multiplier, 20_001)
    tilt = np.logaddexp(np.log1p(-rate), log(rate) + (2 * z - 1) / (2 * multiplier**2))
    log_terms = order * tilt - z**2 / (2 * multiplier**2)
    largest, step = float(np.max(log_terms)), (order + 28 * multiplier) / 20_000
    total = fsum(np.exp(log_terms - largest)) * step / (multiplier * sqrt(2 * pi))
    return (largest + log(total)) / (order - 1)


@pytest.mark.parametrize(("rate", "multiplier", "steps", "delta", "opacus", "google", "pld"), TRAINING)
def test_epsilon_of_the_table(
    rate: float, multiplier: float, steps: int, delta: float, opacus: str | None, google: str, pld: float
) -> None:
    """Equal to opacus to its last digit. dp_accounting is a little above at fractional orders: see the next test."""
    epsilon = claimed(rate, multiplier, steps, delta)
    if opacus is not None:
        assert epsilon == written(opacus)
    assert pld < epsilon <= float(google) + 1e-6
    assert epsilon == pytest.approx(float(google), rel=3e-4)


@pytest.mark.parametrize(
    ("rate", "multiplier", "order"), [(0.1, 2.0, 3.7), (0.01, 1.1, 4.7), (0.01, 1.1, 9.6)]
)
def test_at_the_orders_of_the_table_the_series_is_the_integral(
    rate: float, multiplier: float, order: float
) -> None:
    """dp_accounting 0.6.0 adds the absolute values of the alternating terms: 0.0055071 at 3.7, in truth 0.0055041."""
    assert rdp(rate, multiplier, order) == pytest.approx(integral(rate, multiplier, order), rel=1e-10)


@pytest.mark.parametrize("sigma", UNSAMPLED)
def test_epsilon_without_sampling(sigma: float) -> None:
    for k, epsilon in zip((1, 10, 100, 1000), UNSAMPLED[sigma], strict=False):
        assert claimed(1.0, sigma, k, 1e-5) == written(epsilon)
    assert claimed(1.0, 10.0, 100, 1e-6) == written("5.22154")


@settings(max_examples=60, deadline=None)
@given(rates, multipliers, st.floats(1.1, 40.0))
def test_every_order_is_the_integral(rate: float, multiplier: float, order: float) -> None:
    """The series ends on a positive term, so it is not below; the lower the order the slower it falls."""
    off = (rdp(rate, multiplier, order) - integral(rate, multiplier, order)) * (order - 1)  # in ln A
    digits = 1e-14 * (1 + order**2 / multiplier**2)  # those of the numbers that are added up to ln A
    assert -digits <= off <= (1e-10 if order < 2 else 1e-12) + digits


@settings(max_examples=60, deadline=None)
@given(rates, multipliers, st.integers(2, 64))
def test_every_whole_order_is_the_integral(rate: float, multiplier: float, order: int) -> None:
    assert rdp(rate, multiplier, order) == pytest.approx(
        integral(rate, multiplier, order), rel=1e-10, abs=1e-12
    )


@settings(max_examples=30, deadline=None)
@given(rates, multipliers)
def test_the_curve_rises_with_the_order_and_stays_below_no_sampling(rate: float, multiplier: float) -> None:
    curve = [rdp(rate, multiplier, order) for order in ORDERS]
    assert all(low <= high * (1 + 1e-9) + 1e-9 for low, high in pairwise(curve))
    assert all(
        value <= rdp(1.0, multiplier, order) * (1 + 1e-9) for value, order in zip(curve, ORDERS, strict=True)
    )


def test_a_tiny_rate_keeps_its_digits() -> None:
    """To first order A - 1 is a (a - 1) / 2 q^2 (exp(1 / sigma^2) - 1): here 1e-18, lost in a sum that starts at 1."""
    expected = 10 / 2 * 1e-20 * np.expm1(1.0)
    assert rdp(1e-10, 1.0, 10.0) == pytest.approx(float(expected), rel=1e-8)
    assert rdp(1e-10, 1.0, 9.5) >= 0.0


@pytest.mark.parametrize("order", [1.999999999999993, 2.000000000000001, 9.999999999999998])
def test_an_order_a_hair_beside_a_whole_one_has_its_value(order: float) -> None:
    assert rdp(0.5, 1.0, order) == pytest.approx(rdp(0.5, 1.0, float(round(order))), rel=1e-12)


def test_little_noise_and_a_high_order_do_not_overflow() -> None:
    assert rdp(0.5, 0.1, 1024.0) == pytest.approx(1024 / (2 * 0.1**2) - 1024 / 1023 * log(2), rel=1e-12)
    assert rdp(0.5, 0.1, 10.5) == pytest.approx(10.5 / (2 * 0.1**2) - 10.5 / 9.5 * log(2), rel=1e-9)


def test_the_orders_are_those_of_the_tables() -> None:
    assert len(ORDERS) == 156
    assert (ORDERS[0], ORDERS[98], ORDERS[99], ORDERS[-1]) == (1.1, 10.9, 11.0, 1024.0)


def test_epsilon_names_its_order_and_is_never_negative() -> None:
    epsilon, order = epsilon_of({order: 1000 * rdp(0.01, 1.1, order) for order in ORDERS}, 1e-5)
    assert epsilon == written("1.71177009")
    assert order == 9.6
    assert epsilon_of({2.0: 1e-9}, 0.4)[0] == 0.0
