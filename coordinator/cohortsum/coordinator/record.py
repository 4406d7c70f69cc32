"""One study's rows in the store: the study itself, its answers, its attempts and their messages, its result.

Whatever a restart needs is written before anybody hears of it. Rows name sites by id; the machine knows them by roster index,
and only this module turns one into the other. It knows every site that the roster had when the study was taken up: one that
is denied later is still named in what happened before.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from cohortsum.coordinator.attempt_rows import (
    REPLAYED,
    Event,
    OpenAttempt,
    add_event,
    dealing_of,
    forget_events,
    open_attempt,
)
from cohortsum.coordinator.item_rows import Review, add_item, add_review
from cohortsum.coordinator.items import HeldItem
from cohortsum.coordinator.linked_releases import linked_releases
from cohortsum.coordinator.store import (
    OVER,
    AnswerRow,
    IterationRow,
    MessageRow,
    ResultRow,
    ReviewRow,
    RoundRow,
    Store,
    StudyRow,
    as_utc,
    note,
    now,
)
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.codec import decode, packet_from_bytes, packet_to_bytes
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.messages import Envelope, Kind, Opening, Packet
from cohortsum.protocol.roster import Roster
from cohortsum.report.document import ResultDocument, from_json, to_json
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.sums import Integers, pack, unpack

TRANSCRIPT = REPLAYED
"""Messages that prove what happened in a round; none holds a share, only digests of sealed ones."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store knew of a study when it was taken up.

    Attributes:
        submitted: when the coordinator took it, UTC.
        closed: when its window closed, UTC; None while it is open.
        answers: the newest answer of every site.
    """

    submitted: datetime
    closed: datetime | None
    answers: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class OpenedIteration:
    """An opened round of a study, with indices as roster indices.

    Attributes:
        context: of the attempt that opened.
        key: of that attempt.
        advertised: U1.
        survivors: U3.
        sums: by block name.
        earlier: context of the round of an earlier version whose sums it did not open anew; empty for none.
    """

    context: bytes
    key: RoundKey
    advertised: tuple[int, ...]
    survivors: tuple[int, ...]
    sums: Mapping[str, Integers] = field(repr=False)
    earlier: bytes = b""


class StudyRecord:
    """The rows of one study. Every method that writes is one transaction; raises StoreError.

    Args:
        store: the durable store.
        study: which study.
        roster: the roster it names, with the sites that count when it is taken up.

    Attributes:
        study: which study.
        state: as it was last entered.
    """

    def __init__(self, store: Store, study: FrozenStudy, roster: Roster) -> None:
        self.state = "enrolling"
        self.study = study
        self._store, self._digest = store, study.digest.hex()
        self._refused: set[tuple[bytes, str, str]] = set()
        self._ids = {index: str(site) for site, index in roster.sites.items()}

    @property
    def names(self) -> Mapping[int, str]:
        """The ids of the study's sites by roster index, those denied since included."""
        return self._ids

    def id_of(self, site: int) -> str:
        """Return the id of a roster index."""
        return self._ids[site]

    def listed(self, sites: Sequence[int]) -> str:
        """Return roster indices as ids with commas between them."""
        return ",".join(map(self.id_of, sites))

    def remember(self, signed: SignedStudy, moment: datetime) -> Remembered:
        """Write the study down as taken at ``moment``, or return what was known of it before a restart."""
        with self._store.transaction() as session:
            row = session.get(StudyRow, self._digest)
            if row is None:
                row = StudyRow(
                    digest=self._digest,
                    name=self.study.study,
                    version=self.study.version,
                    canonical=signed.canonical,
                    statistician=signed.statistician,
                    signature=signed.signature,
                    state=self.state,
                    submitted=moment,
                )
                session.add(row)
                note(session, Deed(DeedKind.STUDY_SUBMITTED, self.study.digest, by=signed.statistician))
            packets = session.scalars(select(AnswerRow.packet).where(AnswerRow.study == self._digest)).all()
            return Remembered(
                as_utc(row.submitted),
                None if row.closed is None else as_utc(row.closed),
                tuple(packet_from_bytes(packet).envelope for packet in packets),
            )

    def enter(self, state: str, reason: str = "") -> None:
        """Note the state that the study is in now."""
        self.state = state
        with self._store.transaction() as session:
            row = session.get_one(StudyRow, self._digest)
            if state in OVER and row.state != state:
                note(session, Deed(DeedKind.STUDY_OVER, self.study.digest, detail=state))
            row.state, row.reason = state, reason

    def close_window(self, moment: datetime) -> None:
        """Note that the enrolment window closed: it never opens again."""
        with self._store.transaction() as session:
            session.get_one(StudyRow, self._digest).closed = moment

    def answer(self, site: int, packet: Packet) -> None:
        """Note a site's answer in the place of an earlier one."""
        name = self.id_of(site)
        with self._store.transaction() as session:
            row = session.scalar(
                select(AnswerRow).where(AnswerRow.study == self._digest, AnswerRow.site == name)
            )
            if row is None:
                row = AnswerRow(study=self._digest, site=name)
                session.add(row)
            row.packet, row.received = packet_to_bytes(packet), now()
            approval = packet.envelope.kind is Kind.APPROVAL
            kind = DeedKind.APPROVAL_TAKEN if approval else DeedKind.STAY_OUT_TAKEN
            note(session, Deed(kind, self.study.digest, digest=packet.envelope.digest, by=name))

    def iteration_opened(
        self,
        context: bytes,
        advertised: Sequence[int],
        survivors: Sequence[int],
        sums: Mapping[str, Integers],
    ) -> None:
        """Note an opened sum, before any site hears of it; again, where nobody knows whether the first time was kept."""
        with self._store.transaction() as session:
            row = session.get_one(RoundRow, context.hex())
            if row.state == "opened":
                return
            row.state, row.ended, row.survivors = "opened", now(), self.listed(survivors)
            forget_events(session, context)
            session.add(
                IterationRow(
                    context=row.context,
                    survivors=row.survivors,
                    advertised=self.listed(advertised),
                    sums=pack(sums),
                )
            )
            note(session, Deed(DeedKind.SUM_OPENED, self.study.digest, context))

    def committee_answered(
        self, context: bytes, key: RoundKey, dealers: Sequence[int], results: bytes, last: bool
    ) -> None:
        """Note that a committee answered; ``results`` is the digest of what its members signed.

        The last run of a study stands among the rounds, so that a result belongs to one.
        """
        with self._store.transaction() as session:
            if last:
                session.add(
                    RoundRow(
                        context=context.hex(),
                        study=self._digest,
                        round_id=key.round_id.hex(),
                        iteration=key.iteration,
                        attempt=key.attempt,
                        state="opened",
                        survivors=self.listed(dealers),
                        opened=now(),
                        ended=now(),
                    )
                )
            note(session, Deed(DeedKind.COMMITTEE_ANSWERED, self.study.digest, context, results))

    def iterations(self) -> tuple[OpenedIteration, ...]:
        """Return the opened rounds of the study, in their order."""
        with self._store.transaction() as session:
            rows = session.execute(
                select(RoundRow, IterationRow)
                .join(IterationRow, IterationRow.context == RoundRow.context)
                .where(RoundRow.study == self._digest)
                .order_by(RoundRow.iteration)
            ).all()
            index_of = {name: index for index, name in self._ids.items()}
            return tuple(
                OpenedIteration(
                    bytes.fromhex(row.context),
                    RoundKey(bytes.fromhex(row.round_id), row.iteration, row.attempt),
                    tuple(sorted(index_of[name] for name in held.advertised.split(","))),
                    tuple(sorted(index_of[name] for name in held.survivors.split(","))),
                    unpack(held.sums),
                    _earlier_of(row),
                )
                for row, held in rows
            )

    def opened(self) -> tuple[bytes, ...]:
        """Return the contexts of the rounds that opened."""
        query = select(RoundRow.context).where(RoundRow.study == self._digest, RoundRow.state == "opened")
        with self._store.transaction() as session:
            return tuple(map(bytes.fromhex, session.scalars(query)))

    def open_attempt(self, iteration: int) -> OpenAttempt | None:
        """Return what is held of the attempt at an iteration that was open when the coordinator stopped.

        None where there is none, or where what moved it on is not all there: played again it would be another attempt.
        """
        with self._store.transaction() as session:
            row = session.scalar(
                select(RoundRow)
                .where(RoundRow.study == self._digest, RoundRow.iteration == iteration)
                .where(RoundRow.state == "open")
                .order_by(RoundRow.attempt.desc())
            )
            held = None if row is None else open_attempt(session, row)
            return held if held is not None and held.is_whole else None

    def dealing(self, context: bytes) -> tuple[Sequence[Envelope], Sequence[Envelope]]:
        """Return adverts and share messages of the sites that dealt in an attempt."""
        with self._store.transaction() as session:
            return dealing_of(session, context)

    def attempts(self, iteration: int, resumed: bytes = b"") -> tuple[int, tuple[str, ...]]:
        """Return how many attempts at an iteration were made before a restart, and the ids of the survivors that bind the next.

        Sites that signed a survivor set keep to it, so whatever set was named last binds. An attempt that was open when
        the coordinator stopped, and is not the one that is ``resumed``, is over: its sites begin anew when the next one opens.
        """
        with self._store.transaction() as session:
            rows = session.scalars(
                select(RoundRow)
                .where(RoundRow.study == self._digest, RoundRow.iteration == iteration)
                .order_by(RoundRow.attempt)
            ).all()
            for row in rows:
                context = bytes.fromhex(row.context)
                if row.state == "open" and context != resumed:
                    row.state, row.ended, row.reason = "aborted", now(), "the coordinator stopped"
                    forget_events(session, context)
                    note(
                        session, Deed(DeedKind.ATTEMPT_ABORTED, self.study.digest, context, detail="restart")
                    )
            before = [row for row in rows if row.context != resumed.hex()]
            named = [row.survivors for row in before if row.survivors]
            made = max((row.attempt for row in before), default=0)
        return made, tuple(named[-1].split(",")) if named else ()

    def attempt_opened(self, context: bytes, key: RoundKey, opening: Envelope, exact: bool) -> None:
        """Note an attempt before its sites are invited."""
        with self._store.transaction() as session:
            session.add(
                RoundRow(
                    context=context.hex(),
                    study=self._digest,
                    round_id=key.round_id.hex(),
                    iteration=key.iteration,
                    attempt=key.attempt,
                    state="open",
                    opened=now(),
                    opening=packet_to_bytes(Packet(opening)),
                    exact=exact,
                )
            )
            note(session, Deed(DeedKind.ATTEMPT_OPENED, self.study.digest, context, opening.digest))

    def message(self, packet: Packet) -> None:
        """Note a message that had its effect. One that was noted before a restart is not noted again."""
        envelope = packet.envelope
        with self._store.transaction() as session:
            held = select(MessageRow.digest).where(
                MessageRow.context == envelope.context.hex(),
                MessageRow.sender == envelope.sender,
                MessageRow.kind == envelope.kind.name,
            )
            if session.scalar(held) == envelope.digest.hex():
                return
            is_open = session.get_one(RoundRow, envelope.context.hex()).state == "open"
            if envelope.kind in REPLAYED and is_open:  # a late one is for the transcript alone
                add_event(session, envelope.context, Event.of(packet))
            session.add(
                MessageRow(
                    context=envelope.context.hex(),
                    sender=envelope.sender,
                    kind=envelope.kind.name,
                    digest=envelope.digest.hex(),
                    packet=packet_to_bytes(Packet(envelope)) if envelope.kind in TRANSCRIPT else b"",
                    received=now(),
                )
            )
            study, sender, kind = self.study.digest, envelope.sender, envelope.kind.name
            deed = Deed(
                DeedKind.MESSAGE_TAKEN, study, envelope.context, envelope.digest, by=sender, detail=kind
            )
            note(session, deed)

    def event(self, context: bytes, event: Event) -> None:
        """Note what else moved an attempt on, before anything follows from it."""
        with self._store.transaction() as session:
            add_event(session, context, event)

    def refused(self, context: bytes, sender: str, check: str) -> None:
        """Note that a check refused a message; once for sender, check and attempt, or a site could fill the disk."""
        if (context, sender, check) not in self._refused:
            self._store.note(
                Deed(DeedKind.MESSAGE_REFUSED, self.study.digest, context, by=sender, detail=check)
            )
            self._refused.add((context, sender, check))

    def evidence_kept(self, context: bytes, digest: bytes, accused: str, check: str) -> None:
        """Note that evidence against a site is on file, under the SHA-256 of the file."""
        self._store.note(
            Deed(DeedKind.EVIDENCE_KEPT, self.study.digest, context, digest, by=accused, detail=check)
        )

    def survivors(self, context: bytes, survivors: Sequence[int]) -> None:
        """Note the named set before any site hears of it: a restarted coordinator must keep to it."""
        with self._store.transaction() as session:
            session.get_one(RoundRow, context.hex()).survivors = self.listed(survivors)
            note(session, Deed(DeedKind.SURVIVORS_NAMED, self.study.digest, context))

    def attempt_aborted(self, context: bytes, reason: str, survivors: Sequence[int]) -> None:
        """Note that an attempt ended without a sum, and the set that a retry is bound to; again, where that is known better."""
        with self._store.transaction() as session:
            row = session.get_one(RoundRow, context.hex())
            noted = row.state == "aborted"
            row.state, row.ended, row.reason = "aborted", now(), reason
            row.survivors = self.listed(survivors)
            forget_events(session, context)
            if not noted:
                note(session, Deed(DeedKind.ATTEMPT_ABORTED, self.study.digest, context))

    def computed(
        self,
        context: bytes,
        survivors: Sequence[int],
        document: ResultDocument,
        sums: Mapping[str, Integers],
        review: Review,
        items: Sequence[HeldItem],
    ) -> None:
        """Note what became of the tables of a study whose rounds are over, and the sums behind them.

        Args:
            context: of the attempt that opened, of several rounds the first.
            survivors: of that attempt.
            document: of these items.
            sums: of that attempt.
            review: what is kept besides.
            items: after their checks.
        """
        written = to_json(document)
        with self._store.transaction() as session:
            row = session.get_one(RoundRow, context.hex())
            if row.state != "opened":
                note(session, Deed(DeedKind.SUM_OPENED, self.study.digest, context))
            row.state, row.ended, row.survivors = "opened", now(), self.listed(survivors)
            session.merge(
                ResultRow(
                    study=self._digest,
                    context=row.context,
                    document=written,
                    sums=pack(sums),
                    released=now(),
                )
            )
            add_review(session, self._digest, review)
            for place, held in enumerate(items):
                add_item(session, self._digest, held, place)
            if document.tables:
                digest = hashlib.sha256(written).digest()
                note(session, Deed(DeedKind.RESULT_RELEASED, self.study.digest, context, digest))

    def linked(self, survivors: Collection[str]) -> tuple[Earlier, ...]:
        """Return the crosstabs that other studies over the same people showed or may show."""
        with self._store.transaction() as session:
            return linked_releases(session, self.study, survivors)

    @property
    def releasing(self) -> asyncio.Lock:
        """Held while tables are judged and kept."""
        return self._store.releasing

    def written(self) -> bool:
        """Whether the results folder holds what the store holds."""
        with self._store.transaction() as session:
            row = session.get(ReviewRow, self._digest)
            return row is not None and row.written

    def wrote(self) -> None:
        """Note that the results folder holds what the store holds."""
        with self._store.transaction() as session:
            session.get_one(ReviewRow, self._digest).written = True

    def document(self) -> ResultDocument | None:
        """Return the document as it stands, or None where no round is over."""
        stored = self._store.result(self._digest)
        return None if stored is None else from_json(stored)


def _earlier_of(row: RoundRow) -> bytes:
    opening = packet_from_bytes(row.opening).envelope
    message = decode(opening.kind, opening.payload)
    return message.earlier if isinstance(message, Opening) else b""
