"""Upgrades of the store: what is released stays as it is, the newest revision is the schema, and who must not be upgraded is refused."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from cohortsum.coordinator import migrating
from cohortsum.coordinator.migrations.versions import r0001_first
from cohortsum.coordinator.store import Base, Store
from cohortsum.crypto.errors import StoreError

VERSIONS = migrating.FOLDER / "versions"

RELEASED = {
    "r0001_first.py": "603e3b2da0dfcc37ef2bfff6809fb9cb8246d1f3d7ae5d20008ec9bff8d229ec",
}
"""SHA-256 of every revision that a released version has, oldest first. A release adds its own; nothing else changes here."""

BROKEN = '''
"""Makes a table, then fails."""
from alembic import op
revision, down_revision, branch_labels, depends_on = "9999", "{before}", None, None
def upgrade() -> None:
    op.execute("CREATE TABLE halfway (id INTEGER)")
    op.execute("INSERT INTO halfway VALUES (1)")
    op.execute("INSERT INTO nowhere VALUES (1)")
'''

REBUILD = '''
"""Makes a table anew to which rows of others point."""
import sqlalchemy
from alembic import op
revision, down_revision, branch_labels, depends_on = "9999", "{before}", None, None
def upgrade() -> None:
    with op.batch_alter_table("studies", recreate="auto") as table:
        table.alter_column("reason", type_=sqlalchemy.String(), existing_nullable=False)
    op.execute({then!r})
'''


@contextmanager
def connected(url: str) -> Generator[Connection]:
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def revisions(url: str) -> list[str]:
    with connected(url) as connection:
        return list(connection.scalars(text("SELECT version_num FROM alembic_version")))


def tables(url: str) -> set[str]:
    with connected(url) as connection:
        return set(inspect(connection).get_table_names())


def made_by_first(url: str) -> None:
    """Make the tables as version 0.1 did, without a revision, and a study with an answer."""
    with connected(url) as connection:
        r0001_first.TABLES.create_all(connection)
        add_study(connection)


def add_study(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO studies (digest, name, version, canonical, statistician, signature, state, reason, submitted)"
            " VALUES ('d', 's', 1, 'c', 'stat', 's', 'gathering', 'because', '2026-11-30 12:00:00')"
        )
    )
    connection.execute(
        text(
            "INSERT INTO answers (study, site, packet, received) VALUES ('d', 'amc', 'p', '2026-11-30 12:00:00')"
        )
    )


def reasons(url: str) -> list[str]:
    with connected(url) as connection:
        return list(connection.scalars(text("SELECT reason FROM studies JOIN answers ON study = digest")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the migrations that a test may add to."""
    copy = tmp_path / "migrations"
    shutil.copytree(migrating.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrating, "FOLDER", copy)
    migrating.known.cache_clear()
    yield copy
    migrating.known.cache_clear()


def add(folder: Path, step: str, **words: str) -> None:
    """Add a revision behind the newest one."""
    (folder / "versions" / "r9999_test.py").write_text(step.format(before=migrating.head(), **words))
    migrating.known.cache_clear()


def test_a_released_revision_is_never_changed() -> None:
    files = sorted(path.name for path in VERSIONS.glob("r*.py"))
    assert files[: len(RELEASED)] == list(RELEASED), "revisions are added behind the released ones"
    for name, digest in RELEASED.items():
        held = hashlib.sha256((VERSIONS / name).read_bytes()).hexdigest()
        assert held == digest, (
            f"{name} was released: databases that it made are out there, and they do not change with the file; write a new revision"
        )


def test_revisions_are_one_chain_in_the_order_of_their_files() -> None:
    assert [f"r{revision}" for revision in migrating.known()] == sorted(
        path.name.partition("_")[0] for path in VERSIONS.glob("r*.py")
    )


def test_a_new_store_has_the_newest_revision_and_exactly_the_schema(database: str) -> None:
    Store(database).close()
    assert revisions(database) == [migrating.head()]
    with connected(database) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_constraints_are_those_of_the_schema(database: str, tmp_path: Path) -> None:
    """What `compare_metadata` leaves out for a database without names for them."""
    Store(database).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'whole.db'}")
    Base.metadata.create_all(engine)
    with connected(database) as connection:
        assert constraints(connection) == constraints(engine)
    engine.dispose()


