"""The interval of a share of people.

Wilson's score interval (Wilson 1927): the shares that a normal test at 5 % would not reject. Of x among n, with p = x / n
and z the 97.5 % point of the normal law:

    (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

It stays within 0 and 1, and keeps its coverage where x is 0, n or small (Brown, Cai and DasGupta 2001).
"""

from math import sqrt

from cohortsum.study.statistics.distributions import normal_quantile

COVERAGE = 0.95


def wilson(count: int, n: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of ``count`` among ``n``, n at least 1."""
    z = normal_quantile(0.5 + COVERAGE / 2)
    p, weight = count / n, z * z / n
    middle = (p + weight / 2) / (1 + weight)
    reach = z * sqrt(p * (1 - p) / n + weight / (4 * n)) / (1 + weight)
    low = 0.0 if count == 0 else max(0.0, middle - reach)
    high = 1.0 if count == n else min(1.0, middle + reach)
    return low, high
