"""ComBat: sums without a site in them, and harmonised values of neuroCombat on all rows together."""

import json
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.combat import Combat
from cohortsum.study.statistics.design import NOTHING, build_design
from cohortsum.study.statistics.harmonised import EVERYBODY, Harmonised
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.models import AGE, OUTCOMES, SEX, VARIABLES, cohort, seeds
from tests.study.pooled import (
    BITS,
    DATA,
    Floats,
    codes,
    federate,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    slice_of,
    split,
)

NEURO: Any = import_module("neuroCombat")
PANDAS: Any = import_module("pandas")
KEEP = ("dx", "age", "sex")


def combat(**changes: Any) -> Combat:
    keep = changes.pop("keep", KEEP)
    asked: dict[str, Any] = {
        "name": "h",
        "outcomes": OUTCOMES,
        "design": build_design("h", keep, changes.pop("variables", VARIABLES)) if keep else NOTHING,
        "fit_on": None,
        "empirical_bayes": True,
        "mean_only": False,
        "min_per_site": 2,
        "fraction_bits": BITS,
    }
    return Combat(**(asked | changes))


def played(statistic: Combat, sites: list[Batch]) -> tuple[Table, list[Harmonised]]:
    """Return the table of the release, and what every site keeps."""
    sums = federate(statistic, sites)
    (table,) = statistic.finish(sums)
    assert statistic.keeps_local
    assert statistic.further(sums) is None

    def batches(site: Batch) -> list[Batch]:
        half = site.people // 2
        return [slice_of(site, np.arange(half)), slice_of(site, np.arange(half, site.people))]

    return table, [statistic.locally(sums, partial(batches, site)) for site in sites]


def whole(seed: int, sites: int = 5, people: int = 200) -> tuple[Batch, NDArray[Any]]:
    """Return a cohort without holes whose sites differ in level and spread."""
    batch, site = cohort(seed, sites, people)
    rng = np.random.default_rng(seed + 1)
    batch.numbers["age"][:] = np.float32(
        rng.uniform(5, 65, people)
    )  # neuroCombat keeps covariates in float32
    batch.levels["dx"][:] = rng.integers(0, 3, people)
    for place, outcome in enumerate(OUTCOMES):
        u = 0.1 * np.sin(site + place) + 0.05 * (batch.levels["dx"] == 1) - 0.002 * batch.numbers["age"]
        u = u + (0.05 + 0.02 * np.cos(2 * site + place)) * rng.normal(size=people)
        batch.numbers[outcome.name][:] = outcome.middle + outcome.half_width * np.clip(u, -1, 1)
    return batch, site


def neuro(batch: Batch, site: NDArray[Any], **options: bool) -> Mapping[str, Any]:
    data = np.array([batch.numbers[outcome.name] for outcome in OUTCOMES])
    covariates = {
        "site": site,
        "dx": batch.levels["dx"],
        "age": batch.numbers["age"],
        "sex": batch.levels["sex"],
    }
    found: Mapping[str, Any] = NEURO.neuroCombat(
        dat=data,
        covars=PANDAS.DataFrame(covariates),
        batch_col="site",
        categorical_cols=["dx", "sex"],
        continuous_cols=["age"],
        **options,
    )
    return found


