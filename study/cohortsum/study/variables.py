"""The variables of a study, as every later step sees them: a public range in one unit, or an ordered list of levels.

Statistics work on normalised values ``u = (value - middle) / half_width``, which lie in [-1, 1] by construction,
so that one bound per person holds for every product of two of them.
"""

from dataclasses import dataclass
from typing import Literal

OutOfRange = Literal["clamp", "exclude"]


class Ranged:
    """What lies in a public range."""

    __slots__ = ()
    lower: float
    upper: float

    @property
    def middle(self) -> float:
        """The centre of the public range."""
        return (self.lower + self.upper) / 2

    @property
    def half_width(self) -> float:
        """Half the width of the public range; greater than 0."""
        return (self.upper - self.lower) / 2


@dataclass(frozen=True, slots=True)
class Number(Ranged):
    """A numeric variable with a public range.

    Attributes:
        name: name in the study.
        unit: the unit the study declares; sites convert to it.
        lower: least value after clamping, in ``unit``.
        upper: greatest value after clamping, in ``unit``; greater than ``lower``.
        out_of_range: ``clamp`` moves a value to the nearer bound, ``exclude`` makes it missing.
    """

    name: str
    unit: str
    lower: float
    upper: float
    out_of_range: OutOfRange = "clamp"


@dataclass(frozen=True, slots=True)
class Factor:
    """A variable with named levels; the first is the reference."""

    name: str
    levels: tuple[str, ...]

    def level_name(self, level: str) -> str:
        """Return the name of one level: a term in result tables, an item that sites supply."""
        return f"{self.name}[{level}]"


Variable = Number | Factor
