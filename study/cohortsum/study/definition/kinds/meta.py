"""``kind: meta``: two-stage meta-analysis of one effect, over the sites' own regressions."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Formula, Name, Slug
from cohortsum.study.definition.kinds.interface import AnalysisSection, OutcomesOnTerms, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term
from cohortsum.study.variables import Factor

Measure = Literal["cohens_d", "b"]
Model = Literal["fixed", "dl", "dl_hk", "reml", "reml_hk"]


@dataclass(frozen=True, slots=True)
class MetaSpec(OutcomesOnTerms):
    """One meta-analysis per outcome and column of the effect.

    Attributes:
        name: the analysis.
        outcomes: numeric variables, none of them in a term.
        terms: what each site's own regression has beside an intercept.
        effect: a main effect among ``terms``; a factor for d.
        measure: what is pooled.
        models: how it is pooled, in the order of the result.
        min_per_arm: least people of each arm at a site; for a number, of half the site.
        correction: over the outcomes.
        where: the subgroup, judged on prepared values.
        needs: the ComBat whose harmonised outcomes are taken, if any.
    """

    kind: ClassVar[str] = "meta"
    afterwards: ClassVar[frozenset[str]] = frozenset({"correction"})

    name: str
    outcomes: tuple[str, ...]
    terms: tuple[Term, ...]
    effect: str
    measure: Measure
    models: tuple[Model, ...]
    min_per_arm: int
    correction: Literal["fdr_bh", "none"]
    where: Condition | None
    needs: str | None = None

    @property
    def tells_sites(self) -> bool:
        """Powers of weights at several trial values determine the estimates of few sites; one fixed effect does not."""
        return any(model != "fixed" for model in self.models)


class MetaEntry(AnalysisSection):
    """Two-stage meta-analysis of one effect, over the sites' own regressions."""

    kind: Literal["meta"]
    needs: Slug | None = None
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    effect: Name
    measure: Measure = "cohens_d"
    models: Annotated[tuple[Model, ...], Field(min_length=1)] = ("fixed", "reml")
    min_per_arm: Annotated[int, Field(ge=2, le=1_000_000)] = 10
    correction: Literal["fdr_bh", "none"] = "none"

    @field_validator("models")
    @classmethod
    def _once(cls, models: tuple[Model, ...]) -> tuple[Model, ...]:
        if len(set(models)) < len(models):
            raise ValueError("a model is listed twice; remove one")
        return models

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, MetaSpec]:
        """Return the entry with globs and terms written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms(outcomes, terms, path_of(name, "outcomes"))
        if (self.effect,) not in terms:
            expected = ", ".join(write_term(term) for term in terms if len(term) == 1)
            reading.problems.add(path_of(name, "effect"), f"expected one of the terms: {expected}")
        elif self.measure == "cohens_d" and not isinstance(reading.variables.get(self.effect), Factor):
            reading.problems.add(
                path_of(name, "effect"),
                f"Cohen's d compares levels and {self.effect!r} is a number; write measure: b",
            )
        return (
            self.model_copy(update={"outcomes": outcomes, "terms": tuple(map(write_term, terms))}),
            MetaSpec(
                name,
                outcomes,
                terms,
                self.effect,
                self.measure,
                self.models,
                self.min_per_arm,
                self.correction,
                where,
                self.needs,
            ),
        )
