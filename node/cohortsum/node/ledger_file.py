"""The file that a site's ledger is kept in: one SQLite file with a write-ahead log and full synchronisation.

Every study of the node has a thread of its own and all of them share one connection, one at a time. A transaction inside
another is a part of it: all of the outer one is durable, or nothing is.
"""

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.crypto.errors import StoreError

SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
    context BLOB PRIMARY KEY,
    study BLOB NOT NULL,
    round_id BLOB NOT NULL,
    iteration INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seen TEXT NOT NULL,
    UNIQUE (round_id, iteration, attempt)
) STRICT;
CREATE TABLE IF NOT EXISTS epochs (
    epoch TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    since TEXT NOT NULL,
    closed TEXT,
    why TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE IF NOT EXISTS studies (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS named (
    context BLOB PRIMARY KEY REFERENCES rounds (context),
    survivors TEXT NOT NULL,
    signatures TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS writes (
    context BLOB PRIMARY KEY REFERENCES rounds (context),
    h1 BLOB NOT NULL,
    h2 BLOB NOT NULL,
    advertisers TEXT NOT NULL,
    delivered TEXT NOT NULL,
    people TEXT NOT NULL,
    closed TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS people_sets (
    name TEXT PRIMARY KEY,
    codes BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS withdrawn (
    code BLOB PRIMARY KEY
) STRICT;
CREATE TABLE IF NOT EXISTS peers (
    site INTEGER PRIMARY KEY,
    counter INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS seen_sums (
    context BLOB PRIMARY KEY REFERENCES rounds (context),
    survivors TEXT NOT NULL,
    sums BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS reservations (
    study BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    adjacency TEXT NOT NULL,
    nano_rho INTEGER NOT NULL,
    rate REAL NOT NULL,
    attempts INTEGER NOT NULL,
    expires TEXT NOT NULL,
    since TEXT NOT NULL,
    released TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS charges (
    context BLOB PRIMARY KEY REFERENCES writes (context),
    study BLOB NOT NULL REFERENCES reservations (study),
    at TEXT NOT NULL,
    refunded TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS charges_by_study ON charges (study);
CREATE TABLE IF NOT EXISTS deeds (
    context BLOB NOT NULL REFERENCES rounds (context),
    deed TEXT NOT NULL,
    digest BLOB NOT NULL,
    survivors TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    PRIMARY KEY (context, deed)
) STRICT;
"""


class LedgerFile:
    """The open file.

    Args:
        path: the SQLite file; made if need be. None keeps it in memory, for simulations in one process.

    Attributes:
        database: its connection, to be used inside ``reading`` or ``transaction``.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        with self.reading():
            self.database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
            try:
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                    self.database.execute(f"PRAGMA {pragma}")
                self.database.executescript(SCHEMA)
            except sqlite3.Error:
                self.database.close()
                raise

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep the other threads out."""
        with self._lock:
            yield

    @contextmanager
    def reading(self) -> Generator[None]:
        """Keep the other threads out, and say what the database refuses without a value of it; raises StoreError."""
        try:
            with self._lock:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError(
                "the ledger holds an earlier, different record of this; the site stops the round"
            ) from error
        except sqlite3.Error as error:
            raise StoreError(
                f"the ledger refuses a write ({type(error).__name__}); check disk space and rights"
            ) from error

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make all that is written inside durable, or nothing of it; raises StoreError."""
        with self.reading():
            self._depth += 1
            try:
                if self._depth > 1:
                    yield
                else:
                    with self.database:
                        yield
            finally:
                self._depth -= 1

    def fact(self, name: str) -> str | None:
        """Return a single value that the ledger keeps under a name, or None."""
        with self.reading():
            row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the file."""
        self.database.close()


def now() -> str:
    """Return the time as the ledger keeps it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat()
