"""The curve of a Gaussian on a Poisson sample, between neighbours of whom one participant has other values.

In every step each participant is in the sample with probability q, unknown to all, and adds a vector of norm at most 1 (the clip
is the unit); Gaussian noise of standard deviation sigma is added to every coordinate. Replacing one participant's values makes a
vector g another one, g'. With m = 1 / sigma, z in units of sigma and phi the standard normal law, the worst case is the pair

    P = u phi,    Q = w phi,    u(z) = (1 - q) + q exp(m z - m^2 / 2),    w(z) = (1 - q) + q exp(-m z - m^2 / 2)

on the line: g and g' opposite and as long as they may be. Google's dp_accounting has it as AdjacencyType.REPLACE.

**Why no other pair is worse.** What the others in the sample add moves both laws alike, and mixing over their samples raises no
divergence. With the noise alone as N, the hockey-stick divergence of order alpha >= 1 of (1 - q) N + q (N + g) from
(1 - q) N + q (N + g') is q times

    E[1 - b L(-g) - alpha L(g' - g)]+,    b = (alpha - 1)(1 - q) / q,    L(v) = exp((x v - v^2 / 2) / sigma^2),    x from N

(Balle, Barthe and Gaboardi 2018, theorem 2, after a move by g). Both L are lognormal with mean 1 and a spread that |v| alone
decides, |g| <= 1 and |g' - g| <= 2. So the mean is 1 - b - alpha plus that of [X + Y - 1]+, with X = b L(-g), Y = alpha L(g' - g),
and for every c

    E[X + Y - 1]+  <=  E[X - c]+ + E[Y - (1 - c)]+.

The right side depends on the two laws only and grows with either spread. For g = 1, g' = -1 on the line both norms are reached, X and
Y rise together, and the two sides are equal for the c at which X = c where X + Y = 1. So vectors of every dimension reduce to the
line, shorter ones included. (For one vector, and a mixture on one side only, that is corollary 4.7 of Choquette-Choo, Ganesh, Steinke
and Thakurta 2023, which dp_accounting cites.) Orders below 1 follow by exchanging the neighbours: the pair is its own mirror image.

**Why the curves add up.** A pair whose hockey-stick divergences of all orders are greatest has the greatest f-divergence for every
convex f, because those are mixtures of hockey-sticks (Sason and Verdu 2016); Renyi's are functions of such. They add up over steps, also
where later steps are chosen after earlier ones are seen (Mironov 2017, proposition 1).

**The integral.** The Renyi divergence of order a is ln A / (a - 1), where A is the integral of phi u^a w^(1 - a). With r = u / w

    A - 1 = integral of phi w (r^a - 1 - a (r - 1)),

whose integrand is nowhere negative: no digit is lost where A is near 1. The trapezoidal rule of step h is off by at most
2 M / (exp(2 pi t / h) - 1) for an integrand that is analytic within t of the real line and whose modulus has an integral of at most M
along every parallel there (Trefethen and Weideman 2014, theorem 5.1). On z + iy phi grows by exp(y^2 / 2), u does not grow, and w
shrinks to no less than cos(m y / 2) of itself; so for m t up to pi / 2 the error is at most

    2 exp(t^2 / 2) (cos(m t / 2)^(1 - a) A + 2 a) / (exp(2 pi t / h) - 1),

and the step is chosen so that this is below `OMITTED` (A + 2 a). The logarithm of phi u^a w^(1 - a) has slopes between -z and
(2 a - 1) m - z, so what lies beyond `REACH` on either side of [0, (2 a - 1) m] is less than that again. Both are added. The result
is not below the truth, and not above it by more than 2e-10 of it.

**Integers.** The sites' noise is integer, and the sum of it is an integer Gaussian but for what `cohortsum.protocol.noise` bounds.
A sum over integers is the trapezoidal rule with h = 1 / s, s being sigma in units of the grid, coordinate by coordinate. With
t = pi / (2 m) the bound above says that in d dimensions A differs from that of the integer mechanism by a factor of at most
1 + 3 d exp(0.35 a - pi^2 sigma (s - sigma / 8)), sigma in clip norms. From sigma = 0.2 and s = 256 on that is below 1 + d 1e-60 at
every order here: nothing to any digit.
"""

from math import ceil, cos, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.privacy import subsampled

Floats = NDArray[np.float64]

