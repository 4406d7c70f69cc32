"""Proportional hazards: equal to statsmodels and to sums over subsets written out, and never a silent wrong answer."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import combinations
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
from cohortsum.study.statistics.cox import Cox
from cohortsum.study.statistics.newton import Point
from cohortsum.study.statistics.risk_sets import Spells, partial_likelihood, shares
from cohortsum.study.statistics.targets import Event
from cohortsum.study.statistics.ties import LARGEST_TIE, subsets
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.definitions import frozen, with_analysis
from tests.study.models import seeds
from tests.study.pooled import (
    BITS,
    Floats,
    contribution,
    federate,
    federate_rounds,
    number,
    row,
    slice_of,
    split,
)

PH: Any = import_module("statsmodels.duration.hazard_regression")
STATS: Any = import_module("scipy.stats")

DAYS, ENTRY = Number("days", "days", 0.0, 60.0), Number("entry", "days", 0.0, 60.0)
SEEN, ARM = Factor("seen", ("alive", "dead")), Factor("arm", ("a", "b", "c"))
AGE = Number("age", "years", 20.0, 80.0)
VARIABLES: dict[str, Variable] = {"arm": ARM, "age": AGE}
CLOSE = 1e-7


def cox(**changes: Any) -> Cox:
    asked: dict[str, Any] = {
        "name": "c",
        "time": DAYS,
        "event": Event(SEEN, "dead"),
        "terms": ("arm", "age"),
        "variables": VARIABLES,
        "fraction_bits": BITS,
    }
    return Cox(**(asked | changes))


def people(seed: int, size: int = 240, whole: bool = True) -> tuple[Batch, NDArray[Any]]:
    """Return people of three sites with hazards of their own, times with ties where ``whole``, some coming late, and holes."""
    rng = np.random.default_rng(seed)
    site, arm, age = rng.integers(0, 3, size), rng.integers(0, 3, size), rng.uniform(20, 80, size)
    hazard = 0.04 * (1 + site) * np.exp(0.5 * (arm == 1) - 0.4 * (arm == 2) + 0.02 * (age - 50))
    lived, watched = np.asarray(rng.exponential(1 / hazard), np.float64), rng.uniform(5, 50, size)
    days, entry = np.minimum(lived, watched), rng.uniform(0, 8, size)
    if whole:
        days, entry = np.ceil(days), np.floor(entry)
    age[rng.random(size) < 0.05] = np.nan
    levels = {"arm": arm.astype(np.int16), "seen": (lived <= watched).astype(np.int16)}
    levels["seen"][rng.random(size) < 0.05] = -1
    return Batch(size, {"days": days, "entry": entry, "age": age}, levels), site


def design(batch: Batch) -> Floats:
    arm = batch.levels["arm"]
    return np.column_stack((arm == 1, arm == 2, batch.numbers["age"])).astype(np.float64)


def counted(batch: Batch, late: bool) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = ~np.isnan(design(batch)).any(axis=1) & (batch.levels["seen"] >= 0)
    return known & (batch.numbers["entry"] < batch.numbers["days"]) if late else known


def oracle(batch: Batch, site: NDArray[Any], ties: str, late: bool) -> Any:
    kept = counted(batch, late)
    # statsmodels takes who comes at the time of an event for being at risk of it
    entry = batch.numbers["entry"][kept] + 1e-6 if late else None
    return PH.PHReg(
        batch.numbers["days"][kept],
        design(batch)[kept] - np.array([0.0, 0.0, 50.0]),
        status=batch.levels["seen"][kept],
        entry=entry,
        strata=site[kept],
        ties=ties,
    ).fit(method="newton", tol=1e-12, disp=0)


def assert_equal(tables: tuple[Table, ...], model: Any, events: int, n: int) -> None:
    coefficients, fits = tables[:2]
    assert [line[1] for line in coefficients.rows] == ["arm[b]", "arm[c]", "age"]
    interval = np.asarray(model.conf_int(0.05))
    for place, line in enumerate(coefficients.rows):
        found = dict(zip(coefficients.columns, line, strict=True))
        se = float(model.bse[place])
        assert (found["outcome"], found["status"], found["n"]) == ("seen[dead]", "ok", n)
        assert number(found["b"]) == pytest.approx(float(model.params[place]), rel=CLOSE, abs=CLOSE * se)
        assert number(found["se"]) == pytest.approx(se, rel=CLOSE)
        assert number(found["p"]) == pytest.approx(float(model.pvalues[place]), rel=1e-5)
        ends = [number(found[name]) for name in ("low", "high")]
        assert ends == pytest.approx(interval[place].tolist(), rel=CLOSE, abs=CLOSE * se)
        ratios = [number(found[f"hazard_{part}"]) for part in ("ratio", "low", "high")]
        assert ratios == pytest.approx([float(np.exp(number(found["b"]))), *np.exp(ends)], rel=1e-12)
    fit = row(fits, outcome="seen[dead]")
    assert fit["events"] == events
    assert number(fit["log_likelihood"]) == pytest.approx(float(model.llf), rel=1e-9)


@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from(["breslow", "efron"]), st.booleans())
def test_a_model_stratified_by_site_equals_statsmodels(seed: int, ties: str, late: bool) -> None:
    batch, site = people(seed)
    statistic = cox(ties=ties, start=ENTRY if late else None)
    tables, rounds = federate_rounds(statistic, split(batch, site), 17)
    kept = counted(batch, late)
    events = int(np.count_nonzero(kept & (batch.levels["seen"] == 1)))
    assert_equal(tables, oracle(batch, site, ties, late), events, int(kept.sum()))
    assert rounds <= 6


def subsets_of(members: list[int], size: int, hazards: Floats) -> Iterator[tuple[list[int], float]]:
    for chosen in combinations(members, size):
        yield list(chosen), float(np.prod(hazards[list(chosen)]))


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 5))
def test_subsets_equal_those_written_out(seed: int, size: int, chosen: int) -> None:
    rng = np.random.default_rng(seed)
    d = min(chosen, size)
    hazards, x = np.exp(rng.normal(size=size) * 2), rng.uniform(-1, 1, (size, 3))
    found = subsets(hazards, x, d)
    assert found is not None
    every = list(subsets_of(list(range(size)), d, hazards))
    weights = np.array([weight for _, weight in every])
    totals = np.array([x[one].sum(axis=0) for one, _ in every])
    mean = weights @ totals / weights.sum()
    spread = (weights[:, np.newaxis] * (totals - mean)).T @ (totals - mean) / weights.sum()
    assert found.log_total == pytest.approx(float(np.log(weights.sum())), rel=1e-10, abs=1e-10)
    assert found.mean == pytest.approx(mean, abs=1e-10)
    assert found.covariance == pytest.approx(spread[np.triu_indices(3)], abs=1e-10)
    assert np.abs(found.covariance).max() <= 2 * d


def exact_likelihood(spells: Spells, beta: Floats) -> float:
    """Return the exact log-likelihood, every subset written out."""
    hazards, total = np.exp(spells.x @ beta), 0.0
    for time in np.unique(spells.stop[spells.event]):
        members = np.flatnonzero((spells.start < time) & (time <= spells.stop)).tolist()
        dead = np.flatnonzero(spells.event & (spells.stop == time))
        every = sum(weight for _, weight in subsets_of(members, len(dead), hazards))
        total += float(np.log(hazards[dead]).sum()) - float(np.log(every))
    return total


def few(seed: int, size: int = 12) -> Spells:
    rng = np.random.default_rng(seed)
    start = np.floor(rng.uniform(0, 3, size)) - 1.0
    stop = start + np.ceil(rng.uniform(0, 4, size))
    return Spells(start, stop, rng.random(size) < 0.7, rng.uniform(-1, 1, (size, 2)))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_exact_likelihood_and_its_derivatives(seed: int) -> None:
    spells, beta, step = few(seed), np.array([0.4, -0.7]), 1e-4
    found = partial_likelihood(spells, tuple(beta.tolist()), "exact")
    assert -found.objective == pytest.approx(exact_likelihood(spells, beta), rel=1e-10, abs=1e-10)
    for place, side in enumerate(np.eye(2) * step):
        slope = (exact_likelihood(spells, beta + side) - exact_likelihood(spells, beta - side)) / (2 * step)
        assert found.score[0, place] == pytest.approx(slope, abs=1e-6)
        ahead = partial_likelihood(spells, tuple((beta + side).tolist()), "exact").score[0]
        behind = partial_likelihood(spells, tuple((beta - side).tolist()), "exact").score[0]
        curve = (behind - ahead) / (2 * step)
        triangle = [found.information[0, 0], found.information[0, 1], found.information[0, 2]]
        assert curve == pytest.approx(triangle[:2] if place == 0 else triangle[1:], abs=1e-6)


def test_without_ties_all_three_rules_agree() -> None:
    batch, site = people(4, whole=False)
    answers = [
        federate_rounds(cox(ties=ties, start=ENTRY), split(batch, site))[0][0].rows
        for ties in ("breslow", "efron", "exact")
    ]
    assert answers[0] == answers[1] == answers[2]


def test_the_exact_model_goes_beyond_efron_as_efron_goes_beyond_breslow() -> None:
    batch, site = people(6, 400)
    found = [
        number(row(federate_rounds(cox(ties=ties), split(batch, site))[0][0], term="age")["b"])
        for ties in ("breslow", "efron", "exact")
    ]
    assert found[0] < found[1] < found[2] or found[0] > found[1] > found[2]


def brute(spells: Spells, g: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return score and information of (x, x g) at Breslow's likelihood, risk set by risk set."""
    size = 2 * spells.x.shape[1]
    score, information = np.zeros(size), np.zeros((size, size))
    for who in np.flatnonzero(spells.event):
        time = spells.stop[who]
        inside = (spells.start < time) & (time <= spells.stop)
        z = np.hstack((spells.x, spells.x * g[who]))
        weights = np.exp(spells.x[inside] @ beta)
        weights = weights / weights.sum()
        mean = weights @ z[inside]
        score += z[who] - mean
        information += (weights[:, np.newaxis] * (z[inside] - mean)).T @ (z[inside] - mean)
    return score, information


