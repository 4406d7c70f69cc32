"""Logistic and Poisson regressions on real tables equal the pooled truths that other programs computed."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.families import BINOMIAL, POISSON
from cohortsum.study.statistics.glm import Glm
from cohortsum.study.statistics.targets import Count, Event, Shift
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.pooled import (
    BITS,
    DATA,
    codes,
    federate_rounds,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    split,
)

RELATIVE = 1e-8


def truth(name: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{name}.truth.json").read_text())[key]
    return found


def assert_equal_truth(tables: tuple[Table, ...], known: dict[str, Any], names: dict[str, str]) -> None:
    """Compare n, df, deviance, log-likelihood, b and se of the truth file's terms ``names`` (theirs to ours)."""
    coefficients, fits = tables
    (fit,) = [dict(zip(fits.columns, cells, strict=True)) for cells in fits.rows]
    assert (fit["n"], fit["status"]) == (known["n"], "ok")
    assert number(fit["deviance"]) == pytest.approx(known["deviance"], rel=RELATIVE)
    assert fit["df"] == known.get("df_resid", fit["df"])
    if "loglik" in known:
        assert number(fit["log_likelihood"]) == pytest.approx(known["loglik"], rel=RELATIVE)
    for theirs, ours in names.items():
        found = row(coefficients, term=ours)
        assert found["status"] == "ok"
        assert number(found["b"]) == pytest.approx(known["coef"][theirs]["b"], rel=RELATIVE, abs=1e-11)
        assert number(found["se"]) == pytest.approx(known["coef"][theirs]["se"], rel=RELATIVE)


@needs_data
def test_impac_diagnosis_over_34_sites() -> None:
    columns = read_columns("impac_asd.csv")
    hippo = sum((floats(columns[f"{side}-Hippocampus"]) for side in ("Left", "Right")), np.zeros(1)) / 1000
    numbers = {"age": floats(columns["age"]), "hippo": hippo}
    numbers["icv"] = floats(columns["EstimatedTotalIntraCranialVol"]) / 1e6
    dx = Factor("dx", ("control", "autism"))
    variables: dict[str, Variable] = {
        "age": Number("age", "years", 5.0, 65.0),
        "sex": Factor("sex", ("female", "male")),
        "hippo": Number("hippo", "ml", 0.0, 20.0),
        "icv": Number("icv", "l", 0.0, 4.0),
    }
    levels = {"dx": codes(columns["asd"], "01"), "sex": codes(columns["sex"], "FM")}
    statistic = Glm(
        name="g",
        family=BINOMIAL,
        targets=(Event(dx, "autism"),),
        terms=("age", "sex", "hippo", "icv"),
        variables=variables,
        fraction_bits=BITS,
    )
    tables, rounds = federate_rounds(statistic, split(Batch(1150, numbers, levels), columns["site"]))
    names = {"Intercept": "intercept", "age": "age", "male": "sex[male]", "hippo": "hippo", "icvL": "icv"}
    assert_equal_truth(tables, truth("impac_asd", "logistic"), names)
    assert rounds <= 5


@needs_data
def test_cnsim_diabetes_with_an_interaction() -> None:
    columns = read_columns("cnsim1.csv", "cnsim2.csv", "cnsim3.csv")
    study = [str(1 + (i >= 2163) + (i >= 2163 + 3088)) for i in range(9379)]
    diabetes, gender = Factor("DIS_DIAB", ("0", "1")), Factor("GENDER", ("0", "1"))
    variables: dict[str, Variable] = {
        "GENDER": gender,
        "PM_BMI_CONTINUOUS": Number("PM_BMI_CONTINUOUS", "kg/m2", 0.0, 100.0),
        "LAB_HDL": Number("LAB_HDL", "mmol/l", -2.0, 6.0),
    }
    numbers = {name: floats(columns[name]) for name in ("PM_BMI_CONTINUOUS", "LAB_HDL")}

    def levels(name: str) -> NDArray[np.int16]:
        return np.array([-1 if text in ("", "NA") else int(text) for text in columns[name]], np.int16)

    batch = Batch(9379, numbers, {name: levels(name) for name in ("DIS_DIAB", "GENDER")})
    statistic = Glm(
        name="g",
        family=BINOMIAL,
        targets=(Event(diabetes, "1"),),
        terms=("GENDER", "PM_BMI_CONTINUOUS", "LAB_HDL", "GENDER:PM_BMI_CONTINUOUS"),
        variables=variables,
        fraction_bits=BITS,
    )
    tables, rounds = federate_rounds(statistic, split(batch, study))
    names = {"Intercept": "intercept", "GENDER": "GENDER[1]", "PM_BMI_CONTINUOUS": "PM_BMI_CONTINUOUS"}
    names |= {"LAB_HDL": "LAB_HDL", "GENDER:PM_BMI_CONTINUOUS": "GENDER[1]:PM_BMI_CONTINUOUS"}
    assert_equal_truth(tables, truth("cnsim", "binomial"), names)
    assert rounds <= 9


