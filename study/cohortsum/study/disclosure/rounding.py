"""Counts rounded to a base after small ones are hidden, and everything else recomputed from what is printed.

The order matters. Rounding alone prints 7 as 5, which says "3 to 7": small. So small counts and their complements are hidden first
(`suppression`, on the true counts), and what is left is rounded to the nearest multiple of 5 (the "10-5 rule" of the
ONS). An attacker on rounded counts knows less than one on true counts, so a pattern that is safe without rounding is safe
with it. The threshold is a multiple of the base: otherwise 12 could be printed as 10 where 12 is the threshold.

- *From the true value, once.* Margins are rounded on their own and need not be the sums of rounded cells; adding rounded cells would
  add their errors (10 + 5 + 25 for 44), and rounding at every site would as well.
- *Nearest, without a draw.* An odd base has no ties, so the result is a function of the count alone: a repeated question has one
  answer, and nothing can be averaged away or has to be kept under a key. A random draw would need a key for each set of
  people (Fraser and Wooton 2005; the 2021 census of England and Wales) to be as good. What nearest rounding does not do is hide the
  difference of two sets that differ by somebody where the count stands at a step; the people rule of the sites is for that.
- *Nothing gives the count back.* A percentage, a mean of whole numbers, a standard error beside a standard deviation, and t beside d
  each contain n. They are made of the rounded figures, as if these were the counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cohortsum.study.disclosure.rules import DEFAULT, Knowledge, Rule
from cohortsum.study.disclosure.suppression import Suppression
from cohortsum.study.disclosure.tables import Standing, Tables
from cohortsum.study.results import HIDDEN, NO_DATA, Absent, Status

SMALL = Absent(Status.BELOW_THRESHOLD)
Figure = int | Absent
"""A count as it is printed."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """How counts are printed.

    Attributes:
        rule: what is small.
        base: an odd number of which printed counts are multiples; 1 leaves them.
        spread_df: least degrees of freedom of a printed standard deviation, or None where n suffices.
    """

    rule: Rule = DEFAULT
    base: int = 5
    spread_df: int | None = 10

    def __post_init__(self) -> None:
        """Refuse a base with ties, or one that rounds below the threshold."""
        if self.base < 1 or self.base % 2 == 0:
            raise ValueError(f"a base of {self.base} has ties, or none; give an odd one")
        if self.rule.threshold % self.base and self.rule.threshold > 1:
            raise ValueError(f"a threshold of {self.rule.threshold} is no multiple of the base {self.base}")

    def count(self, people: int) -> Figure:
        """Return a count that stands alone, rounded; absent if it is small."""
        if self.rule.least <= people < self.rule.threshold:
            return SMALL
        return self.base * ((2 * people + self.base) // (2 * self.base))

    def table(self, tables: Tables, pattern: Suppression) -> Mapping[str, Figure]:
        """Return what is printed in every cell, by its first and other names; also where an earlier release did so."""
        hidden = {*pattern.hidden}
        told = self.rule.knowledge is Knowledge.MARKS
        return {
            name: (SMALL if told and self.rule.small(cell) else HIDDEN)
            if name in hidden or cell.standing is Standing.WITHHELD
            else self.count(cell.count)
            for cell in tables.cells
            if cell.printed
            for name in (cell.name, *cell.also)
        }

    def has_spread(self, people: int) -> bool:
        """Whether a standard deviation of so many people (the true number) may be printed."""
        small = self.rule.least <= people < self.rule.threshold
        return not small and (self.spread_df is None or people - 1 >= self.spread_df)


def percent(part: Figure, whole: Figure) -> float | Absent:
    """Return 100 times a share of two printed counts; absent for the reason of the one that is."""
    if isinstance(part, Absent):
        return part
    if isinstance(whole, Absent):
        return whole
    return 100 * part / whole if whole else NO_DATA


def mean_of_parts(mean: Fraction, people: int, unit: Fraction = Fraction(1)) -> Fraction:
    """Return the mean that a rounded total and a rounded count give.

    The exact mean of whole numbers is a fraction whose denominator divides n: a few decimals name it.

    Args:
        mean: the true one.
        people: as printed, not 0.
        unit: what values are multiples of; the total is rounded to it, which moves the mean by at most ``unit / (2 people)``.
    """
    return round(mean * people / unit) * unit / people
