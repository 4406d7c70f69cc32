"""Differences between two versions of a table: every cell, and what a suppression loses first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.study.release.differences import CellChange, changes
from cohortsum.study.release.remedy import Merge, Remedy, apply_remedy
from cohortsum.study.results import NO_DATA, Absent, Cell, Table
from tests.release.coarse import Form, cohort, play, tables_of

HIDDEN = Absent("hidden")
COLUMNS = ("dx", "sex", "count", "row_percent", "status")
BEFORE = Table(
    "cells",
    "crosstab",
    COLUMNS,
    (
        ("control", "female", 12, 40.0, "ok"),
        ("control", "male", 18, 60.0, "ok"),
        ("case", "female", HIDDEN, HIDDEN, "below threshold"),
        ("case", "male", 20, HIDDEN, "ok"),
    ),
)


def test_what_is_uncovered_comes_first_and_what_is_hidden_in_vain_next() -> None:
    after = replace(
        BEFORE,
        rows=(
            ("control", "female", 13, 40.0, "ok"),
            ("control", "male", HIDDEN, 60.0, "below threshold"),
            ("case", "female", 4, NO_DATA, "ok"),
            ("other", "male", HIDDEN, 7.0, "ok"),
        ),
    )
    found = changes(BEFORE, after)
    assert found == (
        CellChange("appeared", "case, female", "count", HIDDEN, 4),
        CellChange("vanished", "control, male", "count", 18, HIDDEN),
        CellChange("changed", "control, female", "count", 12, 13),
        CellChange("changed", "control, male", "status", "ok", "below threshold"),
        CellChange("changed", "case, female", "row_percent", HIDDEN, NO_DATA),
        CellChange("changed", "case, female", "status", "below threshold", "ok"),
        CellChange("appeared", "other, male", "count", None, HIDDEN),
        CellChange("appeared", "other, male", "row_percent", None, 7.0),
        CellChange("appeared", "other, male", "status", None, "ok"),
        CellChange("vanished", "case, male", "count", 20, None),
        CellChange("vanished", "case, male", "row_percent", HIDDEN, None),
        CellChange("vanished", "case, male", "status", "ok", None),
    )
    assert [change.uncovers for change in found] == [True] + [False] * 11
    assert [change.hides for change in found] == [False, True] + [False] * 10


def test_the_order_of_rows_and_columns_is_no_change() -> None:
    order = (4, 2, 0, 3, 1)
    turned = replace(
        BEFORE,
        columns=tuple(COLUMNS[place] for place in order),
        rows=tuple(tuple(row[place] for place in order) for row in reversed(BEFORE.rows)),
    )
    assert changes(BEFORE, turned) == ()


def test_a_column_may_come_or_go() -> None:
    wider = replace(BEFORE, columns=(*COLUMNS, "p"), rows=tuple((*row, 0.5) for row in BEFORE.rows))
    assert {(one.what, one.column) for one in changes(BEFORE, wider)} == {("appeared", "p")}
    assert {(one.what, one.column) for one in changes(wider, BEFORE)} == {("vanished", "p")}


@pytest.mark.parametrize(
    ("kind", "columns", "row"),
    [
        ("histogram", ("variable", "low", "high", "count", "status"), ("age", 0.0, 20.5, 9, "ok")),
        ("quantiles", ("variable", "probability", "value", "status"), ("age", 0.5, 33.0, "ok")),
        ("kaplan_meier", ("time", "at_risk", "status"), (2.0, 40, "ok")),
        ("normative", ("outcome", "age", "sex", "mean", "status"), ("iq", 20.0, "male", 100.0, "ok")),
    ],
)
def test_bins_probabilities_times_and_grid_points_name_rows(
    kind: str, columns: tuple[str, ...], row: tuple[Cell, ...]
) -> None:
    before = Table("a", kind, columns, (row,))
    (change,) = changes(before, replace(before, rows=((*row[:-2], 7, "ok"),)))
    assert (change.what, change.column, change.before, change.after) == ("changed", columns[-2], row[-2], 7)
    assert change.row == ", ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row[:-2])


def test_rows_of_one_name_are_matched_in_their_order() -> None:
    twins = Table("a", "fit", ("outcome", "n", "status"), (("y", 1, "ok"), ("y", 2, "ok")))
    after = replace(twins, rows=(("y", 1, "ok"), ("y", 3, "ok")))
    assert changes(twins, after) == (CellChange("changed", "y", "n", 2, 3),)


def test_merged_levels_vanish_and_their_sum_appears() -> None:
    plan = Form().plan
    sums = play(plan, cohort(1))
    (before,) = tables_of(plan, sums, "regions")
    (after,) = apply_remedy(
        plan, sums, None, "regions", Remedy((Merge("region", ("east", "west"), "sides"),))
    )
    counts = [(one.what, one.row) for one in changes(before, after) if one.column == "count"]
    assert counts == [("appeared", "sides"), ("vanished", "east"), ("vanished", "west")]


cells = st.one_of(st.integers(0, 3), st.just(HIDDEN), st.just(NO_DATA))
tables = st.dictionaries(st.sampled_from("abcd"), st.tuples(cells, cells), max_size=4).map(
    lambda rows: Table(
        "a",
        "summary",
        ("variable", "n", "mean", "status"),
        tuple((name, *row, "ok") for name, row in rows.items()),
    )
)


@given(before=tables, after=tables)
def test_the_later_table_follows_from_the_earlier_one_and_the_changes(before: Table, after: Table) -> None:
    held = _cells(before)
    for one in changes(before, after):
        assert held.pop((one.row, one.column), None) == one.before
        assert one.before != one.after
        if one.after is not None:
            held[one.row, one.column] = one.after
    assert held == _cells(after)


def _cells(table: Table) -> dict[tuple[str, str], Cell]:
    return {
        (str(row[0]), column): cell
        for row in table.rows
        for column, cell in zip(table.columns[1:], row[1:], strict=True)
    }


@given(before=tables, after=tables)
def test_backwards_what_appeared_vanishes(before: Table, after: Table) -> None:
    turned = {"appeared": "vanished", "vanished": "appeared", "changed": "changed"}
    there = {(turned[one.what], one.row, one.column, one.after, one.before) for one in changes(before, after)}
    back = {(one.what, one.row, one.column, one.before, one.after) for one in changes(after, before)}
    assert there == back
