"""Terminal text: aligned, short, and honest about what is not there."""

from cohortsum.report.effects import read_effects
from cohortsum.report.text import digits, render, text_table, top_effects
from cohortsum.study.results import NO_DATA, Status, Table
from tests.report.example import TERM, absent_row, age_row, effect_row, regression, thickness_table

EFFECTS = read_effects(
    regression(
        effect_row("small", 0.01, 0.8),
        absent_row("gone", Status.TOO_FEW_SITES),
        effect_row("large", -0.25, 0.00002),
        effect_row("larger", 0.3, 0.00002),
    ),
    TERM,
)


def test_effects_are_ranked_by_p_then_size_and_absent_ones_come_last() -> None:
    assert [row[0] for row in top_effects(EFFECTS).rows] == ["larger", "large", "small", "gone"]


def test_an_effect_reads_as_a_reader_writes_it() -> None:
    table = top_effects(EFFECTS)
    assert table.header == ("outcome", "d", "95 % interval", "p", "p (FDR)", "n")
    assert table.rows[1] == ("large", "-0.250", "-0.348 to -0.152", "5.0e-06", "2.0e-05", "1400")
    assert table.rows[3] == ("gone", "", "too few sites", "", "", "1400")


def test_the_limit_says_how_many_are_left_out() -> None:
    table = top_effects(read_effects(thickness_table(), TERM), limit=10)
    assert (len(table.rows), table.left_out) == (10, 58)
    assert render(table).splitlines()[-1] == "... and 58 more"


def test_an_uncorrected_table_has_no_corrected_column() -> None:
    rows = (("hdl", "age", 0.5, 0.1, 5.0, 0.01, 0.3, 0.71234567, 90, 88, "ok"),)
    table = Table("labs", "regression", thickness_table().columns[:11], rows)
    assert top_effects(read_effects(table, "age")).header == ("outcome", "b", "95 % interval", "p", "n")
    assert top_effects(read_effects(table, "age")).rows == (("hdl", "0.5", "0.3 to 0.7123", "0.010", "90"),)


def test_columns_are_aligned() -> None:
    lines = render(top_effects(EFFECTS)).splitlines()
    assert len(lines) == 5
    ends = {line.index(" to ") for line in lines if " to " in line}
    assert len(ends) <= 2  # with and without a minus sign
    assert all(line == line.rstrip() for line in lines)
    assert {len(line) for line in lines} == {len(lines[0])}


def test_any_table_is_shown_in_its_order_with_reasons_for_what_is_absent() -> None:
    rows = (("age", "control", 700, 17.123456, "ok"), ("bmi", "control", 0, NO_DATA, "all missing"))
    table = text_table(Table("demographics", "summary", ("variable", "dx", "n", "mean", "status"), rows))
    assert table.right == (False, False, True, True, False)
    assert table.rows == (
        ("age", "control", "700", "17.12", "ok"),
        ("bmi", "control", "0", "no data", "all missing"),
    )
    assert render(table).splitlines()[0] == "variable  dx         n     mean  status"


def test_effect_columns_of_other_terms_are_blank() -> None:
    (row,) = text_table(regression(age_row("lh_cuneus_thickness"))).rows
    assert row[-7:] == ("",) * 7
    assert "" not in row[:-7]


def test_an_empty_table_is_its_header() -> None:
    assert render(text_table(Table("a", "summary", ("variable", "status"), ()))) == "variable  status"


def test_digits_are_few_and_plain() -> None:
    assert [digits(value) for value in (0.0, 17.123456, -0.00012345, 1449.0)] == [
        "0",
        "17.12",
        "-0.0001234",
        "1449",
    ]
