"""A node that runs for months: it hears of studies, waits for its admin, takes part, and tells who looks.

Every study has a task of its own; what a study needs (tables, policy, pinned rosters) is read when it begins, so that
nothing but a new program needs a restart. A study that cannot be considered is reported and leaves the others alone.
"""

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from cohortsum.crypto.errors import CohortsumError, LineError, RoundFailedError
from cohortsum.node import inbox
from cohortsum.node.auto_approval import decide_by_policy
from cohortsum.node.board import Board, StudyLine
from cohortsum.node.client import CALL_TIMEOUT_S, Caller, NodeClient, in_thread, list_studies
from cohortsum.node.committee.following import follow
from cohortsum.node.decisions import Asked, Decision, DecisionBook, decide
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.node.notices import Messenger
from cohortsum.node.policy import status_of
from cohortsum.node.recovery import forgotten_contexts, resolve
from cohortsum.node.session import StudySession
from cohortsum.protocol.codec import WIRE_VERSION
from cohortsum.protocol.ledger import Status
from cohortsum.protocol.messages import Kind
from cohortsum.report.notices import Notice, NoticeKind
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.wire.v1 import service_pb2

log: structlog.stdlib.BoundLogger = structlog.get_logger()

FINAL = frozenset({"in review", "released", "ended", "withdrawn", "superseded"})
"""States in which no round of a study follows; of one in review, only its tables wait."""
NEAR = timedelta(hours=24)
SOON = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a node looks, in seconds.

    Attributes:
        look: for decisions of its admin.
        reconsider: whether a study it stays out of can be taken part in by now.
        refused: whether a coordinator that refuses this node still does.
    """

    look: float = 2.0
    reconsider: float = 600.0
    refused: float = 30.0


EVERY_DAY = Rhythm()


@dataclass
class Here:
    """A study at this node."""

    signed: SignedStudy
    asked: Asked
    line: StudyLine
    task: asyncio.Task[None] | None = None
    session: StudySession | None = None
    acted_on: Decision | None = None


class Daemon:
    """Serves one site.

    Args:
        folder: the node's folder.
        caller: to the coordinator.
        site: makes what the site brings to a study, from the files as they are.
        decisions: what the admin has decided.
        messenger: tells the admin; None tells nobody.
        once: return when every study that was listed is over; for simulations.
        rhythm: how often it looks.
    """

    def __init__(
        self,
        folder: Path,
        caller: Caller,
        site: Callable[[], Site],
        decisions: DecisionBook,
        messenger: Messenger | None = None,
        once: bool = False,
        rhythm: Rhythm = EVERY_DAY,
    ) -> None:
        self._folder, self._caller, self._site, self._decisions = folder, caller, site, decisions
        self._messenger, self._once, self._rhythm = messenger, once, rhythm
        self.board = Board(folder)
        self._ledger: Ledger | None = None
        self._studies: dict[bytes, Here] = {}
        self._unusable: dict[bytes, str] = {}
        self._lines: dict[str, StudyLine] = {}
        self._done = asyncio.Event()
        self._fault: CohortsumError | None = None

    async def run(self) -> None:
        """Serve until cancelled, or, if asked for, until every study is over. Raises LineError when patience ends."""
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._look_around())]
        ended = asyncio.create_task(self._done.wait())
        try:
            await asyncio.wait({ended, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for running in tasks:
                if running.done():
                    running.result()  # a fault of ours ends the node, and is not passed over
        finally:
            studies = [here.task for here in self._studies.values() if here.task is not None]
            for task in [ended, *tasks, *studies]:
                task.cancel()
            await asyncio.gather(ended, *tasks, *studies, return_exceptions=True)
            self._write()
        if self._fault is not None:
            raise self._fault

    async def _listen(self) -> None:
        """Hear of studies, one long poll after the other."""
        serial = 0
        try:
            while True:
                try:
                    reply = await list_studies(self._caller, serial)
                except RoundFailedError as error:
                    if self._once:
                        raise
                    log.error("list.refused", sentence=error.message)
                    self.board.refused = error.message
                    await asyncio.sleep(self._rhythm.refused)
                    continue
                self.board.refused = ""
                serial = reply.serial
                self._forget_unlisted({entry.digest for entry in reply.studies})
                for entry in reply.studies:
                    await self._hear(entry)
                self._reconcile()
                if self._once and reply.studies and all(entry.state in FINAL for entry in reply.studies):
                    break
        except CohortsumError as error:  # the line stayed down, or the coordinator refuses a simulated node
            self._fault = error
        self._done.set()

    def _forget_unlisted(self, listed: Set[bytes]) -> None:
        """Forget what could not be used and is listed no more: a coordinator may invent studies without end."""
        for digest in self._unusable.keys() - listed:
            del self._unusable[digest]
            self._lines.pop(digest.hex(), None)

    async def _hear(self, entry: service_pb2.StudyEntry) -> None:
        here = self._studies.get(entry.digest)
        if here is not None:
            if here.line.state != entry.state:
                here.line.state = entry.state
                self._give_back(entry)
                await self._tell_end(here)
            return
        try:
            kept = inbox.kept(self._folder, entry.digest)
            if entry.state in FINAL and kept is None:
                return
            signed = kept or await self._fetch(entry.digest)
            asked = await in_thread(lambda: inbox.keep(self._folder, signed))
            if asked.plan.study.digest != entry.digest:
                raise RoundFailedError("the coordinator handed out another study than it listed")
        except LineError:
            raise
        except CohortsumError as error:
            if self._unusable.get(entry.digest) != error.message:
                self._unusable[entry.digest] = error.message
                log.warning("study.unusable", digest=entry.digest.hex()[:16], reason=error.message)
                self._lines[entry.digest.hex()] = StudyLine(
                    entry.digest.hex(),
                    entry.name,
                    entry.version,
                    entry.state,
                    "cannot be used",
                    error.message,
                )
                await self._tell_admin(NoticeKind.IDENTITY_PROBLEM, "", None)
            return
        self._unusable.pop(entry.digest, None)
        self._lines.pop(entry.digest.hex(), None)
        study = asked.plan.study
        line = StudyLine(study.digest.hex(), study.study, study.version, entry.state, "waits for a decision")
        self._studies[entry.digest] = Here(signed, asked, line)
        self._give_back(entry)
        log.info("study.heard", study=study.study, version=study.version, fingerprint=study.fingerprint)
        decision = self._decisions(study.digest) or self._by_policy(asked)
        if decision is None and entry.state not in FINAL:
            await self._tell(NoticeKind.STUDY_TO_APPROVE, self._studies[entry.digest])

    def _give_back(self, entry: service_pb2.StudyEntry) -> None:
        """Note that a study is over, and release what is set aside for it; it may have ended while this node was away."""
        if entry.state in FINAL:
            try:
                self._ledger = self._ledger or self._site().ledger
                self._ledger.end(entry.digest, entry.state)
            except CohortsumError as error:  # it lapses with the study at the latest
                log.warning("budget.not_given_back", study=entry.name, reason=error.message)

    async def _fetch(self, digest: bytes) -> SignedStudy:
        request = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=digest)
        held = await self._caller.call(lambda stub: stub.GetStudy(request, timeout=CALL_TIMEOUT_S))
        return SignedStudy(held.canonical, held.statistician, held.signature)

    def _by_policy(self, asked: Asked) -> Decision | None:
        """Decide as the admin described beforehand, if the study fits a description."""
        try:
            decision = decide_by_policy(asked, self._site().policy, self._earlier(asked), datetime.now(UTC))
        except CohortsumError as error:
            log.warning("policy.unusable", reason=error.message)
            return None
        if decision is not None:
            decide(self._folder, decision)
            log.info(
                "study.approved_by_policy", study=decision.study, version=decision.version, by=decision.by
            )
        return decision

    def _earlier(self, asked: Asked) -> tuple[Asked, Decision] | None:
        """Return the newest earlier version of a study with this site's decision about it, if there is one."""
        study, decisions = asked.plan.study, self._decisions.all()
        versions = [
            (here.asked, decisions[digest])
            for digest, here in self._studies.items()
            if here.asked.plan.study.study == study.study
            and here.asked.plan.study.version < study.version
            and digest in decisions
        ]
        return max(versions, key=lambda pair: pair[0].plan.study.version, default=None)

    async def _look_around(self) -> None:
        """Look for decisions, near deadlines and the state of the line, again and again."""
        while True:
            self._reconcile()
            for here in tuple(self._studies.values()):
                if here.session is not None and await in_thread(here.session.leave_closed_epoch):
                    here.acted_on = None  # answer anew: `not taking part`
            await self._tell_deadlines()
            self._write()
            await asyncio.sleep(self._rhythm.look)

    def _reconcile(self) -> None:
        """Make what runs here agree with what is decided and what the coordinator says."""
        try:
            decisions: Mapping[bytes, Decision] = self._decisions.all()
        except CohortsumError as error:
            log.error("decisions.unusable", reason=error.message)
            return
        for digest, here in self._studies.items():
            decision = decisions.get(digest)
            if here.task is not None and here.task.done() and not here.task.cancelled():
                failed = here.task.exception()
                if failed is not None:
                    here.line.here, here.line.reason = "failed", type(failed).__name__
                    log.error("study.failed", study=here.line.name, error=type(failed).__name__)
            if here.line.state in FINAL:
                here.line.here = "over"
                continue
            if decision == here.acted_on:
                continue
            here.acted_on = decision
            before, here.task = here.task, None
            if before is not None:
                before.cancel()
            here.task = asyncio.create_task(self._act(here, decision, before))

    async def _act(self, here: Here, decision: Decision | None, before: asyncio.Task[None] | None) -> None:
        """Carry out one decision, once what was begun under the one before it has ended."""
        if before is not None:
            await asyncio.wait([before])
        try:
            if decision is None or not decision.approved:
                here.line.here = "waits for a decision" if decision is None else "declined"
                await self._answer_once(here)
                return
            while not await self._tried(here):
                self._write()
                await asyncio.sleep(self._rhythm.reconsider)
        except LineError as error:
            self._fault = error
            self._done.set()
        except CohortsumError as error:
            here.line.reason = error.message
            log.error("study.failed", study=here.line.name, sentence=error.message)

    async def _tried(self, here: Here) -> bool:
        """Answer a study as `_answer_once`; a failure is noted, and tried again like a reason to stay out."""
        try:
            return await self._answer_once(here)
        except LineError:
            raise
        except CohortsumError as error:
            here.line.here, here.line.reason = "failed", error.message
            log.error("study.failed", study=here.line.name, sentence=error.message)
            return False

    async def _answer_once(self, here: Here) -> bool:
        """Answer a study and follow it to its end; return False where the site stays out and may reconsider.

        Settings, policy, tables and rosters are read anew every time: whatever kept the site out may have been mended.
        """
        approved = here.acted_on is not None and here.acted_on.approved
        if approved:
            await self._check_memory()
        session = here.session = StudySession(self._site())
        try:
            client = NodeClient(self._caller, session, session.site_id)
            answer = await in_thread(lambda: session.consider(here.signed))
            refused = await client.answer(answer)
            if answer.envelope.kind is Kind.NOT_TAKING_PART:
                if approved:
                    here.line.here, here.line.reason = "stays out", session.reason
                return False
            if refused:
                here.line.here, here.line.reason = "too late", refused
                return True
            here.line.here, here.line.reason = "takes part", ""
            self._write()
            await follow(self._caller, client, session, self._folder, here.asked.plan.study.digest)
            here.line.here = "over"
            return True
        finally:
            here.session = None
            session.close()

    async def _check_memory(self) -> None:
        """Mark the ledger where the coordinator holds masked inputs of this site that it does not know."""
        site = self._site()
        forgotten = await forgotten_contexts(
            self._caller, site.signer, tuple(site.rosters.values()), site.ledger
        )
        if forgotten and site.ledger.restored_since() is None:
            site.ledger.mark_restored()
            log.error("ledger.older_copy", rounds=len(forgotten))
        elif status_of(site.policy) is Status.PROTECTED:
            await resolve(self._folder, self._caller, site.signer, site.ledger)

    async def _tell_deadlines(self) -> None:
        now = datetime.now(UTC)
        for here in tuple(self._studies.values()):
            until = here.asked.plan.study.enrol.until
            waits = here.line.here == "waits for a decision" and here.line.state == "enrolling"
            if waits and until is not None and now < until < now + NEAR:
                await self._tell(NoticeKind.DEADLINE, here, until)
            last = None if here.acted_on is None or not here.acted_on.approved else here.acted_on.until
            if last is not None and here.line.state not in FINAL and now.date() <= last < (now + SOON).date():
                ends = datetime.combine(last, datetime.max.time(), UTC)
                await self._tell(NoticeKind.APPROVAL_EXPIRING, here, ends)

    async def _tell_end(self, here: Here) -> None:
        kinds = {"released": NoticeKind.RESULTS_RELEASED, "ended": NoticeKind.ROUND_FAILED}
        kind = kinds.get(here.line.state)
        if kind is not None and here.acted_on is not None and here.acted_on.approved:
            await self._tell(kind, here)

    async def _tell(self, kind: NoticeKind, here: Here, due: datetime | None = None) -> None:
        await self._tell_admin(kind, here.line.name, here.line.version, due)

    async def _tell_admin(
        self, kind: NoticeKind, study: str, version: int | None, due: datetime | None = None
    ) -> None:
        if self._messenger is not None:
            await self._messenger.send(Notice(kind, study, version, datetime.now(UTC), due))

    def _write(self) -> None:
        self.board.studies = self._lines | {here.line.digest: here.line for here in self._studies.values()}
        self.board.down_since = self._caller.down_since
        try:
            self.board.write()
        except CohortsumError as error:
            log.error("state.not_written", reason=error.message)
