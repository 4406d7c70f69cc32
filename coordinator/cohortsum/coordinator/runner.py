"""One study from its first answer to its result: enrolment, rounds, each with attempts until one opens, publication.

Five parts of it have a module each: who takes part (`enrolment`), one attempt at a round (`attempt`), which round comes
next (`course`), what the store holds of the study (`record`), and the files of a release (`publish`). Here is only their
order, and what binds one attempt to the next: survivors that were named once are needed in every later attempt at that
round, and a round after the first has the survivors of the one before, or fewer. Everything runs in one event loop.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

import structlog

from cohortsum.coordinator.amendment import Earlier
from cohortsum.coordinator.attempt import ASK_AGAIN_S, Attempt
from cohortsum.coordinator.clock import Clock, SystemClock, tell
from cohortsum.coordinator.committee_course import Answered, CommitteeCourse, incomplete
from cohortsum.coordinator.committee_desk import CommitteeDesk
from cohortsum.coordinator.course import Course
from cohortsum.coordinator.enrolment import Enrolment
from cohortsum.coordinator.evidence import EvidenceBook
from cohortsum.coordinator.item_rows import Review
from cohortsum.coordinator.items import IN_REVIEW, first_items, state_of, waits_for, with_items
from cohortsum.coordinator.locking import RoundLock
from cohortsum.coordinator.mailbox import Mailbox
from cohortsum.coordinator.publish import result_document, write_release
from cohortsum.coordinator.record import OpenedIteration, StudyRecord
from cohortsum.coordinator.resuming import resumable
from cohortsum.coordinator.sealing import SealedRounds, sealed_folder
from cohortsum.coordinator.spool import WORD_BYTES, Upload
from cohortsum.coordinator.store import Store
from cohortsum.crypto.errors import (
    CohortsumError,
    FencedError,
    RemoteProtocolError,
    StoreError,
)
from cohortsum.crypto.failpoints import reach
from cohortsum.protocol.approvals import approval_context, read_approval
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorSetup, Opened
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.messages import Kind, Packet, Regimen
from cohortsum.protocol.roster import Roster
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.disclosure.committee_gate import committee_gate
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.disclosure.verdict import Gated
from cohortsum.study.planning import StudyPlan, by_block
from cohortsum.study.results import Table
from cohortsum.study.sums import Integers

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the rounds of a study ended: with a document, or with the public reason why there is none.

    A document whose items wait for signatures holds none of their tables; ``reason`` then says what they wait for.
    """

    document: ResultDocument | None
    reason: str

    @property
    def state(self) -> str:
        """The state that the study comes into."""
        return "ended" if self.document is None else state_of(self.document)


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


STRICTEST = Regimen("dpuk")
LONGEST_PAUSE_S = 30.0
"""Between two tries at a store that refuses."""
AS_WRITTEN = Pace()
"""Every wait as the study has it."""


