"""Tail areas and quantiles of t, F, chi-square and the normal law, and adjustment for many tests.

A typed door to the functions of scipy.special, which keep full relative precision in the far tails.
"""

from collections.abc import Sequence

import numpy as np

# scipy ships no types; what it returns is converted here and goes no further untyped
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]


def t_two_sided(t: float, df: float) -> float:
    """Return the probability that a t variable with ``df`` degrees of freedom is farther from 0 than ``t``."""
    return float(2.0 * stdtr(df, -abs(t)))


def t_quantile(probability: float, df: float) -> float:
    """Return the value that a t variable with ``df`` degrees of freedom stays below with ``probability``."""
    return float(stdtrit(df, probability))


def f_upper(f: float, df: float, df2: float) -> float:
    """Return the probability that an F variable with ``df`` and ``df2`` degrees of freedom exceeds ``f``."""
    return float(fdtrc(df, df2, f))


def chi2_upper(chi2: float, df: float) -> float:
    """Return the probability that a chi-square variable with ``df`` degrees of freedom exceeds ``chi2``."""
    return float(chdtrc(df, chi2))


def normal_two_sided(z: float) -> float:
    """Return the probability that a standard normal variable is farther from 0 than ``z``."""
    return float(2.0 * ndtr(-abs(z)))


def normal_quantile(probability: float) -> float:
    """Return the value that a standard normal variable stays below with ``probability``."""
    return float(ndtri(probability))


def false_discovery(p: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for the false discovery rate, in the order given.

    Source: Benjamini and Hochberg 1995; as R's ``p.adjust(method = "BH")``.
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values)[::-1]
    ranks = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(values[order] * len(values) / ranks))
    return [float(value) for value in adjusted]
