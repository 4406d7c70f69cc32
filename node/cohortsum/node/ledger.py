"""What this site has done in rounds, on disk before anything that follows from it leaves.

A context is spent once, a survivor set is signed once per context and binds every retry of its study, an answer is given
once per part. Rows hold digests and roster indices, and the opened sums that a fit goes on from; no share, seed, mask or value
of this site is ever written.

A ledger that was set back to an older copy has forgotten what left the site. Whoever holds messages that the site signed and
the ledger does not know proves it: the ledger is then marked, and answers nothing until it is rebuilt (`recovery`).
"""

import json
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from cohortsum.crypto.errors import StoreError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.audit_log import deed_of
from cohortsum.node.budget import Budget
from cohortsum.node.epochs import REBUILT, Epochs
from cohortsum.node.ledger_file import LedgerFile, now
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.audit_check import Examined
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    PeersSeen,
    Record,
    RoundSeen,
    SetOpened,
    SumSeen,
    SurvivorsNamed,
    SurvivorsSigned,
)
from cohortsum.protocol.ledger import History, NamedRound, PeopleSet, Status, Step, Write
from cohortsum.protocol.ledger.history import Closed, Named, Unresolved
from cohortsum.protocol.proof import ProvenRound
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.planning import by_block
from cohortsum.study.privacy.lifetime import Cost
from cohortsum.study.sums import Integers, pack, unpack


@dataclass(frozen=True, slots=True)
class ProvenDeed:
    """What a transcript proves of this site.

    Attributes:
        proven: the round and what the site signed in it.
        study: it belongs to.
        people: whose rows had entered; None: not known any more.
        cost: of the masked input to the privacy budget; None without noise.
    """

    proven: ProvenRound
    study: FrozenStudy
    people: Mapping[str, PeopleSet] | None = field(repr=False)
    cost: Cost | None


