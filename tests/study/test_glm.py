"""Logistic and Poisson regression: equal to statsmodels on all rows together, and never a silent wrong answer."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.report.tables import from_csv, to_csv
from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.families import BINOMIAL, FAMILIES, POISSON
from cohortsum.study.statistics.glm import Glm
from cohortsum.study.statistics.newton import Point
from cohortsum.study.statistics.targets import Count, Event, Shift
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, with_analysis
from tests.study.models import DX, VARIABLES, cohort, dummies, seeds
from tests.study.pooled import (
    BITS,
    Floats,
    contribution,
    federate,
    federate_rounds,
    number,
    row,
    split,
)

SM: Any = import_module("statsmodels.api")
ILL = Factor("ill", ("no", "yes"))
MARRIED = Factor("married", ("no", "yes"))
VISITS = Number("visits", "1", 0.0, 60.0)
YEARS = Number("years", "years", 0.1, 20.0)
TERMS = ("dx", "age", "sex")
CLOSE = 1e-7


def glm(family: str = "binomial", **changes: Any) -> Glm:
    counts = family == "poisson"
    asked: dict[str, Any] = {
        "name": "g",
        "family": FAMILIES[family],
        "targets": (Count(VISITS),) if counts else (Event(ILL, "yes"),),
        "terms": TERMS,
        "variables": VARIABLES,
        "fraction_bits": BITS,
    }
    return Glm(**(asked | changes))


def people(seed: int, number: int = 300) -> tuple[Batch, NDArray[Any]]:
    """Return a cohort with two 0/1 outcomes, a count and a time of exposure, with holes."""
    batch, site = cohort(seed, people=number)
    rng = np.random.default_rng(seed + 1)
    age = np.nan_to_num(batch.numbers["age"], nan=30.0)
    u = -0.5 + 0.03 * (age - 30) + 0.8 * (batch.levels["sex"] == 1) - 0.6 * (batch.levels["dx"] == 1)
    years = rng.uniform(0.2, 15.0, number)
    visits = np.minimum(np.asarray(rng.poisson(np.exp(0.4 * u) * years / 3), np.float64), 60.0)
    levels = {
        name: (rng.random(number) < 1 / (1 + np.exp(-slope * u))).astype(np.int16)
        for name, slope in (("ill", 1.0), ("married", 0.3))
    }
    levels["ill"][rng.random(number) < 0.1] = -1
    visits[rng.random(number) < 0.1] = np.nan
    numbers = {**batch.numbers, "visits": visits, "years": years}
    return Batch(number, numbers, {**batch.levels, **levels}), site


def oracle(batch: Batch, y: Floats, family: Any, offset: Floats | None = None) -> tuple[Any, tuple[str, ...]]:
    """Return statsmodels' fit over the rows without a missing value, and the names of its coefficients."""
    columns: Mapping[str, Floats] = {
        name: values for name, values in dummies(batch).items() if ":" not in name
    }
    stacked = np.column_stack([y, *columns.values()])
    complete = ~np.isnan(stacked).any(axis=1)
    design = np.column_stack((np.ones(int(complete.sum())), stacked[complete, 1:]))
    shift = None if offset is None else offset[complete]
    model = SM.GLM(y[complete], design, family=family, offset=shift).fit(tol=1e-14, maxiter=100)
    return model, ("intercept", *columns)


def as_outcome(batch: Batch, factor: str) -> Floats:
    levels = batch.levels[factor]
    return np.where(levels < 0, np.nan, levels == 1)