@pytest.mark.parametrize("mean_only", [False, True])
@pytest.mark.parametrize("empirical_bayes", [False, True])
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_harmonised_values_equal_neurocombat(empirical_bayes: bool, mean_only: bool, seed: int) -> None:
    batch, site = whole(seed)
    oracle = neuro(batch, site, eb=empirical_bayes, mean_only=mean_only)
    table, kept = played(combat(empirical_bayes=empirical_bayes, mean_only=mean_only), split(batch, site))
    estimates = oracle["estimates"]
    for place, outcome in enumerate(OUTCOMES):
        found = row(table, outcome=outcome.name, term="age")
        assert number(found["grand_mean"]) == pytest.approx(
            float(estimates["stand.mean"][place, 0]), rel=1e-9
        )
        assert number(found["pooled_sd"]) == pytest.approx(
            float(np.sqrt(estimates["var.pooled"][place, 0])), rel=1e-9
        )
    for label, one in zip(np.unique(site), kept, strict=True):
        here = np.flatnonzero(site == label)
        values = one.values(slice_of(batch, here))
        expected = np.asarray(oracle["data"])[:, here].T
        width = np.array([outcome.half_width for outcome in OUTCOMES])
        assert np.all(np.abs(values - expected) <= 1e-8 * width)
        (own,) = one.tables
        for place, outcome in enumerate(OUTCOMES):
            found = row(own, outcome=outcome.name)
            assert (found["n"], found["status"]) == (len(here), "ok")
            gamma, delta = (estimates[name][label][place] for name in ("gamma.star", "delta.star"))
            assert number(found["gamma_star"]) == pytest.approx(float(gamma), rel=1e-7, abs=1e-8)
            assert number(found["delta_star"]) == pytest.approx(float(delta), rel=1e-7)


def impac_features(names: list[str]) -> tuple[Batch, list[str], tuple[Number, ...]]:
    columns = read_columns("impac_asd.csv")
    numbers = {name: floats(columns[name]) for name in names} | {"age": floats(columns["age"])}
    levels = {"dx": codes(columns["asd"], "01"), "sex": codes(columns["sex"], "FM")}
    outcomes = tuple(
        Number(name, "mm", 0.0, 5.0) if name.endswith("thickness") else Number(name, "mm3", 0.0, 9000.0)
        for name in names
    )
    return Batch(len(columns["age"]), numbers, levels), columns["site"], outcomes


@needs_data
def test_impac_34_sites_equal_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["combat"]
    batch, site, outcomes = impac_features(truth["features"])
    variables: dict[str, Variable] = {"dx": Factor("dx", ("control", "autism")), "sex": SEX, "age": AGE}
    order = sorted(set(site))
    for empirical_bayes, key in ((True, "first5_harmonised"), (False, "first5_harmonised_noEB")):
        statistic = combat(
            outcomes=outcomes, variables=variables, empirical_bayes=empirical_bayes, min_per_site=10
        )
        table, kept = played(statistic, split(batch, site))
        for place, outcome in enumerate(outcomes):
            found = row(table, outcome=outcome.name, term="sex[male]")
            assert number(found["grand_mean"]) == pytest.approx(truth["stand_mean"][place], rel=1e-7)
            assert number(found["pooled_sd"]) ** 2 == pytest.approx(truth["var_pooled"][place], rel=1e-7)
        values = {label: one.values(batch) for label, one in zip(order, kept, strict=True)}
        for person in range(5):
            assert values[site[person]][person] == pytest.approx(truth[key][person], rel=1e-6)
        if empirical_bayes:
            for label, one in zip(order, kept, strict=True):
                place = truth["batch_order"].index(label)
                gamma = [effect.gamma for effect in one.effects]
                delta = [effect.delta for effect in one.effects]
                assert gamma == pytest.approx(truth["gamma_star"][place], rel=1e-5, abs=1e-7)
                assert delta == pytest.approx(truth["delta_star"][place], rel=1e-6)


def test_a_site_below_the_minimum_is_neither_fitted_nor_harmonised_and_is_told() -> None:
    batch, site = whole(3, sites=4, people=160)
    sites = split(batch, site)
    sites[0] = slice_of(sites[0], np.arange(9))
    table, kept = played(combat(min_per_site=10), sites)
    without, others = played(combat(min_per_site=10), sites[1:])
    assert table == without
    assert np.isnan(kept[0].values(sites[0])).all()
    (own,) = kept[0].tables
    assert {found[own.columns.index("status")] for found in own.rows} == {"below threshold"}
    assert "fewer than 10 people" in own.notes[1]
    assert np.array_equal(kept[1].values(sites[1]), others[0].values(sites[1]))


