"""The exact Gaussian curve: known answers, its inverses, and composition without loss."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy.gaussian import compose, delta_of, epsilon_of, log_delta_of, sigma_of
from tests.study.privacy.written import written

# privacy.md 3.1, made with dp_accounting 0.6.0: sigma at sensitivity 1 for delta 1e-5, 1e-6 and 1e-10
SIGMAS = {
    0.1: ("30.74956613", "36.30469043", "54.20629584"),
    0.5: ("7.031826676", "8.057618481", "11.43624000"),
    1.0: ("3.730631635", "4.224678889", "5.867777750"),
    2.0: ("1.993812446", "2.230476271", "3.025793544"),
    4.0: ("1.081161850", "1.193518587", "1.575316029"),
    8.0: ("0.6002290722", "0.6529353844", "0.8339892295"),
    10.0: ("0.4998886197", "0.5410868318", "0.6830439672"),
    20.0: ("0.2900414180", "0.3090846812", "0.3751454262"),
}
# privacy.md 3.2, column exact: epsilon at delta 1e-5 of 1, 10, 100 and 1000 releases with this sigma
COMPOSED = {
    1.0: ("4.3771781", "17.856587", "91.81729", "633.92985"),
    2.0: ("1.9930914", "7.5112759", "33.103732", "191.5492"),
    5.0: ("0.72552175", "2.5943834", "9.9972561", "46.21121"),
    10.0: ("0.34066936", "1.1993696", "4.3771781", "17.856587"),
    50.0: ("0.058632255", "0.20680463", "0.72552175", "2.5943834"),
    100.0: ("0.02721942", "0.096979111", "0.34066936", "1.1993696"),
}

epsilons = st.floats(1e-3, 50.0)
deltas = st.floats(1e-12, 0.1)
mus = st.floats(1e-3, 20.0)


def classical(epsilon: float, delta: float) -> float:
    """Return the sigma of the textbook, proven for epsilon below 1 only."""
    return sqrt(2 * log(1.25 / delta)) / epsilon


@pytest.mark.parametrize("epsilon", SIGMAS)
def test_sigma_of_the_table(epsilon: float) -> None:
    for delta, sigma in zip((1e-5, 1e-6, 1e-10), SIGMAS[epsilon], strict=True):
        assert sigma_of(epsilon, delta) == written(sigma)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (1.0, 1e-6, "4.2246788893"),  # acceptance check 1
        (10.0, 1e-5, "0.4998886197"),  # acceptance check 1
        (3.0, 1e-6, "1.5438614178"),  # the document goes on with ...774: dp_accounting stops at 1e-12
        (5.0, 1e-6, "0.980049000309"),
        (1.0, 1e-9, "5.495266157"),
        (0.001, 1e-9, "4122.6297"),
    ],
)
def test_sigma_of_single_known_answers(epsilon: float, delta: float, sigma: str) -> None:
    assert sigma_of(epsilon, delta) == written(sigma)


def test_the_textbook_sigma_is_not_used() -> None:
    """Acceptance check 1: 5.2988 and 0.48448 fail, the first too much noise and the second too little."""
    assert classical(1.0, 1e-6) == written("5.2988")
    assert delta_of(1.0, 1 / classical(1.0, 1e-6)) < 1e-8
    assert classical(10.0, 1e-5) == written("0.48448")
    assert delta_of(10.0, 1 / classical(10.0, 1e-5)) == written("2.27e-5")  # rule 1, with 1e-5 asked for
    assert delta_of(20.0, 1 / classical(20.0, 1e-5)) == written("1.5e-3")


@pytest.mark.parametrize(
    ("delta", "crossover"), [(1e-4, "7.99"), (1e-5, "8.42"), (1e-6, "8.78"), (1e-10, "9.85")]
)
def test_the_textbook_sigma_becomes_too_small_where_the_document_says(delta: float, crossover: str) -> None:
    epsilon = float(crossover)
    assert classical(epsilon - 0.006, delta) > sigma_of(epsilon - 0.006, delta)
    assert classical(epsilon + 0.006, delta) < sigma_of(epsilon + 0.006, delta)


@pytest.mark.parametrize("sigma", COMPOSED)
def test_epsilon_of_k_equal_releases_in_the_table(sigma: float) -> None:
    for k, epsilon in zip((1, 10, 100, 1000), COMPOSED[sigma], strict=True):
        assert epsilon_of(compose([sigma] * k), 1e-5) == written(epsilon)


def test_epsilon_of_unequal_releases() -> None:
    mu = compose([5 / 1, 10 / 2, 20 / 3])  # sigma / Delta
    assert mu == written("0.3201562119")
    assert epsilon_of(mu, 1e-6) == written("1.3859992313")
    assert mu**2 / 2 == pytest.approx(0.05125, rel=1e-15)  # the rho of the ledger


def test_epsilon_of_a_hundred_releases_and_of_the_same_under_replace_one() -> None:
    mu = compose([10.0] * 100)
    assert epsilon_of(mu, 1e-6) == written("4.886554117")
    assert epsilon_of(2 * mu, 1e-6) == written("10.9972")  # the sensitivity of a centred sum doubles


@pytest.mark.parametrize(("k", "multiplier"), [(10, "13.3596"), (100, "42.2468"), (1000, "133.5961")])
def test_multiplier_of_k_releases_that_share_a_budget(k: int, multiplier: str) -> None:
    assert sigma_of(1.0, 1e-6) * sqrt(k) == written(multiplier)


@pytest.mark.parametrize(
    ("shares", "epsilon"), [(1, "1.00"), (3, "1.81"), (5, "2.40"), (6, "2.65"), (7, "2.89"), (9, "3.32")]
)
def test_epsilon_behind_one_of_the_shares_of_the_noise(shares: int, epsilon: str) -> None:
    """privacy.md 5: what a site's own share alone gives its participants, where all shares together give 1."""
    assert epsilon_of(sqrt(shares) / sigma_of(1.0, 1e-6), 1e-6) == written(epsilon)


