"""Tables of a database, with SQLite through SQLAlchemy: what is asked, what is refused, and that no secret is seen."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.engine import Engine

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import TablesConfig, load_tables_config
from cohortsum.node.tables.reader import content_digest
from tests.node.reading import AGE, NAN, SEX, ids, number, refusal, report, settings, values, wants

CANARY = "7351946"
SECRET = "correct horse battery staple"  # noqa: S105 - what must not be seen


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "clinical ä.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            'CREATE TABLE "vis its" (id TEXT, visit TEXT, age REAL, sex TEXT, "G&S.x" NUMERIC, b BLOB)'
        )
        rows = [
            ("01", "2025-01-02", 30.5, "male", 0.1, None),
            ("01", "2026-01-02", 31.5, "male", 1e-300, None),
            ("1", "2025-01-02", None, "female", 7, None),
        ]
        connection.executemany('INSERT INTO "vis its" VALUES (?, ?, ?, ?, ?, ?)', rows)
        connection.execute(
            "CREATE VIEW latest AS SELECT id, age + 1 AS age FROM \"vis its\" WHERE visit > '2025-06'"
        )
    return path


def site(path: Path, table: str = "vis its", **options: object) -> dict[str, dict[str, object]]:
    visits = {} if table != "vis its" else {"rows": {"order": "visit", "choose": "last"}}
    database = {"url": f"sqlite:///{path}"}
    return {"d": {"format": "sql", "database": database, "table": table, "id": "id", **visits, **options}}


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that any engine sends."""
    sent: list[str] = []

    def note(*context: object) -> None:
        sent.append(str(context[2]))

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


def test_a_table_is_read_as_text_is(database: Path) -> None:
    wanted = wants(AGE, SEX, number("G&S.x"))
    config = settings(site(database))
    assert values(config, wanted) == {"age": [31.5, NAN], "sex": [1, 0], "G&S.x": [1e-300, 7]}
    assert ids(config, wanted) == ["01", "1"]
    assert "table d (database table vis its): 1 rows of other visits were not used" in report(config, wanted)


def test_a_view_is_a_table(database: Path) -> None:
    assert values(settings(site(database, "latest")), wants(AGE)) == {"age": [32.5]}


def test_a_table_joins_with_a_file(database: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,thick\n01,2.5\n1,3\n")
    tables = {**site(database), "t": {"path": tmp_path / "t.csv", "id": "id"}}
    assert values(settings(tables), wants(AGE, number("thick"))) == {"age": [31.5, NAN], "thick": [2.5, 3]}


def test_only_one_select_of_quoted_names_is_sent(database: Path, statements: list[str]) -> None:
    config = settings(site(database, columns=["id", "visit", "G&S.x"]))
    values(config, wants(number("G&S.x")))
    asked = [statement for statement in statements if not statement.startswith("PRAGMA")]
    assert set(asked) == {'SELECT "vis its"."id", "vis its"."visit", "vis its"."G&S.x" \nFROM "vis its"'}


@pytest.mark.parametrize(
    "table", ["people", 'vis its"; DROP TABLE "vis its', "vis its; --", "(SELECT 1)", "sqlite_master; --"]
)
def test_a_name_is_never_taken_for_sql(database: Path, table: str) -> None:
    before = database.read_bytes()
    message = refusal(settings(site(database, table)), wants(AGE))
    assert f"table d (database table {table}): no such table or view in the default schema" in message
    assert database.read_bytes() == before


def test_columns_that_are_not_there_are_named(database: Path) -> None:
    config = settings(site(database, columns=["id", "visit", "age; DROP"]))
    assert "no column age; DROP; correct columns in node.yaml" in refusal(config, wants(AGE))


def test_only_columns_that_are_named_are_there(database: Path) -> None:
    assert "no column sex" in refusal(settings(site(database, columns=["id", "visit", "age"])), wants(SEX))


def test_the_database_refuses_to_be_written(database: Path) -> None:
    from cohortsum.node.table_config import DatabaseConfig
    from cohortsum.node.tables.database import DatabaseTable

    table = DatabaseTable("table d", DatabaseConfig(url=f"sqlite:///{database}"), "vis its")
    with table.connected() as connection, pytest.raises(Exception, match="readonly database"):
        connection.exec_driver_sql('DELETE FROM "vis its"')


def test_the_hash_follows_the_content_and_not_the_order_of_rows(database: Path) -> None:
    config = settings(site(database))
    before = content_digest(config)
    with closing(sqlite3.connect(database)) as connection, connection:
        rows = connection.execute('SELECT * FROM "vis its"').fetchall()
        connection.execute('DELETE FROM "vis its"')
        connection.executemany('INSERT INTO "vis its" VALUES (?, ?, ?, ?, ?, ?)', reversed(rows))
    assert content_digest(config) == before
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE \"vis its\" SET sex = 'female' WHERE id = '01'")
    assert content_digest(config) != before