@pytest.mark.parametrize("function", ["time", "log_time"])
@settings(max_examples=8, deadline=None)
@given(seeds)
def test_proportional_hazards_are_tested_by_score(function: str, seed: int) -> None:
    batch, site = people(seed)
    time = Number("days", "days", 0.5, 60.0)
    statistic = cox(proportionality=function, ties="breslow", time=time)
    (coefficients, _, tests), rounds = federate_rounds(statistic, split(batch, site))
    assert rounds <= 7
    beta = np.array([number(line[2]) for line in coefficients.rows])
    score, information = np.zeros(6), np.zeros((6, 6))
    for one in split(batch, site):
        kept = counted(one, late=False)
        stop = one.numbers["days"][kept]
        spells = Spells(
            np.full(len(stop), -np.inf), stop, one.levels["seen"][kept] == 1, design(one)[kept] - [0, 0, 50]
        )
        of_site = brute(spells, stop if function == "time" else np.log(stop), beta)
        score, information = score + of_site[0], information + of_site[1]
    for name, columns in (("arm[b]", [3]), ("arm[c]", [4]), ("age", [5]), ("all", [3, 4, 5])):
        kept_columns = [0, 1, 2, *columns]
        u = score[kept_columns]
        chi2 = float(u @ np.linalg.solve(information[np.ix_(kept_columns, kept_columns)], u))
        found = row(tests, term=name)
        assert (found["df"], found["status"]) == (len(columns), "ok")
        assert number(found["chi2"]) == pytest.approx(chi2, rel=1e-6, abs=1e-8)
        assert number(found["p"]) == pytest.approx(float(STATS.chi2.sf(chi2, len(columns))), rel=1e-5)


