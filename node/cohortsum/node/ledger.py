"""What this site has done in rounds, on disk before anything that follows from it leaves.

One SQLite file with a write-ahead log and full synchronisation. A context is spent once, a survivor set is signed once per
context and binds every retry of its study, an answer is given once per part. Rows hold digests and roster indices; no
share, seed, mask or value is ever written.
"""

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.crypto.errors import PolicyError, StoreError
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    Record,
    RoundSeen,
    SetOpened,
    SurvivorsSigned,
)

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
    closed TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS studies (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS deeds (
    context BLOB NOT NULL REFERENCES rounds (context),
    deed TEXT NOT NULL,
    digest BLOB NOT NULL,
    survivors TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    PRIMARY KEY (context, deed)
) STRICT;
"""


class Ledger:
    """The durable log of one site.

    Args:
        path: the SQLite file; made if need be. None keeps it in memory, for simulations in one process.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.RLock()  # every study of the node has a thread of its own
        with self._errors():
            self._database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
            try:
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                    self._database.execute(f"PRAGMA {pragma}")
                self._database.executescript(SCHEMA)
            except sqlite3.Error:
                self._database.close()
                raise

    def write(self, study: bytes, record: Record) -> None:
        """Make a record durable. Raises StoreError if it cannot be, or if it contradicts an earlier one."""
        with self._errors(), self._database:
            match record:
                case RoundSeen(context, key):
                    self._database.execute(
                        "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
                        (context, study, key.round_id, key.iteration, key.attempt, _now()),
                    )
                case ContextSpent(context, masked):
                    self._deed(context, "spent", masked)
                case SurvivorsSigned(context, survivors, statement):
                    self._deed(context, "signed", statement, ",".join(map(str, survivors)))
                case Answered(context, part, answer):
                    self._deed(context, f"answered {part}", answer)
                case SetOpened(context, result):
                    self._deed(context, "opened", result)

    def bind_epoch(self, epoch: str, digest: bytes) -> None:
        """Tie an epoch label to the content of the tables for good; raises PolicyError if it is tied to another."""
        with self._errors(), self._database:
            self._database.execute(
                "INSERT OR IGNORE INTO epochs VALUES (?, ?, ?, NULL)", (epoch, digest, _now())
            )
            held, closed = self._database.execute(
                "SELECT digest, closed FROM epochs WHERE epoch = ?", (epoch,)
            ).fetchone()
        if closed is not None:
            raise PolicyError(closed_epoch(epoch, datetime.fromisoformat(closed)))
        if held != digest:
            raise PolicyError(
                f"the tables are not those that epoch {epoch} was first used with; "
                "give the new content an epoch label of its own in node.yaml"
            )

    def close_epoch(self, epoch: str) -> None:
        """Close an epoch for good because consent was withdrawn; nothing about its people is answered any more."""
        with self._errors(), self._database:
            self._database.execute("INSERT OR IGNORE INTO epochs VALUES (?, x'', ?, NULL)", (epoch, _now()))
            self._database.execute(
                "UPDATE epochs SET closed = ? WHERE epoch = ? AND closed IS NULL", (_now(), epoch)
            )

    def closed_since(self, epoch: str) -> datetime | None:
        """Return when an epoch was closed (UTC), or None where it is open or unknown."""
        with self._errors():
            row = self._database.execute("SELECT closed FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
        return None if row is None or row[0] is None else datetime.fromisoformat(row[0])

    def seen_version(self, study: str) -> int | None:
        """Return the newest version of a study that this site has seen, or None."""
        with self._errors():
            row = self._database.execute("SELECT version FROM studies WHERE name = ?", (study,)).fetchone()
        return None if row is None else int(row[0])

    def bind_version(self, study: str, version: int) -> None:
        """Note a study's version; raises PolicyError for one older than this site has seen."""
        with self._errors(), self._database:
            row = self._database.execute("SELECT version FROM studies WHERE name = ?", (study,)).fetchone()
            if row is None or row[0] < version:
                self._database.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", (study, version))
        if row is not None and row[0] > version:
            raise PolicyError(
                f"study {study}: version {version} is older than version {row[0]}, which this site has seen"
            )

    def seen_rounds(self) -> frozenset[tuple[bytes, int, int]]:
        """Return (round id, iteration, attempt) of every round this site took part in."""
        with self._errors():
            return frozenset(self._database.execute("SELECT round_id, iteration, attempt FROM rounds"))

    def signed_survivors(self, study: bytes) -> tuple[int, ...] | None:
        """Return the survivor set that this site stands by for a study: any further attempt must keep it. None: none yet."""
        query = """
            SELECT deeds.survivors FROM deeds JOIN rounds USING (context)
            WHERE rounds.study = ? AND deeds.deed = 'signed' ORDER BY rounds.attempt LIMIT 1
        """
        with self._errors():
            row = self._database.execute(query, (study,)).fetchone()
        return None if row is None else tuple(int(index) for index in str(row[0]).split(","))

    def signed_rounds(self) -> tuple[tuple[bytes, bytes, tuple[int, ...]], ...]:
        """Return context, study digest and survivors of every round whose survivors this site signed."""
        query = "SELECT context, rounds.study, survivors FROM deeds JOIN rounds USING (context) WHERE deed = 'signed'"
        with self._errors():
            rows = self._database.execute(query).fetchall()
        return tuple(
            (context, study, tuple(map(int, str(survivors).split(",")))) for context, study, survivors in rows
        )

    def deeds(self, context: bytes) -> tuple[str, ...]:
        """Return what was recorded for a context, in order of time."""
        with self._errors():
            rows = self._database.execute(
                "SELECT deed FROM deeds WHERE context = ? ORDER BY rowid", (context,)
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _deed(self, context: bytes, deed: str, digest: bytes, survivors: str = "") -> None:
        self._database.execute(
            "INSERT INTO deeds VALUES (?, ?, ?, ?, ?)", (context, deed, digest, survivors, _now())
        )

    @contextmanager
    def _errors(self) -> Generator[None]:
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


def closed_epoch(epoch: str, since: datetime) -> str:
    """Return the sentence about a closed epoch, with date and cure."""
    return (
        f"epoch {epoch} was closed on {since.date()} because consent was withdrawn; make a snapshot with a new label, and ask "
        "the statistician for a version that names it"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()
