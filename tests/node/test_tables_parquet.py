"""Parquet files: every type that has a text, the names as the file spells them, and exact numbers."""

from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.parquet import ParquetFile
from cohortsum.node.tables.parts import COLUMNS, store_part, together
from cohortsum.study.variables import Factor
from tests.node.reading import AGE, NAN, SEX, ids, number, refusal, report, settings, values, wants

CANARY = "7351946"


def written(path: Path, query: str) -> Path:
    with duckdb.connect() as connection:
        connection.sql(query).write_parquet(str(path))
    return path


def site(path: Path, **options: object) -> dict[str, dict[str, object]]:
    return {"p": {"path": path, "format": "parquet", "id": "id", **options}}


def test_numbers_text_and_missing_values(tmp_path: Path) -> None:
    query = """
        SELECT * FROM (VALUES
            ('007', 30::INTEGER, 'male',   2.5::DOUBLE, 1.25::DECIMAL(6,2), true,  DATE '2026-11-30'),
            ('7',   NULL,        'female', 'nan'::DOUBLE, NULL,             false, NULL),
            ('a b', 50,          NULL,     1e-300,      -3,                 NULL,  DATE '2025-01-02')
        ) AS t(id, age, sex, thick, "x.y", flag, visit)"""
    tables = site(written(tmp_path / "t.parquet", query))
    wanted = wants(AGE, SEX, Factor("flag", ("false", "true")), number("thick"), number("x.y"))
    assert values(settings(tables), wanted) == {
        "age": [30, NAN, 50],
        "sex": [1, 0, -1],
        "flag": [1, 0, -1],
        "thick": [2.5, NAN, 1e-300],
        "x.y": [1.25, NAN, -3],
    }
    assert ids(settings(tables), wanted) == ["007", "7", "a b"]


def test_a_single_counts_by_its_exact_value(tmp_path: Path) -> None:
    tables = site(written(tmp_path / "t.parquet", "SELECT 'a' AS id, 0.1::FLOAT AS x"))
    assert values(settings(tables), wants(number("x"))) == {"x": [float(np.float32(0.1))]}


def test_codes_missing_codes_visits_and_rename_count_as_in_text(tmp_path: Path) -> None:
    query = """
        SELECT * FROM (VALUES ('a', 1, -9999, DATE '2026-01-01'), ('a', 2, 66, DATE '2025-01-01'),
                              ('b', 1, 120, DATE '2026-01-01')) AS t(id, "SEX", months, "when")"""
    tables = site(
        written(tmp_path / "t.parquet", query),
        missing=["-9999"],
        rows={"order": "when", "choose": "last"},
        rename=[{"match": "(.+)s", "to": r"age_\1"}],
    )
    variables = {
        "sex": {"from": "p.SEX", "codes": {"1": "male", "2": "female"}},
        "age": {"from": "p.age_month", "unit": "months"},
    }
    assert values(settings(tables, variables=variables), wants(AGE, SEX)) == {"age": [NAN, 10], "sex": [1, 1]}


def test_names_are_those_of_the_file_whatever_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    query = "SELECT 'a' AS id, 1 AS \"G&S;' DROP\", 2 AS inner_, {'k': 1, 'l': [2]} AS nested, 3 AS last"
    written(path, query)
    tables = site(path)
    assert ParquetFile("table p", path).layout().names == ("id", "G&S;' DROP", "inner_", "nested", "last")
    assert values(settings(tables), wants(number("G&S;' DROP"), number("last"))) == {
        "G&S;' DROP": [1],
        "last": [3],
    }


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("[1, 2]", "INTEGER[]"),
        ("[1.5]", "DECIMAL"),
        ("{'k': 1}", "STRUCT"),
        (f"'{CANARY}'::BLOB", "BLOB"),
        ("INTERVAL 1 DAY", "INTERVAL"),
    ],
)
def test_a_type_without_a_text_is_refused_when_asked_for(tmp_path: Path, column: str, kind: str) -> None:
    config = settings(site(written(tmp_path / "t.parquet", f"SELECT 'a' AS id, {column} AS x, 1 AS y")))
    message = refusal(config, wants(number("x")))
    assert f"table p (t.parquet), column x: holds values of type {kind}, expected numbers or text" in message
    assert CANARY not in message
    assert values(config, wants(number("y"))) == {"y": [1]}


def test_ids_must_not_be_floating_point(tmp_path: Path) -> None:
    config = settings(site(written(tmp_path / "t.parquet", f"SELECT {CANARY}::DOUBLE AS id, 1 AS y")))
    message = refusal(config, wants(number("y")))
    assert "column id: floating-point numbers, expected ids as text or whole numbers" in message
    assert CANARY not in message


