"""Weights, ridge, robust errors, variance inflation and joint tests equal statsmodels on all rows together."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.joint import CRITERIA, Joint
from cohortsum.study.statistics.parameters import rounded
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.sandwich import Sandwich
from cohortsum.study.statistics.site_test import SiteTest
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, small
from tests.study.models import OUTCOMES, TIGHT, VARIABLES, cohort, dummies, fitted, regression, seeds
from tests.study.pooled import (
    DATA,
    SM,
    Floats,
    assert_equal_fit,
    federate,
    federate_rounds,
    floats,
    least_squares,
    needs_data,
    number,
    read_columns,
    row,
    slice_of,
    split,
)

MANOVA: Any = import_module("statsmodels.multivariate.manova").MANOVA
INFLATION: Any = import_module("statsmodels.stats.outliers_influence").variance_inflation_factor

W = Number("w", "1", 0.0, 4.0)
WEIGHTED = {**VARIABLES, "w": W}


def design(columns: Mapping[str, Floats], site: NDArray[Any] | None) -> tuple[list[str], Floats]:
    """Return names and columns of the pooled model, with dummies of sites or an intercept."""
    names, stacked = list(columns), np.column_stack(list(columns.values()))
    if site is None:
        return ["intercept", *names], np.column_stack([np.ones(len(stacked)), stacked])
    marks = [(site == label).astype(np.float64) for label in np.unique(site)]
    return names, np.column_stack([stacked, *marks])


def known_rows(y: Floats, columns: Mapping[str, Floats]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = np.all(~np.isnan(np.column_stack([y, *columns.values()])), axis=1)
    return known


def pooled(
    y: Floats, columns: Mapping[str, Floats], site: NDArray[Any] | None, weights: Floats | None = None
) -> tuple[list[str], Any]:
    """Return the names and the statsmodels model of the rows that count."""
    known = known_rows(y, columns)
    if weights is not None:
        known &= weights > 0
    names, x = design(
        {name: values[known] for name, values in columns.items()}, None if site is None else site[known]
    )
    x = x / np.abs(x).max(axis=0)
    return names, SM.OLS(y[known], x) if weights is None else SM.WLS(y[known], x, weights=weights[known])


def scales(y: Floats, columns: Mapping[str, Floats], weights: Floats | None = None) -> dict[str, float]:
    """Return what `pooled` divided each column by."""
    known = known_rows(y, columns)
    if weights is not None:
        known &= weights > 0
    return {"intercept": 1.0} | {name: float(np.abs(values[known]).max()) for name, values in columns.items()}


# --- robust standard errors -----------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    seeds,
    st.integers(1, 6),
    st.sampled_from(["HC0", "HC1"]),
    st.sampled_from(["within", "none"]),
    st.booleans(),
)
def test_robust_errors_equal_statsmodels_with_a_dummy_per_site(
    seed: int, sites: int, kind: str, site_effect: str, weighted: bool
) -> None:
    batch, site = cohort(seed, sites, people=200)
    weights = np.random.default_rng(seed).uniform(0, 4, 200) * (np.random.default_rng(seed).random(200) < 0.9)
    batch = Batch(batch.people, {**batch.numbers, "w": weights}, batch.levels)
    asked: dict[str, Any] = {"variables": WEIGHTED, "weights": W} if weighted else {}
    statistic = regression(
        covariance=kind,
        site_effect=site_effect,
        tests={"shape": ("dx:age", "dx")},
        contrasts={"c": {"age": 2.0}},
        **asked,
    )
    (table, contrasts, tests), rounds = federate_rounds(statistic, split(batch, site))
    assert rounds == 2
    columns = dummies(batch)
    for outcome in OUTCOMES:
        y = batch.numbers[outcome.name]
        by_site = site if site_effect == "within" else None
        names, model = pooled(y, columns, by_site, weights if weighted else None)
        oracle = model.fit(method="qr", cov_type=kind, use_t=True)
        scale = scales(y, columns, weights if weighted else None)
        for place, name in enumerate(names):
            found = row(table, outcome=outcome.name, term=name)
            se = oracle.bse[place] / scale[name]
            assert number(found["se"]) == pytest.approx(se, rel=1e-8)
            assert number(found["b"]) == pytest.approx(
                oracle.params[place] / scale[name], rel=1e-8, abs=1e-8 * se
            )
            assert number(found["p"]) == pytest.approx(oracle.pvalues[place], rel=1e-5)
            assert found["df"] == oracle.df_resid
        places = [place for place, name in enumerate(names) if name.startswith("dx")]
        wald = oracle.f_test(np.eye(len(oracle.params))[places])
        found = row(tests, outcome=outcome.name, test="shape")
        assert number(found["statistic"]) == pytest.approx(float(wald.fvalue), rel=1e-6)
        assert (found["df"], found["df2"]) == (4, oracle.df_resid)
        assert number(row(contrasts, outcome=outcome.name, contrast="c")["se"]) == pytest.approx(
            2 * oracle.bse[names.index("age")] / scale["age"], rel=1e-8
        )


def test_d_rests_on_equal_variances_whatever_the_standard_errors() -> None:
    batch, site = cohort(71, people=200)
    plain = fitted(regression(effect="dx", correction="fdr_bh"), batch, site)
    (table,), _ = federate_rounds(
        regression(effect="dx", correction="fdr_bh", covariance="HC1"), split(batch, site)
    )
    for name in ("d", "d_se", "n_level"):
        first, second = (row(one, outcome="y0", term="dx[autism]")[name] for one in (plain, table))
        assert number(first) == pytest.approx(number(second), rel=1e-12)
    assert number(row(plain, outcome="y0", term="dx[autism]")["p_fdr"]) != number(
        row(table, outcome="y0", term="dx[autism]")["p_fdr"]
    )
    assert any("HC1" in note for note in table.notes)


def test_outcomes_without_a_model_have_no_second_round_and_keep_their_status() -> None:
    batch, site = cohort(73)
    batch.numbers["y1"][:] = np.nan
    statistic = regression(covariance="HC0")
    following = statistic.further(federate(statistic, split(batch, site)))
    assert isinstance(following, Sandwich)
    assert [block.name for block in following.layout()] == ["r/y0/residuals", "r/y2/residuals"]
    (table,), _ = federate_rounds(statistic, split(batch, site))
    assert row(table, outcome="y1", term="age")["status"] == "all missing"
    (unopened,) = following.finish({})
    assert row(unopened, outcome="y0", term="age")["status"] == "too few sites"
    nobody = slice_of(batch, np.array([], np.intp))
    assert statistic.further(federate(statistic, [nobody])) is None


def test_a_coefficient_whose_people_are_all_fitted_exactly_is_not_estimable() -> None:
    batch, site = cohort(79)
    dx = batch.levels["dx"]
    dx[dx == 2] = 0
    case, control = np.flatnonzero(~np.isnan(batch.numbers["y0"]) & (dx == 0))[:2]
    dx[case], site[[case, control]] = 2, 99  # a site of two, the only one with this level
    (table,), _ = federate_rounds(
        regression(terms=("dx",), outcomes=OUTCOMES[:1], covariance="HC0"), split(batch, site)
    )
    assert row(table, outcome="y0", term="dx[other]")["status"] == "not estimable"
    assert row(table, outcome="y0", term="dx[autism]")["status"] == "ok"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
def test_parameters_keep_40_bits(values: list[float]) -> None:
    exact = np.array(values)
    kept = rounded(exact)
    assert np.all(np.abs(kept - exact) <= 2.0**-40 * np.abs(exact) + 1e-308)
    assert np.array_equal(rounded(kept), kept)
    normal = np.abs(kept) > 1e-280  # below, a neighbour is farther away than what is rounded off
    assert np.array_equal(rounded(kept * (1 + 2.0**-51))[normal], kept[normal])


# --- weights --------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(5, 200), st.sampled_from(["within", "none"]))
def test_weights_equal_weighted_least_squares(
    seed: int, sites: int, batch_size: int, site_effect: str
) -> None:
    batch, site = cohort(seed, sites, people=150)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0, 4, 150) * (rng.random(150) < 0.9)
    weights[rng.random(150) < 0.05] = np.nan
    batch = Batch(batch.people, {**batch.numbers, "w": weights}, batch.levels)
    statistic = regression(
        variables=WEIGHTED, weights=W, site_effect=site_effect, tests={"shape": ("dx:age",)}
    )
    table, tests = statistic.finish(federate(statistic, split(batch, site), batch_size))
    columns = dummies(batch)
    for outcome in OUTCOMES:
        y = batch.numbers[outcome.name]
        names, model = pooled(y, columns, site if site_effect == "within" else None, weights)
        oracle, scale = model.fit(method="qr"), scales(y, columns, weights)
        for place, name in enumerate(names):
            found = row(table, outcome=outcome.name, term=name)
            se = oracle.bse[place] / scale[name]
            assert number(found["se"]) == pytest.approx(se, rel=TIGHT)
            assert number(found["b"]) == pytest.approx(
                oracle.params[place] / scale[name], rel=TIGHT, abs=TIGHT * se
            )
            assert (found["df"], found["n"]) == (oracle.df_resid, oracle.nobs)
        places = [place for place, name in enumerate(names) if ":" in name]
        wald = oracle.f_test(np.eye(len(oracle.params))[places])
        assert number(row(tests, outcome=outcome.name, test="shape")["statistic"]) == pytest.approx(
            float(wald.fvalue), rel=1e-7
        )
    assert any(note.startswith("Weighted by w;") for note in table.notes)


def test_equal_weights_change_nothing() -> None:
    batch, site = cohort(83)
    alike = Batch(batch.people, {**batch.numbers, "w": np.full(batch.people, 2.5)}, batch.levels)
    for site_effect in ("within", "none"):
        table = fitted(regression(variables=WEIGHTED, weights=W, site_effect=site_effect), alike, site)
        columns = dummies(batch)
        oracle = least_squares(batch.numbers["y0"], columns, site if site_effect == "within" else None)
        assert_equal_fit(table, "y0", oracle, list(columns), TIGHT)


def test_weights_say_on_how_many_people_they_rest() -> None:
    batch, _ = cohort(89)
    weights = np.full(batch.people, 1e-6)
    weights[np.flatnonzero(known_rows(batch.numbers["y0"], dummies(batch)))[0]] = 4.0
    heavy = Batch(batch.people, {**batch.numbers, "w": weights}, batch.levels)
    statistic = regression(variables=WEIGHTED, weights=W)
    assert statistic.effective_people(statistic.accumulate(heavy)) == pytest.approx(1.0, abs=1e-3)
    assert SiteTest("r", statistic).effective_people(statistic.accumulate(heavy)) == pytest.approx(
        1.0, abs=1e-3
    )
    assert regression().effective_people(regression().accumulate(batch)) == float("inf")
    nobody = slice_of(heavy, np.array([], np.intp))
    assert statistic.effective_people(statistic.accumulate(nobody)) == float("inf")


# --- ridge and variance inflation -----------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from([1e-3, 0.1, 2.0]), st.sampled_from(["within", "none"]))
def test_a_ridge_equals_the_penalised_fit_of_standardised_columns(
    seed: int, penalty: float, site_effect: str
) -> None:
    batch, site = cohort(seed)
    table = fitted(regression(ridge=penalty, site_effect=site_effect), batch, site)
    columns = dummies(batch)
    for outcome in OUTCOMES:
        known = known_rows(batch.numbers[outcome.name], columns)
        stacked = np.column_stack([batch.numbers[outcome.name], *columns.values()])[known]
        labels = site[known] if site_effect == "within" else np.zeros(len(stacked))
        about = stacked - np.array([stacked[labels == label].mean(axis=0) for label in labels])
        y, x = about[:, 0], about[:, 1:]
        length = np.sqrt((x**2).sum(axis=0))
        oracle = SM.OLS(y, x / length).fit_regularized(L1_wt=0.0, alpha=penalty / len(y)).params / length
        gram = (x / length).T @ (x / length)
        eigenvalues = np.linalg.eigvalsh(gram)
        hat = float(np.sum(eigenvalues / (eigenvalues + penalty)))
        for name, b in zip(columns, oracle, strict=True):
            found = row(table, outcome=outcome.name, term=name)
            assert number(found["b"]) == pytest.approx(b, rel=1e-7, abs=1e-9 * np.abs(oracle).max())
            assert found["se"] == found["p"] == Absent("a ridge has no standard error")
            assert number(found["df"]) == pytest.approx(len(y) - len(np.unique(labels)) - hat, rel=1e-9)
    assert any(note.startswith("Ridge with penalty") for note in table.notes)


def test_a_ridge_parts_what_would_be_aliased() -> None:
    batch, site = cohort(97)
    batch = Batch(batch.people, {**batch.numbers, "twice": 2 * batch.numbers["age"]}, batch.levels)
    variables = {**VARIABLES, "twice": Number("twice", "years", 10.0, 130.0)}
    table = fitted(regression(terms=("age", "twice"), variables=variables, ridge=0.01), batch, site)
    first, second = (number(row(table, outcome="y0", term=name)["b"]) for name in ("age", "twice"))
    assert first == pytest.approx(2 * second, rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from(["within", "none"]))
def test_variance_inflation_equals_that_of_the_centred_columns(seed: int, site_effect: str) -> None:
    batch, site = cohort(seed)
    table = fitted(regression(vif=True, site_effect=site_effect), batch, site)
    columns = dummies(batch)
    known = known_rows(batch.numbers["y0"], columns)
    stacked = np.column_stack(list(columns.values()))[known]
    labels = site[known] if site_effect == "within" else np.zeros(len(stacked))
    about = stacked - np.array([stacked[labels == label].mean(axis=0) for label in labels])
    for place, name in enumerate(columns):
        found = row(table, outcome="y0", term=name)
        assert number(found["vif"]) == pytest.approx(INFLATION(about, place), rel=1e-8)
    if site_effect == "none":
        assert isinstance(row(table, outcome="y0", term="intercept")["vif"], Absent)


# --- several outcomes at once ---------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    seeds,
    st.integers(1, 5),
    st.sampled_from(["within", "none"]),
    st.sampled_from([("dx",), ("age", "dx:age"), ("sex",)]),
)
def test_joint_tests_equal_manova(seed: int, sites: int, site_effect: str, terms: tuple[str, ...]) -> None:
    batch, site = cohort(seed, sites, people=150)
    names = tuple(outcome.name for outcome in OUTCOMES)
    statistic = regression(
        missing="complete",
        site_effect=site_effect,
        multivariate={"all": Joint(names, terms), "two": Joint(names[1:], terms)},
    )
    tables = statistic.finish(federate(statistic, split(batch, site)))
    table = tables[-1]
    assert (table.analysis, table.kind) == ("r.multivariate", "test")
    columns = dummies(batch)
    y = np.column_stack(
        [batch.numbers[name] / outcome.half_width for name, outcome in zip(names, OUTCOMES, strict=True)]
    )
    known = ~np.isnan(np.column_stack([y, *columns.values()])).any(axis=1)
    labels, x = design(
        {name: values[known] for name, values in columns.items()},
        site[known] if site_effect == "within" else None,
    )
    term_of = {**dict.fromkeys(("dx[autism]", "dx[other]"), "dx"), "age": "age", "sex[male]": "sex"}
    places = [
        place
        for place, name in enumerate(labels)
        if (("dx:age" if ":" in name else term_of.get(name)) in terms)
    ]
    x = x / np.abs(x).max(axis=0)
    contrast = np.eye(x.shape[1])[places]
    for test, first in (("all", 0), ("two", 1)):
        oracle = (
            MANOVA(y[known][:, first:], x).mv_test(hypotheses=[("h", contrast, None)]).results["h"]["stat"]
        )
        for criterion in CRITERIA:
            found = row(table, outcome=", ".join(names[first:]), test=f"{test}: {criterion}")
            expected = oracle.loc[criterion]
            for ours, theirs in (
                ("estimate", "Value"),
                ("statistic", "F Value"),
                ("df", "Num DF"),
                ("df2", "Den DF"),
            ):
                assert number(found[ours]) == pytest.approx(float(expected[theirs]), rel=1e-6, abs=1e-9)
            assert number(found["p"]) == pytest.approx(float(expected["Pr > F"]), rel=1e-4)


def test_joint_tests_say_why_there_is_none() -> None:
    batch, site = cohort(101)
    batch = Batch(
        batch.people,
        {**batch.numbers, "copy": batch.numbers["y0"], "twice": 2 * batch.numbers["age"]},
        batch.levels,
    )
    copy, twice = Number("copy", "mm", 0.0, 5.0), Number("twice", "years", 10.0, 130.0)
    joint = {"copies": Joint(("y0", "copy"), ("sex",)), "alias": Joint(("y0", "y1"), ("twice",))}
    statistic = regression(
        outcomes=(*OUTCOMES[:2], copy),
        terms=("age", "sex", "twice"),
        variables={**VARIABLES, "twice": twice},
        missing="complete",
        multivariate=joint,
    )
    sums = federate(statistic, split(batch, site))
    status = {str(line[1]).split(":")[0]: line[-1] for line in statistic.finish(sums)[-1].rows}
    assert status == {"copies": "not estimable", "alias": "aliased"}
    few = statistic.finish({name: total for name, total in sums.items() if name != "r/copies/pairs"})[-1]
    assert {line[-1] for line in few.rows} == {"too few sites", "aliased"}
    with pytest.raises(StudyFileError, match="missing: complete"):
        regression(multivariate={"m": Joint(("y0", "y1"), ("dx",))})


# --- the site effect ------------------------------------------------------------------------------------------------


def site_tested(statistic: Regression, batch: Batch, site: NDArray[Any] | list[str]) -> tuple[Table, ...]:
    wrapped = SiteTest(statistic.name, statistic)
    others = {
        "people": np.array([batch.people])
    }  # a round opens what other analyses and the gate need as well
    return wrapped.finish(others | federate(wrapped, split(batch, site)))


@pytest.mark.parametrize("missing", ["per_outcome", "complete"])
def test_the_test_of_the_site_effect_equals_two_pooled_fits(missing: str) -> None:
    batch, site = cohort(103, sites=5, people=200)
    table, tests = site_tested(regression(missing=missing), batch, site)
    columns = dummies(batch)
    some = np.isnan(np.column_stack([batch.numbers[outcome.name] for outcome in OUTCOMES])).any(axis=1)
    for outcome in OUTCOMES:
        y = (
            np.where(some, np.nan, batch.numbers[outcome.name])
            if missing == "complete"
            else batch.numbers[outcome.name]
        )
        full, reduced = least_squares(y, columns, site), least_squares(y, columns, None)
        assert_equal_fit(table, outcome.name, full, list(columns), TIGHT)
        f, p, df = full.model.compare_f_test(reduced.model)
        found = row(tests, outcome=outcome.name, test="site")
        assert number(found["statistic"]) == pytest.approx(float(f), rel=1e-8)
        assert number(found["p"]) == pytest.approx(float(p), rel=1e-6)
        assert (found["df"], found["df2"], found["status"]) == (df, full.df, "ok")


def test_one_site_or_a_site_per_level_leaves_nothing_to_test() -> None:
    batch, site = cohort(107)
    one = site_tested(regression(), batch, ["a"] * batch.people)[-1]
    assert {line[-1] for line in one.rows} == {"aliased"}
    batch.numbers["y1"][:] = np.nan
    assert row(site_tested(regression(), batch, site)[-1], outcome="y1")["status"] == "all missing"
    unopened = SiteTest("r", regression()).finish({})[-1]
    assert {line[-1] for line in unopened.rows} == {"too few sites"}


@needs_data
def test_the_site_effect_of_impac_equals_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["ancova_site_effect"]
    columns = read_columns("impac_asd.csv")
    numbers = {"thickness": floats(columns["lh_MeanThickness_thickness"]), "age": floats(columns["age"])}
    levels = {
        "asd": np.array([int(text) for text in columns["asd"]], np.int16),
        "sex": np.array(["FM".index(text) for text in columns["sex"]], np.int16),
    }
    statistic = regression(
        outcomes=(Number("thickness", "mm", 0.0, 5.0),),
        terms=("asd", "age", "sex"),
        variables={**VARIABLES, "asd": Factor("asd", ("control", "autism"))},
    )
    found = row(
        site_tested(statistic, Batch(len(numbers["age"]), numbers, levels), columns["site"])[-1], test="site"
    )
    assert number(found["statistic"]) == pytest.approx(truth["F"], rel=1e-9)
    assert (found["df"], found["df2"]) == (truth["df1"], truth["df2"])
    assert number(found["p"]) == pytest.approx(truth["p"], rel=1e-6)


# --- the study file -------------------------------------------------------------------------------------------------


def test_a_study_that_asks_for_all_of_it_is_built() -> None:
    text = small(
        "a: {kind: summary, variables: [age]}",
        "a: {kind: regression, outcomes: [iq, age2], terms: [dx], weights: age, vif: true, test_site: true, "
        "missing: complete, multivariate: {m: {outcomes: [iq, 'age*'], terms: [dx]}}}",
    )
    study = frozen(text.replace("outcomes: [iq, 'age*']", "outcomes: [iq, age2]"))
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, SiteTest)
    assert statistic.within.multivariate == {"m": Joint(("iq", "age2"), ("dx",))}
    assert (statistic.within.vif, statistic.within.weights) == (True, study.numbers["age"])
    robust = frozen(
        small(
            "a: {kind: summary, variables: [age]}",
            "a: {kind: regression, outcomes: [iq], terms: [dx], covariance: HC1}",
        )
    )
    assert statistic_of(robust, robust.analyses["a"]).most_rounds == 2
    ridge = frozen(
        small(
            "a: {kind: summary, variables: [age]}",
            "a: {kind: regression, outcomes: [iq], terms: [dx], ridge: 0.5}",
        )
    )
    built = statistic_of(ridge, ridge.analyses["a"])
    assert isinstance(built, Regression)
    assert built.ridge == 0.5
