"""Meta-analysis: every site fits for itself; the pooled estimates are those of statsmodels on the sites' own fits."""

import json
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.meta import MOST_ROUNDS, Meta
from cohortsum.study.statistics.random_effects import Trial, dersimonian_laird, next_reml, reml
from cohortsum.study.variables import Number
from tests.study.models import DX, OUTCOMES, TERMS, VARIABLES, cohort, dummies, seeds
from tests.study.pooled import (
    BITS,
    DATA,
    Floats,
    federate,
    federate_rounds,
    least_squares,
    needs_data,
    number,
    row,
    slice_of,
    split,
)
from tests.study.test_regression_real import IMPAC_VARIABLES, impac

POOL: Any = import_module("statsmodels.stats.meta_analysis")
OPTIMIZE: Any = import_module("scipy.optimize")
MODELS = ("fixed", "dl", "dl_hk", "reml", "reml_hk")


def meta(**changes: Any) -> Meta:
    asked: dict[str, Any] = {
        "name": "m",
        "outcomes": OUTCOMES,
        "terms": ("dx", "age", "sex"),
        "variables": VARIABLES,
        "effect": "dx",
        "measure": "cohens_d",
        "models": MODELS,
        "min_per_arm": 5,
        "min_sites": 2,
        "fraction_bits": BITS,
    }
    return Meta(**(asked | changes))


def pooled(statistic: Meta, sites: list[Batch]) -> Table:
    ((table,), _) = federate_rounds(statistic, sites)
    return table


def own_fits(
    sites: list[Batch], outcome: str, level: int, measure: str, least: int = 5
) -> list[tuple[float, float]]:
    """Return estimate and variance of every site by statsmodels on its own people; levels are those of dx."""
    found: list[tuple[float, float]] = []
    for site in sites:
        columns = {name: dummies(site)[name] for name in ("dx[autism]", "dx[other]", "age", "sex[male]")}
        y = site.numbers[outcome]
        known = ~np.isnan(np.column_stack([y, *columns.values()])).any(axis=1)
        dx = site.levels["dx"][known]
        n1, n2 = int((dx == 0).sum()), int((dx == level).sum())
        if min(n1, n2) < least:
            continue
        kept = {name: column for name, column in columns.items() if np.ptp(column[known]) > 0}
        oracle = least_squares(y, kept, None)
        place = oracle.names.index(DX.level_name(DX.levels[level]))
        if measure == "b":
            found.append((float(oracle.b[place]), float(oracle.se[place] ** 2)))
            continue
        d = float(oracle.t[place]) * (n1 + n2) / np.sqrt(n1 * n2 * oracle.df)
        found.append((d, (n1 + n2) / (n1 * n2) + d * d / (2 * (n1 + n2 - 2))))
    return found


def restricted(b: Floats, v: Floats) -> float:
    """Return the REML estimate of tau2 by bisecting the derivative of the restricted likelihood."""

    unit = float(v.mean())
    b, v = b / np.sqrt(unit), v / unit

    def score(t: float) -> float:
        w = 1 / (v + t)
        mu = (w * b).sum() / w.sum()
        return float((w**2 * (b - mu) ** 2).sum() - w.sum() + (w**2).sum() / w.sum())

    if score(0.0) <= 0:
        return 0.0
    high = 1.0
    while score(high) > 0:
        high *= 2
    return unit * float(OPTIMIZE.brentq(score, 0.0, high, xtol=1e-16, rtol=1e-14))


