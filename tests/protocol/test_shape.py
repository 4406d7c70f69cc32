"""Fields are counted as the parser would make them, before it does; against a count over the parsed message."""

import tracemalloc
from typing import Any, cast

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.codec import MAX_PAYLOAD_BYTES, MAX_SITES, decode
from cohortsum.protocol.messages import Kind
from cohortsum.protocol.shape import MAX_FIELDS, check_shape, checked
from cohortsum.wire.v1 import round_pb2 as wire
from cohortsum.wire.v1 import service_pb2

TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def kind_of(message: Message) -> Descriptor:
    return cast("Descriptor", message.DESCRIPTOR)


def counted(message: Message) -> int:
    """Return the fields of a parsed message, of packed numbers one for every byte they take beside the field itself."""
    total = 0
    for field, value in message.ListFields():
        values: list[Any] = [value] if isinstance(value, Message | str | bytes | int) else list(value)
        if field.message_type is not None:
            total += sum(1 + counted(one) for one in values)
        elif field.type in TEXTS:
            total += len(values)
        elif isinstance(value, int):
            total += 1
        else:
            total += 1 + sum(max(1, (int(one).bit_length() + 6) // 7) for one in values)
    return total


BYTES = st.binary(max_size=300)
NUMBERS = st.integers(0, 2**32 - 1)
ENVELOPES = st.builds(
    wire.Envelope,
    context=BYTES,
    kind=st.integers(0, 400),
    sender=st.text(max_size=200),
    payload=BYTES,
    signature=BYTES,
)
MESSAGES = st.one_of(
    st.builds(wire.Adverts, adverts=st.lists(ENVELOPES, max_size=9)),
    st.builds(wire.Packet, envelope=ENVELOPES, attachments=st.lists(BYTES, max_size=9)),
    st.builds(wire.Shares, holders=st.lists(NUMBERS, max_size=40), ciphertext_digests=BYTES),
    st.builds(
        wire.Opening, approvals=st.lists(ENVELOPES, max_size=5), survivors=st.lists(NUMBERS, max_size=9)
    ),
    st.builds(service_pb2.NextReply, number=NUMBERS, packet=st.builds(wire.Packet, envelope=ENVELOPES)),
)


@given(message=MESSAGES)
def test_a_message_passes_with_as_many_fields_as_it_has_and_not_with_one_fewer(message: Message) -> None:
    data, fields = message.SerializeToString(), counted(message)
    check_shape(kind_of(message), data, fields)
    if fields:
        with pytest.raises(
            RemoteProtocolError, match=f"M2: malformed message: more than {fields - 1} fields"
        ):
            check_shape(kind_of(message), data, fields - 1)


SERIALISED = MESSAGES.map(lambda message: message.SerializeToString())
CUT = st.tuples(SERIALISED, st.integers(1, 50)).map(lambda held: held[0][: -held[1]])


@given(data=st.one_of(st.binary(max_size=200), SERIALISED, CUT))
def test_what_passes_is_what_the_parser_makes_of_it_and_what_it_cannot_parse_is_nothing(data: bytes) -> None:
    for kind in (wire.Shares, wire.Packet, wire.Opening, service_pb2.StudyStatus):
        read = checked(kind.FromString, kind_of(kind()))(data)
        try:
            expected = kind.FromString(data)
        except DecodeError:
            assert read is None
        else:
            assert read in (None, expected)


CROWDS = {
    Kind.ADVERTS: b"\x0a\x00",
    Kind.SURVIVORS: b"\x0a\x00",
    Kind.GATE_SHARES: b"\x12\x00",
    Kind.APPROVAL: b"\x32\x00",
    Kind.BURIAL: b"\x0a\x00",
}


@pytest.mark.parametrize("kind", CROWDS, ids=lambda kind: kind.name)
def test_millions_of_empty_parts_become_no_objects(kind: Kind) -> None:
    """32 MiB of parts of two bytes are 16 million objects; the refusal takes none of them."""
    payload = CROWDS[kind] * (MAX_PAYLOAD_BYTES // 2)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="M2: malformed message: more than 20000 fields"):
            decode(kind, payload)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_packed_numbers_without_end_are_refused() -> None:
    size = MAX_PAYLOAD_BYTES - 10
    payload = wire.Shares(holders=[1] * 100).SerializeToString()
    check_shape(kind_of(wire.Shares()), payload)
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    with pytest.raises(RemoteProtocolError, match="more than 20000 fields"):
        decode(Kind.SHARES, b"\x12" + length + b"\x01" * size)


def test_nesting_has_an_end() -> None:
    check_shape(kind_of(service_pb2.NextReply()), b"\x12\x02\x0a\x00")
    with pytest.raises(RemoteProtocolError, match="M2"):
        check_shape(kind_of(service_pb2.NextReply()), b"\x12\x03\x0a\x02\x00")


def test_the_greatest_honest_payloads_have_room() -> None:
    envelope = wire.Envelope(
        context=bytes(32), kind=5, sender="a-site", payload=bytes(140), signature=bytes(64)
    )
    share = wire.Share(owner=999, value=bytes(32))
    greatest: list[Message] = [
        wire.Adverts(adverts=[envelope] * MAX_SITES),
        wire.Delivery(shares=[envelope] * MAX_SITES),
        wire.Opening(approvals=[envelope] * MAX_SITES, survivors=range(MAX_SITES), epoch="e"),
        wire.GateShares(gate=[share] * MAX_SITES, mask=[share] * MAX_SITES),
        wire.GateOpening(
            survivors=[wire.OpenedGate(owner=999, words=bytes(8), seed=bytes(32))] * MAX_SITES,
            dropped=[share] * MAX_SITES,
        ),
        wire.Closing(data=[share] * MAX_SITES, mask=[share] * MAX_SITES),
    ]
    for message in greatest:
        check_shape(kind_of(message), message.SerializeToString(), MAX_FIELDS // 2)
