"""A site and one study, whatever carries the messages: from considering the study to the last answer.

The session answers a study with its approval or with `not taking part`, and a round's messages with records and packets.
Records are on disk before `handle` returns what is to be sent. The reason for staying out stays here, in the local log.
"""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from cohortsum.crypto.errors import (
    CohortsumError,
    ConfigurationError,
    DataError,
    LocalProtocolError,
    NotTakingPartError,
    PolicyError,
    RemoteProtocolError,
)
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.parallel import add_masks_parallel
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.config import PolicyConfig, TablesConfig
from cohortsum.node.decisions import Decision
from cohortsum.node.failpoints import reach
from cohortsum.node.ledger import Ledger, closed_epoch
from cohortsum.node.policy import Floors, floors_for
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import Tables, content_digest, open_tables
from cohortsum.protocol.approvals import ApprovalBook, approve, decline
from cohortsum.protocol.denylist import DenyList, without_denied
from cohortsum.protocol.effects import Contribute, RoundOver, Send, SiteEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import EarlierRound, SiteSetup
from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.definition import FrozenStudy, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import StudyPlan, plan_study

log: structlog.stdlib.BoundLogger = structlog.get_logger()

DEFAULT_TICK_S = 0.1
REFUSED_ONLY = frozenset({"M1", "M2", "M3", "M4", "M5"})
"""Checks whose failure costs the message and nothing else: anybody could have sent it."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a site brings to every study.

    Attributes:
        rosters: the rosters it pinned, by version.
        deny: returns the deny-list in force: a denial is effective at once.
        signer: its identity.
        tables: where its data lie.
        policy: what it allows.
        epoch: label of its snapshot.
        ledger: its durable log.
        decision: returns what its admin, or the policy for them, has decided about a study; None: nothing yet.
        pool: threads for masks.
        scratch: folder for private copies; None takes the system's.
        study: returns a study that this site has kept, by digest; a new version may build on it.
    """

    rosters: Mapping[int, Roster]
    deny: Callable[[], DenyList]
    signer: Signer
    tables: TablesConfig
    policy: PolicyConfig
    epoch: str
    ledger: Ledger
    decision: Callable[[bytes], Decision | None]
    pool: Executor
    scratch: Path | None = None
    study: Callable[[bytes], SignedStudy | None] = lambda _digest: None


@dataclass(frozen=True, slots=True)
class Joined:
    """A study this site takes part in, with its data ready."""

    plan: StudyPlan
    floors: Floors
    tables: Tables = field(repr=False)
    supplied: frozenset[str]
    approval: Envelope
    pinned: Roster
    earlier: Mapping[bytes, EarlierRound]


def earlier_rounds(site: Site, plan: StudyPlan) -> dict[bytes, EarlierRound]:
    """Return the rounds of earlier versions that this site signed and that a round of ``plan`` may build on."""
    found: dict[bytes, EarlierRound] = {}
    for context, digest, survivors in site.ledger.signed_rounds():
        signed = site.study(digest)
        if signed is None or digest == plan.study.digest:
            continue
        study = parse_canonical(signed.canonical)
        pinned = site.rosters.get(study.roster)
        if study.study != plan.study.study or pinned is None:
            continue
        unchanged = unchanged_blocks(plan_study(study, pinned), plan)
        if unchanged:
            found[context] = EarlierRound(survivors, unchanged)
    return found


