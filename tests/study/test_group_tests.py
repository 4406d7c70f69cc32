"""Tests of means: those of scipy on all rows together."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.group_tests import GroupTests, TestName
from cohortsum.study.variables import Factor, Number
from tests.study.pooled import (
    BITS,
    Floats,
    codes,
    federate,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    split,
)

STATS: Any = import_module("scipy.stats")
LENGTH = Number("length", "mm", -3.0, 7.0)
DX = Factor("dx", ("control", "autism", "other"))
PAIRS = ((0, 1), (0, 2), (1, 2))
ALL: tuple[TestName, ...] = ("student", "welch", "anova")


def people(lengths: list[float] | Floats, dx: list[int]) -> Batch:
    array = np.asarray(lengths, np.float64)
    return Batch(len(array), {"length": array}, {"dx": np.asarray(dx, np.int16)})


def compared(*sites: Batch) -> Table:
    statistic = GroupTests("t", (LENGTH,), DX, ALL, BITS)
    (table,) = statistic.finish(federate(statistic, sites))
    return table


def comparison(first: int, second: int) -> str:
    return f"{DX.level_name(DX.levels[second])} - {DX.level_name(DX.levels[first])}"


def assert_equal(found: dict[str, Any], oracle: Any, relative: float) -> None:
    assert number(found["statistic"]) == pytest.approx(float(oracle.statistic), rel=relative, abs=relative)
    assert number(found["p"]) == pytest.approx(float(oracle.pvalue), rel=1e3 * relative, abs=1e-300)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(8, 80))
def test_all_three_equal_scipy(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    dx = rng.integers(0, 3, size)
    dx[:6] = [0, 0, 1, 1, 2, 2]
    lengths = np.clip(2 + 0.4 * dx + (1 + dx) * rng.normal(size=size) / 3, -3, 7)
    lengths[rng.random(size) < 0.1] = np.nan
    lengths[:6] = [1.0, 2.0, 1.5, 2.5, 2.0, 3.0]
    batch = people(lengths, dx.tolist())
    table = compared(*split(batch, rng.integers(0, 4, size)))
    groups = [lengths[(dx == level) & ~np.isnan(lengths)] for level in range(3)]
    for first, second in PAIRS:
        one, other = groups[first], groups[second]
        for test in ("student", "welch"):
            oracle = STATS.ttest_ind(other, one, equal_var=test == "student")
            found = row(table, test=test, comparison=comparison(first, second))
            assert found["status"] == "ok"
            assert_equal(found, oracle, 1e-9)
            assert number(found["df"]) == pytest.approx(float(oracle.df), rel=1e-9)
            assert number(found["estimate"]) == pytest.approx(other.mean() - one.mean(), rel=1e-9, abs=1e-11)
            low, high = oracle.confidence_interval()
            assert [number(found["low"]), number(found["high"])] == pytest.approx(
                [low, high], rel=1e-8, abs=1e-10
            )
            assert found["n"] == len(one) + len(other)
    found = row(table, test="anova")
    assert_equal(found, STATS.f_oneway(*groups), 1e-9)
    n = sum(map(len, groups))
    assert (found["df"], found["df2"], found["n"]) == (2, n - 3, n)
    assert found["estimate"] == Absent("no single estimate")


def test_columns_and_comparisons() -> None:
    table = compared(people([1.0, 2.0, 3.0, 4.0, 1.0, 5.0], [0, 0, 1, 1, 2, 2]))
    assert table.columns == (
        *("outcome", "test", "comparison", "estimate", "statistic", "df", "df2", "p", "n", "status"),
        *("low", "high"),
    )
    assert [line[2] for line in table.rows] == [*(comparison(*pair) for pair in PAIRS)] * 2 + ["dx"]
    assert table.notes == ("People without a value of dx are in no test.",)


def test_groups_without_people_or_spread_have_a_status_and_no_number() -> None:
    def statuses(lengths: list[float], dx: list[int]) -> list[Any]:
        table = compared(people(lengths, dx))
        absent = [line for line in table.rows if line[9] != "ok"]
        assert all(line[4] == Absent("no data") for line in absent)
        return [row(table, test=test, comparison=comparison(0, 1))["status"] for test in ALL[:2]] + [
            row(table, test="anova")["status"]
        ]

    assert statuses([], []) == ["all missing"] * 3
    assert statuses([1.0, 2.0], [0, 0]) == ["not estimable"] * 3
    assert statuses([0.1] * 4, [0, 0, 1, 1]) == ["constant, not estimated"] * 3
    assert statuses([0.1, 0.1, 0.3, 0.3], [0, 0, 1, 1]) == ["not estimable"] * 3
    assert statuses([1.0, 2.0, 4.0], [0, 0, 1]) == ["ok", "not estimable", "ok"]
    assert statuses([1.0, 4.0], [0, 1]) == ["not estimable"] * 3


def test_a_level_nobody_has_does_not_count_in_the_analysis_of_variance() -> None:
    lengths, dx = [1.0, 2.0, 4.0, 5.5, 3.0], [0, 0, 2, 2, 2]
    found = row(compared(people(lengths, dx)), test="anova")
    oracle = STATS.f_oneway(np.array(lengths[:2]), np.array(lengths[2:]))
    assert (found["df"], found["df2"]) == (1, 3)
    assert_equal(found, oracle, 1e-11)


def test_a_level_with_too_few_sites_takes_its_tests_along() -> None:
    statistic = GroupTests("t", (LENGTH,), DX, ALL, BITS)
    total = federate(statistic, [people([1.0, 2.0, 3.0, 5.0, 1.0, 5.0], [0, 0, 1, 1, 2, 2])])
    del total["t/length/dx[other]/sums"]
    (table,) = statistic.finish(total)
    assert [line[9] for line in table.rows] == [
        *(["ok", "too few sites", "too few sites"] * 2),
        "too few sites",
    ]
    assert row(table, test="anova")["n"] == Absent("too few sites")


@needs_data
def test_impac_volumes_and_thickness_equal_scipy() -> None:
    columns = read_columns("impac_asd.csv")
    names = [name for name in columns if name.endswith("_thickness")]
    dx = Factor("dx", ("control", "autism"))
    values = {name: floats(columns[name]) for name in names}
    outcomes = tuple(Number(name, "mm", 0.0, 5.0) for name in names)
    levels = codes([str(int(float(text))) for text in columns["asd"]], ["0", "1"])
    batch = Batch(1150, values, {"dx": levels})
    statistic = GroupTests("t", outcomes, dx, ALL, BITS)
    (table,) = statistic.finish(federate(statistic, split(batch, columns["site"]), batch_size=60))
    assert len(names) >= 68
    for name in names:
        clamped = np.clip(values[name], 0.0, 5.0)
        one, other = clamped[levels == 0], clamped[levels == 1]
        for test in ("student", "welch"):
            oracle = STATS.ttest_ind(other, one, equal_var=test == "student")
            assert_equal(row(table, outcome=name, test=test), oracle, 1e-9)
        assert_equal(row(table, outcome=name, test="anova"), STATS.f_oneway(one, other), 1e-9)