def dssurv() -> tuple[Batch, list[str], dict[str, Variable]]:
    """Return the person-intervals, each taken for a person, their studies, and the variables."""
    columns = read_columns("dssurv_expand1.csv", "dssurv_expand2.csv", "dssurv_expand3.csv")
    study = columns["study.id"]
    numbers = {
        "survtime": floats(columns["survtime"]),
        "cens": floats(columns["cens"]),
        "period": floats(columns["time.id"]),
        "age_60": floats(columns["age.60"]),
        "bmi_26": floats(columns["bmi.26"]),
    }

    def levels(name: str, known: str) -> NDArray[np.int16]:
        return np.array([known.find(text) if text else -1 for text in columns[name]], np.int16)

    batch = Batch(
        len(study),
        numbers,
        {
            "female": levels("female", "01"),
            "band": levels("time.id", "123456"),
            "study": np.array([sorted(set(study)).index(one) for one in study], np.int16),
        },
    )
    variables: dict[str, Variable] = {
        "female": Factor("female", ("0", "1")),
        "band": Factor("band", tuple("123456")),
        "study": Factor("study", ("1", "2", "3")),
        "period": Number("period", "1", 1.0, 6.0),
        "age_60": Number("age_60", "years", -60.0, 60.0),
        "bmi_26": Number("bmi_26", "kg/m2", -26.0, 40.0),
    }
    return batch, study, variables


@needs_data
def test_dssurv_survival_times_as_counts() -> None:
    batch, study, variables = dssurv()
    statistic = Glm(
        name="g",
        family=POISSON,
        targets=(Count(Number("survtime", "years", 0.0, 5.0)),),
        terms=("period", "female"),
        variables=variables,
        fraction_bits=BITS,
    )
    assert np.nanmax(batch.numbers["survtime"]) <= 5.0
    tables, rounds = federate_rounds(statistic, split(batch, study))
    names = {"Intercept": "intercept", "time_id": "period", "female": "female[1]"}
    assert_equal_truth(tables, truth("dssurv", "poisson_survtime"), names)
    assert rounds <= 6


@needs_data
def test_dssurv_piecewise_exponential_hazards_with_study_effects() -> None:
    batch, study, variables = dssurv()

    def exposed(people: Batch) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = people.numbers["survtime"] > 0.0
        return mask

    statistic = Glm(
        name="g",
        family=POISSON,
        targets=(Count(Number("cens", "events", 0.0, 1.0)),),
        terms=("band", "age_60", "female", "bmi_26", "study"),
        variables=variables,
        fraction_bits=BITS,
        shift=Shift(Number("survtime", "years", 1e-4, 5.0), logged=True),
        where=exposed,
    )
    positive = batch.numbers["survtime"][batch.numbers["survtime"] > 0.0]
    assert positive.min() >= 1e-4
    tables, rounds = federate_rounds(statistic, split(batch, study))
    names = {"Intercept": "intercept", "age_60": "age_60", "female": "female[1]", "bmi_26": "bmi_26"}
    names |= {f"C(time_id)[T.{band}]": f"band[{band}]" for band in range(2, 7)}
    names |= {f"C(study)[T.{one}]": f"study[{one}]" for one in (2, 3)}
    assert_equal_truth(tables, truth("dssurv", "piecewise_exponential"), names)
    assert rounds <= 8
