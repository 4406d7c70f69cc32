"""Regression: a federation equals the pooled fit, and says so where there is nothing to estimate.

Tolerances. The sums are right to about 1e-13 of a column's sum of squares, and an
estimate loses at most the variance inflation of its column; 1e-9 relative holds with room in every test here.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.products import centred
from cohortsum.study.variables import Number
from tests.study.models import (
    AGE,
    OUTCOMES,
    TIGHT,
    cohort,
    dummies,
    fitted,
    regression,
    seeds,
)
from tests.study.pooled import (
    BITS,
    assert_equal_fit,
    federate,
    least_squares,
    slice_of,
    split,
)

# --- equality with the pooled fit ---------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(5, 200))
def test_within_equals_one_dummy_per_site(seed: int, sites: int, batch_size: int) -> None:
    batch, site = cohort(seed, sites)
    table = fitted(regression(), batch, site, batch_size)
    columns = dummies(batch)
    for outcome in OUTCOMES:
        oracle = least_squares(batch.numbers[outcome.name], columns, site)
        assert_equal_fit(table, outcome.name, oracle, list(columns), TIGHT)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(5, 200))
def test_none_equals_least_squares_with_one_intercept(seed: int, sites: int, batch_size: int) -> None:
    batch, site = cohort(seed, sites)
    table = fitted(regression(site_effect="none"), batch, site, batch_size)
    columns = dummies(batch)
    for outcome in OUTCOMES:
        oracle = least_squares(batch.numbers[outcome.name], columns, None)
        assert_equal_fit(table, outcome.name, oracle, ["intercept", *columns], TIGHT)


@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_complete_uses_the_people_who_have_every_outcome(site_effect: str) -> None:
    batch, site = cohort(3)
    some = np.isnan(np.column_stack([batch.numbers[outcome.name] for outcome in OUTCOMES])).any(axis=1)
    table = fitted(regression(missing="complete", site_effect=site_effect), batch, site)
    columns = dummies(batch)
    for outcome in OUTCOMES:
        y = np.where(some, np.nan, batch.numbers[outcome.name])
        oracle = least_squares(y, columns, site if site_effect == "within" else None)
        assert_equal_fit(table, outcome.name, oracle, list(columns), TIGHT)


def test_a_subgroup_equals_the_pooled_fit_on_it() -> None:
    batch, site = cohort(5, people=300)
    women = batch.levels["sex"] == 0

    def where(one: Batch) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = one.levels["sex"] == 0
        return chosen

    statistic = regression(terms=("dx", "age"), where=where)
    columns = {name: dummies(batch)[name] for name in ("dx[autism]", "dx[other]", "age")}
    oracle = least_squares(np.where(women, batch.numbers["y0"], np.nan), columns, site)
    assert_equal_fit(fitted(statistic, batch, site), "y0", oracle, list(columns), TIGHT)


def test_a_level_absent_at_one_site_keeps_the_columns_in_line() -> None:
    batch, site = cohort(7, people=200)
    batch.levels["dx"][(site == 1) & (batch.levels["dx"] == 2)] = 0
    oracle = least_squares(batch.numbers["y0"], dummies(batch), site)
    assert_equal_fit(fitted(regression(), batch, site), "y0", oracle, list(dummies(batch)), TIGHT)


def test_sites_of_one_sex_and_of_cases_only_equal_the_pooled_fit_and_are_counted() -> None:
    batch, site = cohort(11, people=200)
    batch.levels["sex"][site == 0] = 1
    batch.levels["dx"][site == 2] = 1
    statistic = regression(effect="dx", terms=("dx", "age", "sex"))
    columns = {name: values for name, values in dummies(batch).items() if ":" not in name}
    table = fitted(statistic, batch, site)
    assert_equal_fit(table, "y0", least_squares(batch.numbers["y0"], columns, site), list(columns), TIGHT)
    assert table.notes[0] == "Contributing sites: 4."
    assert table.notes[1].startswith("dx[autism]: sites with people of one arm only: 1;")


def test_a_site_without_a_single_case_of_an_outcome_costs_no_degree_of_freedom() -> None:
    batch, site = cohort(13)
    batch.numbers["y1"][site == 0] = np.nan
    table = fitted(regression(), batch, site)
    oracle = least_squares(batch.numbers["y1"], dummies(batch), site)
    assert_equal_fit(table, "y1", oracle, list(dummies(batch)), TIGHT)
    assert table.notes[0] == "Contributing sites: 3 to 4, by outcome."


def test_a_site_without_the_column_of_an_outcome_adds_nothing_to_it() -> None:
    batch, site = cohort(13)
    first, *others = split(batch, site)
    lacking = Batch(first.people, {k: v for k, v in first.numbers.items() if k != "y1"}, first.levels)
    sums = federate(regression(), [lacking, *others])
    without = federate(regression(), others)
    assert all(np.array_equal(sums[name], without[name]) for name in sums if "/y1/" in name)


# --- sums -----------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(3, 60), st.sampled_from(["per_outcome", "complete"]))
def test_additive_integers_do_not_depend_on_sites_batches_or_order(
    seed: int, sites: int, batch_size: int, missing: str
) -> None:
    batch, site = cohort(seed, sites, people=60)
    statistic = regression(site_effect="none", missing=missing, effect="dx")
    order = np.random.default_rng(seed).permutation(batch.people)
    whole = federate(statistic, [batch], batch_size=1000)
    parts = federate(statistic, split(slice_of(batch, order), site[order]), batch_size)
    for block in statistic.layout():
        if block.kind == "additive":
            assert np.array_equal(whole[block.name], parts[block.name])
    assert {block.name.rsplit("/", 1)[1] for block in statistic.layout() if block.kind == "site"} == {"sites"}


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(3, 60))
def test_centred_products_are_right_to_the_stated_bound_for_every_batch_size(
    seed: int, batch_size: int
) -> None:
    batch, _ = cohort(seed, 1, people=60)
    outcome = OUTCOMES[0]
    statistic = regression(terms=("age",), outcomes=(outcome,))
    sums = federate(statistic, [batch], batch_size)
    x = [(value - AGE.middle) / AGE.half_width for value in batch.numbers["age"]]
    y = [(value - outcome.middle) / outcome.half_width for value in batch.numbers[outcome.name]]
    rows = [(Fraction(u), Fraction(v)) for u, v in zip(x, y, strict=True) if u == u and v == v]
    n, zero = len(rows), Fraction(0)
    su, sv = sum((u for u, _ in rows), zero), sum((v for _, v in rows), zero)
    exact = (
        sum((u * u for u, _ in rows), zero) - su * su / n,
        sum((u * v for u, v in rows), zero) - su * sv / n,
        sum((v * v for _, v in rows), zero) - sv * sv / n,
    )
    found = (*sums["r/y0/covariates"], *sums["r/y0/products"])
    for integer, value in zip(found, exact, strict=True):
        assert abs(Fraction(int(integer), 2**BITS) - value) <= n * Fraction(1, 2**50) + Fraction(
            1, 2 ** (BITS + 1)
        )


def test_nobody_is_counted_twice() -> None:
    outcome = Number("y", "1", -1.0, 1.0)
    batch = Batch(
        20,
        {"y": np.ldexp(1.0, -np.arange(1, 21)), "age": np.linspace(5, 65, 20)},
        {"dx": (np.arange(20) % 3).astype(np.int16)},
    )
    statistic = regression(outcomes=(outcome,), terms=("age", "dx"), effect="dx", site_effect="none")
    sums = federate(statistic, split(batch, [str(i % 4) for i in range(20)]), batch_size=2)
    assert int(sums["r/y/products"][0]) == (2**20 - 1) << (BITS - 20)
    assert list(sums["r/y/people"]) == [20, 7, 7, 6]
    assert list(sums["r/y/sites"]) == [4, 4, 4]


@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_people_at_the_bounds_keep_the_bounds_of_the_blocks(site_effect: str) -> None:
    awkward = Number("y", "mm", 0.1, 0.7)
    batch = Batch(
        40,
        {"y": np.tile([0.1, 0.7], 20), "age": np.tile([5.0, 65.0], 20)},
        {"sex": np.tile(np.array([0, 1], np.int16), 20)},
    )
    statistic = regression(outcomes=(awkward,), terms=("sex", "age", "sex:age"), site_effect=site_effect)
    sums = federate(statistic, [batch])
    assert list(sums["r/y/people"]) == [40]
    for block in statistic.layout():
        people_or_sites = 40 if block.per == "person" else 1
        assert np.abs(sums[block.name]).max() <= people_or_sites * block.bound * 2**block.fraction_bits + 1


@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_values_outside_the_public_ranges_count_at_their_bounds(site_effect: str) -> None:
    statistic = regression(terms=("sex", "age", "sex:age"), outcomes=OUTCOMES[:1], site_effect=site_effect)
    sex = np.array([0, 1, 1, 0], np.int16)
    inside = Batch(4, {"y0": np.array([0, 5.0, 5, 1]), "age": np.array([5.0, 5, 65, 65])}, {"sex": sex})
    outside = Batch(
        4, {"y0": np.array([-9, 6.0, 1e300, 1]), "age": np.array([-7, 4.9, 70, 1e300])}, {"sex": sex}
    )
    sums = federate(statistic, [outside])
    assert all(np.array_equal(total, sums[name]) for name, total in federate(statistic, [inside]).items())


def test_centred_products_never_pass_one_unit_per_person() -> None:
    above = np.nextafter(256.0, 300.0)
    sums = {"x": np.zeros((1, 1)), "xx": np.array([[above]]), "y": np.zeros(1), "xy": np.array([[-above]])}
    products = centred(np.array([256]), {**sums, "yy": np.array([above])})
    assert [products[name][0, 0] for name in ("xx", "xy", "yy")] == [256.0, -256.0, 256.0]


@pytest.mark.parametrize("missing", ["per_outcome", "complete"])
@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_a_site_of_nobody_adds_zeros(site_effect: str, missing: str) -> None:
    batch, _ = cohort(1)
    nobody = slice_of(batch, np.array([], np.intp))
    sums = federate(regression(effect="dx", site_effect=site_effect, missing=missing), [nobody])
    assert all(not total.any() for total in sums.values())


def test_an_outcome_is_supplied_alone_and_with_each_level() -> None:
    blocks = {block.name: block for block in regression().layout()}
    levels = ("dx[control]", "dx[autism]", "dx[other]", "sex[female]", "sex[male]")
    expected = (frozenset({"y1"}), *(frozenset({"y1", level}) for level in levels))
    assert blocks["r/y1/covariates"].supply == expected
    shared = {block.name: block for block in regression(missing="complete").layout()}
    assert shared["r/y1/products"].supply[0] == frozenset({"y0", "y1", "y2"})
    assert [name for name in shared if name.count("/") == 1] == ["r/people", "r/sites", "r/covariates"]