def test_two_rows_that_change_places_between_cells_change_the_hash(tmp_path: Path) -> None:
    digests = set[bytes]()
    for first, second in (("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")):
        path = tmp_path / f"{first}-{second}.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE t (id TEXT, x TEXT)")
            connection.execute("INSERT INTO t VALUES (?, ?)", (first, second))
        digests.add(content_digest(settings(site(path, "t"))))
    assert len(digests) == 4


def test_values_without_a_text_are_refused_and_can_be_left_out(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE \"vis its\" SET b = x'37333531393436'")
    message = refusal(settings(site(database)), wants(AGE))
    assert (
        "column b: holds values of type bytes, expected numbers, text or dates; leave it out with columns"
        in message
    )
    assert CANARY not in message
    chosen = settings(site(database, columns=["id", "visit", "age"]))
    assert values(chosen, wants(AGE)) == {"age": [31.5, NAN]}


def test_ids_must_not_be_floating_point(database: Path) -> None:
    message = refusal(settings(site(database, id="age")), wants(SEX))
    assert "column age: floating-point numbers, expected ids as text or whole numbers" in message


def test_cells_with_line_ends_break_their_row(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE \"vis its\" SET sex = 'ma' || char(10) || 'le' WHERE id = '1'")
    message = refusal(settings(site(database)), wants(SEX))
    assert (
        "1 of 3 rows are broken: expected cells without line ends and control characters, first at row 3"
        in message
    )


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "gone.db"
    assert "no SQLite file at url; check url in node.yaml" in refusal(settings(site(path)), wants(AGE))
    assert not path.exists()


def test_a_file_that_is_no_database_is_named_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "clinical.db"
    path.write_text(f"id,age\n{CANARY},3\n" * 100)
    message = refusal(settings(site(path)), wants(AGE))
    assert (
        "the database refuses or does not answer (DatabaseError); check url, password and rights" in message
    )
    assert CANARY not in message


NODE = """\
tables:
  d:
    format: sql
    database: {DATABASE}
    table: people
    id: id
"""


def loaded(folder: Path, database: str) -> TablesConfig:
    path = folder / "node.yaml"
    path.write_text(NODE.replace("DATABASE", database), "utf-8")
    return load_tables_config(path)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://reader:{CANARY}@localhost/study",
        f"postgresql+psycopg://reader@localhost/study?password={CANARY}",
        f"postgresql+psycopg://reader@localhost/study?passfile=/{CANARY}",
        f"mysql+pymysql://reader@localhost/study?Passwd={CANARY}",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, f'url: "{url}"')
    assert "node.yaml:4: tables.d.database.url: expected a URL without a password" in caught.value.message
    assert "password_env" in caught.value.message
    assert CANARY not in caught.value.message


