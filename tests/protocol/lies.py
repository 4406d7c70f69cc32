"""What a hostile coordinator or network does to a packet, and what a test then looks at."""

from collections.abc import Callable
from dataclasses import replace

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol import codec
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.messages import (
    Envelope,
    Kind,
    Message,
    Packet,
)
from tests.protocol.consortium import Consortium

Change = Callable[[Consortium, Packet], Packet]
"""What a lying coordinator makes of a packet."""

N = 5
VICTIM = 2
TO_SITES = [
    Kind.OPENING,
    Kind.ADVERTS,
    Kind.DELIVERY,
    Kind.SURVIVORS,
    Kind.QUORUM,
    Kind.GATE_OPENING,
    Kind.CLOSING,
]
TO_COORDINATOR = [
    Kind.ADVERT,
    Kind.SHARES,
    Kind.MASKED,
    Kind.CONSISTENCY,
    Kind.GATE_SHARES,
    Kind.DATA_SHARES,
]


def resign(consortium: Consortium, packet: Packet, message: Message) -> Packet:
    """Return the packet with another message, truly signed by the coordinator: the worst it can do."""
    hub = consortium.coordinator.setup.signer
    return Packet(hub.sign(packet.envelope.context, message), packet.attachments)


def opened(packet: Packet) -> Message:
    return codec.decode(packet.envelope.kind, packet.envelope.payload)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def altered(envelope: Envelope, where: str) -> Envelope:
    match where:
        case "payload":
            return replace(envelope, payload=flip(envelope.payload, len(envelope.payload) // 2))
        case "signature":
            return replace(envelope, signature=flip(envelope.signature, 7))
        case _:
            return replace(envelope, context=flip(envelope.context, 3))


def play_with_victim(kind: Kind, change: Change) -> Consortium:
    """Run a round in which the victim is shown ``change(consortium, packet)`` instead of one message."""
    consortium = Consortium(N)

    def to_site(index: int, packet: Packet) -> Packet | None:
        if index == VICTIM and packet.envelope.kind is kind:
            return change(consortium, packet)
        return packet

    consortium.to_site = to_site
    consortium.run()
    return consortium


def first_errors(consortium: Consortium) -> dict[int, RemoteProtocolError]:
    """Return what stopped each site; what it hears afterwards belongs to a round it has left."""
    first: dict[int, RemoteProtocolError] = {}
    for index, error in consortium.errors:
        first.setdefault(index, error)
    return first


def victim_check(consortium: Consortium) -> str:
    """Return the check that stopped the victim; nobody else saw an error and no wrong sum opened."""
    assert {index for index, _ in consortium.errors} == {VICTIM}
    state = consortium.coordinator.state
    if isinstance(state, Opened):
        assert state.values.tolist() == consortium.expected(state.survivors)
    return consortium.errors[0][1].check
