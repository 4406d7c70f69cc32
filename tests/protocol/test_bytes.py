"""Bytes: arbitrary ones raise only our error, true ones survive the wire, and records come before sends."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol import codec
from cohortsum.protocol.coordinator_states import Masking
from cohortsum.protocol.effects import Audit, ContextSpent, Contribute, SiteEffect
from cohortsum.protocol.messages import (
    Envelope,
    GateShares,
    Kind,
)
from tests.protocol.consortium import Consortium
from tests.protocol.lies import (
    TO_COORDINATOR,
    TO_SITES,
    VICTIM,
    N,
    opened,
)


@given(kind=st.sampled_from(list(Kind)), payload=st.binary(max_size=300))
def test_arbitrary_payloads_raise_only_our_error(kind: Kind, payload: bytes) -> None:
    try:
        message = codec.decode(kind, payload)
    except RemoteProtocolError:
        return
    assert codec.encode(message) == (kind, payload)


@given(data=st.binary(max_size=400))
def test_arbitrary_packets_raise_only_our_error(data: bytes) -> None:
    try:
        packet = codec.packet_from_bytes(data)
    except RemoteProtocolError:
        return
    assert codec.packet_to_bytes(packet) == data


def test_every_message_of_a_round_survives_the_wire_and_no_truncation_or_extension_does() -> None:
    consortium = Consortium(4)
    consortium.run()
    kinds: set[Kind] = set()
    for _, _, packet in consortium.log:
        kinds.add(packet.envelope.kind)
        assert codec.packet_from_bytes(codec.packet_to_bytes(packet)) == packet
        payload = packet.envelope.payload
        assert codec.encode(codec.decode(packet.envelope.kind, payload)) == (packet.envelope.kind, payload)
        for broken in (payload[:-1], payload + b"\x00", payload + b"\xfa\x06\x01x"):
            with pytest.raises(RemoteProtocolError, match="M2"):
                codec.decode(packet.envelope.kind, broken)
    assert kinds == set(TO_SITES) | set(TO_COORDINATOR)


def test_no_share_or_seed_shows_in_a_repr() -> None:
    consortium = Consortium(4)
    consortium.run()
    shown = repr([(opened(packet), packet) for _, _, packet in consortium.log])
    for _, _, packet in consortium.log:
        message = opened(packet)
        if isinstance(message, GateShares):
            for share in message.gate.values():
                assert str(share) not in shown
    assert "MaskedInput" in shown


def test_spent_contexts_are_recorded_before_the_vector_leaves() -> None:
    consortium = Consortium(N)
    order: list[str] = []
    honest = consortium.from_site

    def from_site(index: int, effects: tuple[SiteEffect, ...]) -> None:
        if index == VICTIM:
            order.extend(type(effect).__name__ for effect in effects)
        honest(index, effects)

    consortium.from_site = from_site  # type: ignore[method-assign]
    consortium.run()
    assert order == [
        "RoundSeen", "Send", "PeersSeen", "Send", "Contribute", "ContextSpent", "Send", "PeersSeen", "SurvivorsSigned",
        "Send", "SurvivorsNamed", "Answered", "Send", "Answered", "Send", "SetOpened", "RoundOver",
    ]  # fmt: skip
    assert Contribute.__name__ in order
    assert ContextSpent.__name__ in order


def test_a_late_upload_is_not_taken() -> None:
    consortium = Consortium(N)
    consortium.run()
    assert not isinstance(consortium.coordinator.state, Masking)
    (audit,) = consortium.coordinator.uploaded(0, bytes(32))
    assert isinstance(audit, Audit)
    assert audit.check == "R2"


def test_an_envelope_is_the_same_only_if_all_its_bytes_are() -> None:
    envelope = Envelope(bytes(32), Kind.ADVERT, "site0", b"payload", bytes(64))
    others = [
        replace(envelope, context=bytes(31) + b"\x01"),
        replace(envelope, kind=Kind.ADVERTS),
        replace(envelope, sender="site1"),
        replace(envelope, payload=b"payloae"),
        replace(envelope, signature=bytes(63) + b"\x01"),
        replace(envelope, sender="site0p", payload=b"ayload"),
    ]
    assert len({envelope.digest, *(other.digest for other in others)}) == 7