def test_one_person_cannot_be_a_site() -> None:
    batch, site = whole(4, sites=3, people=90)
    sites = split(batch, site)
    _, kept = played(combat(), [slice_of(sites[0], np.arange(1)), *sites[1:]])
    assert np.isnan(kept[0].values(sites[0])).all()


def test_an_outcome_constant_at_a_site_is_not_harmonised_there_and_the_others_are() -> None:
    batch, site = whole(5)
    sites = split(batch, site)
    sites[1].numbers["y1"][:] = 4000.0
    _, kept = played(combat(), sites)
    values = kept[1].values(sites[1])
    assert np.isnan(values).all(axis=0).tolist() == [False, True, False]
    assert row(kept[1].tables[0], outcome="y1")["status"] == "constant, not estimated"
    assert not np.isnan(kept[0].values(sites[0])).any()


def test_a_term_that_the_sites_determine_is_named_and_nothing_is_harmonised() -> None:
    batch, site = whole(6)
    batch.levels["sex"][:] = site % 2
    table, kept = played(combat(), split(batch, site))
    for outcome in OUTCOMES:
        assert row(table, outcome=outcome.name, term="sex[male]")["status"] == "aliased"
        assert row(table, outcome=outcome.name, term="age")["status"] == "not estimable"
    assert table.notes[0].startswith("sex[male]: the sites (and the terms before it) determine it")
    assert all(np.isnan(one.values(batch)).all() for one in kept)
    assert row(kept[0].tables[0], outcome="y0")["status"] == "aliased"


def test_a_level_that_nobody_has_changes_nothing() -> None:
    batch, site = whole(7)
    batch.levels["dx"][batch.levels["dx"] == 2] = 1
    two = Factor("dx", ("control", "autism"))
    table, kept = played(combat(), split(batch, site))
    _, plain = played(combat(variables={**VARIABLES, "dx": two}), split(batch, site))
    found = row(table, outcome="y0", term="dx[other]")
    assert (found["status"], found["b"]) == ("constant, not estimated", Absent("no data"))
    assert kept[0].values(batch) == pytest.approx(plain[0].values(batch), rel=1e-10)


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_outcomes_without_spread_or_people_have_no_standard(value: float) -> None:
    batch, site = whole(8)
    batch.numbers["y0"][:] = value
    table, kept = played(combat(), split(batch, site))
    status = "all missing" if np.isnan(value) else "constant, not estimated"
    assert row(table, outcome="y0", term="age")["status"] == status
    assert row(table, outcome="y1", term="age")["status"] == "ok"
    assert np.isnan(kept[0].values(batch)[:, 0]).all()


def test_without_kept_terms_every_site_gets_the_common_mean_and_spread() -> None:
    batch, site = whole(9)
    table, kept = played(combat(keep=(), empirical_bayes=False), split(batch, site))
    assert row(table, outcome="y0")["term"] == "none"
    for label, one in zip(np.unique(site), kept, strict=True):
        values = one.values(slice_of(batch, np.flatnonzero(site == label)))
        for place, outcome in enumerate(OUTCOMES):
            found = row(table, outcome=outcome.name)
            assert values[:, place].mean() == pytest.approx(number(found["grand_mean"]), rel=1e-9)
            assert values[:, place].std(ddof=1) == pytest.approx(number(found["pooled_sd"]), rel=1e-9)


def older(batch: Batch) -> NDArray[np.bool_]:
    held: NDArray[np.bool_] = batch.numbers["age"] > 30
    return held


def controls(batch: Batch) -> NDArray[np.bool_]:
    held: NDArray[np.bool_] = batch.levels["dx"] == 0
    return held


