"""What a trustee has decrypted, for good: one SQLite file with a write-ahead log and full synchronisation, and its audit log.

A row is there before the answer leaves: a trustee that was killed in between has decrypted, says so to whoever asks, and answers nothing
more in that attempt. Lines of the audit log are on disk before the transaction that they belong to commits. The file holds digests,
survivor sets and times; no key, no sum, no word of one.
"""

import json
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.audit import Deed, Head
from cohortsum.protocol.audit_check import Examined, examine
from cohortsum.trustee.audit_log import AUDIT, AuditLog

HEAD = "audit head"
SCHEMA_NUMBER = 1
"""Kept as SQLite's ``user_version``. It grows when an older program would overlook what a newer one wrote."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS decryptions (
    context BLOB PRIMARY KEY,
    study BLOB NOT NULL,
    survivors TEXT NOT NULL,
    statement BLOB NOT NULL,
    ciphertext_digest BLOB NOT NULL,
    masked_digest BLOB NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS decryptions_by_study ON decryptions (study);
CREATE TABLE IF NOT EXISTS facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Decryption:
    """One sum that was decrypted.

    Attributes:
        context: of the attempt, 32 bytes.
        study: digest of the study, 32 bytes.
        survivors: roster indices of the sites in the sum.
        statement: what t of them signed, 32 bytes.
        ciphertext_digest: of the sum as it was handed in, 32 bytes.
        masked_digest: of what it decrypted to, 32 bytes.
        at: when, UTC.
    """

    context: bytes
    study: bytes
    survivors: tuple[int, ...]
    statement: bytes
    ciphertext_digest: bytes
    masked_digest: bytes
    at: datetime


class Ledger:
    """The open file; for several threads, one at a time.

    Args:
        path: the SQLite file; made if need be, mode 0600. The audit log lies beside it.

    Raises StoreError where it cannot be opened, or a newer version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._audit = AuditLog(path.with_name(AUDIT))
        with self._reading():
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, check_same_thread=False)
            try:
                self._check_schema()
                for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                    self._database.execute(f"PRAGMA {pragma}")
                self._database.executescript(SCHEMA)
                self._database.execute(f"PRAGMA user_version = {SCHEMA_NUMBER}")
            except (sqlite3.Error, StoreError):
                self._database.close()
                raise

    def of_context(self, context: bytes) -> Decryption | None:
        """Return what was decrypted in an attempt, or None."""
        found = self._select("WHERE context = ?", context)
        return found[0] if found else None

    def of_study(self, study: bytes) -> tuple[Decryption, ...]:
        """Return what was decrypted of a study, the oldest first."""
        return self._select("WHERE study = ? ORDER BY at", study)

    def every(self) -> tuple[Decryption, ...]:
        """Return all that was ever decrypted, the oldest first."""
        return self._select("ORDER BY at")

    def record(self, held: Decryption, deed: Deed) -> None:
        """Make a decryption and its line of the audit log durable; raises StoreError, also where the attempt has one already."""
        row = (
            held.context,
            held.study,
            json.dumps(held.survivors),
            held.statement,
            held.ciphertext_digest,
            held.masked_digest,
            held.at.astimezone(UTC).isoformat(),
        )
        with self._transaction():
            self._database.execute("INSERT INTO decryptions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._write(deed)

    def note(self, deed: Deed) -> None:
        """Make a line of the audit log durable; raises StoreError."""
        with self._transaction():
            self._write(deed)

    def audit(self) -> Examined:
        """Return whether the audit log holds together and ends as this file remembers; raises StoreError."""
        with self._transaction():
            data, head = self._audit.read(), self._head()
        return examine(data, head)

    def renew_audit(self) -> str:
        """Give the audit log's file another name and begin a new one that goes on with the chain; return that name."""
        name = f"{AUDIT}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        with self._transaction():
            self._audit.set_aside(name)
            self._set_head(self._audit.append(self._head().renewed(), ()))
        return name

    def close(self) -> None:
        """Close the files."""
        self._database.close()
        self._audit.close()

    def _select(self, condition: str, *values: bytes) -> tuple[Decryption, ...]:
        columns = "context, study, survivors, statement, ciphertext_digest, masked_digest, at"
        with self._reading():
            rows = self._database.execute(
                f"SELECT {columns} FROM decryptions {condition}",  # noqa: S608  # no text from outside
                values,
            ).fetchall()
        return tuple(
            Decryption(
                context,
                study,
                tuple(json.loads(survivors)),
                statement,
                ciphertext,
                masked,
                datetime.fromisoformat(at),
            )
            for context, study, survivors, statement, ciphertext, masked, at in rows
        )

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Keep other threads out, and say what the database refuses without a value of it; raises StoreError."""
        try:
            with self._lock:
                yield
        except sqlite3.IntegrityError as error:
            raise StoreError("the trustee's ledger holds an earlier decryption of this attempt") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"the trustee's ledger refuses a write ({type(error).__name__}); check disk space and rights"
            ) from error

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._reading(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def _write(self, deed: Deed) -> None:
        """Put a line on disk; the last thing before a transaction commits."""
        self._set_head(self._audit.append(self._head(), (deed,)))

    def _head(self) -> Head:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (HEAD,)).fetchone()
        return Head.from_text(None if row is None else str(row[0]))

    def _set_head(self, head: Head) -> None:
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (HEAD, head.to_text()))

    def _check_schema(self) -> None:
        found = int(self._database.execute("PRAGMA user_version").fetchone()[0])
        if found > SCHEMA_NUMBER:
            raise StoreError(
                f"the trustee's ledger has schema {found}, and this version knows {SCHEMA_NUMBER}: a newer version wrote it; "
                "install that version again"
            )
