"""What a regression under noise refuses, by name and with the cure, and how the study file asks for one."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.definition import RegressionSpec, parse_canonical
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.joint import Joint
from cohortsum.study.statistics.under_noise import UnderNoise
from tests.study.definitions import frozen, with_analysis
from tests.study.models import DX as THREE_LEVELS
from tests.study.noised_models import (
    AGE,
    REFERENCE,
    cohort,
    formulation,
    noised,
)
from tests.study.pooled import (
    federate,
)


def older(batch: Batch) -> Any:
    return batch.numbers["age"] > 30


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"site_effect": "none"}, "site_effect"),
            ({"where": older}, "where"),
            ({"weights": AGE}, "weights"),
            ({"ridge": 0.1}, "ridge"),
            ({"vif": True}, "vif"),
            ({"covariance": "HC1"}, "covariance"),
            ({"contrasts": {"c": {"dx[autism]": 1.0}}}, "contrasts"),
            ({"tests": {"t": ("dx",)}}, "tests"),
            ({"missing": "complete", "multivariate": {"m": Joint(("y0", "y1"), ("dx",))}}, "multivariate"),
            ({"terms": ("dx", "age"), "curves": {"age": Curve(AGE, "spline", (20.0, 40.0))}}, "curves"),
            ({"test_site": True}, "test_site"),
            ({"terms": ("dx", "age"), "effect": None}, "report.effect"),
            ({"terms": ("age",), "effect": "age"}, "report.effect"),
            ({"variables": {"dx": THREE_LEVELS}}, "report.effect"),
            ({"terms": ("dx", "age", "dx:age")}, "terms"),
            ({"fraction_bits": 47}, "outcomes"),
        ],
    )
    def test_what_noise_cannot_cover_is_refused_by_name(self, changes: Mapping[str, Any], field: str) -> None:
        with pytest.raises(StudyFileError, match=f"analysis 'r', field '{field}'"):
            noised(UnderNoise(3.0), **changes)

    @pytest.mark.parametrize(
        ("under_noise", "terms", "missing", "field"),
        [
            (None, ("dx",), "per_outcome", "clip"),
            (UnderNoise(3.0, protect_diagnosis=False), ("dx", "age"), "per_outcome", "protect_diagnosis"),
            (UnderNoise(3.0, protect_diagnosis=False), ("dx",), "complete", "protect_diagnosis"),
            (UnderNoise(3.0, protect_diagnosis=False, arm_cap=0.5), ("dx",), "per_outcome", "arm_cap"),
            (UnderNoise(3.0, reference=REFERENCE), ("dx",), "per_outcome", "reference"),
            (UnderNoise(3.0), ("dx", "age", "sex"), "per_outcome", "reference.y0"),
            (UnderNoise(3.0, reference={"y0": {"age": 1e306}}), ("dx", "age"), "per_outcome", "reference.y0"),
            (UnderNoise(3.0, reference=REFERENCE), ("dx", "age"), "per_outcome", "reference.y0"),
            (
                UnderNoise(3.0, reference=REFERENCE | {"y9": {}}),
                ("dx", "age", "sex"),
                "per_outcome",
                "reference",
            ),
        ],
    )
    def test_what_noise_needs_to_know_is_asked_for_by_name(
        self, under_noise: UnderNoise | None, terms: tuple[str, ...], missing: str, field: str
    ) -> None:
        with pytest.raises(StudyFileError, match=f"field 'under_noise.{field}'"):
            noised(under_noise, terms=terms, missing=missing)

    def test_people_who_come_or_go_are_not_covered(self) -> None:
        with pytest.raises(StudyFileError, match=r"privacy\.adjacency"):
            formulation("E").parts("add_or_remove")

    def test_without_noise_there_is_the_exact_regression(self) -> None:
        statistic = formulation("E")
        with pytest.raises(StudyFileError, match="remove under_noise"):
            statistic.finish(federate(statistic, cohort(1, 2, 20)))


class TestStudyFile:
    ENTRY = "{kind: regression, outcomes: [iq], terms: [sex, age], report: {effect: sex}, under_noise: %s}"

    def spec(self, under_noise: str) -> RegressionSpec:
        spec = frozen(with_analysis(self.ENTRY % under_noise)).analyses["a"]
        assert isinstance(spec, RegressionSpec)
        return spec

    def test_the_section_is_read(self) -> None:
        reference = "{iq: {age: 0.1, intercept: 100}}"
        asked = self.spec(f"{{clip: 2.5, reference: {reference}}}").under_noise
        assert asked == UnderNoise(2.5, reference={"iq": {"age": 0.1, "intercept": 100.0}})
        public = self.spec("{clip: 2.5, protect_diagnosis: false, arm_cap: 0.6}").under_noise
        assert public == UnderNoise(2.5, protect_diagnosis=False, arm_cap=0.6)

    def test_what_goes_without_saying_does_not_change_the_study(self) -> None:
        plain = frozen(with_analysis(self.ENTRY % "{clip: 2.5}"))
        assert (
            frozen(with_analysis(self.ENTRY % "{clip: 2.5, protect_diagnosis: true}")).digest == plain.digest
        )
        without = frozen(with_analysis("{kind: regression, outcomes: [iq], terms: [sex]}"))
        assert b"under_noise" not in without.canonical
        assert parse_canonical(plain.canonical).digest == plain.digest

    @pytest.mark.parametrize(
        ("under_noise", "said"),
        [
            ("{}", "clip"),
            ("{clip: 0}", "clip"),
            ("{clip: 2, arm_cap: 0.6}", "arm_cap belongs to protect_diagnosis: false"),
            ("{clip: 2, protect_diagnosis: false, arm_cap: 0.5}", "arm_cap"),
            ("{clip: 2, reference: {age: {age: 1}}}", "'age' is no outcome"),
            (
                "{clip: 2, reference: {iq: {sex: 1}}}",
                "expected columns of the regression: age, intercept, sex",
            ),
        ],
    )
    def test_problems_are_named(self, under_noise: str, said: str) -> None:
        with pytest.raises(StudyFileError, match=re.escape(said)):
            frozen(with_analysis(self.ENTRY % under_noise))
