"""What this site has done in rounds, on disk before anything that follows from it leaves.

One SQLite file with a write-ahead log and full synchronisation. A context is spent once, a survivor set is signed once per
context and binds every retry of its study, an answer is given once per part. Rows hold digests and roster indices; no
share, seed, mask or value is ever written.

A ledger that was set back to an older copy has forgotten what left the site. Whoever holds messages that the site signed and
the ledger does not know proves it: the ledger is then marked, and answers nothing until it is rebuilt (`recovery`).
"""

import json
import secrets
import sqlite3
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from cohortsum.crypto.errors import PolicyError, StoreError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    PeersSeen,
    Record,
    RoundSeen,
    SetOpened,
    SurvivorsNamed,
    SurvivorsSigned,
)
from cohortsum.protocol.ledger import History, NamedRound, PeopleSet, Status, Step, Write
from cohortsum.protocol.ledger.history import Closed, Named, Unresolved
from cohortsum.protocol.proof import ProvenRound

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
CREATE TABLE IF NOT EXISTS deeds (
    context BLOB NOT NULL REFERENCES rounds (context),
    deed TEXT NOT NULL,
    digest BLOB NOT NULL,
    survivors TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    PRIMARY KEY (context, deed)
) STRICT;
"""


WITHDRAWN = "consent was withdrawn"
REBUILT = "the ledger was rebuilt and does not know any more which data it stood for"

ProvenDeed = tuple[ProvenRound, bytes, str, int, Mapping[str, PeopleSet] | None]
"""What a transcript proves, with digest, id and version of its study, and whose rows had entered; None: not known any more."""


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

    def write(
        self,
        study: bytes,
        record: Record,
        people: Mapping[str, PeopleSet] = MappingProxyType({}),
        status: Status = Status.DERIVABLE,
    ) -> None:
        """Make a record durable. Raises StoreError if it cannot be, or if it contradicts an earlier one.

        Args:
            study: digest of the study that the record is about.
            record: what is done next.
            people: with a spent context, the people sets that entered it, by name; none where no rule is about people.
            status: with the first spent context, what this site is from then on.
        """
        with self._errors(), self._database:
            match record:
                case RoundSeen(context, key):
                    self._database.execute(
                        "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
                        (context, study, key.round_id, key.iteration, key.attempt, _now()),
                    )
                case PeersSeen(_, counters):
                    self._database.executemany(
                        "INSERT INTO peers VALUES (?, ?) ON CONFLICT (site) DO UPDATE SET counter = max(counter, excluded.counter)",
                        counters.items(),
                    )
                case ContextSpent():
                    self._deed(record.context, "spent", record.masked)
                    self._spend(record, people)
                    self._database.execute(
                        "INSERT OR IGNORE INTO facts VALUES ('status', ?)", (status.value,)
                    )
                case SurvivorsNamed(context, survivors, signatures):
                    self._name(context, survivors, signatures)
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
                "INSERT OR IGNORE INTO epochs (epoch, digest, since) VALUES (?, ?, ?)",
                (epoch, digest, _now()),
            )
            held, closed, why = self._database.execute(
                "SELECT digest, closed, why FROM epochs WHERE epoch = ?", (epoch,)
            ).fetchone()
        if closed is not None:
            raise PolicyError(closed_epoch(epoch, datetime.fromisoformat(closed), why))
        if held != digest:
            raise PolicyError(
                f"the tables are not those that epoch {epoch} was first used with; "
                "give the new content an epoch label of its own in node.yaml"
            )

    def close_epoch(self, epoch: str, why: str = WITHDRAWN) -> None:
        """Close an epoch for good; nothing about its people is answered any more."""
        with self._errors(), self._database:
            self._close_epoch(epoch, why)

    def closed(self, epoch: str) -> tuple[datetime, str] | None:
        """Return when and why an epoch was closed, or None where it is open or unknown."""
        query = "SELECT closed, why FROM epochs WHERE epoch = ? AND closed IS NOT NULL"
        with self._errors():
            row = self._database.execute(query, (epoch,)).fetchone()
        return None if row is None else (datetime.fromisoformat(row[0]), str(row[1]))

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
            WHERE rounds.study = ? AND deeds.deed = 'signed'
                AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
            ORDER BY rounds.attempt LIMIT 1
        """
        with self._errors():
            row = self._database.execute(query, (study,)).fetchone()
        return None if row is None else tuple(int(index) for index in str(row[0]).split(","))

    def signed_rounds(self) -> tuple[tuple[bytes, bytes, tuple[int, ...]], ...]:
        """Return context, study digest and survivors of every round whose survivors this site signed."""
        query = """
            SELECT context, rounds.study, survivors FROM deeds JOIN rounds USING (context)
            WHERE deed = 'signed' AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
        """
        with self._errors():
            rows = self._database.execute(query).fetchall()
        return tuple(
            (context, study, tuple(map(int, str(survivors).split(",")))) for context, study, survivors in rows
        )

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep the other studies of this node out: what is read inside still holds when something is written inside."""
        with self._lock:
            yield

    def people_key(self) -> SecretBytes:
        """Return the key of this site's codes for people, drawn once; it never leaves the ledger's file."""
        held = self._fact("people key")
        if held is None:
            held = secrets.token_hex(32)
            with self._errors(), self._database:
                self._database.execute("INSERT INTO facts VALUES ('people key', ?)", (held,))
        return SecretBytes(bytes.fromhex(held), "people key")

    def add_withdrawn(self, codes: frozenset[bytes]) -> None:
        """Note that these people withdrew consent: no set with one of them is answered for."""
        with self._errors(), self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO withdrawn VALUES (?)", [(code,) for code in codes]
            )

    def history(self, site: int) -> History:
        """Return whom this site, with roster index ``site``, has answered for, and what is known of the openings."""
        query = """
            SELECT context, h1, h2, advertisers, delivered, people, closed, rounds.study, iteration, attempt,
                named.survivors, named.signatures
            FROM writes JOIN rounds USING (context) LEFT JOIN named USING (context) ORDER BY writes.rowid
        """
        with self._errors():
            rows = self._database.execute(query).fetchall()
            stored = dict(self._database.execute("SELECT name, codes FROM people_sets").fetchall())
            withdrawn = frozenset(code for (code,) in self._database.execute("SELECT code FROM withdrawn"))
        sets = {name: PeopleSet.from_data(codes.hex()) for name, codes in stored.items()}
        writes = tuple(stored_write(row, sets) for row in rows)
        held = self._fact("status")
        return History(
            site,
            None if held is None else Status(held),
            writes,
            withdrawn,
            len(writes),
            self.restored_since() is not None,
        )

    def counter(self) -> int:
        """Return how many masked inputs this site has made."""
        with self._errors():
            (number,) = self._database.execute("SELECT count(*) FROM deeds WHERE deed = 'spent'").fetchone()
        return int(number)

    def peers(self) -> dict[int, int]:
        """Return the highest counter seen of every other site, by roster index."""
        with self._errors():
            return dict(self._database.execute("SELECT site, counter FROM peers").fetchall())

    def has_spent(self, context: bytes) -> bool:
        """Return whether this ledger knows of a masked input in a context."""
        return "spent" in self.deeds(context)

    def write_of(self, context: bytes) -> tuple[frozenset[int], bytes] | None:
        """Return U1 and the study's digest of a masked input, or None where there was none."""
        query = "SELECT advertisers, rounds.study FROM writes JOIN rounds USING (context) WHERE context = ?"
        with self._errors():
            row = self._database.execute(query, (context,)).fetchone()
        return None if row is None else (frozenset(json.loads(row[0])), row[1])

    def status(self) -> Status | None:
        """Return what this site has been since its first masked input; None before it."""
        held = self._fact("status")
        return None if held is None else Status(held)

    def named_of(self, study: bytes) -> dict[bytes, tuple[int, ...]]:
        """Return the survivors that t sites named in attempts of a study that are not closed, by context."""
        query = """
            SELECT context, named.survivors FROM named JOIN rounds USING (context)
            WHERE study = ? AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
        """
        with self._errors():
            rows = self._database.execute(query, (study,)).fetchall()
        return {context: tuple(map(int, str(survivors).split(","))) for context, survivors in rows}

    def unresolved(self) -> tuple[bytes, ...]:
        """Return the contexts of masked inputs of which this site does not know whether they were opened."""
        query = (
            "SELECT context FROM writes WHERE closed IS NULL AND context NOT IN (SELECT context FROM named)"
        )
        with self._errors():
            return tuple(context for (context,) in self._database.execute(query))

    def name(self, proven: ProvenRound) -> None:
        """Note the survivors that a transcript proves."""
        with self._errors(), self._database:
            self._name(proven.context, proven.survivors, proven.signatures)

    def close_write(self, context: bytes) -> None:
        """Note that an attempt is closed: its masked input counts as not made, and its survivors bind nobody."""
        with self._errors(), self._database:
            self._database.execute(
                "UPDATE writes SET closed = ? WHERE context = ? AND closed IS NULL", (_now(), context)
            )

    def mark_restored(self) -> None:
        """Note that this ledger lacks what the site has done: nothing is answered until it is rebuilt."""
        with self._errors(), self._database:
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('restored', ?)", (_now(),))

    def restored_since(self) -> datetime | None:
        """Return when this ledger was found to be an older copy (UTC), or None."""
        value = self._fact("restored")
        return None if value is None else datetime.fromisoformat(value)

    def incarnation(self) -> int:
        """Return how often this ledger was rebuilt."""
        return int(self._fact("incarnation") or 0)

    def rebuild(self, rounds: Sequence["ProvenDeed"], unknown_epochs: Sequence[str]) -> None:
        """Add everything that transcripts prove and this ledger lacks, and lift the mark; never takes anything away.

        What the site may have answered after its masked input counts as answered.

        Args:
            rounds: what is proven, in any order.
            unknown_epochs: labels whose content is not known any more; they are closed.
        """
        with self._errors(), self._database:
            for proven, study, name, version, people in rounds:
                self._rebuild_one(proven, study, people)
                self._database.execute(
                    "INSERT INTO studies VALUES (?, ?) ON CONFLICT (name) "
                    "DO UPDATE SET version = max(version, excluded.version)",
                    (name, version),
                )
            for epoch in unknown_epochs:
                self._close_epoch(epoch, REBUILT)
            number = self.incarnation() + 1
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('incarnation', ?)", (str(number),))
            self._database.execute("DELETE FROM facts WHERE name = 'restored'")

    def knows_all_people(self) -> bool:
        """Return whether the people of every masked input are known; after a rebuild they may not be."""
        return self._fact("people unknown") is None

    def knows_epoch(self, epoch: str) -> bool:
        """Return whether an epoch label is tied to content, or closed."""
        with self._errors():
            row = self._database.execute("SELECT 1 FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
        return row is not None

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

    def _fact(self, name: str) -> str | None:
        with self._errors():
            row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _close_epoch(self, epoch: str, why: str) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO epochs (epoch, digest, since) VALUES (?, x'', ?)", (epoch, _now())
        )
        self._database.execute(
            "UPDATE epochs SET closed = ?, why = ? WHERE epoch = ? AND closed IS NULL", (_now(), why, epoch)
        )

    def _rebuild_one(self, proven: ProvenRound, study: bytes, people: Mapping[str, PeopleSet] | None) -> None:
        key, context = proven.key, proven.context
        self._database.execute(
            "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
            (context, study, key.round_id, key.iteration, key.attempt, _now()),
        )
        held = {
            deed for (deed,) in self._database.execute("SELECT deed FROM deeds WHERE context = ?", (context,))
        }
        if "spent" not in held:
            self._deed(context, "spent", proven.masked)
            advertisers = frozenset(proven.counters)
            spent = ContextSpent(context, proven.masked, proven.h1, proven.h2, advertisers, proven.delivered)
            self._spend(spent, people or {})
            if people is None:
                self._database.execute("INSERT OR REPLACE INTO facts VALUES ('people unknown', ?)", (_now(),))
        if proven.signed and "signed" not in held:
            self._deed(context, "signed", proven.statement, ",".join(map(str, proven.survivors)))
        if proven.signatures:
            self._name(context, proven.survivors, proven.signatures)
            for part in ("gate", "data"):
                if f"answered {part}" not in held:
                    self._deed(context, f"answered {part}", b"")

    def _spend(self, record: ContextSpent, people: Mapping[str, PeopleSet]) -> None:
        self._database.executemany(
            "INSERT OR IGNORE INTO people_sets VALUES (?, ?)",
            [(held.name, bytes.fromhex(held.to_data())) for held in set(people.values())],
        )
        listed = json.dumps({name: held.name for name, held in people.items()})
        self._database.execute(
            "INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, NULL)",
            (
                record.context,
                record.h1,
                record.h2,
                json.dumps(sorted(record.advertisers)),
                json.dumps(sorted(record.delivered)),
                listed,
            ),
        )

    def _name(
        self, context: bytes, survivors: Sequence[int], signatures: Sequence[tuple[int, bytes]]
    ) -> None:
        listed = json.dumps({str(index): signature.hex() for index, signature in signatures})
        self._database.execute(
            "INSERT OR IGNORE INTO named VALUES (?, ?, ?)", (context, ",".join(map(str, survivors)), listed)
        )

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


