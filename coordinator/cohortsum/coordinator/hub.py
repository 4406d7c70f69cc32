"""All studies of one consortium: taking them in, running them side by side, and finding them again after a restart.

The store is the truth. Whatever is not over is taken up again when the coordinator starts: answers, a closed enrolment
window and a named survivor set are in the store, and only what happened inside an open round is lost.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import select

from cohortsum.coordinator.amendment import find_earlier
from cohortsum.coordinator.bundle import Binder
from cohortsum.coordinator.clock import Clock, SystemClock
from cohortsum.coordinator.committee_desk import CommitteeDesk
from cohortsum.coordinator.evidence import EvidenceBook
from cohortsum.coordinator.items import IN_REVIEW
from cohortsum.coordinator.limits import AS_BUILT, Limits
from cohortsum.coordinator.locking import RoundLock, Trustee
from cohortsum.coordinator.publish import release_folder
from cohortsum.coordinator.review import ReviewDesk
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.runner import AS_WRITTEN, Outcome, Pace, StudyRunner
from cohortsum.coordinator.slots import Slots
from cohortsum.coordinator.status import StudyStatus, study_status
from cohortsum.coordinator.store import OVER, PresenceRow, RoundRow, Store, StudyRow, note
from cohortsum.coordinator.trail import kept_transcript, study_of_round, trail_of, transcript_of
from cohortsum.crypto.errors import (
    AuthenticationError,
    CohortsumError,
    ConfigurationError,
    LimitError,
    RefusedError,
    RemoteProtocolError,
)
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.approvals import approval_context
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import Identity
from cohortsum.report.document import OUT, from_json
from cohortsum.report.notices import Notice, NoticeKind
from cohortsum.study.definition import FrozenStudy, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.definition.withdrawal import Withdrawal, verify_withdrawal
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.release.bundle import Papers
from cohortsum.study.release.decision import Decision

log: structlog.stdlib.BoundLogger = structlog.get_logger()

KEPT_OVER = 100
"""Studies that are over and whose sites still hear so from memory."""
PRESENCE_GRAIN = timedelta(minutes=1)


async def _tell_nobody(_notice: Notice) -> None:
    return


@dataclass(frozen=True, slots=True)
class Place:
    """Where a coordinator keeps things.

    Attributes:
        store: the durable store.
        spool: uploads of open rounds.
        results: releases, in a folder per study and version.
        pool: threads for additions and masks.
        pace: waits that differ from the studies'.
        notify: tells the operator.
        papers: the operator's signed files for a roster version; None where there are none, and no proof bundles.
        limits: what callers may ask for.
        evidence: folder for evidence against sites, which needs ``papers``; None: none is kept.
        trustee: who is asked for keys in two-key mode; None: nobody, and such studies are refused.
        desk: carries the runs of committees; None: such studies are refused.
    """

    store: Store
    spool: Path
    results: Path
    pool: Executor
    pace: Pace = AS_WRITTEN
    notify: Callable[[Notice], Awaitable[None]] = _tell_nobody
    papers: Callable[[int], Papers] | None = None
    limits: Limits = AS_BUILT
    evidence: Path | None = None
    trustee: Trustee | None = None
    desk: CommitteeDesk | None = None

    @property
    def book(self) -> EvidenceBook | None:
        """Where evidence is kept, or None."""
        return (
            None if self.evidence is None or self.papers is None else EvidenceBook(self.evidence, self.papers)
        )


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """One line of the list of studies."""

    digest: bytes
    name: str
    version: int
    state: str


class Hub:
    """Runs the studies of a consortium.

    Args:
        roll: returns who counts now.
        key: the coordinator's identity key.
        place: where things are kept.
        clock: for enrolment and gathering.

    Attributes:
        review: the items of studies whose rounds are over.
        slots: places of sites at the edge.
    """

    def __init__(
        self, roll: Callable[[], Roll], key: IdentityKey, place: Place, clock: Clock | None = None
    ) -> None:
        self._roll, self._key, self._place = roll, key, place
        self._clock = clock or SystemClock()
        self._runners: dict[bytes, StudyRunner] = {}
        self._tasks: dict[bytes, asyncio.Task[Outcome]] = {}
        self._changed = asyncio.Condition()
        self._serial = int(self._clock.now().timestamp() * 1000)
        self._taking = asyncio.Lock()
        self._heard: dict[str, datetime] = {}
        self._standing: dict[bytes, bytes] = {}
        self.slots = Slots(place.spool, place.limits.spool_bytes)
        self.review = ReviewDesk(place.store, place.results, roll)
        self._binder = Binder(place.store, place.results, roll, key, place.papers)

    @property
    def roll(self) -> Roll:
        """Who counts now."""
        return self._roll()

    @property
    def runners(self) -> tuple[StudyRunner, ...]:
        """The studies that this process runs or has run, in the order in which they came."""
        return tuple(self._runners.values())

    async def resume(self) -> None:
        """Take up every study that is not over. One that cannot be is reported; the others go on."""
        await self.review.settle()
        with self._place.store.transaction() as session:
            rows = session.scalars(
                select(StudyRow).where(StudyRow.state.not_in(OVER)).order_by(StudyRow.submitted)
            )
            held = [
                (row.name, SignedStudy(row.canonical, row.statistician, row.signature)) for row in rows.all()
            ]
        for name, signed in held:
            try:
                study = self._open(signed)
                await self._start(study, signed)
            except CohortsumError as error:
                log.error("study.not_resumed", study=name, error=type(error).__name__, sentence=error.message)

    async def submit(self, signed: SignedStudy) -> bytes:
        """Take in a study and begin its enrolment; return its digest. The same bytes again change nothing.

        Raises:
            AuthenticationError: no statistician of the roster signed it.
            RefusedError: it cannot run, or an earlier or equal version is in its way.
        """
        try:
            study = self._open(signed)
            refuse_unbuilt(study)
            plan = plan_study(study, self.roll.whole(study.roster))
        except ConfigurationError as error:  # about the study, which the caller wrote
            raise RefusedError(error.message) from error
        if plan.round.encryption is not None and self._place.trustee is None:
            raise RefusedError(
                f"study {study.study}: two_key needs the trustee, and this coordinator has no address of one; its operator sets "
                "'trustee' in coordinator.yaml"
            )
        if study.protection.mode == "committee" and self._place.desk is None:
            raise RefusedError(f"study {study.study}: this coordinator carries no runs of committees")
        async with self._taking:
            if study.digest in self._runners or self._state(study.digest) is not None:
                return study.digest
            self._check_room(study.study)
            if study.expires < self._clock.now().date():
                raise RefusedError(f"study {study.study} expired on {study.expires}; sign a new version")
            if study.enrol.until is not None and study.enrol.until < self._clock.now():
                raise RefusedError(
                    f"study {study.study}: enrol.until {study.enrol.until.isoformat(timespec='minutes')} lies in the past; "
                    "write a later moment"
                )
            await self._make_way(study)
            await self._start(study, signed)
        return study.digest

    async def withdraw(self, withdrawal: Withdrawal) -> None:
        """End a study that its statistician takes back; released results stand. Raises AuthenticationError."""
        with self._place.store.transaction() as session:
            row = session.get(StudyRow, withdrawal.digest.hex())
            if row is None:
                raise RefusedError("no such study at this coordinator")
            study, signed_by, state = parse_canonical(row.canonical), row.statistician, row.state
        if withdrawal.statistician != signed_by:
            raise RefusedError(
                f"study {study.study} was signed by {signed_by}; only {signed_by} takes it back"
            )
        verify_withdrawal(withdrawal, signed_by, self.roll.counted(study.roster))
        if state in OVER:
            raise RefusedError(
                f"study {study.study} version {study.version} is {state}; nothing is left to withdraw"
            )
        self._place.store.note(Deed(DeedKind.STUDY_WITHDRAWN, withdrawal.digest, by=signed_by))
        reason, runner = "the statistician withdrew the study", self._runners.get(withdrawal.digest)
        if runner is not None:
            await runner.stop("withdrawn", reason)
        else:  # it could not be taken up after a restart
            with self._place.store.transaction() as session:
                row = session.get_one(StudyRow, withdrawal.digest.hex())
                row.state, row.reason = "withdrawn", reason
                note(session, Deed(DeedKind.STUDY_OVER, withdrawal.digest, detail="withdrawn"))
            await self._tell()
        log.info("study.withdrawn", study=study.study, version=study.version)

    def signed(self, digest: bytes) -> SignedStudy:
        """Return a study as it was signed; raises RemoteProtocolError (S1) for one that is not here."""
        with self._place.store.transaction() as session:
            row = session.get(StudyRow, digest.hex())
            if row is None:
                raise RemoteProtocolError("S1", "no such study at this coordinator")
            return SignedStudy(row.canonical, row.statistician, row.signature)

    def entries(self) -> tuple[StudyEntry, ...]:
        """Return all studies, the newest last."""
        query = select(StudyRow.digest, StudyRow.name, StudyRow.version, StudyRow.state).order_by(
            StudyRow.submitted
        )
        with self._place.store.transaction() as session:
            return tuple(
                StudyEntry(bytes.fromhex(digest), name, version, state)
                for digest, name, version, state in session.execute(query)
            )

    def attempts(self) -> Counter[str]:
        """Return how many attempts there are in every state."""
        with self._place.store.transaction() as session:
            return Counter(session.scalars(select(RoundRow.state)).all())

    async def changes(self, after: int, wait_s: float) -> int:
        """Return the serial of the list of studies, once it is another than ``after`` or the wait ends."""
        try:
            async with asyncio.timeout(wait_s), self._changed:
                await self._changed.wait_for(lambda: self._serial != after)
        except TimeoutError:
            pass
        return self._serial

    def status(self, digest: bytes) -> StudyStatus:
        """Return where a study stands; raises RefusedError for one that is not here."""
        return study_status(self._place.store, digest, self._runners.get(digest))

    def document(self, digest: bytes, reader: str) -> bytes:
        """Return the document of a study's released items, once it is noted who reads it; raises RefusedError where there is none."""
        held, state = self._place.store.result(digest.hex()), self._state(digest)
        if state is None:
            raise RefusedError("no such study at this coordinator")
        if held is None:
            raise RefusedError(f"the study is {state}; there is no result")
        if state == IN_REVIEW and not any(item.state in OUT for item in from_json(held).release):
            raise RefusedError("the study is in review; nothing of it is released yet")
        self._place.store.note(Deed(DeedKind.RESULT_READ, digest, by=reader))
        return held

    async def decide(self, decision: Decision) -> None:
        """Take a checker's or a site's decision about an item; raises AuthenticationError or RefusedError."""
        before = self.review.standing(decision.study)
        now = await self.review.decide(decision)
        if now.document != before.document:
            await asyncio.to_thread(self._binder.write, decision.study)
        study = now.study
        if now.state != before.state and now.state == "released":
            await self._notify(NoticeKind.RESULTS_RELEASED, study)
        await self._tell()

    async def bundle(self, digest: bytes, reader: str) -> bytes:
        """Return the proof bundle of a study, once it is noted who reads it; raises RefusedError where there is none."""
        archive = await asyncio.to_thread(self._binder.bundle, digest)
        self._place.store.note(Deed(DeedKind.RESULT_READ, digest, by=reader, detail="bundle"))
        return archive

    def trail(self, site: str) -> tuple[Envelope, ...]:
        """Return every masked input of a site."""
        return trail_of(self._place.store, site)

    def transcript(self, context: bytes, site: str) -> Transcript:
        """Return the transcript of a round for one of its sites; raises RefusedError for anybody else."""
        store = self._place.store
        study = parse_canonical(self.signed(study_of_round(store, context)).canonical)
        return transcript_of(store, context, site, self.roll.whole(study.roster))

    def running(self, digest: bytes) -> StudyRunner:
        """Return what runs a study; raises RemoteProtocolError (S1) for one that does not run here."""
        runner = self._runners.get(digest)
        if runner is None:
            raise RemoteProtocolError("S1", "no such study runs at this coordinator")
        return runner

    def is_over(self, digest: bytes) -> bool:
        """Whether a study was over before this process began: nothing runs it, and no round of it follows."""
        return digest not in self._runners and self._state(digest) in OVER

    def owner(self, context: bytes) -> StudyRunner:
        """Return what runs the study that a message belongs to; raises RemoteProtocolError (M3, or A1 for a late answer)."""
        for runner in reversed(self.runners):
            if runner.owns(context):
                return runner
        for entry in self.entries():
            if context == self._approval_context(entry.digest):
                raise RemoteProtocolError(
                    "A1", f"study {entry.name} version {entry.version} is {entry.state}"
                )
        raise RemoteProtocolError("M3", "the message belongs to no open round")

    def _approval_context(self, digest: bytes) -> bytes:
        """Return what an answer to a study is bound to; parsed once, or every stray message would parse all studies."""
        held = self._standing.get(digest)
        if held is None:
            study = parse_canonical(self.signed(digest).canonical)
            held = self._standing[digest] = approval_context(digest, self.roll.whole(study.roster).digest)
        return held

    def heard(self, site: str) -> None:
        """Note that a site called; written down at most every `PRESENCE_GRAIN`."""
        moment = self._clock.now()
        if moment - self._heard.get(site, datetime.min.replace(tzinfo=UTC)) > PRESENCE_GRAIN:
            with self._place.store.transaction() as session:
                session.merge(PresenceRow(site=site, seen=moment))
            self._heard[site] = moment

    def place_of(self, caller: Identity, runner: StudyRunner) -> int:
        """Return the roster index that a caller has in a study; raises AuthenticationError if it is not in it."""
        roster = self.roll.whole(runner.plan.study.roster)
        identity = roster.identities.get(caller.id)
        if identity is None or identity.key != caller.key or identity.index not in runner.enrolment.names:
            raise AuthenticationError
        assert identity.index is not None  # noqa: S101 - `names` holds indices only
        return identity.index

    async def exclude_denied(self) -> None:
        """Let a revocation reach the studies that are under way."""
        for runner in self.runners:
            if not runner.over:
                roster = self.roll.counted(runner.plan.study.roster)
                if set(map(str, roster.sites)) != set(runner.enrolment.names.values()):
                    await runner.exclude(roster)

    def _check_room(self, name: str) -> None:
        """Raise LimitError where as many studies are under way as may be, earlier versions of this one apart."""
        most, others = self._place.limits.studies, (runner for runner in self.runners if not runner.over)
        if sum(runner.plan.study.study != name for runner in others) >= most:
            raise LimitError(
                f"{most} studies are under way at this coordinator, the most that `limits.studies` of coordinator.yaml allows; "
                "wait until one has ended, or withdraw one",
                "studies",
            )

    def _forget_ended(self) -> None:
        """Forget the oldest studies that are over beyond `KEPT_OVER`; the store has them."""
        running = {digest for digest, task in self._tasks.items() if not task.done()}
        over = [digest for digest, runner in self._runners.items() if runner.over and digest not in running]
        for digest in over[: max(0, len(over) - KEPT_OVER)]:
            del self._runners[digest]
            self._tasks.pop(digest, None)

    def adopt(self, runner: StudyRunner) -> None:
        """Serve a study; whoever adopts it runs it."""
        runner.remember()
        self._runners[runner.plan.study.digest] = runner

    async def ended(self, digest: bytes) -> Outcome:
        """Return how a study ends, once it has."""
        return await asyncio.shield(self._tasks[digest])

    async def close(self) -> None:
        """Stop all studies where they are; a restart takes them up again."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _open(self, signed: SignedStudy) -> FrozenStudy:
        version = parse_canonical(signed.canonical).roster
        return open_study(signed, self.roll.counted(version))

    def _state(self, digest: bytes) -> str | None:
        with self._place.store.transaction() as session:
            row = session.get(StudyRow, digest.hex())
            return None if row is None else row.state

    async def _make_way(self, study: FrozenStudy) -> None:
        """Refuse a version that is not new; end an earlier one whose enrolment is still open."""
        for entry in self.entries():
            if entry.name != study.study:
                continue
            if entry.version >= study.version:
                raise RefusedError(
                    f"study {study.study}: version {entry.version} is here already; write version {entry.version + 1}"
                )
            runner = self._runners.get(entry.digest)
            if runner is None or runner.over:
                continue
            if runner.state != "enrolling":
                raise RefusedError(
                    f"study {study.study}: the round of version {entry.version} is under way; wait until it has ended, or "
                    "withdraw that version"
                )
            await runner.stop("superseded", f"version {study.version} took its place")

    async def _start(self, study: FrozenStudy, signed: SignedStudy) -> None:
        place, roll = self._place, self.roll
        roster, plan = roll.counted(study.roster), plan_study(study, roll.whole(study.roster))
        runner = StudyRunner(
            plan,
            signed,
            roster,
            Signer(roster.coordinator, self._key),
            place.store,
            place.spool / study.digest.hex()[:16],
            release_folder(place.results, study),
            place.pool,
            place.pace,
            self._clock,
            lambda: find_earlier(place.store, plan, self.roll),
            place.book,
            self._lock(plan, signed),
            place.desk,
        )
        self._forget_ended()
        self.adopt(runner)
        self._tasks[study.digest] = asyncio.create_task(self._run(runner))
        await self._tell()

    def _lock(self, plan: StudyPlan, signed: SignedStudy) -> RoundLock | None:
        """Return the trustee as a study sees it; None outside two-key mode."""
        trustee, study = self._place.trustee, plan.study
        if plan.round.encryption is None or trustee is None:
            return None
        transcript = partial(kept_transcript, self._place.store, roster=self.roll.whole(study.roster))
        return RoundLock(trustee, signed, transcript, study.deadlines_s.step)

    async def _run(self, runner: StudyRunner) -> Outcome:
        try:
            outcome = await runner.run()
            if outcome.document is not None:
                await asyncio.to_thread(self._binder.write, runner.plan.study.digest)
            kinds = {"released": NoticeKind.RESULTS_RELEASED, IN_REVIEW: NoticeKind.SIGNATURE_WANTED}
            await self._notify(kinds.get(runner.state, NoticeKind.ROUND_FAILED), runner.plan.study)
            return outcome
        except CohortsumError as error:
            log.error("study.failed", study=runner.plan.study.study, sentence=error.message)
            raise
        except (
            Exception
        ) as error:  # a fault of ours: the other studies go on, and a restart takes this one up
            log.exception("study.failed", study=runner.plan.study.study, error=type(error).__name__)
            runner.over = True
            raise
        finally:
            await self._tell()

    async def _notify(self, kind: NoticeKind, study: FrozenStudy) -> None:
        await self._place.notify(Notice(kind, study.study, study.version, datetime.now(UTC)))

    async def _tell(self) -> None:
        async with self._changed:
            self._serial += 1
            self._changed.notify_all()