@pytest.mark.parametrize("measure", ["cohens_d", "b"])
@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_pooling_equals_statsmodels_on_the_sites_own_fits(measure: str, seed: int) -> None:
    batch, site = cohort(seed, sites=9, people=450)
    for varied in OUTCOMES[:2]:  # the effect differs between sites
        shift = 0.12 * varied.half_width * np.cos(seed + 3.0 * site) * (batch.levels["dx"] > 0)
        batch.numbers[varied.name][:] += shift
    sites = split(batch, site)
    for one in sites:
        for varied in OUTCOMES[:2]:
            values = one.numbers[varied.name]
            values[:] = np.clip(values, varied.lower, varied.upper)
    table = pooled(meta(measure=measure, outcomes=OUTCOMES[:2]), sites)
    for outcome in ("y0", "y1"):
        for level in (1, 2):
            keys = {"outcome": outcome, "term": DX.level_name(DX.levels[level])}
            fits = own_fits(sites, outcome, level, measure)
            b, v = np.array(fits).T
            with np.errstate(invalid="ignore"):
                oracle = POOL.combine_effects(b, v, method_re="dl")
            tau2 = float(oracle.tau2)
            models = [
                ("fixed", oracle.mean_effect_fe, oracle.var_eff_w_fe, None),
                ("dl", oracle.mean_effect_re, oracle.var_eff_w_re, tau2),
                ("dl_hk", oracle.mean_effect_re, oracle.var_hksj_re, tau2),
            ]
            if tau2 < 0:  # statsmodels goes on with it
                assert row(table, model="dl", **keys)["tau2"] == 0.0
                models = models[:1]
            for model, estimate, variance, between in models:
                found = row(table, model=model, **keys)
                assert (found["k"], found["status"]) == (len(fits), "ok")
                se = float(np.sqrt(variance))
                assert number(found["se"]) == pytest.approx(se, rel=1e-9)
                assert number(found["estimate"]) == pytest.approx(float(estimate), rel=1e-9, abs=1e-9 * se)
                assert number(found["q"]) == pytest.approx(float(oracle.q), rel=1e-9)
                assert number(found["i2"]) == pytest.approx(
                    100 * max(0.0, float(oracle.i2)), rel=1e-7, abs=1e-7
                )
                if between is not None:
                    assert number(found["tau2"]) == pytest.approx(between, rel=1e-8, abs=1e-9 * se**2)
                place = {"fixed": 0, "dl": 1, "dl_hk": 3}[model]
                ends = oracle.conf_int(use_t=model == "dl_hk")[place]
                held = [number(found["low"]), number(found["high"])]
                assert held == pytest.approx([float(end) for end in ends], rel=1e-8, abs=1e-8 * se)
            found, t = row(table, model="reml", **keys), restricted(b, v)
            assert number(found["tau2"]) == pytest.approx(t, rel=1e-6, abs=1e-12 * v.mean())
            w = 1 / (v + t)
            se = float(w.sum() ** -0.5)
            assert number(found["estimate"]) == pytest.approx(
                float((w * b).sum() / w.sum()), rel=1e-6, abs=1e-6 * se
            )
            assert number(found["se"]) == pytest.approx(se, rel=1e-6)


@needs_data
def test_impac_31_sites_equal_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["meta_sites_ge5_per_arm"]
    batch, site = impac(list(truth))
    thickness = tuple(Number(name, "mm", 0.0, 5.0) for name in truth if name.endswith("_thickness"))
    volumes = tuple(Number(name, "mm3", 0.0, 60000.0) for name in truth if not name.endswith("_thickness"))
    asked: dict[str, Any] = {"variables": IMPAC_VARIABLES, "effect": "asd", "min_sites": 5}
    for outcomes, terms in ((thickness, ("asd", "age", "sex")), (volumes, ("asd", "age", "sex", "ICV"))):
        statistic = meta(outcomes=outcomes, terms=terms, **asked)
        (table,), rounds = federate_rounds(statistic, split(batch, site))
        assert rounds <= 7
        for outcome in outcomes:
            known = truth[outcome.name]
            found = row(table, outcome=outcome.name, model="fixed")
            assert (found["k"], found["tau2"]) == (31, Absent("fixed effect"))
            assert number(found["estimate"]) == pytest.approx(known["fixed"]["d"], rel=1e-9)
            assert number(found["se"]) == pytest.approx(known["fixed"]["se"], rel=1e-9)
            assert number(found["q"]) == pytest.approx(known["Q"], rel=1e-9)
            for model, relative in (("dl", 1e-9), ("reml", 1e-6)):
                found, right = row(table, outcome=outcome.name, model=model), known[model]
                assert number(found["tau2"]) == pytest.approx(right["tau2"], rel=relative, abs=1e-12)
                assert number(found["estimate"]) == pytest.approx(right["d"], rel=relative)
                assert number(found["se"]) == pytest.approx(right["se"], rel=relative)
        assert any(note.startswith("sex[male]: up to 6 sites fitted without it") for note in table.notes)


def test_rounds_follow_from_the_models() -> None:
    batch, site = cohort(3, sites=8, people=400)
    for models, least, most in ((("fixed",), 1, 1), (("fixed", "dl_hk"), 2, 2), (("reml",), 3, MOST_ROUNDS)):
        statistic = meta(models=models)
        _, rounds = federate_rounds(statistic, split(batch, site))
        assert least <= rounds <= most == statistic.most_rounds
    first = meta(models=("dl",))
    second = first.further(federate(first, split(batch, site)))
    assert second is not None
    assert all(t > 0 for t in second.parameters)
    assert len(second.parameters) == len(second.layout()) < len(first.layout()) / 3 + 1


def test_a_site_below_the_minimum_per_arm_adds_nothing() -> None:
    batch, site = cohort(5, sites=6, people=300)
    sites = split(batch, site)
    kept = np.flatnonzero(sites[0].levels["dx"] != 1)  # no case left at this site
    without = pooled(meta(), sites[1:])
    assert pooled(meta(), [slice_of(sites[0], kept), *sites[1:]]).rows[:5] == without.rows[:5]


