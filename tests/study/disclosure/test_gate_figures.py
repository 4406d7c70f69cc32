"""Figures at the cohort gate: models, matrices, percentiles and survival curves, exact and under noise."""

import numpy as np
import pytest

from cohortsum.study.batch import Batch
from cohortsum.study.disclosure.survival import groups_of_few, joined
from cohortsum.study.disclosure.verdict import Outcome
from cohortsum.study.results import HIDDEN, Absent, Cell, Table
from cohortsum.study.statistics.effect_size import cohens_d
from cohortsum.study.statistics.followed import LifeTable
from tests.study.disclosure.release_of import DPUK, Played, column, of, played, ruled
from tests.study.disclosure.test_gate_counts import EXACT, study, waiving

PEOPLE = 60
VARIABLES = {
    "dx": "{levels: [control, autism]}",
    "sex": "{levels: [female, male]}",
    "age": "{unit: years, range: [0, 100]}",
    "iq": "{unit: points, range: [40, 160]}",
    "wmh": "{unit: ml, range: [0, 60]}",
    "time": "{unit: years, range: [0, 20]}",
}


def site(seed: int, people: int = PEOPLE) -> Batch:
    chance = np.random.default_rng(seed)
    return Batch(
        people,
        {
            "age": chance.uniform(20, 90, people).round(),
            "iq": chance.normal(100, 12, people).round(),
            "time": chance.exponential(4, people),
        },
        {
            "dx": chance.choice([0, 1], people, p=[0.6, 0.4]).astype(np.int16),
            "sex": chance.choice([0, 1], people).astype(np.int16),
        },
    )


SITES = [site(seed, PEOPLE + seed) for seed in range(5)]  # 310 people


def run(analysis: str, *, noise: str = "") -> Played:
    text = study({name: entry for name, entry in VARIABLES.items() if name != "wmh"}, {"a": analysis})
    return played(text.replace("{noise: none}", noise) if noise else text, SITES)


def cell(table: Table, row: int, name: str) -> Cell:
    return table.rows[row][table.columns.index(name)]


def test_effect_sizes_degrees_of_freedom_and_p_are_those_of_the_printed_people() -> None:
    one = run("{kind: regression, outcomes: [iq], terms: [dx, age, sex], report: {effect: dx}}")
    (exact,), gated = one.tables, one.gated()
    table = of(gated, "a")
    n, n0, n1, df = (cell(table, 0, name) for name in ("n", "n_reference", "n_level", "df"))
    assert n == 310
    assert n0 == 5 * round(int(str(cell(exact, 0, "n_reference"))) / 5)
    assert n1 == 5 * round(int(str(cell(exact, 0, "n_level"))) / 5)
    t = float(str(cell(table, 0, "statistic")))
    assert cell(table, 0, "d") == pytest.approx(
        cohens_d(t, int(str(n0)), int(str(n1)), float(str(df)))[0], rel=1e-6
    )
    assert cell(table, 0, "b") == pytest.approx(cell(exact, 0, "b"), rel=1e-9)
    assert {one.outcome for one in ruled(gated, "gives_n_back")} == {Outcome.CHANGED}


def test_two_tables_whose_people_round_alike_have_the_same_degrees_of_freedom() -> None:
    """311 and 312 people are both printed as 310: nothing in the table may tell them apart but the estimates."""
    asked = "{kind: correlation, variables: [age, iq], site_effect: none}"
    text = study({name: entry for name, entry in VARIABLES.items() if name != "wmh"}, {"a": asked})
    for extra in (1, 2):
        table = of(played(text, [*SITES[:4], site(4, PEOPLE + 4 + extra)]).gated(), "a")
        assert cell(table, 0, "n") == 310
        assert cell(table, 0, "df") == 308


def test_the_people_of_a_model_do_not_tell_how_few_lack_a_value() -> None:
    """4 of 120 lack iq, all of them autistic; 20 lack age, so that it may be told how many have one."""
    dx = np.array([0] * 70 + [1] * 50, np.int16)
    age, iq = np.arange(120.0) % 60, 80 + np.arange(120.0) * 7 % 40
    age[:20], iq[-4:] = np.nan, np.nan
    people = Batch(
        120, {"age": age, "iq": iq, "time": np.ones(120)}, {"dx": dx, "sex": np.zeros(120, np.int16)}
    )
    text = study(
        {name: entry for name, entry in VARIABLES.items() if name != "wmh"},
        {
            "whole": "{kind: regression, outcomes: [iq], terms: [dx], site_effect: none, report: {effect: dx}}",
            "part": "{kind: regression, outcomes: [age], terms: [dx], site_effect: none, report: {effect: dx}}",
            "risk": "{kind: glm, family: binomial, outcomes: [dx], event: autism, terms: [iq], site_effect: none}",
            "groups": "{kind: crosstab, factors: [dx]}",
        },
    )
    one = played(text, [people])
    (exact,) = (table for table in one.tables if table.analysis == "whole")
    assert [cell(exact, 1, name) for name in ("n", "n_reference", "n_level")] == [116, 70, 46]
    for regime in (EXACT, DPUK):
        gated = one.gated(regime)
        whole, part, fit = of(gated, "whole"), of(gated, "part"), of(gated, "risk.fit")
        assert [cell(whole, 1, name) for name in ("n", "n_reference", "n_level")] == [120, 70, 50]
        assert [cell(part, 1, name) for name in ("n", "n_reference", "n_level")] == [100, 50, 50]
        assert [cell(fit, 0, name) for name in ("n", "events")] == [120, 50]
        assert cell(whole, 1, "df") == 118
        assert cell(whole, 1, "b") == pytest.approx(cell(exact, 1, "b"), rel=1e-9)


