"""Analyses of harmonised values: neuroCombat on all rows together, then statsmodels with one dummy per site."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from cohortsum.study.results import Table
from cohortsum.study.statistics.chained import Chained, OnHarmonised
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.variables import Factor, Variable
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen
from tests.study.models import AGE, DX, OUTCOMES, SEX, dummies, regression
from tests.study.pooled import (
    BITS,
    assert_equal_fit,
    federate,
    least_squares,
    needs_data,
    number,
    row,
    slice_of,
    split,
)
from tests.study.test_combat import NEURO, PANDAS, combat, impac_features, neuro, older, whole
from tests.study.test_meta import meta

TERMS = ("dx", "age", "sex")


def chained(inner: Statistic, **changes: Any) -> Chained:
    asked: dict[str, Any] = {
        "name": inner.name,
        "inner": inner,
        "combat": combat(),
        "outcomes": frozenset(outcome.name for outcome in OUTCOMES),
    }
    return Chained(**(asked | changes))


def played(statistic: Chained, sites: list[Batch]) -> tuple[Table, int]:
    """Return the first table, and how many rounds there were; the ComBat's sums are opened in the first."""
    assert statistic.layout() == ()
    assert federate(statistic, sites) == {}
    assert all(statistic.members(site) == {} for site in sites)
    here: Statistic = statistic.further(federate(statistic.combat, sites))
    rounds = 2
    while True:
        sums = federate(here, sites, 1000)
        following = here.further(sums)
        if following is None:
            assert rounds <= statistic.most_rounds
            return here.finish(sums)[0], rounds
        here, rounds = following, rounds + 1


def pooled(batch: Batch, site: NDArray[Any], **options: bool) -> Batch:
    """Return the people with the values that neuroCombat gives them."""
    data = np.asarray(neuro(batch, site, **options)["data"])
    values = {outcome.name: data[place] for place, outcome in enumerate(OUTCOMES)}
    return Batch(batch.people, {**batch.numbers, **values}, batch.levels)


