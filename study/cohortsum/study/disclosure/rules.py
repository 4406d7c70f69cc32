"""When a count is small, and what an attacker knows of a hidden one before any sum is looked at.

The promise: of no small set of people does anybody learn, from everything that was printed, that it is small. The range of values
that fit must reach the threshold, and be wide enough (4 and 3 in a row that hides 7 are proven small).

How much the attacker knows is stated, never assumed away:

- ``SUMS``: the printed counts, and that no count is negative. This is the model of the literature, and of the intervals in T1 to T5.
- ``ZEROS``: also that an empty cell is printed as 0, so that a hidden one holds somebody. Two hidden ones in a row of 2 are
  one each; Langsrud (2024) calls it the problem of ones and zeros. It is the default, because zeros are printed by default. A
  member of a printed cell knows no more of it, so that cells of one person need no rule of their own.
- ``MARKS``: also which cells are small, where those are printed as "< 10" and others by another mark. Then a small cell is proven
  small by its mark (T1: [1,9] for the rare side), and the promise is less: the sums add nothing to what the mark says.

One kind of knowledge is left out: that the pattern was needed. Whoever runs the search on every table that fits can exclude those for
which another pattern is cheapest. With one mark for all hidden cells, T1 still says that one of the two is small, and everybody knows
which is the rare one: the honest claim is "< 10", and no more.
"""

from dataclasses import dataclass
from enum import StrEnum

from cohortsum.study.disclosure.tables import Cell, Standing


class Knowledge(StrEnum):
    """What an attacker knows besides sums."""

    SUMS = "sums"
    ZEROS = "zeros"
    MARKS = "marks"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is small, and how well it must be hidden.

    Attributes:
        threshold: the smallest count that may be printed, at least 1.
        width: least difference of the greatest and the least value that fit a small cell; None for the threshold.
        zeros_are_disclosive: whether an empty cell is small. If not, it is printed.
        knowledge: of the attacker.
    """

    threshold: int = 10
    width: int | None = None
    zeros_are_disclosive: bool = False
    knowledge: Knowledge = Knowledge.ZEROS

    def __post_init__(self) -> None:
        """Refuse rules that mean nothing."""
        if self.threshold < 1 or (self.width is not None and self.width < 1):
            raise ValueError("a threshold and a width are at least 1")

    @property
    def least(self) -> int:
        """The least count that may be hidden."""
        return 0 if self.zeros_are_disclosive else 1

    def small(self, cell: Cell) -> bool:
        """Whether a cell may not be printed for its own sake: whether it is primary."""
        return self.least <= cell.count < self.threshold

    def known(self, cell: Cell) -> tuple[int, int | None]:
        """Return the least and the greatest count that a hidden cell can have before any sum is looked at; None for no end."""
        if not cell.printed or self.knowledge is Knowledge.SUMS:
            return 0, None
        if self.knowledge is Knowledge.ZEROS:
            return self.least, None
        return (self.least, self.threshold - 1) if self.small(cell) else (self.threshold, None)

    def guards(self, cell: Cell) -> bool:
        """Whether nobody may learn that a cell is small; what is public already is beyond help."""
        return self.small(cell) and cell.standing is not Standing.PUBLIC

    def needed(self, low: int, high: int | None) -> tuple[int, int]:
        """Return what must be possible of a small cell: how great it may be, and how wide the range.

        Args:
            low: the least count that its mark and those of other cells allow.
            high: the greatest; None if they allow any. Nothing can be asked for that the marks exclude.
        """
        width = self.threshold if self.width is None else self.width
        if high is None:
            return self.threshold, width
        return min(self.threshold, high), min(width, high - low)


DEFAULT = Rule()
"""Ten people, as ONS and the disclosure page have it, before an attacker who sees zeros."""