def test_a_model_with_few_people_for_its_parameters_is_not_shown() -> None:
    few = [site(seed, 4) for seed in range(5)]
    text = study(
        {name: entry for name, entry in VARIABLES.items() if name != "wmh"},
        {
            "a": '{kind: regression, outcomes: [iq], terms: [dx, age, sex, "dx:age", "dx:sex", "age:sex"], site_effect: none}'
        },
    )
    gated = played(text, few).gated()
    table = of(gated, "a")
    assert set(column(table, "b")) <= {Absent("saturation"), Absent("residual_df")}
    assert {one.outcome for one in ruled(gated, "residual_df") + ruled(gated, "saturation")} >= {
        Outcome.CHANGED
    }


def test_a_test_between_groups_is_hidden_where_one_of_them_is_small() -> None:
    people = Batch(
        100,
        {"iq": np.linspace(80, 120, 100), "age": np.full(100, 40.0), "time": np.full(100, 1.0)},
        {"dx": np.array([1] * 6 + [0] * 94, np.int16), "sex": np.array([0, 1] * 50, np.int16)},
    )
    text = study(
        {name: entry for name, entry in VARIABLES.items() if name != "wmh"},
        {
            "a": "{kind: test, outcomes: [iq], factor: dx, tests: [student]}",
            "b": "{kind: test, outcomes: [iq], factor: sex, tests: [student]}",
        },
    )
    gated = played(text, [people]).gated()
    assert cell(of(gated, "a"), 0, "statistic") is HIDDEN
    assert isinstance(cell(of(gated, "b"), 0, "statistic"), float)


FREESURFER = {
    "lh_cuneus_thickness": "{catalogue: freesurfer.thickness}",
    "rh_cuneus_thickness": "{catalogue: freesurfer.thickness}",
    "lh_insula_thickness": "{catalogue: freesurfer.thickness}",
}


def cortex(people: int, noise: str, analysis: str) -> Played:
    chance = np.random.default_rng(3)
    whole = chance.normal(2.5, 0.2, people)
    sites = [
        Batch(len(part), {name: part + chance.normal(0, 0.1, len(part)) for name in FREESURFER}, {})
        for part in np.array_split(whole, 5)
    ]
    text = study(FREESURFER, {"a": analysis})
    return played(text.replace("{noise: none}", noise), sites)


COVARIANCE = '{kind: covariance, variables: ["*_thickness"], shrinkage: %s, site_effect: none}'
EPSILON = "{noise: distributed, epsilon: 1.0, delta: 1.0e-6}"


@pytest.mark.parametrize(
    ("people", "noise", "shrinkage", "waived", "rule"),
    [
        (1000, "{noise: none}", "0.0", (), "covariance_regularised"),
        (1000, "{noise: none}", "0.2", (), "covariance_low_rank"),
        (150, EPSILON, "0.0", (), "covariance_min"),
        (1000, "{noise: none}", "0.2", ("covariance_low_rank",), None),
        (1000, EPSILON, "0.0", (), None),
    ],
)
def test_covariances_of_imaging_measures_leave_in_the_forms_that_are_allowed(
    people: int, noise: str, shrinkage: str, waived: tuple[str, ...], rule: str | None
) -> None:
    one = cortex(people, noise, COVARIANCE % shrinkage)
    gated = one.gated(waiving(**dict.fromkeys(waived, "off")) if waived else DPUK)
    values = column(of(gated, "a"), "covariance")
    if rule is None:
        assert all(isinstance(value, float) for value in values)
    else:
        assert not any(isinstance(value, float) for value in values)
        assert any(one.outcome is not Outcome.PASSED for one in ruled(gated, rule))


def test_components_are_the_first_few_and_of_a_hundred_people_or_more() -> None:
    asked = '{kind: pca, variables: ["*_thickness"], components: 2, site_effect: none}'
    many, few = (cortex(people, "{noise: none}", asked).gated() for people in (400, 90))
    assert all(isinstance(value, float) for value in column(of(many, "a"), "loading"))
    assert not any(isinstance(value, float) for value in column(of(few, "a"), "loading"))
    assert {one.outcome for one in ruled(few, "components_min")} == {Outcome.CHANGED}