Row = tuple[bytes, bytes, bytes, str, str, str, str | None, bytes, int, int, str | None, str | None]


def stored_write(row: Row, sets: Mapping[str, PeopleSet]) -> Write:
    """Return one masked input of the ledger, with the people sets that its row names."""
    context, h1, h2, advertisers, delivered, people, closed, study, iteration, attempt, survivors, signed = (
        row
    )
    step, members = Step(study, iteration, attempt), frozenset[int](json.loads(advertisers))
    named_people: dict[str, str] = json.loads(people)
    fate: Unresolved | Named | Closed = Unresolved()
    if closed is not None:
        fate = Closed()
    elif survivors is not None and signed is not None:
        signatures: dict[str, str] = json.loads(signed)
        named = NamedRound(
            context,
            step,
            h1,
            h2,
            members,
            frozenset(),
            frozenset(map(int, survivors.split(","))),
            tuple((int(site), bytes.fromhex(one)) for site, one in signatures.items()),
        )
        fate = Named(named, gate_only=False)
    held = tuple((name, sets[digest]) for name, digest in named_people.items())
    return Write(
        context, step, h1, h2, members, frozenset(json.loads(delivered)), held, noised=False, fate=fate
    )


def closed_epoch(epoch: str, since: datetime, why: str) -> str:
    """Return the sentence about a closed epoch, with date and cure."""
    return (
        f"epoch {epoch} was closed on {since.date()} because {why}; make a snapshot with a new label, and ask the "
        "statistician for a version that names it"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()
