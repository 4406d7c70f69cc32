"""Sums over all subsets of a given size: the exact partial likelihood of tied events.

Of a risk set with hazards r and columns x, over all subsets S of d people with weights prod r: the log of the sum of weights, and
mean and covariance of the sum of x over S. The sum of weights is the coefficient of z^d in the product of (1 + r z) over the
risk set. That product is formed as a tree, halves first, cut off at degree d; with every coefficient go the first and second
moments of the sum of x, which for two disjoint halves A and B add up as

    e = e_A e_B        s = s_A e_B + e_A s_B        q = q_A e_B + s_A s_B' + s_B s_A' + e_A q_B

(the recursion of Gail, Lubin and Rubinstein 1981, with derivatives). All terms of e are positive, so nothing cancels in it. The
hazards are scaled so that they add up to d, which keeps coefficients within range; where they still vanish there is no answer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST_TIE = 100
"""Events at one time of one site that the exact likelihood takes."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Subsets:
    """The subsets of one size.

    Attributes:
        log_total: log of the sum of their weights.
        mean: (columns,) float64, of the sum of x over a subset.
        covariance: (columns (columns + 1) / 2,) float64, likewise, upper triangle by rows.
    """

    log_total: float
    mean: Floats
    covariance: Floats


def subsets(hazards: Floats, x: Floats, size: int) -> Subsets | None:
    """Return the subsets of ``size`` people, or None where their weights vanish in floating point.

    Args:
        hazards: (people,) float64, above 0.
        x: (people, columns) float64.
        size: at least 1 and at most the number of people.
    """
    scale = size / hazards.sum()
    first, second = np.triu_indices(x.shape[1])
    r = hazards * scale
    # coefficients by degree; entries: 1, then x, then products of two columns
    weight = np.stack((np.ones(len(r)), r))
    sums = np.stack((np.zeros_like(x), r[:, np.newaxis] * x))
    products = np.stack((np.zeros((len(r), len(first))), r[:, np.newaxis] * x[:, first] * x[:, second]))
    while weight.shape[1] > 1:
        if weight.shape[1] % 2:  # an empty half beside the odd one out
            one = np.zeros((len(weight), 1))
            one[0] = 1.0
            weight = np.concatenate((weight, one), axis=1)
            sums = np.concatenate((sums, np.zeros((len(sums), 1, sums.shape[2]))), axis=1)
            products = np.concatenate((products, np.zeros((len(products), 1, products.shape[2]))), axis=1)
        degree = min(size, 2 * (len(weight) - 1))
        half = weight.shape[1] // 2
        e = np.zeros((degree + 1, half))
        s = np.zeros((degree + 1, half, x.shape[1]))
        q = np.zeros((degree + 1, half, len(first)))
        for i in range(len(weight)):
            for j in range(min(len(weight), degree + 1 - i)):
                e_a, e_b = weight[i, 0::2], weight[j, 1::2]
                s_a, s_b = sums[i, 0::2], sums[j, 1::2]
                w_a, w_b = e_a[:, np.newaxis], e_b[:, np.newaxis]
                e[i + j] += e_a * e_b
                s[i + j] += s_a * w_b + w_a * s_b
                q[i + j] += (
                    products[i, 0::2] * w_b
                    + w_a * products[j, 1::2]
                    + s_a[:, first] * s_b[:, second]
                    + s_a[:, second] * s_b[:, first]
                )
        weight, sums, products = e, s, q
    total = weight[size, 0] if len(weight) > size else 0.0
    if not (np.isfinite(total) and total > np.finfo(np.float64).tiny):
        return None
    mean = sums[size, 0] / total
    covariance = products[size, 0] / total - mean[first] * mean[second]
    return Subsets(float(np.log(total) - size * np.log(scale)), mean, covariance)
