"""Ranks of percentiles, as numpy defines them (method ``linear``; Hyndman and Fan 1996, definition 7).

With n people the p-th percentile lies at place h = (n - 1) p / 100, counted from 0: between rank floor(h) + 1 and the next, by the
fractional part of h. Ranks are computed in whole numbers; only the weighting of two opened values is in floating point.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Place:
    """Where a percentile lies: between two ranks, ``weight`` of the way from the lower to the upper.

    Both ranks are the same where the weight is 0.
    """

    lower: int
    upper: int
    weight: Fraction

    def between(self, low: float, high: float) -> float:
        """Return the percentile from the values at the two ranks, rounded as numpy rounds it."""
        weight = float(self.weight)
        return high - (high - low) * (1.0 - weight) if weight >= 0.5 else low + (high - low) * weight


def percentile(people: int, percent: Fraction | int) -> Place:
    """Return the place of a percentile from 0 (the minimum) to 100 (the maximum) among ``people``, of whom there is one at least."""
    place = Fraction(people - 1) * Fraction(percent) / 100
    below = place.numerator // place.denominator
    weight = place - below
    return Place(below + 1, below + 1 if weight == 0 else below + 2, weight)


def top_code(people: int, least: int) -> int:
    """Return the rank of the top-code point: the greatest level that ``least`` people reach. Higher values are told as this one.

    It is 1, the minimum, where there are no more people than that.
    """
    return max(1, people - least + 1)


def bottom_code(people: int, least: int) -> int:
    """Return the rank of the bottom-code point: the lowest level that ``least`` people do not exceed."""
    return min(people, least)
