"""Mixed models equal a direct maximisation of the restricted likelihood over all rows, and statsmodels.

The oracle forms V^-1 for every ratio from all rows and maximises by bounded search; it shares nothing with the grid.
"""

import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.mixed import MOST_ROUNDS, Mixed
from cohortsum.study.statistics.profile import place, points, ratio
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, with_analysis
from tests.study.models import OUTCOMES, VARIABLES, cohort, dummies, regression, seeds
from tests.study.pooled import (
    DATA,
    Floats,
    federate,
    federate_rounds,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    slice_of,
    split,
)

OPTIMIZE: Any = import_module("scipy.optimize")
LMM: Any = import_module("statsmodels.regression.mixed_linear_model").MixedLM


def mixed(regressed: dict[str, Any] | None = None, **changes: Any) -> Mixed:
    asked: dict[str, Any] = {"name": "r", "ratios": 33, "site_size": 50.0, "max_ratio": 100.0}
    return Mixed(regression=regression(**(regressed or {})), **(asked | changes))


def solved(statistic: Mixed, batch: Batch, site: NDArray[Any] | list[str]) -> tuple[Table, int]:
    (table,), rounds = federate_rounds(statistic, split(batch, site), 1000)
    return table, rounds


class Pooled:
    """The restricted likelihood over all rows that count, in scaled units."""

    def __init__(self, y: Floats, columns: dict[str, Floats], site: NDArray[Any]) -> None:
        known = ~np.isnan(np.column_stack([y, *columns.values()])).any(axis=1)
        self.names = ["intercept", *columns]
        x = np.column_stack([np.ones(len(y)), *columns.values()])[known]
        self.scale = np.abs(x).max(axis=0)
        self.centre, self.spread = y[known].mean(), y[known].std()
        self.x, self.y, self.site = x / self.scale, (y[known] - self.centre) / self.spread, site[known]
        best = OPTIMIZE.minimize_scalar(
            self.criterion, bounds=(-14, 4), method="bounded", options={"xatol": 1e-11}
        )
        theta = float(np.exp(best.x))
        self.theta = 0.0 if self.fit(0.0)[0] <= self.fit(theta)[0] else theta

    def criterion(self, log_theta: float) -> float:
        return self.fit(float(np.exp(log_theta)))[0]

    def fit(self, theta: float) -> tuple[float, Any, Any, float]:
        """Return the criterion, b, its standard errors and the residual variance."""
        n, p = self.x.shape
        a, c, q, logs = np.zeros((p, p)), np.zeros(p), 0.0, 0.0
        for label in np.unique(self.site):
            x, y = self.x[self.site == label], self.y[self.site == label]
            inverse = np.linalg.inv(np.eye(len(y)) + theta * np.ones((len(y), len(y))))
            a, c, q = a + x.T @ inverse @ x, c + x.T @ inverse @ y, q + float(y @ inverse @ y)
            logs += np.log1p(theta * len(y))
        b = np.linalg.solve(a, c)
        s2 = (q - float(b @ c)) / (n - p)
        criterion = (n - p) * np.log(s2) + logs + float(np.linalg.slogdet(a)[1])
        return criterion, b, np.sqrt(s2 * np.diag(np.linalg.inv(a))), s2

    def check(self, table: Table, outcome: str, relative: float) -> None:
        """Compare coefficients, errors and variances."""
        _, b, se, s2 = self.fit(self.theta)
        b, se, s2 = b / self.scale * self.spread, se / self.scale * self.spread, s2 * self.spread**2
        b[0] += self.centre
        for position, name in enumerate(self.names):
            found = row(table, outcome=outcome, term=name)
            assert found["status"] == "ok"
            assert found["n"] == len(self.y)
            assert number(found["se"]) == pytest.approx(se[position], rel=relative)
            assert number(found["b"]) == pytest.approx(b[position], rel=relative, abs=relative * se[position])
            assert number(found["sigma2"]) == pytest.approx(s2, rel=relative)
            assert number(found["tau2"]) == pytest.approx(self.theta * s2, rel=10 * relative, abs=1e-7 * s2)
            assert number(found["icc"]) == pytest.approx(
                self.theta / (1 + self.theta), rel=10 * relative, abs=1e-7
            )


@settings(max_examples=20, deadline=None)
@given(
    seeds, st.integers(2, 12), st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from(["per_outcome", "complete"])
)
def test_mixed_models_equal_the_pooled_restricted_likelihood(
    seed: int, sites: int, spread: float, missing: str
) -> None:
    batch, site = cohort(seed, sites, people=200)
    shifts = np.random.default_rng(seed).normal(size=sites) * spread
    for outcome in OUTCOMES:
        values = batch.numbers[outcome.name]
        values += outcome.half_width * (shifts[site] - 0.2 * np.sin(site))
        np.clip(values, outcome.lower, outcome.upper, out=values)
    table, rounds = solved(mixed({"missing": missing}), batch, site)
    assert table.kind == "mixed"
    assert rounds <= MOST_ROUNDS
    some = np.isnan(np.column_stack([batch.numbers[outcome.name] for outcome in OUTCOMES])).any(axis=1)
    for outcome in OUTCOMES:
        y = np.where(some & (missing == "complete"), np.nan, batch.numbers[outcome.name])
        Pooled(y, dummies(batch), site).check(table, outcome.name, 1e-6)


