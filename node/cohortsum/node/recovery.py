"""A ledger that went back in time: how a site finds out, and how it rebuilds an upper bound of what it has done.

The coordinator keeps every masked input as the site signed it (the *trail*), and the signed messages of every round. A masked
input that the ledger does not know proves that the ledger is an older copy. The coordinator may hide rounds; the other sites
remember this site's counter and refuse a round with one that forgot (R1.9), so a ledger rebuilt from too little helps nobody.

Rebuilt is an upper bound: whatever the site may have signed or answered in a proven round counts as signed and answered. An epoch
whose content is not known any more is closed. Whose rows had entered is computed again where the tables are still those of the
round's epoch; where they are not, a site with a people rule answers nothing exact any more.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog

from cohortsum.crypto.errors import ConfigurationError, DataError, RemoteProtocolError
from cohortsum.node import inbox
from cohortsum.node.client import CALL_TIMEOUT_S, Caller
from cohortsum.node.config import load_node_config
from cohortsum.node.ledger import Ledger, ProvenDeed
from cohortsum.node.people import people_sets
from cohortsum.node.pinning import Pin, load_pin
from cohortsum.node.snapshot import held_snapshot
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import content_digest, open_tables
from cohortsum.protocol.codec import WIRE_VERSION, envelope_from_wire
from cohortsum.protocol.envelope import Signer, open_envelope
from cohortsum.protocol.ledger import PeopleSet
from cohortsum.protocol.messages import Envelope, MaskedInput, Opening
from cohortsum.protocol.proof import Transcript, read_transcript
from cohortsum.protocol.roster import Role, Roster
from cohortsum.protocol.transcript_wire import transcript_from_wire
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.spending import spending_of
from cohortsum.wire.v1 import service_pb2

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found: how many rounds, how many of them were forgotten, and which epochs are closed now."""

    rounds: int
    forgotten: int
    closed: tuple[str, ...]
    incarnation: int


async def forgotten_contexts(
    caller: Caller, signer: Signer, rosters: Iterable[Roster], ledger: Ledger
) -> list[bytes]:
    """Return the contexts of masked inputs that this site signed and its ledger does not know."""
    return [
        envelope.context
        for envelope in await _trail(caller)
        if _is_own(envelope, signer, rosters) and not ledger.has_spent(envelope.context)
    ]


async def resolve(folder: Path, caller: Caller, signer: Signer, ledger: Ledger) -> None:
    """Find out, from transcripts, over whom masked inputs of this site were opened, where it was not there to hear it."""
    pin = load_pin(folder)
    for context in ledger.unresolved():
        try:
            deed, _ = await _prove(folder, caller, pin, signer, context)
        except RemoteProtocolError as error:
            log.warning(
                "transcript.refused", context=context.hex()[:16], check=error.check, sentence=error.message
            )
            continue
        if deed.proven.signatures:
            ledger.name(deed.proven)


async def rebuild(folder: Path, caller: Caller, signer: Signer) -> Rebuilt:
    """Rebuild the ledger in ``folder`` from every transcript that the coordinator has of this site.

    Raises ConfigurationError where the coordinator shows a masked input of this site and no transcript that proves its round.
    """
    pin = load_pin(folder)
    own = [envelope for envelope in await _trail(caller) if _is_own(envelope, signer, pin.rosters.values())]
    proven: list[ProvenDeed] = []
    epochs: set[str] = set()
    for envelope in own:
        try:
            deed, epoch = await _prove(folder, caller, pin, signer, envelope.context)
        except RemoteProtocolError as error:
            raise ConfigurationError(
                f"the coordinator does not prove round {envelope.context.hex()[:12]} of this site ({error.message}); ask its "
                "operator: without it the ledger would be below the truth"
            ) from error
        proven.append(deed)
        epochs.add(epoch)
    with closing(Ledger(folder / "ledger.db")) as ledger:
        forgotten = sum(not ledger.has_spent(deed.proven.context) for deed in proven)
        unknown = sorted(epoch for epoch in epochs if not _known(folder, ledger, epoch))
        ledger.rebuild(proven, unknown)
        return Rebuilt(len(proven), forgotten, tuple(unknown), ledger.incarnation())


