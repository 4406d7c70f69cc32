"""Kaplan-Meier and log-rank on a grid: equal to lifelines where the grid holds every time, within the stated bound elsewhere."""

import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.report.tables import from_csv, to_csv
from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.definition.kinds.followed import Grid
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.followed import Followed
from cohortsum.study.statistics.kaplan_meier import KaplanMeier
from cohortsum.study.statistics.logrank import Logrank
from cohortsum.study.statistics.targets import Event
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, small
from tests.study.pooled import DATA, federate, needs_data, number, read_columns, row, split

LIFELINES: Any = import_module("lifelines")
TESTS: Any = import_module("lifelines.statistics")

DAYS = Number("days", "days", 0.0, 1200.0)
SEEN = Factor("seen", ("alive", "dead"))
SEX = Factor("sex", ("male", "female"))
ARM = Factor("arm", ("a", "b", "c"))


def grid(step: float, to: float) -> tuple[float, ...]:
    return tuple(step * one for one in range(1, round(to / step) + 1))


def curve(times: tuple[float, ...], **changes: Any) -> KaplanMeier:
    return KaplanMeier(name="km", time=DAYS, event=Event(SEEN, "dead"), times=times, **changes)


def logrank(times: tuple[float, ...], *by: Factor) -> Logrank:
    return Logrank(name="lr", time=DAYS, event=Event(SEEN, "dead"), times=times, by=by)


def followed(days: Any, dead: Any, **factors: Any) -> Batch:
    levels = {name: np.asarray(values, np.int16) for name, values in {"seen": dead, **factors}.items()}
    return Batch(len(levels["seen"]), {"days": np.asarray(days, np.float64)}, levels)


def column_until(table: Table, name: str) -> list[float]:
    """Return a column up to where nobody is at risk any more."""
    status, place = table.columns.index("status"), table.columns.index(name)
    return [number(line[place]) for line in table.rows if line[status] == "ok"]


def tables(statistic: Followed, *sites: Batch) -> tuple[Table, ...]:
    return statistic.finish(federate(statistic, sites))


people = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=60
)


@settings(max_examples=60, deadline=None)
@given(people)
def test_a_grid_with_every_time_gives_the_curve_and_intervals_of_lifelines(
    rows: list[tuple[int, int, int]],
) -> None:
    days, dead, _ = (np.array(one) for one in zip(*rows, strict=True))
    days = days + 1
    known = LIFELINES.KaplanMeierFitter().fit(days, dead)
    at, medians = tables(curve(grid(1, 45), censored="end"), followed(days, dead))
    ends = known.confidence_interval_survival_function_
    for line in at.rows:
        found = dict(zip(at.columns, line, strict=True))
        if found["status"] == "not estimable":
            assert found["survival"] == Absent("nobody at risk")
            continue
        time = number(found["time"])
        survival = number(found["survival"])
        assert survival == pytest.approx(float(known.predict(time)), abs=1e-12)
        place = int(np.searchsorted(ends.index.to_numpy(), time, side="right")) - 1
        if 0.0 < survival < 1.0:
            assert [number(found["low"]), number(found["high"])] == pytest.approx(
                ends.iloc[place].tolist(), abs=1e-9
            )
    if np.any(
        np.abs(np.array(column_until(at, "survival")) - 0.5) < 1e-9
    ):  # lifelines may miss one half by rounding
        return
    median = float(known.median_survival_time_)
    found_median = row(medians, status="ok")["median"]
    assert found_median == (Absent("not reached") if np.isinf(median) else median)


@settings(max_examples=80, deadline=None)
@given(people, st.integers(2, 20), st.sampled_from(["half", "end"]))
def test_a_coarse_grid_keeps_its_bound(rows: list[tuple[int, int, int]], step: int, censored: str) -> None:
    days, dead, _ = (np.array(one) for one in zip(*rows, strict=True))
    known = LIFELINES.KaplanMeierFitter().fit(days, dead)
    at, _ = tables(curve(grid(step, 60), censored=censored), followed(days, dead))
    for line in at.rows[1:]:
        found = dict(zip(at.columns, line, strict=True))
        if found["status"] == "ok":
            apart = abs(number(found["survival"]) - float(known.predict(number(found["time"]))))
            assert apart <= number(found["error_bound"]) + 1e-12


