"""Counts at the cohort gate: known tables with their exact patterns, the rarest band, and random studies against an attacker of their own."""

import datetime
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.definition import CrosstabSpec
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.disclosure.verdict import Gated, Outcome, Regime, Waiver
from cohortsum.study.results import HIDDEN, Absent, Cell, Status
from tests.study.disclosure.release_of import DPUK, Played, column, of, played, ruled

LINPROG: Any = import_module("scipy.optimize").linprog  # without types; what it returns is converted here

HEAD = """\
study: small
title: A small study
version: 1
roster: 1
expires: 2027-06-30
person: id
variables:
{variables}
cohort: {{epoch: 2026-11}}
analyses:
{analyses}
protection: {{min_participants: 100, max_participants: 10000}}
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0}}}}
"""


def study(variables: Mapping[str, str], analyses: Mapping[str, str]) -> str:
    return HEAD.format(
        variables="\n".join(f"  {name}: {entry}" for name, entry in variables.items()),
        analyses="\n".join(f"  {name}: {entry}" for name, entry in analyses.items()),
    )


def waiving(**rules: str) -> Regime:
    """Return dpuk at one site that waives rules."""
    day = datetime.date(2027, 1, 1)
    waivers = tuple(
        Waiver(rule, value, "a board agreed", "ann", day, "site-0") for rule, value in rules.items()
    )
    return Regime("dpuk", waivers, frozenset({"site-0"}))


EXACT = waiving(count_rounding="off")


def of_counts(counts: NDArray[np.int64], names: Sequence[str]) -> Batch:
    """Return the people behind a table of counts, one factor per axis."""
    places = np.repeat(np.arange(counts.size), counts.ravel())
    axes = np.unravel_index(places, counts.shape)
    return Batch(
        len(places), {}, {name: axis.astype(np.int16) for name, axis in zip(names, axes, strict=True)}
    )


def cells(gated: Gated, name: str) -> dict[tuple[str, ...], Cell]:
    table = of(gated, name)
    end = table.columns.index("count")
    return {tuple(map(str, row[:end])): row[end] for row in table.rows}


T2 = np.array([[40, 25, 7], [38, 30, 22], [45, 20, 18]])
ROWS, COLUMNS = "{levels: [A, B, C]}", "{levels: [low, mid, high]}"


def test_seven_of_a_three_by_three_table_hides_exactly_the_cheapest_three_with_it() -> None:
    """T2 of the secondary suppression literature: margins printed, one small cell; exhaustive search gives 63 people."""
    text = study(
        {"row": ROWS, "col": COLUMNS},
        {
            "both": "{kind: crosstab, factors: [row, col]}",
            "rows": "{kind: crosstab, factors: [row]}",
            "cols": "{kind: crosstab, factors: [col]}",
        },
    )
    gated = played(text, [of_counts(T2, ("row", "col"))]).gated(EXACT)
    hidden = {key for key, cell in cells(gated, "both").items() if cell is HIDDEN}
    assert hidden == {("A", "high"), ("A", "mid"), ("C", "mid"), ("C", "high")}
    assert cells(gated, "rows") == {("A",): 72, ("B",): 90, ("C",): 83}
    assert {
        result.outcome for result in ruled(gated, "complement_suppression") if result.table == "both"
    } == {Outcome.CHANGED}


def test_seven_of_eighty_hides_both_names_the_rule_and_rounds_the_rest() -> None:
    text = study(
        {"wmh": "{levels: [below, above]}", "sex": "{levels: [female, male]}"},
        {"burden": "{kind: crosstab, factors: [wmh]}", "sexes": "{kind: crosstab, factors: [sex]}"},
    )
    people = Batch(
        80,
        {},
        {
            "wmh": np.array([0] * 73 + [1] * 7, np.int16),
            "sex": np.array([0] * 33 + [1] * 47, np.int16),
        },
    )
    gated = played(text, [people]).gated()
    assert set(column(of(gated, "burden"), "count")) == {HIDDEN}
    assert set(column(of(gated, "burden"), "status")) == {Status.HIDDEN.value}
    assert "primary_suppression" in HIDDEN.reason
    assert column(of(gated, "sexes"), "count") == [35, 45]
    assert column(of(gated, "sexes"), "column_percent") == [43.75, 56.25]
    for rule in ("primary_suppression", "complement_suppression"):
        assert [one.outcome for one in ruled(gated, rule) if one.table == "burden"] == [Outcome.CHANGED]
    assert all("7" not in result.what for result in gated.results)


