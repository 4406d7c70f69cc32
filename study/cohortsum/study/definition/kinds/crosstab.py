"""``kind: crosstab``: counts in every combination of the levels of one to three factors."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import ASSOCIATION_COLUMNS, CROSSTAB_COLUMNS
from cohortsum.study.statistics.crosstab_noised import CROSSTAB_NOISE_COLUMNS
from cohortsum.study.variables import Factor

BESIDE_CROSSED = frozenset(
    {"rows", "columns", *CROSSTAB_COLUMNS, *CROSSTAB_NOISE_COLUMNS, *ASSOCIATION_COLUMNS}
)
MAX_CELLS = 10_000
"""Cells of a crosstab; each is a number that travels, and nobody reads more."""


@dataclass(frozen=True, slots=True)
class CrosstabSpec(AnalysisSpec):
    """Counts in every combination of the levels of one to three ``factors``."""

    kind: ClassVar[str] = "crosstab"

    name: str
    factors: tuple[str, ...]
    where: Condition | None

    @property
    def required(self) -> frozenset[str]:
        """The factors."""
        return frozenset(self.factors)

    @property
    def about(self) -> frozenset[str]:
        """The factors."""
        return self.required


class CrosstabEntry(AnalysisSection):
    """Counts in every combination of the levels of factors: rows and columns are the last two, layers the first of three."""

    kind: Literal["crosstab"]
    factors: Annotated[tuple[Name, ...], Field(min_length=1, max_length=3)]

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, CrosstabSpec]:
        """Return the entry and the spec."""
        path = path_of(name, "factors")
        factors = reading.factors(self.factors, path, BESIDE_CROSSED)
        known = [entry for factor in factors if isinstance(entry := reading.variables.get(factor), Factor)]
        cells = prod(len(entry.levels) for entry in known)
        if cells > MAX_CELLS:
            reading.problems.add(
                path, f"the table has {cells} cells; cross fewer factors, at most {MAX_CELLS}"
            )
        return self, CrosstabSpec(name, factors, where)
