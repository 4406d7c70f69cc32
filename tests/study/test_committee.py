"""A study over a committee, from the file to its tables: exact quantiles as numpy has them, counts of k or more and no others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import ConfigurationError, StudyFileError
from cohortsum.protocol.committee import OpenCounts, OrderStatistics, Threshold
from cohortsum.protocol.committee.programs import LONGEST
from cohortsum.study.batch import Batch
from cohortsum.study.committee import Run, Stopped, first_run
from cohortsum.study.definition.grids import Grid
from cohortsum.study.planning import plan_study
from cohortsum.study.results import HIDDEN, Absent
from cohortsum.study.statistics.association import associate
from cohortsum.study.variables import Number
from tests.protocol.committee.played import roster_of
from tests.study.committee_studies import PROTECTION, Play, halves, planned, play, site_of, study_of
from tests.study.definitions import frozen

AGES = "kind: quantiles, variables: [age], step: 0.01, probabilities: [{}]"
FIVE = "0.05, 0.25, 0.5, 0.75, 0.95"
DX = "kind: crosstab, factors: [dx]"


def with_levels(counts: list[int], name: str = "dx") -> list[Batch]:
    """Return five sites whose people have the levels of a factor so often."""
    codes = np.repeat(np.arange(len(counts)), counts)
    return [site_of(len(part), seed, **{name: part}) for seed, part in enumerate(np.array_split(codes, 5))]


def test_counts_below_k_stay_closed_and_nothing_else_is_opened() -> None:
    sites = with_levels([7, 12, 0, 40])
    played = play(planned(DX), sites)
    rows = played.table("a0")
    assert [row["count"] for row in rows] == [HIDDEN, 12, HIDDEN, 40]
    assert [row["status"] for row in rows] == ["hidden", "ok", "hidden", "ok"]
    assert all(row["column_percent"] is HIDDEN for row in rows)  # they would tell how many the others are
    assert sorted(played.revealed) == [12, 40]
    assert [type(run.plan.programs[0]) for run in played.runs] == [Threshold, OpenCounts]


def test_a_small_count_is_never_the_only_one_that_is_closed() -> None:
    played = play(planned(DX), with_levels([12, 7, 20, 40]))
    assert [row["count"] for row in played.table("a0")] == [HIDDEN, HIDDEN, 20, 40]
    assert sorted(played.revealed) == [20, 40]


def test_everything_is_told_where_nothing_is_small() -> None:
    sites = with_levels([11, 12, 10, 40])
    played = play(planned(DX), sites)
    assert [row["count"] for row in played.table("a0")] == [11, 12, 10, 40]
    assert played.table("a0")[3]["column_percent"] == pytest.approx(100 * 40 / 73)


def test_a_second_table_tells_how_many_there_are_so_a_large_count_closes_beside_a_small_one() -> None:
    sites = with_levels([7, 12, 20, 40])
    played = play(planned(DX, "kind: crosstab, factors: [sex]"), sites)
    counts = [row["count"] for row in played.table("a0")]
    assert counts[0] is HIDDEN
    assert sum(count is HIDDEN for count in counts) == 2
    assert 7 not in played.revealed
    # with the number of people, which the other table tells, the closed counts are not told apart
    assert sum(row["count"] for row in played.table("a1")) == 79


def test_fewer_people_than_the_study_wants_open_nothing_at_all() -> None:
    sites = with_levels([4, 5, 5, 5])
    played = play(planned(DX), sites)
    assert isinstance(played.ended, Stopped)
    assert "min_participants 20" in played.ended.reason
    assert not played.revealed
    assert len(played.runs) == 1


def test_a_table_of_two_factors_has_its_measures_where_all_is_open() -> None:
    draw = np.random.default_rng(4)
    sites = [site_of(54, seed, dx=draw.integers(0, 2, 54), sex=draw.integers(0, 2, 54)) for seed in range(5)]
    for site in sites:
        site.levels["dx"][:2] = -1
    played = play(planned("kind: crosstab, factors: [hand, sex]"), sites)
    truth = np.zeros((2, 2), np.int64)
    for site in sites:
        np.add.at(truth, (site.levels["hand"], site.levels["sex"]), 1)
    assert [row["count"] for row in played.table("a0")] == [*truth.ravel()]
    (measures,) = played.table("a0.association")
    assert measures["chi2"] == associate(truth).cells[1]
    small = play(planned("kind: crosstab, factors: [dx, sex]"), sites)
    (measures,) = small.table("a0.association")
    assert measures["status"] == "hidden"


def test_a_histogram_opens_bins_of_k_or_more() -> None:
    ages = np.concatenate(
        [np.full(9, 5.0), np.full(10, 15.0), np.full(30, 25.0), np.full(3, 35.0), [np.nan] * 3]
    )
    sites = [site_of(len(part), 1, age=part) for part in np.array_split(ages, 5)]
    played = play(planned("kind: histogram, variables: [age], edges: [0, 10, 20, 30, 100]"), sites)
    assert [row["count"] for row in played.table("a0")] == [HIDDEN, 10, 30, HIDDEN]
    assert {row["missing"] for row in played.table("a0")} == {Absent("not opened")}


def numpys(values: list[float], probabilities: list[float]) -> list[float]:
    return [float(np.percentile(values, 100 * one)) for one in probabilities]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10_000), min_size=60, max_size=200), st.integers(5, 7))
def test_exact_quantiles_are_numpys_on_all_rows_together(hundredths: list[int], sites: int) -> None:
    ages = [part / 100 for part in hundredths]
    parts = [site_of(len(part), 3, age=part) for part in np.array_split(np.array(ages), sites)]
    asked = [0.0, 0.25, 0.5, 0.75, 1.0]
    played = play(planned(AGES.format("0, 0.25, 0.5, 0.75, 1"), sites=sites), parts)
    rows = played.table("a0")
    assert [row["value"] for row in rows] == numpys(ages, asked)
    assert {row["n"] for row in rows} == {len(ages)}
    assert played.revealed == [len(ages)]


def test_quantiles_by_groups_with_missing_values_and_values_that_are_left_out() -> None:
    draw = np.random.default_rng(8)
    sites: list[Batch] = []
    for seed in range(5):
        iqs = draw.integers(300, 1700, 80) / 10
        iqs[:3] = np.nan
        sites.append(site_of(80, seed, iq=iqs, sex=draw.integers(-1, 2, 80), age=draw.uniform(0, 100, 80)))
    entry = "kind: quantiles, variables: [iq], step: 0.1, probabilities: [0.1, 0.5], by: [sex], bands: {age: [50]}"
    played = play(planned(entry), sites)
    rows = played.table("a0")
    assert len(rows) == 8
    iqs = np.concatenate([site.numbers["iq"] for site in sites])
    sexes = np.concatenate([site.levels["sex"] for site in sites])
    ages = np.concatenate([site.numbers["age"] for site in sites])
    for row in rows:
        here: NDArray[np.bool_] = (sexes == ["female", "male"].index(str(row["sex"]))) & (
            (ages >= 50) == str(row["age"]).startswith("[50")
        )
        values = iqs[here & (iqs >= 40) & (iqs <= 160)]
        assert row["n"] == len(values)
        wanted = numpys([*values], [row["probability"]])[0]
        if len(values) * 0.1 < 10 and row["probability"] == 0.1:
            assert row["value"] == Absent("quantile_tails")
        else:
            assert row["value"] == pytest.approx(wanted, abs=1e-12)


def test_a_small_group_is_neither_counted_nor_searched_and_no_quantile_near_an_end_is() -> None:
    sites = with_levels([9, 60, 0, 4])
    entry = f"kind: quantiles, variables: [age], step: 0.01, probabilities: [{FIVE}], by: [dx]"
    played = play(planned(entry), sites)
    rows = played.table("a0")
    assert {(row["n"], row["value"], row["status"]) for row in [*rows[:5], *rows[10:]]} == {
        (HIDDEN, HIDDEN, "hidden")
    }
    assert [row["status"] for row in rows[5:10]] == ["hidden", "ok", "ok", "ok", "hidden"]
    searched = {program.name for run in played.runs[2:] for program in run.plan.programs}
    assert searched == {"a0/age/dx[autism]/people"}
    ranks = [
        program.ranks for program in played.runs[2].plan.programs if isinstance(program, OrderStatistics)
    ]
    assert min(ranks[0]) > 10
    assert max(ranks[0]) <= 50


def test_people_other_than_were_counted_end_the_search_without_a_value() -> None:
    sites = with_levels([20, 20, 20, 20])
    run = played_to_search(play(planned(AGES.format("0.5")), sites))
    ended = run.after([(0, *(-1 for _ in program.ranks)) for program in searches(run)])
    assert not isinstance(ended, Run | Stopped)
    assert [row[ended[0].columns.index("status")] for row in ended[0].rows] == ["not finished"]


def searches(run: Run) -> list[OrderStatistics]:
    return [program for program in run.plan.programs if isinstance(program, OrderStatistics)]


def played_to_search(played: Play) -> Run:
    return next(run for run in played.runs if searches(run))


def test_every_run_is_bound_to_the_answers_before_it() -> None:
    sites = with_levels([20, 20, 20, 20])
    plan = planned(AGES.format("0.5"))
    runs = play(plan, sites).runs
    assert [run.plan.stage for run in runs] == list(range(1, len(runs) + 1))
    assert runs[0].plan.earlier == b""
    assert len({run.plan.earlier for run in runs}) == len(runs)
    other = runs[1].after([(79,)])
    assert isinstance(other, Run)
    assert other.plan.digest != runs[2].plan.digest


def test_a_site_without_people_or_without_a_group_brings_zeros() -> None:
    plan = planned(AGES.format("0.5"), DX)
    run = first_run(plan, roster_of(5), range(5))
    assert run.values([site_of(0)]) == (0,)
    following = run.after([(1,)])
    assert isinstance(following, Run)
    assert following.values([site_of(0)]) == (0,) * 5
    assert following.values([]) == (0,) * 5


def test_answers_that_cannot_be_are_refused_and_a_bit_that_is_not_yes_ends_the_study() -> None:
    run = first_run(planned(DX), roster_of(5), range(5))
    for wrong in ([(1, 1)], [], [(1,), (1,)]):
        with pytest.raises(ConfigurationError):
            run.after(wrong)
    assert isinstance(run.after([(2,)]), Stopped)


def test_too_few_sites_make_no_run() -> None:
    plan = planned(DX, sites=5)
    with pytest.raises(ConfigurationError, match="4 are required"):
        first_run(plan, roster_of(5), (0, 1, 2))
    assert first_run(plan, roster_of(5), (0, 1, 2, 4)).plan.members == (0, 1, 2)
    with pytest.raises(ConfigurationError):
        first_run(plan, roster_of(5), (0, 1, 2, 7))


def test_many_searches_share_the_room_of_a_run() -> None:
    entry = f"kind: quantiles, variables: [age, iq, size], step: 0.01, probabilities: [{', '.join(str(p / 100) for p in range(1, 100))}]"
    sites = [site_of(240, seed) for seed in range(5)]
    played = play(planned(entry), sites)
    assert max(run.plan.length for run in played.runs) <= LONGEST
    rows = [row for row in played.table("a0") if row["variable"] == "size" and row["status"] == "ok"]
    sizes = [round(value, 2) for site in sites for value in site.numbers["size"]]
    for row in rows:
        assert row["value"] == pytest.approx(float(np.percentile(sizes, 100 * row["probability"])), abs=1e-9)
    assert len(rows) > 90


@given(st.integers(0, 600_000))
def test_a_grid_gives_back_the_decimals_it_was_made_of(level: int) -> None:
    grid = Grid(Number("t", "mm", -1.0, 5.0), 1e-5)
    assert grid.levels == 600_001
    value = grid.value(level)
    assert grid.places(np.array([value])) == [level]
    assert value == float(f"{(level - 100_000) / 100_000:.5f}")


REFUSED = [
    (
        ["kind: summary, variables: [age]"],
        "a0.kind",
        "answers crosstab, histogram and quantiles, and no summary",
    ),
    (["kind: quantiles, variables: [age], edges: [0, 9], probabilities: [0.5]"], "a0", "write step"),
    ([AGES.format("0.5").replace("0.01", "200")], "a0.step", "no wider than this"),
    ([AGES.format("0.5").replace("0.01", "1.0e-9")], "a0.step", "lost in the digits"),
    ([AGES.format("0.5") + ", refine: 0.1"], "a0", "refine and min_bin look into bins"),
    ([AGES.format("0.5") + ", edges: [0, 9]"], "a0", "or step alone"),
    ([DX, "kind: crosstab, factors: [dx, sex]"], "a1", "'dx' stands in 'a0' too"),
    ([DX, "kind: crosstab, factors: [sex], where: age > 9"], "a1.where", "others than those of 'a0'"),
    (
        [
            "kind: histogram, variables: [age], bins: {from: 0, to: 100, count: 1000}",
            *["kind: crosstab, factors: [dx, sex, hand]"],
        ],
        "",
        "",
    ),
]


@pytest.mark.parametrize(("entries", "field", "sentence"), REFUSED)
def test_what_a_committee_cannot_answer_is_refused_with_the_cure(
    entries: list[str], field: str, sentence: str
) -> None:
    if not field:
        frozen(study_of(entries))
        return
    with pytest.raises(StudyFileError) as caught:
        frozen(study_of(entries))
    assert f"analyses.{field}: " in caught.value.message
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("max_colluding_sites: 1", "max_colluding_sites: 2", "name 5 sites for max_colluding_sites: 2"),
        ("[site0, site1, site2]", "[site0, site1]", "3, 5 or 7"),
        ("mode: committee", "mode: masking", "belongs to mode: committee"),
        ("max_colluding_sites: 1", "max_colluding_sites: 1, min_cell: 1", "greater than or equal to 2"),
    ],
)
def test_a_committee_that_does_not_hold_is_refused(old: str, new: str, sentence: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        frozen(study_of([DX], PROTECTION.replace(old, new)))
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("site2]", "nobody]", "nobody: no site of roster version 1"),
        ("max_participants: 10000", "max_participants: 2000000000", "write at most"),
    ],
)
def test_a_committee_that_a_roster_cannot_carry_is_refused_at_planning(
    old: str, new: str, sentence: str
) -> None:
    study = frozen(study_of([AGES.format("0.5")], PROTECTION.replace(old, new)))
    with pytest.raises(StudyFileError) as caught:
        plan_study(study, roster_of(5))
    assert sentence in caught.value.message


def test_too_many_counts_or_searches_are_refused() -> None:
    bins = ", ".join(str(edge / 50) for edge in range(1001))
    many = [f"kind: histogram, variables: [age, iq, size], edges: [{bins}]"]
    frozen(study_of(many))
    crowded = f"kind: quantiles, variables: [age], step: 0.01, probabilities: [{', '.join(str(p / 1000) for p in range(1, 514))}]"
    with pytest.raises(StudyFileError, match="513 quantiles"):
        frozen(study_of([crowded]))


def test_the_least_count_is_written_out_and_a_grid_needs_a_committee() -> None:
    study = frozen(study_of([DX]))
    assert study.protection.min_cell == 10
    assert b'"min_cell":10' in study.canonical
    masking = "min_sites: 3, min_participants: 20, max_participants: 10000, min_participants_per_site: 1"
    assert b"min_cell" not in frozen(study_of([DX], masking)).canonical
    for protection, sentence in (
        (masking, "found by a committee"),
        (f"{masking}, min_cell: 5", "min_cell belongs to mode: committee"),
    ):
        with pytest.raises(StudyFileError, match=sentence):
            frozen(study_of([AGES.format("0.5")], protection))
    with pytest.raises(StudyFileError, match="which only a committee opens"):
        frozen(
            study_of(["kind: quantiles, variables: [age], edges: [0, 9], probabilities: [0, 0.5]"], masking)
        )


def test_a_vector_beyond_the_bounds_of_the_plan_is_not_dealt() -> None:
    plan = planned(DX, protection=PROTECTION.replace("10000", "50"))
    run = first_run(plan, roster_of(5), range(5))
    with pytest.raises(ConfigurationError, match="bounds of the plan"):
        run.values(halves(site_of(60)))
