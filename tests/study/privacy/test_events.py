"""Events refuse numbers without a meaning."""

from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

from cohortsum.study.privacy.events import (
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    SampledGaussian,
)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_a_number_that_is_not_finite_and_positive_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="multiplier must be finite and above 0"):
        Gaussian(bad)
    with pytest.raises(ValueError, match="epsilon must be"):
        Laplace(bad)
    with pytest.raises(ValueError, match="epsilon must be"):
        Exponential(bad)
    with pytest.raises(ValueError, match="multiplier must be"):
        SampledGaussian(0.1, bad, 1)


@pytest.mark.parametrize("rho", [Fraction(0), Fraction(-1, 10)])
def test_a_rho_that_is_not_positive_is_refused(rho: Fraction) -> None:
    with pytest.raises(ValueError, match="rho must be"):
        DiscreteGaussian(rho)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0001, float("nan")])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        SampledGaussian(rate, 1.0, 1)


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 step"):
        SampledGaussian(0.1, 1.0, 0)


def test_an_event_cannot_change_after_it_was_charged() -> None:
    event = Gaussian(4.0)
    with pytest.raises(FrozenInstanceError):
        event.multiplier = 8.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
