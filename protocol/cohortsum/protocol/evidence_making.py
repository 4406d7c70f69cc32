"""Making evidence of what a machine has in hand when a check fails.

Every candidate is checked as a stranger would check it (`check_evidence`) before it is handed on, so a fault of our own accuses nobody.
What would show more than `evidence` argues to be safe is not made: two opened gates that name different sites, an opened gate with a seed
that its site's place among survivors or dropouts keeps shut, a closing with seeds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cohortsum.crypto.errors import CohortsumError, RemoteProtocolError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.codec import decode
from cohortsum.protocol.envelope import authenticate
from cohortsum.protocol.evidence import Case, Evidence, Finding
from cohortsum.protocol.evidence_check import accused_by, check_evidence
from cohortsum.protocol.evidence_round import BEFORE
from cohortsum.protocol.messages import (
    Adverts,
    Closing,
    Delivery,
    Envelope,
    GateOpening,
    Kind,
    Message,
    Packet,
    Quorum,
    Shares,
    Survivors,
)
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster, SiteId

SealingKey = Callable[[int], SecretBytes | None]
"""Returns the one-use key of what a dealer, by roster index, sealed for this site, or None where it has none."""


def of_two(
    opening: Envelope, first: Envelope, second: Envelope, roster: Roster, plan: RoundPlan
) -> tuple[Evidence, ...]:
    """Return the evidence that two messages are, or nothing: they may be of two sites' own copies of a round."""
    low, high = sorted((first, second), key=lambda held: (held.context, held.payload))
    return _proven(Evidence(Case.TWO_MESSAGES, "", opening, (low, high)), roster, plan)


def of_coordinator(
    told: Mapping[Kind, Envelope], packet: Packet, roster: Roster, plan: RoundPlan
) -> tuple[Evidence, ...]:
    """Return what a packet of the coordinator shows behind what it told before.

    Args:
        told: its messages of this attempt by kind, with the adverts and lists of the attempt that dealt.
        packet: that a check refused.
        roster: the whole one that the study names.
        plan: of the study.
    """
    opening, latest = told.get(Kind.OPENING), packet.envelope
    if opening is None or not _genuine(latest, roster, Role.COORDINATOR):
        return ()
    found: list[Evidence] = []
    before = told.get(latest.kind)
    if before is not None:
        found += of_two(opening, before, latest, roster, plan)
    needed = BEFORE.get(latest.kind)
    if needed is not None and before is None and all(kind in told for kind in needed):
        messages = (*(told[kind] for kind in needed), latest)
        found += _proven(Evidence(Case.BROKEN_ROUND, "", opening, messages), roster, plan)
    relayed = [inner for held in (*told.values(), latest) for inner in passed_on(held)]
    return (*found, *doubled(opening, relayed, roster, plan))


def of_dealers(
    told: Mapping[Kind, Envelope],
    packet: Packet,
    holder: int,
    key: SealingKey,
    roster: Roster,
    plan: RoundPlan,
) -> tuple[Evidence, ...]:
    """Return what a delivery shows of its dealers, to the site with roster index ``holder``; their keys leave for nobody else.

    Args:
        told: the coordinator's messages of this attempt by kind.
        packet: the delivery.
        holder: this site.
        key: returns what a dealer's ciphertext for this site is opened with.
        roster: the whole one that the study names.
        plan: of the study.
    """
    opening, adverts = told.get(Kind.OPENING), told.get(Kind.ADVERTS)
    message = _read(packet.envelope)
    if opening is None or adverts is None or not isinstance(message, Delivery):
        return ()
    advertisers = [roster.sites.get(SiteId(held.sender)) for held in passed_on(adverts)]
    found: list[Evidence] = []
    for envelope, ciphertext in zip(message.shares, packet.attachments, strict=False):
        dealer = roster.sites.get(SiteId(envelope.sender))
        if dealer is None or dealer == holder:
            continue
        if not isinstance(listed := _read(envelope), Shares):
            continue
        if list(listed.holders) != advertisers:
            found += _proven(Evidence(Case.BAD_SHARES, "", opening, (adverts, envelope)), roster, plan)
        if holder not in listed.holders:
            continue
        if (opened := key(dealer)) is not None:
            sealed = Evidence(Case.BAD_SHARES, "", opening, (envelope,), holder, ciphertext, opened.reveal())
            found += _proven(sealed, roster, plan)
    return tuple(found)


