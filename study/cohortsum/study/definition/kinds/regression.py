"""``kind: regression``: one linear regression per outcome on shared terms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Formula, Name, Section, Slug
from cohortsum.study.definition.kinds.interface import AnalysisSection, OutcomesOnTerms, path_of
from cohortsum.study.definition.problems import Path
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, coefficient_names, write_term
from cohortsum.study.results import INTERCEPT
from cohortsum.study.statistics.under_noise import ARM_CAP, UnderNoise
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """The variable whose effect is reported for every outcome; it is a main effect of the regression."""

    effect: str
    measure: Literal["cohens_d"]
    correction: Literal["fdr_bh", "none"]


MOST_JOINT_OUTCOMES = 20
"""Outcomes of a joint test; every two of them add a number."""


@dataclass(frozen=True, slots=True)
class JointSpec:
    """One test of ``terms`` on several ``outcomes`` at once."""

    outcomes: tuple[str, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class RegressionSpec(OutcomesOnTerms):
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
        weights: a number of non-negative range by which people are weighted, if any.
        ridge: penalty on the standardised coefficients, if any.
        vif: whether variance inflation factors are given.
        covariance: of standard errors that stand without equal variances, if asked for.
        test_site: whether the site effect is tested.
        multivariate: by name, tests on several outcomes at once.
        under_noise: what a study with noise says beside.
    """

    kind: ClassVar[str] = "regression"
    afterwards: ClassVar[frozenset[str]] = frozenset({"report", "contrasts", "tests", "vif", "ridge"})

    name: str
    outcomes: tuple[str, ...]
    terms: tuple[Term, ...]
    site_effect: Literal["within", "none"]
    missing: Literal["per_outcome", "complete"]
    report: ReportSpec | None
    contrasts: Mapping[str, tuple[tuple[str, float], ...]]
    tests: Mapping[str, tuple[Term, ...]]
    where: Condition | None
    weights: str | None
    ridge: float | None
    vif: bool
    covariance: Literal["HC0", "HC1"] | None
    test_site: bool
    multivariate: Mapping[str, JointSpec]
    needs: str | None = None
    under_noise: UnderNoise | None = None

    @property
    def required(self) -> frozenset[str]:
        """The variables of the terms, and the weights."""
        weights = frozenset[str]() if self.weights is None else frozenset({self.weights})
        return weights | {name for term in self.terms for name in term}

    @property
    def by_outcome(self) -> bool:
        """As ``missing`` says."""
        return self.missing == "per_outcome"


class ReportEntry(Section):
    """The effect to report for every outcome, and the correction over outcomes."""

    effect: Name
    measure: Literal["cohens_d"] = "cohens_d"
    correction: Literal["fdr_bh", "none"] = "none"


class JointEntry(Section):
    """Terms tested on several outcomes at once."""

    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    terms: Annotated[tuple[Formula, ...], Field(min_length=1)]