def test_ten_people_have_a_mean_and_no_standard_deviation() -> None:
    """Residual degrees of freedom: n - 1 of at least 10."""
    text = study(
        {"age": "{unit: years, range: [0, 100]}", "arm": "{levels: [a, b]}"},
        {"ages": "{kind: summary, variables: [age], by: [arm]}"},
    )
    age = np.concatenate((np.arange(30.0, 40.0), np.arange(90.0)))
    people = Batch(100, {"age": age}, {"arm": np.array([0] * 10 + [1] * 90, np.int16)})
    table = of(played(text, [people]).gated(), "ages")
    few, many = table.rows
    assert few[table.columns.index("mean")] == pytest.approx(34.5)
    assert few[table.columns.index("sd")] == few[table.columns.index("variance")] == Absent("residual_df")
    assert many[table.columns.index("sd")] == pytest.approx(np.std(np.arange(90.0), ddof=1), rel=1e-3)


def test_percentages_and_associations_are_of_the_rounded_counts() -> None:
    text = study(
        {"row": "{levels: [A, B]}", "col": "{levels: [x, y]}"}, {"t": "{kind: crosstab, factors: [row, col]}"}
    )
    counts = np.array([[41, 63], [28, 77]])
    gated = played(text, [of_counts(counts, ("row", "col"))]).gated()
    table = of(gated, "t")
    assert column(table, "count") == [40, 65, 30, 75]
    assert column(table, "row_percent") == pytest.approx(
        [100 * 40 / 105, 100 * 65 / 105, 100 * 30 / 105, 100 * 75 / 105]
    )
    measures = of(gated, "t.association")
    assert column(measures, "n") == [210]
    assert column(measures, "odds_ratio") == pytest.approx([(40 * 75) / (65 * 30)])


def test_people_who_lack_a_value_are_few_and_are_not_told_by_subtraction() -> None:
    text = study(
        {"age": "{unit: years, range: [0, 100]}", "dx": "{levels: [a, b]}"},
        {
            "ages": "{kind: summary, variables: [age]}",
            "groups": "{kind: crosstab, factors: [dx]}",
        },
    )
    age = np.arange(120.0) % 100
    age[:4] = np.nan
    people = Batch(120, {"age": age}, {"dx": np.array([0] * 60 + [1] * 60, np.int16)})
    table = of(played(text, [people]).gated(), "ages")
    (row,) = table.rows
    assert row[table.columns.index("n")] is HIDDEN
    assert row[table.columns.index("missing")] is HIDDEN
    assert row[table.columns.index("status")] == "ok"
    assert isinstance(row[table.columns.index("mean")], float)


T5 = dict(zip("ABIJKLMN", (2, 2, 8, 8, 3, 3, 3, 7), strict=True))
COUNTY = {name: name in "ABIJ" for name in T5}
GROUP = {name: name in "LM" for name in T5}


def breakdown(by: str, of_region: Mapping[str, bool]) -> Played:
    regions = sorted(T5)
    counts = np.zeros((2, len(regions)), np.int64)
    for place, region in enumerate(regions):
        counts[int(of_region[region]), place] = T5[region]
    text = study(
        {by: "{levels: ['no', 'yes']}", "region": f"{{levels: [{', '.join(regions)}]}}"},
        {"cells": "{kind: crosstab, factors: [region]}", "totals": f"{{kind: crosstab, factors: [{by}]}}"}
        | {"both": f"{{kind: crosstab, factors: [{by}, region]}}"},
    )
    return played(text, [of_counts(counts, (by, "region"))])


def as_earlier(one: Played, gated: Gated) -> Earlier:
    specs = {name: spec for name, spec in one.plan.study.analyses.items() if isinstance(spec, CrosstabSpec)}
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    shown: set[tuple[str, tuple[str, ...]]] = set()
    for table in one.tables:
        if table.kind == "crosstab":
            end = table.columns.index("count")
            for row, kept in zip(table.rows, of(gated, table.analysis).rows, strict=True):
                key = (table.analysis, tuple(map(str, row[:end])))
                counts[key] = int(str(row[end]))
                if not isinstance(kept[end], Absent):
                    shown.add(key)
    return Earlier("before", one.plan.study.factors, specs, counts, frozenset(shown))


