"""zCDP: known answers, budgets that are never worth more than they say, charges that are never too small."""

from fractions import Fraction
from math import ceil, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy import gaussian
from cohortsum.study.privacy.zcdp import NANO, epsilon_of, nano_up, rho_of
from tests.study.privacy.written import written

# privacy.md 3.3 at delta 1e-6: rho, epsilon, and the looser rho + 2 sqrt(rho ln 1/delta)
WORTH = [
    (0.001, "0.18289537719", "0.23608"),
    (0.01, "0.62169265456", "0.75338"),
    (0.1, "2.14193892839", "2.45079"),
    (0.5, "5.22153444453", "5.75652"),
    (1.0, "7.76621662531", "8.43384"),
    (2.0, "11.68859624935", "12.51304"),
]

rhos = st.floats(1e-9, 100.0)
deltas = st.floats(1e-12, 0.1)


@pytest.mark.parametrize(("rho", "epsilon", "loose"), WORTH)
def test_epsilon_of_the_table(rho: float, epsilon: str, loose: str) -> None:
    assert epsilon_of(rho, 1e-6) == written(epsilon)
    assert rho + 2 * sqrt(rho * log(1e6)) == written(loose)


@pytest.mark.parametrize(
    ("delta", "rho", "sigma"), [(1e-6, 0.02435597036, 4.530877117), (1e-5, 0.03055659520, 4.045130358)]
)
def test_budget_of_epsilon_one(delta: float, rho: float, sigma: float) -> None:
    """privacy.md 3.3, whose digits go beyond the nano-rho that a budget is rounded down to."""
    budget = float(rho_of(1.0, delta))
    assert rho - 1e-9 < budget <= rho
    assert 1 / sqrt(2 * budget) == pytest.approx(sigma, rel=2e-8)


@pytest.mark.parametrize(
    ("epsilon", "rho", "sigma"),
    [
        (0.5, "0.00664", "8.68"),
        (1.0, "0.02436", "4.53"),
        (2.0, "0.08815", "2.38"),
        (4.0, "0.3111", "1.27"),
        (8.0, "1.052", "0.689"),
        (16.0, "3.350", "0.386"),
    ],
)
def test_budgets_of_the_simulations(epsilon: float, rho: str, sigma: str) -> None:
    """noise.md, delta 1e-6."""
    budget = float(rho_of(epsilon, 1e-6))
    assert budget == written(rho)
    assert 1 / sqrt(2 * budget) == written(sigma)


def test_the_ledger_of_the_defaults() -> None:
    """privacy.md 1: a study's epsilon 1 at 1e-6, a site's epsilon 3 at 1e-5; nine studies fit into a site."""
    study, site = rho_of(1.0, 1e-6), rho_of(3.0, 1e-5)
    assert (study, site) == (Fraction(24_355_970, NANO), Fraction(224_249_168, NANO))
    assert site // study == 9


@settings(max_examples=100, deadline=None)
@given(rhos, deltas)
def test_no_order_gives_less(rho: float, delta: float) -> None:
    """The claim is the least over a fine grid of a - 1, to the second order of its steps, and never above it."""
    above = np.exp(np.linspace(log(1e-6), log(1e12), 20_001))
    bounds = (1 + above) * rho + np.log(above) - np.log1p(above) - (log(delta) + np.log1p(above)) / above
    least = max(0.0, float(np.min(bounds)))
    assert epsilon_of(rho, delta) <= least * (1 + 1e-12)
    assert epsilon_of(rho, delta) == pytest.approx(least, rel=1e-5)


@settings(max_examples=100, deadline=None)
@given(rhos, deltas)
def test_a_claim_is_not_below_the_exact_curve_of_a_mechanism_with_that_rho(rho: float, delta: float) -> None:
    exact = gaussian.epsilon_of(sqrt(2 * rho), delta)
    assert exact * (1 - 1e-9) <= epsilon_of(rho, delta)


@settings(max_examples=200, deadline=None)
@given(rhos, deltas, st.floats(1.0, 3.0))
def test_more_rho_or_less_delta_means_more_epsilon(rho: float, delta: float, factor: float) -> None:
    assert epsilon_of(rho * factor, delta) >= epsilon_of(rho, delta) * (1 - 1e-12)
    assert epsilon_of(rho, delta / factor) >= epsilon_of(rho, delta) * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 100.0), deltas)
def test_a_budget_is_the_largest_that_is_worth_no_more(epsilon: float, delta: float) -> None:
    budget = rho_of(epsilon, delta)
    assert (budget * NANO).denominator == 1
    assert epsilon_of(budget, delta) <= epsilon
    assert epsilon_of(budget + Fraction(1, NANO), delta) > epsilon


@settings(max_examples=200, deadline=None)
@given(st.fractions(min_value=0, max_value=10))
def test_a_charge_covers_what_it_is_for_and_no_more_than_one_nano_rho_beyond(rho: Fraction) -> None:
    assert rho <= Fraction(nano_up(rho), NANO) < rho + Fraction(1, NANO)


def test_the_last_nano_rho_can_be_spent() -> None:
    """opendp#2131, #2789: floats refuse the last cent, as 0.1 + 0.9 > 1 by one digit elsewhere."""
    budget = rho_of(1.0, 1e-6)
    tenths = [nano_up(budget * Fraction(share, 10)) for share in (1, 9)]
    assert sum(tenths) == budget * NANO
    assert nano_up(budget) == ceil(budget * NANO) == 24_355_970


def test_nothing_released_costs_nothing() -> None:
    assert epsilon_of(0, 1e-6) == epsilon_of(Fraction(0), 1e-6) == 0.0
    assert rho_of(0.0, 1e-6) == 0
