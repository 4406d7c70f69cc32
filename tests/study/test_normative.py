"""Normative models equal a pooled fit with scipy's B-splines, on the grid and for every person.

The oracle stacks all rows, has an intercept or one dummy per site, and solves by numpy's lstsq.
"""

import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.building import grid_of, statistic_of
from cohortsum.study.definition import parse_canonical
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.normative import Normative
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.definitions import frozen, with_analysis
from tests.study.models import AGE, OUTCOMES, SEX, cohort, regression, seeds
from tests.study.pooled import (
    DATA,
    Floats,
    federate,
    federate_rounds,
    floats,
    needs_data,
    number,
    read_columns,
    slice_of,
    split,
)

SPLINE: Any = import_module("scipy.interpolate").BSpline
NORMAL: Any = import_module("scipy.stats").norm
KNOTS = (18.0, 30.0, 45.0)
AGES = (5.0, 12.5, 30.0, 44.0, 65.0)


def normative(
    curve: Curve | None = None,
    modelled: bool = False,
    centiles: tuple[int, ...] = (5, 50, 95),
    **regressed: Any,
) -> Normative:
    used = curve or Curve(AGE, "spline", KNOTS)
    asked: dict[str, Any] = {
        "terms": (used.over.name, "sex"),
        "curves": {used.over.name: used},
        "site_effect": "none",
    }
    grid = grid_of({used.over.name: AGES, "sex": SEX.levels}, {"sex": SEX})
    return Normative(
        name="r",
        regression=regression(**(asked | regressed)),
        grid=grid,
        centiles=centiles,
        modelled=modelled,
    )


def columns(age: Floats, sex: Floats, basis: str) -> Floats:
    """Return the columns beside the intercept, made independently of the curve."""
    if basis == "spline":
        knots = np.array([AGE.lower] * 4 + list(KNOTS) + [AGE.upper] * 4)
        curve = np.full((len(age), len(knots) - 4), np.nan)
        known = ~np.isnan(age)
        curve[known] = SPLINE.design_matrix(age[known], knots, 3).toarray()
        curve = curve[:, 1:]
    else:
        curve = np.column_stack([age, age**2][: 1 if basis == "linear" else 2])
    return np.column_stack([curve, sex])


class Pooled:
    """Mean and spread of one outcome over all rows that count."""

    def __init__(self, y: Floats, x: Floats, site: NDArray[Any] | None, modelled: bool) -> None:
        known = ~np.isnan(np.column_stack([y, x])).any(axis=1)
        labels = np.zeros(len(y)) if site is None else site
        dummies = np.column_stack([labels == label for label in np.unique(labels[known])]).astype(float)
        design = np.column_stack([x, dummies])[known]
        b = np.linalg.lstsq(design, y[known], rcond=None)[0]
        self.slopes = b[: x.shape[1]]
        self.level = y[known].mean() - x[known].mean(axis=0) @ self.slopes
        self.residuals = np.full(len(y), np.nan)
        self.residuals[known] = y[known] - design @ b
        self.n = int(known.sum())
        self.sd = float(np.sqrt(np.nansum(self.residuals**2) / (self.n - design.shape[1])))
        self.modelled = modelled
        if modelled:
            wide = np.column_stack([np.ones(len(y)), x])[known]
            self.scale = np.linalg.lstsq(wide, np.abs(self.residuals[known]), rcond=None)[0] * np.sqrt(
                np.pi / 2
            )

    def mean(self, x: Floats) -> Floats:
        found: Floats = self.level + x @ self.slopes
        return found

    def spread(self, x: Floats) -> Floats:
        if not self.modelled:
            return np.full(len(x), self.sd)
        found: Floats = np.column_stack([np.ones(len(x)), x]) @ self.scale
        return found


def widening(seed: int, sites: int, people: int) -> tuple[Batch, NDArray[Any]]:
    """Return people whose outcomes spread more with age."""
    batch, site = cohort(seed, sites, people)
    rng = np.random.default_rng(seed)
    for outcome in OUTCOMES:
        noise = rng.normal(size=people) * (0.05 + 0.002 * np.nan_to_num(batch.numbers["age"], nan=30.0))
        values = batch.numbers[outcome.name]
        values += outcome.half_width * noise
        np.clip(values, outcome.lower, outcome.upper, out=values)
    return batch, site


