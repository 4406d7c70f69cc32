"""Proportional hazards on real tables equal the pooled truths that other programs computed."""

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.cox import Cox
from cohortsum.study.statistics.targets import Event
from cohortsum.study.variables import Factor, Number
from tests.study.pooled import (
    BITS,
    DATA,
    federate_rounds,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    slice_of,
    split,
)

PH: Any = import_module("statsmodels.duration.hazard_regression")
RELATIVE = 1e-8
SEEN = Factor("seen", ("alive", "dead"))


def truth(name: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{name}.truth.json").read_text())[key]
    return found


def assert_equal_truth(tables: tuple[Table, ...], known: dict[str, Any]) -> None:
    coefficients, fits = tables[:2]
    fit = row(fits, outcome="seen[dead]")
    assert (fit["n"], fit["events"], fit["status"]) == (known["n"], known["events"], "ok")
    assert number(fit["log_likelihood"]) == pytest.approx(known["loglik"], rel=RELATIVE)
    for name, one in known["coef"].items():
        found = row(coefficients, term=name)
        assert number(found["b"]) == pytest.approx(one["b"], rel=RELATIVE)
        assert number(found["se"]) == pytest.approx(one["se"], rel=RELATIVE)


def lung() -> tuple[Batch, list[str]]:
    columns = read_columns("lung_ncctg.csv")
    numbers = {
        "days": floats(columns["time"]),
        "age": floats(columns["age"]),
        "sex": floats(columns["sex"]),
        "ecog": floats(columns["ph.ecog"]),
    }
    seen = np.array([int(one) for one in columns["status"]], np.int16)
    return Batch(228, numbers, {"seen": seen}), columns["inst"]


def lung_model(ties: Any) -> Cox:
    return Cox(
        name="c",
        time=Number("days", "days", 0.0, 1100.0),
        event=Event(SEEN, "dead"),
        terms=("age", "sex", "ecog"),
        variables={
            "age": Number("age", "years", 30.0, 90.0),
            "sex": Number("sex", "1", 1.0, 2.0),
            "ecog": Number("ecog", "1", 0.0, 4.0),
        },
        fraction_bits=BITS,
        ties=ties,
    )


@needs_data
@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_lung_at_one_site_is_unstratified(ties: str) -> None:
    batch, _ = lung()
    tables, rounds = federate_rounds(lung_model(ties), [batch], 50)
    assert_equal_truth(tables, truth("lung_ncctg", f"cox_{ties}"))
    assert rounds <= 5


@needs_data
def test_lung_stratified_by_institution() -> None:
    batch, inst = lung()
    known = np.flatnonzero(np.array([one != "" for one in inst]))
    sites = split(slice_of(batch, known), [inst[place] for place in known])
    tables, rounds = federate_rounds(lung_model("breslow"), sites)
    assert_equal_truth(tables, truth("lung_ncctg", "cox_breslow_stratified_inst"))
    assert rounds <= 6


def dssurv(earlier: float) -> tuple[Cox, Batch, list[str]]:
    """Return the intervals, each taken for a person as the truth takes it, their starts moved, and their studies."""
    columns = read_columns("dssurv_expand1.csv", "dssurv_expand2.csv", "dssurv_expand3.csv")
    numbers = {
        "begin": floats(columns["starttime"]) - earlier,
        "end": floats(columns["endtime"]),
        "age_60": floats(columns["age.60"]),
        "female": floats(columns["female"]),
        "bmi_26": floats(columns["bmi.26"]),
    }
    seen = np.array(["01".find(one) if one else -1 for one in columns["cens"]], np.int16)
    statistic = Cox(
        name="c",
        time=Number("end", "years", 0.0, 20.0),
        start=Number("begin", "years", -1.0, 20.0),
        event=Event(SEEN, "dead"),
        terms=("age_60", "female", "bmi_26"),
        variables={
            "age_60": Number("age_60", "years", -60.0, 60.0),
            "female": Number("female", "1", 0.0, 1.0),
            "bmi_26": Number("bmi_26", "kg/m2", -26.0, 40.0),
        },
        fraction_bits=BITS,
    )
    return statistic, Batch(len(seen), numbers, {"seen": seen}), columns["study.id"]


@needs_data
@pytest.mark.parametrize("ties", ["breslow", "efron", "exact"])
def test_dssurv_intervals_with_late_entry_stratified_by_study(ties: Any) -> None:
    """The truth takes who comes at the time of an event for being at risk of it; here it is who came before it.

    That happens at one event of one study, so starts a little earlier give the truth. Ties are of one event: all rules agree.
    """
    statistic, batch, study = dssurv(1e-7)
    tables, rounds = federate_rounds(replace(statistic, ties=ties), split(batch, study))
    known = truth("dssurv", f"cox_stratified_by_study_{'efron' if ties == 'exact' else ties}")
    assert_equal_truth(tables, known)
    assert rounds <= 6


@needs_data
def test_dssurv_who_comes_at_the_time_of_an_event_is_not_at_risk_of_it() -> None:
    statistic, batch, study = dssurv(0.0)
    (coefficients, fits), _ = federate_rounds(statistic, split(batch, study))
    names = ("age_60", "female", "bmi_26")
    x = np.column_stack([batch.numbers[name] for name in names])
    begin, end, seen = batch.numbers["begin"], batch.numbers["end"], batch.levels["seen"]
    kept = ~np.isnan(x).any(axis=1) & ~np.isnan(begin) & ~np.isnan(end) & (seen >= 0) & (begin < end)
    strata = np.array([int(one) for one in study])[kept]
    model = PH.PHReg(
        end[kept], x[kept], status=seen[kept], entry=begin[kept] + 1e-7, strata=strata, ties="breslow"
    ).fit()
    assert number(row(fits, outcome="seen[dead]")["log_likelihood"]) == pytest.approx(
        float(model.llf), rel=1e-9
    )
    for place, name in enumerate(names):
        found = row(coefficients, term=name)
        assert number(found["b"]) == pytest.approx(float(model.params[place]), rel=RELATIVE)
        assert number(found["b"]) == pytest.approx(
            truth("dssurv", "cox_stratified_by_study_breslow")["coef"][name]["b"], rel=2e-3
        )
