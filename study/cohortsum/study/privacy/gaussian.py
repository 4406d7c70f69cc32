"""The exact privacy of continuous Gaussian noise.

Noise of standard deviation sigma on a query of L2 sensitivity Delta hides a participant as well as N(0, 1) hides from
N(mu, 1), mu = Delta / sigma. The smallest delta at a given epsilon (Balle and Wang 2018, theorem 8):

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

Releases compose without loss, also where later ones are chosen after earlier ones are seen: mu^2 is the sum of the mu_i^2
(Dong, Roth and Su 2019). The classical sigma = Delta sqrt(2 ln(1.25/delta)) / epsilon is not used anywhere: it wastes noise
at small epsilon and gives too little above about 8.

With u = (epsilon/mu - mu/2) / sqrt 2 and w = (epsilon/mu + mu/2) / sqrt 2, so that w^2 = u^2 + epsilon,

    delta(epsilon) = e^(-u^2) (erfcx(u) - erfcx(w)) / 2,        erfcx(x) = e^(x^2) erfc(x)

which has no e^epsilon to overflow and keeps its digits however small delta is.
"""

from collections.abc import Callable, Iterable
from math import erfc, exp, fsum, inf, log, sqrt

# scipy ships no types; what it returns is converted here and goes no further untyped
from scipy.special import erfcx  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]


def compose(multipliers: Iterable[float]) -> float:
    """Return the mu of all releases together, ``multipliers`` their sigma / Delta; in any order the same number."""
    return sqrt(fsum(multiplier**-2 for multiplier in multipliers))


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta at ``epsilon``, at least 0, of noise with ``mu``, above 0."""
    return exp(log_delta_of(epsilon, mu))


def log_delta_of(epsilon: float, mu: float) -> float:
    """Return the logarithm of `delta_of`, also where that is too small for a float."""
    u = (epsilon / mu - mu / 2) / sqrt(2)
    w = (epsilon / mu + mu / 2) / sqrt(2)
    if u < 0:  # erfcx(u) overflows, and delta is not small
        scale, difference = 0.0, erfc(u) - exp(-u * u) * float(erfcx(w))
    else:
        scale, difference = -u * u, float(erfcx(u)) - float(erfcx(w))
    return scale + log(difference / 2) if difference > 0 else -inf


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon at ``delta``, in (0, 1), of noise with ``mu``, above 0.

    Right to 1e-12 relative from mu = 1e-4 on (noise of 10,000 sensitivities), and to 1e-10 down to 1e-6.
    """
    if log_delta_of(0.0, mu) <= log(delta):
        return 0.0
    # delta(epsilon) is at most P(privacy loss > epsilon) = Phi(mu/2 - epsilon/mu), which is at most delta here
    enough = mu * mu / 2 + mu * sqrt(-2 * log(delta))
    return first_true(lambda epsilon: log_delta_of(epsilon, mu) <= log(delta), 0.0, enough)


def sigma_of(epsilon: float, delta: float) -> float:
    """Return the smallest sigma for ``epsilon``, above 0, and ``delta``, in (0, 1), at sensitivity 1.

    Right to 1e-12 relative from epsilon = 1e-3 on, and to 2e-12 down to 1e-4.
    """
    tail = sqrt(-2 * log(delta))
    enough = (sqrt(tail * tail + 2 * epsilon) + tail) / (2 * epsilon)  # 1 / mu of the bound in `epsilon_of`
    return first_true(lambda sigma: log_delta_of(epsilon, 1 / sigma) <= log(delta), 0.0, enough)


def first_true(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least float in (``low``, ``high``] that ``holds``, which is false from ``low`` on and then true to ``high``."""
    while low < (middle := (low + high) / 2) < high:
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
