"""``kind: mixed``: one linear model per outcome with a random intercept per site."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Formula, Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, OutcomesOnTerms, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term


@dataclass(frozen=True, slots=True)
class MixedSpec(OutcomesOnTerms):
    """One mixed model per outcome on shared terms.

    Attributes:
        name: the analysis.
        outcomes: numeric variables, none of them in a term.
        terms: main effects and interactions, in the order of the file.
        missing: complete cases per outcome, or of all outcomes together.
        ratios: points of the grid of tau2 / sigma2; odd.
        site_size: about how many people a site has.
        max_ratio: the greatest tau2 / sigma2 looked at.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "mixed"

    name: str
    outcomes: tuple[str, ...]
    terms: tuple[Term, ...]
    missing: Literal["per_outcome", "complete"]
    ratios: int
    site_size: float
    max_ratio: float
    where: Condition | None

    @property
    def tells_sites(self) -> bool:
        """Sums at more ratios than twice the sites determine the n and the means of each."""
        return True

    @property
    def by_outcome(self) -> bool:
        """As ``missing`` says."""
        return self.missing == "per_outcome"


class MixedEntry(AnalysisSection):
    """One linear model per outcome with a random intercept per site."""

    kind: Literal["mixed"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    missing: Literal["per_outcome", "complete"] = "per_outcome"
    ratios: Annotated[int, Field(ge=5, le=129)] = 33
    site_size: Annotated[Finite, Field(ge=1, le=1e6)] = 50.0
    max_ratio: Annotated[Finite, Field(gt=0, le=1000)] = 100.0

    @model_validator(mode="after")
    def _every_other_point_is_a_grid(self) -> Self:
        if self.ratios % 2 == 0:
            raise ValueError("expected an odd number of ratios, so that every other one spans the grid too")
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, MixedSpec]:
        """Return the entry with globs and terms written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms(outcomes, terms, path_of(name, "outcomes"))
        written = {"outcomes": outcomes, "terms": tuple(write_term(term) for term in terms)}
        spec = MixedSpec(
            name, outcomes, terms, self.missing, self.ratios, self.site_size, self.max_ratio, where
        )
        return self.model_copy(update=written), spec
