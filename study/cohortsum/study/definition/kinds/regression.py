"""``kind: regression``: one linear regression per outcome on shared terms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Formula, Name, Section, Slug
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """The variable whose effect is reported for every outcome; it is a main effect of the regression."""

    effect: str
    measure: Literal["cohens_d"]
    correction: Literal["fdr_bh", "none"]


@dataclass(frozen=True, slots=True)
class RegressionSpec(AnalysisSpec):
    """One linear regression per outcome on shared terms.

    Attributes:
        name: the analysis.
        outcomes: numeric variables, none of them in a term.
        terms: main effects and interactions, in the order of the file.
        site_effect: ``within`` centres inside each site, ``none`` has an intercept.
        missing: complete cases per outcome, or of all outcomes together.
        report: the effect to report, if any.
        contrasts: by name, (coefficient, weight) pairs; coefficients are named as `coefficient_names` does.
        tests: by name, the terms dropped together in a nested F test.
        where: the subgroup, judged on prepared values.
        needs: the ComBat whose harmonised outcomes are taken, if any.
    """

    kind: ClassVar[str] = "regression"
    afterwards: ClassVar[frozenset[str]] = frozenset({"report", "contrasts", "tests"})

    name: str
    outcomes: tuple[str, ...]
    terms: tuple[Term, ...]
    site_effect: Literal["within", "none"]
    missing: Literal["per_outcome", "complete"]
    report: ReportSpec | None
    contrasts: Mapping[str, tuple[tuple[str, float], ...]]
    tests: Mapping[str, tuple[Term, ...]]
    where: Condition | None
    needs: str | None = None

    @property
    def lists(self) -> frozenset[str]:
        """The outcomes, unless complete cases over all of them are taken."""
        return frozenset({"outcomes"}) if self.missing == "per_outcome" else frozenset()

    @property
    def required(self) -> frozenset[str]:
        """The variables of the terms."""
        return frozenset(name for term in self.terms for name in term)

    @property
    def suppliable(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset(self.outcomes)


class ReportEntry(Section):
    """The effect to report for every outcome, and the correction over outcomes."""

    effect: Name
    measure: Literal["cohens_d"] = "cohens_d"
    correction: Literal["fdr_bh", "none"] = "none"


class RegressionEntry(AnalysisSection):
    """One linear regression per outcome on shared terms."""

    kind: Literal["regression"]
    needs: Slug | None = None
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    site_effect: Literal["within", "none"] = "within"
    missing: Literal["per_outcome", "complete"] = "per_outcome"
    report: ReportEntry | None = None
    contrasts: dict[Slug, Annotated[dict[Formula, Finite], Field(min_length=1)]] = Field(
        default_factory=dict[Slug, dict[Formula, Finite]]
    )
    tests: dict[Slug, Annotated[tuple[Formula, ...], Field(min_length=1)]] = Field(
        default_factory=dict[Slug, tuple[Formula, ...]]
    )

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, RegressionSpec]:
        """Return the entry with globs, terms and coefficient names written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms(outcomes, terms, path_of(name, "outcomes"))
        asked = self.report
        if asked is not None and (asked.effect,) not in terms:
            expected = ", ".join(write_term(term) for term in terms if len(term) == 1)
            reading.problems.add(path_of(name, "report", "effect"), f"expected one of the terms: {expected}")
        intercept = self.site_effect == "none"
        contrasts = reading.contrasts(self.contrasts, terms, intercept, path_of(name, "contrasts"))
        tests = reading.tests(self.tests, terms, path_of(name, "tests"))
        written = {
            "outcomes": outcomes,
            "terms": tuple(write_term(term) for term in terms),
            "contrasts": {key: dict(weights) for key, weights in contrasts.items()},
            "tests": {key: tuple(map(write_term, dropped)) for key, dropped in tests.items()},
        }
        report = None if asked is None else ReportSpec(asked.effect, asked.measure, asked.correction)
        return (
            self.model_copy(update=written),
            RegressionSpec(
                name,
                outcomes,
                terms,
                self.site_effect,
                self.missing,
                report,
                contrasts,
                tests,
                where,
                self.needs,
            ),
        )
