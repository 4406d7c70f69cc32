"""Discrete Gaussian and Laplace values one at a time: CKS20 read off the paper, on Python integers of any size.

An oracle for tests, made to be compared with the page and sharing no code with the product: Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy", NeurIPS 2020, algorithms 1 to 3. Every random choice is a call of
`secrets.randbelow`. It takes any rational variance and some 70 microseconds per value.
"""

from fractions import Fraction
from math import isqrt
from secrets import randbelow


def bernoulli(chance: Fraction) -> bool:
    """True with probability ``chance``, from 0 to 1."""
    return randbelow(chance.denominator) < chance.numerator


def bernoulli_exp(gamma: Fraction) -> bool:
    """Algorithm 1: true with probability exp(-gamma), gamma >= 0."""
    if gamma <= 1:
        k = 1
        while bernoulli(gamma / k):
            k += 1
        return k % 2 == 1
    for _ in range(gamma.numerator // gamma.denominator):
        if not bernoulli_exp(Fraction(1)):
            return False
    return bernoulli_exp(gamma - gamma.numerator // gamma.denominator)


def discrete_laplace(t: int, s: int = 1) -> int:
    """Algorithm 2: P(x) proportional to exp(-|x| s / t)."""
    while True:
        u = randbelow(t)
        if not bernoulli_exp(Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(Fraction(1)):
            v += 1
        y = (u + t * v) // s
        negative = randbelow(2) == 1
        if negative and y == 0:
            continue
        return -y if negative else y


def discrete_gaussian(variance: Fraction) -> int:
    """Algorithm 3: P(x) proportional to exp(-x^2 / (2 variance)), any positive variance."""
    t = isqrt(variance.numerator // variance.denominator) + 1  # floor(sigma) + 1
    while True:
        y = discrete_laplace(t)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance)):
            return y
