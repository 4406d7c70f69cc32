"""Messages of a committee run to protobuf bytes and back.

`decode` and the ``from_wire`` functions check everything a hostile peer could send before a domain object exists: sizes, ranges, order,
and that the bytes are the one canonical encoding of what they say. They raise RemoteProtocolError (check ``C2``, and ``M2`` for too many
fields) and nothing else.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.sealing import OVERHEAD_BYTES
from cohortsum.protocol.committee.messages import (
    Closing,
    Deal,
    End,
    Inputs,
    Key,
    Keys,
    Kind,
    Message,
    Opening,
    Packet,
    Result,
    RunKey,
    Sealed,
    Signed,
)
from cohortsum.protocol.committee.plan import MOST_SITES, SIZES
from cohortsum.protocol.committee.programs import LONGEST
from cohortsum.protocol.shape import check_shape
from cohortsum.wire.v1 import committee_pb2 as wire

DIGEST_BYTES = 32
KEY_BYTES = 32
SIGNATURE_BYTES = 64
RUN_ID_BYTES = 16
MAX_PAYLOAD_BYTES = 2**20
MAX_TEXT_BYTES = 256
MAX_ANSWER_BYTES = 16 * LONGEST
MAX_FRAME_BYTES = 2**19 + OVERHEAD_BYTES
SHARES_BYTES = 2 * 8 + LONGEST * COMMITTEE.size + OVERHEAD_BYTES
"""Of one sealed package of shares, at most."""
MAX_STAGE = 64
MAX_ATTEMPT = 2**16

_Wire = TypeVar("_Wire", bound=Wire)


def encode(message: Message) -> tuple[Kind, bytes]:
    """Return a message's kind and payload bytes."""
    kind, built = _to_wire(message)
    return kind, built.SerializeToString(deterministic=True)


def decode(signed: Signed) -> Message:
    """Return the message behind signed bytes."""
    if len(signed.payload) > MAX_PAYLOAD_BYTES:
        raise _malformed(f"a payload of {len(signed.payload)} bytes")
    return _DECODERS[signed.kind](signed.payload)


def signed_to_wire(signed: Signed) -> wire.CommitteeSigned:
    """Return the protobuf form of a signed message."""
    return wire.CommitteeSigned(
        context=signed.context,
        kind=int(signed.kind),
        sender=signed.sender,
        payload=signed.payload,
        signature=signed.signature,
    )


def signed_from_wire(held: wire.CommitteeSigned) -> Signed:
    """Return the signed message behind its protobuf form."""
    try:
        kind = Kind(held.kind)
    except ValueError:
        raise _malformed(f"message kind {held.kind} is unknown; upgrade one side") from None
    return Signed(
        _sized(held.context, DIGEST_BYTES, "context"),
        kind,
        _text(held.sender, "sender"),
        held.payload,
        _sized(held.signature, SIGNATURE_BYTES, "signature"),
    )


def packet_to_wire(packet: Packet) -> wire.CommitteePacket:
    """Return the protobuf form of a packet."""
    return wire.CommitteePacket(signed=signed_to_wire(packet.signed), attachments=packet.attachments)


def packet_from_wire(held: wire.CommitteePacket) -> Packet:
    """Return the packet behind its protobuf form."""
    attachments = tuple(held.attachments)
    if len(attachments) > MOST_SITES or any(len(one) > SHARES_BYTES for one in attachments):
        raise _malformed("attachments that no run has")
    return Packet(signed_from_wire(held.signed), attachments)


def sealed_to_wire(frame: Sealed) -> wire.CommitteeFrame:
    """Return the protobuf form of a frame."""
    return wire.CommitteeFrame(
        context=frame.context,
        sender=frame.sender,
        receiver=frame.receiver,
        number=frame.number,
        sealed=frame.sealed,
    )


def sealed_from_wire(held: wire.CommitteeFrame) -> Sealed:
    """Return the frame behind its protobuf form."""
    members = max(SIZES)
    if held.sender >= members or held.receiver >= members or held.sender == held.receiver:
        raise _malformed("a frame between no two members")
    if not OVERHEAD_BYTES <= len(held.sealed) <= MAX_FRAME_BYTES:
        raise _malformed(f"a frame of {len(held.sealed)} bytes")
    context = _sized(held.context, DIGEST_BYTES, "context")
    return Sealed(context, held.sender, held.receiver, held.number, held.sealed)