def _known(folder: Path, ledger: Ledger, epoch: str) -> bool:
    """Return whether a label's content is known; a snapshot's record ties it again."""
    if ledger.epochs.knows(epoch):
        return True
    digest = held_snapshot(folder, epoch)
    if digest is None:
        return False
    ledger.epochs.bind(epoch, digest)
    return True


async def _prove(
    folder: Path, caller: Caller, pin: Pin, signer: Signer, context: bytes
) -> tuple[ProvenDeed, str]:
    transcript = await _transcript(caller, context)
    opening = open_envelope(transcript.opening, Opening, context, pin.newest, Role.COORDINATOR)
    signed = await _study(folder, caller, opening.study_digest)
    study = parse_canonical(signed.canonical)
    if study.digest != opening.study_digest:
        raise RemoteProtocolError("T2", "the coordinator handed out another study than the round's")
    roster = pin.of_version(study.roster)
    plan: StudyPlan = plan_study(study, roster)
    index = roster.identities[signer.identity.id].index
    if index is None:
        raise RemoteProtocolError("T2", "the round is under a roster without this site")
    proven = read_transcript(transcript, index, plan.round, roster)
    people = _people_of(folder, plan, proven.supplied)
    spending = spending_of(plan)
    return ProvenDeed(proven, study, people, None if spending is None else spending.cost), study.epoch


def _people_of(folder: Path, plan: StudyPlan, supplied: frozenset[str]) -> Mapping[str, PeopleSet] | None:
    """Return whose rows entered a masked input, if the tables are still those of its epoch; None if they are not."""
    config = load_node_config(folder / "node.yaml")
    try:
        if held_snapshot(folder, plan.study.epoch) != content_digest(config):
            return None
        cohort = plan.cohort
        needs = Needs(plan.study.variables, cohort.required, cohort.reads - cohort.required)
        with open_tables(config, needs, folder) as tables, closing(Ledger(folder / "ledger.db")) as ledger:
            sets = people_sets(plan, tables, supplied, ledger.people_key())
            return {name: sets[name] for name in sets}
    except DataError as error:
        log.warning("recovery.tables_unreadable", reason=error.message)
        return None


async def _study(folder: Path, caller: Caller, digest: bytes) -> SignedStudy:
    held = inbox.kept(folder, digest)
    if held is not None:
        return held
    request = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=digest)
    reply = await caller.call(lambda stub: stub.GetStudy(request, timeout=CALL_TIMEOUT_S))
    return SignedStudy(reply.canonical, reply.statistician, reply.signature)


async def _trail(caller: Caller) -> tuple[Envelope, ...]:
    reply = await caller.call(
        lambda stub: stub.GetTrail(service_pb2.GetTrailRequest(), timeout=CALL_TIMEOUT_S)
    )
    return tuple(map(envelope_from_wire, reply.masked))


async def _transcript(caller: Caller, context: bytes) -> Transcript:
    request = service_pb2.GetTranscriptRequest(context=context)
    held = await caller.call(lambda stub: stub.GetTranscript(request, timeout=CALL_TIMEOUT_S))
    return transcript_from_wire(held)


def _is_own(envelope: Envelope, signer: Signer, rosters: Iterable[Roster]) -> bool:
    """Return whether this site signed a masked input, under a key that any of the rosters has for it."""
    if envelope.sender != signer.identity.id:
        return False
    for roster in rosters:
        try:
            open_envelope(envelope, MaskedInput, envelope.context, roster, Role.SITE)
        except RemoteProtocolError:
            continue
        return True
    log.warning("trail.not_ours", context=envelope.context.hex()[:16])
    return False
