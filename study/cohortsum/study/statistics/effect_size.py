"""Cohen's d of two groups, from the t of a regression coefficient.

d = t (n1 + n2) / (sqrt(n1 n2) sqrt(df)), with se = sqrt((n1 + n2) / (n1 n2) + d^2 / (2 (n1 + n2 - 2))): the conventions of
ENIGMA's ``mass_uv_regr.R``.
"""

from math import sqrt


def cohens_d(t: float, n1: int, n2: int, df: float) -> tuple[float, float]:
    """Return d and its standard error; both groups have people, together more than 2, and ``df`` is at least 1."""
    d = t * (n1 + n2) / (sqrt(n1 * n2) * sqrt(df))
    return d, sqrt((n1 + n2) / (n1 * n2) + d * d / (2 * (n1 + n2 - 2)))