def test_the_second_of_two_breakdowns_of_the_same_people_gives_nothing_away_with_the_first() -> None:
    """T5, from sdcTable's linked tables: each breakdown alone is safe, both together give K = 30 - 16 - 7 - 4 = 3."""
    five = waiving(
        **dict.fromkeys(("primary_suppression", "group_10", "wmh_count_min", "wmh_count_suppression"), "5"),
        count_rounding="off",
    )
    by_county, by_group = breakdown("county", COUNTY), breakdown("group", GROUP)
    first, alone = by_county.gated(five), by_group.gated(five)
    second = by_group.gated(five, (as_earlier(by_county, first),))
    printed = told(first, COUNTY, "county")
    assert not proven_small(printed)
    assert not proven_small(told(alone, GROUP, "group"))
    assert proven_small(printed + told(alone, GROUP, "group")), "else the two breakdowns are no trap"
    assert not proven_small(printed + told(second, GROUP, "group"))


Printed = list[tuple[NDArray[np.bool_], int]]


def told(gated: Gated, of_region: Mapping[str, bool], by: str) -> Printed:
    """Return the counts that a breakdown prints, as sets of regions."""
    regions = sorted(T5)
    found: Printed = []
    for name in ("cells", "totals", "both"):
        for key, cell in cells(gated, name).items():
            held = np.ones(len(regions), np.bool_)
            for part in key:
                same = [
                    one == part if part in regions else of_region[one] == (part == "yes") for one in regions
                ]
                held &= np.array(same)
            if isinstance(cell, int):
                found.append((held, cell))
    return found


def proven_small(printed: Printed) -> set[str]:
    """Return the regions of fewer than five people of which an attacker who knows the total of all proves that."""
    regions = sorted(T5)
    everybody = (np.ones(len(regions), np.bool_), sum(T5.values()))
    found: set[str] = set()
    for place, region in enumerate(regions):
        target = np.arange(len(regions)) == place
        if T5[region] < 5 and attacked([*printed, everybody], target, len(regions))[1] < 5 - 1e-6:
            found.add(region)
    return found


def attacked(
    printed: Sequence[tuple[NDArray[np.bool_], int]], target: NDArray[np.bool_], regions: int
) -> tuple[float, float]:
    """Return the least and the greatest number of people in some regions that fit what is printed."""
    rows = np.array([mask for mask, _ in printed], np.float64).reshape(-1, regions)
    right = np.array([count for _, count in printed], np.float64)
    ends: list[float] = []
    for sign in (1.0, -1.0):
        found: Any = LINPROG(sign * target.astype(np.float64), A_eq=rows, b_eq=right, bounds=(0, None))
        ends.append(np.inf if found.status == 3 else float(sign * found.fun))
    return ends[0], ends[1]


@settings(max_examples=40)
@given(
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from((4.0, 12.0, 30.0)),
)
def test_no_small_count_of_a_random_study_is_proven_small_by_all_its_tables_together(
    rows: int, columns: int, seed: int, size: float
) -> None:
    """A crosstab, its margins and its cells as shares; two variables that some lack, by rows; an attacker who knows how many there are."""
    chance = np.random.default_rng(seed)
    counts = chance.poisson(size, (rows, columns, 2, 2)) // np.array([[1, 3], [3, 9]])
    if counts.sum() == 0:
        return
    places = np.repeat(np.arange(counts.size), counts.ravel())
    first, second, lacks, lacks_too = np.unravel_index(places, counts.shape)
    age = np.where(lacks == 1, np.nan, 40.0 + places % 7)
    iq = np.where(lacks_too == 1, np.nan, 90.0 + places % 7)
    people = Batch(
        len(places), {"age": age, "iq": iq}, {"row": first.astype(np.int16), "col": second.astype(np.int16)}
    )
    levels = [
        f"{{levels: [{', '.join(f'{name}{place}' for place in range(number))}]}}"
        for name, number in (("r", rows), ("c", columns))
    ]
    text = study(
        {"row": levels[0], "col": levels[1], "age": "{unit: years, range: [0, 100]}"}
        | {"iq": "{unit: points, range: [40, 160]}"},
        {
            "both": "{kind: crosstab, factors: [row, col]}",
            "rows": "{kind: crosstab, factors: [row]}",
            "cols": "{kind: crosstab, factors: [col]}",
            "shares": "{kind: proportion, factors: [col], by: [row]}",
            "ages": "{kind: summary, variables: [age, iq], by: [row]}",
        },
    )
    gated = played(text, [people]).gated(EXACT)
    grid = np.indices(counts.shape).reshape(4, -1)

    def mask(
        row: int | None = None, col: int | None = None, age: int | None = None, iq: int | None = None
    ) -> NDArray[np.bool_]:
        held = np.ones(grid.shape[1], np.bool_)
        for axis, wanted in enumerate((row, col, age, iq)):
            held &= True if wanted is None else grid[axis] == wanted
        return held

    found: list[tuple[NDArray[np.bool_], Cell]] = []
    for (row, col), cell in cells(gated, "both").items():
        found.append((mask(int(row[1:]), int(col[1:])), cell))
    found += [(mask(row=int(key[0][1:])), cell) for key, cell in cells(gated, "rows").items()]
    found += [(mask(col=int(key[0][1:])), cell) for key, cell in cells(gated, "cols").items()]
    ages, shares = of(gated, "ages"), of(gated, "shares")
    for line in ages.rows:
        for name, lacking in (("n", 0), ("missing", 1)):
            whom = mask(row=int(str(line[1])[1:]), **{str(line[0]): lacking})
            found.append((whom, line[ages.columns.index(name)]))
    for line in shares.rows:
        of_row, of_col = (int(str(line[place])[1:]) for place in (2, 1))
        for name, whom in (("n", mask(row=of_row)), ("count", mask(row=of_row, col=of_col))):
            found.append((whom, line[shares.columns.index(name)]))
    printed = [(held, int(cell)) for held, cell in found if isinstance(cell, int)]
    printed.append((mask(), int(counts.sum())))
    for held, cell in found:
        true = int(counts.ravel()[held].sum())
        if 1 <= true < 10:
            assert isinstance(cell, Absent)
            low, high = attacked(printed, held, counts.size)
            assert high >= 10 - 1e-6
            assert high - low >= 10 - 1e-6


