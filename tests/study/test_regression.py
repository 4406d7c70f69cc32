"""Regression: a federation equals the pooled fit, and says so where there is nothing to estimate.

Tolerances. The sums are right to about 1e-13 of a column's sum of squares, and an
estimate loses at most the variance inflation of its column; 1e-9 relative holds with room in every test here.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.design import build_design
from cohortsum.study.statistics.distributions import false_discovery
from cohortsum.study.statistics.estimates import estimate
from cohortsum.study.statistics.opening import opened
from cohortsum.study.statistics.products import centred
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.regression_tables import Request, tables
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.pooled import (
    BITS,
    DATA,
    Floats,
    assert_equal_fit,
    benjamini_hochberg,
    codes,
    federate,
    floats,
    least_squares,
    needs_data,
    number,
    read_columns,
    row,
    slice_of,
    split,
)

TIGHT = 1e-9
DX = Factor("dx", ("control", "autism", "other"))
SEX = Factor("sex", ("female", "male"))
AGE = Number("age", "years", 5.0, 65.0)
VARIABLES: dict[str, Variable] = {"dx": DX, "sex": SEX, "age": AGE}
OUTCOMES = (Number("y0", "mm", 0.0, 5.0), Number("y1", "mm3", 0.0, 9000.0), Number("y2", "1", -1.0, 1.0))
TERMS = ("dx", "age", "sex", "dx:age")

seeds = st.integers(0, 2**32 - 1)


def cohort(seed: int, sites: int = 4, people: int = 120) -> tuple[Batch, NDArray[Any]]:
    """Return people with site effects, group effects and holes, and the site of each."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, sites, people)
    age = rng.uniform(5, 65, people)
    dx = rng.integers(0, 3, people).astype(np.int16)
    sex = rng.integers(0, 2, people).astype(np.int16)
    numbers = {"age": age}
    for outcome in OUTCOMES:
        u = 0.2 * np.sin(site) + 0.1 * (dx == 1) - 0.002 * age + 0.05 * sex + 0.1 * rng.normal(size=people)
        values = outcome.middle + outcome.half_width * np.clip(u, -1, 1)
        values[rng.random(people) < 0.1] = np.nan
        numbers[outcome.name] = values
    age[rng.random(people) < 0.05] = np.nan
    dx[rng.random(people) < 0.05] = -1
    return Batch(people, numbers, {"dx": dx, "sex": sex}), site


def dummies(batch: Batch) -> dict[str, Floats]:
    """Return the columns of TERMS in natural units, made independently of the design."""
    dx, sex, age = batch.levels["dx"], batch.levels["sex"], batch.numbers["age"]
    known = np.where(dx < 0, np.nan, 1.0)
    columns = {"dx[autism]": known * (dx == 1), "dx[other]": known * (dx == 2), "age": age}
    columns["sex[male]"] = (sex == 1).astype(np.float64)
    columns["dx[autism]:age"] = columns["dx[autism]"] * age
    columns["dx[other]:age"] = columns["dx[other]"] * age
    return columns


def regression(**changes: Any) -> Regression:
    asked: dict[str, Any] = {
        "name": "r",
        "outcomes": OUTCOMES,
        "terms": TERMS,
        "variables": VARIABLES,
        "site_effect": "within",
        "missing": "per_outcome",
        "fraction_bits": BITS,
    }
    return Regression(**(asked | changes))


def fitted(
    statistic: Regression, batch: Batch, site: NDArray[Any] | list[str], batch_size: int = 17
) -> Table:
    return statistic.finish(federate(statistic, split(batch, site), batch_size))[0]


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
    # federate checks every bound
    federate(
        regression(outcomes=(awkward,), terms=("sex", "age", "sex:age"), site_effect=site_effect), [batch]
    )


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


# --- statuses -------------------------------------------------------------------------------------------------------


def statuses(table: Table, outcome: str) -> dict[str, str]:
    place = table.columns.index("status")
    return {str(line[1]): str(line[place]) for line in table.rows if line[0] == outcome}


def test_a_column_that_earlier_ones_determine_is_aliased_by_name_and_the_rest_is_fitted_without_it() -> None:
    batch, site = cohort(17)
    twice = Number("twice", "years", 10.0, 130.0)
    batch = Batch(batch.people, {**batch.numbers, "twice": 2 * batch.numbers["age"]}, batch.levels)
    for site_effect in ("within", "none"):
        statistic = regression(
            terms=("age", "sex", "twice"), variables={**VARIABLES, "twice": twice}, site_effect=site_effect
        )
        table = fitted(statistic, batch, site)
        assert statuses(table, "y0")["twice"] == "aliased"
        assert isinstance(row(table, outcome="y0", term="twice")["b"], Absent)
        assert any(note.startswith("twice: aliased") and "3 of 3 outcomes" in note for note in table.notes)
        columns = {name: dummies(batch)[name] for name in ("age", "sex[male]")}
        oracle = least_squares(batch.numbers["y0"], columns, site if site_effect == "within" else None)
        assert_equal_fit(table, "y0", oracle, list(columns), TIGHT)