def test_what_does_not_vary_at_a_site_leaves_its_fit_and_is_counted() -> None:
    batch, site = cohort(6, sites=6, people=400)
    sites = split(batch, site)
    sites[0].levels["sex"][:] = 1
    table = pooled(meta(outcomes=OUTCOMES[:1]), sites)
    fits = own_fits(sites, "y0", 1, "cohens_d")
    found = row(table, model="fixed", term="dx[autism]")
    assert found["k"] == len(fits) == 6
    w = 1 / np.array(fits)[:, 1]
    assert number(found["estimate"]) == pytest.approx(
        float((w * np.array(fits)[:, 0]).sum() / w.sum()), rel=1e-9
    )
    assert any(note.startswith("sex[male]: up to 1 sites fitted without it") for note in table.notes)


def test_an_effect_that_a_covariate_determines_at_a_site_is_no_estimate() -> None:
    batch, site = cohort(7, sites=5, people=400)
    sites = split(batch, site)
    sites[2].levels["sex"][:] = sites[2].levels["dx"] == 1
    statistic = meta(outcomes=OUTCOMES[:1])
    found = row(pooled(statistic, sites), model="fixed", term="dx[autism]")
    assert found["k"] == 4
    assert "no estimate" in pooled(statistic, sites).notes[1]


@pytest.mark.parametrize("values", [np.full(60, 2.0), np.full(60, np.nan), np.full(60, 99.0)])
def test_outcomes_without_spread_or_people_are_no_estimate_at_any_site(values: Floats) -> None:
    batch, site = cohort(8, sites=2, people=60)
    constant = Batch(60, {**batch.numbers, "y0": values}, batch.levels)
    for found in pooled(meta(outcomes=OUTCOMES[:1]), split(constant, site)).rows:
        assert found[2] == Absent("no data")
        assert found[11] == "not estimable"


def test_fewer_estimates_than_the_study_asks_for_are_not_reported() -> None:
    batch, site = cohort(9, sites=4, people=400)
    table = pooled(meta(min_sites=5), split(batch, site))
    for found in table.rows:
        assert (found[2], found[7], found[11]) == (Absent("too few sites"), 4, "too few sites")
    assert "fewer than 5 estimates" in table.notes[1]


def test_blocks_that_too_few_sites_supply_are_said_to_be_missing() -> None:
    statistic = meta(outcomes=OUTCOMES[:2], models=("fixed",))
    batch, site = cohort(10, sites=4, people=400)
    sums = {name: one for name, one in federate(statistic, split(batch, site)).items() if "/y1/" not in name}
    (table,) = statistic.finish(sums)
    assert row(table, outcome="y1", term="dx[other]")["status"] == "too few sites"
    assert row(table, outcome="y0", term="dx[other]")["status"] == "ok"


def test_a_number_may_be_the_effect_and_interactions_count_as_covariates() -> None:
    batch, site = cohort(11, sites=5, people=400)
    sites = split(batch, site)
    statistic = meta(terms=TERMS, effect="age", measure="b", outcomes=OUTCOMES[1:2], correction="fdr_bh")
    table = pooled(statistic, sites)
    fits: list[tuple[float, float]] = []
    for one in sites:
        oracle = least_squares(one.numbers["y1"], dummies(one), None)
        place = oracle.names.index("age")
        fits.append((float(oracle.b[place]), float(oracle.se[place] ** 2)))
    b, v = np.array(fits).T
    found = row(table, model="fixed")
    assert number(found["estimate"]) == pytest.approx(float((b / v).sum() / (1 / v).sum()), rel=1e-9)
    assert found["p_fdr"] == found["p"]
    assert found["n_reference"] == Absent("the effect is not a factor")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(2e-2, 2)), min_size=2, max_size=40),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
@example(
    [(0.0, 1.0), (1.5625, 1.625), (-1.25, 1.0), (-1.3125, 0.03125), (-0.5, 1.5)], 1e-6
)  # the score turns
def test_reml_finds_a_maximum_of_the_likelihood_whatever_the_estimates(
    fits: list[tuple[float, float]], unit: float
) -> None:
    b, v = unit * np.array([one for one, _ in fits]), unit**2 * np.array([one for _, one in fits])

    def at(t: float) -> Trial:
        w = [1 / (Fraction(float(one)) + Fraction(t)) for one in v]
        values = [Fraction(float(one)) for one in b]
        sums = [
            sum((weight**i * one**j for weight, one in zip(w, values, strict=True)), Fraction(0))
            for i, j in ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
        ]
        return Trial(t, *sums)

    trials = [at(0.0)]
    moments = dersimonian_laird(trials[0], len(fits))
    if moments > 0 and trials[0].step > 0:
        trials.append(at(moments))
    while (t := next_reml(trials)) is not None and len(trials) < MOST_ROUNDS:
        trials.append(at(t))
    found = reml(trials)
    if (
        found is None
    ):  # said to be not estimable; only ever seen where the score is flat and its roots are many
        assert len(trials) == MOST_ROUNDS
        return
    if found.tau2 == 0:
        assert trials[0].step <= 0
    else:  # a maximum: the likelihood rises before and falls behind
        assert at(found.tau2 * (1 - 1e-6)).step > 0 > at(found.tau2 * (1 + 1e-6)).step