@settings(max_examples=20, deadline=None)
@given(
    seeds,
    st.integers(1, 5),
    st.sampled_from(["linear", "quadratic", "spline"]),
    st.sampled_from(["none", "within"]),
    st.booleans(),
)
def test_centiles_and_z_scores_equal_a_pooled_fit(
    seed: int, sites: int, basis: Any, site_effect: str, modelled: bool
) -> None:
    batch, site = widening(seed, sites, 250)
    curve = Curve(AGE, basis, KNOTS if basis == "spline" else ())
    statistic = normative(curve, modelled, site_effect=site_effect)
    (table,), rounds = federate_rounds(statistic, split(batch, site))
    assert (table.kind, rounds) == ("normative", 2 if modelled else 1)
    assert table.columns == ("outcome", "age", "sex", "mean", "sd", "p05", "p50", "p95", "n", "status")
    x = columns(batch.numbers["age"], batch.levels["sex"].astype(float), basis)
    points = columns(np.repeat(AGES, 2), np.tile([0.0, 1.0], len(AGES)), basis)
    z = z_scores(statistic, batch, site)
    for place, outcome in enumerate(OUTCOMES):
        oracle = Pooled(batch.numbers[outcome.name], x, site if site_effect == "within" else None, modelled)
        mean, sd = oracle.mean(points), oracle.spread(points)
        for line, (age, level) in enumerate((age, level) for age in AGES for level in SEX.levels):
            (found,) = [
                dict(zip(table.columns, cells, strict=True))
                for cells in table.rows
                if cells[:3] == (outcome.name, age, level)
            ]
            if sd[line] <= 0:
                assert found["status"] == "not estimable"
                continue
            assert (found["status"], found["n"]) == ("ok", oracle.n)
            assert number(found["mean"]) == pytest.approx(mean[line], rel=1e-7)
            assert number(found["sd"]) == pytest.approx(sd[line], rel=1e-6, abs=1e-8 * outcome.half_width)
            for centile in (5, 50, 95):
                expected = mean[line] + NORMAL.ppf(centile / 100) * sd[line]
                assert number(found[f"p{centile:02d}"]) == pytest.approx(
                    expected, rel=1e-6, abs=1e-8 * outcome.half_width
                )
        spread = oracle.spread(x)
        expected = np.where(spread > 0, oracle.residuals / np.where(spread > 0, spread, 1.0), np.nan)
        assert np.array_equal(np.isnan(z[:, place]), np.isnan(expected))
        assert z[:, place] == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True)


def z_scores(statistic: Normative, batch: Batch, site: NDArray[Any]) -> Floats:
    """Return what the sites compute for their people, in the order of ``batch``."""
    sites = [np.flatnonzero(site == label) for label in np.unique(site)]
    last: Any = statistic
    others = {
        "people": np.array([batch.people])
    }  # a round opens what other analyses and the gate need as well
    sums = others | federate(last, [slice_of(batch, people) for people in sites])
    while (following := last.further(sums)) is not None:
        last = following
        sums = others | federate(last, [slice_of(batch, people) for people in sites])
    z = np.full((batch.people, len(OUTCOMES)), np.nan)
    for people in sites:
        mine = slice_of(batch, people)
        here = last.at_site(lambda mine=mine: [mine])
        assert here.keeps_local
        local = here.locally(sums, lambda mine=mine: [mine])
        assert local.columns == tuple(outcome.name for outcome in OUTCOMES)
        z[people] = local.values(mine)
    return z