class StudyRunner:
    """Runs one study.

    Args:
        plan: the study's plan.
        signed: the study as the statistician signed it.
        roster: the roster it names, with the sites that count now.
        signer: the coordinator's identity.
        store: the durable store.
        folder: where uploads are spooled.
        results: where a release is written.
        pool: threads for additions and masks.
        pace: waits that differ from the study's.
        clock: for enrolment and gathering.
        earlier: finds the released version that this one may build on.
        evidence: where evidence against sites is kept; None: nowhere.
        lock: the trustee, in two-key mode.
        desk: carries the runs of a committee.

    Attributes:
        kind_of_attempt: the class of its attempts.
        plan: as given.
        over: whether the study has ended here.
        enrolment: who takes part, and who is present.
    """

    kind_of_attempt: type[Attempt] = Attempt

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
        evidence: EvidenceBook | None = None,
        lock: RoundLock | None = None,
        desk: CommitteeDesk | None = None,
    ) -> None:
        self.plan, self.over = plan, False
        self._desk = desk
        self._signed, self._roster, self._signer = signed, roster, signer
        self._folder, self._results, self._pool = folder, results, pool
        self._pace, self._find_earlier, self._evidence = pace, earlier, evidence
        self._lock = lock
        self._record = StudyRecord(store, plan.study, roster)
        self._sealed = SealedRounds(sealed_folder(results), plan.study.digest, lambda: self._roster)
        self._clock = clock or SystemClock()
        self.enrolment = Enrolment(plan, roster, self._record, self._clock, pace.enrol_s, pace.gather_s)
        self._committee = CommitteeCourse(desk, plan, lambda: self._roster, self.enrolment, self._record)
        self._boxes = {index: Mailbox() for index in self.enrolment.names}
        self._current: Attempt | None = None
        self._stopped: tuple[str, str] | None = None
        self._builds_on: int | None = None
        self._served: dict[str, Integers] = {}
        self._regimens: dict[str, Regimen] = {}
        self._log = log.bind(study=plan.study.study, version=plan.study.version)

    @property
    def state(self) -> str:
        """Where the study stands, as in `StudyStatus`."""
        return self._record.state

    def owns(self, context: bytes) -> bool:
        """Whether a message with this context belongs to this study."""
        standing = approval_context(self.plan.round.study_digest, self.plan.round.roster_digest)
        return context == standing or (self._current is not None and context == self._current.context)

    def remember(self) -> None:
        """Write the study down, or take up what was known of it before a restart."""
        self.enrolment.remember(self._signed)

    async def run(self) -> Outcome:
        """Enrol, gather, run attempts until one opens or none may follow, publish, and end the study.

        While the store refuses, the study waits and then goes on from what is kept, as after a restart. Raises FencedError where another
        process has taken over; that one goes on, so no site is sent away.
        """
        pause_s = ASK_AGAIN_S
        while True:
            try:
                outcome = await self._run()
                break
            except FencedError:
                raise
            except StoreError as error:
                self._log.error("study.waits", sentence=error.message, next_try_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except CohortsumError:
                await self._leave()
                raise
        await self._leave()
        self._log.info(
            "study.ended",
            released=self.state == "released",
            in_review=self.state == IN_REVIEW,
            reason=outcome.reason,
        )
        return outcome

    async def _run(self) -> Outcome:
        """Go on from what is kept to the end of the study; raises StoreError where a write is refused on the way."""
        self.remember()
        self._sealed.keep_only(self._record.opened())
        outcome = await self._released() or await self._enrol_and_attempt()
        state = outcome.state
        if self._stopped is not None and outcome.document is None:
            state, reason = self._stopped
            outcome = Outcome(None, reason)
        self._record.enter(state, outcome.reason)
        return outcome

    async def stop(self, state: str, reason: str) -> None:
        """End the study without a result, unless its sum is open already; an open round is aborted."""
        if self.over:
            return
        self._stopped = (state, reason)
        await self.enrolment.end()
        self._committee.stop()
        if self._current is not None:
            await self._current.abort(reason)

    async def exclude(self, roster: Roster) -> None:
        """Go on without the sites that ``roster`` no longer has; a round that is open loses them as dropouts."""
        self._roster = roster
        await self.enrolment.exclude(roster)

    async def submit(self, packet: Packet) -> None:
        """Take a site's packet; the sender was checked against its TLS identity. Raises RemoteProtocolError."""
        if packet.envelope.kind in (Kind.APPROVAL, Kind.NOT_TAKING_PART):
            await self.enrolment.take(packet)
        else:
            await self._open_attempt(packet.envelope.context).receive(packet)

    def upload_bytes(self, context: bytes) -> int:
        """Return how long an upload is that the open attempt awaits; raises RemoteProtocolError (M3) where it is not open."""
        return self._open_attempt(context).machine.length * WORD_BYTES

    def begin_upload(self, site: int, context: bytes) -> Upload:
        """Start to spool the data words of a site; raises RemoteProtocolError (U2) where none are awaited."""
        return self._open_attempt(context).begin_upload(site)

    async def end_upload(self, site: int, context: bytes, upload: Upload) -> None:
        """Keep a spooled upload, if it is still awaited."""
        await self._open_attempt(context).end_upload(site, upload)

    async def next_packet(self, site: int, after: int, wait_s: float) -> tuple[int, Packet | None]:
        """Return number and packet that follow ``after`` for a site, or (0, None) if none comes in time."""
        with self.enrolment.presence.polling(site):
            await tell(self.enrolment.changed)  # somebody may be waiting for this site to be present
            return await self._boxes[site].next(after, wait_s, lambda: self.over)

    def _open_attempt(self, context: bytes) -> Attempt:
        attempt = self._current
        if attempt is None or context != attempt.context:
            raise RemoteProtocolError("M3", "the message belongs to no open round")
        return attempt

    async def _enrol_and_attempt(self) -> Outcome:
        enrolment, least = self.enrolment, self.plan.round.protection.min_sites
        await enrolment.window()
        approving = tuple(enrolment.approvals)
        for index, approval in enrolment.approvals.items():
            said = read_approval(approval, self.plan.round, self._roster)[1]
            self._regimens[self._record.id_of(index)] = said.regimen
        if len(approving) < least:
            return Outcome(None, f"{len(approving)} sites take part, {least} are required")
        if self.plan.study.protection.mode == "committee":
            found = await self._committee.run()
            return Outcome(None, found) if isinstance(found, str) else await self._publish_answers(found)
        course = Course(self.plan)
        for held in self._record.iterations():
            self._serve_earlier(course, held)
            course.take(held)
        while not course.over:
            ended = await self._round(course, approving)
            if isinstance(ended, str) and not course.opened:
                return Outcome(None, ended)
            if isinstance(ended, str):
                return await self._publish(course, ended)
            course.take(ended)
        return await self._publish(course)

    async def _round(self, course: Course, approving: tuple[int, ...]) -> OpenedIteration | str:
        """Run attempts at the next round of a study until one opens; return why none did otherwise."""
        enrolment, protection = self.enrolment, self.plan.round.protection
        resumed = resumable(self._record, course.plan.round, self._roster, self._signer, self._find_earlier)
        context = b"" if resumed is None else resumed.held.opening.context
        made, named = self._record.attempts(course.iteration, context)
        index_of = {name: index for index, name in enrolment.names.items()}
        if gone := [name for name in named if name not in index_of]:  # denied since they were named
            return incomplete(",".join(gone))
        bound, exact = tuple(sorted(index_of[name] for name in named)), True
        earlier = None
        if course.opened:
            exact, bound = bool(bound) or course.protected, bound or course.cohort
        else:
            earlier = self._usable(approving, bound)
            bound = approving if earlier is not None else bound
        reason = "no attempt was made"
        until = self._clock.now() + timedelta(seconds=self._patience(exact))
        if resumed is not None:
            setup = resumed.setup
            course.dealt, course.slot = setup.dealt, setup.slot + 1
            self._current = attempt = self._prepare(setup, resumed.key, course)
            ended = await attempt.run(resumed.held)
            if isinstance(ended, Opened):
                return self._opened(course, attempt, ended, resumed.earlier)
            reason, binding = self._aborted(course, attempt, ended)
            if binding is None and not course.opened:
                return reason
            made = attempt.key.attempt
            bound, exact = (binding, True) if binding else (setup.bound_survivors, setup.exact)
        for number in count(made + 1):
            if number > made + protection.max_attempts:
                if not (course.opened and exact and self._clock.now() < until):
                    break
                await asyncio.sleep(self.plan.study.deadlines_s.step)  # somebody may be on the way back
            await enrolment.gather(bound, None if not course.opened else self._patience(exact))
            approvals, absent = enrolment.approvals, enrolment.absent(bound)
            if bound and absent and exact:
                return incomplete(self._record.listed(absent))
            present = tuple(index for index in bound or approvals if index not in absent)
            if len(present) < protection.min_sites:
                return f"{len(present)} sites are present, {protection.min_sites} are required"
            if self._stopped is not None:
                return reason
            key = RoundKey(secrets.token_bytes(ROUND_ID_BYTES), course.iteration, number)
            members = present if course.opened else bound or tuple(approvals)
            attempt = self._attempt(course, key, members, bound, exact, earlier)
            ended = await attempt.run()
            if isinstance(ended, Opened):
                return self._opened(course, attempt, ended, earlier)
            reason, binding = self._aborted(course, attempt, ended)
            if binding is None and not course.opened:
                return reason
            if binding:
                bound, exact = binding, True
            elif not course.opened:
                bound = approving if earlier is not None else ()
        return reason

    def _aborted(
        self, course: Course, attempt: Attempt, ended: Aborted
    ) -> tuple[str, tuple[int, ...] | None]:
        """Note how an attempt ended; return why, and whom the next one is bound to: nobody (empty), or None where none was named."""
        course.dealt = None
        # an attempt in which nobody dealt anything is over without a tombstone
        free = ended.closed or not (ended.advertised or ended.survivors)
        binding = () if free else ended.survivors or None
        self._record.attempt_aborted(attempt.context, ended.reason, binding or ())
        self._log.info(
            "round.aborted",
            reason=ended.reason,
            iteration=course.iteration,
            attempt=attempt.key.attempt,
            closed=ended.closed,
        )
        return ended.reason, binding

    def _serve_earlier(self, course: Course, held: OpenedIteration) -> None:
        """Take up the sums of an earlier version that the first round did not open anew."""
        if course.opened or not held.earlier:
            return
        earlier = self._find_earlier()
        if earlier is not None and earlier.context == held.earlier:
            self._build_on(course, earlier)

    def _build_on(self, course: Course, earlier: Earlier) -> None:
        self._served = {name: earlier.sums[name] for name in earlier.unchanged if name in earlier.sums}
        course.earlier = self._served
        self._builds_on = earlier.version

    def _usable(self, approving: tuple[int, ...], bound: tuple[int, ...]) -> Earlier | None:
        """Return the earlier version whose sums are served, where exactly its survivors take part again."""
        earlier = self._find_earlier()
        if earlier is None or (bound and bound != approving):
            return None
        if frozenset(map(self._record.id_of, approving)) != earlier.survivors:
            self._log.info("study.stands_alone", version_before=earlier.version)
            return None
        self._log.info(
            "study.builds_on", version_before=earlier.version, unchanged_blocks=len(earlier.unchanged)
        )
        return earlier

    def _attempt(
        self,
        course: Course,
        key: RoundKey,
        members: tuple[int, ...],
        bound: tuple[int, ...],
        exact: bool,
        earlier: Earlier | None,
    ) -> Attempt:
        """Return the next attempt at a round.

        Args:
            course: where the study stands.
            key: of the attempt.
            members: who is invited.
            bound: who the attempt is bound to; of an iteration that may lose sites, the members.
            exact: whether none of these may be missing.
            earlier: the version whose sums are served in the first round.
        """
        self._record.enter("running")
        approvals = self.enrolment.approvals
        bound = members if course.opened else bound
        dealt, slot = course.usable(members), course.slot
        if dealt is not None:
            course.slot += 1
        built_on = (b"", frozenset[str]()) if earlier is None else (earlier.context, earlier.unchanged)
        setup = CoordinatorSetup(
            self._signer,
            self._roster,
            course.plan.round,
            {index: approvals[index] for index in members},
            bound,
            *built_on,
            exact=exact,
            ahead=course.ahead() if dealt is None else 0,
            dealt=dealt,
            slot=slot if dealt is not None else 0,
        )
        self._current = attempt = self._prepare(setup, key, course)
        return attempt

    def _prepare(self, setup: CoordinatorSetup, key: RoundKey, course: Course) -> Attempt:
        deadlines = self.plan.study.deadlines_s
        waits = deadlines.step, self._pace.step_max_s or deadlines.step_max
        changed = self.enrolment.changed

        def seen(context: bytes, opened: Opened) -> bool:
            sums = by_block(opened.blocks, opened.values)
            self._record.iteration_opened(context, opened.advertised, opened.survivors, sums)
            return course.plan.needs_sight(sums)

        return self.kind_of_attempt(
            setup,
            key,
            self._record,
            self._boxes,
            self._folder,
            self._pool,
            waits,
            changed,
            seen,
            self._sealed,
            self._keep,
            self._lock,
        )

    def _keep(self, evidence: Evidence) -> None:
        """Keep evidence against a site, where there is a place for it."""
        if self._evidence is not None:
            self._evidence.keep(
                evidence, self.plan.round, self._roster, self._signed, self._signer, self._record
            )

    def _opened(
        self, course: Course, attempt: Attempt, ended: Opened, earlier: Earlier | None
    ) -> OpenedIteration:
        """Return what an attempt opened, and keep what it dealt ahead."""
        machine = attempt.machine
        self._log.info(
            "round.opened",
            sites=len(ended.survivors),
            iteration=attempt.key.iteration,
            attempt=attempt.key.attempt,
        )
        if machine.dealt_ahead is not None:
            course.dealt, course.slot = machine.dealt_ahead, 1
        course.protected |= machine.protected
        if earlier is not None:
            self._build_on(course, earlier)
        sums = by_block(ended.blocks, ended.values)
        return OpenedIteration(attempt.context, attempt.key, ended.advertised, ended.survivors, sums)

    def _patience(self, exact: bool) -> float:
        """Return how long an iteration waits for absent sites: for those without whom the fit would end, much longer."""
        deadlines = self.plan.study.deadlines_s
        return self._pace.gather_s or (deadlines.rejoin if exact else deadlines.step)

    async def _publish(self, course: Course, unfinished: str = "") -> Outcome:
        """Put the tables of the rounds that opened through the gate, and what it lets through into the queue, or out.

        ``unfinished`` says why no further round opened.
        """
        tables = (
            course.plan.cut_short(unfinished) if unfinished else course.plan.finish(course.sums, course.sites)
        )
        first = course.opened[0]
        survivors = tuple(map(self._record.id_of, first.survivors))
        # of a site that was denied and forgotten since, the strictest profile is taken
        regime = regime_of_sites({site: self._regimens.get(site, STRICTEST) for site in survivors})
        base = result_document(
            self.plan,
            self._roster,
            course.opened,
            regime,
            names=self._record.names,
            builds_on=self._builds_on,
        )
        sums = course.sums if len(course.opened) == 1 else first.sums
        review = Review(regime, self._served, unfinished)

        def gate() -> Callable[[], Gated]:
            linked = self._record.linked(survivors)
            return partial(cohort_gate, course.plan, tables, course.sums, regime, linked)

        return await self._to_queue(first, base, tables, gate, sums, review)

    async def _publish_answers(self, found: Answered) -> Outcome:
        """Put the tables that a committee answered through their gate, and what it lets through into the queue, or out."""
        opened = OpenedIteration(found.context, found.key, found.dealers, found.dealers, {})
        sites = tuple(map(self._record.id_of, found.dealers))
        regime = regime_of_sites({site: self._regimens.get(site, STRICTEST) for site in sites})
        base = result_document(self.plan, self._roster, [opened], regime, names=self._record.names)
        gate = partial(committee_gate, self.plan.study, found.tables, regime)
        return await self._to_queue(opened, base, found.tables, lambda: gate, {}, Review(regime, {}, ""))

    async def _to_queue(
        self,
        opened: OpenedIteration,
        base: ResultDocument,
        tables: Sequence[Table],
        gate: Callable[[], Callable[[], Gated]],
        sums: Mapping[str, Integers],
        review: Review,
    ) -> Outcome:
        """Put tables through their gate and what it lets through into the queue, or out.

        Args:
            opened: what they come from.
            base: the document without them.
            tables: as they were finished.
            gate: returns the gate, once no other study is being released.
            sums: that are kept.
            review: what is kept besides.
        """
        async with self._record.releasing:
            items = first_items(self.plan.study, tables, await asyncio.to_thread(gate()))
            document = with_items(base, items)
            reach("hub.published.before")
            self._record.computed(opened.context, opened.survivors, document, sums, review, items)
            reach("hub.published.noted")
        await self._write(document)
        return Outcome(document, waits_for(self.plan.study, document))

    async def _released(self) -> Outcome | None:
        """Return the outcome of a study whose rounds were over before a restart, its files written if they were not yet."""
        document = self._record.document()
        if document is None:
            return None
        if not self._record.written() or not self._results.exists():
            await self._write(document)
        return Outcome(document, waits_for(self.plan.study, document))

    async def _write(self, document: ResultDocument) -> None:
        await asyncio.to_thread(write_release, self._results, document)
        self._record.wrote()

    async def _leave(self) -> None:
        """Send away whoever still waits for something of this study."""
        self.over = True
        if self._desk is not None:
            self._desk.forget(self.plan.study.digest)
        for box in self._boxes.values():
            box.arrived.set()
        await self.enrolment.end()