def one_site(days: list[float], dead: list[int], age: list[float], **numbers: list[float]) -> Batch:
    arrays = {
        name: np.array(values, np.float64) for name, values in {"days": days, "age": age, **numbers}.items()
    }
    return Batch(len(days), arrays, {"seen": np.array(dead, np.int16)})


def alone(batch: Batch, **changes: Any) -> tuple[Table, ...]:
    return federate_rounds(cox(**({"terms": ("age",), **changes})), [batch])[0]


def test_a_monotone_likelihood_is_named_and_not_estimated() -> None:
    """The older always goes first."""
    days = [float(one) for one in range(1, 31)]
    coefficients, fits, tests = alone(
        one_site(days, [1] * 30, [80.0 - one for one in days]), proportionality="time"
    )
    found = row(coefficients, term="age")
    assert found["status"] == "not estimable"
    assert found["b"] in (Absent("no convergence"), Absent("singular information"), Absent("separation"))
    assert row(fits, outcome="seen[dead]")["status"] == row(tests, term="all")["status"] == "not estimable"
    assert any("has no maximum" in note for note in coefficients.notes)


@pytest.mark.parametrize(
    ("dead", "status", "reason"),
    [
        ([0] * 5, "not estimable", "no events"),
        ([-1] * 5, "all missing", "no data"),
        ([], "all missing", "no data"),
    ],
)
def test_nobody_and_no_event_end_in_the_first_round(dead: list[int], status: str, reason: str) -> None:
    batch = one_site([1.0 + one for one in range(len(dead))], dead, [30.0] * len(dead))
    tables, rounds = federate_rounds(cox(terms=("age",), ties="exact"), [batch])
    assert rounds == 1
    found = row(tables[0], term="age")
    assert (found["status"], found["b"]) == (status, Absent(reason))
    assert row(tables[1], outcome="seen[dead]")["status"] == status


