"""Proportion: everybody counted once, shares and intervals of statsmodels on all rows together."""

import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent
from cohortsum.study.statistics.binomial import wilson
from cohortsum.study.statistics.proportion import Proportion
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, with_analysis
from tests.study.pooled import DATA, federate, floats, needs_data, number, read_columns, row, split

INTERVALS: Any = import_module("statsmodels.stats.proportion")

FD = Number("fd", "mm", 0.0, 2.0)
DX = Factor("dx", ("control", "autism"))
HAND = Factor("hand", ("left", "right", "both"))
NAN = float("nan")


def people(fd: list[float] | NDArray[np.float64], **levels: list[int]) -> Batch:
    array = np.asarray(fd, np.float64)
    return Batch(
        len(array), {"fd": array}, {name: np.asarray(codes, np.int16) for name, codes in levels.items()}
    )


def test_people_above_a_threshold_count_and_people_at_it_do_not() -> None:
    statistic = Proportion("p", (FD,), (0.2, 0.5), (), (DX,))
    batch = people([0.1, 0.2, 0.3, 0.6, NAN, 0.9, 5.0], dx=[0, 0, 0, 0, 0, 1, -1])
    (table,) = statistic.finish(federate(statistic, split(batch, list("abababa")), batch_size=2))
    assert table.columns == (
        *("variable", "level", "dx", "count", "n", "proportion", "low", "high", "status", "missing"),
    )
    found = [(line[1], line[2], line[3], line[4], line[5], line[8], line[9]) for line in table.rows]
    assert found == [
        ("> 0.2", "control", 2, 4, 0.5, "ok", 1),
        ("> 0.2", "autism", 1, 1, 1.0, "ok", 0),
        ("> 0.5", "control", 1, 4, 0.25, "ok", 1),
        ("> 0.5", "autism", 1, 1, 1.0, "ok", 0),
    ]
    assert table.notes == ("People without a value of dx are in no row.",)


def test_levels_of_a_factor_share_the_people_who_have_one() -> None:
    statistic = Proportion("p", (), (), (HAND,), (DX,))
    batch = people([0.0] * 6, hand=[0, 1, 1, -1, 2, 1], dx=[0, 0, 0, 0, 1, -1])
    (table,) = statistic.finish(federate(statistic, split(batch, list("aabbab")), batch_size=1))
    found = [(line[1], line[2], line[3], line[4], line[5], line[9]) for line in table.rows]
    assert found == [
        ("left", "control", 1, 3, 1 / 3, 1),
        ("left", "autism", 0, 1, 0.0, 0),
        ("right", "control", 2, 3, 2 / 3, 1),
        ("right", "autism", 0, 1, 0.0, 0),
        ("both", "control", 0, 3, 0.0, 1),
        ("both", "autism", 1, 1, 1.0, 0),
    ]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400))
def test_the_interval_is_that_of_statsmodels(count: int, others: int) -> None:
    n = max(1, count + others)
    low, high = wilson(count, n)
    exact = INTERVALS.proportion_confint(count, n, method="wilson")
    assert [low, high] == pytest.approx([float(end) for end in exact], rel=1e-12, abs=1e-15)
    assert 0.0 <= low <= count / n <= high <= 1.0


def test_nobody_is_all_missing_and_what_was_not_opened_too_few_sites() -> None:
    statistic = Proportion("p", (FD,), (0.2,), (HAND,), ())
    total = federate(statistic, [people([NAN, NAN], hand=[-1, -1]), people([], hand=[])])
    (table,) = statistic.finish(total)
    found = row(table, variable="fd", level="> 0.2")
    assert (found["count"], found["n"], found["missing"], found["status"]) == (0, 0, 2, "all missing")
    assert found["proportion"] == Absent("no data")
    assert row(table, variable="hand", level="left")["status"] == "all missing"

    total = federate(statistic, [people([0.1, 0.9], hand=[0, 1])])
    del total["p/hand/hand[both]"], total["p/fd"]
    (table,) = statistic.finish(total)
    assert {line[-2] for line in table.rows} == {"too few sites"}
    withheld = Absent("too few sites")
    assert [line[2:7] for line in table.rows] == [
        (withheld,) * 5,
        (1, *(withheld,) * 4),
        (1, *(withheld,) * 4),
        (withheld,) * 5,
    ]


def test_a_level_is_supplied_by_sites_that_have_it() -> None:
    blocks = {block.name: block for block in Proportion("p", (FD,), (0.2,), (HAND,), (DX,)).layout()}
    assert blocks["p/fd/dx[autism]"].supply == (frozenset({"fd", "dx[autism]"}),)
    assert blocks["p/hand/dx[autism]/hand[left]"].supply == (frozenset({"hand[left]", "dx[autism]"}),)
    assert blocks["p/hand/dx[autism]/missing"].supply == (frozenset({"dx[autism]"}),)


def test_thresholds_are_put_in_order_and_part_people() -> None:
    study = frozen(
        with_analysis(
            "{kind: proportion, variables: [age, iq], thresholds: [50, 40], factors: [sex], by: [dx]}"
        )
    )
    spec = study.analyses["a"]
    assert spec.partings("age") == {40.0, 50.0}
    assert spec.partings("age2") == frozenset()
    assert spec.about == {"age", "iq", "sex"}
    assert spec.required == {"sex", "dx"}
    assert '"thresholds":[40.0,50.0]' in study.canonical.decode()


@needs_data
def test_scans_with_much_motion_equal_the_truth() -> None:
    truth = json.loads((DATA / "abide1_qc.truth.json").read_text())["fd_gt_0.2_by_dx"]
    columns = read_columns("abide1_qc.csv")
    fd = floats(columns["func_mean_fd"], missing=("", "NA", "n/a", "-9999"))
    dx = [{"1": 1, "2": 0}[text] for text in columns["DX_GROUP"]]
    statistic = Proportion("p", (FD,), (0.2,), (), (DX,))
    (table,) = statistic.finish(federate(statistic, split(people(fd, dx=dx), columns["SITE_ID"]), 100))
    for code, level in enumerate(DX.levels):
        found = row(table, variable="fd", level="> 0.2", dx=level)
        known = fd[np.array(dx) == code]
        n = int(np.count_nonzero(~np.isnan(known)))
        assert (found["count"], found["n"]) == (truth[str(code)], n)
        low, high = INTERVALS.proportion_confint(truth[str(code)], n, method="wilson")
        assert [number(found["low"]), number(found["high"])] == pytest.approx([low, high], rel=1e-12)
    assert [row(table, dx=level)["count"] for level in DX.levels] == [57, 105]
