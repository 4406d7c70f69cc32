"""How far numbers are from those of another library, over all numbers of a comparison."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite

from cohortsum.study.results import Cell


def number(cell: Cell) -> float:
    """Return a cell that must be a number; an absent one, or text, raises ValueError."""
    if isinstance(cell, int | float):
        return float(cell)
    raise ValueError(f"expected a number, found {type(cell).__name__}")


@dataclass(slots=True)
class Tally:
    """The largest error so far, and of how many numbers.

    Attributes:
        largest: relative error, or error divided by its bound; inf where a count differs or a number is not finite.
        count: numbers that were compared.
    """

    largest: float = 0.0
    count: int = 0

    def same(self, found: Cell, known: float) -> None:
        """Compare relative to ``known``; where that is 0, absolutely."""
        self.near(found, known, abs(float(known)) or 1.0)

    def near(self, found: Cell, known: float, scale: float) -> None:
        """Compare relative to ``scale`` above 0: a bound, or the natural size of what may lie near 0."""
        error = abs(number(found) - float(known)) / scale
        self.largest = max(self.largest, error if isfinite(error) else inf)
        self.count += 1

    def exact(self, found: object, known: object) -> None:
        """Compare counts or words, or a tuple of them, which are equal or wrong."""
        if found != known:
            self.largest = inf
        self.count += 1

    def all_same(self, found: Iterable[Cell], known: Iterable[float]) -> None:
        """Compare in pairs, relative to what is known."""
        for one, other in zip(found, known, strict=True):
            self.same(one, other)