def test_sites_of_one_and_of_thousands_are_resolved_in_further_rounds() -> None:
    rng = np.random.default_rng(3)
    sizes = [1, 2, 3, 5, 40, 900]
    site = np.repeat(np.arange(len(sizes)), sizes)
    people = len(site)
    age = rng.uniform(5, 65, people)
    y = 2.5 + 0.3 * rng.normal(size=len(sizes))[site] - 0.01 * age + 0.3 * rng.normal(size=people)
    batch = Batch(people, {"age": age, "y0": np.clip(y, 0, 5)}, {})
    regressed = {"terms": ("age",), "outcomes": OUTCOMES[:1]}
    table, rounds = solved(mixed(regressed, ratios=9), batch, site)
    assert 1 < rounds <= MOST_ROUNDS
    oracle = Pooled(batch.numbers["y0"], {"age": age}, site)
    oracle.check(table, "y0", 1e-5)
    table, _ = solved(mixed(regressed, ratios=65), batch, site)
    oracle.check(table, "y0", 1e-5)


def test_outcomes_that_are_resolved_leave_the_next_round() -> None:
    rng = np.random.default_rng(5)
    site = np.repeat(np.arange(8), 100)
    age = rng.uniform(5, 65, len(site))
    y0 = np.clip(2.5 + 0.01 * rng.normal(size=8)[site] + 0.4 * rng.normal(size=len(site)), 0, 5)
    batch = Batch(len(site), {"age": age, "y0": y0, "y1": np.full(len(site), np.nan)}, {})
    statistic = mixed({"terms": ("age",), "outcomes": OUTCOMES[:2]}, ratios=5)
    following = statistic.further(federate(statistic, split(batch, site), 1000))
    assert isinstance(following, Mixed)
    assert [block.name for block in following.layout()] == ["r/y0/people", "r/y0/sites", "r/y0/ratios"]
    assert following.parameters[0] == 0.0
    assert following.most_rounds == MOST_ROUNDS - 1
    table, _ = solved(statistic, batch, site)
    assert row(table, outcome="y1", term="age")["status"] == "all missing"


def test_mixed_models_equal_statsmodels() -> None:
    batch, site = cohort(11, sites=9, people=400)
    columns = dummies(batch)
    table, _ = solved(mixed(), batch, site)
    y = batch.numbers["y0"]
    known = ~np.isnan(np.column_stack([y, *columns.values()])).any(axis=1)
    x = np.column_stack([np.ones(len(y)), *columns.values()])[known]
    scale = np.abs(x).max(axis=0)
    oracle = LMM(10 * (y[known] - 2.5), x / scale, groups=site[known]).fit(
        reml=True, method="bfgs", gtol=1e-9
    )
    for position, name in enumerate(["intercept", *columns]):
        found = row(table, outcome="y0", term=name)
        b = oracle.fe_params[position] / scale[position] / 10 + (2.5 if position == 0 else 0.0)
        assert number(found["b"]) == pytest.approx(b, rel=1e-5, abs=1e-5 * number(found["se"]))
        # its errors come from the observed information of b and tau2 together, ours from that of b, as in the formula
        assert number(found["se"]) == pytest.approx(oracle.bse_fe[position] / scale[position] / 10, rel=1e-3)
        assert number(found["sigma2"]) == pytest.approx(oracle.scale / 100, rel=1e-5)
        assert number(found["tau2"]) == pytest.approx(float(oracle.cov_re[0, 0]) / 100, rel=1e-5)
        z = number(found["statistic"])
        assert z == pytest.approx(number(found["b"]) / number(found["se"]), rel=1e-12)
        assert number(found["low"]) == pytest.approx(
            number(found["b"]) - 1.959963984540054 * number(found["se"]), rel=1e-9
        )
        assert found["df"] == Absent("large-sample test")


def test_no_difference_between_sites_is_a_result_with_a_note() -> None:
    batch, site = cohort(13, sites=5, people=300)
    values = batch.numbers["y0"]
    values -= 0.5 * np.sin(site)
    order = np.argsort(values)
    even = np.empty_like(site)
    even[order] = np.arange(len(site)) % 5  # every site has the same spread of y0
    table, _ = solved(mixed({"terms": ("age",), "outcomes": OUTCOMES[:1]}), batch, even)
    found = row(table, outcome="y0", term="age")
    assert (found["tau2"], found["icc"], found["status"]) == (0.0, 0.0, "ok")
    assert any("tau2 = 0" in note for note in table.notes)


