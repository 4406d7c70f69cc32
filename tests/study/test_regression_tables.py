"""What a regression says where there is nothing to estimate, and its effects, contrasts and tests."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.design import build_design
from cohortsum.study.statistics.distributions import false_discovery
from cohortsum.study.statistics.estimates import estimate
from cohortsum.study.statistics.opening import opened
from cohortsum.study.statistics.regression_tables import Request, tables
from cohortsum.study.variables import Number
from tests.study.models import (
    OUTCOMES,
    TERMS,
    TIGHT,
    VARIABLES,
    cohort,
    dummies,
    fitted,
    regression,
    seeds,
)
from tests.study.pooled import (
    BITS,
    assert_equal_fit,
    benjamini_hochberg,
    federate,
    least_squares,
    number,
    row,
    split,
)

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
