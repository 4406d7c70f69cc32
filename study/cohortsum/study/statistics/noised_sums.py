"""The sums of one site under noise, and how far one person moves them.

A person has x in [-1, 1]^p, the contrast first with -1 and 1 for its two levels, and v, outcomes in public standard deviations with
norm |v| <= C. Who lacks a term is not *counted* and adds nothing. Of the n counted people a site sends T = sum (z - zbar)(z - zbar)',
z = (x, v), save for the products of two outcomes, and one number for the spread of all outcomes together. Neighbours differ in the
record of one person; the people of the site are public, n is not, since a record may lose or gain a term.

Let m be the mean of the others, a = z - m, and b = z' - m for the changed record. Leaving one out,
T = T_others + ((n - 1) / n) a a'. Where the person is counted with both records, T moves by ((n - 1) / n) (a a' - b b'), with one of
them by ((n - 1) / n) a a'. The factor is below 1 and left out.

1. *Entries of xx move by at most 4 each.* a_j a_k - b_j b_k is affine in (m_j, m_k), so its magnitude is greatest where both are -1 or
   1. There a_j and b_j have the sign of -m_j and magnitude at most 2, so both products lie between 0 and 4 m_j m_k. One product alone
   is at most 4. The triangle has p (p + 1) / 2 entries, n moves by 1: together ``sqrt(8 p (p + 1) + 1)``.
2. *A row of xv moves by at most 4 C.* a_x a_v - b_x b_v is affine in m_x, its norm convex, so greatest at m_x = -1 or 1. There
   a_x = -m_x s, b_x = -m_x t with s, t from 0 to 2, and the norm of s a_v - t b_v is convex in (s, t): at the corners 2 |v - v'|, 2 |a_v|,
   2 |b_v| or 0, at most 4 C. One product alone is at most 2 times 2 C. So r rows move by at most ``4 C sqrt(r)``.
3. *The spread moves by at most (1.5 C)^2.* It is the least of sum |v_i - c|^2 over the c with |c| <= C / 2. For every such c one person
   adds from 0 to (1.5 C)^2, so with either record, or without, the least lies between that of the others and (1.5 C)^2 above it.
4. *Arms public:* neighbours agree in x, which is the contrast alone, hence in who is counted, in xbar and in the weight w of the site.
   The row sum w (x_i - xbar) v_i moves by w |x_i - xbar| |v - v'|. |x_i - xbar| is at most 2 max(n0, n1) / n, and w is the lesser of 1
   and g n / max(n0, n1): at most ``4 g C``. xx, its weighted forms and the arms are the same for neighbours.

All of it holds for the numbers as they are in the computer. A person's x and v are made of that person's record by elementwise IEEE
operations, the same whoever else is there, and put on the grid 2**-bits, v toward 0 so that its norm does not grow (save for rounding
in the norm itself, below 2**-40 of it). Products of a person are rounded to the grid, squares down to it: of two people by less than 1.2
units apart, 0.2 of them for float64, as long as C^2 times the number of outcomes stays below 2**(50 - bits). Integers are added
exactly, means taken out in rational arithmetic, and the result is rounded once: for two neighbours less than 2.2 units per number,
and `on_grid` adds 3. Rounding to the grid of the noise, a second time, is counted where that grid is known (`noised`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.interface import State, to_grid

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDED_UNITS = 3.0
ROUNDED_NORM = 1.0 + 2.0**-40
ROOT_BITS = 32
"""How much finer than the grid the norm of a sum is known."""


def design_l2(columns: int) -> float:
    """Return how far one person moves n and the triangle of xx."""
    return sqrt(8 * columns * (columns + 1) + 1)


def rows_l2(radius: float, rows: int) -> float:
    """Return how far one person moves ``rows`` rows of xv."""
    return 4.0 * radius * sqrt(rows)


def public_row_l2(radius: float, cap: float) -> float:
    """Return how far one person moves the weighted row of the contrast, where its levels are public."""
    return 4.0 * cap * radius


def spread_l2(radius: float) -> float:
    """Return how far one person moves the spread."""
    return (1.5 * radius) ** 2


def on_grid(l2: float, touched: int, bits: int) -> float:
    """Return ``l2`` of real numbers as that of the ``touched`` numbers that a site computes on the grid 2**-bits."""
    return l2 * ROUNDED_NORM + ROUNDED_UNITS * 2.0**-bits * sqrt(touched)


def people_sums(x: Floats, v: Floats, radius: float, bits: int) -> State:
    """Return the exact sums of counted people.

    Args:
        x: (columns, people), the contrast first.
        v: (outcomes, people) of norm at most ``radius``, save for rounding.
        radius: C.
        bits: of the grid.

    Returns:
        arms: people at the two levels of the contrast. x (columns,), xx (triangle), v (outcomes,), xv (columns * outcomes,) and
        vv (1,), in units of the grid.
    """
    unit = 2.0**-bits
    x_units, v_units = to_grid(x, bits), np.trunc(v * 2.0**bits).astype(np.int64)
    x, v = x_units.astype(np.float64) * unit, v_units.astype(np.float64) * unit
    first, second = np.triu_indices(len(x))
    squares = np.zeros(x.shape[1])
    for row in v:
        squares += row * row
    return {
        "arms": np.array([np.count_nonzero(x[0] < 0.0), np.count_nonzero(x[0] > 0.0)], np.int64),
        "x": x_units.sum(axis=1),
        "xx": to_grid(x[first] * x[second], bits).sum(axis=1),
        "v": v_units.sum(axis=1),
        "xv": np.concatenate([to_grid(column * v, bits).sum(axis=1) for column in x]),
        "vv": np.floor(np.minimum(squares, radius * radius) * 2.0**bits).astype(np.int64).sum(keepdims=True),
    }


@dataclass(frozen=True, slots=True)
class SiteSums:
    """The exact sums of a site, and what it sends of them: whole units of the grid, each rounded once.

    Attributes:
        state: sums as `people_sums` returns them, over all people of the site.
        bits: of the grid.
    """

    state: State
    bits: int

    @property
    def arms(self) -> tuple[int, int]:
        """People at the two levels of the contrast."""
        return int(self.state["arms"][0]), int(self.state["arms"][1])

    @property
    def counted(self) -> int:
        """People who are counted."""
        return sum(self.arms)

    def design(self) -> Integers:
        """Return n and the triangle of xx about the means."""
        x = _whole(self.state["x"])
        first, second = np.triu_indices(len(x))
        pairs = zip(self.state["xx"], first, second, strict=True)
        triangle = [self._about_means(int(total), x[j], x[k]) for total, j, k in pairs]
        return _rounded([Fraction(self.counted << self.bits), *triangle])

    def rows(self) -> Integers:
        """Return xv about the means, (columns, outcomes)."""
        return _rounded(self._rows()).reshape(len(self.state["x"]), -1)

    def capped_row(self, cap: float) -> Integers:
        """Return the row of the contrast times the site's weight."""
        weight = self._weight(cap)
        return _rounded([weight * value for value in self._rows()[: len(self.state["v"])]])

    def capped_design(self, cap: float) -> Integers:
        """Return xx of the contrast about its mean, times the site's weight, and times its square."""
        first, second = self.arms
        weight = self._weight(cap)
        product = Fraction(4 * first * second << self.bits, max(self.counted, 1))
        return _rounded([weight * product, weight * weight * product])

    def spread(self, radius: float) -> Integers:
        """Return the sum of squares about the mean, or about the point of the ball C / 2 that is next to it, (1,)."""
        total = sum(value * value for value in _whole(self.state["v"]))  # |sum of v|^2, in squared units
        unit, bound = 1 << self.bits, Fraction(radius)
        squares, people = Fraction(int(self.state["vv"][0])), self.counted
        if 4 * total <= (people * bound * unit) ** 2:
            return _rounded([squares - Fraction(total, max(people, 1) * unit)])
        norm = Fraction(isqrt(total << (2 * ROOT_BITS)), 1 << ROOT_BITS)
        return _rounded([squares - bound * norm + people * bound * bound * unit / 4])

    def _rows(self) -> list[Fraction]:
        x, v = _whole(self.state["x"]), _whole(self.state["v"])
        pairs = ((one, other) for one in x for other in v)
        return [
            self._about_means(int(total), one, other)
            for total, (one, other) in zip(self.state["xv"], pairs, strict=True)
        ]

    def _about_means(self, total: int, first: int, second: int) -> Fraction:
        return total - Fraction(first * second, max(self.counted, 1) << self.bits)

    def _weight(self, cap: float) -> Fraction:
        greatest = max(self.arms)
        return Fraction(1) if greatest == 0 else min(Fraction(1), Fraction(cap) * self.counted / greatest)


def _whole(values: NDArray[np.int64] | Floats) -> list[int]:
    return [int(value) for value in values]


def _rounded(values: Sequence[Fraction]) -> Integers:
    """Return each value rounded to nearest, halves up."""
    return np.array([floor(value + Fraction(1, 2)) for value in values], np.int64)