def test_a_ratio_beyond_the_declared_one_is_not_estimable() -> None:
    batch, site = cohort(17, sites=6, people=300)
    values = batch.numbers["y0"]
    values[:] = 0.5 + 0.8 * site + 0.2 * (values - 2.5)
    table, _ = solved(mixed({"outcomes": OUTCOMES[:1], "terms": ("age",)}, max_ratio=1.0), batch, site)
    assert row(table, outcome="y0", term="age")["status"] == "not estimable"
    assert any("max_ratio" in note for note in table.notes)
    table, _ = solved(mixed({"outcomes": OUTCOMES[:1], "terms": ("age",)}, max_ratio=1000.0), batch, site)
    assert row(table, outcome="y0", term="age")["status"] == "ok"


def test_what_cannot_be_estimated_says_why() -> None:
    batch, site = cohort(19, people=200)
    batch.numbers["y1"][:] = 300.0
    batch = Batch(
        batch.people,
        {**batch.numbers, "twice": 2 * batch.numbers["age"], "by_site": 1.0 * site},
        batch.levels,
    )
    numbers = (Number("twice", "years", 10.0, 130.0), Number("by_site", "1", -1.0, 9.0))
    regressed = {
        "terms": ("age", "twice", "by_site"),
        "variables": {**VARIABLES, **{one.name: one for one in numbers}},
    }
    table, _ = solved(mixed(regressed), batch, site)
    status = {(line[0], line[1]): line[table.columns.index("status")] for line in table.rows}
    assert status["y0", "twice"] == "aliased"
    assert (
        status["y0", "by_site"] == status["y0", "age"] == "ok"
    )  # what only varies between sites is estimable here
    assert status["y1", "age"] == "constant, not estimated"
    Pooled(
        batch.numbers["y0"], {"age": batch.numbers["age"], "by_site": batch.numbers["by_site"]}, site
    ).check(table, "y0", 1e-6)
    one, _ = solved(mixed(), batch, ["a"] * batch.people)
    assert row(one, outcome="y0", term="age")["status"] == "not estimable"
    alone, _ = solved(mixed(), slice_of(batch, np.arange(1)), ["a"])
    assert "ok" not in {line[table.columns.index("status")] for line in alone.rows}
    (unopened,) = mixed().finish({})
    assert {line[-4] for line in unopened.rows} == {"too few sites"}


def test_the_grid_spans_what_it_should() -> None:
    assert ratio(place(0.37, 50.0), 50.0) == pytest.approx(0.37, rel=1e-12)
    grid = points(0.0, place(100.0, 50.0), 33)
    assert grid[0] == 0.0
    assert ratio(float(grid[-1]), 50.0) == pytest.approx(100.0)
    assert np.all(np.diff(grid) > 0)


@needs_data
def test_the_mixed_model_of_impac_equals_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["lmm_reml_site_intercept"]
    columns = read_columns("impac_asd.csv")
    numbers = {"thickness": floats(columns["lh_MeanThickness_thickness"]), "age": floats(columns["age"])}
    levels = {
        "asd": np.array([int(text) for text in columns["asd"]], np.int16),
        "sex": np.array(["FM".index(text) for text in columns["sex"]], np.int16),
    }
    regressed = {
        "outcomes": (Number("thickness", "mm", 0.0, 5.0),),
        "terms": ("asd", "age", "sex"),
        "variables": {**VARIABLES, "asd": Factor("asd", ("control", "autism"))},
    }
    table, rounds = solved(mixed(regressed), Batch(len(numbers["age"]), numbers, levels), columns["site"])
    assert rounds == 1
    names = {"Intercept": "intercept", "asd": "asd[autism]", "age": "age", "male": "sex[male]"}
    for theirs, ours in names.items():
        found = row(table, term=ours)
        assert number(found["b"]) == pytest.approx(truth["coef"][theirs]["b"], rel=1e-6)
        assert number(found["se"]) == pytest.approx(truth["coef"][theirs]["se"], rel=1e-6)
        assert number(found["tau2"]) == pytest.approx(truth["tau2"], rel=1e-6)
        assert number(found["sigma2"]) == pytest.approx(truth["sigma2"], rel=1e-6)


def test_a_study_with_mixed_models_is_built() -> None:
    study = frozen(with_analysis("{kind: mixed, outcomes: [iq], terms: [dx, age], ratios: 17}"))
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Mixed)
    assert (statistic.ratios, statistic.site_size, statistic.max_ratio) == (17, 50.0, 100.0)
    (_, _, ratios) = statistic.layout()
    assert ratios.size == 17 * (15 + 1)
