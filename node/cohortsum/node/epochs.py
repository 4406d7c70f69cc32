"""Which data a label stands for: an epoch is tied to the content of the tables once, and closed once.

Studies name an epoch; whoever answers under its label must answer from the same rows every time, or two results could be
subtracted. A withdrawal of consent closes the epoch at once, and what is closed is never opened again. Versions of a study
go one way too: an older one than this site has seen is not answered.
"""

from datetime import datetime

from cohortsum.crypto.errors import PolicyError
from cohortsum.node.ledger_file import LedgerFile, now
from cohortsum.protocol.audit import Deed, DeedKind

WITHDRAWN = "consent was withdrawn"
REBUILT = "the ledger was rebuilt and does not know any more which data it stood for"


class Epochs:
    """Epochs and study versions in a ledger.

    Args:
        file: that they are kept in.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def bind(self, epoch: str, digest: bytes) -> None:
        """Tie an epoch label to the content of the tables for good; raises PolicyError if it is tied to another."""
        with self._file.transaction():
            self._file.database.execute(
                "INSERT OR IGNORE INTO epochs (epoch, digest, since) VALUES (?, ?, ?)", (epoch, digest, now())
            )
            held, closed, why = self._file.database.execute(
                "SELECT digest, closed, why FROM epochs WHERE epoch = ?", (epoch,)
            ).fetchone()
        if closed is not None:
            raise PolicyError(closed_epoch(epoch, datetime.fromisoformat(closed), why))
        if held != digest:
            raise PolicyError(
                f"the tables are not those that epoch {epoch} was first used with; "
                "give the new content an epoch label of its own in node.yaml"
            )

    def close(self, epoch: str, why: str = WITHDRAWN) -> None:
        """Close an epoch for good; nothing about its people is answered any more."""
        with self._file.transaction():
            self._file.database.execute(
                "INSERT OR IGNORE INTO epochs (epoch, digest, since) VALUES (?, x'', ?)", (epoch, now())
            )
            closing = self._file.database.execute(
                "UPDATE epochs SET closed = ?, why = ? WHERE epoch = ? AND closed IS NULL",
                (now(), why, epoch),
            )
            if closing.rowcount:
                self._file.note(Deed(DeedKind.EPOCH_CLOSED, detail=epoch))

    def closed(self, epoch: str) -> tuple[datetime, str] | None:
        """Return when and why an epoch was closed, or None where it is open or unknown."""
        query = "SELECT closed, why FROM epochs WHERE epoch = ? AND closed IS NOT NULL"
        with self._file.reading():
            row = self._file.database.execute(query, (epoch,)).fetchone()
        return None if row is None else (datetime.fromisoformat(row[0]), str(row[1]))

    def knows(self, epoch: str) -> bool:
        """Return whether an epoch label is tied to content, or closed."""
        with self._file.reading():
            row = self._file.database.execute("SELECT 1 FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
        return row is not None

    def seen_version(self, study: str) -> int | None:
        """Return the newest version of a study that this site has seen, or None."""
        with self._file.reading():
            row = self._file.database.execute(
                "SELECT version FROM studies WHERE name = ?", (study,)
            ).fetchone()
        return None if row is None else int(row[0])

    def bind_version(self, study: str, version: int) -> None:
        """Note a study's version; raises PolicyError for one older than this site has seen."""
        with self._file.transaction():
            seen = self.seen_version(study)
            self.note_version(study, version)
        if seen is not None and seen > version:
            raise PolicyError(
                f"study {study}: version {version} is older than version {seen}, which this site has seen"
            )

    def note_version(self, study: str, version: int) -> None:
        """Note that a version was seen; an older one changes nothing."""
        with self._file.transaction():
            self._file.database.execute(
                "INSERT INTO studies VALUES (?, ?) ON CONFLICT (name) "
                "DO UPDATE SET version = max(version, excluded.version)",
                (study, version),
            )


def closed_epoch(epoch: str, since: datetime, why: str) -> str:
    """Return the sentence about a closed epoch, with date and cure."""
    return (
        f"epoch {epoch} was closed on {since.date()} because {why}; make a snapshot with a new label, and ask the "
        "statistician for a version that names it"
    )
