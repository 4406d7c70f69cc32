"""Crosstab: everybody counted once, and the measures of scipy and statsmodels on all rows together."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Status, Table
from cohortsum.study.statistics.association import associate, withheld
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.variables import Factor
from tests.study.pooled import federate, needs_data, number, read_columns, row, split

STATS: Any = import_module("scipy.stats")
TABLES: Any = import_module("statsmodels.stats.contingency_tables")

SEX = Factor("sex", ("female", "male"))
DX = Factor("dx", ("control", "patient"))
GRADE = Factor("grade", ("low", "middle", "high"))


def people(**levels: Sequence[int]) -> Batch:
    columns = {name: np.array(values, np.int16) for name, values in levels.items()}
    return Batch(len(next(iter(levels.values()))), {}, columns)


def of_counts(counts: list[list[int]]) -> Batch:
    """Return people of sex and dx, or grade, in these cells."""
    pairs = [(r, c) for r, cells in enumerate(counts) for c, count in enumerate(cells) for _ in range(count)]
    return people(sex=[r for r, _ in pairs], dx=[c for _, c in pairs])


def test_each_person_is_in_one_cell_or_in_none() -> None:
    statistic = Crosstab("c", (SEX, DX))
    here = people(sex=[0, 0, 0, 1, 1, -1, 1], dx=[0, 0, 1, 0, -1, 1, 0])
    cells, measures = statistic.finish(federate(statistic, [here, people(sex=[1], dx=[1])]))
    assert cells.columns == ("sex", "dx", "count", "row_percent", "column_percent", "status")
    assert cells.rows == (
        ("female", "control", 2, 100 * 2 / 3, 50.0, "ok"),
        ("female", "patient", 1, 100 * 1 / 3, 50.0, "ok"),
        ("male", "control", 2, 100 * 2 / 3, 50.0, "ok"),
        ("male", "patient", 1, 100 * 1 / 3, 50.0, "ok"),
    )
    assert cells.notes == ("2 people without a value of sex, dx are in no row.",)
    assert row(measures, rows="sex")["n"] == 6


def test_one_factor_is_a_column_of_counts_without_measures() -> None:
    statistic = Crosstab("c", (GRADE,))
    (table,) = statistic.finish(federate(statistic, [people(grade=[0, 0, 2, -1])]))
    assert table.rows == (
        ("low", 2, 100.0, 100 * 2 / 3, "ok"),
        ("middle", 0, Absent("no data"), 0.0, "ok"),
        ("high", 1, 100.0, 100 * 1 / 3, "ok"),
    )


def test_percentages_of_three_factors_are_within_a_layer() -> None:
    statistic = Crosstab("c", (GRADE, SEX, DX))
    here = people(grade=[0, 0, 0, 2, 2], sex=[0, 0, 1, 1, 1], dx=[0, 1, 1, 1, 1])
    cells, measures = statistic.finish(federate(statistic, [here]))
    found = row(cells, grade="low", sex="female", dx="patient")
    assert (found["count"], found["row_percent"], found["column_percent"]) == (1, 50.0, 50.0)
    assert [line[:4] for line in measures.rows] == [
        ("low", "sex", "dx", 3),
        ("middle", "sex", "dx", 0),
        ("high", "sex", "dx", 2),
    ]
    assert [line[-1] for line in measures.rows] == ["ok", "all missing", "not estimable"]


counts_of_two_by_two = st.lists(st.integers(0, 60), min_size=4, max_size=4)


@settings(max_examples=150, deadline=None)
@given(counts_of_two_by_two)
def test_two_by_two_equals_scipy_and_statsmodels(cells: list[int]) -> None:
    table = np.array(cells).reshape(2, 2)
    assume(table.sum(axis=0).all() and table.sum(axis=1).all())
    statistic = Crosstab("c", (SEX, DX))
    _, measures = statistic.finish(federate(statistic, [of_counts(table.tolist())]))
    found = row(measures, rows="sex")
    test = STATS.chi2_contingency(table, correction=False)
    assert number(found["chi2"]) == pytest.approx(float(test.statistic), rel=1e-12, abs=1e-12)
    assert number(found["p"]) == pytest.approx(float(test.pvalue), rel=1e-10)
    assert found["df"] == test.dof
    assert number(found["least_expected"]) == pytest.approx(float(test.expected_freq.min()), rel=1e-12)
    if not table.all():
        assert found["odds_ratio"] == Absent("a cell is empty")
        return
    # statsmodels compares the first row with the second in the first column: turn both around
    oracle = TABLES.Table2x2(table[::-1, ::-1].astype(float), shift_zeros=False)
    for name, ratio, ends in (
        ("odds", oracle.oddsratio, oracle.oddsratio_confint()),
        ("risk", oracle.riskratio, oracle.riskratio_confint()),
    ):
        held = [number(found[f"{name}_{part}"]) for part in ("ratio", "low", "high")]
        assert held == pytest.approx([float(ratio), *map(float, ends)], rel=1e-10)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=12, max_size=12))
def test_levels_that_nobody_has_do_not_count(cells: list[int]) -> None:
    table = np.array(cells).reshape(3, 4)
    kept = table[table.any(axis=1)][:, table.any(axis=0)]
    found = associate(table.astype(np.int64))
    assert found.n == table.sum()
    if min(kept.shape) < 2:
        assert found.status in ("not estimable", "all missing")
        assert found.chi2 == (Absent("no data"),) * 3
        return
    test = STATS.chi2_contingency(kept, correction=False)
    assert [number(cell) for cell in found.chi2] == pytest.approx(
        [float(test.statistic), float(test.dof), float(test.pvalue)], rel=1e-9, abs=1e-12
    )
    assert found.odds_ratio == (Absent("not two by two"),) * 3


def test_the_risk_ratio_needs_only_the_cells_it_divides_by() -> None:
    found = associate(np.array([[5, 5], [0, 10]]))
    assert found.odds_ratio == (Absent("a cell is empty"),) * 3
    assert number(found.risk_ratio[0]) == 2.0


def test_a_level_that_too_few_sites_have_takes_its_sums_along_and_nothing_else() -> None:
    statistic = Crosstab("c", (SEX, GRADE))
    total = federate(statistic, [people(sex=[0, 0, 1, 1, 1], grade=[0, 1, 0, 1, 1])])
    opened = {name: value for name, value in total.items() if "grade[high]" not in name}
    cells, measures = statistic.finish(opened)
    known = row(cells, sex="male", grade="middle")
    assert known["count"] == 2
    assert known["row_percent"] == Absent("too few sites")
    assert known["column_percent"] == pytest.approx(100 * 2 / 3)
    lost = row(cells, sex="male", grade="high")
    assert (lost["count"], lost["status"]) == (Absent("too few sites"), "too few sites")
    assert measures.rows[0][2:] == withheld(Status.TOO_FEW_SITES).cells


def test_where_leaves_other_people_out_of_every_count() -> None:
    statistic = Crosstab("c", (SEX,), where=lambda batch: batch.levels["dx"] == 1)
    total = federate(statistic, [people(sex=[0, 1, 1, -1, -1], dx=[1, 1, 0, 1, 0])])
    assert [int(value[0]) for value in total.values()] == [1, 1, 1]


def test_no_two_cells_share_a_block_whatever_levels_are_called() -> None:
    odd = Factor("dx", ("a", "a]/sex[b"))
    other = Factor("sex", ("b]/sex[c", "c", "b"))
    blocks = [block.name for block in Crosstab("c", (odd, other)).layout()]
    assert len(set(blocks)) == len(blocks) == 7


@needs_data
def test_impac_sex_by_diagnosis_over_34_sites_equals_all_rows() -> None:
    columns = read_columns("impac_asd.csv")
    sex = [0 if one == "F" else 1 for one in columns["sex"]]
    asd = [int(one) for one in columns["asd"]]
    statistic = Crosstab("c", (SEX, DX))
    tables: tuple[Table, ...] = statistic.finish(
        federate(statistic, split(people(sex=sex, dx=asd), columns["site"]))
    )
    pooled = np.zeros((2, 2), np.int64)
    np.add.at(pooled, (np.array(sex), np.array(asd)), 1)
    assert [line[2] for line in tables[0].rows] == pooled.ravel().tolist()
    oracle = TABLES.Table2x2(pooled[::-1, ::-1].astype(float), shift_zeros=False)
    found = row(tables[1], rows="sex")
    assert number(found["odds_ratio"]) == pytest.approx(float(oracle.oddsratio), rel=1e-12)
    assert number(found["p"]) == pytest.approx(
        float(STATS.chi2_contingency(pooled, correction=False).pvalue), rel=1e-12
    )