@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from(["within", "none"]), st.floats(-3, 3), st.floats(0.5, 30))
def test_a_sum_of_two_columns_is_aliased_whatever_rounding_makes_of_it(
    seed: int, site_effect: str, slope: float, step: float
) -> None:
    batch, site = cohort(seed)
    total = slope * batch.numbers["age"] + step * batch.levels["sex"]
    known = Number("total", "1", -300.0, 300.0)
    statistic = regression(
        terms=("age", "sex", "total", "dx"), variables={**VARIABLES, "total": known}, site_effect=site_effect
    )
    table = fitted(statistic, Batch(batch.people, {**batch.numbers, "total": total}, batch.levels), site)
    found = statuses(table, "y0")
    assert [name for name, status in found.items() if status != "ok"] == ["total"]
    assert found["total"] == "aliased"


def test_nearly_aliased_columns_are_kept_and_right() -> None:
    batch, site = cohort(18, people=400)
    near = batch.numbers["age"] + 0.02 * np.random.default_rng(0).normal(
        size=batch.people
    )  # inflation about 1e6
    batch = Batch(batch.people, {**batch.numbers, "near": near}, batch.levels)
    statistic = regression(
        terms=("age", "near"), variables={**VARIABLES, "near": Number("near", "years", 4.0, 66.0)}
    )
    oracle = least_squares(batch.numbers["y0"], {"age": batch.numbers["age"], "near": near}, site)
    assert_equal_fit(fitted(statistic, batch, site), "y0", oracle, ["age", "near"], relative=1e-6)


def test_a_diagnosis_that_is_the_site_is_aliased_with_the_site_effect() -> None:
    batch, site = cohort(19)
    batch.levels["dx"][:] = site % 2
    table = fitted(regression(terms=("dx", "age"), effect="dx", correction="fdr_bh"), batch, site)
    assert statuses(table, "y0") == {"dx[autism]": "aliased", "dx[other]": "aliased", "age": "ok"}
    oracle = least_squares(batch.numbers["y0"], {"age": batch.numbers["age"]}, site)
    assert_equal_fit(table, "y0", oracle, ["age"], TIGHT)


def test_a_term_that_varies_nowhere_is_constant() -> None:
    batch, site = cohort(23)
    batch.levels["sex"][:] = 1
    table = fitted(regression(terms=("age", "sex"), site_effect="none"), batch, site)
    assert statuses(table, "y0") == {"intercept": "ok", "age": "ok", "sex[male]": "constant, not estimated"}


@pytest.mark.parametrize("site_effect", ["within", "none"])
@pytest.mark.parametrize("value", [0.0, 0.1, 4.7])
def test_a_constant_outcome_is_not_estimated_and_the_others_go_on(site_effect: str, value: float) -> None:
    batch, site = cohort(29)
    batch.numbers["y0"][:] = value
    table = fitted(regression(site_effect=site_effect), batch, site)
    assert set(statuses(table, "y0").values()) == {"constant, not estimated"}
    assert set(statuses(table, "y1").values()) == {"ok"}


def test_an_outcome_nobody_has_is_all_missing() -> None:
    batch, site = cohort(31)
    batch.numbers["y2"][:] = np.nan
    table = fitted(regression(), batch, site)
    assert set(statuses(table, "y2").values()) == {"all missing"}
    assert row(table, outcome="y2", term="age")["n"] == 0


def test_too_few_people_for_the_terms_are_not_estimable() -> None:
    batch, site = cohort(37, sites=2, people=7)
    table = fitted(regression(), batch, site)
    assert set(statuses(table, "y0").values()) == {"not estimable"}


def test_a_perfect_fit_has_no_standard_error() -> None:
    batch, site = cohort(41)
    batch.numbers["y0"][:] = 1 + batch.numbers["age"] / 40
    for site_effect in ("within", "none"):
        table = fitted(regression(terms=("age", "sex"), site_effect=site_effect), batch, site)
        assert set(statuses(table, "y0").values()) == {"not estimable"}


def test_an_outcome_that_was_not_opened_has_too_few_sites_in_every_table() -> None:
    batch, site = cohort(43)
    statistic = regression(effect="dx", contrasts={"both": {"age": 1.0}}, tests={"shape": ("dx:age",)})
    sums = federate(statistic, split(batch, site))
    opened = {name: total for name, total in sums.items() if "/y1/" not in name}
    for table in statistic.finish(opened):
        place = table.columns.index("status")
        assert {line[place] for line in table.rows if line[0] == "y1"} == {"too few sites"}
        assert {line[place] for line in table.rows if line[0] == "y0"} == {"ok"}