@pytest.mark.parametrize("site_effect", ["within", "none"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_regression_of_harmonised_values_equals_the_pooled_pipeline(site_effect: str, seed: int) -> None:
    batch, site = whole(seed)
    statistic = chained(regression(terms=TERMS, site_effect=site_effect, effect="dx"))
    table, rounds = played(statistic, split(batch, site))
    assert rounds == 2 == statistic.most_rounds
    harmonised = pooled(batch, site)
    names = ("dx[autism]", "dx[other]", "age", "sex[male]")
    columns = {name: dummies(harmonised)[name] for name in names}
    for outcome in OUTCOMES:
        oracle = least_squares(
            harmonised.numbers[outcome.name], columns, site if site_effect == "within" else None
        )
        assert_equal_fit(table, outcome.name, oracle, names, relative=1e-6)
    assert table.notes[-1] == "Values as h harmonised them, clipped to their declared ranges."


@needs_data
def test_impac_harmonised_regression_equals_the_pooled_pipeline() -> None:
    features = ["lh_bankssts_thickness", "lh_cuneus_thickness", "lh_insula_thickness", "Left-Hippocampus"]
    batch, site, outcomes = impac_features(features)
    batch.numbers["age"][:] = np.float32(batch.numbers["age"])  # as neuroCombat keeps covariates
    variables: dict[str, Variable] = {"dx": Factor("dx", ("control", "autism")), "sex": SEX, "age": AGE}
    asked: dict[str, Any] = {"outcomes": outcomes, "variables": variables}
    statistic = chained(
        regression(terms=TERMS, effect="dx", **asked),
        combat=combat(min_per_site=10, **asked),
        outcomes=frozenset(features),
    )
    table, _ = played(statistic, split(batch, site))
    covariates = {"site": site, **batch.levels, "age": batch.numbers["age"]}
    data = NEURO.neuroCombat(
        dat=np.array([batch.numbers[name] for name in features]),
        covars=PANDAS.DataFrame(covariates),
        batch_col="site",
        categorical_cols=["dx", "sex"],
        continuous_cols=["age"],
    )["data"]
    columns = {
        "dx[autism]": batch.levels["dx"] == 1,
        "age": batch.numbers["age"],
        "sex[male]": batch.levels["sex"],
    }
    floating = {name: np.asarray(column, np.float64) for name, column in columns.items()}
    for place, outcome in enumerate(outcomes):
        oracle = least_squares(np.asarray(data[place]), floating, np.array(site))
        assert_equal_fit(table, outcome.name, oracle, tuple(floating), relative=1e-7)


def test_a_subgroup_is_judged_on_values_that_are_not_harmonised() -> None:
    batch, site = whole(4)
    batch.numbers["y0"][:] = np.clip(batch.numbers["y0"], 0.0, 5.0)

    def thick(people: Batch) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = people.numbers["y0"] > 2.5
        return held

    inner = Summary("s", OUTCOMES, (DX,), BITS)
    table, _ = played(chained(inner, where=thick), split(batch, site))
    harmonised = pooled(batch, site)
    kept = np.flatnonzero(thick(batch))
    for place, level in enumerate(DX.levels):
        found = row(table, variable="y1", dx=level)
        values = harmonised.numbers["y1"][kept][batch.levels["dx"][kept] == place]
        assert found["n"] == len(values)
        assert number(found["mean"]) == pytest.approx(values.mean(), rel=1e-8)
        assert number(found["sd"]) == pytest.approx(values.std(ddof=1), rel=1e-6)


def test_an_analysis_of_several_rounds_goes_on_under_the_same_standards() -> None:
    batch, site = whole(5, sites=6, people=400)
    asked: dict[str, Any] = {"terms": TERMS, "models": ("fixed", "dl")}
    table, rounds = played(chained(meta(**asked)), split(batch, site))
    assert rounds in (2, 3)
    harmonised = pooled(batch, site)
    plain = meta(**asked)
    first = federate(plain, split(harmonised, site))
    (known,) = plain.finish(first)
    for outcome in OUTCOMES:
        keys = {"outcome": outcome.name, "model": "fixed", "term": "dx[autism]"}
        found, right = row(table, **keys), row(known, **keys)
        assert number(found["estimate"]) == pytest.approx(number(right["estimate"]), rel=1e-6)
        assert found["k"] == right["k"]


def test_people_of_a_site_that_is_not_harmonised_are_missing() -> None:
    batch, site = whole(6, sites=4, people=200)
    sites = split(batch, site)
    sites[0] = slice_of(sites[0], np.arange(7))
    statistic = chained(regression(terms=TERMS), combat=combat(min_per_site=10))
    table, _ = played(statistic, sites)
    without, _ = played(statistic, sites[1:])
    assert table == without
    assert row(table, outcome="y0", term="age")["n"] == sum(one.people for one in sites[1:])


def test_an_outcome_that_has_no_standard_is_missing_and_named() -> None:
    batch, site = whole(7)
    batch.numbers["y1"][:] = 4000.0
    table, _ = played(chained(regression(terms=TERMS)), split(batch, site))
    assert row(table, outcome="y1", term="age")["status"] == "all missing"
    assert row(table, outcome="y0", term="age")["status"] == "ok"
    assert table.notes[-1] == "Not harmonised there, hence missing here: y1."


def test_harmonised_values_stay_within_the_declared_range() -> None:
    batch, site = whole(8)
    sites = split(batch, site)
    rng = np.random.default_rng(8)
    for spread, one in zip((0.01, 0.2, 0.3, 0.2, 0.3), sites, strict=True):
        one.numbers["y0"][:] = np.clip(0.4 + spread * rng.normal(size=one.people), 0.0, 5.0)
    harmonise = combat(empirical_bayes=False)
    statistic = chained(Summary("s", OUTCOMES[:1], (), BITS), combat=harmonise)
    table, _ = played(statistic, sites)
    sums = federate(harmonise, sites)
    kept = [(one, harmonise.locally(sums, partial(iter, [one]))) for one in sites]
    values = np.concatenate([local.values(one)[:, 0] for one, local in kept])
    assert values.min() < 0
    assert number(row(table, variable="y0")["mean"]) == pytest.approx(np.clip(values, 0, 5).mean(), rel=1e-9)


def test_parameters_are_the_standards_and_alike_everywhere() -> None:
    batch, site = whole(9)
    statistic = chained(regression(terms=TERMS))
    sums = federate(statistic.combat, split(batch, site))
    one, other = (
        statistic.further(sums),
        statistic.further({name: value.copy() for name, value in sums.items()}),
    )
    assert one.parameters == other.parameters
    assert len(one.parameters) == len(OUTCOMES) * (2 + len(statistic.combat.design.columns))
    assert isinstance(one, OnHarmonised)
    with pytest.raises(ValueError, match="at_site"):
        one.accumulate(batch)


def test_a_subgroup_of_the_combat_is_all_that_the_analysis_has() -> None:
    batch, site = whole(10)
    table, _ = played(chained(regression(terms=TERMS), combat=combat(where=older)), split(batch, site))
    assert row(table, outcome="y0", term="age")["n"] == int(older(batch).sum())


STUDY = """\
study: chain
title: Chain
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, autism, other]}
  sex: {levels: [female, male]}
  age: {unit: years, range: [5, 65]}
  y0: {unit: mm, range: [0, 5]}
  y1: {unit: mm3, range: [0, 9000]}
  y2: {unit: "1", range: [-1, 1]}
cohort: {epoch: 2026-11}
analyses:
  a: {kind: regression, outcomes: [y0, y2], terms: [dx, age, sex], where: age > 20, needs: h}
  h: {kind: combat, outcomes: [y0, y1, y2], keep: [age], fit_on: dx == control, min_per_site: 4}
protection:
  {min_sites: 3, min_participants: 3, max_participants: 1000, min_participants_per_site: 2, max_colluding_sites: 0}
privacy: {noise: none}
"""


def opened(plan: StudyPlan, sites: list[Batch]) -> dict[str, NDArray[np.int64]]:
    """Return the opened sums of one round of a study."""
    blocks = plan.round.blocks
    total = np.zeros(sum(block.size for block in blocks), np.int64)
    for one in sites:
        _, supplied = plan.supply([one], 1)
        _, values = plan.contribution(partial(iter, [one]), blocks, supplied)
        total = total + values
    return by_block(blocks, total)


def test_a_study_runs_its_chain_in_two_rounds_and_keeps_harmonised_values_at_the_sites() -> None:
    batch, site = whole(11, sites=4, people=240)
    sites = split(batch, site)
    plan = plan_study(frozen(STUDY), roster_of(4))
    assert (plan.most_rounds, plan.seen_by_sites) == (2, ("a", "h"))
    assert all(block.name.startswith("h/") for block in plan.round.blocks[1:])
    assert {"sex[male]", "dx[other]"} <= set(plan.round.items)  # asked for in the second round only
    first = opened(plan, sites)
    second = plan.advance(first)
    assert second is not None
    sums = opened(second, sites)
    assert second.advance(sums) is None
    tables = {table.analysis: table for table in second.finish(sums)}
    assert row(tables["h"], outcome="y1", term="age")["status"] == "ok"
    assert row(tables["a"], outcome="y0", term="age")["n"] == int((batch.numbers["age"] > 20).sum())
    assert not second.needs_sight(
        sums
    )  # so what the ComBat leaves at a site must come from the round that it ended with
    assert list(second.local(sums, lambda: [sites[0]])) == []
    ((name, local),) = plan.local(first, lambda: [sites[0]])
    assert (name, local.columns) == ("h", ("y0", "y1", "y2"))
    assert not np.isnan(local.values(sites[0])).any()
    assert [table.analysis for table in local.tables] == ["h.site"]
