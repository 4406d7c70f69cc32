"""A DuckDB database file: one table or view of it, read only, by quoted names."""

from pathlib import Path

import duckdb
import pytest

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.duck_table import DuckTable
from tests.node.reading import AGE, NAN, SEX, number, refusal, settings, values, wants

CANARY = "7351946"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path, secret = tmp_path / "site.duckdb", tmp_path / "secret.csv"
    secret.write_text(f"id,age\n{CANARY},1\n")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people (id VARCHAR, age DOUBLE, sex VARCHAR, note BLOB)")
        connection.execute("INSERT INTO people VALUES ('01', 30, 'male', NULL), ('1', NULL, 'female', 'x')")
        connection.execute('CREATE SCHEMA "s p"')
        connection.execute('CREATE TABLE "s p"."t""; --" (id INTEGER, "G&S.x" DOUBLE)')
        connection.execute('INSERT INTO "s p"."t""; --" VALUES (1, .5)')
        connection.execute("CREATE VIEW grown AS SELECT id, age + 1 AS age FROM people")
        reaching_out = "CREATE VIEW outside AS SELECT * FROM read_csv('PATH', header = true)"
        connection.execute(reaching_out.replace("PATH", str(secret)))
    return path


def site(path: Path, table: str, **options: object) -> dict[str, dict[str, object]]:
    return {"d": {"path": path, "format": "duckdb", "table": table, "id": "id", **options}}


def test_a_table_is_read_by_its_name(database: Path) -> None:
    assert values(settings(site(database, "people")), wants(AGE, SEX)) == {"age": [30, NAN], "sex": [1, 0]}


def test_a_view_is_a_table(database: Path) -> None:
    assert values(settings(site(database, "grown")), wants(AGE)) == {"age": [31, NAN]}


def test_names_are_quoted_whatever_they_hold(database: Path) -> None:
    config = settings(site(database, 't"; --', schema="s p"))
    assert values(config, wants(number("G&S.x"))) == {"G&S.x": [0.5]}
    chosen = settings(site(database, 't"; --', schema="s p", columns=["G&S.x", "id"]))
    assert values(chosen, wants(number("G&S.x"))) == {"G&S.x": [0.5]}


def test_only_the_columns_that_are_named_are_there(database: Path) -> None:
    config = settings(site(database, "people", columns=["id", "age"]))
    assert values(config, wants(AGE)) == {"age": [30, NAN]}
    assert "no column sex" in refusal(config, wants(SEX))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "persons"}, "no table persons in schema main; correct table and schema"),
        ({"table": "people", "schema": "s p"}, "no table people in schema s p"),
        ({"table": "people", "columns": ["id", "ages"]}, "no column ages in table people; correct columns"),
        ({"table": "people; DROP TABLE people"}, "no table people; DROP TABLE people"),
    ],
)
def test_what_is_not_there_is_named(database: Path, options: dict[str, object], sentence: str) -> None:
    tables = {"d": {"path": database, "format": "duckdb", "id": "id", **options}}
    assert f"table d (site.duckdb): {sentence}" in refusal(settings(tables), wants(AGE))


def test_a_view_cannot_reach_out_of_the_file(database: Path) -> None:
    message = refusal(settings(site(database, "outside")), wants(AGE))
    assert "table d (site.duckdb): DuckDB cannot read it (PermissionException)" in message
    assert CANARY not in message


def test_a_database_whose_changes_are_still_in_a_log_is_refused(database: Path) -> None:
    database.with_name("site.duckdb.wal").write_bytes(b"")
    assert "a .wal file lies beside it" in refusal(settings(site(database, "people")), wants(AGE))


def test_the_file_is_not_written_to_and_nothing_stays_beside_it(database: Path) -> None:
    before = database.read_bytes()
    values(settings(site(database, "people")), wants(AGE))
    assert database.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == ["secret.csv", "site.duckdb"]


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "site.duckdb"
    assert "cannot be read (no such file)" in refusal(settings(site(path, "people")), wants(AGE))
    path.write_text(f"id,age\n{CANARY},3\n" * 1000)
    with pytest.raises(DataError, match="not a DuckDB database that can be opened") as caught:
        DuckTable("table d", path, "people").layout()
    assert CANARY not in caught.value.message