def test_a_cell_with_a_line_end_breaks_its_row(tmp_path: Path) -> None:
    query = "SELECT * FROM (VALUES ('a', 'male'), ('b', 'CANARY' || chr(10)), ('c', 'female')) AS t(id, sex)"
    path = written(tmp_path / "t.parquet", query.replace("CANARY", CANARY))
    message = refusal(settings(site(path)), wants(SEX))
    assert (
        "1 of 3 rows are broken: expected cells without line ends and control characters, first at row 2"
        in message
    )
    assert CANARY not in message
    tolerant = settings(site(path, broken_rows="reject"))
    assert values(tolerant, wants(SEX)) == {"sex": [1, 0]}
    assert "1 broken rows were rejected" in report(tolerant, wants(SEX))


def test_duplicated_ids_and_infinite_values_are_refused_as_in_text(tmp_path: Path) -> None:
    query = "SELECT * FROM (VALUES ('a', 1.0), ('a', 2.0)) AS t(id, y)"
    assert "1 ids repeat, 1 rows too many" in refusal(
        settings(site(written(tmp_path / "t.parquet", query))), wants(number("y"))
    )
    query = "SELECT 'a' AS id, 'inf'::DOUBLE AS y"
    assert "column y: 1 of 1 rows hold text, an infinity" in refusal(
        settings(site(written(tmp_path / "u.parquet", query))), wants(number("y"))
    )


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    assert "table p (t.parquet): cannot be read (no such file)" in refusal(
        settings(site(path)), wants(number("y"))
    )
    path.write_text(f"id,y\n{CANARY},1\n")
    message = refusal(settings(site(path)), wants(number("y")))
    assert "table p (t.parquet): DuckDB cannot read it" in message
    assert CANARY not in message


def test_a_binary_file_read_as_text_says_which_format_to_declare(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", "SELECT 'a' AS id, 1 AS y")
    tables = {"p": {"path": path, "id": "id"}}
    assert "expected text, but it is a Parquet file; say format: parquet" in refusal(
        settings(tables), wants(number("y"))
    )


def test_no_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", "SELECT 'a' AS id, 1 AS y WHERE false")
    assert "table p (t.parquet): 0 rows; expected one row per person" in refusal(
        settings(site(path)), wants(number("y"))
    )
    assert not ParquetFile("table p", path).has_rows()


def test_nothing_stays_beside_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", "SELECT 'a' AS id, 1 AS y")
    values(settings(site(path)), wants(number("y")))
    assert list(tmp_path.iterdir()) == [path]


@examples(deadline=None, max_examples=40)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_every_double_comes_back_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float]
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id VARCHAR, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(f"{i:03}", x) for i, x in enumerate(numbers)])
        connection.table("t").write_parquet(str(path))
    assert values(settings(site(path)), wants(number("x"))) == {"x": numbers}


@examples(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_our_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    path.write_bytes(b"PAR1" + content + b"PAR1")
    with pytest.raises(DataError, match="table p"):
        ParquetFile("table p", path).layout()


@pytest.mark.parametrize("columns", [1, COLUMNS - 1, COLUMNS, COLUMNS + 1, 3 * COLUMNS + 2])
def test_a_wide_file_is_read_in_parts_and_put_together(tmp_path: Path, columns: int) -> None:
    """Every cell tells its row and column, so a shift by one of either shows."""
    chosen = ", ".join(f"row * 1000 + {column} AS y{column}" for column in range(columns))
    query = (
        f"SELECT 'p' || lpad(row::VARCHAR, 4, '0') AS id, row % 3 AS visit, {chosen} FROM range(50) AS t(row)"  # noqa: S608
    )
    path = written(tmp_path / "t.parquet", query)
    names = [f"y{column}" for column in range(columns)]
    for options in ({}, {"rows": {"order": "visit", "choose": "last"}}):
        read = values(settings(site(path, **options)), wants(*map(number, names)))
        assert read == {name: [row * 1000 + column for row in range(50)] for column, name in enumerate(names)}
    assert list(tmp_path.iterdir()) == [path]


def test_a_separator_in_a_cell_breaks_its_row_in_every_part(tmp_path: Path) -> None:
    chosen = ", ".join(f"'x' || row AS y{column}" for column in range(COLUMNS + 5))
    query = f"SELECT row AS id, {chosen}, CASE row WHEN 2 THEN chr(31) ELSE 'z' END AS last FROM range(4) AS t(row)"  # noqa: S608
    path = written(tmp_path / "t.parquet", query)
    factors = [Factor(f"y{column}", ("x0", "x1", "x2", "x3")) for column in range(COLUMNS + 5)]
    config = settings(site(path, broken_rows="reject"))
    assert ids(config, wants(*factors, Factor("last", ("z",)))) == ["0", "1", "3"]


def test_parts_whose_rows_differ_are_never_put_together(tmp_path: Path) -> None:
    first = [("1", ["a", "1"]), ("2", ["b", "2"])]
    for other in ([("1", ["b", "2"]), ("2", ["a", "1"])], first[:1], [*first, ("3", ["c", "3"])]):
        for name, rows in (("one", first), ("two", other)):
            (tmp_path / name).unlink(missing_ok=True)
            store_part(iter(rows), tmp_path / name)
        with (
            together([tmp_path / "one", tmp_path / "two"], 1, "table p") as joined,
            pytest.raises(DataError, match="table p: its rows came in another order"),
        ):
            list(joined)