def test_what_does_not_vary_within_sites_is_aliased_and_the_others_are_estimated() -> None:
    batch, site = people(9)
    scanner = Number("scanner", "1", 0.0, 2.0)
    batch = Batch(batch.people, {**batch.numbers, "scanner": site.astype(np.float64)}, batch.levels)
    statistic = cox(terms=("scanner", "arm", "age"), variables={**VARIABLES, "scanner": scanner})
    (coefficients, fits), _ = federate_rounds(statistic, split(batch, site))
    assert row(coefficients, term="scanner")["status"] == "aliased"
    assert any("scanner is aliased" in note for note in coefficients.notes)
    model = oracle(batch, site, "efron", late=False)
    assert number(row(coefficients, term="age")["b"]) == pytest.approx(float(model.params[2]), rel=1e-6)
    assert row(fits, outcome="seen[dead]")["df"] == 3
    (only, fits), _ = federate_rounds(replace(statistic, terms=("scanner",)), split(batch, site))
    assert row(only, term="scanner")["status"] == "aliased"
    assert row(fits, outcome="seen[dead]")["status"] == "not estimable"


def test_a_site_with_few_events_counts_for_nothing_and_says_so() -> None:
    batch, site = people(10)
    small = one_site([3.0, 4.0, 5.0], [1, 0, 0], [30.0, 40.0, 50.0])
    small = Batch(
        3, {**small.numbers, "entry": np.zeros(3)}, {**small.levels, "arm": np.array([0, 1, 2], np.int16)}
    )
    sites = split(batch, site)
    without, _ = federate_rounds(cox(min_events=2), sites)
    (coefficients, fits), _ = federate_rounds(cox(min_events=2), [*sites, small])
    assert [line[2:8] for line in coefficients.rows] == [line[2:8] for line in without[0].rows]
    assert (
        number(row(fits, outcome="seen[dead]")["n"]) == number(row(without[1], outcome="seen[dead]")["n"]) + 3
    )
    assert "1 of " in coefficients.notes[1]
    assert "3 sites" in coefficients.notes[0]


def test_who_comes_at_or_after_their_own_end_does_not_count() -> None:
    batch = one_site([5.0, 5.0, 6.0, 7.0], [1, 1, 0, 1], [30.0, 40.0, 60.0, 50.0], entry=[5.0, 4.0, 0.0, 9.0])
    sums = federate(cox(terms=("age",), start=ENTRY), [batch])
    assert sums["c/days/people"].tolist() == [2, 1]


def test_ties_too_large_for_exact_are_named() -> None:
    size = LARGEST_TIE + 1
    batch = one_site(
        [1.0] * size + [2.0] * 9, [1] * size + [0] * 9, [30.0 + one % 40 for one in range(size + 9)]
    )
    coefficients, _ = alone(batch, ties="exact")
    assert row(coefficients, term="age")["b"] == Absent("ties too large for exact")
    coefficients, _ = alone(slice_of(batch, np.arange(1, size + 9)), ties="exact")
    assert row(coefficients, term="age")["status"] == "ok"


def test_vanishing_weights_have_no_subsets() -> None:
    assert subsets(np.array([1.0, *[1e-26] * 40]), np.zeros((41, 1)), 30) is None