def constraints(bind: Connection | Engine) -> dict[str, tuple[object, ...]]:
    found = inspect(bind)
    return {
        name: (
            {tuple(unique["column_names"]) for unique in found.get_unique_constraints(name)},
            {
                (*key["constrained_columns"], key["referred_table"], *key["referred_columns"])
                for key in found.get_foreign_keys(name)
            },
            found.get_pk_constraint(name)["constrained_columns"],
            {column["name"]: column["nullable"] for column in found.get_columns(name)},
        )
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def test_a_database_of_the_first_version_is_recognised_and_upgraded(database: str) -> None:
    made_by_first(database)
    Store(database).close()
    assert revisions(database) == [migrating.head()]
    assert reasons(database) == ["because"]


def test_opening_again_changes_nothing(database: str) -> None:
    Store(database).close()
    before = tables(database)
    Store(database).close()
    assert tables(database) == before
    assert revisions(database) == [migrating.head()]


@pytest.mark.parametrize("found", [["0999"], ["0999", "0001"], ["x"]])
def test_a_database_of_a_newer_version_is_refused_by_name_and_left_alone(
    database: str, found: list[str]
) -> None:
    Store(database).close()
    with connected(database) as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        for revision in found:
            connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
    with pytest.raises(StoreError) as caught:
        Store(database)
    assert all(revision in caught.value.message for revision in found)
    assert f"this version knows 0001 to {migrating.head()}" in caught.value.message
    assert "install that version again, or restore the backup" in caught.value.message
    assert sorted(revisions(database)) == sorted(found)


@pytest.mark.parametrize(
    "change",
    ["DROP TABLE presence", "ALTER TABLE facts ADD COLUMN more TEXT", "ALTER TABLE facts DROP COLUMN value"],
)
def test_tables_that_no_version_made_are_refused_and_left_alone(database: str, change: str) -> None:
    made_by_first(database)
    with connected(database) as connection:
        connection.execute(text(change))
    before = tables(database)
    with pytest.raises(StoreError, match=r"not the tables of version 0\.1.*give it a database of its own"):
        Store(database)
    assert tables(database) == before


def test_tables_of_others_do_not_matter(database: str) -> None:
    with connected(database) as connection:
        connection.execute(text("CREATE TABLE parking (id INTEGER)"))
    Store(database).close()
    assert revisions(database) == [migrating.head()]


def test_a_step_that_fails_leaves_the_database_as_it_was(database: str, folder: Path) -> None:
    made_by_first(database)
    before = tables(database)
    add(folder, BROKEN)
    with pytest.raises(StoreError):
        Store(database)
    assert tables(database) - before <= {"alembic_version"}
    assert reasons(database) == ["because"]


def test_a_step_that_fails_leaves_nothing_in_an_empty_database(database: str, folder: Path) -> None:
    add(folder, BROKEN)
    with pytest.raises(StoreError):
        Store(database)
    assert tables(database) == set()


def test_a_table_may_be_made_anew_while_rows_point_to_it(database: str, folder: Path) -> None:
    made_by_first(database)
    add(folder, REBUILD, then="SELECT 1")
    with closing(Store(database)) as store:
        assert revisions(database) == ["9999"]
        assert reasons(database) == ["because"]
        with pytest.raises(StoreError), store.transaction() as session:
            session.execute(text("DELETE FROM studies"))  # rows of answers point to it, and that counts again
    assert reasons(database) == ["because"]


def test_rows_that_point_to_none_stop_the_upgrade(database: str, folder: Path) -> None:
    made_by_first(database)
    add(folder, REBUILD, then="DELETE FROM studies")
    with pytest.raises(StoreError):
        Store(database)
    assert reasons(database) == ["because"]


def test_processes_that_start_at_once_upgrade_once(database: str) -> None:
    made_by_first(database)
    program = (
        "import sys; from cohortsum.coordinator.store import Store\n"
        "sys.stdin.read(); Store(sys.argv[1]).close()"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, database], stdin=subprocess.PIPE)  # noqa: S603
        for _ in range(2)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    assert revisions(database) == [migrating.head()]
    assert reasons(database) == ["because"]


def test_another_kind_of_database_is_refused_by_name() -> None:
    with pytest.raises(StoreError, match="no database of kind mysql"):
        Store("mysql+pymysql://hub@database/cohortsum")