def test_a_subgroup_defined_by_an_outcome_keeps_its_people_in_the_second_round() -> None:
    batch, site = widening(7, 3, 300)

    def where(one: Batch) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = one.numbers["y1"] > 4000.0
        return chosen

    (table,), _ = federate_rounds(normative(modelled=True, where=where), split(batch, site))
    y = np.where(batch.numbers["y1"] > 4000.0, batch.numbers["y0"], np.nan)
    x = columns(batch.numbers["age"], batch.levels["sex"].astype(float), "spline")
    oracle = Pooled(y, x, None, True)
    points = columns(np.array([30.0]), np.array([1.0]), "spline")
    found = next(line for line in table.rows if line[:3] == ("y0", 30.0, "male"))
    assert number(found[3]) == pytest.approx(float(oracle.mean(points)[0]), rel=1e-8)
    assert number(found[4]) == pytest.approx(float(oracle.spread(points)[0]), rel=1e-7)
    assert found[table.columns.index("n")] == oracle.n


def statuses(table: Table) -> dict[str, set[Any]]:
    return {
        outcome.name: {line[-1] for line in table.rows if line[0] == outcome.name} for outcome in OUTCOMES
    }


@pytest.mark.parametrize("modelled", [False, True])
@pytest.mark.parametrize("site_effect", ["none", "within"])
def test_what_cannot_be_estimated_says_why(modelled: bool, site_effect: str) -> None:
    batch, site = widening(11, 3, 200)
    batch.numbers["y1"][:] = np.nan
    batch.numbers["y2"][:] = 0.25
    statistic = normative(modelled=modelled, site_effect=site_effect)
    (table,), _ = federate_rounds(statistic, split(batch, site))
    assert statuses(table) == {"y0": {"ok"}, "y1": {"all missing"}, "y2": {"constant, not estimated"}}
    assert np.isnan(z_scores(statistic, batch, site)[:, 1:]).all()
    nobody = federate(statistic, [slice_of(batch, np.arange(0))])
    assert statistic.further(nobody) is None
    assert set().union(*statuses(statistic.finish(nobody)[0]).values()) == {"all missing"}
    (unopened,) = statistic.finish({})
    assert set().union(*statuses(unopened).values()) == {"too few sites"}
    assert unopened.rows[0][3] == Absent("too few sites")


def test_a_spread_that_was_not_opened_has_too_few_sites() -> None:
    batch, site = widening(13, 3, 200)
    statistic = normative(modelled=True)
    following = statistic.further(federate(statistic, split(batch, site)))
    assert following is not None
    assert all(block.name.endswith("/scale") for block in following.layout())
    sums = federate(following, split(batch, site))
    (table,) = following.finish({name: total for name, total in sums.items() if "/y0/" not in name})
    assert statuses(table) == {"y0": {"too few sites"}, "y1": {"ok"}, "y2": {"ok"}}


def test_ages_at_the_ends_of_the_range_are_on_the_curve() -> None:
    curve = Curve(AGE, "spline", KNOTS)
    ages = np.array([5.0, 18.0, 30.0, 64.999, 65.0, np.nan])
    knots = np.array([5.0] * 4 + list(KNOTS) + [65.0] * 4)
    oracle = SPLINE.design_matrix(ages[:5], knots, 3).toarray()[:, 1:]
    assert curve.values(ages)[:5] == pytest.approx(oracle, abs=1e-14)
    assert curve.columns == oracle.shape[1]
    assert np.isnan(curve.values(ages)[5]).all()