# --- effects, contrasts, tests ------------------------------------------------------------------------------------


def test_each_level_has_its_d_and_adjusted_p_and_other_rows_have_none() -> None:
    batch, site = cohort(47, people=200)
    table = fitted(regression(effect="dx", correction="fdr_bh"), batch, site)
    assert table.columns[11:] == ("d", "d_se", "d_low", "d_high", "p_fdr", "n_reference", "n_level")
    for term, level in (("dx[autism]", 1), ("dx[other]", 2)):
        raw = [number(row(table, outcome=outcome.name, term=term)["p"]) for outcome in OUTCOMES]
        expected = benjamini_hochberg(raw)
        for outcome, adjusted in zip(OUTCOMES, expected, strict=True):
            found = row(table, outcome=outcome.name, term=term)
            assert number(found["p_fdr"]) == pytest.approx(adjusted, rel=1e-12)
            known = ~np.isnan(batch.numbers[outcome.name]) & ~np.isnan(batch.numbers["age"])
            assert found["n_reference"] == int((known & (batch.levels["dx"] == 0)).sum())
            assert found["n_level"] == int((known & (batch.levels["dx"] == level)).sum())
    assert isinstance(row(table, outcome="y0", term="dx[autism]:age")["d"], Absent)
    assert isinstance(row(table, outcome="y0", term="age")["p_fdr"], Absent)


def test_d_of_two_groups_is_their_difference_in_pooled_standard_deviations() -> None:
    batch, site = cohort(49)
    batch.levels["dx"][batch.levels["dx"] == 2] = 0
    found = row(
        fitted(regression(terms=("dx",), effect="dx", site_effect="none"), batch, site),
        **{"outcome": "y1", "term": "dx[autism]"},
    )
    y, dx = batch.numbers["y1"], batch.levels["dx"]
    one, two = (y[(dx == level) & ~np.isnan(y)] for level in (0, 1))
    n1, n2 = len(one), len(two)
    pooled = np.sqrt(((n1 - 1) * one.var(ddof=1) + (n2 - 1) * two.var(ddof=1)) / (n1 + n2 - 2))
    d = float((two.mean() - one.mean()) / pooled * np.sqrt((n1 + n2) / (n1 + n2 - 2)))
    assert number(found["d"]) == pytest.approx(d, rel=TIGHT)
    se = np.sqrt(1 / n1 + 1 / n2 + d**2 / (2 * (n1 + n2 - 2)))
    assert number(found["d_se"]) == pytest.approx(se, rel=TIGHT)
    assert number(found["d_low"]) == pytest.approx(d - 1.96 * se, rel=TIGHT)
    assert number(found["d_high"]) == pytest.approx(d + 1.96 * se, rel=TIGHT)


def test_a_numeric_effect_has_an_adjusted_p_and_no_d() -> None:
    batch, site = cohort(53)
    table = fitted(regression(effect="age", correction="fdr_bh"), batch, site)
    found = row(table, outcome="y0", term="age")
    assert isinstance(found["d"], Absent)
    assert number(found["p_fdr"]) >= number(found["p"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=30))
def test_false_discovery_equals_statsmodels(p: list[float]) -> None:
    assert false_discovery(p) == pytest.approx(benjamini_hochberg(p), rel=1e-12)


@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_a_contrast_equals_statsmodels(site_effect: str) -> None:
    weights: dict[str, dict[str, float]] = {
        "autism - other": {"dx[autism]": 1.0, "dx[other]": -1.0},
        "at 40": {"dx[autism]": 1.0, "dx[autism]:age": 40.0},
    }
    if site_effect == "none":
        weights["mean at 40"] = {"intercept": 1.0, "age": 40.0}
    batch, site = cohort(59)
    statistic = regression(site_effect=site_effect, contrasts=weights)
    _, table = statistic.finish(federate(statistic, split(batch, site)))
    assert (table.analysis, table.kind) == ("r.contrasts", "contrast")
    oracle = least_squares(batch.numbers["y1"], dummies(batch), site if site_effect == "within" else None)
    for name, asked in weights.items():
        found = row(table, outcome="y1", contrast=name)
        estimate, se, t, p = oracle.contrast(asked)
        assert number(found["estimate"]) == pytest.approx(estimate, rel=TIGHT, abs=TIGHT * se)
        assert number(found["se"]) == pytest.approx(se, rel=TIGHT)
        assert number(found["statistic"]) == pytest.approx(t, rel=TIGHT, abs=TIGHT)
        assert number(found["p"]) == pytest.approx(p, rel=1e-7)