@settings(max_examples=60, deadline=None)
@given(people)
def test_the_log_rank_test_equals_lifelines(rows: list[tuple[int, int, int]]) -> None:
    days, dead, arm = (np.array(one) for one in zip(*rows, strict=True))
    test, groups = tables(logrank(grid(1, 45), ARM), followed(days + 1, dead, arm=arm))
    found = dict(zip(test.columns, test.rows[0], strict=True))
    assert (found["n"], found["events"]) == (len(rows), int(dead.sum()))
    observed, expected = (
        [line[groups.columns.index(name)] for line in groups.rows] for name in ("observed", "expected")
    )
    assert sum(map(number, observed)) == pytest.approx(sum(map(number, expected)), abs=1e-9)
    if found["status"] != "ok":
        assert found["chi2"] == Absent("no data")
        return
    if len(set(arm.tolist())) - 1 != found["df"]:  # a group that was never at risk together with the others
        return
    known = TESTS.multivariate_logrank_test(days + 1, arm, dead)
    assert number(found["chi2"]) == pytest.approx(float(known.test_statistic), rel=1e-7, abs=1e-9)
    assert number(found["p"]) == pytest.approx(float(known.p_value), rel=1e-6)


def test_everybody_is_in_one_count() -> None:
    batch = followed([0, 7, 7.5, 14, 15, np.nan, 3], [1, 1, 0, 0, 1, 1, -1])
    sums = federate(curve((7.0, 14.0)), [batch])
    assert {name: total.tolist() for name, total in sums.items()} == {"km/days": [2, 0, 0, 2, 1]}
    at, medians = tables(curve((7.0, 14.0), censored="end"), batch)
    assert at.columns == (
        *("time", "at_risk", "events", "survival", "low", "high", "status", "se", "error_bound", "censored"),
    )
    assert [line[:3] for line in at.rows] == [(0.0, 5, 0), (7.0, 5, 2), (14.0, 3, 0)]
    assert at.rows[1][3] == 0.6
    assert medians.rows == ((5, 2, Absent("not reached"), 7.0, Absent("not reached"), "ok"),)


def test_groups_stand_for_themselves() -> None:
    batch = followed([5, 6, 7, 8, 9, 9], [1, 1, 1, 0, 0, 0], arm=[0, 0, 0, 2, 2, -1])
    statistic = curve((10.0,), by=(ARM,))
    at, medians = tables(statistic, batch)
    assert row(medians, arm="b")["status"] == "all missing"
    assert (row(medians, arm="a")["n"], row(medians, arm="c")["n"]) == (3, 2)
    assert row(medians, arm="a")["median"] == 10.0
    lost = {name: total for name, total in federate(statistic, [batch]).items() if "arm[c]" not in name}
    at, medians = statistic.finish(lost)
    assert row(medians, arm="c")["status"] == "too few sites"
    assert {line[-4] for line in at.rows if line[0] == "c"} == {"too few sites"}
    test, groups = logrank((10.0,), ARM).finish({})
    assert test.rows == (("arm", *(Absent("too few sites"),) * 5, "too few sites"),)
    assert {line[-1] for line in groups.rows} == {"too few sites"}


def test_nobody_and_no_event() -> None:
    nobody = followed([], [], arm=[])
    at, medians = tables(curve((10.0,)), nobody)
    assert {line[6] for line in at.rows} == {medians.rows[0][-1]} == {"all missing"}
    test, _ = tables(logrank((10.0,), ARM), nobody)
    assert test.rows[0][-1] == "all missing"
    quiet = followed([3, 4], [0, 0], arm=[0, 1])
    test, _ = tables(logrank((10.0,), ARM), quiet)
    assert test.rows[0][-1] == "not estimable"
    at, medians = tables(curve((10.0, 20.0)), quiet)
    assert [line[3] for line in at.rows] == [1.0, 1.0, Absent("nobody at risk")]
    assert medians.rows[0][2] == Absent("not reached")


