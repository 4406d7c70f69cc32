"""zCDP against OpenDP, whose maps from noise to privacy are an independent implementation."""

from math import sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.privacy import zcdp
from cohortsum.study.privacy.accountant import epsilon
from cohortsum.study.privacy.events import Laplace, Release

DP: Any = pytest.importorskip(
    "opendp.prelude", reason="opendp is an oracle of the tests only; pip install opendp"
)
DP.enable_features("contrib")


def of_one(mechanism: Any, delta: float) -> float:
    """Return the epsilon at ``delta`` of a mechanism with zCDP at sensitivity 1."""
    return float(DP.c.make_fix_delta(DP.c.make_zCDP_to_approxDP(mechanism), delta).map(1.0)[0])


def floats() -> Any:
    return DP.atom_domain(T=float, nan=False), DP.absolute_distance(T=float)


@pytest.mark.parametrize("rho", [0.001, 0.01, 0.1, 0.5, 1.0, 2.0])
def test_the_table(rho: float) -> None:
    """privacy.md 3.3 says: to 15 digits."""
    noise = DP.m.make_gaussian(*floats(), scale=1 / sqrt(2 * rho))
    assert zcdp.epsilon_of(rho, 1e-6) == pytest.approx(of_one(noise, 1e-6), rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 300.0), st.floats(1e-12, 0.01))
def test_a_gaussian(sigma: float, delta: float) -> None:
    noise = DP.m.make_gaussian(*floats(), scale=sigma)
    assert zcdp.epsilon_of(0.5 / sigma**2, delta) == pytest.approx(of_one(noise, delta), rel=1e-9)


@pytest.mark.parametrize("pure", [0.05, 0.1, 0.3])
def test_laplace_noise_as_zcdp(pure: float) -> None:
    noise = DP.c.make_pureDP_to_zCDP(DP.m.make_laplace(*floats(), scale=1 / pure))
    rho = float(noise.map(1.0))
    assert rho == pytest.approx(pure**2 / 2, rel=1e-12)
    thousand = epsilon([Release("r", Laplace(pure), "replace_one")] * 1000, 1e-6)
    assert thousand.epsilon == pytest.approx(zcdp.epsilon_of(1000 * rho, 1e-6), rel=1e-12)