def test_only_the_quartiles_of_white_matter_lesions_leave_and_no_histogram() -> None:
    variables = {"T2_FLAIR_WMH_volume": "{catalogue: bianca.wmh, range: [0, 60000]}", "age": VARIABLES["age"]}
    values = np.linspace(0, 50_000, 400)
    people = Batch(400, {"T2_FLAIR_WMH_volume": values, "age": np.linspace(20, 90, 400)}, {})
    edges = "[0, 10000, 20000, 30000, 40000, 50000]"
    text = study(
        variables,
        {
            "q": f"{{kind: quantiles, variables: [T2_FLAIR_WMH_volume], probabilities: [0.25, 0.5, 0.9], edges: {edges}}}",
            "h": f"{{kind: histogram, variables: [T2_FLAIR_WMH_volume], edges: {edges}}}",
            "ages": "{kind: quantiles, variables: [age], probabilities: [0.01, 0.9], edges: [20, 40, 60, 90]}",
        },
    )
    gated = played(text, [people]).gated(EXACT)
    shown = [isinstance(value, float) for value in column(of(gated, "q"), "value")]
    assert shown == [True, True, False]
    assert set(column(of(gated, "h"), "count")) == {Absent("wmh_percentiles_only")}
    assert column(of(gated, "ages"), "value")[0] == Absent("quantile_tails")
    assert isinstance(column(of(gated, "ages"), "value")[1], float)


def test_a_histogram_that_is_all_of_a_study_hides_its_small_bins() -> None:
    age = np.concatenate((np.linspace(0, 24, 7), np.linspace(26, 99, 393)))
    text = study(
        {"age": VARIABLES["age"]},
        {"a": "{kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}"},
    )
    counts = column(of(played(text, [Batch(400, {"age": age}, {})]).gated(), "a"), "count")
    assert isinstance(counts[0], Absent)
    assert sum(isinstance(count, Absent) for count in counts) == 2
    assert all(count % 5 == 0 for count in counts if isinstance(count, int))


def test_under_noise_counts_stay_and_figures_still_need_their_people() -> None:
    one = run("{kind: summary, variables: [age], by: [sex]}", noise=EPSILON)
    gated = one.gated()
    assert column(of(gated, "a"), "n") == column(one.tables[0], "n")
    assert column(of(gated, "a"), "mean") == column(one.tables[0], "mean")
    few = waiving(group_10="off")
    assert one.gated(few).tables == gated.tables


def life(events: list[int], censored: list[int], beyond: int) -> LifeTable:
    return LifeTable(np.array(events, np.int64), np.array(censored, np.int64), beyond)


def test_intervals_are_joined_until_each_holds_enough_events() -> None:
    one = life([4, 7, 12, 3, 2, 30], [0, 0, 11, 0, 0, 0], 40)
    other = life([10, 0, 10, 0, 0, 12], [0, 0, 10, 0, 0, 10], 15)
    assert joined([one], 10) == (2, 3, 6)
    assert joined([one, other], 10) == (2, 3, 6)
    assert joined([life([20, 20], [0, 0], 4)], 10) == (1,)
    assert joined([life([20], [0], 4)], 10) == ()
    assert joined([life([20, 20], [0, 0], 40)], 10) == (1, 2)


def test_a_group_of_few_events_takes_the_next_smallest_with_it() -> None:
    tables = [life([30], [0], 50), life([4], [0], 50), life([20], [0], 50)]
    assert groups_of_few(tables, 10) == {1, 2}
    assert groups_of_few([tables[0], tables[2]], 10) == frozenset()


def test_a_curve_is_made_of_joined_intervals_and_rounded_counts() -> None:
    times = ", ".join(str(0.5 * place) for place in range(1, 21))
    one = run(f"{{kind: kaplan_meier, time: time, status: sex, event: male, times: [{times}], by: [dx]}}")
    gated = one.gated()
    exact, table = of_tables(one, "a"), of(gated, "a")
    assert len(table.rows) < len(exact.rows)
    for name in ("at_risk", "events", "censored"):
        assert all(int(str(value)) % 5 == 0 for value in column(table, name))
    assert all(int(str(value)) == 0 or int(str(value)) >= 10 for value in column(table, "events"))
    survival = [float(str(value)) for value in column(table, "survival")]
    known = {(row[0], row[1]): row[exact.columns.index("survival")] for row in exact.rows}
    for row, value in zip(table.rows, survival, strict=True):
        assert value == pytest.approx(float(str(known[row[0], row[1]])), abs=0.06)


def of_tables(one: Played, name: str) -> Table:
    (table,) = (table for table in one.tables if table.analysis == name)
    return table
