"""A site and one study, whatever carries the messages: from considering the study to the last answer.

The session answers a study with its approval or with `not taking part`, and a round's messages with records and packets.
Records are on disk before `handle` returns what is to be sent. The reason for staying out stays here, in the local log.
"""

import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from cohortsum.crypto.errors import (
    CohortsumError,
    ConfigurationError,
    DataError,
    LocalProtocolError,
    NotTakingPartError,
    RemoteProtocolError,
)
from cohortsum.crypto.failpoints import reach
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.noise import NoiseStream
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.committee.study import StudyPart
from cohortsum.node.course import Course
from cohortsum.node.epochs import closed_epoch
from cohortsum.node.evidence import Presented
from cohortsum.node.joining import Joined, Site, history_of, in_force, join, still_waived
from cohortsum.node.local_values import write_local
from cohortsum.node.people import people_sets
from cohortsum.node.people_rule import asked_sets, check_write
from cohortsum.node.tables.reader import content_digest
from cohortsum.protocol.approvals import ApprovalBook, decline
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.burial import read_burial
from cohortsum.protocol.committee.effects import Identity
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.denylist import without_denied
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    Contribute,
    DealtAhead,
    PeersSeen,
    Record,
    RoundOver,
    RoundSeen,
    Send,
    SetOpened,
    SiteEffect,
    SumSeen,
    SurvivorsNamed,
    SurvivorsSigned,
)
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.ledger import PeopleSet, Request, Step
from cohortsum.protocol.masking import add_over_parallel
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.noise import draw_gate_noise, draw_noise
from cohortsum.protocol.outgoing import check_packet
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import SiteSetup
from cohortsum.study.cells import expected_cells
from cohortsum.study.definition import FrozenStudy, parse_canonical
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import Integers, StudyPlan, by_block, plan_study

log: structlog.stdlib.BoundLogger = structlog.get_logger()

DEFAULT_TICK_S = 0.1
REFUSED_ONLY = frozenset({"M1", "M2", "M3", "M4", "M5"})
"""Checks whose failure costs the message and nothing else, unless it is evidence: anybody could have sent it."""


