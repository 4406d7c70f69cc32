"""Where a quantile lies, from counts of people in bins, and how far off it can be.

The quantile of n sorted values x(1) to x(n) at probability p is the one of numpy, R (type 7) and Excel (Hyndman and Fan 1996):
with h = (n - 1) p, j the whole part of h and f the rest,

    q = (1 - f) x(j + 1) + f x(j + 2)

Counts say in which bin the person of each rank is, not where inside. The estimate puts the c people of a bin at the middles of
c equal parts of it, so that each of the two persons is at most one width of her own bin from where she is put, and

    |estimate - q| <= (1 - f) w(j + 1) + f w(j + 2)

with w the widths of their bins: the width of the bin where both are in one, and never the empty bins between them. Ties and
values at the ends change nothing, since a person is in one bin and a bin is a closed interval for this bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the person of one rank is put: the middle of her part of an interval."""

    value: float
    width: float


def ranks(n: int, probability: float) -> tuple[tuple[int, float], ...]:
    """Return the one or two ranks, from 1, that a quantile of ``n`` people weighs, and their weights.

    The probability is meant as it is written in decimals: of 11 people, 0.1 is the second and nobody else.
    """
    h = (n - 1) * Fraction(repr(probability))
    below, rest = int(h), h - int(h)
    return ((below + 1, float(1 - rest)), (below + 2, float(rest))) if rest else ((below + 1, 1.0),)


def bin_of(counts: Sequence[int], rank: int) -> tuple[int, int]:
    """Return the bin that holds the person of ``rank``, and that rank within it; ``rank`` is 1 to the sum of counts."""
    left = rank
    for place, count in enumerate(counts):
        if left <= count:
            return place, left
        left -= count
    raise ValueError("the rank is greater than the number of people")


def spot(low: float, high: float, count: int, rank: int) -> Spot:
    """Return where the person of ``rank`` among the ``count`` people of an interval is put."""
    return Spot(low + (high - low) * ((2 * rank - 1) / (2 * count)), high - low)