def test_estimates_on_controls_apply_to_everybody() -> None:
    batch, site = whole(10)
    statistic = combat(fit_on=controls, keep=("age", "sex"), min_per_site=5)
    table, kept = played(statistic, split(batch, site))
    alone, fitted = slice_of(batch, np.flatnonzero(controls(batch))), site[controls(batch)]
    plain, others = played(combat(keep=("age", "sex"), min_per_site=5), split(alone, fitted))
    assert table == plain
    for one, other in zip(kept, others, strict=True):
        assert one.values(batch) == pytest.approx(other.values(batch), rel=1e-10)


def test_a_site_of_cases_alone_applies_what_the_others_fitted() -> None:
    batch, site = whole(11)
    sites = split(batch, site)
    sites[2].levels["dx"][:] = 1
    statistic = combat(fit_on=controls, keep=("age", "sex"), min_per_site=5)
    table, kept = played(statistic, sites)
    without, _ = played(statistic, [*sites[:2], *sites[3:]])
    assert table == without
    (own,) = kept[2].tables
    assert {found[own.columns.index("estimated_from")] for found in own.rows} == {EVERYBODY}
    assert "too few people in the fit" in own.notes[-1]
    assert not np.isnan(kept[2].values(sites[2])).any()


def test_people_outside_the_subgroup_have_no_harmonised_value() -> None:
    batch, site = whole(12)
    statistic = combat(where=older)
    _, kept = played(statistic, split(batch, site))
    assert np.array_equal(np.isnan(kept[0].values(batch)).all(axis=1), batch.numbers["age"] <= 30)


def test_missing_values_are_left_out_per_outcome() -> None:
    batch, site = cohort(13, sites=4, people=240)
    table, kept = played(combat(), split(batch, site))
    values = kept[0].values(batch)
    for place, outcome in enumerate(OUTCOMES):
        known = (
            ~np.isnan(batch.numbers[outcome.name])
            & ~np.isnan(batch.numbers["age"])
            & (batch.levels["dx"] >= 0)
        )
        assert np.array_equal(~np.isnan(values[:, place]), known)
        assert row(table, outcome=outcome.name, term="age")["n"] == known.sum()


def test_outcomes_that_too_few_sites_supply_say_so() -> None:
    batch, site = whole(14)
    statistic = combat()
    sums = {name: one for name, one in federate(statistic, split(batch, site)).items() if "/y1/" not in name}
    (table,) = statistic.finish(sums)
    assert row(table, outcome="y1", term="age")["status"] == "too few sites"
    found = statistic.locally(sums, lambda: [batch])
    assert np.isnan(found.values(batch)).all(axis=0).tolist() == [False, True, False]


def first_of(one: Harmonised, people: Batch) -> Floats:
    return one.values(people)[:, 0]


def test_values_beyond_the_declared_range_are_counted_at_the_site() -> None:
    batch, site = whole(15)
    sites = split(batch, site)
    rng = np.random.default_rng(15)
    for spread, one in zip((0.01, 0.2, 0.3, 0.2, 0.3), sites, strict=True):
        one.numbers["y0"][:] = np.clip(0.4 + spread * rng.normal(size=one.people), 0.0, 5.0)
    _, kept = played(combat(empirical_bayes=False), sites)
    counts = [int(((values < 0) | (values > 5)).sum()) for values in map(first_of, kept, sites)]
    assert any(counts)
    assert [row(one.tables[0], outcome="y0")["beyond_range"] for one in kept] == counts


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 40), st.sampled_from([True, False]))
def test_every_site_keeps_the_bounds_and_ends_with_values_or_a_reason(
    seed: int, people: int, mean_only: bool
) -> None:
    batch, site = cohort(seed, sites=3, people=people)
    _, kept = played(combat(mean_only=mean_only, min_per_site=5), split(batch, site))
    for one in kept:
        for place, effect in enumerate(one.effects):
            values = one.values(batch)[:, place]
            assert np.isnan(values).all() == (effect.status != "ok" or not (~np.isnan(values)).any())