OMITTED = 1e-30
"""What the step, and what the ends of the range, leave out at most, relative to A + 2 a."""
REACH = 13.0
"""In standard deviations; a normal value lies beyond it, or a step nearer, with probability below 1e-34."""
ROUNDING = 1 + 1e-10
"""Covers float64 in a sum of positive terms; what is lost is below 1e-11."""
MOST_POINTS = 2**18
"""Of the trapezoidal rule. Noise so weak that an order needs more is bounded by convexity instead."""
SERIES = 18
"""Terms of the exponential series for arguments up to 1/2; the next one is below 1e-18 of the first."""


def rdp(rate: float, multiplier: float, order: float) -> float:
    """Return the Renyi divergence of ``order`` of one step, rounded up.

    ``rate`` is in (0, 1], ``multiplier`` is sigma over the clip norm, ``order`` lies above 1.
    """
    m = 1 / multiplier
    unsampled = 2 * order * m**2
    if rate == 1:
        return unsampled
    step, points = _grid(m, order)
    if points > MOST_POINTS:
        # A is jointly convex in P and Q: at most (1 - q) + q A of the unsampled step
        log_a = np.logaddexp(log1p(-rate), log(rate) + (order - 1) * unsampled)
    else:
        excess = _log_excess(rate, m, order, step, points)
        omitted = log(2 * OMITTED) + np.logaddexp(np.logaddexp(0.0, excess), log(2 * order))
        log_a = np.logaddexp(0.0, np.logaddexp(excess, omitted))
    return float(log_a) / (order - 1) * ROUNDING


def epsilon(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Return what ``steps``, at least 1, are worth together at ``delta``, in (0, 1)."""
    return subsampled.epsilon(rate, multiplier, steps, delta, rdp)


def multiplier_for(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the least multiplier, a multiple of 0.01 from 0.2 on, whose steps are worth at most ``epsilon`` at ``delta``.

    Raises:
        ValueError: a multiplier of 1000 is not enough.
    """
    return subsampled.multiplier_for(rate, steps, epsilon, delta, rdp)


def _grid(m: float, order: float) -> tuple[float, int]:
    """Return a step that leaves out no more than it may, and how many points reach as far as they must."""
    digits = log(4 / OMITTED)
    away = min(pi / (2 * m), sqrt(2 * digits / (1 + (order - 1) * m**2 / 4)))  # t, close to the best
    growth = away**2 / 2 - (order - 1) * log(cos(m * away / 2))
    step = 2 * pi * away / (digits + growth)
    return step, ceil(((2 * order - 1) * m + REACH) / step)


def _log_excess(rate: float, m: float, order: float, step: float, points: int) -> float:
    """Return ln(A - 1) by the trapezoidal rule, with points at odd multiples of half the step; z and -z are taken together."""
    z = (np.arange(points) + 0.5) * step
    log_phi = -(z**2) / 2 - log(2 * pi) / 2
    log_w = np.log1p(rate * np.expm1(-m * z - m**2 / 2))
    log_difference = log(rate) - m**2 / 2 + m * z + np.log(-np.expm1(-2 * m * z))  # of u - w
    log_r = np.logaddexp(0.0, log_difference - log_w)
    right = log_phi + log_w + _log_gap(order * log_r, order)
    left = log_phi + log_w + log_r + _log_gap(-order * log_r, order)  # u(z) = w(-z), r(-z) = 1 / r(z)
    return log(step) + float(np.logaddexp.reduce(np.concatenate((left, right))))


def _log_gap(power: Floats, order: float) -> Floats:
    """Return ln(r^a - 1 - a (r - 1)), ``power`` being a ln r; the gap between a convex function and its tangent."""
    small = np.clip(power, -0.5, 0.5)
    k = np.arange(2, SERIES + 2)
    weights = -np.expm1(-(k - 1) * log(order)) / np.cumprod(k, dtype=np.float64)  # (1 - a^(1 - k)) / k!
    series = np.polynomial.polynomial.polyval(small, weights)
    near = 2 * np.log(np.abs(small)) + np.log(series)
    above = np.maximum(power, 0.5)
    far = above + np.log(-np.expm1(-above) + order * np.exp(above / order - above) * np.expm1(-above / order))
    below = np.minimum(power, -0.5)
    behind = np.log(np.expm1(below) - order * np.expm1(below / order))
    return np.where(power > 0.5, far, np.where(power < -0.5, behind, near))
