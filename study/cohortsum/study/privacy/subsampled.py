"""Renyi curves, and the curve of a Gaussian on a Poisson sample.

In every step each participant is in the sample with probability q, unknown to all, and Gaussian noise of sigma times the
clip norm is added. Under add-or-remove the Renyi divergence of order a is ln A / (a - 1) (Mironov, Talwar and Zhang 2019):

    A = E[((1 - q) + q exp((2 z - 1) / (2 sigma^2)))^a],        z ~ N(0, sigma^2)

and that of all steps is the sum. For a whole a the power is a binomial sum whose weights add up to 1, so that

    A - 1 = sum over i = 2..a of C(a, i) q^i (1 - q)^(a - i) (exp((i^2 - i) / (2 sigma^2)) - 1)

has positive terms only and loses no digit where A is near 1. For other a the power is expanded in the smaller of its two
summands, which change places at z0 = sigma^2 ln(1/q - 1) + 1/2 (section 3.3):

    A = sum over i >= 0 of C(a, i) (q^i (1 - q)^(a - i) exp((i^2 - i) / (2 sigma^2)) Phi((z0 - i) / sigma)
                                  + q^j (1 - q)^i       exp((j^2 - j) / (2 sigma^2)) Phi((j - z0) / sigma)),    j = a - i

From i > a on the terms fall and change sign, so a sum that ends on a positive one is not below A.

A Renyi curve is worth epsilon at delta as `cohortsum.study.privacy.zcdp` has it for curves a rho.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from math import ceil, log, log1p

import numpy as np

# scipy ships no types; what it returns is converted here and goes no further untyped
from scipy.special import gammaln, log_ndtr  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

ORDERS = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *map(float, range(11, 64)),
    128.0,
    256.0,
    512.0,
    1024.0,
)
"""Orders at which curves are added up; those of Google's dp_accounting, so that its numbers can be compared."""
CENTS = 100
LEAST, MOST = 20, 1000 * CENTS
"""Multipliers that are looked for, in hundredths. With less noise no claim is worth making."""
PAIRS = 500
"""Pairs of alternating terms of the series: the last one is below 1e-10 at 1.1, the lowest of the orders, and 1e-13 from 2 on."""

Divergence = Callable[[float, float, float], float]
"""The Renyi divergence of one step, by rate, multiplier and order: `rdp` here, or that of other neighbours."""


def rdp(rate: float, multiplier: float, order: float) -> float:
    """Return the Renyi divergence of ``order`` of one step.

    ``rate`` is in (0, 1], ``multiplier`` is sigma over the clip norm, ``order`` lies above 1. A whole order is right to
    1e-12 relative; for another one A is right to 1e-10 up to order 2 and to 1e-13 above.
    """
    if rate == 1:
        return order / (2 * multiplier**2)
    whole = order == int(order)
    log_a = _whole(rate, multiplier, int(order)) if whole else _between(rate, multiplier, order)
    return log_a / (order - 1)


def epsilon_of(curve: Mapping[float, float], delta: float) -> tuple[float, float]:
    """Return the least epsilon at ``delta``, in (0, 1), of the ``curve`` from order to divergence, and the order it is at."""
    return min(
        (max(divergence + log1p(-1 / order) - log(delta * order) / (order - 1), 0.0), order)
        for order, divergence in curve.items()
    )


def epsilon(rate: float, multiplier: float, steps: int, delta: float, of: Divergence = rdp) -> float:
    """Return what ``steps``, at least 1, are worth together at ``delta``, in (0, 1)."""
    return epsilon_of({order: steps * of(rate, multiplier, order) for order in ORDERS}, delta)[0]


def multiplier_for(rate: float, steps: int, epsilon: float, delta: float, of: Divergence = rdp) -> float:
    """Return the least multiplier, a multiple of 0.01 from 0.2 on, whose steps are worth at most ``epsilon`` at ``delta``.

    Raises:
        ValueError: a multiplier of 1000 is not enough.
    """

    def enough(cents: int) -> bool:
        curve = {order: steps * of(rate, cents / CENTS, order) for order in ORDERS}
        return epsilon_of(curve, delta)[0] <= epsilon

    cents = LEAST + bisect_left(range(LEAST, MOST + 1), True, key=enough)
    if cents > MOST:
        raise ValueError(
            f"noise of {MOST // CENTS} clip norms does not bring {steps} steps at rate {rate:g} down to epsilon {epsilon:g} at "
            f"delta {delta:g}"
        )
    return cents / CENTS


def _whole(rate: float, multiplier: float, order: int) -> float:
    i = np.arange(2, order + 1)
    log_binomial = gammaln(order + 1) - gammaln(i + 1) - gammaln(order - i + 1)
    gain = i * (i - 1) / (2 * multiplier**2)
    log_weight = log_binomial + i * log(rate) + (order - i) * log1p(-rate)
    excess = np.logaddexp.reduce(log_weight + gain + np.log(-np.expm1(-gain)))
    return float(np.logaddexp(0.0, excess))


def _between(rate: float, multiplier: float, order: float) -> float:
    # C(a, i) is positive up to ceil(a), then changes sign: the last i has the sign of i = ceil(a)
    i = np.arange(ceil(order) + 2 * PAIRS + 1)
    j = order - i
    # as a product: where a is a hair beside an integer, gamma functions would stand at their poles
    factors = j[:-1] / (i[:-1] + 1)
    log_binomial = np.concatenate(([0.0], np.cumsum(np.log(np.abs(factors)))))
    sign = np.concatenate(([1.0], np.cumprod(np.sign(factors))))
    split = multiplier**2 * log(1 / rate - 1) + 0.5
    left = (
        i * log(rate)
        + j * log1p(-rate)
        + (i * i - i) / (2 * multiplier**2)
        + log_ndtr((split - i) / multiplier)
    )
    right = (
        j * log(rate)
        + i * log1p(-rate)
        + (j * j - j) / (2 * multiplier**2)
        + log_ndtr((j - split) / multiplier)
    )
    log_term = log_binomial + np.logaddexp(left, right)
    largest = float(np.max(log_term))
    log_a = largest + log(float(np.sum(sign * np.exp(log_term - largest))))
    return max(log_a, 0.0)  # A is at least 1: the mean of a convex function of something with mean 1
