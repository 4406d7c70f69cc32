"""Summary: exact sums, right moments, honest statuses."""

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
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.variables import Factor, Number
from tests.study.pooled import BITS, DATA, federate, floats, needs_data, number, read_columns, row, split

STATS: Any = import_module("scipy.stats")

LENGTH = Number("length", "mm", -3.0, 7.0)
DX = Factor("dx", ("control", "autism"))
SEX = Factor("sex", ("female", "male"))

values = st.lists(st.one_of(st.floats(-3.0, 7.0), st.just(float("nan"))), max_size=40)


def people(lengths: NDArray[np.float64] | list[float], **levels: list[int]) -> Batch:
    array = np.asarray(lengths, np.float64)
    return Batch(
        len(array),
        {"length": array},
        {name: np.asarray(codes, np.int16) for name, codes in levels.items()},
    )


@settings(max_examples=60, deadline=None)
@given(values, st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 5))
def test_sites_batches_and_order_do_not_change_an_integer(
    lengths: list[float], seed: int, batch_size: int, sites: int
) -> None:
    statistic = Summary("s", (LENGTH,), (), BITS)
    whole = federate(statistic, [people(lengths)], batch_size=1000)
    mixed = list(lengths)
    np.random.default_rng(seed).shuffle(mixed)
    parts = [people(mixed[site::sites]) for site in range(sites)]
    for name, total in federate(statistic, parts, batch_size).items():
        assert np.array_equal(total, whole[name])


def test_nobody_is_counted_twice() -> None:
    wide = Number("length", "mm", -(2.0**20), 2.0**20)
    powers = people([2.0**power for power in range(20)])
    sums = federate(
        Summary("s", (wide,), (), BITS), split(powers, [str(i % 3) for i in range(20)]), batch_size=3
    )
    assert int(sums["s/length/sums"][0]) == (2**20 - 1) << (BITS - 20)
    assert list(sums["s/length/people"]) == [20, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-3.0, 7.0), min_size=2, max_size=60))
def test_mean_and_sd_equal_numpy_within_the_grid(lengths: list[float]) -> None:
    (table,) = Summary("s", (LENGTH,), (), BITS).finish(
        federate(Summary("s", (LENGTH,), (), BITS), [people(lengths)])
    )
    found = row(table, variable="length")
    # rounding u by half a unit moves the mean by 5 mm * 2**-45, and 3/2 units of u^2 per person the variance
    assert number(found["mean"]) == pytest.approx(np.mean(lengths), rel=1e-14, abs=5 * 2.0**-BITS)
    exact = float(np.var(lengths, ddof=1))
    assert number(found["variance"]) == pytest.approx(exact, rel=1e-12, abs=2 * 25 * 2 * 2.0**-BITS)
    assert number(found["sd"]) ** 2 == pytest.approx(number(found["variance"]), rel=1e-14)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_values_at_both_bounds_keep_the_bound_of_the_block(lower: float, width: float) -> None:
    awkward = Number("length", "mm", lower, lower + width)
    sums = federate(Summary("s", (awkward,), (), 52), [people([awkward.lower, awkward.upper])])
    u, squares = (int(total) for total in sums["s/length/sums"])
    assert list(sums["s/length/people"]) == [2, 0]
    assert abs(u) <= 2 << 52
    assert 0 < squares <= 2 << 52


def test_a_value_outside_the_range_cannot_break_the_bound() -> None:
    inside = federate(Summary("s", (LENGTH,), (), BITS), [people([7.0, -3.0])])
    outside = federate(Summary("s", (LENGTH,), (), BITS), [people([1e300, -1e300])])
    assert all(np.array_equal(inside[name], outside[name]) for name in inside)


def test_cells_cross_the_levels_and_hold_their_own_people() -> None:
    batch = people([1.0, 2.0, 3.0, 4.0, float("nan"), 6.0], dx=[0, 0, 1, 1, 1, -1], sex=[0, 1, 0, 0, 0, 0])
    statistic = Summary("s", (LENGTH,), (DX, SEX), BITS)
    (table,) = statistic.finish(federate(statistic, split(batch, list("ababab")), batch_size=2))
    assert table.columns == (
        *("variable", "dx", "sex", "n", "missing", "mean", "sd", "mean_noise_se", "status", "variance"),
    )
    cells = [(line[1], line[2], line[3], line[4], line[8]) for line in table.rows]
    assert cells == [
        ("control", "female", 1, 0, "ok"),
        ("control", "male", 1, 0, "ok"),
        ("autism", "female", 2, 1, "ok"),
        ("autism", "male", 0, 0, "all missing"),
    ]
    assert number(row(table, dx="autism", sex="female")["mean"]) == pytest.approx(3.5, rel=1e-12)
    assert number(row(table, dx="autism", sex="female")["variance"]) == pytest.approx(0.5, rel=1e-11)
    assert table.notes == ("People without a value of dx, sex are in no row.",)


