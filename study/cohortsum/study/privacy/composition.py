"""What mechanisms with an epsilon and a delta of their own come to together, whatever else is known of them.

They add up (basic composition). For small epsilon the sum is far from what can happen: privacy losses of both signs cancel.
For a further delta' an epsilon that grows with the root of the number of mechanisms holds. Two such bounds, for epsilons e_i:

    DRV10   e sqrt(2 k ln(1/delta')) + k e (exp(e) - 1)                     (k equal mechanisms)
    KOV15   sum e_i tanh(e_i / 2) + sqrt(2 sum e_i^2  L)
            L = ln(1/delta')  or  ln(exp(1) + sqrt(sum e_i^2) / delta'), whichever is less

The linear term is the mean loss. A bound without it is wrong: 1000 Laplace releases of 0.1 would come to 16.62 at
delta' = 1e-6, and in truth come to 18.95.

Sources: Dwork, Rothblum and Vadhan 2010, theorem III.3; Kairouz, Oh and Viswanath 2015, theorem 3.5, whose first term has
e_i (exp(e_i) - 1) / (exp(e_i) + 1) for the hyperbolic tangent.
"""

from collections.abc import Sequence
from math import e, expm1, fsum, log, log1p, sqrt, tanh

Guarantee = tuple[float, float]
"""The epsilon, at least 0, and the delta, in [0, 1), of one mechanism or of several together."""


def basic(parts: Sequence[Guarantee]) -> Guarantee:
    """Return the sums of the epsilons and of the deltas."""
    return fsum(epsilon for epsilon, _ in parts), fsum(delta for _, delta in parts)


def drv10(epsilon: float, k: int, slack: float) -> float:
    """Return the epsilon of ``k`` mechanisms of ``epsilon`` each, delta' the ``slack`` in (0, 1)."""
    return epsilon * sqrt(2 * k * -log(slack)) + k * epsilon * expm1(epsilon)


def kov15(parts: Sequence[Guarantee], slack: float) -> Guarantee:
    """Return epsilon, at most the sum, and delta of ``parts`` together, delta' the ``slack`` in (0, 1).

    Their delta is 1 - (1 - slack) prod(1 - delta_i).
    """
    total = fsum(epsilon for epsilon, _ in parts)
    mean = fsum(epsilon * tanh(epsilon / 2) for epsilon, _ in parts)
    squares = fsum(epsilon**2 for epsilon, _ in parts)
    spread = sqrt(2 * squares * min(-log(slack), log(e + sqrt(squares) / slack)))
    delta = -expm1(log1p(-slack) + fsum(log1p(-delta) for _, delta in parts))
    return min(total, mean + spread), delta


def compose_pure(epsilon: float, k: int, slack: float) -> float:
    """Return the epsilon at delta ``slack``, in (0, 1), of ``k`` mechanisms that have ``epsilon`` and no delta each."""
    return kov15([(epsilon, 0.0)] * k, slack)[0]
