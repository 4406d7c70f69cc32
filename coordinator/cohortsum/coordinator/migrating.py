"""Brings a store's database to the revision of this version, in one transaction and once, however many processes start.

Alembic keeps the revision in the table ``alembic_version``. A database without one is new, or was made by version 0.1 before
there were revisions: then it has exactly the columns of revision 0001 and is marked as such. Everything else is refused and left as
it was: a database of a newer version above all, whose rows this version would misread.
"""

import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from cohortsum.coordinator.database import take_turn
from cohortsum.coordinator.migrations.versions.r0001_first import TABLES as FIRST_TABLES
from cohortsum.coordinator.migrations.versions.r0001_first import revision as first
from cohortsum.crypto.errors import StoreError

FOLDER = Path(__file__).parent / "migrations"
_alone = threading.Lock()  # Alembic's `op` and `context` are one per process


def bring_up(engine: Engine) -> None:
    """Upgrade a database to the newest revision.

    Raises:
        StoreError: it is of a newer version, or holds tables that no version made.
        SQLAlchemyError: the database refuses.
    """
    with _alone, engine.connect() as connection:
        if _revisions(connection) == (head(),):
            return
        connection.rollback()
        _upgrade(connection)


@cache
def known() -> tuple[str, ...]:
    """Return every revision that this version knows, oldest first."""
    steps = ScriptDirectory(str(FOLDER)).walk_revisions()
    return tuple(reversed([step.revision for step in steps]))


def head() -> str:
    """Return the revision that this version works with."""
    return known()[-1]


def _upgrade(connection: Connection) -> None:
    lite = connection.dialect.name == "sqlite"
    if lite:  # it has no ALTER for most things: a step may make a table anew, to which rows of others point
        connection.execute(text("PRAGMA foreign_keys=OFF"))
    try:
        take_turn(connection)
        _take_steps(connection)
        if lite and connection.execute(text("PRAGMA foreign_key_check")).first() is not None:
            raise StoreError(
                "the coordinator's store has rows that point to none; nothing was upgraded; restore the backup"
            )
        connection.commit()
    finally:
        connection.rollback()
        if lite:
            connection.execute(text("PRAGMA foreign_keys=ON"))


def _take_steps(connection: Connection) -> None:
    """Decide where the database stands, now that nobody else is at it, and go on from there."""
    held = _revisions(connection)
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    if len(held) > 1 or not set(held) <= set(known()):
        raise StoreError(
            f"the coordinator's store is of revision {', '.join(held)}, and this version knows {known()[0]} to {head()}: a newer"
            " version wrote it; install that version again, or restore the backup made before the upgrade"
        )
    if not held:
        columns = _columns(connection)
        ours = {name: columns[name] for name in _first_columns() if name in columns}
        if ours == _first_columns():
            command.stamp(config, first)
        elif ours:
            raise StoreError(
                "the coordinator's store has no revision and not the tables of version 0.1; expected an empty database or one"
                " that a released version made; give it a database of its own"
            )
    command.upgrade(config, "head")


def _revisions(connection: Connection) -> tuple[str, ...]:
    return MigrationContext.configure(connection).get_current_heads()


def _columns(connection: Connection) -> Mapping[str, frozenset[str]]:
    found = inspect(connection)
    return {
        name: frozenset(column["name"] for column in found.get_columns(name))
        for name in found.get_table_names()
    }


def _first_columns() -> Mapping[str, frozenset[str]]:
    return {
        name: frozenset(column.name for column in table.columns)
        for name, table in FIRST_TABLES.tables.items()
    }