def test_a_cell_is_supplied_by_sites_with_variable_and_levels() -> None:
    blocks = {block.name: block for block in Summary("s", (LENGTH,), (DX,), BITS).layout()}
    assert blocks["s/length/dx[autism]/sums"].supply == (frozenset({"length", "dx[autism]"}),)
    assert blocks["s/length/dx[autism]/people"].fraction_bits == 0


def test_one_person_has_a_mean_and_no_sd() -> None:
    statistic = Summary("s", (LENGTH,), (), BITS)
    (table,) = statistic.finish(federate(statistic, [people([2.5])]))
    found = row(table, variable="length")
    assert found["status"] == "ok"
    assert number(found["mean"]) == pytest.approx(2.5, rel=1e-12)
    assert isinstance(found["sd"], Absent)
    assert isinstance(found["variance"], Absent)


def test_equal_values_have_variance_zero() -> None:
    statistic = Summary("s", (LENGTH,), (), BITS)
    (table,) = statistic.finish(federate(statistic, [people([0.1] * 31)]))
    found = row(table, variable="length")
    assert (found["status"], found["sd"], found["variance"]) == ("ok", 0.0, 0.0)


def test_nobody_is_all_missing_and_an_unopened_block_too_few_sites() -> None:
    statistic = Summary("s", (LENGTH,), (), BITS)
    (table,) = statistic.finish(federate(statistic, [people([float("nan")] * 3), people([])]))
    found = row(table, variable="length")
    assert (found["n"], found["missing"], found["status"]) == (0, 3, "all missing")
    (table,) = statistic.finish({})
    found = row(table, variable="length")
    assert found["status"] == "too few sites"
    assert isinstance(found["n"], Absent)


def test_where_leaves_other_people_out_of_every_count() -> None:
    batch = people([1.0, 2.0, float("nan"), float("nan")], dx=[0, 1, 0, 1])
    statistic = Summary("s", (LENGTH,), (), BITS, where=lambda one: one.levels["dx"] == 1)
    assert list(federate(statistic, [batch])["s/length/people"]) == [1, 1]


def test_skewness_and_kurtosis_have_a_block_of_their_own() -> None:
    plain = Summary("s", (LENGTH,), (DX, SEX), BITS)
    four = Summary("s", (LENGTH,), (DX, SEX), BITS, moments=4)
    kept = [block for block in four.layout() if not block.name.endswith("/moments")]
    assert tuple(kept) == plain.layout()
    assert len(four.layout()) - len(kept) == 4
    batch = people([1.0, 2.0, 3.0, -1.0], dx=[0, 0, 1, 1], sex=[0, 0, 0, 1])
    opened = federate(four, [batch])
    assert all(np.array_equal(opened[name], total) for name, total in federate(plain, [batch]).items())
    (table,) = plain.finish(opened)
    assert "skewness" not in table.columns


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-3.0, 7.0), min_size=4, max_size=60))
def test_skewness_and_kurtosis_equal_scipy_or_are_absent(lengths: list[float]) -> None:
    statistic = Summary("s", (LENGTH,), (), BITS, moments=4)
    (table,) = statistic.finish(federate(statistic, [people(lengths[::2]), people(lengths[1::2])]))
    found = row(table, variable="length")
    reasons = (Absent("no spread"), Absent("range too wide"))
    spread = float(np.std(lengths)) / 5
    if spread < 1e-6:
        assert found["skewness"] in reasons
        assert found["kurtosis"] in reasons
        return
    if found["skewness"] not in reasons:
        exact = float(STATS.skew(lengths, bias=False))
        assert number(found["skewness"]) == pytest.approx(exact, rel=1e-6, abs=1e-6)
    if found["kurtosis"] not in reasons:
        exact = float(STATS.kurtosis(lengths, bias=False))
        assert number(found["kurtosis"]) == pytest.approx(exact, rel=1e-6, abs=1e-6)
    if spread > 0.2:
        assert (found["skewness"] in reasons, found["kurtosis"] in reasons) == (False, False)