def assert_equal(
    tables: tuple[Table, ...], outcome: str, model: Any, names: tuple[str, ...], ratio: str
) -> None:
    coefficients, fits = tables
    assert [line[1] for line in coefficients.rows if line[0] == outcome] == list(names)
    interval = np.asarray(model.conf_int(0.05))
    for place, name in enumerate(names):
        found = row(coefficients, outcome=outcome, term=name)
        assert (found["status"], found["n"], found["df"]) == ("ok", int(model.nobs), int(model.df_resid))
        se = float(model.bse[place])
        for column, known in (("b", model.params), ("statistic", model.tvalues)):
            assert number(found[column]) == pytest.approx(
                float(known[place]), rel=CLOSE, abs=CLOSE * (1 + se)
            )
        assert number(found["se"]) == pytest.approx(se, rel=CLOSE)
        assert number(found["p"]) == pytest.approx(float(model.pvalues[place]), rel=1e3 * CLOSE)
        ends = [number(found["low"]), number(found["high"])]
        assert ends == pytest.approx(list(interval[place]), rel=CLOSE, abs=CLOSE * (1 + se))
        ratios = [number(found[f"{ratio}_{part}"]) for part in ("ratio", "low", "high")]
        assert ratios == pytest.approx([float(np.exp(number(found["b"]))), *np.exp(ends)], rel=1e-12)
    fit = row(fits, outcome=outcome)
    for column, value in (
        ("deviance", model.deviance),
        ("null_deviance", model.null_deviance),
        ("log_likelihood", model.llf),
        ("aic", model.aic),
    ):
        assert number(fit[column]) == pytest.approx(float(value), rel=CLOSE), column


@settings(max_examples=12, deadline=None)
@given(seeds)
def test_logistic_regression_equals_all_rows_together(seed: int) -> None:
    batch, site = people(seed)
    targets = (Event(ILL, "yes"), Event(MARRIED, "no"), Event(DX, "other"))
    tables, rounds = federate_rounds(glm(targets=targets[:2]), split(batch, site))
    assert 3 <= rounds <= 8
    for outcome, y in (
        ("ill[yes]", as_outcome(batch, "ill")),
        ("married[no]", 1.0 - as_outcome(batch, "married")),
    ):
        assert_equal(tables, outcome, *oracle(batch, y, SM.families.Binomial()), "odds")
    events = {line[0]: line[2] for line in tables[1].rows}
    cases = (batch.levels["dx"] >= 0) & ~np.isnan(batch.numbers["age"])
    assert events["ill[yes]"] == int(np.count_nonzero(cases & (batch.levels["ill"] == 1)))


@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from(["none", "exposure", "offset"]))
def test_poisson_regression_equals_all_rows_together(seed: int, kind: str) -> None:
    batch, site = people(seed)
    logs = np.log(batch.numbers["years"])
    batch = Batch(batch.people, {**batch.numbers, "logs": logs}, batch.levels)
    shift = {
        "none": None,
        "exposure": Shift(YEARS, logged=True),
        "offset": Shift(Number("logs", "1", -3.0, 4.0), logged=False),
    }[kind]
    tables, rounds = federate_rounds(glm("poisson", shift=shift), split(batch, site))
    assert rounds <= 8
    offset = None if shift is None else logs
    model, names = oracle(batch, batch.numbers["visits"], SM.families.Poisson(), offset)
    assert_equal(tables, "visits", model, names, "rate")
    assert row(tables[1], outcome="visits")["events"] == Absent("not an event")


