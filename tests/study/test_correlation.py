"""Correlations: those of scipy, and partial ones of residuals, on all rows together."""

from importlib import import_module
from math import atanh, sqrt, tanh
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.correlation import Correlation
from cohortsum.study.variables import Factor, Number
from tests.study.models import AGE, OUTCOMES, VARIABLES, cohort, seeds
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
NUMBERS = (*OUTCOMES, AGE)


def asked(**changes: Any) -> Correlation:
    wanted: dict[str, Any] = {
        "name": "c",
        "numbers": NUMBERS,
        "given": (),
        "variables": VARIABLES | {one.name: one for one in OUTCOMES},
        "site_effect": "none",
        "missing": "complete",
        "fraction_bits": BITS,
    }
    return Correlation(**(wanted | changes))


def found(statistic: Correlation, batch: Batch, site: NDArray[Any]) -> Table:
    (table,) = statistic.finish(federate(statistic, split(batch, site)))
    return table


def dummies(labels: NDArray[Any]) -> Floats:
    return np.column_stack([(labels == label).astype(np.float64) for label in np.unique(labels)])


def partial(one: Floats, other: Floats, fixed: Floats) -> tuple[float, float, float, float]:
    """Return r, p and the interval of the residuals of two columns on ``fixed``, of full rank or not."""
    basis, sizes, _ = np.linalg.svd(fixed, full_matrices=False)
    rank = int(np.sum(sizes > sizes[0] * 1e-10))
    basis = basis[:, :rank]
    x, y = (column - basis @ (basis.T @ column) for column in (one, other))
    r = float(x @ y / sqrt(float(x @ x) * float(y @ y)))
    df = len(one) - rank - 1
    t = r * sqrt(df / (1 - r * r))
    reach = 1.959963984540054 / sqrt(df - 1)
    return r, float(2 * STATS.t.sf(abs(t), df)), tanh(atanh(r) - reach), tanh(atanh(r) + reach)


def assert_equal(line: dict[str, Any], oracle: tuple[float, float, float, float], relative: float) -> None:
    assert line["status"] == "ok"
    r, p, low, high = oracle
    assert number(line["r"]) == pytest.approx(r, rel=relative, abs=relative)
    assert number(line["p"]) == pytest.approx(p, rel=1e4 * relative, abs=1e-300)
    assert [number(line["low"]), number(line["high"])] == pytest.approx(
        [low, high], rel=relative, abs=relative
    )


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(["complete", "per_pair"]))
def test_plain_correlations_equal_scipy(seed: int, missing: str) -> None:
    batch, site = cohort(seed, people=80)
    table = found(asked(missing=missing), batch, site)
    values = {one.name: batch.numbers[one.name] for one in NUMBERS}
    everybody = ~np.isnan(np.column_stack(list(values.values()))).any(axis=1)
    assert len(table.rows) == 6
    for one, other, *_ in table.rows:
        x, y = values[str(one)], values[str(other)]
        cases = everybody if missing == "complete" else ~np.isnan(x) & ~np.isnan(y)
        oracle = STATS.pearsonr(x[cases], y[cases])
        interval = oracle.confidence_interval()
        line = row(table, variable_1=str(one), variable_2=str(other))
        assert_equal(line, (oracle.statistic, oracle.pvalue, interval.low, interval.high), 1e-10)
        assert (line["n"], line["df"], line["given"]) == (cases.sum(), cases.sum() - 2, "nothing")


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(["complete", "per_pair"]), st.sampled_from(["within", "none"]))
def test_partial_correlations_equal_those_of_residuals(seed: int, missing: str, site_effect: str) -> None:
    batch, site = cohort(seed, people=90)
    statistic = asked(numbers=OUTCOMES, given=("age", "dx"), missing=missing, site_effect=site_effect)
    table = found(statistic, batch, site)
    age, dx = batch.numbers["age"], batch.levels["dx"]
    values = {one.name: batch.numbers[one.name] for one in OUTCOMES}
    everybody = ~np.isnan(np.column_stack(list(values.values()))).any(axis=1)
    for one, other, *_ in table.rows:
        x, y = values[str(one)], values[str(other)]
        cases = everybody if missing == "complete" else ~np.isnan(x) & ~np.isnan(y)
        cases = cases & ~np.isnan(age) & (dx >= 0)
        centre = np.ones((cases.sum(), 1)) if site_effect == "none" else dummies(site[cases])
        fixed = np.column_stack([centre, age[cases] / 50, dx[cases] == 1, dx[cases] == 2])
        line = row(table, variable_1=str(one), variable_2=str(other))
        assert_equal(line, partial(x[cases], y[cases], fixed), 1e-9)
        assert (line["n"], line["given"]) == (cases.sum(), "age, dx")


def numbers_of(*names: str) -> tuple[Number, ...]:
    return tuple(Number(name, "1", -10.0, 10.0) for name in names)


def columns_of(**columns: Any) -> Batch:
    arrays = {name: np.asarray(values, np.float64) for name, values in columns.items()}
    return Batch(len(next(iter(arrays.values()))), arrays, {})


