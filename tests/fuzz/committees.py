"""Decoders of a committee run: messages of every kind, packets and frames of the line, answers, the pipe, and a member's record."""

from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.node.committee.bindings import FILE, Bindings
from cohortsum.node.committee.frames import Frame, Frames
from cohortsum.protocol.committee import Answer
from cohortsum.protocol.committee.codec import (
    decode,
    encode,
    packet_from_wire,
    packet_to_wire,
    sealed_from_wire,
    sealed_to_wire,
)
from cohortsum.protocol.committee.messages import Kind, Message, Packet, Sealed, Signed
from cohortsum.protocol.committee.plain import answers_from_bytes, answers_to_bytes
from cohortsum.wire.v1 import committee_pb2 as wire
from tests.fuzz.target import Target, decoder, same, scratch
from tests.protocol.committee.played import table_plan

W = TypeVar("W", bound=Wire)


def _message(kind: Kind) -> Target:
    def decoded(data: bytes) -> Message:
        return decode(Signed(bytes(32), kind, "site0", data, bytes(64)))

    def look(data: bytes, value: Message) -> None:
        assert encode(value) == (kind, data)

    return Target(f"committee-{kind.name.lower()}", decoder(decoded, look, RemoteProtocolError), examples=40)


def _parsed(held: W, data: bytes) -> W:
    """Fill a message as gRPC does before any code of ours runs; what gRPC refuses is refused."""
    try:
        held.ParseFromString(data)
    except DecodeError:
        raise RemoteProtocolError("C2", "gRPC refuses this itself") from None
    held.DiscardUnknownFields()
    return held


def _packet(data: bytes) -> Packet:
    packet = packet_from_wire(_parsed(wire.CommitteePacket(), data))
    assert packet_from_wire(packet_to_wire(packet)) == packet
    return packet


def _frame(data: bytes) -> Sealed:
    frame = sealed_from_wire(_parsed(wire.CommitteeFrame(), data))
    assert sealed_from_wire(sealed_to_wire(frame)) == frame
    return frame


def _answers(data: bytes) -> tuple[Answer, ...]:
    return answers_from_bytes(table_plan(), data)


def _pipe(data: bytes) -> list[Frame]:
    frames = Frames().feed(data)
    assert data.startswith(b"".join(frame.to_bytes() for frame in frames))
    return frames


def _record(data: bytes) -> None:
    folder: Path = scratch()
    (folder / FILE).write_bytes(data)
    Bindings(folder).of(b"study", 1)


TARGETS = (
    *map(_message, Kind),
    Target("committee-packet", decoder(_packet, errors=RemoteProtocolError)),
    Target("committee-frame", decoder(_frame, errors=RemoteProtocolError), size=512),
    Target("committee-answers", decoder(_answers, same(answers_to_bytes)), size=128),
    Target("committee-pipe", decoder(_pipe, errors=RemoteProtocolError), size=512),
    Target("committee-record", decoder(_record), size=512),
)