class Ledger:
    """The durable log of one site.

    Args:
        path: the SQLite file; made if need be. None keeps it in memory, for simulations in one process.

    Attributes:
        epochs: which data each epoch label stands for, and the study versions seen.
        budget: what noised rounds have cost the people, and what is set aside for them.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = LedgerFile(path)
        self._database = self._file.database
        self.epochs = Epochs(self._file)
        self.budget = Budget(self._file)

    def write(
        self,
        study: bytes,
        record: Record,
        people: Mapping[str, PeopleSet] = MappingProxyType({}),
        status: Status = Status.DERIVABLE,
        charged: bool = False,
    ) -> None:
        """Make a record durable. Raises StoreError if it cannot be, or if it contradicts an earlier one.

        Args:
            study: digest of the study that the record is about.
            record: what is done next.
            people: with a spent context, the people sets that entered it, by name; none where no rule is about people.
            status: with the first spent context, what this site is from then on.
            charged: with a spent context, whether it is charged to the privacy budget; all of it is durable, or nothing is.
        """
        with self._file.transaction():
            match record:
                case RoundSeen(context, key):
                    self._database.execute(
                        "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
                        (context, study, key.round_id, key.iteration, key.attempt, now()),
                    )
                case PeersSeen(_, counters):
                    self._database.executemany(
                        "INSERT INTO peers VALUES (?, ?) ON CONFLICT (site) DO UPDATE SET counter = max(counter, excluded.counter)",
                        counters.items(),
                    )
                case ContextSpent():
                    self._deed(record.context, "spent", record.masked)
                    self._spend(record, people)
                    if charged:
                        self.budget.charge(record.context, study)
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
                case SumSeen(context, survivors, blocks, values):
                    self._database.execute(
                        "INSERT INTO seen_sums VALUES (?, ?, ?)",
                        (context, ",".join(map(str, survivors)), pack(by_block(blocks, values))),
                    )
            deed = deed_of(study, record)
            if deed is not None:
                self._file.note(deed)

    def write_shares(
        self,
        study: bytes,
        context: bytes,
        key: RoundKey,
        plan: bytes,
        dealers: Sequence[int],
        people: Mapping[str, PeopleSet],
    ) -> None:
        """Make durable that this site deals shares of its numbers in a committee's run. Raises StoreError if it cannot be.

        No count of masked inputs is touched: there is none here, and nothing of the run is proven to others later.

        Args:
            study: digest of the study.
            context: of the run.
            key: of the run; its iteration is the stage.
            plan: digest of what is computed.
            dealers: roster indices of the sites that deal.
            people: the people sets that enter, by name; none where no rule is about people.
        """
        with self._file.transaction():
            self._database.execute(
                "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
                (context, study, key.round_id, key.iteration, key.attempt, now()),
            )
            everybody = frozenset(dealers)
            self._spend(ContextSpent(context, plan, plan, plan, everybody, everybody), people)
            self._database.execute(
                "INSERT OR IGNORE INTO facts VALUES ('status', ?)", (Status.DERIVABLE.value,)
            )
            self._file.note(Deed(DeedKind.SHARES_DEALT, study, context, plan))

    def note(self, deed: Deed) -> None:
        """Write a line of the audit log; raises StoreError if it cannot be written."""
        self._file.note(deed)

    def note_answer(self, deed: Deed) -> None:
        """Write down the answer to a study that is about to leave, unless it is the one that left last."""
        self._file.note_once(f"answer {deed.study.hex()}", deed)

    def end(self, study: bytes, state: str) -> None:
        """Note that a study is over, and give back what it did not use of the privacy budget."""
        with self._file.transaction():
            self.budget.release(study)
            self._file.note_once(f"end {study.hex()}", Deed(DeedKind.STUDY_OVER, study, detail=state))

    def audit(self) -> Examined:
        """Return whether the audit log holds together and ends as this ledger remembers; raises StoreError."""
        return self._file.audit()

    def renew_audit(self) -> str:
        """Begin a new file of the audit log; return the name that the old one has now."""
        return self._file.renew_audit()

    def seen_rounds(self) -> frozenset[tuple[bytes, int, int]]:
        """Return (round id, iteration, attempt) of every round this site took part in."""
        with self._file.reading():
            return frozenset(self._database.execute("SELECT round_id, iteration, attempt FROM rounds"))

    def signed_survivors(self, study: bytes, iteration: int) -> tuple[int, ...] | None:
        """Return the survivor set that this site stands by: any further attempt at the iteration must keep it. None: none yet."""
        query = """
            SELECT deeds.survivors FROM deeds JOIN rounds USING (context)
            WHERE rounds.study = ? AND rounds.iteration = ? AND deeds.deed = 'signed'
                AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
            ORDER BY rounds.attempt LIMIT 1
        """
        with self._file.reading():
            row = self._database.execute(query, (study, iteration)).fetchone()
        return None if row is None else tuple(int(index) for index in str(row[0]).split(","))

    def seen_sums(self, study: bytes) -> tuple[tuple[tuple[int, ...], dict[str, Integers]], ...]:
        """Return survivors and sums of the rounds of a study whose sums this site recomputed, in their order."""
        query = """
            SELECT survivors, sums FROM seen_sums JOIN rounds USING (context) WHERE rounds.study = ? ORDER BY iteration
        """
        with self._file.reading():
            rows = self._database.execute(query, (study,)).fetchall()
        return tuple((tuple(map(int, str(survivors).split(","))), unpack(sums)) for survivors, sums in rows)

    def signed_rounds(self) -> tuple[tuple[bytes, bytes, tuple[int, ...]], ...]:
        """Return context, study digest and survivors of every round whose survivors this site signed."""
        query = """
            SELECT context, rounds.study, survivors FROM deeds JOIN rounds USING (context)
            WHERE deed = 'signed' AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
        """
        with self._file.reading():
            rows = self._database.execute(query).fetchall()
        return tuple(
            (context, study, tuple(map(int, str(survivors).split(",")))) for context, study, survivors in rows
        )

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep the other studies of this node out: what is read inside still holds when something is written inside."""
        with self._file.alone():
            yield

    def people_key(self) -> SecretBytes:
        """Return the key of this site's codes for people, drawn once; it never leaves the ledger's file."""
        held = self._file.fact("people key")
        if held is None:
            held = secrets.token_hex(32)
            with self._file.transaction():
                self._database.execute("INSERT INTO facts VALUES ('people key', ?)", (held,))
        return SecretBytes(bytes.fromhex(held), "people key")

    def add_withdrawn(self, codes: frozenset[bytes]) -> None:
        """Note that these people withdrew consent: no set with one of them is answered for."""
        with self._file.transaction():
            self._database.executemany(
                "INSERT OR IGNORE INTO withdrawn VALUES (?)", [(code,) for code in codes]
            )

    def history(self, site: int) -> History:
        """Return whom this site, with roster index ``site``, has answered for, and what is known of the openings."""
        query = """
            SELECT context, h1, h2, advertisers, delivered, people, closed, rounds.study, iteration, attempt,
                named.survivors, named.signatures, EXISTS (SELECT 1 FROM charges WHERE charges.context = writes.context)
            FROM writes JOIN rounds USING (context) LEFT JOIN named USING (context) ORDER BY writes.rowid
        """
        with self._file.reading():
            rows = self._database.execute(query).fetchall()
            stored = dict(self._database.execute("SELECT name, codes FROM people_sets").fetchall())
            withdrawn = frozenset(code for (code,) in self._database.execute("SELECT code FROM withdrawn"))
        sets = {name: PeopleSet.from_data(codes.hex()) for name, codes in stored.items()}
        writes = tuple(stored_write(row, sets) for row in rows)
        held = self._file.fact("status")
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
        with self._file.reading():
            (number,) = self._database.execute("SELECT count(*) FROM deeds WHERE deed = 'spent'").fetchone()
        return int(number)

    def peers(self) -> dict[int, int]:
        """Return the highest counter seen of every other site, by roster index."""
        with self._file.reading():
            return dict(self._database.execute("SELECT site, counter FROM peers").fetchall())

    def has_spent(self, context: bytes) -> bool:
        """Return whether this ledger knows of a masked input in a context."""
        return "spent" in self.deeds(context)

    def write_of(self, context: bytes) -> tuple[frozenset[int], bytes] | None:
        """Return U1 and the study's digest of a masked input, or None where there was none."""
        query = "SELECT advertisers, rounds.study FROM writes JOIN rounds USING (context) WHERE context = ?"
        with self._file.reading():
            row = self._database.execute(query, (context,)).fetchone()
        return None if row is None else (frozenset(json.loads(row[0])), row[1])

    def status(self) -> Status | None:
        """Return what this site has been since its first masked input; None before it."""
        held = self._file.fact("status")
        return None if held is None else Status(held)

    def named_of(self, study: bytes) -> dict[bytes, tuple[int, ...]]:
        """Return the survivors that t sites named in attempts of a study that are not closed, by context."""
        query = """
            SELECT context, named.survivors FROM named JOIN rounds USING (context)
            WHERE study = ? AND context NOT IN (SELECT context FROM writes WHERE closed IS NOT NULL)
        """
        with self._file.reading():
            rows = self._database.execute(query, (study,)).fetchall()
        return {context: tuple(map(int, str(survivors).split(","))) for context, survivors in rows}

    def unresolved(self) -> tuple[bytes, ...]:
        """Return the contexts of masked inputs of which this site does not know whether they were opened."""
        query = (
            "SELECT context FROM writes WHERE closed IS NULL AND context NOT IN (SELECT context FROM named)"
        )
        with self._file.reading():
            return tuple(context for (context,) in self._database.execute(query))

    def name(self, proven: ProvenRound) -> None:
        """Note the survivors that a transcript proves."""
        with self._file.transaction():
            self._name(proven.context, proven.survivors, proven.signatures)

    def close_write(self, context: bytes) -> None:
        """Note that an attempt is closed: its masked input counts as not made and costs nothing, its survivors bind nobody."""
        with self._file.transaction():
            self.budget.refund(context)
            closing = self._database.execute(
                "UPDATE writes SET closed = ? WHERE context = ? AND closed IS NULL", (now(), context)
            )
            written = self.write_of(context)
            if closing.rowcount and written is not None:
                self._file.note(Deed(DeedKind.ATTEMPT_CLOSED, written[1], context))

    def mark_restored(self) -> None:
        """Note that this ledger lacks what the site has done: nothing is answered until it is rebuilt."""
        with self._file.transaction():
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('restored', ?)", (now(),))
            self._file.note(Deed(DeedKind.LEDGER_OLDER))

    def restored_since(self) -> datetime | None:
        """Return when this ledger was found to be an older copy (UTC), or None."""
        value = self._file.fact("restored")
        return None if value is None else datetime.fromisoformat(value)

    def incarnation(self) -> int:
        """Return how often this ledger was rebuilt."""
        return int(self._file.fact("incarnation") or 0)

    def rebuild(self, rounds: Sequence[ProvenDeed], unknown_epochs: Sequence[str]) -> None:
        """Add everything that transcripts prove and this ledger lacks, and lift the mark; never takes anything away.

        What the site may have answered after its masked input counts as answered.

        Args:
            rounds: what is proven, in any order.
            unknown_epochs: labels whose content is not known any more; they are closed.
        """
        with self._file.transaction():
            for deed in rounds:
                self._rebuild_one(deed.proven, deed.study.digest, deed.people)
                if deed.cost is not None:
                    self.budget.restore(deed.proven.context, deed.study, deed.cost)
                self.epochs.note_version(deed.study.study, deed.study.version)
            for epoch in unknown_epochs:
                self.epochs.close(epoch, REBUILT)
            number = self.incarnation() + 1
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('incarnation', ?)", (str(number),))
            self._database.execute("DELETE FROM facts WHERE name = 'restored'")
            self._file.note(Deed(DeedKind.LEDGER_REBUILT, detail=f"incarnation {number}"))

    def knows_all_people(self) -> bool:
        """Return whether the people of every masked input are known; after a rebuild they may not be."""
        return self._file.fact("people unknown") is None

    def deeds(self, context: bytes) -> tuple[str, ...]:
        """Return what was recorded for a context, in order of time."""
        with self._file.reading():
            rows = self._database.execute(
                "SELECT deed FROM deeds WHERE context = ? ORDER BY rowid", (context,)
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rebuild_one(self, proven: ProvenRound, study: bytes, people: Mapping[str, PeopleSet] | None) -> None:
        key, context = proven.key, proven.context
        self._database.execute(
            "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?)",
            (context, study, key.round_id, key.iteration, key.attempt, now()),
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
                self._database.execute("INSERT OR REPLACE INTO facts VALUES ('people unknown', ?)", (now(),))
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
            "INSERT INTO deeds VALUES (?, ?, ?, ?, ?)", (context, deed, digest, survivors, now())
        )


Row = tuple[bytes, bytes, bytes, str, str, str, str | None, bytes, int, int, str | None, str | None, int]


def stored_write(row: Row, sets: Mapping[str, PeopleSet]) -> Write:
    """Return one masked input of the ledger, with the people sets that its row names; raises StoreError for another row."""
    try:
        return _read_write(row, sets)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):  # the cause would quote it
        raise StoreError(
            "a row of the ledger has another form than this version writes; run node recover"
        ) from None


def _read_write(row: Row, sets: Mapping[str, PeopleSet]) -> Write:
    (
        context,
        h1,
        h2,
        advertisers,
        delivered,
        people,
        closed,
        study,
        iteration,
        attempt,
        survivors,
        signed,
        noised,
    ) = row
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
        context, step, h1, h2, members, frozenset(json.loads(delivered)), held, noised=bool(noised), fate=fate
    )
