"""One study from its first answer to its result: the edge around the coordinator's state machine.

The runner enrols the sites' signed answers, waits until those who approved are present, runs attempts, keeps a mailbox per
site, spools uploads, minds deadlines and writes every effective message to the store. Everything runs in one event loop;
only the addition of uploads and the removal of masks go to worker threads.
"""

import asyncio
import os
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from sqlalchemy import select

from cohortsum.coordinator.amendment import Earlier
from cohortsum.coordinator.clock import Clock, SystemClock, before
from cohortsum.coordinator.mailbox import Mailbox
from cohortsum.coordinator.presence import Presence
from cohortsum.coordinator.publish import result_document, write_release
from cohortsum.coordinator.spool import Spool, Upload
from cohortsum.coordinator.store import (
    AnswerRow,
    MessageRow,
    ResultRow,
    RoundRow,
    Store,
    StudyRow,
    as_utc,
    now,
)
from cohortsum.coordinator.sums import pack
from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.parallel import add_masks_parallel
from cohortsum.protocol.approvals import approval_context, read_answer
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorSetup, Opened
from cohortsum.protocol.effects import (
    Audit,
    AwaitStep,
    Combine,
    CoordinatorEffect,
    Deliver,
    DiscardUploads,
    MessageTaken,
)
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.roster import Roster
from cohortsum.report.document import ResultDocument, from_json, to_json
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.enrolment import closes_at, closes_early, too_late
from cohortsum.study.planning import StudyPlan, by_block

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a study ended: with a released document, or with the public reason why there is none."""

    document: ResultDocument | None
    reason: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a study waits for people, where its own deadlines are not to count.

    Attributes:
        enrol_s: the enrolment window, from submission; None takes the study's.
        gather_s: for approving sites to be present; None takes the study's.
        step_max_s: a step with named survivors, at most; None takes the study's.
    """

    enrol_s: float | None = None
    gather_s: float | None = None
    step_max_s: float | None = None


TRANSCRIPT = frozenset({Kind.ADVERT, Kind.SHARES, Kind.MASKED, Kind.CONSISTENCY})
"""Messages that prove what happened in a round; none holds a share, only digests of sealed ones."""

AS_WRITTEN = Pace()
"""Every wait as the study has it."""