def test_statuses_name_what_is_wrong_with_a_pair() -> None:
    names = numbers_of("a", "b", "constant", "double")
    known = {one.name: one for one in names}
    a = [1.0, 2.0, 4.0, 3.0, -1.0]
    batch = columns_of(a=a, b=[2.0, 1.0, 5.0, 0.0, 3.0], constant=[0.1] * 5, double=[2 * one for one in a])
    table = found(asked(numbers=names, variables=known), batch, np.array(list("ababa")))
    assert row(table, variable_1="a", variable_2="constant")["status"] == "constant, not estimated"
    same = row(table, variable_1="a", variable_2="double")
    assert number(same["r"]) == pytest.approx(1.0, abs=1e-12)
    assert number(same["p"]) < 1e-12
    fixed = asked(numbers=names[:2], given=("double",), variables=known)
    assert found(fixed, batch, np.array(list("ababa"))).rows[0][8] == "aliased"
    (table,) = fixed.finish({})
    assert table.rows[0][3:9] == (*(Absent("too few sites"),) * 5, "too few sites")
    nobody = columns_of(a=[np.nan], b=[1.0], double=[1.0])
    assert found(fixed, nobody, np.array(["a"])).rows[0][7:9] == (0, "all missing")
    two = columns_of(a=[1.0, 2.0], b=[1.0, 3.0])
    assert (
        found(asked(numbers=names[:2], variables=known), two, np.array(["a", "b"])).rows[0][8]
        == "not estimable"
    )


def test_three_people_have_no_interval_and_exact_lines_end_at_one() -> None:
    names = numbers_of("a", "b")
    known = {one.name: one for one in names}
    statistic = asked(numbers=names, variables=known)
    line = found(statistic, columns_of(a=[1.0, 2.0, 4.0], b=[3.0, 1.0, 2.0]), np.array(list("aab"))).rows[0]
    assert (line[4], line[5], line[8], line[9]) == (Absent("no data"), Absent("no data"), "ok", 1)
    exact = found(
        statistic, columns_of(a=[-10.0, 10.0, 0.0], b=[10.0, -10.0, 0.0]), np.array(list("aab"))
    ).rows[0]
    assert exact[3:7] == (-1.0, -1.0, -1.0, 0.0)


def test_what_is_determined_already_costs_no_degree_of_freedom_and_is_named() -> None:
    names = numbers_of("a", "b", "z")
    known: dict[str, Any] = {one.name: one for one in names} | {"arm": Factor("arm", ("x", "y", "nobody"))}
    rng = np.random.default_rng(5)
    batch = columns_of(a=rng.normal(size=40), b=rng.normal(size=40), z=rng.normal(size=40))
    arm = rng.integers(0, 2, 40).astype(np.int16)
    batch = Batch(40, batch.numbers, {"arm": arm})
    statistic = asked(numbers=names[:2], given=("arm", "z"), variables=known)
    table = found(statistic, batch, rng.integers(0, 3, 40))
    fixed = np.column_stack([np.ones(40), arm.astype(np.float64), batch.numbers["z"]])
    assert_equal(row(table, variable_1="a"), partial(batch.numbers["a"], batch.numbers["b"], fixed), 1e-9)
    assert row(table, variable_1="a")["df"] == 40 - 4
    assert table.notes[1] == "Held fixed: arm, z."
    assert table.notes[-1].startswith("arm[nobody]: held fixed already")


def test_supply_asks_for_numbers_and_each_level_of_what_is_given() -> None:
    statistic = asked(numbers=OUTCOMES[:2], given=("sex",), site_effect="within")
    people, sites, products = statistic.layout()
    base = {"y0", "y1"}
    assert products.supply == (
        frozenset(base),
        frozenset({*base, "sex[female]"}),
        frozenset({*base, "sex[male]"}),
    )
    assert (people.name, sites.kind, products.kind) == ("c/complete/people", "site", "site")
    assert (people.sets, products.sets) == (
        ("c/complete",),
        ("c/complete", "c/complete/sex[female]", "c/complete/sex[male]"),
    )


@needs_data
def test_impac_thickness_equals_partial_correlations_of_pooled_residuals() -> None:
    columns = read_columns("impac_asd.csv")
    names = [name for name in columns if name.endswith("_thickness")][:20]
    values = {name: np.clip(floats(columns[name]), 0.0, 5.0) for name in names}
    age = floats(columns["age"])
    sex = codes(columns["sex"], ["F", "M"])
    numbers = tuple(Number(name, "mm", 0.0, 5.0) for name in names)
    known: dict[str, Any] = {one.name: one for one in numbers}
    known |= {"age": Number("age", "years", 0.0, 80.0), "sex": Factor("sex", ("F", "M"))}
    batch = Batch(1150, {**values, "age": age}, {"sex": sex})
    site = np.array(columns["site"])
    for site_effect in ("within", "none"):
        statistic = asked(numbers=numbers, given=("age", "sex"), variables=known, site_effect=site_effect)
        (table,) = statistic.finish(federate(statistic, split(batch, site), batch_size=50))
        centre = np.ones((1150, 1)) if site_effect == "none" else dummies(site)
        fixed = np.column_stack([centre, age / 50, sex.astype(np.float64)])
        for one, other, *_ in table.rows:
            oracle = partial(values[str(one)], values[str(other)], fixed)
            assert_equal(row(table, variable_1=str(one), variable_2=str(other)), oracle, 1e-9)