def test_shares_crossed_one_way_and_the_other_give_no_small_cell_away() -> None:
    """7 of 80 women are treated: each table alone hides them, and each gives the other's hidden cells back."""
    text = study(
        {"sex": "{levels: [female, male]}", "treated": "{levels: ['no', 'yes']}"},
        {
            "a": "{kind: proportion, factors: [treated], by: [sex]}",
            "b": "{kind: proportion, factors: [sex], by: [treated]}",
        },
    )
    gated = played(text, [of_counts(np.array([[73, 7], [62, 58]]), ("sex", "treated"))]).gated(EXACT)
    assert set(column(of(gated, "a"), "count")) == set(column(of(gated, "b"), "count")) == {HIDDEN}
    assert column(of(gated, "a"), "n") == [80, 120, 80, 120]


def test_a_small_band_is_hidden_with_the_same_other_band_for_every_variable() -> None:
    """7 of 300 are young. If one variable hid the second band with them and another the third, the two would give 7 back."""
    age = np.repeat([10.0, 30.0, 50.0, 70.0], [7, 93, 100, 100])
    iq, score = (np.arange(300.0) * step % 40 + 80 for step in (7, 11))
    iq[100:112], score[250:270] = np.nan, np.nan
    text = study(
        {"age": "{unit: years, range: [0, 90]}"}
        | dict.fromkeys(("iq", "score"), "{unit: points, range: [40, 160]}"),
        {
            "a": "{kind: quantiles, variables: [iq, score], bands: {age: [20, 40, 60]}, probabilities: [0.5],"
            " bins: {from: 40, to: 160, count: 30}}",
            "all": "{kind: summary, variables: [iq, score]}",
        },
    )
    gated = played(text, [Batch(300, {"age": age, "iq": iq, "score": score}, {})]).gated(EXACT)
    assert column(of(gated, "a"), "n") == [HIDDEN, HIDDEN, 88, 100, HIDDEN, HIDDEN, 100, 80]
    assert column(of(gated, "a"), "missing") == [HIDDEN, HIDDEN, 12, 0, HIDDEN, HIDDEN, 0, 20]
    assert column(of(gated, "all"), "n") == [288, 280]


def test_under_open_data_tables_pass_as_they_are() -> None:
    text = study({"row": ROWS, "col": COLUMNS}, {"both": "{kind: crosstab, factors: [row, col]}"})
    one = played(text, [of_counts(T2, ("row", "col"))])
    assert one.gated(Regime("open_data")) == Gated(one.tables)


def test_a_waiver_of_one_site_among_two_that_hold_to_the_rules_changes_nothing() -> None:
    text = study({"row": ROWS, "col": COLUMNS}, {"both": "{kind: crosstab, factors: [row, col]}"})
    one = played(text, [of_counts(T2, ("row", "col"))])
    mine = waiving(primary_suppression="off", complement_suppression="off", group_10="off")
    both = Regime("dpuk", mine.waivers, frozenset({"site-0", "site-1"}))
    assert one.gated(both).tables == one.gated(DPUK).tables
    alone = cells(one.gated(mine), "both")
    assert alone["A", "high"] == 5, "rounding alone is what is left, and 7 is printed as 5"