def test_a_level_of_many_is_set_against_all_others() -> None:
    batch, site = people(3)
    tables, _ = federate_rounds(glm(targets=(Event(DX, "other"),), terms=("age",)), split(batch, site))
    age, dx = batch.numbers["age"], batch.levels["dx"]
    kept = ~np.isnan(age) & (dx >= 0)
    model = SM.Logit((dx[kept] == 2).astype(float), SM.add_constant(age[kept])).fit(disp=0)
    found = row(tables[0], term="age")
    assert found["outcome"] == "dx[other]"
    assert number(found["b"]) == pytest.approx(float(model.params[1]), rel=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_batches_and_sites_change_no_digit(family: str) -> None:
    batch, site = people(5)
    statistic = glm(family, shift=Shift(YEARS, logged=True) if family == "poisson" else None)
    first = federate(statistic, split(batch, site), 17)
    second = federate(statistic, [batch], 1000)
    assert {name: total.tolist() for name, total in first.items()} == {
        name: total.tolist() for name, total in second.items()
    }
    following = statistic.further(first)
    assert following is not None
    again = statistic.further(second)
    assert again is not None
    assert following.parameters == again.parameters
    assert len(following.parameters) == 5
    whole = federate(following, [batch], 1000)
    assert all(
        np.array_equal(total, whole[name])
        for name, total in federate(following, split(batch, site), 11).items()
    )


def of(outcome: list[int], x: list[float], sex: list[int] | None = None) -> Batch:
    """Return people with the outcome ``ill`` and an age."""
    levels = {"ill": np.array(outcome, np.int16), "sex": np.array(sex or [0] * len(x), np.int16)}
    return Batch(len(x), {"age": np.array(x, np.float64)}, levels)


def moved(statistic: Glm, beta: tuple[float, ...]) -> Glm:
    """Return a further round of one outcome at another point."""
    (standing,) = statistic.standings
    assert isinstance(standing, Point)
    return replace(statistic, standings=(replace(standing, beta=beta),))


def settled(batch: Batch, **changes: Any) -> tuple[Table, ...]:
    asked: dict[str, Any] = {"terms": ("age",)} | changes
    tables, _ = federate_rounds(glm(**asked), [batch])
    return tables


def test_perfect_separation_is_named_and_not_estimated() -> None:
    coefficients, fits = settled(of([0] * 20 + [1] * 20, [10.0 + one for one in range(40)]))
    found = row(coefficients, term="age")
    assert (found["status"], found["b"]) == ("not estimable", Absent("separation"))
    assert row(fits, outcome="ill[yes]")["status"] == "not estimable"
    assert "no maximum" in coefficients.notes[0]


def test_one_sex_with_cases_only_is_separation_too() -> None:
    """Nobody among the women is ill: the odds ratio is infinite, the deviance far from 0."""
    outcome = [0] * 30 + [0, 1] * 15
    coefficients, _ = settled(of(outcome, [30.0] * 60, [0] * 30 + [1] * 30), terms=("sex",))
    found = row(coefficients, term="sex[male]")
    assert found["status"] == "not estimable"
    assert found["b"] in (Absent("singular information"), Absent("no convergence"), Absent("separation"))


def test_a_site_with_cases_only_takes_part() -> None:
    batch, _ = people(8)
    ill = as_outcome(batch, "ill")
    tables, _ = federate_rounds(glm(), split(batch, np.where(ill == 1, "a", np.where(ill == 0, "b", "c"))))
    assert_equal(tables, "ill[yes]", *oracle(batch, ill, SM.families.Binomial()), "odds")


@pytest.mark.parametrize(
    ("outcome", "status"), [([0] * 9, "constant, not estimated"), ([1] * 9, "constant, not estimated"),
                            ([-1] * 9, "all missing"), ([], "all missing")],
)  # fmt: skip
def test_an_outcome_without_two_values_ends_in_the_first_round(outcome: list[int], status: str) -> None:
    tables, rounds = federate_rounds(glm(terms=("age",)), [of(outcome, [20.0 + one for one in outcome])])
    assert rounds == 1
    assert row(tables[0], term="age")["status"] == row(tables[1], outcome="ill[yes]")["status"] == status
    assert row(tables[0], term="age")["n"] == (0 if status == "all missing" else 9)


def test_counts_of_nothing_are_constant() -> None:
    batch = Batch(9, {"age": np.arange(20.0, 29.0), "visits": np.zeros(9)}, {})
    tables, _ = federate_rounds(glm("poisson", terms=("age",)), [batch])
    assert row(tables[0], term="age")["status"] == "constant, not estimated"


def test_aliased_and_constant_columns_are_named_and_the_others_estimated() -> None:
    batch, site = people(9)
    twin = Number("twin", "months", 60.0, 780.0)
    flat = Number("flat", "1", 0.0, 9.0)
    numbers = {**batch.numbers, "twin": 12 * batch.numbers["age"], "flat": np.full(batch.people, 4.0)}
    more = Batch(batch.people, numbers, batch.levels)
    statistic = glm(terms=("flat", *TERMS, "twin"), variables={**VARIABLES, "twin": twin, "flat": flat})
    coefficients, fits = federate_rounds(statistic, split(more, site))[0]
    assert row(coefficients, term="twin")["status"] == "aliased"
    assert row(coefficients, term="flat")["status"] == "constant, not estimated"
    assert "twin is aliased" in coefficients.notes[0]
    model, names = oracle(batch, as_outcome(batch, "ill"), SM.families.Binomial())
    for place, name in enumerate(names):
        assert number(row(coefficients, term=name)["b"]) == pytest.approx(
            float(model.params[place]), rel=1e-6
        )
    assert row(fits, outcome="ill[yes]")["df"] == int(model.df_resid)


def test_too_few_iterations_are_a_status() -> None:
    batch, site = people(10)
    tables, rounds = federate_rounds(glm(max_iterations=2), split(batch, site))
    assert rounds == 2
    found = row(tables[0], term="age")
    assert (found["status"], found["b"]) == ("not estimable", Absent("no convergence"))
    assert row(tables[1], outcome="ill[yes]")["iterations"] == 2


def test_sums_of_the_first_round_alone_give_no_coefficient() -> None:
    batch, site = people(10)
    tables = glm().finish(federate(glm(), split(batch, site)))
    assert row(tables[0], term="age")["b"] == Absent("not finished")


def test_outcomes_finish_for_themselves() -> None:
    """One is constant, one has too few suppliers, one goes on alone."""
    batch, site = people(11)
    flat = Factor("flat", ("no", "yes"))
    batch = Batch(batch.people, batch.numbers, {**batch.levels, "flat": np.zeros(batch.people, np.int16)})
    statistic = glm(targets=(Event(flat, "yes"), Event(MARRIED, "yes"), Event(ILL, "yes")))
    sums = federate(statistic, split(batch, site))
    sums = {name: total for name, total in sums.items() if "married" not in name}
    following = statistic.further(sums)
    assert following is not None
    assert {block.name.split("/")[1] for block in following.layout()} == {"ill[yes]"}
    tables, _ = federate_rounds(following, split(batch, site))
    statuses = {line[0]: line[-1] for line in tables[1].rows}
    assert statuses == {
        "flat[yes]": "constant, not estimated",
        "married[yes]": "too few sites",
        "ill[yes]": "ok",
    }
    assert row(tables[0], outcome="married[yes]", term="age")["n"] == Absent("too few sites")


def test_a_saturated_model_has_no_degrees_of_freedom() -> None:
    coefficients, _ = settled(of([0, 1], [20.0, 20.0]), terms=("age",), max_iterations=3)
    assert row(coefficients, term="age")["status"] == "constant, not estimated"
    assert row(coefficients, term="intercept")["status"] == "ok"
    four = of([0, 1, 0, 1], [20.0, 20.0, 30.0, 30.0])
    assert row(settled(four)[0], term="age")["df"] == 2


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(-1e4, 1e4), st.integers(0, 3))
def test_the_bounds_hold_at_every_point(family: str, seed: int, size: float, sign: int) -> None:
    """Also where a point is absurd; `contribution` checks every block against its bound."""
    rng = np.random.default_rng(seed)
    batch, site = people(seed, 40)
    wild = {
        name: values * rng.choice([-1e3, 1.0, 1e3], batch.people) for name, values in batch.numbers.items()
    }
    wild["visits"] = rng.choice([0.0, 1e-9, 60.0, 1e9, np.nan], batch.people)
    shift = Shift(YEARS, logged=True) if family == "poisson" else None
    statistic = glm(family, shift=shift)
    following = statistic.further(federate(statistic, split(batch, site)))
    if following is None:
        return
    following = moved(following, tuple(size * rng.choice([-1.0, 0.0, 1.0]) for _ in range(5)))
    contribution(following, Batch(batch.people, wild, batch.levels), 7)
    again = following.further(federate(following, [Batch(batch.people, wild, batch.levels)]))
    assert again is None or np.isfinite(again.parameters).all()


