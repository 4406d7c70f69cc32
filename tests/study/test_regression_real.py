"""Regressions on real tables equal the pooled truths that other programs computed."""

import json
from typing import Any

import numpy as np
import pytest

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.models import (
    AGE,
    SEX,
    fitted,
    regression,
)
from tests.study.pooled import (
    DATA,
    codes,
    floats,
    needs_data,
    number,
    read_columns,
    row,
)


def assert_equal_truth(
    table: Table, outcome: str, truth: dict[str, Any], names: dict[str, str], relative: float
) -> None:
    """Compare n, df, b, se, t and p of the truth file's terms ``names`` (theirs to ours)."""
    for theirs, ours in names.items():
        found, known = row(table, outcome=outcome, term=ours), truth["coef"][theirs]
        assert (found["n"], found["df"], found["status"]) == (truth["n"], truth["df_resid"], "ok")
        assert number(found["b"]) == pytest.approx(known["b"], rel=relative)
        assert number(found["se"]) == pytest.approx(known["se"], rel=relative)
        assert number(found["statistic"]) == pytest.approx(known["t"], rel=relative)
        assert number(found["p"]) == pytest.approx(known["p"], rel=100 * relative, abs=1e-300)


IMPAC_TERMS = {"asd": "asd[autism]", "age": "age", "male": "sex[male]"}
IMPAC_VARIABLES: dict[str, Variable] = {
    "asd": Factor("asd", ("control", "autism")),
    "sex": SEX,
    "age": AGE,
    "age2": Number("age2", "years^2", 25.0, 4225.0),
    "ICV": Number("ICV", "mm3", 0.0, 3e6),
}


def impac(outcomes: list[str]) -> tuple[Batch, list[str]]:
    columns = read_columns("impac_asd.csv")
    age = floats(columns["age"])
    numbers = {name: floats(columns[name]) for name in outcomes}
    numbers |= {"age": age, "age2": age**2, "ICV": floats(columns["EstimatedTotalIntraCranialVol"])}
    levels = {"asd": codes(columns["asd"], "01"), "sex": codes(columns["sex"], "FM")}
    return Batch(len(age), numbers, levels), columns["site"]


@needs_data
def test_impac_thickness_and_volumes_equal_the_mega_analysis() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["mega_fixed_site"]
    batch, site = impac(list(truth))
    thickness = tuple(Number(name, "mm", 0.0, 5.0) for name in truth if name.endswith("_thickness"))
    volumes = tuple(Number(name, "mm3", 0.0, 60000.0) for name in truth if not name.endswith("_thickness"))
    assert (len(thickness), len(volumes)) == (68, 16)
    for outcomes, terms, names in (
        (thickness, ("asd", "age", "sex"), IMPAC_TERMS),
        (volumes, ("asd", "age", "sex", "ICV"), {**IMPAC_TERMS, "ICV": "ICV"}),
    ):
        statistic = regression(outcomes=outcomes, terms=terms, variables=IMPAC_VARIABLES, effect="asd")
        table = fitted(statistic, batch, site)
        for outcome in outcomes:
            known = truth[outcome.name]
            assert_equal_truth(table, outcome.name, known, names, relative=1e-8)
            found = row(table, outcome=outcome.name, term="asd[autism]")
            for theirs, ours in (("d", "d"), ("se", "d_se"), ("lo", "d_low"), ("hi", "d_high")):
                assert number(found[ours]) == pytest.approx(known["cohen_d"][theirs], rel=1e-7)
            assert (found["n_reference"], found["n_level"]) == (601, 549)
        assert table.notes[0] == "Contributing sites: 34."
        assert "one arm only: 2;" in table.notes[1]


@needs_data
def test_impac_interaction_and_squared_age_equal_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())
    outcome, mean = (
        Number("Left-Hippocampus", "mm3", 0.0, 9000.0),
        Number("rh_MeanThickness_thickness", "mm", 0.0, 5.0),
    )
    batch, site = impac([outcome.name, mean.name])
    table = fitted(
        regression(
            outcomes=(outcome,), terms=("asd", "age", "sex", "ICV", "asd:age"), variables=IMPAC_VARIABLES
        ),
        batch,
        site,
    )
    names = {**IMPAC_TERMS, "ICV": "ICV", "asd:age": "asd[autism]:age"}
    assert_equal_truth(table, outcome.name, truth["interaction"], names, relative=1e-8)
    table = fitted(
        regression(outcomes=(mean,), terms=("asd", "age", "age2", "sex"), variables=IMPAC_VARIABLES),
        batch,
        site,
    )
    assert_equal_truth(table, mean.name, truth["age2"], {**IMPAC_TERMS, "I(age ** 2)": "age2"}, relative=1e-8)


