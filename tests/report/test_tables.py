"""CSV: nothing is lost between a table and its text, and nothing withheld becomes a number."""

import csv
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.tables import NUMBER_COLUMNS, from_csv, to_csv
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from tests.report.example import TERM, absent_row, effect_row, regression, thickness_table

COLUMNS = ("variable", "dx", "n", "missing", "mean", "sd", "mean_noise_se", "status")
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**80), 2**80), st.just(NO_DATA)
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
rows = st.lists(
    st.tuples(texts, texts, numbers, numbers, numbers, numbers, numbers, st.just(Status.OK.value)), max_size=8
)


def summary(*cells: tuple[Cell, ...]) -> Table:
    return Table("age", "summary", COLUMNS, cells)


@given(rows)
def test_csv_reads_back_as_the_same_table(cells: list[tuple[Cell, ...]]) -> None:
    table = summary(*cells)
    back = from_csv(to_csv(table), "age", "summary")
    assert back == table
    kinds = [[type(cell) for cell in row] for row in back.rows]
    assert kinds == [[type(cell) for cell in row] for row in table.rows]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_another_reader_gets_the_same_float64_from_at_most_17_digits(value: float) -> None:
    text = to_csv(summary(("age", "control", 1, 0, value, NO_DATA, NO_DATA, "ok")))
    (row,) = csv.DictReader(text.splitlines())
    assert float(row["mean"]) == value
    digits = re.sub(r"e.*|[-.]", "", row["mean"]).strip("0")
    assert len(digits) <= 17


def test_lines_end_in_lf_and_the_header_holds_the_columns() -> None:
    text = to_csv(thickness_table())
    assert "\r" not in text
    assert text.endswith("\n")
    assert text.splitlines()[0].split(",") == list(thickness_table().columns)


def test_text_that_looks_like_a_number_stays_text() -> None:
    table = summary(("007", "1", 5, 0, 1.0, 2.0, NO_DATA, "ok"))
    assert from_csv(to_csv(table), "age", "summary") == table


def test_a_numpy_float_is_written_as_a_number() -> None:
    text = to_csv(summary(("age", "control", 1, 0, np.float64(0.1), NO_DATA, NO_DATA, "ok")))
    assert text.splitlines()[1] == "age,control,1,0,0.1,,,ok"


def test_absent_cells_are_empty_and_read_back_as_absent_with_the_status_as_reason() -> None:
    table = regression(
        absent_row("lh_fusiform_thickness", Status.TOO_FEW_SITES), effect_row("age", 0.1, 0.01)
    )
    text = to_csv(table)
    assert text.splitlines()[1] == f"lh_fusiform_thickness,{TERM},,,,,,,1400,,too few sites,,,,,,750,650"
    assert not re.search("nan|null|none", text, re.I)
    first, second = from_csv(text, "thickness", "regression").rows
    assert first.count(Absent("too few sites")) == 12
    assert second == table.rows[1]


@pytest.mark.parametrize("cell", [math.nan, math.inf, -math.inf, ""])
def test_what_must_be_absent_is_refused(cell: float | str) -> None:
    with pytest.raises(ValueError, match=r"table age, column sd: .* must be Absent"):
        to_csv(summary(("age", "control", 1, 0, 1.0, cell, NO_DATA, "ok")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no CSV table with a header"),
        ("variable,n\nage,1\n", "unique names and 'status'"),
        ("variable,status,status\nage,ok,ok\n", "unique names and 'status'"),
        ("variable,n,status\nage,ok\n", "row 1: 2 cells, expected 3"),
        ("variable,n,status\nage,1,ok\nage,12x,ok\n", "row 2, column n: is not a finite number"),
        ("variable,n,status\nage,nan,ok\n", "row 1, column n: is not a finite number"),
        ("variable,n,status\nage,inf,ok\n", "row 1, column n: is not a finite number"),
        ("variable,n,status\nage,1e999,ok\n", "row 1, column n: is not a finite number"),
        ('variable,n,status\nage,"1"x,ok\n', "no CSV table"),
    ],
)
def test_a_damaged_table_is_refused_by_place_and_without_its_values(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        from_csv(text, "age", "summary")
    assert "12x" not in str(caught.value)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="kind 'poem' is unknown; known are summary"):
        from_csv("status\n", "age", "poem")


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("summary", ["n", "missing", "mean", "sd", "mean_noise_se"]),
        ("histogram", ["low", "high", "count"]),
        (
            "regression",
            ["b", "se", "statistic", "p", "low", "high", "n", "df", "d", "d_se", "d_low", "p_fdr"],
        ),
        ("test", ["estimate", "statistic", "df", "df2", "p", "n"]),
        ("contrast", ["estimate", "se", "statistic", "p", "low", "high", "df"]),
        ("quantiles", ["probability", "value", "error_bound"]),
        ("glm", ["b", "se", "statistic", "p", "low", "high", "n", "df"]),
        ("cox", ["b", "se", "statistic", "p", "low", "high", "n", "df"]),
        ("mixed", ["b", "se", "statistic", "p", "low", "high", "n", "df"]),
        ("meta", ["estimate", "se", "low", "high", "p", "k", "q", "i2", "tau2"]),
        ("kaplan_meier", ["time", "at_risk", "events", "survival", "low", "high"]),
        ("pca", ["component", "variance_share", "loading"]),
        ("correlation", ["r", "low", "high", "p", "n"]),
        ("logrank", ["chi2", "df", "p", "n", "events"]),
        ("proportion", ["count", "n", "proportion", "low", "high"]),
        ("normative", ["mean", "sd", "n"]),
        ("combat", ["gamma_star", "delta_star", "n", "grand_mean", "pooled_sd", "b"]),
    ],
)
def test_the_numeric_columns_of_the_convention_are_numbers(kind: str, columns: Sequence[str]) -> None:
    assert set(columns) <= NUMBER_COLUMNS[kind]
    assert not {"outcome", "term", "variable", "contrast", "comparison", "status"} & NUMBER_COLUMNS[kind]
    assert not {"model", "level", "variable_1", "variable_2", "given", "test"} & NUMBER_COLUMNS[kind]


def test_a_normative_table_reads_back_with_its_grid_and_its_centiles() -> None:
    columns = ("outcome", "age", "sex", "mean", "sd", "p05", "p97.5", "n", "status")
    table = Table(
        "norms",
        "normative",
        columns,
        (
            ("wmh", 20, "female", 1.5, 0.5, 0.7, 2.5, 40, "ok"),
            ("wmh", 20.5, "7", 1.5, 0.5, 0.7, 2.5, 40, "ok"),
        ),
    )
    assert from_csv(to_csv(table), "norms", "normative") == table