def test_values_outside_the_range_count_at_its_end() -> None:
    batch = of([0, 1, 0, 1, 1, 0, 1, 0], [5.0, 65.0, 65.0, 5.0, 65.0, 5.0, 40.0, 30.0])
    far = of([0, 1, 0, 1, 1, 0, 1, 0], [-9e9, 66.0, 1e300, 4.0, 65.0, 5.0, 40.0, 30.0])
    assert settled(batch)[0].rows == settled(far)[0].rows


def test_a_step_that_goes_too_far_is_halved() -> None:
    """A few huge counts among zeros make Newton's first step from the mean overshoot by far."""
    rng = np.random.default_rng(4)
    age = np.concatenate((rng.uniform(5, 10, 400), [64.0, 65.0, 65.0]))
    visits = np.concatenate((np.zeros(390), np.ones(10), [60.0, 58.0, 55.0]))
    statistic = glm("poisson", terms=("age",))
    batch, halvings = Batch(403, {"age": age, "visits": visits}, {}), 0
    sums = federate(statistic, [batch], 1000)
    while (following := statistic.further(sums)) is not None:
        (standing,) = following.standings
        assert isinstance(standing, Point)
        halvings += standing.halvings
        statistic, sums = following, federate(following, [batch], 1000)
    assert halvings > 0
    model = SM.GLM(visits, SM.add_constant(age), family=SM.families.Poisson()).fit(tol=1e-12, maxiter=200)
    found = row(statistic.finish(sums)[0], term="age")
    assert number(found["b"]) == pytest.approx(float(model.params[1]), rel=1e-6)


