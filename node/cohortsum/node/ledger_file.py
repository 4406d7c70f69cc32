"""The file that a site's ledger is kept in: one SQLite file with a write-ahead log and full synchronisation.

Every study of the node has a thread of its own and all of them share one connection, one at a time. A transaction inside
another is a part of it: all of the outer one is durable, or nothing is. So are the lines of the audit log that belong to it:
they are on disk before it commits, and its head is in it. The write lock is taken when a transaction begins, so that commands
of the admin and a running node take turns in both files.
"""

import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.crypto.errors import StoreError
from cohortsum.node.audit_log import AUDIT, AuditLog
from cohortsum.protocol.audit import Deed, Head
from cohortsum.protocol.audit_check import Examined, examine

LEDGER = "ledger.db"
HEAD = "audit head"
LEDGER_SCHEMA = 1
"""Number of the tables below, kept as SQLite's ``user_version``; 0 in a file of version 0.1, whose tables are those of 1. It grows when
an older program would overlook what a newer one wrote: a site that forgets what it answered may answer twice."""

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
        path: the SQLite file; made if need be. None keeps it in memory, for simulations in one process, without an audit log.

    Attributes:
        database: its connection, to be used inside ``reading`` or ``transaction``.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._deeds: list[Deed] = []
        self._audit = None if path is None else AuditLog(path.with_name(AUDIT))
        with self.reading():
            self.database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
            try:
                self._refuse_newer()
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                    self.database.execute(f"PRAGMA {pragma}")
                self.database.executescript(SCHEMA)
                if self._schema() < LEDGER_SCHEMA:
                    self.database.execute(f"PRAGMA user_version = {LEDGER_SCHEMA}")
            except (sqlite3.Error, StoreError):
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
        """Make all that is written and noted inside durable, or nothing of it; raises StoreError."""
        with self.reading():
            self._depth += 1
            try:
                if self._depth > 1:
                    yield
                else:
                    with self.database:
                        self.database.execute("BEGIN IMMEDIATE")
                        yield
                        self._write_deeds()
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._deeds = []

    def note(self, deed: Deed) -> None:
        """Write a line of the audit log with the transaction that this is a part of, or with one of its own; raises StoreError."""
        with self.transaction():
            self._deeds.append(deed)

    def note_once(self, name: str, deed: Deed) -> None:
        """Write a line of the audit log unless the newest one that was written under this name says the same."""
        said = f"{deed.kind} {deed.digest.hex()}"
        with self.transaction():
            if self.fact(f"noted {name}") != said:
                self._set_fact(f"noted {name}", said)
                self.note(deed)

    def audit(self) -> Examined:
        """Return whether the audit log holds together and ends as this file remembers; raises StoreError."""
        with (
            self.transaction()
        ):  # nobody writes between the two, and the examination, which takes long, holds nobody up
            data, head = b"" if self._audit is None else self._audit.read(), self._head()
        return examine(data, head)

    def renew_audit(self) -> str:
        """Give the audit log's file another name and begin a new one that goes on with the chain; return that name."""
        name = f"{AUDIT}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        with self.transaction():
            if self._audit is not None:
                self._audit.set_aside(name)
                self._set_fact(HEAD, self._audit.append(self._head().renewed(), ()).to_text())
        return name

    def fact(self, name: str) -> str | None:
        """Return a single value that the ledger keeps under a name, or None."""
        with self.reading():
            row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the files."""
        self.database.close()
        if self._audit is not None:
            self._audit.close()

    def _schema(self) -> int:
        return int(self.database.execute("PRAGMA user_version").fetchone()[0])

    def _refuse_newer(self) -> None:
        """Raise StoreError for a ledger of a newer version, which is left as it is."""
        if self._schema() > LEDGER_SCHEMA:
            raise StoreError(
                f"the ledger has schema {self._schema()}, and this version knows {LEDGER_SCHEMA}: a newer version wrote it; install"
                " that version again. An older copy of the ledger is no way back without `cohortsum node recover`"
            )

    def _head(self) -> Head:
        return Head.from_text(self.fact(HEAD))

    def _write_deeds(self) -> None:
        """Put the lines of this transaction on disk; the last thing before it commits."""
        if self._audit is not None and self._deeds:
            self._set_fact(HEAD, self._audit.append(self._head(), self._deeds).to_text())

    def _set_fact(self, name: str, value: str) -> None:
        self.database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def note_in(folder: Path, deed: Deed, once: str = "") -> None:
    """Write a line of the audit log of the node in ``folder``; under a name for ``once``, only where it says something new."""
    with closing(LedgerFile(folder / LEDGER)) as file:
        if once:
            file.note_once(once, deed)
        else:
            file.note(deed)


def now() -> str:
    """Return the time as the ledger keeps it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat()
