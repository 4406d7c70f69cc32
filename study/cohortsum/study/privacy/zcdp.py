"""Zero-concentrated privacy: what the ledger adds up, and what it is worth as epsilon and delta.

A mechanism is rho-zCDP where its Renyi divergence of every order a > 1 is at most a rho (Bun and Steinke 2016). The rho of
several releases add up. What they are worth together (Canonne, Kamath and Steinke 2020, proposition 12):

    epsilon = inf over a > 1 of  a rho + ln((a - 1) / a) - (ln delta + ln a) / (a - 1)

The derivative by a is rho + ln(delta a) / (a - 1)^2. It is 0 at one a only, where rho (a - 1)^2 + ln a reaches
ln(1/delta), and since every a gives a valid bound, the digits of that a do not matter to the claim.

Ledgers hold integers of nano-rho: a charge is rounded up and a budget down, so nothing is ever spent twice or refused for
the last digit of a float.
"""

from bisect import bisect_right
from fractions import Fraction
from math import ceil, log, log1p, sqrt

from cohortsum.protocol.noise import NANO as NANO
from cohortsum.study.privacy.gaussian import first_true

MOST = 2**62
"""Nano-rho beyond any budget: an epsilon above 4e9."""


def epsilon_of(rho: float | Fraction, delta: float) -> float:
    """Return the smallest epsilon that ``rho``, at least 0, is worth at ``delta``, in (0, 1)."""
    rho, tail = float(rho), -log(delta)
    if rho == 0:
        return 0.0
    above = first_true(lambda above: rho * above**2 + log1p(above) >= tail, 0.0, sqrt(tail / rho))  # a - 1
    return max(0.0, (1 + above) * rho + log(above) - log1p(above) + (tail - log1p(above)) / above)


def rho_of(epsilon: float, delta: float) -> Fraction:
    """Return the budget for ``epsilon``, at least 0, and ``delta``, in (0, 1): whole nano-rho, worth no more than them."""
    within = bisect_right(range(MOST), epsilon, key=lambda nano: epsilon_of(nano / NANO, delta))
    return Fraction(within - 1, NANO)


def nano_up(rho: Fraction) -> int:
    """Return the charge for ``rho``: the least whole number of nano-rho that is not below it."""
    return ceil(rho * NANO)
