"""What the rules ask of a study before any person is looked at, and what a waiver leaves of them."""

from collections.abc import Mapping

import pytest

from cohortsum.cli.study import invented_roster
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.messages import Regimen, WaivedRule
from cohortsum.study.catalogue.controls import MinimumN, Of, SuppressCells
from cohortsum.study.disclosure.demands import Demands, demands_of
from cohortsum.study.disclosure.own_rules import OWN_RULES
from cohortsum.study.disclosure.regimens import read_waivers, regime_of_sites
from cohortsum.study.disclosure.site_gate import items_of, not_supplied
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.disclosure.waiving import EVERY_RULE, NO_RULE, in_force
from cohortsum.study.planning import StudyPlan, plan_study
from tests.study.definitions import frozen
from tests.study.disclosure.test_gate_counts import study, waiving

NOISE = "{noise: distributed, epsilon: %s, delta: 1.0e-6}"


def demanded(
    variables: Mapping[str, str], analyses: Mapping[str, str], noise: str = ""
) -> tuple[Demands, StudyPlan]:
    text = study(variables, analyses)
    one = frozen(text.replace("{noise: none}", noise) if noise else text)
    return demands_of(one, EVERY_RULE), plan_study(one, invented_roster(one, 5))


AGE = {"age": "{unit: years, range: [0, 100]}", "sex": "{levels: [female, male]}"}
THICKNESS = {"lh_cuneus_thickness": "{catalogue: freesurfer.thickness}"}
WMH = {"T2_FLAIR_WMH_volume": "{catalogue: bianca.wmh}"}


@pytest.mark.parametrize(
    ("variables", "of", "least"),
    [
        ({"age": AGE["age"]}, Of.GROUP, 10),
        ({"age": AGE["age"]}, Of.SITE, 20),
        ({"age": AGE["age"]}, Of.COHORT, 100),
        (THICKNESS, Of.GROUP, 50),
        (THICKNESS, Of.SITE, 50),
        ({"dMRI_TBSS_FA_1": "{catalogue: tbss}"}, Of.SITE, 30),
        ({"dMRI_TBSS_ICVF_1": "{catalogue: noddi}"}, Of.GROUP, 50),
        (WMH, Of.GROUP, 30),
        ({"fd_mean": "{catalogue: fmri.motion}"}, Of.GROUP, 20),
        ({"snr_total": "{catalogue: qc.snr_cnr}"}, Of.SITE, 50),
        ({"dMRI_eddy_outlier": "{catalogue: eddy.outliers}"}, Of.GROUP, 20),
        ({"T1_SIENAX_brain-unnorm_vol": "{catalogue: sienax.unnormalised}"}, Of.GROUP, 100),
        ({"a_new_measure": "{unit: mm, range: [0, 9]}"}, Of.SITE, 50),
    ],
)
def test_minimum_numbers_are_those_of_the_family_and_unknown_names_are_imaging_measures(
    variables: Mapping[str, str], of: Of, least: int
) -> None:
    (name,) = variables
    demands, _ = demanded(variables, {"a": f'{{kind: summary, variables: ["{name}"]}}'})
    assert demands.minimum(of) == least


def test_what_is_derived_falls_under_the_rules_of_all_its_parts() -> None:
    text = study({**AGE, **THICKNESS}, {"a": "{kind: summary, variables: [ratio]}"}).replace(
        "cohort:", 'derive: {ratio: "lh_cuneus_thickness / (age + 1)"}\ncohort:'
    )
    assert demands_of(frozen(text), EVERY_RULE).minimum(Of.SITE, "a", "ratio") == 50


@pytest.mark.parametrize(
    ("noise", "lacking"),
    [("", {"roi_noise"}), (NOISE % 2.0, {"roi_noise"}), (NOISE % 1.0, set[str]())],
)
def test_freesurfer_needs_noise_whose_total_is_small_enough(noise: str, lacking: set[str]) -> None:
    demands, _ = demanded(THICKNESS, {"a": "{kind: summary, variables: [lh_cuneus_thickness]}"}, noise)
    assert {demand.rule.id for demand in demands.of_study()} == lacking


@pytest.mark.parametrize(
    ("entry", "lacking"),
    [
        ("{catalogue: bianca.wmh}", {"wmh_top_code"}),
        ("{catalogue: bianca.wmh, range: [0, 60000], out_of_range: exclude}", {"wmh_top_code"}),
        ("{catalogue: bianca.wmh, range: [0, 60000]}", set[str]()),
    ],
)
def test_white_matter_lesions_need_a_top_code_of_the_study_itself(entry: str, lacking: set[str]) -> None:
    demands, _ = demanded(
        {"T2_FLAIR_WMH_volume": entry}, {"a": "{kind: summary, variables: [T2_FLAIR_WMH_volume]}"}
    )
    assert {demand.rule.id for demand in demands.of_study()} == lacking


