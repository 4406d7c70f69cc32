"""A site's location and scale on each outcome, drawn towards what is common to its outcomes.

With z of n people standardised, gamma_hat their mean and delta_hat their variance (n - 1), the priors of one site are
moments over its outcomes: gamma is normal about gamma_bar with variance t2, delta inverse gamma with parameters a and b.
The posterior means solve

    gamma* = (n t2 gamma_hat + delta* gamma_bar) / (n t2 + delta*)
    delta* = (b + 1/2 sum (z - gamma*)^2) / (n / 2 + a - 1),    sum (z - gamma*)^2 = (n - 1) delta_hat + n (gamma_hat - gamma*)^2

by iteration (Johnson, Li and Rabinovic 2007). It starts and stops as the reference programs do (sva, neuroCombat): from
the moments, and when no value grew by more than `STEP` of itself, so that results agree with theirs. The change is
divided by the value with its sign, as there.
"""

import numpy as np
from numpy.typing import NDArray

STEP = 1e-4
MOST_STEPS = 1000

Floats = NDArray[np.float64]


def posterior(people: Floats, gamma_hat: Floats, delta_hat: Floats) -> tuple[Floats, Floats] | None:
    """Return gamma* and delta* of one site's outcomes, or None where its outcomes do not tell the priors.

    Args:
        people: (outcomes,) n, at least 2 each.
        gamma_hat: (outcomes,) means.
        delta_hat: (outcomes,) variances, all greater than 0.
    """
    if len(people) < 2:
        return None
    gamma_bar, t2 = gamma_hat.mean(), gamma_hat.var(ddof=1)
    mean, spread = delta_hat.mean(), delta_hat.var(ddof=1)
    if spread <= 0.0:
        return None
    a, b = (2 * spread + mean**2) / spread, (mean * spread + mean**3) / spread
    gamma, delta = gamma_hat, delta_hat
    for _ in range(MOST_STEPS):
        next_gamma = (t2 * people * gamma_hat + delta * gamma_bar) / (t2 * people + delta)
        squares = (people - 1) * delta_hat + people * (gamma_hat - next_gamma) ** 2
        next_delta = (0.5 * squares + b) / (people / 2 + a - 1)
        grown = max(_growth(gamma, next_gamma), _growth(delta, next_delta))
        gamma, delta = next_gamma, next_delta
        if grown <= STEP:
            return gamma, delta
    return None


def posterior_means(gamma_hat: Floats) -> Floats | None:
    """Return gamma* where variances are left alone: the reference programs take n = 1 and delta = 1 then."""
    if len(gamma_hat) < 2:
        return None
    gamma_bar, t2 = gamma_hat.mean(), gamma_hat.var(ddof=1)
    means: Floats = (t2 * gamma_hat + gamma_bar) / (t2 + 1.0)
    return means


def _growth(old: Floats, new: Floats) -> float:
    """Return the greatest change relative to the old values, signs included; a value of 0 has none."""
    known = old != 0.0
    return float(np.max(np.abs(new[known] - old[known]) / old[known], initial=-np.inf))