def test_the_tables_read_back_from_csv() -> None:
    batch = followed([5, 6, 7, 8, 9, 9], [1, 1, 1, 0, 0, 0], arm=[0, 0, 0, 2, 2, -1])
    found = (*tables(curve((6.0, 10.0, 12.0), by=(ARM,)), batch), *tables(logrank((10.0,), ARM), batch))
    for table in found:
        again = from_csv(to_csv(table), table.analysis, table.kind)
        assert again.columns == table.columns
        for line, known in zip(again.rows, table.rows, strict=True):
            assert [cell for cell in line if not isinstance(cell, Absent)] == [
                cell for cell in known if not isinstance(cell, Absent)
            ]


def test_a_study_asks_for_both() -> None:
    text = small(
        "a: {kind: summary, variables: [age]}",
        "a: {kind: kaplan_meier, time: age, status: sex, grid: {step: 7, to: 30}, by: [dx]}\n"
        "  b: {kind: logrank, time: age, status: dx, event: other, times: [1, 2.5], by: [sex]}",
    )
    study = frozen(text)
    km, lr = (statistic_of(study, study.analyses[name]) for name in "ab")
    assert isinstance(km, KaplanMeier)
    assert isinstance(lr, Logrank)
    assert (km.times, km.event) == ((7.0, 14.0, 21.0, 28.0, 30.0), Event(study.factors["sex"], "male"))
    assert (lr.times, lr.event.name, lr.by) == ((1.0, 2.5), "dx[other]", (study.factors["sex"],))
    spec = study.analyses["a"]
    assert spec.required == {"sex", "dx"}
    assert spec.suppliable == {"age"}
    assert spec.about == {"age", "sex"}
    assert (spec.partings("age"), spec.partings("iq")) == (frozenset(km.times), frozenset())
    assert km.layout()[0].supply[0] == {"age", "dx[control]"}


def test_times_of_a_grid_are_the_decimals_that_somebody_would_write() -> None:
    times = Grid(step=0.29, to=29.0).times()
    assert times == tuple(29 * place / 100 for place in range(1, 101))
    assert 0.29 * 100 < 29.0  # in floating point, so the last time would be there twice
    assert Grid(step=0.1, to=0.35).times() == (0.1, 0.2, 0.3, 0.35)


def lung() -> tuple[Batch, list[str]]:
    columns = read_columns("lung_ncctg.csv")
    sex = np.array([int(one) - 1 for one in columns["sex"]])
    return (
        followed([float(one) for one in columns["time"]], [int(one) for one in columns["status"]], sex=sex),
        columns["inst"],
    )


def truth(key: str) -> Any:
    return json.loads((DATA / "lung_ncctg.truth.json").read_text())[key]


@needs_data
@pytest.mark.parametrize(("step", "most"), [(1, 0.00023), (7, 0.00072), (30, 0.0029)])
def test_lung_curves_by_step(step: int, most: float) -> None:
    batch, inst = lung()
    at, _ = tables(curve(grid(step, 1110)), *split(batch, inst))
    exact, medians = tables(curve(grid(1, 1110), censored="end"), *split(batch, inst))
    every = dict(zip(column_until(exact, "time"), column_until(exact, "survival"), strict=True))
    for time, survival in truth("km_at").items():
        assert every[float(time)] == pytest.approx(survival, rel=1e-12)
    assert medians.rows[0][2] == truth("km_median")
    apart = [
        abs(survival - every[time])
        for time, survival in zip(column_until(at, "time"), column_until(at, "survival"), strict=True)
        if time in every
    ]
    assert max(apart) <= most


@needs_data
def test_lung_by_sex_equals_the_truth() -> None:
    batch, inst = lung()
    _, medians = tables(curve(grid(1, 1110), by=(SEX,), censored="end"), *split(batch, inst))
    known = truth("km_median_by_sex")
    assert [line[3] for line in medians.rows] == [known["1"], known["2"]]
    test, _ = tables(logrank(grid(1, 1110), SEX), *split(batch, inst))
    exact = truth("logrank_sex")
    found = row(test, comparison="sex")
    assert number(found["chi2"]) == pytest.approx(exact["chi2"], rel=1e-12)
    assert number(found["p"]) == pytest.approx(exact["p"], rel=1e-10)
    assert (found["n"], found["events"], found["df"]) == (228, 165, 1)
    coarse, _ = tables(logrank(grid(7, 1106), SEX), *split(batch, inst))
    assert number(row(coarse, comparison="sex")["chi2"]) == pytest.approx(exact["chi2"], rel=0.02)
