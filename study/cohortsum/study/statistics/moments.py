"""From opened sums of powers to moments of a group, in rational arithmetic.

Sums are over normalised values u, each power rounded to the grid per person. With s_k = (sum u^k) / n and m_k the central
moments:

    m2 = s2 - s1^2        m3 = s3 - 3 s1 s2 + 2 s1^3        m4 = s4 - 4 s1 s3 + 6 s1^2 s2 - 3 s1^4

Skewness and kurtosis are the estimators that are free of bias under the normal law (Fisher 1930; G1 and G2 of Joanes and
Gill 1998), as SAS, SPSS, Excel and ``scipy.stats`` with ``bias=False`` have them; the normal law has kurtosis 0:

    G1 = sqrt(n (n - 1)) / (n - 2) * m3 / m2^(3/2)
    G2 = (n - 1) / ((n - 2) (n - 3)) * ((n + 1) (m4 / m2^2 - 3) + 6)

Per person every power is off by at most h, half a unit of the grid or the last digits of float64. All |u| <= 1, so m2 is
off by at most 3 h, m3 by 8 h and m4 by 20 h; divided by powers of m2 that grows where people sit in a small part of the
public range. `shape` gives no number that rounding could have moved by more than `SHAPE_ERROR`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, sqrt

from cohortsum.study.results import NO_DATA, Absent, Cell
from cohortsum.study.variables import Number

SHAPE_ERROR = 1e-6
"""Greatest error that rounding may make in a skewness or kurtosis that is given; relative for those above 1."""
NO_SPREAD = Absent("no spread")
RANGE_TOO_WIDE = Absent("range too wide")
FLOATING = Fraction(1, 2**51)
"""Bound on what float64 adds to the error of one person's power of u."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and spread of the people of one group.

    Attributes:
        n: people.
        mean: in natural units; 0 where there is nobody.
        squares: sum of squared deviations from the mean, natural units; 0 where rounding could have made it of nothing.
    """

    n: int
    mean: Fraction
    squares: Fraction

    @property
    def variance(self) -> Fraction:
        """The unbiased variance; n is at least 2."""
        return self.squares / (self.n - 1)


def moments(variable: Number, n: int, sums: Sequence[int], fraction_bits: int) -> Moments:
    """Return the moments behind the opened sums of u and u^2 of ``n`` people."""
    if n == 0:
        return Moments(0, Fraction(0), Fraction(0))
    grid = 2**fraction_bits
    su, su2 = (Fraction(int(total), grid) for total in sums)
    half_width = (Fraction(variable.upper) - Fraction(variable.lower)) / 2
    mean = (Fraction(variable.upper) + Fraction(variable.lower)) / 2 + half_width * su / n
    squares = su2 - su * su / n
    # n people, each with u and u^2 off by half a grid unit: at most 3/2 unit each
    resolution = Fraction(3 * n, 2 * grid)
    return Moments(n, mean, Fraction(0) if squares <= resolution else squares * half_width**2)


def shape(n: int, sums: Sequence[int], fraction_bits: int) -> tuple[Cell, Cell]:
    """Return skewness and excess kurtosis behind the opened sums of u, u^2, u^3 and u^4 of ``n`` people.

    Absent: ``no data`` for fewer than 3 and 4 people, ``no spread`` where all values are equal as far as the grid can
    tell, ``range too wide`` where rounding could have moved the number by more than `SHAPE_ERROR`.
    """
    if n < 3:
        return NO_DATA, NO_DATA
    s1, s2, s3, s4 = (Fraction(int(total), n * 2**fraction_bits) for total in sums)
    m2 = s2 - s1**2
    m3 = s3 - 3 * s1 * s2 + 2 * s1**3
    m4 = s4 - 4 * s1 * s3 + 6 * s1**2 * s2 - 3 * s1**4
    h = Fraction(1, 2 ** (fraction_bits + 1)) + FLOATING
    if m2 <= 3 * h:
        return NO_SPREAD, NO_SPREAD
    spread = sqrt(m2)
    skewness = copysign(sqrt(m3**2 / m2**3), m3)
    off = float(8 * h) / spread**3 + 1.5 * abs(skewness) * float(3 * h / m2)
    factor = sqrt(n * (n - 1)) / (n - 2)
    first = _within(factor * skewness, factor * off)
    if n < 4:
        return first, NO_DATA
    tails = m4 / m2**2
    off = float((n + 1) * (20 * h / m2**2 + 2 * tails * 3 * h / m2))
    excess = Fraction(n - 1, (n - 2) * (n - 3)) * ((n + 1) * (tails - 3) + 6)
    return first, _within(float(excess), off * (n - 1) / ((n - 2) * (n - 3)))


def _within(value: float, off: float) -> Cell:
    return value if off <= SHAPE_ERROR * max(1.0, abs(value)) else RANGE_TOO_WIDE