@pytest.mark.parametrize(
    ("database", "sentence"),
    [
        (f"url: {CANARY}", "expected an SQLAlchemy URL"),
        (f'url: "postgresql://host:{CANARY}x/db"', "expected an SQLAlchemy URL"),
        ('url: "sqlite://"', "expected the file of the SQLite database"),
        ('url: "sqlite:///:memory:"', "expected the file of the SQLite database"),
        ('url: "sqlite:///x.db", password: x', "unknown key"),
        ('url: "sqlite:///x.db", password_env: A, password_file: b', "not both"),
        ('url: "sqlite:///x.db", password_env: "$(id)"', "match pattern"),
    ],
)
def test_settings_that_cannot_be_meant(tmp_path: Path, database: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, database)
    assert sentence in caught.value.message
    assert CANARY not in caught.value.message


def test_an_sqlite_file_lies_beside_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(tmp_path / "clinical.db")) as connection, connection:
        connection.execute("CREATE TABLE people (id TEXT, age REAL)")
        connection.execute("INSERT INTO people VALUES ('a', 3)")
    config = loaded(tmp_path, 'url: "sqlite:///clinical.db"')
    monkeypatch.chdir("/")
    assert values(config, wants(AGE)) == {"age": [3]}


def server(**password: object) -> dict[str, dict[str, object]]:
    """Return a table of a server that is not there."""
    url = "postgresql+psycopg://reader@127.0.0.1:1/study?connect_timeout=2"
    return {"d": {"format": "sql", "database": {"url": url, **password}, "table": "people", "id": "id"}}


def test_a_password_that_is_not_there_is_asked_for_by_the_name_of_its_place(tmp_path: Path) -> None:
    os.environ.pop("COHORTSUM_TEST_PASSWORD", None)
    message = refusal(settings(server(password_env="COHORTSUM_TEST_PASSWORD")), wants(AGE))  # noqa: S106
    assert "the environment variable COHORTSUM_TEST_PASSWORD is not set; set it to the password" in message
    message = refusal(settings(server(password_file=tmp_path / "db.password")), wants(AGE))
    assert "password file db.password: cannot be read" in message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_password_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "db.password"
    path.write_text(SECRET)
    path.chmod(mode)
    message = refusal(settings(server(password_file=path)), wants(AGE))
    assert (
        "password file db.password: others than its owner may use it, expected mode 0600; run chmod 600"
        in message
    )
    assert SECRET not in message


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo\n", b"\xff\xfe\n"])
def test_a_password_file_holds_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "db.password"
    path.write_bytes(content)
    path.chmod(0o600)
    assert "expected the password alone, in one line of UTF-8" in refusal(
        settings(server(password_file=path)), wants(AGE)
    )


def test_an_unreachable_server_shows_neither_address_nor_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    path = tmp_path / "db.password"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    config = settings(server(password_file=path))
    message = refusal(config, wants(AGE))
    assert "the database refuses or does not answer (OperationalError)" in message
    seen = message + repr(config) + caplog.text + "".join(capfd.readouterr())
    assert SECRET not in seen
    assert "127.0.0.1" not in message


@pytest.mark.parametrize("driver", ["postgresql+pg8000", "mysql+pymysql"])
def test_a_driver_that_is_not_installed_is_named(driver: str) -> None:
    tables = server()
    tables["d"]["database"] = {"url": f"{driver}://reader@127.0.0.1:1/study"}
    message = refusal(settings(tables), wants(AGE))
    assert f"the driver for {driver} is not installed" in message


def test_a_database_that_sqlalchemy_does_not_know(tmp_path: Path) -> None:
    tables = server()
    tables["d"]["database"] = {"url": "clipper://127.0.0.1/study"}
    assert "the database refuses or does not answer (NoSuchModuleError)" in refusal(
        settings(tables), wants(AGE)
    )


@examples(deadline=None, max_examples=40)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
        min_size=1,
        max_size=20,
    )
)
def test_every_number_comes_back_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float | None]
) -> None:
    path = tmp_path_factory.mktemp("sql") / "t.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (id TEXT, x)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(f"{i:03}", x) for i, x in enumerate(numbers)])
    read = values(settings(site(path, "t")), wants(number("x")))["x"]
    assert read == [NAN if x is None else x for x in numbers]
