"""What a case makes of a true packet: bytes turned, fields exchanged, signed again by whoever may sign, or sent as it is."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import CohortsumError
from cohortsum.protocol import codec
from cohortsum.protocol.envelope import MESSAGE, Signer
from cohortsum.protocol.messages import Envelope, Kind, Message, Packet
from tests.fuzz.target import Reader

Signers = Mapping[str, Signer]
KINDS = tuple(Kind)
NUMBERS = (0, 1, 2, 3, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def changed(reader: Reader, packet: Packet, others: tuple[Packet, ...], signers: Signers) -> Packet:
    """Return what a case makes of ``packet``; ``signers`` by id are those whose keys the adversary has."""
    envelope, attached = packet.envelope, packet.attachments
    match reader.byte() % 10:
        case 0:
            return packet
        case 1:  # altered on the way
            try:
                return codec.packet_from_bytes(edited(reader, codec.packet_to_bytes(packet)))
            except CohortsumError:
                return Packet(replace(envelope, payload=edited(reader, envelope.payload)), attached)
        case 2:
            return Packet(
                signed(replace(envelope, payload=edited(reader, envelope.payload)), signers), attached
            )
        case 3 | 4 | 5:
            return Packet(_with_fields(reader, envelope, others, signers), attached)
        case 6:
            return Packet(
                signed(replace(envelope, context=_turned(reader, envelope.context)), signers), attached
            )
        case 7:
            other = reader.pick(others)
            return Packet(
                signed(replace(envelope, kind=reader.pick(KINDS), sender=other.envelope.sender), signers),
                attached,
            )
        case 8:
            return Packet(envelope, _attachments(reader, attached, others))
        case _:
            return Packet(signed(replace(envelope, payload=reader.take(255)), signers), attached)


def signed(envelope: Envelope, signers: Signers) -> Envelope:
    """Return an envelope with its sender's true signature, where that key is at hand; payloads need not be messages."""
    signer = signers.get(envelope.sender)
    if signer is None:
        return envelope
    parts = (envelope.context, number(envelope.kind), envelope.sender.encode(), envelope.payload)
    return replace(envelope, signature=signer.key.sign(MESSAGE, *parts))


def edited(reader: Reader, data: bytes) -> bytes:
    """Return bytes with one to four edits."""
    for _ in range(1 + reader.byte() % 4):
        place = reader.number() % (len(data) + 1)
        size = 1 + reader.byte() % 40
        match reader.byte() % 6:
            case 0:
                data = (
                    data[:place]
                    + bytes([(data[place] if place < len(data) else 0) ^ (1 << reader.byte() % 8)])
                    + data[place + 1 :]
                )
            case 1:
                data = data[:place] + data[place + size :]
            case 2:
                data = data[:place] + reader.take(40) + data[place:]
            case 3:
                data = data[:place] + data[place : place + size] + data[place:]
            case 4:
                data = data[:place] + b"\xff" * size + data[place + size :]
            case _:
                data = data[:place]
    return data


def _with_fields(
    reader: Reader, envelope: Envelope, others: tuple[Packet, ...], signers: Signers
) -> Envelope:
    """Return an envelope whose message has other fields, well formed where that can be, and signed."""
    try:
        message = codec.decode(envelope.kind, envelope.payload)
        kind, payload = codec.encode(_other(reader, message, others, signers))
    except (
        CohortsumError,
        AttributeError,
        OverflowError,
        TypeError,
        ValueError,
    ):  # nothing that the encoder writes
        return signed(replace(envelope, payload=edited(reader, envelope.payload)), signers)
    return signed(replace(envelope, kind=kind, payload=payload), signers)


def _other(reader: Reader, message: Message, others: tuple[Packet, ...], signers: Signers) -> Message:
    named = fields(message)
    if not named:
        return message
    name = named[reader.byte() % len(named)].name
    changes: dict[str, Any] = {name: _value(reader, getattr(message, name), others, signers)}
    return replace(message, **changes)


def _value(reader: Reader, value: Any, others: tuple[Packet, ...], signers: Signers) -> object:
    match value:
        case bool():
            return not value
        case int():
            return reader.pick((value ^ 1, value + 1, *NUMBERS))
        case str():
            return edited(reader, value.encode()).decode("utf-8", "replace")
        case bytes():
            return _turned(reader, value) if reader.byte() % 2 else edited(reader, value)
        case tuple():
            items = cast("tuple[object, ...]", value)
            return _sequence(reader, items, others, signers)
        case dict():
            held = cast("dict[Any, object]", value)
            return _mapping(reader, held, others, signers)
        case Envelope():
            return _envelope(reader, value, others, signers)
        case _:
            name = reader.pick(tuple(field.name for field in fields(value)))
            inner = _value(reader, getattr(value, name), others, signers)
            return replace(value, **{name: inner})


def _sequence(
    reader: Reader, held: tuple[object, ...], others: tuple[Packet, ...], signers: Signers
) -> tuple[object, ...]:
    place = reader.byte() % (len(held) + 1)
    match reader.byte() % 5:
        case 0:
            return held[:place] + held[place + 1 :]
        case 1:
            return held[:place] + held[place : place + 1] + held[place:]
        case 2:
            return held[place:] + held[:place]
        case 3:
            return ()
        case _ if place < len(held):
            return (*held[:place], _value(reader, held[place], others, signers), *held[place + 1 :])
        case _:
            return (*held, reader.pick((0, 1, 7, 2**31)))


def _mapping(
    reader: Reader, held: dict[Any, Any], others: tuple[Packet, ...], signers: Signers
) -> dict[Any, Any]:
    keys = tuple(held) or (0,)
    key = reader.pick(keys)
    match reader.byte() % 4:
        case 0:
            return {one: value for one, value in held.items() if one != key}
        case 1:
            return {**held, reader.byte(): held.get(key, 1)}
        case 2:
            return dict(zip(held, reversed(held.values()), strict=True))
        case _:
            return {**held, key: _value(reader, held.get(key, 1), others, signers)}


def _envelope(reader: Reader, envelope: Envelope, others: tuple[Packet, ...], signers: Signers) -> Envelope:
    match reader.byte() % 4:
        case 0:
            return reader.pick(others).envelope
        case 1:
            return signed(replace(envelope, payload=edited(reader, envelope.payload)), signers)
        case 2:
            return _with_fields(reader, envelope, others, signers)
        case _:
            return replace(envelope, signature=_turned(reader, envelope.signature))


def _turned(reader: Reader, data: bytes) -> bytes:
    """Return bytes of the same length with one bit turned."""
    if not data:
        return data
    place = reader.number() % len(data)
    return data[:place] + bytes([data[place] ^ (1 << reader.byte() % 8)]) + data[place + 1 :]


def _attachments(
    reader: Reader, attached: tuple[bytes, ...], others: tuple[Packet, ...]
) -> tuple[bytes, ...]:
    place = reader.byte() % (len(attached) + 1)
    match reader.byte() % 5:
        case 0:
            return attached[:place] + attached[place + 1 :]
        case 1:
            return (*attached[:place], reader.take(64), *attached[place:])
        case 2:
            return attached[place:] + attached[:place]
        case 3:
            return reader.pick(others).attachments
        case _ if place < len(attached):
            return (*attached[:place], edited(reader, attached[place]), *attached[place + 1 :])
        case _:
            return ()