def test_few_people_and_no_spread_have_no_shape() -> None:
    statistic = Summary("s", (LENGTH,), (), BITS, moments=4)
    for lengths, skewness, kurtosis in (
        ([1.0, 2.0], "no data", "no data"),
        ([0.1] * 9, "no spread", "no spread"),
        ([0.1, 0.1 + 1e-4, 0.1, 0.1], "range too wide", "range too wide"),
    ):
        (table,) = statistic.finish(federate(statistic, [people(lengths)]))
        found = row(table, variable="length")
        assert (found["skewness"], found["kurtosis"]) == (Absent(skewness), Absent(kurtosis))
    (table,) = statistic.finish(federate(statistic, [people([1.0, 2.0, 4.0])]))
    assert number(row(table, variable="length")["skewness"]) == pytest.approx(
        float(STATS.skew([1, 2, 4], bias=False)), rel=1e-9
    )
    assert row(table, variable="length")["kurtosis"] == Absent("no data")
    (table,) = statistic.finish({})
    assert row(table, variable="length")["kurtosis"] == Absent("too few sites")


@needs_data
def test_impac_skewness_and_kurtosis_equal_scipy_by_two_factors() -> None:
    columns = read_columns("impac_asd.csv")
    names = ("age", "lh_MeanThickness_thickness", "EstimatedTotalIntraCranialVol", "Left-Hippocampus")
    values = {name: floats(columns[name]) for name in names}
    variables = tuple(Number(name, "mm", 0.0, 1.5 * float(values[name].max())) for name in names)
    levels = {
        "dx": np.array([int(float(text)) for text in columns["asd"]], np.int16),
        "sex": np.array([text == "M" for text in columns["sex"]], np.int16),
    }
    batch = Batch(1150, values, levels)
    statistic = Summary("s", variables, (DX, SEX), BITS, moments=4)
    (table,) = statistic.finish(federate(statistic, split(batch, columns["site"]), batch_size=40))
    for name in names:
        for dx, sex in ((0, 0), (0, 1), (1, 0), (1, 1)):
            group = values[name][(levels["dx"] == dx) & (levels["sex"] == sex)]
            found = row(table, variable=name, dx=DX.levels[dx], sex=SEX.levels[sex])
            for column, oracle in (("skewness", STATS.skew), ("kurtosis", STATS.kurtosis)):
                exact = float(oracle(group, bias=False))
                assert number(found[column]) == pytest.approx(exact, rel=1e-6, abs=1e-8)


@needs_data
def test_cnsim_mean_equals_the_published_value() -> None:
    truth = json.loads((DATA / "cnsim.truth.json").read_text())["LAB_TSC"]["pooled"]
    sites = [
        Batch(len(column), {"LAB_TSC": column}, {})
        for column in (floats(read_columns(f"cnsim{study}.csv")["LAB_TSC"]) for study in (1, 2, 3))
    ]
    statistic = Summary("s", (Number("LAB_TSC", "mmol/l", 0.0, 20.0),), (), BITS)
    (table,) = statistic.finish(federate(statistic, sites, batch_size=1001))
    found = row(table, variable="LAB_TSC")
    assert (found["n"], found["missing"]) == (7825, 1554)
    assert number(found["mean"]) == pytest.approx(truth["mean"], rel=1e-12)
    assert number(found["variance"]) == pytest.approx(truth["var_ddof1"], rel=1e-10)


@needs_data
def test_impac_moments_and_clamped_means_equal_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())
    columns = read_columns("impac_asd.csv")
    described = {name: (0.0, 1.5 * known["max"]) for name, known in truth["describe"].items()}
    clamped = {
        name: (float(known["lo"]), float(known["hi"])) for name, known in truth["clamped_means"].items()
    }
    for ranges, block, key in ((described, "describe", "mean"), (clamped, "clamped_means", "mean_clip")):
        variables = tuple(Number(name, "mm", low, high) for name, (low, high) in ranges.items())
        batch = Batch(1150, {name: np.clip(floats(columns[name]), *ranges[name]) for name in ranges}, {})
        statistic = Summary("s", variables, (), BITS)
        (table,) = statistic.finish(federate(statistic, split(batch, columns["site"])))
        for name, known in truth[block].items():
            found = row(table, variable=name)
            assert number(found["mean"]) == pytest.approx(known[key], rel=1e-12)
            if block == "describe":
                assert number(found["variance"]) == pytest.approx(known["var_ddof1"], rel=1e-9)