def test_delta_of_equals_its_integral() -> None:
    """The derivative of delta by mu is phi(epsilon/mu - mu/2): an independent way to the same number, all of one sign."""
    for epsilon, mu in [(0.1, 0.05), (1.0, 0.3), (3.0, 2.0), (30.0, 6.0), (0.0, 0.5)]:
        # by the midpoint rule in ln m, down to a billionth of mu
        step = 1e-4
        m = mu * np.exp(-step * (np.arange(210_000) + 0.5))
        density = np.exp(-((epsilon / m - m / 2) ** 2) / 2) / sqrt(2 * np.pi)
        assert delta_of(epsilon, mu) == pytest.approx(float(np.sum(density * m)) * step, rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(epsilons, deltas)
def test_sigma_and_epsilon_and_delta_are_inverses(epsilon: float, delta: float) -> None:
    mu = 1 / sigma_of(epsilon, delta)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-11)
    assert delta_of(epsilon, mu) == pytest.approx(delta, rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(mus, deltas, st.floats(1.0, 3.0))
def test_less_noise_or_less_delta_means_more_epsilon(mu: float, delta: float, factor: float) -> None:
    epsilon = epsilon_of(mu, delta)
    # where the factor is a hair above 1 the two are equal up to the last digits
    assert epsilon_of(mu * factor, delta) >= epsilon * (1 - 1e-12)
    assert epsilon_of(mu, delta / factor) >= epsilon * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=30))
def test_the_order_of_releases_changes_no_digit(multipliers: list[float]) -> None:
    assert compose(multipliers) == compose(multipliers[::-1]) == compose(sorted(multipliers))


def test_the_far_tail_keeps_its_digits() -> None:
    """Mills' ratio: Phi(-x) is phi(x)/x (1 - x^-2 + 3 x^-4 - ...), so delta is phi(u) mu / (u (u + mu)) to first order."""
    epsilon, mu = 200.0, 1.0
    u = epsilon / mu - mu / 2
    first = -u * u / 2 - log(sqrt(2 * np.pi)) + log(1 / u - 1 / (u + mu))
    assert log_delta_of(epsilon, mu) == pytest.approx(first, abs=2e-4)
    assert delta_of(epsilon, mu) == 0.0  # too small for a float, and no error


def test_noise_that_hides_everything_has_no_epsilon() -> None:
    assert epsilon_of(1e-6, 1e-3) == 0.0
    assert delta_of(0.0, 1e-17) == pytest.approx(0.0, abs=1e-16)


def test_hardly_any_noise_has_a_finite_epsilon() -> None:
    assert epsilon_of(1e4, 1e-6) == pytest.approx(5e7 + 1e4 * 4.7534, rel=1e-7)
    assert delta_of(1.0, 1e4) == 1.0