def test_too_few_sites_and_too_few_iterations() -> None:
    batch, site = people(11)
    sums = federate(cox(), split(batch, site))
    del sums["c/days/score"]
    coefficients, fits, tests = cox(proportionality="time").finish(sums)
    assert (
        {line[-4] for line in coefficients.rows} == {fits.rows[0][-1], tests.rows[0][-1]} == {"too few sites"}
    )
    tables, rounds = federate_rounds(cox(max_iterations=2), split(batch, site))
    assert rounds == 2
    assert row(tables[0], term="age")["b"] == Absent("no convergence")
    statistic = cox(proportionality="time")
    early = statistic.finish(federate(statistic, split(batch, site)))
    assert row(early[0], term="age")["b"] == row(early[2], term="age")["chi2"] == Absent("not finished")


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from(["breslow", "efron", "exact"]), st.floats(-1e3, 1e3))
def test_the_bounds_hold_at_every_point(seed: int, ties: str, size: float) -> None:
    """Also where a point is absurd; `contribution` checks every block against its bound."""
    rng = np.random.default_rng(seed)
    batch, _ = people(seed, 40)
    wild = {
        name: values * rng.choice([-1e3, 1.0, 1e3], batch.people) for name, values in batch.numbers.items()
    }
    beta = tuple(float(size * one) for one in rng.choice([-1.0, 0.0, 1.0], 3))
    statistic = cox(ties=ties, start=ENTRY, point=Point(beta, beta, iterations=1))
    contribution(statistic, Batch(batch.people, wild, batch.levels), 7)
    here = federate(statistic, [batch])
    following = statistic.further(here)
    assert following is None or np.all(np.isfinite(following.parameters))


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from(["breslow", "efron", "exact"]))
def test_one_event_adds_no_more_than_its_bound(seed: int, ties: Any) -> None:
    rng = np.random.default_rng(seed)
    spells = few(seed, 10)
    spells = replace(spells, x=rng.choice([-1.0, 1.0], (10, 2)))
    beta = tuple(float(one) for one in rng.choice([-40.0, -2.0, 0.0, 2.0, 40.0], 2))
    found, events = partial_likelihood(spells, beta, ties), int(spells.event.sum())
    if found.untreated == 0:
        assert -1e-9 <= found.objective <= events * (60 + np.log(10)) + 1e-9
    assert np.abs(found.score).max() <= 2 * events + 1e-9
    assert np.abs(found.information).max() <= 2 * events + 1e-9


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_expected_events_add_up_to_the_events(seed: int) -> None:
    spells = few(seed, 30)
    weights = shares(spells, (0.3, -2.0))
    assert weights.sum() == pytest.approx(int(spells.event.sum()), rel=1e-9)
    assert weights.min() >= 0.0


def test_a_round_that_rests_on_few_people_says_so() -> None:
    days = [float(one) for one in range(1, 41)]
    batch = one_site(days, [1] * 40, [20.0] * 39 + [80.0])
    even = cox(terms=("age",))
    assert even.effective_people(even.accumulate(batch)) > 15
    steep = replace(even, point=Point((12.0,), (12.0,)))
    assert steep.effective_people(steep.accumulate(batch)) < 1.1
    nobody = one_site([], [], [])
    assert even.effective_people(even.accumulate(nobody)) == float("inf")


def test_order_and_batches_move_a_sum_by_one_grid_unit_at_most() -> None:
    batch, _ = people(12)
    shuffled = slice_of(batch, np.random.default_rng(1).permutation(batch.people))
    statistic = cox(start=ENTRY)
    one, other = contribution(statistic, batch, 7), contribution(statistic, shuffled, 1000)
    assert max(int(np.abs(one[name] - other[name]).max()) for name in one) <= 2**6


def test_the_tables_read_back_from_csv() -> None:
    batch, site = people(12)
    tables, _ = federate_rounds(cox(proportionality="time"), split(batch, site))
    for table in tables:
        again = from_csv(to_csv(table), table.analysis, table.kind)
        assert again.columns == table.columns
        for line, known in zip(again.rows, table.rows, strict=True):
            assert [cell for cell in line if not isinstance(cell, Absent)] == [
                cell for cell in known if not isinstance(cell, Absent)
            ]


def test_a_study_asks_for_it() -> None:
    study = frozen(
        with_analysis(
            "{kind: cox, time: age, start: iq, status: dx, event: other, terms: [sex], ties: exact, min_events: 5,"
            " proportionality: log_time, max_iterations: 9}"
        )
    )
    statistic, spec = statistic_of(study, study.analyses["a"]), study.analyses["a"]
    assert isinstance(statistic, Cox)
    assert (statistic.ties, statistic.min_events, statistic.most_rounds) == ("exact", 5, 10)
    assert (statistic.start, statistic.event.name) == (study.numbers["iq"], "dx[other]")
    assert spec.required == {"sex", "dx", "iq"}
    assert spec.suppliable == {"age"}
    assert spec.about == {"age", "dx"}
    assert statistic.layout()[0].supply == (
        frozenset({"age"}),
        *(frozenset({"age", f"dx[{level}]"}) for level in ("control", "autism", "other")),
        *(frozenset({"age", f"sex[{level}]"}) for level in ("female", "male")),
    )