@needs_data
def test_the_normative_models_of_fcon_equal_the_truths() -> None:
    truth = json.loads((DATA / "fcon1000.truth.json").read_text())
    table = read_columns("fcon1000.csv")
    left, right = (floats(table[f"{side}_MeanThickness_thickness"]) for side in ("lh", "rh"))
    age = floats(table["age"])
    sex = np.array([int(float(text)) for text in table["sex"]], np.int16)
    batch = Batch(len(age), {"age": age, "thickness": (left + right) / 2}, {"sex": sex})
    over, outcome = Number("age", "years", 0.0, 100.0), Number("thickness", "mm", 0.0, 5.0)
    variables: dict[str, Variable] = {"age": over, "sex": Factor("sex", ("0", "1"))}
    grid = grid_of({"age": (10.0, 20.0, 60.0), "sex": ("0", "1")}, {"sex": Factor("sex", ("0", "1"))})

    def fitted(basis: Any) -> Table:
        model = regression(
            outcomes=(outcome,), terms=("age", "sex"), variables=variables, curves={"age": Curve(over, basis)}
        )
        statistic = Normative(name="r", regression=model, grid=grid, centiles=(50,), modelled=False)
        return statistic.finish(federate(statistic, split(batch, table["site"]), 100))[0]

    linear = fitted("linear")
    assert number(linear.rows[0][4]) == pytest.approx(truth["normative_linear_resid_sd"]["sigma"], rel=1e-9)
    known = {name: one["b"] for name, one in truth["quadratic_age"]["coef"].items()}
    mean = {line[1:3]: number(line[3]) for line in fitted("quadratic").rows}
    for first, last in ((10.0, 20.0), (20.0, 60.0)):
        expected = known["age"] * (last - first) + known["I(age ** 2)"] * (last**2 - first**2)
        assert mean[last, "0"] - mean[first, "0"] == pytest.approx(expected, rel=1e-9)
    assert mean[20.0, "1"] - mean[20.0, "0"] == pytest.approx(known["sex"], rel=1e-9)


ENTRY = "{kind: normative, outcomes: [iq], over: age, knots: [20, 40], terms: [sex], grid: {age: [10, 30]}, scale: modelled}"


def test_a_study_with_centiles_is_built_and_its_grid_is_written_out() -> None:
    study = frozen(with_analysis(ENTRY))
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Normative)
    assert statistic.most_rounds == 2
    assert statistic.grid[0] == ("age", "sex")
    assert statistic.grid[1] == ((10.0, "female"), (10.0, "male"), (30.0, "female"), (30.0, "male"))
    assert b'"grid":{"age":[10.0,30.0],"sex":["female","male"]}' in study.canonical
    assert parse_canonical(study.canonical).analyses == study.analyses


@pytest.mark.parametrize(
    ("old", "new", "field", "cure"),
    [
        ("over: age", "over: dx", "over", "is a factor"),
        ("over: age", "over: ag", "over", "did you mean 'age'?"),
        ("outcomes: [iq]", "outcomes: [age]", "outcomes", "in a term"),
        ("terms: [sex]", "terms: [sex, age]", "terms", "is the curve's"),
        ("[20, 40]", "[40, 20]", "knots", "increase"),
        ("[20, 40]", "[20, 65]", "knots", "5 to 65"),
        ("over: age", "over: age, basis: quadratic", "knots", "basis: spline"),
        ("{age: [10, 30]}", "{age: [4, 30]}", "grid.age", "inside the range, 5 to 65"),
        ("{age: [10, 30]}", "{age: [10, 70]}", "grid.age", "inside the range, 5 to 65"),
        ("{age: [10, 30]}", "{sex: [male]}", "grid.age", "is missing"),
        ("{age: [10, 30]}", "{age: [10], sex: [other]}", "grid.sex", "female, male"),
        ("{age: [10, 30]}", "{age: [10], dx: [control]}", "grid.dx", "in no term"),
        ("scale: modelled", "scale: modelled, centiles: [50, 5]", "centiles", "increase"),
        ("scale: modelled", "scale: modelled, centiles: [0]", "centiles[0]", "greater than or equal to 1"),
    ],
)
def test_a_problem_names_field_and_cure(old: str, new: str, field: str, cure: str) -> None:
    assert old in ENTRY
    with pytest.raises(StudyFileError) as caught:
        frozen(with_analysis(ENTRY.replace(old, new)))
    assert f"analyses.a.{field}" in caught.value.message
    assert cure in caught.value.message


def test_a_variable_called_like_a_column_is_refused() -> None:
    text = with_analysis(ENTRY.replace("terms: [sex]", "terms: [sex, n]"))
    with pytest.raises(StudyFileError, match="a column 'n'; rename"):
        frozen(text.replace("  sex:", "  n: {levels: [a, b]}\n  sex:", 1))
    ages = ", ".join(str(5 + place / 100) for place in range(5001))
    with pytest.raises(StudyFileError, match="more than 10000 points"):
        frozen(with_analysis(ENTRY.replace("[10, 30]", f"[{ages}]")))