def test_columns_of_registration_and_logs_are_never_supplied() -> None:
    variables = {"T1_to_MNI_linear.mat": "{unit: a, range: [0, 1]}"}
    demands, plan = demanded(
        {**AGE, **variables}, {"a": '{kind: summary, variables: ["T1_to_MNI_linear.mat", age]}'}
    )
    assert set(items_of(plan, demands.of_study())) == {"T1_to_MNI_linear.mat"}


@pytest.mark.parametrize(
    ("people", "having", "kept_back"),
    [
        (120, {"age": 120, "lh_cuneus_thickness": 120}, set[str]()),
        (120, {"age": 99, "lh_cuneus_thickness": 120}, {"age"}),
        (99, {}, {"age", "analysis:counts"}),
    ],
)
def test_without_noise_a_site_needs_a_hundred_people_and_what_lacks_them_is_left_out(
    people: int, having: dict[str, int], kept_back: set[str]
) -> None:
    demands, plan = demanded(
        AGE, {"ages": "{kind: summary, variables: [age]}", "counts": "{kind: crosstab, factors: [sex]}"}
    )
    found = not_supplied(plan, demands, people, having)
    assert set(found) == kept_back
    assert all("99" not in reason for reason in found.values())


def test_under_noise_the_number_with_a_value_is_not_looked_at() -> None:
    variables, asked = {**AGE, **THICKNESS}, {"a": "{kind: summary, variables: [lh_cuneus_thickness]}"}
    demands, plan = demanded(variables, asked, NOISE % 1.0)
    assert not_supplied(plan, demands, 60, {"lh_cuneus_thickness": 2}) == {}
    assert set(not_supplied(plan, demands, 49, {"lh_cuneus_thickness": 49})) == {"lh_cuneus_thickness"}


def test_a_model_that_needs_a_variable_is_left_out_as_a_whole() -> None:
    demands, plan = demanded(
        {**AGE, **THICKNESS}, {"a": "{kind: regression, outcomes: [age], terms: [lh_cuneus_thickness]}"}
    )
    assert set(items_of(plan, demands.of_study())) == {"analysis:a"}


def test_a_waived_rule_leaves_the_next_strictest() -> None:
    asked = frozen(study(THICKNESS, {"a": "{kind: summary, variables: [lh_cuneus_thickness]}"}))
    left = demands_of(asked, in_force(waiving(roi_mean_site="off", idp_site_50="30", roi_noise="3.0")))
    assert left.minimum(Of.SITE) == 30
    assert {demand.rule.id for demand in left.of_study()} == {"roi_noise"}


def test_of_several_waivers_the_strictest_holds_and_one_site_without_keeps_the_rule() -> None:
    def site(value: str | None) -> Regimen:
        waived = (
            () if value is None else (WaivedRule("primary_suppression", value, "why", "ann", "2027-01-01"),)
        )
        return Regimen("dpuk", 0, waived)

    both = in_force(regime_of_sites({"a": site("5"), "b": site("8")}))
    assert both.control("primary_suppression") == SuppressCells(8)
    assert both.waived == {"primary_suppression"}
    off = in_force(regime_of_sites({"a": site("off"), "b": site("off")}))
    assert off.control("primary_suppression") is None
    one = in_force(regime_of_sites({"a": site("off"), "b": site(None)}))
    assert one.control("primary_suppression") == SuppressCells(10)
    with_open = in_force(regime_of_sites({"a": site("5"), "b": Regimen("open_data")}))
    assert with_open.control("primary_suppression") == SuppressCells(5)
    assert in_force(regime_of_sites({"b": Regimen("open_data")})) == NO_RULE


def test_the_greatest_least_count_of_any_site_holds() -> None:
    assert regime_of_sites({"a": Regimen("dpuk", 15), "b": Regimen("open_data")}).count == 15


@pytest.mark.parametrize(
    ("regimen", "sentence"),
    [
        (Regimen("dpuk2"), "expected one of dpuk, open_data"),
        (
            Regimen("open_data", 0, (WaivedRule("group_10", "off", "w", "a", "2027-01-01"),)),
            "no rules to waive",
        ),
        (Regimen("dpuk", 0, (WaivedRule("group_9", "off", "w", "a", "2027-01-01"),)), "no rule group_9"),
        (Regimen("dpuk", 0, (WaivedRule("group_10", "5", "w", "a", "soon"),)), "expected a day"),
    ],
)
def test_an_approval_that_means_nothing_is_refused(regimen: Regimen, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        read_waivers("a", regimen)


def test_own_rules_can_be_waived_one_by_one() -> None:
    for name in OWN_RULES:
        assert name not in in_force(waiving(**{name: "off"})).own
        assert name in in_force(Regime("dpuk", held=frozenset({"a"}))).own


def test_a_smaller_minimum_is_a_minimum_still() -> None:
    control = in_force(waiving(group_10="4")).control("group_10")
    assert control == MinimumN(4, Of.GROUP)