@needs_data
def test_cnsim_equals_the_gaussian_glm_and_the_fit_with_study_effect() -> None:
    truth = json.loads((DATA / "cnsim.truth.json").read_text())
    columns = read_columns("cnsim1.csv", "cnsim2.csv", "cnsim3.csv")
    study = [str(1 + (i >= 2163) + (i >= 2163 + 3088)) for i in range(9379)]
    numbers = {name: floats(columns[name]) for name in ("LAB_TSC", "LAB_TRIG", "PM_BMI_CONTINUOUS")}
    batch = Batch(9379, numbers, {"GENDER": codes(columns["GENDER"], "01")})
    variables: dict[str, Variable] = {
        "LAB_TRIG": Number("LAB_TRIG", "mmol/l", -20.0, 40.0),
        "PM_BMI_CONTINUOUS": Number("PM_BMI_CONTINUOUS", "kg/m2", 0.0, 100.0),
        "GENDER": Factor("GENDER", ("0", "1")),
    }
    asked: dict[str, Any] = {"outcomes": (Number("LAB_TSC", "mmol/l", 0.0, 20.0),), "variables": variables}
    plain = fitted(regression(terms=("LAB_TRIG",), site_effect="none", **asked), batch, study, 1000)
    names = {"Intercept": "intercept", "LAB_TRIG": "LAB_TRIG"}
    assert_equal_truth(plain, "LAB_TSC", truth["gaussian"], names, relative=1e-8)
    within = fitted(
        regression(terms=("LAB_TRIG", "PM_BMI_CONTINUOUS", "GENDER"), **asked), batch, study, 1000
    )
    names = {"LAB_TRIG": "LAB_TRIG", "PM_BMI_CONTINUOUS": "PM_BMI_CONTINUOUS"}
    names |= {"GENDER": "GENDER[1]"} if "GENDER" in truth["with_study_effect"]["coef"] else {}
    assert_equal_truth(within, "LAB_TSC", truth["with_study_effect"], names, relative=1e-8)


@needs_data
def test_abide_motion_with_one_sex_sites_equals_the_truth() -> None:
    truth = json.loads((DATA / "abide1_qc.truth.json").read_text())["fd_model"]
    columns = read_columns("abide1_qc.csv")
    numbers = {name: floats(columns[name], ("", "-9999")) for name in ("func_mean_fd", "AGE_AT_SCAN")}
    levels = {"dx": codes(columns["DX_GROUP"], "21"), "sex": codes(columns["SEX"], "21")}
    variables: dict[str, Variable] = {
        "dx": Factor("dx", ("control", "autism")),
        "sex": SEX,
        "AGE_AT_SCAN": Number("AGE_AT_SCAN", "years", 5.0, 65.0),
    }
    statistic = regression(
        outcomes=(Number("func_mean_fd", "mm", 0.0, 10.0),),
        terms=("dx", "AGE_AT_SCAN", "sex"),
        variables=variables,
    )
    table = fitted(statistic, Batch(1112, numbers, levels), columns["SITE_ID"])
    names = {"asd": "dx[autism]", "AGE_AT_SCAN": "AGE_AT_SCAN", "male": "sex[male]"}
    assert_equal_truth(table, "func_mean_fd", truth, names, relative=1e-8)


@needs_data
def test_fcon_quadratic_age_equals_the_truth() -> None:
    truth = json.loads((DATA / "fcon1000.truth.json").read_text())["quadratic_age"]
    columns = read_columns("fcon1000.csv")
    age = floats(columns["age"])
    left, right = (floats(columns[f"{side}_MeanThickness_thickness"]) for side in ("lh", "rh"))
    numbers = {"age": age, "age2": age**2, "meanth": (left + right) / 2}
    sex = np.array([int(float(text)) for text in columns["sex"]], np.int16)
    variables: dict[str, Variable] = {
        "age": Number("age", "years", 0.0, 100.0),
        "age2": Number("age2", "years^2", 0.0, 10000.0),
        "sex": Factor("sex", ("0", "1")),
    }
    statistic = regression(
        outcomes=(Number("meanth", "mm", 0.0, 5.0),), terms=("age", "age2", "sex"), variables=variables
    )
    table = fitted(statistic, Batch(len(age), numbers, {"sex": sex}), columns["site"])
    names = {"age": "age", "I(age ** 2)": "age2", "sex": "sex[1]"}
    assert_equal_truth(table, "meanth", truth, names, relative=1e-8)