class UnderNoiseEntry(Section):
    """What noise needs to know: the clip radius, what is protected, and the public reference model of the covariates."""

    clip: Annotated[Finite, Field(gt=0)]
    protect_diagnosis: bool | None = None
    arm_cap: Annotated[Finite, Field(gt=0.5, le=1)] | None = None
    reference: dict[Name, Annotated[dict[Formula, Finite], Field(min_length=1)]] | None = None

    @model_validator(mode="after")
    def _arms_are_public(self) -> Self:
        if self.arm_cap is not None and self.protect_diagnosis is not False:
            raise ValueError("arm_cap belongs to protect_diagnosis: false; remove it")
        return self

    def read(
        self, outcomes: Sequence[str], terms: Sequence[Term], path: Path, reading: Reading
    ) -> tuple[Self, UnderNoise]:
        """Return the entry as it is written out, and what it asks for; that the diagnosis is protected goes without saying."""
        reference = self.reference or {}
        columns = {
            INTERCEPT,
            *(name for term in terms for name in coefficient_names(term, reading.variables)),
        }
        for outcome, slopes in sorted(reference.items()):
            here = (*path, "reference", outcome)
            if outcome not in outcomes:
                reading.problems.add(here, f"{outcome!r} is no outcome of the regression; add it there")
            for column in sorted(slopes.keys() - columns):
                expected = ", ".join(sorted(columns))
                reading.problems.add((*here, column), f"expected columns of the regression: {expected}")
        public = self.protect_diagnosis is False
        asked = UnderNoise(self.clip, not public, self.arm_cap or ARM_CAP, reference)
        return self.model_copy(update={"protect_diagnosis": False if public else None}), asked


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
    weights: Name | None = None
    ridge: Annotated[Finite, Field(gt=0)] | None = None
    vif: Literal[True] | None = None
    covariance: Literal["HC0", "HC1"] | None = None
    test_site: Literal[True] | None = None
    multivariate: dict[Slug, JointEntry] | None = None
    under_noise: UnderNoiseEntry | None = None

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
        joint = self._joint(name, outcomes, terms, reading)
        self._check_companions(name, reading)
        self._check_weights(name, outcomes, reading)
        noise, under_noise = self.under_noise, None
        if noise is not None:
            noise, under_noise = noise.read(outcomes, terms, path_of(name, "under_noise"), reading)
        written = {
            "outcomes": outcomes,
            "terms": tuple(write_term(term) for term in terms),
            "contrasts": {key: dict(weights) for key, weights in contrasts.items()},
            "tests": {key: tuple(map(write_term, dropped)) for key, dropped in tests.items()},
            "multivariate": {
                key: entry.model_copy(
                    update={
                        "outcomes": joint[key].outcomes,
                        "terms": tuple(map(write_term, joint[key].terms)),
                    }
                )
                for key, entry in (self.multivariate or {}).items()
            }
            or None,
            "under_noise": noise,
        }
        report = None if asked is None else ReportSpec(asked.effect, asked.measure, asked.correction)
        spec = RegressionSpec(
            name=name,
            outcomes=outcomes,
            terms=terms,
            site_effect=self.site_effect,
            missing=self.missing,
            report=report,
            contrasts=contrasts,
            tests=tests,
            where=where,
            weights=self.weights,
            ridge=self.ridge,
            vif=self.vif is not None,
            covariance=self.covariance,
            test_site=self.test_site is not None,
            multivariate=joint,
            needs=self.needs,
            under_noise=under_noise,
        )
        return self.model_copy(update=written), spec

    def _joint(
        self, name: str, outcomes: Sequence[str], terms: Sequence[Term], reading: Reading
    ) -> Mapping[str, JointSpec]:
        """Return the joint tests, globs and terms written out."""
        written = self.multivariate or {}
        path = path_of(name, "multivariate")
        if written and self.missing != "complete":
            reading.problems.add(path, "needs the same people for every outcome; write missing: complete")
        found: dict[str, JointSpec] = {}
        for test, entry in sorted(written.items()):
            here = (*path, test, "outcomes")
            asked = reading.numbers(entry.outcomes, here)
            for outcome in asked:
                if outcome not in outcomes:
                    reading.problems.add(here, f"{outcome!r} is no outcome of the regression; add it there")
            if not 2 <= len(asked) <= MOST_JOINT_OUTCOMES:
                reading.problems.add(
                    here, f"expected 2 to {MOST_JOINT_OUTCOMES} outcomes, found {len(asked)}"
                )
            dropped = reading.tests({"terms": entry.terms}, terms, (*path, test))["terms"]
            found[test] = JointSpec(asked, dropped)
        return MappingProxyType(found)

    def _check_companions(self, name: str, reading: Reading) -> None:
        """Note keys that do not go together."""
        classical = ("test_site", "multivariate")
        errors = ("report", "contrasts", "tests", "covariance", *classical)
        for key in errors:
            if self.ridge is not None and getattr(self, key):
                reading.problems.add(
                    path_of(name, key), "a ridge has no standard errors to judge by; remove it or ridge"
                )
        for key in classical:
            if self.covariance is not None and getattr(self, key):
                reading.problems.add(
                    path_of(name, key),
                    f"rests on equal variances; remove it or covariance: {self.covariance}",
                )
        if self.test_site is not None and self.site_effect == "none":
            reading.problems.add(
                path_of(name, "test_site"), "there is no site effect to test; write site_effect: within"
            )

    def _check_weights(self, name: str, outcomes: Sequence[str], reading: Reading) -> None:
        """Note weights that are none."""
        if self.weights is None:
            return
        path = path_of(name, "weights")
        variable = reading.variables.get(reading.number(self.weights, path))
        if isinstance(variable, Number) and (variable.lower < 0 or variable.upper <= 0):
            reading.problems.add(path, "weights are not negative; declare a range from 0 or above")
        if self.weights in outcomes:
            reading.problems.add(path, f"{self.weights!r} is an outcome too; remove one")
