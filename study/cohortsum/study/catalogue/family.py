"""What a row and a family of the catalogue are, and where their clamps come from.

A clamp is public knowledge: it comes from the source named beside it, never from the data of a study, and a study's
own `range` replaces it. The clamps without a published source are wide on purpose: they keep every plausible value
inside, and a study that will add noise should narrow them with `range` from a public reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BRAID = "BRAID pipeline documentation, Differential Privacy, table of biological ranges"
WIDE = "wide physical bound of this catalogue; no published clamp"
DEFINITION = "by definition of the measure"


@dataclass(frozen=True, slots=True)
class Row:
    """One variable of the catalogue.

    Attributes:
        name: column name as the family's tool writes it.
        unit: unit of the values and of the clamp.
        lower: least plausible value.
        upper: greatest plausible value.
        source: where the clamp comes from.
    """

    name: str
    unit: str
    lower: float
    upper: float
    source: str


@dataclass(frozen=True, slots=True)
class Family:
    """Variables that are measured, bounded and released alike.

    Attributes:
        name: what a study writes after ``catalogue:``, and what rules name.
        title: one line for people.
        rows: the variables, in the order of the tool's tables; empty where a study cannot name the family.
        patterns: regular expressions on whole names of further columns that fall under the family's rules, with or
            without a row of their own.
        imaging: whether its values are measured on images; not so for clinical numbers, identifiers and logs.
    """

    name: str
    title: str
    rows: tuple[Row, ...] = ()
    patterns: tuple[str, ...] = ()
    imaging: bool = True

    def by_name(self) -> Mapping[str, Row]:
        """Return the rows by variable name."""
        return {row.name: row for row in self.rows}