@pytest.mark.parametrize("site_effect", ["within", "none"])
def test_a_nested_test_equals_the_anova_of_two_pooled_fits(site_effect: str) -> None:
    asked: dict[str, tuple[str, ...]] = {
        "dx": ("dx", "dx:age"),
        "shape": ("dx:age",),
        "sex": ("sex",),
        "all": TERMS,
    }
    batch, site = cohort(61)
    statistic = regression(site_effect=site_effect, tests=asked)
    _, table = statistic.finish(federate(statistic, split(batch, site)))
    assert (table.analysis, table.kind) == ("r.tests", "test")
    sites = site if site_effect == "within" else None
    y = np.where(np.isnan(batch.numbers["age"]) | (batch.levels["dx"] < 0), np.nan, batch.numbers["y2"])
    full = least_squares(y, dummies(batch), sites).model
    dropped: Mapping[str, set[str]] = {
        "dx": {"dx[autism]", "dx[other]", "dx[autism]:age", "dx[other]:age"},
        "shape": {"dx[autism]:age", "dx[other]:age"},
        "sex": {"sex[male]"},
        "all": set(dummies(batch)),
    }
    for name, columns in dropped.items():
        left = {column: values for column, values in dummies(batch).items() if column not in columns}
        f, p, df = full.compare_f_test(least_squares(y, left, sites).model)
        found = row(table, outcome="y2", test=name)
        assert (found["df"], found["df2"], found["status"]) == (df, full.df_resid, "ok")
        assert number(found["statistic"]) == pytest.approx(float(f), rel=1e-8)
        assert number(found["p"]) == pytest.approx(float(p), rel=1e-7)


def test_a_contrast_whose_variance_rounding_ate_is_not_estimable() -> None:
    batch, site = cohort(59)
    columns = build_design("r", ("age", "sex"), VARIABLES).columns
    sums = federate(regression(outcomes=OUTCOMES[:1], terms=("age", "sex")), split(batch, site))
    people, sites, covariates, products = sums.values()
    known = estimate(OUTCOMES[0], columns, opened(people, sites, covariates, products, BITS, False), False)
    weights = {"c": {"age": 1.0, "sex[male]": -1.0}}
    request = Request("r", OUTCOMES[:1], columns, False, None, None, "none", weights, {})
    entangled = replace(known, covariance=np.ones((2, 2)))
    for fitted_model, status in ((known, "ok"), (entangled, "not estimable")):
        _, table = tables(request, [fitted_model])
        assert row(table, contrast="c")["status"] == status


def test_a_test_of_columns_that_the_others_determine_is_aliased() -> None:
    batch, site = cohort(67)
    twice = Number("twice", "years", 10.0, 130.0)
    batch = Batch(batch.people, {**batch.numbers, "twice": 2 * batch.numbers["age"]}, batch.levels)
    statistic = regression(
        terms=("age", "sex", "twice"),
        variables={**VARIABLES, "twice": twice},
        tests={"either": ("age",), "both": ("age", "twice")},
        contrasts={"twice": {"twice": 1.0}},
    )
    _, contrasts, tests = statistic.finish(federate(statistic, split(batch, site)))
    assert row(tests, outcome="y0", test="either")["status"] == "aliased"
    both = row(tests, outcome="y0", test="both")
    assert (both["status"], both["df"]) == ("ok", 1)
    assert row(contrasts, outcome="y0", contrast="twice")["status"] == "aliased"


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terms": ("dx", "weight")}, "'weight', which is no variable"),
        ({"terms": ("dx", "dx")}, "there twice"),
        ({"terms": ("age", "age:age")}, "under 'derive'"),
        ({"terms": ("dx", "dx:age")}, "needs 'age' beside it"),
        ({"terms": ()}, "at least one term"),
        ({"outcomes": ()}, "field 'outcomes'"),
        ({"effect": "group"}, "field 'report.effect': 'group' is not in the model"),
        ({"contrasts": {"c": {"dx[aut]": 1.0}}}, "field 'contrasts.c'"),
        ({"contrasts": {"c": {"intercept": 1.0}}}, "'intercept' is not in the model"),
        ({"contrasts": {"c": {"age": 0.0}}}, "every weight is 0"),
        ({"tests": {"t": ("dx[autism]",)}}, "field 'tests.t'"),
        ({"tests": {"t": ()}}, "nothing is named"),
    ],
)
def test_what_the_model_does_not_have_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyFileError) as refusal:
        regression(**changes)
    assert message in str(refusal.value)


# --- real data ------------------------------------------------------------------------------------------------------


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