class StudySession:
    """One study at one site.

    Args:
        site: the site.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.RLock()  # a message and a closing epoch may come from two threads
        self._joined: Joined | None = None
        self._book: tuple[int, Roster, ApprovalBook] | None = None
        self.reason = ""
        self._machine: SiteRound | None = None
        self._context = b""
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
        plan = plan_study(study, pinned)
        self.reason = ""
        try:
            self._joined = self._join(study, plan, pinned)
        except (NotTakingPartError, ConfigurationError) as error:
            self.reason = error.message
            self._log.warning("study.stays_out", reason=error.message)
            return Packet(decline(self._site.signer, plan.round))
        self._log.info("study.approved", fingerprint=study.fingerprint)
        return Packet(self._joined.approval)

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
            closed = self._site.ledger.closed(epoch)
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
            if self._joined is not None:
                self._joined.tables.close()
                self._joined = None

    def _answer(self, joined: Joined, packet: Packet) -> tuple[Send, ...]:
        try:
            if self.leave_closed_epoch():
                return ()
            effects = self._receive(joined, packet)
            repeated = self._sent.get(packet.envelope.digest)
            if repeated is not None:  # records are written and values masked once; the same bytes leave again
                return repeated
            sends = self._carry_out(effects)
            if self._machine is not None:
                self._sent[packet.envelope.digest] = sends
            return sends
        except RemoteProtocolError as error:
            return self._refuse(error)
        except CohortsumError as error:
            self._stop(error.message)
            return ()

    def _join(self, study: FrozenStudy, plan: StudyPlan, pinned: Roster) -> Joined:
        site = self._site
        decision = self._in_force(study)
        refuse_unbuilt(study)
        if site.ledger.restored_since() is not None:
            raise PolicyError(
                "the ledger has forgotten rounds that this site took part in: it is an older copy; stop the node and run "
                "`cohortsum node recover`"
            )
        if study.epoch != site.epoch:
            raise PolicyError(
                f"study {study.study} is about epoch {study.epoch}; this site's snapshot is {site.epoch}"
            )
        site.ledger.bind_version(study.study, study.version)
        floors = floors_for(study, site.policy)
        cohort = plan.cohort
        needs = Needs(study.variables, cohort.required, cohort.reads - cohort.required)
        tables = open_tables(site.tables, needs, site.scratch)
        try:
            site.ledger.bind_epoch(site.epoch, tables.digest)
            for line in tables.report:
                self._log.info("data.report", line=line)
            people, supplied = plan.supply(tables.batches(), floors.min_participants_per_site)
            if people < floors.min_participants_per_site:
                raise DataError(
                    f"fewer people of the cohort than min_participants_per_site {floors.min_participants_per_site}"
                )
        except BaseException:
            tables.close()
            raise
        supplied = plan.narrowed(supplied, decision.analyses)
        approval = approve(site.signer, plan.round, site.policy.profile, supplied)
        return Joined(plan, floors, tables, supplied, approval, pinned, earlier_rounds(site, plan))

    def _in_force(self, study: FrozenStudy) -> Decision:
        """Return the admin's yes to a study; raises PolicyError where there is none today."""
        decision, today = self._site.decision(study.digest), datetime.now(UTC).date()
        if decision is None or not decision.approved:
            raise PolicyError(f"study {study.study} ({study.fingerprint}) is not approved here")
        if decision.until is not None and decision.until < today:
            raise PolicyError(
                f"study {study.study}: the approval ended on {decision.until}; approve it again if it shall go on"
            )
        if study.expires < today:
            raise PolicyError(f"study {study.study} expired on {study.expires}")
        return decision

    def _receive(self, joined: Joined, packet: Packet) -> tuple[SiteEffect, ...]:
        envelope = packet.envelope
        if envelope.kind is Kind.OPENING and envelope.context != self._context:
            self._in_force(joined.plan.study)
            machine = SiteRound(self._setup(joined), secrets.token_bytes, self._add_masks)
            effects = machine.receive(packet)
            self._stop("a new attempt begins")
            self._machine, self._context = machine, envelope.context
            return effects
        if self._machine is None:
            raise RemoteProtocolError("M4", f"{envelope.kind.name} without an open round")
        return self._machine.receive(packet)

    def _setup(self, joined: Joined) -> SiteSetup:
        site, plan = self._site, joined.plan.round
        deny = site.deny()
        if (
            self._book is None or self._book[0] != deny.serial
        ):  # read approvals again where somebody was denied
            roster = without_denied(joined.pinned, deny)
            self._book = (deny.serial, roster, ApprovalBook(plan, roster))
        return SiteSetup(
            signer=site.signer,
            roster=self._book[1],
            plan=plan,
            approval=joined.approval,
            min_sites=joined.floors.min_sites,
            min_participants=joined.floors.min_participants,
            min_participants_per_site=joined.floors.min_participants_per_site,
            bound_survivors=site.ledger.signed_survivors(plan.study_digest),
            seen_rounds=site.ledger.seen_rounds(),
            approvals=self._book[2],
            earlier=joined.earlier,
            counter=site.ledger.counter(),
            peers=site.ledger.peers(),
        )

    def _carry_out(self, effects: Sequence[SiteEffect]) -> tuple[Send, ...]:
        sends: list[Send] = []
        for effect in effects:
            match effect:
                case Send():
                    sends.append(effect)
                case Contribute():
                    sends.extend(self._carry_out(self._contribute(effect)))
                case RoundOver(_, reason):
                    self._log.info("round.over", reason=reason)
                    self._machine = None
                    self._sent = {}
                case _:
                    if self._joined is not None:
                        self._site.ledger.write(self._joined.plan.round.study_digest, effect)
                    self._log.info("round.record", deed=type(effect).__name__)
        return tuple(sends)

    def _contribute(self, effect: Contribute) -> tuple[SiteEffect, ...]:
        joined, machine = self._joined, self._machine
        if joined is None or machine is None:
            raise LocalProtocolError("R2", "a contribution is asked for outside a round")
        if content_digest(self._site.tables) != joined.tables.digest:
            raise DataError("the tables changed after approval; make a new snapshot and approve again")
        people, values = joined.plan.contribution(joined.tables.batches(), effect.blocks, joined.supplied)
        effects = machine.contribute(people, values)
        reach("r2.masked")
        return effects

    def _refuse(self, error: RemoteProtocolError) -> tuple[Send, ...]:
        self._log.warning("message.refused", check=error.check, sentence=error.message)
        machine = self._machine
        if machine is None or error.check in REFUSED_ONLY:
            return ()
        sends = self._carry_out(machine.complain(error))
        self._stop(error.message)
        return sends

    def _stop(self, reason: str) -> None:
        if self._machine is not None:
            self._carry_out(self._machine.abandon(reason))

    def _add_masks(
        self, vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], /
    ) -> None:
        add_masks_parallel(vector, plus, minus, self._site.pool, os.cpu_count() or 1)
