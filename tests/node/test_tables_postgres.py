"""Tables of PostgreSQL, on a server of the tests' own; skipped where none is installed."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine

from cohortsum.node.table_config import DatabaseConfig
from cohortsum.node.tables.database import DatabaseTable
from cohortsum.study.variables import Factor
from tests.node.reading import AGE, NAN, SEX, ids, number, refusal, settings, values, wants
from tests.postgres import Server

READER_PASSWORD = "p@ss:w/rd % with signs"  # noqa: S105

TABLES = """
CREATE SCHEMA "clin ical";
CREATE TABLE "clin ical"."vis""its" (
    id char(4), age real, months numeric, sex text, flag boolean, seen date, stamp timestamptz, "G&S.x" double precision,
    tags text[], key uuid
);
INSERT INTO "clin ical"."vis""its" VALUES
    ('007', 30.5, 366, 'male', true, '2026-11-30', now(), 0.1, '{a}', gen_random_uuid()),
    ('7', NULL, 'NaN', 'female', false, '2025-11-30', now(), 1e-300, NULL, NULL);
CREATE TABLE people (id integer, age integer);
INSERT INTO people SELECT i, mod(i, 90) FROM generate_series(1, 20000) AS i;
CREATE TABLE hidden (id text, age integer);
CREATE ROLE reader LOGIN PASSWORD 'READER';
GRANT USAGE ON SCHEMA "clin ical" TO reader;
GRANT SELECT, INSERT ON "clin ical"."vis""its" TO reader;
GRANT SELECT ON people TO reader;
"""


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    """The server, with a schema of a hospital in its first database."""
    _fill(postgres)
    return postgres


def _fill(server: Server) -> None:
    engine = create_engine(server.owner("postgres"))
    with engine.begin() as connection:
        for statement in TABLES.replace("READER", READER_PASSWORD.replace("%", "%%")).split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER_PASSWORD", READER_PASSWORD)


def site(server: Server, table: str, **options: object) -> dict[str, dict[str, object]]:
    database = {"url": server.url("reader", "postgres"), "password_env": "READER_PASSWORD"}
    return {"d": {"format": "sql", "database": database, "table": table, "id": "id", **options}}


CLINICAL = {
    "schema": "clin ical",
    "columns": ["id", "age", "months", "sex", "flag", "seen", "stamp", "G&S.x", "key"],
}


def test_every_type_that_has_a_text(server: Server) -> None:
    config = settings(site(server, 'vis"its', **CLINICAL))
    wanted = wants(AGE, SEX, Factor("flag", ("false", "true")), number("months"), number("G&S.x"))
    assert values(config, wanted) == {
        "age": [30.5, NAN],
        "sex": [1, 0],
        "flag": [1, 0],
        "months": [366, NAN],
        "G&S.x": [0.1, 1e-300],
    }
    assert ids(config, wanted) == ["007 ", "7   "]


def test_a_type_without_a_text_is_refused(server: Server) -> None:
    message = refusal(settings(site(server, 'vis"its', schema="clin ical")), wants(AGE))
    assert "column tags: holds values of type list, expected numbers, text or dates" in message


def test_many_rows_come_whole(server: Server) -> None:
    read = values(settings(site(server, "people")), wants(AGE))["age"]
    assert sum(read) == sum(i % 90 for i in range(1, 20_001))


def test_the_password_may_come_from_a_private_file(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "db.password"
    path.write_text(READER_PASSWORD + "\n")
    path.chmod(0o600)
    tables = site(server, "people")
    tables["d"]["database"] = {"url": server.url("reader", "postgres"), "password_file": path}
    assert len(values(settings(tables), wants(AGE))["age"]) == 20_000


def test_a_wrong_password_shows_none(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER_PASSWORD", "wrong-7351946")
    message = refusal(settings(site(server, "people")), wants(AGE))
    assert (
        "the database refuses or does not answer (OperationalError); check url, password and rights"
        in message
    )
    assert "7351946" not in message


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("nobody", "no such table or view in the default schema, or no right to read it"),
        ("hidden", "the database refuses or does not answer (InsufficientPrivilege)"),
        ('people"; DROP TABLE people; --', "no such table or view in the default schema"),
    ],
)
def test_what_may_not_be_read_is_named(server: Server, table: str, sentence: str) -> None:
    assert sentence in refusal(settings(site(server, table)), wants(AGE))


def test_the_server_refuses_a_write_even_where_the_account_may(server: Server) -> None:
    config = DatabaseConfig(url=server.url("reader", "postgres"), password_env="READER_PASSWORD")  # noqa: S106
    table = DatabaseTable("table d", config, 'vis"its', "clin ical")
    with table.connected() as connection, pytest.raises(Exception, match="read-only transaction"):
        connection.exec_driver_sql('INSERT INTO "clin ical"."vis""its" (id) VALUES (\'x\')')