def of_answer(
    opening: Envelope,
    lists: Sequence[Envelope],
    masked: Sequence[Envelope],
    answer: Envelope,
    roster: Roster,
    plan: RoundPlan,
) -> tuple[Evidence, ...]:
    """Return what an answer shows behind the share lists of U2 and the masked inputs of U3, both by roster index."""
    messages = (*lists, *masked, answer)
    return _proven(Evidence(Case.BAD_ANSWER, "", opening, messages), roster, plan)


def doubled(
    opening: Envelope, relayed: Iterable[Envelope], roster: Roster, plan: RoundPlan
) -> tuple[Evidence, ...]:
    """Return one proof per site of which two different messages of one kind were passed on."""
    by_sender: dict[tuple[str, Kind], dict[bytes, Envelope]] = {}
    for envelope in relayed:
        if envelope.context == opening.context:
            by_sender.setdefault((envelope.sender, envelope.kind), {})[envelope.payload] = envelope
    found: list[Evidence] = []
    for held in by_sender.values():
        genuine = [one for one in held.values() if len(held) > 1 and _genuine(one, roster, Role.SITE)]
        if len(genuine) > 1:
            found += of_two(opening, genuine[0], genuine[1], roster, plan)
    return tuple(found)


def _genuine(envelope: Envelope, roster: Roster, role: Role) -> bool:
    try:
        authenticate(envelope, roster, role)
    except RemoteProtocolError:
        return False
    return True


def passed_on(envelope: Envelope) -> Iterator[Envelope]:
    """Yield what a message of the coordinator passes on."""
    match _read(envelope):
        case Adverts(held) | Delivery(held) | Survivors(held) | Quorum(held):
            yield from held
        case _:
            return


def _proven(candidate: Evidence, roster: Roster, plan: RoundPlan) -> tuple[Evidence, ...]:
    """Return the candidate under the check that it shows broken, if it shows one to a stranger."""
    if not _may_be_kept(candidate, roster):
        return ()
    try:
        _, broken = accused_by(candidate, roster, plan)
    except CohortsumError:
        return ()
    evidence = replace(candidate, check=broken.check)
    return (evidence,) if isinstance(check_evidence(evidence.to_bytes(), roster, plan), Finding) else ()


def _may_be_kept(evidence: Evidence, roster: Roster) -> bool:
    gates: list[GateOpening] = []
    members: set[int | None] | None = None
    for envelope in evidence.messages:
        match _read(envelope):
            case Closing(data=data, mask=mask) if data or mask:
                return False
            case Survivors(masked):
                members = {roster.sites.get(SiteId(held.sender)) for held in masked}
            case GateOpening() as gate:
                gates.append(gate)
            case None if envelope.kind in (Kind.CLOSING, Kind.GATE_OPENING):
                return False
            case _:
                pass
    named = {(frozenset(gate.survivors), frozenset(gate.dropped)) for gate in gates}
    return len(named) <= 1 and all(_one_kind(gate, members) for gate in gates)


def _one_kind(gate: GateOpening, members: set[int | None] | None) -> bool:
    """Return whether an opened gate holds no site's seed of the kind that its place among the survivors keeps shut."""
    if members is None:
        return not gate.survivors.keys() & gate.dropped.keys()
    return gate.survivors.keys() <= members and not gate.dropped.keys() & members


def _read(envelope: Envelope) -> Message | None:
    try:
        return decode(envelope.kind, envelope.payload)
    except RemoteProtocolError:
        return None