def test_weights_say_on_how_many_people_a_round_rests() -> None:
    batch = of([0, 1] * 10, [6.0] * 19 + [64.0])
    statistic = glm(terms=("age",))
    assert statistic.effective_people(statistic.accumulate(batch)) == pytest.approx(20.0)
    following = statistic.further(federate(statistic, [batch]))
    assert following is not None
    following = moved(following, (29.0, 29.0))  # at age 6 the predictor is near 0, at 64 near 58
    assert following.effective_people(following.accumulate(batch)) == pytest.approx(19.0, abs=0.1)
    assert statistic.effective_people(statistic.accumulate(of([], []))) == float("inf")


def test_the_tables_read_back_from_csv() -> None:
    batch, site = people(12)
    tables = federate_rounds(glm(targets=(Event(ILL, "yes"), Event(DX, "other"))), split(batch, site))[0]
    tables += federate_rounds(glm("poisson"), split(batch, site))[0]
    for table in tables:
        again = from_csv(to_csv(table), table.analysis, table.kind)
        assert again.columns == table.columns
        for line, known in zip(again.rows, table.rows, strict=True):
            assert [cell for cell in line if not isinstance(cell, Absent)] == [
                cell for cell in known if not isinstance(cell, Absent)
            ]


def test_a_study_asks_for_both_families() -> None:
    study = frozen(
        with_analysis(
            "{kind: glm, family: binomial, outcomes: [sex, dx], event: male, terms: [age]}"
        ).replace("[control, autism, other]", "[female, male, other]")
    )
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Glm)
    assert [target.name for target in statistic.targets] == ["sex[male]", "dx[male]"]
    assert statistic.most_rounds == 25
    assert study.analyses["a"].about == {"sex", "dx"}
    assert study.analyses["a"].required == {"sex", "dx", "age"}
    supply = statistic.layout()[0].supply
    assert supply == (frozenset(), frozenset({"sex[female]"}), frozenset({"sex[male]"}))
    study = frozen(
        with_analysis(
            "{kind: glm, family: poisson, outcomes: [iq], terms: [dx], exposure: age, max_iterations: 9}"
        )
    )
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Glm)
    assert (statistic.shift, statistic.most_rounds) == (Shift(study.numbers["age"], logged=True), 9)
    assert study.analyses["a"].suppliable == {"iq"}
    assert statistic.layout()[0].supply[0] == {"iq"}


def test_family_bounds_are_reached_and_not_passed() -> None:
    for family in (BINOMIAL, POISSON):
        predictor = np.linspace(family.lowest, family.highest, 4001)
        means = family.means(predictor)
        worst = 0.0
        for y in (0.0, 0.25, 1.0) if family.counts else (0.0, 1.0):
            outcomes = np.full(len(predictor), y)
            raw = family.deviances(outcomes, predictor, means)
            worst = max(worst, float(raw.max()))
            assert np.abs(y - means).max() <= family.residual
        assert family.weights(predictor, means).max() <= family.weight
        assert worst < family.deviance
        assert worst > 0.95 * family.deviance
