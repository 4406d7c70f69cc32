"""The promise behind evidence: nobody who follows the protocol is ever accused.

`evidence-made` puts messages of honest rounds side by side, altered and signed anew by everybody but one party, whose own messages are
there as it signed them. Whatever the adversary makes of these, no finding names that party: one site, or the coordinator.
"""

from dataclasses import replace
from functools import cache

from cohortsum.crypto.errors import CohortsumError
from cohortsum.protocol.evidence import Case, Evidence, evidence_from_bytes
from cohortsum.protocol.evidence_check import accused_by
from cohortsum.protocol.evidence_round import BEFORE
from cohortsum.protocol.messages import Kind, Packet
from tests.fuzz.packets import Signers, changed
from tests.fuzz.scenes import VICTIM, foreign, rounds, signers_of
from tests.fuzz.target import Reader, Target
from tests.protocol.consortium import Consortium

HONEST = (f"site{VICTIM}", "hub")
CASES = tuple(Case)


@cache
def played() -> tuple[Consortium, ...]:
    """Return consortia whose honest rounds are over."""
    consortia = tuple(make() for make in rounds())
    for consortium in consortia:
        consortium.run()
    return consortia


def _made(data: bytes) -> None:
    reader = Reader(data)
    consortium, honest = reader.pick(played()), reader.pick(HONEST)
    signers = signers_of(consortium, without=honest)
    packets = (*(packet for _, _, packet in consortium.log), *foreign())

    def maybe(packet: Packet) -> Packet:
        return changed(reader, packet, packets, signers) if reader.byte() % 4 == 3 else packet

    case = reader.pick(CASES)
    opening = maybe(Packet(consortium.coordinator.opening)).envelope
    chosen = [maybe(packet) for packet in _asked(reader, case, packets, consortium, signers)]
    dealt = [part for packet in chosen for part in packet.attachments] or [b""]
    sealed = case is Case.BAD_SHARES and reader.byte() % 2 == 0
    made = Evidence(
        case,
        "M5",
        opening,
        tuple(packet.envelope for packet in chosen),
        reader.byte() % 4 if sealed else 0,
        reader.pick(dealt) if sealed else b"",
        reader.take(44).ljust(44, b"\0") if sealed else b"",
    )
    in_order = replace(made, messages=tuple(sorted(made.messages, key=lambda held: held.payload)))
    plan = consortium.coordinator.setup.plan
    for one in (made, in_order) if case is Case.TWO_MESSAGES else (made,):
        assert evidence_from_bytes(one.to_bytes()) == one
        try:
            _, broken = accused_by(one, consortium.roster, plan)
        except CohortsumError:
            continue
        assert broken.accused != honest, f"{broken.check} is said of {honest}, who kept to the protocol"


def _asked(
    reader: Reader, case: Case, packets: tuple[Packet, ...], consortium: Consortium, signers: Signers
) -> tuple[Packet, ...]:
    """Return messages of the form that a case asks for."""

    def of(*kinds: Kind) -> tuple[Packet, ...]:
        return tuple(packet for packet in packets if packet.envelope.kind in kinds)

    def once(kind: Kind) -> tuple[Packet, ...]:
        """Return everybody's own message of a kind in this round, by roster index."""
        own = {packet.envelope.sender: packet for packet in reversed(of(kind))}
        here = {
            name: one
            for name, one in own.items()
            if one.envelope.context == consortium.coordinator.fixed.context
        }
        return tuple(packet for _, packet in sorted(here.items()))

    match case:
        case Case.TWO_MESSAGES:
            one = reader.pick(packets)
            same = [held for held in of(one.envelope.kind) if held.envelope.sender == one.envelope.sender]
            return one, changed(reader, reader.pick(same), packets, signers)
        case Case.BROKEN_ROUND:
            last = reader.pick(tuple(BEFORE))
            return tuple(of(kind)[0] for kind in (*BEFORE[last], last) if of(kind))
        case Case.BAD_SHARES:
            lists = of(Kind.SHARES)
            both = reader.byte() % 2
            return (*of(Kind.ADVERTS)[:both], *((reader.pick(lists),) if lists else ()))
        case Case.BAD_ANSWER:
            answers = of(Kind.GATE_SHARES, Kind.DATA_SHARES)
            return (*once(Kind.SHARES), *once(Kind.MASKED), reader.pick(answers))


TARGETS = (Target("evidence-made", _made, size=512),)