def _to_wire(message: Message) -> tuple[Kind, Wire]:
    match message:
        case Opening():
            return Kind.OPENING, wire.CommitteeOpening(
                run_id=message.key.run_id,
                stage=message.key.stage,
                attempt=message.key.attempt,
                study_digest=message.study_digest,
                roster_digest=message.roster_digest,
                epoch=message.epoch,
                dealers=message.dealers,
                earlier=message.earlier,
                plan=message.plan,
            )
        case Key():
            return Kind.KEY, wire.CommitteeKey(key=message.key)
        case Keys():
            return Kind.KEYS, wire.CommitteeKeys(keys=map(signed_to_wire, message.keys))
        case Deal():
            return Kind.DEAL, wire.CommitteeDeal(
                keys_digest=message.keys_digest, key=message.key, ciphertexts=message.ciphertexts
            )
        case Inputs():
            return Kind.INPUTS, wire.CommitteeInputs(deals=map(signed_to_wire, message.deals))
        case Result():
            return Kind.RESULT, wire.CommitteeResult(
                inputs_digest=message.inputs_digest, answers=message.answers
            )
        case Closing():
            return Kind.CLOSING, wire.CommitteeClosing(results=map(signed_to_wire, message.results))
        case End():
            return Kind.END, wire.CommitteeEnd(reason=message.reason)


def _opening(held: wire.CommitteeOpening) -> Opening:
    dealers = tuple(held.dealers)
    if len(dealers) > MOST_SITES or any(not before < after for before, after in pairwise(dealers)):
        raise _malformed("dealers must be in ascending order without repeats")
    if not 1 <= held.stage <= MAX_STAGE or not 1 <= held.attempt <= MAX_ATTEMPT:
        raise _malformed("a stage or attempt that no run has")
    return Opening(
        RunKey(_sized(held.run_id, RUN_ID_BYTES, "run_id"), held.stage, held.attempt),
        _sized(held.study_digest, DIGEST_BYTES, "study_digest"),
        _sized(held.roster_digest, DIGEST_BYTES, "roster_digest"),
        _text(held.epoch, "epoch"),
        dealers,
        _sized(held.earlier, DIGEST_BYTES, "earlier") if held.earlier else b"",
        _sized(held.plan, DIGEST_BYTES, "plan"),
    )


def _deal(held: wire.CommitteeDeal) -> Deal:
    if len(held.ciphertexts) not in {DIGEST_BYTES * size for size in SIZES}:
        raise _malformed("ciphertext digests for another number of members")
    return Deal(
        _sized(held.keys_digest, DIGEST_BYTES, "keys_digest"),
        _sized(held.key, KEY_BYTES, "key"),
        held.ciphertexts,
    )


def _result(held: wire.CommitteeResult) -> Result:
    if len(held.answers) > MAX_ANSWER_BYTES:
        raise _malformed(f"answers of {len(held.answers)} bytes")
    return Result(_sized(held.inputs_digest, DIGEST_BYTES, "inputs_digest"), held.answers)


def _signed(held: Sequence[wire.CommitteeSigned], kind: Kind) -> tuple[Signed, ...]:
    if len(held) > MOST_SITES:
        raise _malformed(f"{len(held)} signed messages")
    signed = tuple(map(signed_from_wire, held))
    if any(one.kind is not kind for one in signed):
        raise _malformed(f"a message of another kind than {kind.name}")
    return signed


def _decoder(build: Callable[[], _Wire], read: Callable[[_Wire], Message]) -> Callable[[bytes], Message]:
    def decoder(payload: bytes) -> Message:
        held = build()
        check_shape(cast("Descriptor", held.DESCRIPTOR), payload)
        try:
            held.ParseFromString(payload)
            held.DiscardUnknownFields()
            canonical = held.SerializeToString(deterministic=True)
        except (DecodeError, ValueError) as error:
            raise _malformed("the bytes are not a message of this kind") from error
        if canonical != payload:
            raise _malformed("the bytes are not the canonical encoding of this kind, or hold unknown fields")
        return read(held)

    return decoder


_DECODERS: dict[Kind, Callable[[bytes], Message]] = {
    Kind.OPENING: _decoder(wire.CommitteeOpening, _opening),
    Kind.KEY: _decoder(wire.CommitteeKey, lambda held: Key(_sized(held.key, KEY_BYTES, "key"))),
    Kind.KEYS: _decoder(wire.CommitteeKeys, lambda held: Keys(_signed(held.keys, Kind.KEY))),
    Kind.DEAL: _decoder(wire.CommitteeDeal, _deal),
    Kind.INPUTS: _decoder(wire.CommitteeInputs, lambda held: Inputs(_signed(held.deals, Kind.DEAL))),
    Kind.RESULT: _decoder(wire.CommitteeResult, _result),
    Kind.CLOSING: _decoder(wire.CommitteeClosing, lambda held: Closing(_signed(held.results, Kind.RESULT))),
    Kind.END: _decoder(wire.CommitteeEnd, lambda held: End(_text(held.reason, "reason"))),
}


def _sized(data: bytes, size: int, name: str) -> bytes:
    if len(data) != size:
        raise _malformed(f"{name} has {len(data)} bytes, expected {size}")
    return data


def _text(text: str, name: str) -> str:
    if not 0 < len(text.encode()) <= MAX_TEXT_BYTES or not text.isprintable():
        raise _malformed(f"{name} must be one printable line of 1 to {MAX_TEXT_BYTES} bytes")
    return text


def _malformed(sentence: str) -> RemoteProtocolError:
    return RemoteProtocolError("C2", f"malformed message: {sentence}")