class StudySession:
    """One study at one site.

    Args:
        site: the site.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.RLock()  # a message and a closing epoch may come from two threads
        self._joined: Joined | None = None
        self._signed: SignedStudy | None = None
        self._course: Course | None = None
        self._book: tuple[int, Roster, ApprovalBook] | None = None
        self.reason = ""
        self._machine: SiteRound | None = None
        self._context = b""
        self._key: RoundKey | None = None
        self._entering: Mapping[str, PeopleSet] = {}
        self._blocks: tuple[PlannedBlock, ...] | None = None
        self._sent: dict[bytes, tuple[Send, ...]] = {}
        self._log = log.bind(site=site.signer.identity.id)

    @property
    def site_id(self) -> str:
        """The site's id in the roster."""
        return self._site.signer.identity.id

    @property
    def tick_s(self) -> float:
        """The grid on which answers leave, in seconds: the study's, once there is one."""
        return DEFAULT_TICK_S if self._joined is None else self._joined.plan.study.deadlines_s.tick

    def committee(self) -> tuple[Identity, StudyPart] | None:
        """Return who this site is in the runs of its study's committee, and what it brings; None in other modes, or out of the study."""
        joined = self._joined
        if joined is None or joined.plan.study.protection.mode != "committee":
            return None
        study = joined.plan.study
        roster = without_denied(joined.pinned, self._site.deny())
        identity = Identity(roster, self._site.signer, study.digest, study.epoch)
        return identity, StudyPart(self._site, joined)

    def consider(self, signed: SignedStudy) -> Packet:
        """Return this site's signed answer to a study: its approval, or `not taking part`.

        Raises AuthenticationError or ConfigurationError for a study that no statistician of the roster signed, or that
        this roster cannot carry: there is nothing to answer then.
        """
        version = parse_canonical(signed.canonical).roster
        pinned = self._site.rosters.get(version)
        if pinned is None:
            raise ConfigurationError(f"roster version {version}, which the study names, is not pinned here")
        roster = without_denied(pinned, self._site.deny())
        study = open_study(signed, roster)
        self._log = self._log.bind(study=study.study)
        self._signed = signed
        plan = plan_study(study, pinned)
        self.reason = ""
        try:
            self._joined = join(self._site, study, plan, pinned)
        except (NotTakingPartError, ConfigurationError) as error:
            self.reason = error.message
            self._log.warning("study.stays_out", reason=error.message)
            return self._answered(DeedKind.STAYED_OUT, study, decline(self._site.signer, plan.round))
        self._course = Course(plan)
        for survivors, sums in self._site.ledger.seen_sums(plan.round.study_digest):
            before = self._course.plan
            self._course.take(survivors, sums)
            self._keep_local(self._joined, before, sums)
        self._log.info("study.approved", fingerprint=study.fingerprint)
        return self._answered(DeedKind.APPROVAL_SIGNED, study, self._joined.approval)

    def handle(self, packet: Packet) -> tuple[Send, ...]:
        """Return what to send after a packet of the coordinator; records are on disk by then."""
        with self._lock:
            return () if self._joined is None else self._answer(self._joined, packet)

    def leave_closed_epoch(self) -> bool:
        """Leave any open round if the study's epoch was closed meanwhile; return whether it is closed."""
        with self._lock:
            if self._joined is None:
                return False
            epoch = self._joined.plan.study.epoch
            closed = self._site.ledger.epochs.closed(epoch)
            if closed is None:
                return False
            if self.reason != (reason := closed_epoch(epoch, *closed)):
                self.reason = reason
                self._log.warning("study.stays_out", reason=reason)
            self._stop(reason)
            return True

    def close(self) -> None:
        """Leave any open round and remove the private copy of the data."""
        with self._lock:
            self._stop("the site leaves")
            if self._course is not None:
                self._course.forget()
            if self._joined is not None:
                self._joined.tables.close()
                self._joined = None

    def _answered(self, kind: DeedKind, study: FrozenStudy, answer: Envelope) -> Packet:
        """Return the answer to a study, once the audit log has it; raises StoreError, and nothing is sent."""
        self._site.ledger.note_answer(Deed(kind, study.digest, digest=answer.digest))
        return Packet(answer)

    def _answer(self, joined: Joined, packet: Packet) -> tuple[Send, ...]:
        try:
            if self.leave_closed_epoch():
                return ()
            effects = self._receive(joined, packet)
            repeated = self._sent.get(packet.envelope.digest)
            if repeated is not None:  # records are written and values masked once; the same bytes leave again
                return repeated
            sends = self._carry_out(effects)
            self._look_again(joined, sends)
            if self._machine is not None:
                self._sent[packet.envelope.digest] = sends
            return sends
        except RemoteProtocolError as error:
            return self._refuse(joined, packet, error)
        except CohortsumError as error:
            self._stop(error.message)
            return ()

    def _look_again(self, joined: Joined, sends: Sequence[Send]) -> None:
        """Raise LocalProtocolError unless what is to be sent holds only what may leave (`protocol.outgoing`)."""
        context = {self._context, *joined.earlier, *self._site.ledger.named_of(joined.plan.study.digest)}
        plan = joined.plan.round if self._course is None else self._course.plan.round
        known = replace(joined.known, plan=plan, contexts=frozenset(context), blocks=self._blocks)
        for send in sends:
            check_packet(send.packet, known, send.words)

    def _receive(self, joined: Joined, packet: Packet) -> tuple[SiteEffect, ...]:
        envelope = packet.envelope
        if envelope.kind is Kind.BURIAL:
            self._bury(joined, envelope)
            return ()
        if envelope.kind is Kind.OPENING and envelope.context != self._context:
            in_force(self._site, joined.plan.study)
            still_waived(joined.known.waivers)
            machine = SiteRound(self._setup(joined, self._where()), secrets.token_bytes, self._add_masks)
            effects = machine.receive(packet)
            self._stop("a new attempt begins")
            self._machine, self._context = machine, envelope.context
            self._key = next(effect.key for effect in effects if isinstance(effect, RoundSeen))
            return effects
        if self._machine is None:
            raise RemoteProtocolError("M4", f"{envelope.kind.name} without an open round")
        return self._machine.receive(packet)

    def _where(self) -> Course:
        """Return where this site stands; raises RemoteProtocolError where the study has had its last round."""
        if self._joined is not None and self._joined.plan.study.protection.mode == "committee":
            raise RemoteProtocolError("R0.13", "a committee answers this study; it has no round of sums")
        if self._course is None or self._course.over:
            raise RemoteProtocolError("R0.13", "this study has had its last round here")
        return self._course

    def _setup(self, joined: Joined, course: Course) -> SiteSetup:
        site, plan = self._site, course.plan.round
        deny = site.deny()
        if (
            self._book is None or self._book[0] != deny.serial
        ):  # read approvals again where somebody was denied
            roster = without_denied(joined.pinned, deny)
            self._book = (deny.serial, roster, ApprovalBook(plan, roster))
        named = site.ledger.named_of(plan.study_digest)
        return SiteSetup(
            signer=site.signer,
            roster=self._book[1],
            plan=plan,
            approval=joined.approval,
            min_sites=joined.floors.min_sites,
            min_participants=joined.floors.min_participants,
            min_participants_per_site=joined.floors.min_participants_per_site,
            bound_survivors=site.ledger.signed_survivors(plan.study_digest, plan.iteration),
            seen_rounds=site.ledger.seen_rounds(),
            approvals=self._book[2],
            earlier=joined.earlier,
            counter=site.ledger.counter(),
            peers=site.ledger.peers(),
            protected=joined.protected,
            used=self._used(joined, named),
            named=named,
            previous=course.previous,
            ahead=course.ahead,
        )

    def _carry_out(self, effects: Sequence[SiteEffect]) -> tuple[Send, ...]:
        sends: list[Send] = []
        for effect in effects:
            match effect:
                case Send():
                    sends.append(effect)
                case Contribute():
                    with (
                        self._site.ledger.alone()
                    ):  # what the people rule reads still holds when the write is made
                        sends.extend(self._carry_out(self._contribute(effect)))
                case RoundOver(_, reason):
                    self._log.info("round.over", reason=reason)
                    self._remember()
                    self._machine = None
                    self._sent = {}
                    if reason and self._course is not None:
                        self._course.forget()
                case DealtAhead():
                    self._where().hold(effect.secrets)
                case _:
                    if self._joined is not None:
                        self._record(self._joined, effect)
                    self._log.info("round.record", deed=type(effect).__name__)
                    if isinstance(effect, SumSeen):
                        self._see(effect)
        return tuple(sends)

    def _record(self, joined: Joined, record: Record) -> None:
        """Make a record durable, with what it costs; a study that has had its last round gives back what it did not use."""
        ledger, study = self._site.ledger, joined.plan.round.study_digest
        step = _step_of(record)
        reach(f"site.{step}.before")
        ledger.write(study, record, self._entering, joined.status, charged=joined.spending is not None)
        reach(f"site.{step}.recorded")
        if isinstance(record, SetOpened) and joined.spending is not None and joined.plan.most_rounds == 1:
            ledger.budget.release(study)

    def _contribute(self, effect: Contribute) -> tuple[SiteEffect, ...]:
        joined, machine = self._joined, self._machine
        if joined is None or machine is None:
            raise LocalProtocolError("R2", "a contribution is asked for outside a round")
        # before a row is read: how long it takes to draw tells of the noise, and so of nothing else
        plan = self._where().plan
        self._blocks = effect.blocks
        noise = _noise(plan, effect)
        if content_digest(self._site.tables) != joined.tables.digest:
            raise DataError("the tables changed after approval; make a new snapshot and approve again")
        self._entering = self._whose(joined, plan, effect)
        least = 0.0 if joined.people is None else float(joined.limits.k)
        people, values = plan.contribution(joined.tables.batches, effect.blocks, joined.supplied, least)
        at_gate = 0
        if noise is not None:
            vector, at_gate = noise
            values += vector
            vector[:] = 0
        return machine.contribute(people, values, at_gate)

    def _used(self, joined: Joined, named: Mapping[bytes, tuple[int, ...]]) -> bytes:
        """Return the attempt of this study in which t sites named this protected site a survivor, or nothing."""
        own = self._site.signer.identity.index
        mine = [context for context, survivors in named.items() if own in survivors]
        return mine[0] if mine and joined.protected else b""

    def _bury(self, joined: Joined, envelope: Envelope) -> None:
        """Record that nobody can open an attempt any more in which this site had masked its values."""
        written = self._site.ledger.write_of(envelope.context)
        if written is None or written[1] != joined.plan.study.digest:
            return  # nothing of this site is in it
        read_burial(envelope, written[0], joined.plan.round.protection.max_colluding_sites, joined.pinned)
        self._site.ledger.close_write(envelope.context)
        self._log.info("round.closed")

    def _see(self, effect: SumSeen) -> None:
        """Go on from a sum, and write the values per person that the analyses it ends make of it."""
        joined, course = self._joined, self._course
        if joined is None or course is None:
            return
        before, sums = course.plan, by_block(effect.blocks, effect.values)
        course.take(effect.survivors, sums)
        self._keep_local(joined, before, sums)

    def _keep_local(self, joined: Joined, plan: StudyPlan, sums: Mapping[str, Integers]) -> None:
        if self._site.local is not None:
            for path in write_local(self._site.local, plan, sums, joined.tables):
                self._log.info("study.local_values", file=str(path))

    def _whose(self, joined: Joined, plan: StudyPlan, effect: Contribute) -> Mapping[str, PeopleSet]:
        """Return the people sets that enter what travels; raises PolicyError where the people rule forbids it by now."""
        if joined.people is None or self._key is None:
            return {}
        people, cells = joined.people, joined.cells
        if plan.round.iteration > 1:
            people = people_sets(plan, joined.tables, joined.supplied, self._site.ledger.people_key())
            cells = expected_cells(plan, joined.supplied) if joined.protected else cells
        sets = asked_sets(plan, people, effect.blocks, joined.supplied, joined.limits.k)
        step = Step(plan.study.digest, self._key.iteration, self._key.attempt)
        request = Request(
            effect.context,
            step,
            joined.status,
            sets,
            cells,
            noised=joined.spending is not None,
            max_attempts=plan.round.protection.max_attempts,
        )
        check_write(history_of(self._site), request, joined.limits)
        return {asked.name: asked.people for asked in sets}

    def _refuse(self, joined: Joined, packet: Packet, error: RemoteProtocolError) -> tuple[Send, ...]:
        """Keep the evidence that a refused packet gives, before anything else; then complain and leave the attempt, if it is one.

        A refused opening of another attempt, a replayed one say, leaves the open one alone.
        """
        self._log.warning("message.refused", check=error.check, sentence=error.message)
        machine = self._machine
        if machine is None:
            return ()
        proven = machine.prove(packet, joined.pinned)
        for evidence in proven:
            self._keep(joined, evidence)
        if not proven and (error.check in REFUSED_ONLY or packet.envelope.context != self._context):
            return ()  # a refused opening of another attempt, a replayed one say, leaves the open one alone
        sends = self._carry_out(machine.complain(error))
        self._stop(error.message)
        return sends

    def _keep(self, joined: Joined, evidence: Evidence) -> None:
        """Write evidence down; a disk that refuses keeps the session from nothing else."""
        site, study = self._site, joined.plan.study
        found = check_evidence(evidence.to_bytes(), joined.pinned, joined.plan.round)
        if not isinstance(found, Finding) or self._signed is None or site.evidence is None:
            return
        try:
            held = Presented(study.digest, study.roster, self._signed)
            path = site.evidence.keep(evidence, found, held, site.signer, site.ledger.note)
        except CohortsumError as fault:
            self._log.error("evidence.not_kept", sentence=fault.message)
            return
        if path is not None:
            self._log.error("evidence.kept", accused=found.accused, check=found.check, file=path.name)

    def _remember(self) -> None:
        """Write down what the coordinator told this site of an attempt that is over, for comparison with other sites."""
        site, record = self._site, None if self._machine is None else self._machine.record
        if self._joined is None or self._signed is None or site.evidence is None or record is None:
            return
        study = self._joined.plan.study
        try:
            site.evidence.remember(record, Presented(study.digest, study.roster, self._signed), site.signer)
        except (CohortsumError, OSError) as fault:
            self._log.error("record.not_kept", error=type(fault).__name__)

    def _stop(self, reason: str) -> None:
        if self._machine is not None:
            self._carry_out(self._machine.abandon(reason))

    def _add_masks(
        self,
        vector: Vector,
        plus: Sequence[SecretBytes],
        minus: Sequence[SecretBytes],
        /,
        *,
        modulus: int = 0,
    ) -> None:
        add_over_parallel(vector, plus, minus, modulus, self._site.pool, os.cpu_count() or 1)


def _step_of(record: Record) -> str:
    """Return the step of the round that a record belongs to."""
    match record:
        case RoundSeen():
            return "r0"
        case PeersSeen():
            return "r1"
        case ContextSpent():
            return "r2"
        case SurvivorsSigned():
            return "r3"
        case SurvivorsNamed() | Answered(part="gate"):
            return "r4a"
        case Answered():
            return "r4b"
        case SetOpened() | SumSeen():
            return "r5"


def _noise(plan: StudyPlan, effect: Contribute) -> tuple[Integers, int] | None:
    """Return this site's noise for what travels and for the gate, drawn anew for this attempt; None where the study has none."""
    noise = plan.round.noise
    if noise is None:
        return None
    stream = NoiseStream.fresh()
    blocks = [(block.name, block.size) for block in effect.blocks]
    try:
        honest = noise.honest(effect.advertised, plan.round.protection)
        return draw_noise(noise, blocks, honest, stream), draw_gate_noise(noise, honest, stream)
    finally:
        stream.wipe()