class StudyRunner:
    """Runs one study.

    Args:
        plan: the study's plan.
        signed: the study as the statistician signed it.
        roster: the roster it names.
        signer: the coordinator's identity.
        store: the durable store.
        folder: where uploads are spooled.
        results: where a release is written.
        pool: threads for additions and masks.
        pace: waits that differ from the study's.
        clock: for enrolment and gathering.
        earlier: finds the released version that this one may build on.
    """

    def __init__(
        self,
        plan: StudyPlan,
        signed: SignedStudy,
        roster: Roster,
        signer: Signer,
        store: Store,
        folder: Path,
        results: Path,
        pool: Executor,
        pace: Pace = AS_WRITTEN,
        clock: Clock | None = None,
        earlier: Callable[[], Earlier | None] = lambda: None,
    ) -> None:
        self.plan = plan
        self.signed = signed
        self.over = False
        self.state = "enrolling"
        self.closes = datetime.max
        self._roster, self._signer, self._store = roster, signer, store
        self._folder, self._results, self._pool = folder, results, pool
        self._pace, self._clock, self._find_earlier = pace, clock or SystemClock(), earlier
        self._names = {index: str(site) for site, index in roster.sites.items()}
        self._boxes = {index: Mailbox() for index in self._names}
        self.presence = Presence()
        self._changed = asyncio.Condition()
        self._answers: dict[int, Envelope | None] = {}
        self._closed: datetime | None = None
        self._stopped: tuple[str, str] | None = None
        self._machine: CoordinatorRound | None = None
        self._spool: Spool | None = None
        self._deadlines: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: deque[CoordinatorEffect] = deque()
        self._log = log.bind(study=plan.study.study, version=plan.study.version)

    @property
    def answers(self) -> Mapping[int, bool]:
        """Whether each site that has answered takes part, by roster index."""
        return {index: held is not None for index, held in self._answers.items()}

    @property
    def names(self) -> Mapping[int, str]:
        """The sites that count now, by roster index."""
        return self._names

    def owns(self, context: bytes) -> bool:
        """Whether a message with this context belongs to this study."""
        machine = self._machine
        standing = approval_context(self.plan.round.study_digest, self.plan.round.roster_digest)
        return context == standing or (machine is not None and context == machine.fixed.context)

    async def run(self) -> Outcome:
        """Enrol, gather, run attempts until one opens or none may follow, publish, and end the study."""
        study = self.plan.study
        submitted = self.remember()
        until = closes_at(study, submitted)
        if self._pace.enrol_s is not None:
            until = submitted + timedelta(seconds=self._pace.enrol_s)
        self.closes = until
        outcome = await self._released() or await self._enrol_and_attempt(until)
        state = "released" if outcome.document is not None else "ended"
        if self._stopped is not None and outcome.document is None:
            state, reason = self._stopped
            outcome = Outcome(None, reason)
        self._enter(state, outcome.reason)
        self.over = True
        for box in self._boxes.values():
            box.arrived.set()
        await self._notify()
        self._log.info("study.ended", released=outcome.document is not None, reason=outcome.reason)
        return outcome

    async def stop(self, state: str, reason: str) -> None:
        """End the study without a result, unless its sum is open already; an open round is aborted."""
        if self.over:
            return
        self._stopped = (state, reason)
        machine = self._machine
        if machine is not None and machine.step is not None:
            await self._apply(machine.abort(reason))
        await self._notify()

    async def exclude(self, roster: Roster) -> None:
        """Go on without the sites that ``roster`` no longer has; a round that is open loses them as dropouts."""
        self._roster = roster
        self._names = {index: str(site) for site, index in roster.sites.items()}
        self._answers = {index: held for index, held in self._answers.items() if index in self._names}
        await self._notify()

    async def submit(self, packet: Packet) -> None:
        """Take a site's packet; the sender was checked against its TLS identity. Raises RemoteProtocolError."""
        if packet.envelope.kind in (Kind.APPROVAL, Kind.NOT_TAKING_PART):
            await self._answer(packet)
            return
        machine = self._running(packet.envelope.context)
        effects = machine.receive(packet)
        match effects:
            case (Audit(check, _, sentence),):  # nothing but a refusal: the edge logs it and tells the sender
                raise RemoteProtocolError(check, sentence.removeprefix(f"{check}: "))
            case _:
                await self._apply(effects)

    def begin_upload(self, site: int, context: bytes) -> Upload:
        """Start to spool the data words of a site; raises RemoteProtocolError (U2) where none are awaited."""
        machine = self._running(context)
        known = machine.awaits_upload(site) or machine.has_upload(site)
        if self._spool is None or not known:
            raise RemoteProtocolError("U2", "no upload is awaited")
        return self._spool.receive(site)

    async def end_upload(self, site: int, context: bytes, upload: Upload) -> None:
        """Keep a spooled upload, if it is still awaited."""
        machine = self._running(context)
        digest = upload.finish()
        if machine.has_upload(site, digest):
            return  # sent again because the answer was lost
        if self._spool is None or not machine.awaits_upload(site):
            raise RemoteProtocolError("U2", "no upload is awaited")
        self._spool.keep(site, upload, digest)
        self._log.info("round.upload", site=self._names[site])
        await self._apply(machine.uploaded(site, digest))

    async def next_packet(self, site: int, after: int, wait_s: float) -> tuple[int, Packet | None]:
        """Return number and packet that follow ``after`` for a site, or (0, None) if none comes in time."""
        with self.presence.polling(site):
            await self._notify()  # somebody may be waiting for this site to be present
            return await self._boxes[site].next(after, wait_s, lambda: self.over)

    async def _answer(self, packet: Packet) -> None:
        index, approval = read_answer(packet.envelope, self.plan.round, self._roster)
        self.presence.seen(index)
        held = packet.envelope if approval is not None else None
        if index in self._answers and self._answers[index] == held:
            return
        if self._closed is not None or self.over:
            if held is None:
                return  # it stays out of the round by itself
            raise RemoteProtocolError("A1", too_late(self.plan.study, self._closed or self._clock.now()))
        if approval is not None and approval.profile != "open_data":
            raise RemoteProtocolError("A2", "profiles other than open_data are not in this version")
        self._record_answer(self._names[index], packet)
        self._answers[index] = held
        self._log.info("study.answer", site=self._names[index], taking_part=approval is not None)
        await self._notify()

    async def _enrol_and_attempt(self, until: datetime) -> Outcome:
        await self._enrol(until)
        approvals = {index: held for index, held in sorted(self._answers.items()) if held is not None}
        least = self.plan.round.protection.min_sites
        if len(approvals) < least:
            return Outcome(None, f"{len(approvals)} sites take part, {least} are required")
        made, bound = self._made_before()
        earlier = self._usable(tuple(approvals), bound)
        if earlier is not None:
            bound = tuple(approvals)
        outcome = Outcome(None, "no attempt was made")
        for attempt in range(made + 1, made + self.plan.round.protection.max_attempts + 1):
            members = {index: held for index, held in approvals.items() if not bound or index in bound}
            absent = await self._gather(tuple(members))
            if bound and absent:
                return Outcome(None, f"a retry needs every survivor, and absent is {self._listed(absent)}")
            if len(members) - len(absent) < least:
                return Outcome(None, f"{len(members) - len(absent)} sites are present, {least} are required")
            if self._stopped is not None:
                return outcome
            key = RoundKey(secrets.token_bytes(ROUND_ID_BYTES), 1, attempt)
            outcome, survivors = await self._attempt(key, members, bound, earlier)
            if outcome.document is not None or not survivors:
                return outcome
            bound = survivors
        return outcome

    async def _enrol(self, until: datetime) -> None:
        """Wait for the end of the enrolment window, and write down that it has come: it never opens again."""
        if self._closed is not None:
            return
        early = closes_early(self.plan.study) or self._pace.enrol_s is not None
        self._enter("enrolling")
        self._log.info(
            "study.enrolling",
            fingerprint=self.plan.study.fingerprint,
            sites=len(self._names),
            closes=until.isoformat(),
        )

        def everybody() -> bool:
            return self._stopped is not None or (early and self._answers.keys() >= self._names.keys())

        await before(self._clock, until, self._changed, everybody)
        self._closed = self._clock.now()
        with self._store.transaction() as session:
            session.get_one(StudyRow, self.plan.study.digest.hex()).closed = self._closed

    async def _gather(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Wait until these sites are present, for at most the gathering time; return who is not."""
        seconds = self._pace.gather_s or self.plan.study.deadlines_s.gather

        def absent() -> tuple[int, ...]:
            return tuple(index for index in members if not self.presence.is_present(index))

        if absent():
            self._enter("gathering")
            self._log.info("study.gathering", absent=self._listed(absent()))
            until = self._clock.now() + timedelta(seconds=seconds)
            await before(self._clock, until, self._changed, lambda: self._stopped is not None or not absent())
        return absent()

    def _enter(self, state: str, reason: str = "") -> None:
        self.state = state
        with self._store.transaction() as session:
            row = session.get_one(StudyRow, self.plan.study.digest.hex())
            row.state, row.reason = state, reason

    def remember(self) -> datetime:
        """Write the study down, or take up what was known of it before a restart; return when it was submitted."""
        study = self.plan.study
        with self._store.transaction() as session:
            row = session.get(StudyRow, study.digest.hex())
            if row is None:
                row = StudyRow(
                    digest=study.digest.hex(),
                    name=study.study,
                    version=study.version,
                    canonical=self.signed.canonical,
                    statistician=self.signed.statistician,
                    signature=self.signed.signature,
                    state="enrolling",
                    submitted=self._clock.now(),
                )
                session.add(row)
            self._closed = None if row.closed is None else as_utc(row.closed)
            held = session.scalars(select(AnswerRow.packet).where(AnswerRow.study == row.digest)).all()
            submitted = as_utc(row.submitted)
        for packet in map(packet_from_bytes, held):
            if packet.envelope.sender in self._roster.identities:  # not denied since
                index, approval = read_answer(packet.envelope, self.plan.round, self._roster)
                self._answers[index] = packet.envelope if approval is not None else None
        return submitted

    def _record_answer(self, site: str, packet: Packet) -> None:
        digest = self.plan.study.digest.hex()
        with self._store.transaction() as session:
            row = session.scalar(select(AnswerRow).where(AnswerRow.study == digest, AnswerRow.site == site))
            if row is None:
                row = AnswerRow(study=digest, site=site)
                session.add(row)
            row.packet, row.received = packet_to_bytes(packet), now()

    async def _released(self) -> Outcome | None:
        """Return the outcome of a study that was released before a restart, its files written if they were not yet."""
        stored = self._store.result(self.plan.study.digest.hex())
        if stored is None:
            return None
        document = from_json(stored)
        if not self._results.exists():
            await asyncio.to_thread(write_release, self._results, document)
        return Outcome(document, "")

    def _usable(self, approving: tuple[int, ...], bound: tuple[int, ...]) -> Earlier | None:
        """Return the earlier version whose sums are served, where exactly its survivors take part again."""
        earlier = self._find_earlier()
        if earlier is None or (bound and bound != approving):
            return None
        if frozenset(self._names[index] for index in approving) != earlier.survivors:
            self._log.info("study.stands_alone", version_before=earlier.version)
            return None
        self._log.info(
            "study.builds_on", version_before=earlier.version, unchanged_blocks=len(earlier.unchanged)
        )
        return earlier

    def _made_before(self) -> tuple[int, tuple[int, ...]]:
        """Return how many attempts were made before a restart, and the survivors that the next one is bound to.

        Sites that signed a survivor set keep to it, so whatever set was named last binds. An attempt that was open when
        the coordinator stopped is over: its sites begin anew when the next one opens.
        """
        with self._store.transaction() as session:
            rows = session.scalars(
                select(RoundRow)
                .where(RoundRow.study == self.plan.study.digest.hex())
                .order_by(RoundRow.attempt)
            ).all()
            for row in rows:
                if row.state == "open":
                    row.state, row.ended, row.reason = "aborted", now(), "the coordinator stopped"
            named = [row.survivors for row in rows if row.survivors]
            made = max((row.attempt for row in rows), default=0)
        index_of = {name: index for index, name in self._names.items()}
        return made, tuple(sorted(index_of[name] for name in named[-1].split(","))) if named else ()

    async def _attempt(
        self,
        key: RoundKey,
        approvals: Mapping[int, Envelope],
        bound: tuple[int, ...],
        earlier: Earlier | None = None,
    ) -> tuple[Outcome, tuple[int, ...]]:
        """Run one attempt; return its outcome, and the survivors that a retry is bound to (empty: no retry)."""
        self._enter("running")
        built_on = (b"", frozenset[str]()) if earlier is None else (earlier.context, earlier.unchanged)
        setup = CoordinatorSetup(self._signer, self._roster, self.plan.round, approvals, bound, *built_on)
        machine = CoordinatorRound(setup, key)
        context = machine.fixed.context.hex()
        self._spool = Spool(self._folder / context[:16], machine.length)
        self._machine = machine
        with self._store.transaction() as session:
            session.add(
                RoundRow(
                    context=context,
                    study=self.plan.study.digest.hex(),
                    round_id=key.round_id.hex(),
                    iteration=key.iteration,
                    attempt=key.attempt,
                    state="open",
                    opened=now(),
                    opening=packet_to_bytes(Packet(machine.opening)),
                )
            )
        self._log.info("round.open", attempt=key.attempt, sites=len(approvals), numbers=machine.length)
        await self._apply(machine.open())
        async with self._changed:
            await self._changed.wait_for(lambda: isinstance(machine.state, Opened | Aborted))
        self._clear_deadline()
        self._spool.wipe()
        self._spool = None
        for box in self._boxes.values():
            box.keep_ending()
        return await self._close(key, machine, earlier)

    async def _close(
        self, key: RoundKey, machine: CoordinatorRound, earlier: Earlier | None = None
    ) -> tuple[Outcome, tuple[int, ...]]:
        state, context = machine.state, machine.fixed.context.hex()
        if isinstance(state, Opened):
            sums = by_block(state.blocks, state.values)
            if earlier is not None:
                sums = {name: earlier.sums[name] for name in earlier.unchanged if name in earlier.sums} | sums
            document = result_document(self.plan, self._roster, key, state, sums)
            with self._store.transaction() as session:
                row = session.get_one(RoundRow, context)
                row.state, row.ended, row.survivors = "opened", now(), self._listed(state.survivors)
                session.merge(
                    ResultRow(
                        study=row.study,
                        context=context,
                        document=to_json(document),
                        sums=pack(sums),
                        released=now(),
                    )
                )
            await asyncio.to_thread(write_release, self._results, document)
            self._log.info("round.opened", sites=len(state.survivors), attempt=key.attempt)
            return Outcome(document, ""), ()
        if not isinstance(state, Aborted):
            raise AssertionError("an attempt ends opened or aborted")
        with self._store.transaction() as session:
            row = session.get_one(RoundRow, context)
            row.state, row.ended, row.reason = "aborted", now(), state.reason
            row.survivors = self._listed(state.survivors)
        self._log.info("round.aborted", reason=state.reason, attempt=key.attempt)
        return Outcome(None, state.reason), state.survivors

    async def _apply(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        """Carry effects out in order. What a failing store holds up stays first in line for the next call."""
        self._pending.extend(effects)
        while self._pending:
            effect = self._pending[0]
            match effect:
                case MessageTaken():
                    self._record_message(effect.envelope)
                case Deliver():
                    self._boxes[effect.receiver].put(effect.packet)
                case AwaitStep():
                    self._log.info("round.step", step=effect.step)
                    self._set_deadline(effect.step)
                case Combine():
                    self._clear_deadline()
                    self._spawn(self._combine(effect))
                case DiscardUploads():
                    self._record_survivors(effect.survivors)
                    if self._spool is not None:
                        self._spool.keep_only(effect.survivors)
                case Audit():
                    self._log.warning(
                        "round.refused", check=effect.check, sender=effect.sender, sentence=effect.sentence
                    )
            self._pending.popleft()
        await self._notify()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        """Run background work; if it fails, the round ends with a reason instead of waiting for ever."""
        try:
            await work
        except Exception as error:
            self._log.exception("round.failed", error=type(error).__name__)
            machine = self._machine
            if machine is None or isinstance(machine.state, Opened | Aborted):
                return
            self._pending.clear()
            await self._apply(
                tuple(
                    effect
                    for effect in machine.abort("the coordinator failed")
                    if isinstance(effect, Deliver)
                )
            )

    async def _combine(self, effect: Combine) -> None:
        machine, spool = self._machine, self._spool
        if machine is None or spool is None:
            raise AssertionError("sums are formed while a round is open")
        words = await asyncio.to_thread(self._open_sum, spool, effect)
        await self._apply(machine.combined(words))

    def _open_sum(self, spool: Spool, effect: Combine) -> Vector:
        total = spool.sum(effect.survivors)
        add_masks_parallel(total, effect.keys.plus, effect.keys.minus, self._pool, os.cpu_count() or 1)
        return total

    def _running(self, context: bytes) -> CoordinatorRound:
        machine = self._machine
        if machine is None or context != machine.fixed.context:
            raise RemoteProtocolError("M3", "the message belongs to no open round")
        return machine

    def _record_survivors(self, survivors: tuple[int, ...]) -> None:
        """Write down the named set before any site hears of it: a restarted coordinator must keep to it."""
        if survivors and self._machine is not None:
            with self._store.transaction() as session:
                row = session.get_one(RoundRow, self._machine.fixed.context.hex())
                row.survivors = self._listed(survivors)

    def _record_message(self, envelope: Envelope) -> None:
        with self._store.transaction() as session:
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
        self._log.info("round.message", site=envelope.sender, kind=envelope.kind.name)

    def _set_deadline(self, step: str) -> None:
        self._clear_deadline()
        deadlines = self.plan.study.deadlines_s
        step_s, longest_s = deadlines.step, self._pace.step_max_s or deadlines.step_max
        loop = asyncio.get_running_loop()
        self._deadlines = [
            loop.call_later(step_s, self._expire, step, False),
            loop.call_later(max(step_s, longest_s), self._expire, step, True),
        ]

    def _expire(self, step: str, final: bool) -> None:
        machine = self._machine
        if machine is not None and machine.step == step:
            self._log.warning("round.deadline", step=step, final=final)
            self._spawn(self._apply(machine.deadline_passed(step, final)))

    def _clear_deadline(self) -> None:
        for deadline in self._deadlines:
            deadline.cancel()
        self._deadlines = []

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _listed(self, sites: tuple[int, ...]) -> str:
        return ",".join(self._names[index] for index in sites)
