"""Coarser tables from opened sums: to the last bit what a study written so from the start would have opened."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.planning import StudyPlan
from cohortsum.study.release.moves import added, merged, moved, unchanged
from cohortsum.study.release.regrouping import regrouped
from cohortsum.study.release.remedy import Action, Drop, DropTable, Merge, MergeBins, Remedy, apply_remedy
from cohortsum.study.results import Absent, Status, Table
from cohortsum.study.variables import Factor
from tests.release.coarse import (
    CUTS,
    DX,
    EDGES,
    REGIONS,
    TIMES,
    Form,
    Sums,
    cohort,
    numbers_of,
    planned,
    play,
    recoded,
    tables_of,
)

PLAN = Form().plan
PEOPLE = cohort(1)
SUMS = play(PLAN, PEOPLE)
BY_REGION = (
    "regions",
    "sexes",
    "layers",
    "means",
    "shapes",
    "shares",
    "grouped",
    "middle",
    "banded",
    "compared",
    "curves",
    "groups",
)
BY_DX = ("layers", "means", "shares", "grouped")
GONE = Absent(Status.TOO_FEW_SITES)


def remedied(analysis: str, *actions: Action, plan: StudyPlan = PLAN, sums: Sums = SUMS) -> tuple[Table, ...]:
    return apply_remedy(plan, sums, None, analysis, Remedy(actions))


def levels_merged(
    levels: tuple[str, ...], chosen: Sequence[str], name: str
) -> tuple[tuple[str, ...], list[int]]:
    """Return the levels as a study would write them, and the new place of each old one."""
    first = next(level for level in levels if level in chosen)
    kept = [level for level in levels if level == first or level not in chosen]
    places = [kept.index(first if level in chosen else level) for level in levels]
    return tuple(name if level == first else level for level in kept), places


def some_of(levels: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(levels), min_size=2, max_size=len(levels) - 1, unique=True)


@settings(max_examples=5, deadline=None)
@given(chosen=some_of(REGIONS), seed=st.integers(0, 2**32 - 1))
def test_merged_levels_are_those_of_a_study_written_so(chosen: list[str], seed: int) -> None:
    batches = cohort(seed)
    opened = play(PLAN, batches)
    assert len(opened) == len(PLAN.round.blocks)
    written, places = levels_merged(REGIONS, chosen, "some")
    other = Form(region=written).plan
    sums = play(other, recoded(batches, "region", places))
    for analysis in BY_REGION:
        found = remedied(analysis, Merge("region", tuple(chosen), "some"), sums=opened)
        expected = tables_of(other, sums, analysis)
        assert numbers_of(found) == numbers_of(expected), analysis
        for table, same in zip(found, expected, strict=True):
            assert table.notes[: len(same.notes)] == same.notes


@pytest.mark.parametrize("chosen", [("autism", "other"), ("control", "other")])
def test_two_analyses_may_merge_another_factor(chosen: tuple[str, str]) -> None:
    written, places = levels_merged(DX, chosen, "a/b [c]")
    text = Form(dx=tuple(f"'{level}'" for level in written)).text()
    text = text.replace("event: autism", f"event: '{written[1]}'")
    plan = planned(text)
    sums = play(plan, recoded(PEOPLE, "dx", places))
    for analysis in BY_DX:
        found = remedied(analysis, Merge("dx", chosen, "a/b [c]"))
        assert numbers_of(found) == numbers_of(tables_of(plan, sums, analysis)), analysis


def test_merging_in_two_steps_is_merging_in_one() -> None:
    once = remedied("layers", Merge("region", ("east", "west", "islands"), "rest"))
    first = Merge("region", ("west", "east"), "sides")
    twice = remedied("layers", first, Merge("region", ("islands", "sides"), "rest"))
    assert numbers_of(once) == numbers_of(twice)


def test_two_factors_may_be_merged_one_after_the_other() -> None:
    actions = (Merge("region", ("east", "west"), "sides"), Merge("dx", ("autism", "other"), "cases"))
    assert numbers_of(remedied("means", *actions)) == numbers_of(remedied("means", *reversed(actions)))


@given(chosen=some_of(REGIONS))
@settings(max_examples=5, deadline=None)
def test_nobody_is_lost_and_nobody_counted_twice(chosen: list[str]) -> None:
    for analysis, column in (("regions", "count"), ("layers", "count"), ("means", "n"), ("means", "missing")):
        before = tables_of(PLAN, SUMS, analysis)[0]
        after = remedied(analysis, Merge("region", tuple(chosen), "some"))[0]
        assert _total(before, column) == _total(after, column)


def _total(table: Table, column: str) -> int:
    place = table.columns.index(column)
    return sum(cell for row in table.rows if isinstance(cell := row[place], int))


def test_a_sum_whose_part_had_too_few_suppliers_is_not_there() -> None:
    few = [
        recoded([batch], "region", [0, 1, 2, 3, 4] if site < 2 else [0, 1, 2, 3, 0])[0]
        for site, batch in enumerate(PEOPLE)
    ]
    opened = play(PLAN, few)
    assert "regions/region[islands]" not in opened
    (table,) = remedied("regions", Merge("region", ("west", "islands"), "far"), sums=opened)
    far = next(row for row in table.rows if row[0] == "far")
    assert far == ("far", GONE, GONE, GONE, Status.TOO_FEW_SITES)
    (means,) = remedied("means", Merge("region", ("west", "islands"), "far"), sums=opened)
    assert {row[means.columns.index("n")] for row in means.rows if row[1] == "far"} == {GONE}
    (others,) = remedied("regions", Merge("region", ("north", "east"), "near"), sums=opened)
    assert next(row for row in others.rows if row[0] == "near")[1] == sum(
        int(opened[f"regions/region[{level}]"][0]) for level in ("north", "east")
    )
    assert "each over the sites that supplied it" in table.notes[-1]


def test_sites_without_people_at_one_part_are_in_the_sum_with_the_others() -> None:
    """Two sites have no islands at all: enough others have, and nobody is missing from the merged level."""
    uneven = [
        recoded([batch], "region", [0, 1, 2, 3, 4] if site > 1 else [0, 1, 2, 3, 3])[0]
        for site, batch in enumerate(PEOPLE)
    ]
    opened = play(PLAN, uneven)
    written, places = levels_merged(REGIONS, ("west", "islands"), "far")
    other = Form(region=written).plan
    sums = play(other, recoded(uneven, "region", places))
    for analysis in ("regions", "means", "sexes", "shares", "compared"):
        found = remedied(analysis, Merge("region", ("west", "islands"), "far"), sums=opened)
        assert numbers_of(found) == numbers_of(tables_of(other, sums, analysis)), analysis


edges_of_the_study = st.lists(st.sampled_from(EDGES[:-1]), min_size=1, unique=True).map(
    lambda some: (*sorted(some), EDGES[-1])
)


@settings(max_examples=5, deadline=None)
@given(kept=edges_of_the_study, seed=st.integers(0, 2**32 - 1))
def test_fewer_bins_are_those_of_a_study_written_so(kept: tuple[float, ...], seed: int) -> None:
    batches = cohort(seed, 120)
    plan = Form(edges=kept).plan
    opened, sums = play(PLAN, batches), play(plan, batches)
    for analysis in ("ages", "middle"):
        both = (MergeBins("age", kept), MergeBins("iq", kept))
        expected = tables_of(plan, sums, analysis)
        assert numbers_of(remedied(analysis, *both, sums=opened)) == numbers_of(expected)
        (alone,) = remedied(analysis, MergeBins("age", kept), sums=opened)
        (before,) = tables_of(PLAN, opened, analysis)
        wanted = {"age": expected[0], "iq": before}
        for variable, table in wanted.items():
            assert [row for row in alone.rows if row[0] == variable] == [
                row for row in table.rows if row[0] == variable
            ]


def test_the_end_of_the_range_may_stand_for_the_last_edge_but_no_other_edge_may() -> None:
    kept = (10.0, 25.0, 65.0)
    plan = Form(edges=kept).plan
    expected = tables_of(plan, play(plan, PEOPLE), "ages")[0]
    (found,) = remedied("ages", MergeBins("age", kept))
    assert [row for row in found.rows if row[0] == "age"] == [row for row in expected.rows if row[0] == "age"]
    for wrong in ((10.0, 25.0), (20.0, 40.0), (25.0, 60.0, 65.0), (5.0, 65.0, 160.0)):
        with pytest.raises(RefusedError, match=r"part people whom the study counts together|no edge 160"):
            remedied("ages", MergeBins("age", wrong))


@settings(max_examples=5, deadline=None)
@given(
    cuts=st.lists(st.sampled_from(CUTS), min_size=1, unique=True).map(lambda some: tuple(sorted(some))),
    times=st.lists(st.sampled_from(TIMES), min_size=1, unique=True).map(lambda some: tuple(sorted(some))),
)
def test_fewer_bands_and_times_are_those_of_a_study_written_so(
    cuts: tuple[float, ...], times: tuple[float, ...]
) -> None:
    plan = Form(cuts=cuts, times=times).plan
    sums = play(plan, PEOPLE)
    for analysis, action in (
        ("banded", MergeBins("age", cuts)),
        ("curves", MergeBins("years", times)),
        ("groups", MergeBins("years", times)),
    ):
        assert numbers_of(remedied(analysis, action)) == numbers_of(tables_of(plan, sums, analysis)), analysis


def test_levels_and_bins_may_be_merged_together() -> None:
    kept = (20.0, 60.0)
    bins, levels = MergeBins("age", kept), Merge("region", ("east", "west"), "sides")
    assert numbers_of(remedied("middle", bins, levels)) == numbers_of(remedied("middle", levels, bins))


@pytest.mark.parametrize("analysis", ["regions", "sexes", "layers", "compared", "groups"])
def test_a_level_that_is_in_totals_leaves_them_too(analysis: str) -> None:
    """The result is that of a cohort in which its people have no level at all."""
    written = tuple(level for level in REGIONS if level != "west")
    plan = Form(region=written).plan
    sums = play(plan, recoded(PEOPLE, "region", [0, 1, 2, -1, 3]))
    found = remedied(analysis, Drop(levels={"region": ("west",)}))
    assert numbers_of(found) == numbers_of(tables_of(plan, sums, analysis))
    assert not any("west" in str(cell) for table in found for row in table.rows for cell in row)


def test_the_note_about_missing_people_does_not_give_the_left_out_back() -> None:
    before = tables_of(PLAN, SUMS, "regions")[0].notes[0]
    (table,) = remedied("regions", Drop(levels={"region": ("west",)}))
    assert table.notes[0] == before
    assert table.notes[-1] == (
        "Left out when the release was checked: region[west]. Those people are in no row, total or test."
    )


def test_a_level_among_shares_leaves_them() -> None:
    (table,) = remedied("shares", Drop(levels={"region": ("west",)}))
    assert ("region", "west") not in {row[:2] for row in table.rows}
    counts = {row[1]: row[3] for row in table.rows if row[0] == "region" and row[2] == "male"}
    assert {row[4] for row in table.rows if row[0] == "region" and row[2] == "male"} == {
        sum(map(_int, counts.values()))
    }
    (before,) = tables_of(PLAN, SUMS, "shares")
    others = [row for row in before.rows if row[0] != "region"]
    assert [row for row in table.rows if row[0] != "region"] == others


def _int(cell: object) -> int:
    assert isinstance(cell, int)
    return cell


def test_rows_are_left_out_by_what_they_name() -> None:
    (before,) = tables_of(PLAN, SUMS, "shapes")
    (table,) = remedied(
        "shapes", Drop(variables=("iq",), levels={"region": ("north", "west"), "sex": ("male",)})
    )
    gone = {("iq", "male", "north"), ("iq", "male", "west")}
    assert table.rows == tuple(row for row in before.rows if row[:3] not in gone)
    assert (
        table.notes[-1]
        == "Left out when the release was checked: iq, region[north] and region[west], sex[male]."
    )
    (shares,) = remedied("shares", Drop(thresholds=(60,)))
    assert {row[1] for row in shares.rows if row[0] == "age"} == {"> 50"}
    (middle,) = remedied("middle", Drop(variables=("age",), probabilities=(0.25,)))
    assert {row[:1] + row[2:3] for row in middle.rows} == {("iq", 0.25), ("iq", 0.5), ("age", 0.5)}
    (model,) = remedied("model", Drop(variables=("age",)), Drop(terms=("dx[other]",)))
    assert {row[:2] for row in model.rows} == {("iq", "dx[autism]"), ("iq", "sex[male]")}
    (pairs,) = remedied("together", Drop(variables=("years",)))
    assert [row[:2] for row in pairs.rows] == [("age", "iq")]
    assert [row[0] for row in remedied("curves", Drop(levels={"region": ("west",)}))[1].rows] == [
        level for level in REGIONS if level != "west"
    ]


def test_numbers_of_the_rows_that_stay_are_as_they_were() -> None:
    (before,) = tables_of(PLAN, SUMS, "model")
    (after,) = remedied("model", Drop(variables=("age",)))
    assert after.rows == tuple(row for row in before.rows if row[0] == "iq")


def test_a_term_leaves_with_the_tests_that_say_the_same() -> None:
    model = "terms: [dx, sex], site_effect: within"
    plan = planned(Form().text().replace(model, f"{model}, tests: {{sex: [sex]}}"))
    sums = play(plan, PEOPLE)
    drop = Drop(terms=("sex[male]",))
    with pytest.raises(RefusedError, match=r"could be read off model.tests; leave that out as well"):
        remedied("model", drop, plan=plan, sums=sums)
    (table,) = remedied("model", drop, DropTable("model.tests"), plan=plan, sums=sums)
    assert {row[1] for row in table.rows} == {"dx[autism]", "dx[other]"}


def test_loadings_that_follow_from_the_others_do_not_leave_alone() -> None:
    text = (
        Form()
        .text()
        .replace("together: {kind: correlation,", "together: {kind: pca, components: 2, site_effect: within,")
    )
    plan = planned(text)
    with pytest.raises(RefusedError, match="would follow from the other rows"):
        remedied("together", Drop(variables=("iq",)), plan=plan, sums=play(plan, PEOPLE))


def test_tables_of_an_analysis_are_left_out_one_by_one() -> None:
    both = remedied("sexes", Merge("region", ("east", "west"), "sides"))
    assert [table.analysis for table in both] == ["sexes", "sexes.association"]
    assert remedied("sexes", DropTable())[0].analysis == "sexes.association"
    assert remedied("sexes.association", DropTable())[0].analysis == "sexes"
    assert remedied("sexes", DropTable("sexes.association"))[0].analysis == "sexes"
    assert remedied("regions", DropTable()) == ()
    assert remedied("model", Drop(variables=("age", "iq"))) == ()


REFUSED: list[tuple[str, Action, str]] = [
    ("nothing", DropTable(), "has no analysis 'nothing'"),
    ("sexes", DropTable("sexes.measures"), "has no table 'sexes.measures'"),
    (
        "model",
        Merge("dx", ("autism", "other"), "cases"),
        "analysis model: has no groups, or sums that do not add up",
    ),
    ("ages", Merge("dx", ("autism", "other"), "cases"), "analysis ages: has no groups"),
    ("sexes", Merge("dx", ("autism", "other"), "cases"), "has no groups by 'dx'"),
    ("curves", Merge("dx", ("autism", "other"), "cases"), "has no groups by 'dx'"),
    ("sexes", Merge("region", ("east", "wst"), "sides"), "no level 'wst'; did you mean 'west'?"),
    ("sexes", Merge("region", ("east", "west"), "north"), "has a level 'north'"),
    ("sexes", Merge("region", REGIONS, "all"), "left with one level"),
    ("sexes", Merge("sex", ("female", "male"), "all"), "left with one level"),
    ("sexes", Drop(levels={"sex": ("male",)}), "left with one level"),
    ("sexes", Drop(levels={"sex": ("male",), "region": ("west",)}), "in the totals of other rows"),
    ("shares", Drop(variables=("dx",), levels={"dx": ("other",)}), "in the totals of other rows"),
    ("model", MergeBins("age", EDGES), "has no bins, bands or times"),
    ("ages", MergeBins("ag", EDGES), "did you mean 'age'?"),
    ("ages", MergeBins("age", (21.0, 60.0)), "no edge 21; it has 5, 10, 20"),
    ("ages", MergeBins("age", (60.0,)), "at least two edges"),
    ("banded", MergeBins("age", (5.0,)), "no edge 5"),
    ("model", Drop(variables=("agge",)), "no row is about agge; did you mean 'age'?"),
    ("model", Drop(levels={"term": ("dx[other]",)}), "has no factor 'term'"),
    ("model", Drop(levels={"dx": ("other",)}), "no row is about"),
    ("means", Drop(thresholds=(20.0,)), "no row is about"),
    ("shares", Drop(variables=("dx",), thresholds=(50.0,)), "no row is about"),
]


@pytest.mark.parametrize(("item", "action", "why"), REFUSED)
def test_what_cannot_be_had_is_refused_by_name(item: str, action: Action, why: str) -> None:
    with pytest.raises(RefusedError) as caught:
        remedied(item, action)
    assert why in str(caught.value)


def test_a_level_that_was_merged_is_known_by_its_new_name_alone() -> None:
    first = Merge("region", ("east", "west"), "sides")
    with pytest.raises(RefusedError, match="no level 'west'"):
        remedied("sexes", first, Merge("region", ("west", "north"), "more"))
    found = remedied("sexes", first, Drop(levels={"region": ("sides",)}))[0]
    assert {row[1] for row in found.rows} == {"north", "south", "islands"}


def test_sums_of_many_people_stay_exact() -> None:
    """Powers on the finest grid need more digits than a float has."""
    large = {name: values + (2**60 if name.endswith("/sums") else 0) for name, values in SUMS.items()}
    change = merged(Factor("region", REGIONS), ("east", "west"), "sides")
    assert change.new.levels == ("north", "sides", "south", "islands")
    (statistic,) = (one for one in PLAN.statistics if one.name == "means")
    _, moves = regrouped(statistic, change)
    found = added(large, moves)["means/age/region[sides]/dx[control]/sums"]
    parts = [large[f"means/age/region[{level}]/dx[control]/sums"] for level in ("east", "west")]
    assert [int(one) for one in found] == [int(a) + int(b) for a, b in zip(*parts, strict=True)]
    assert found.dtype == np.int64


def test_a_layout_that_is_ordered_otherwise_is_found_out() -> None:
    (statistic,) = (one for one in PLAN.statistics if one.name == "sexes")
    old = statistic.layout()
    runs = [(unchanged(2), unchanged(5)), ()]
    assert [move.old for move in moved(old, old, runs)] == [block.name for block in old]
    for wrong in ([(unchanged(2), unchanged(5))], [(unchanged(5), unchanged(2)), (), ()]):
        with pytest.raises(ValueError, match="the runs are not the whole layout"):
            moved(old, old, wrong)
    with pytest.raises(ValueError, match="is no part of"):
        moved(old, (*old[1:-1], old[0], old[-1]), runs)
