"""Domain messages to protobuf bytes and back; the only module besides the gRPC edges that touches the wire types.

`decode` checks everything a hostile peer could send before a domain object exists: size, fields, lengths, ranges, order
and duplicates, and that the bytes are the one canonical encoding of what they say, without unknown fields. It raises
RemoteProtocolError (check ``M2``) and nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from cohortsum.crypto import agreement, field
from cohortsum.crypto.errors import CryptoError, RemoteProtocolError
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.messages import (
    Abort,
    Advert,
    Adverts,
    Approval,
    Burial,
    Closing,
    Complaint,
    Consistency,
    DataShares,
    Delivery,
    EncryptionKeyOffer,
    Envelope,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    Message,
    NotTakingPart,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Regimen,
    Shares,
    Survivors,
    Tombstone,
    Unlocked,
    WaivedRule,
)
from cohortsum.protocol.shape import check_shape
from cohortsum.wire.v1 import round_pb2 as wire

WIRE_VERSION = 1
MAX_CHUNK_BYTES = 1024 * 1024
"""Of one part of an upload."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of any message; `limits` has what every call may carry."""
DIGEST_BYTES = 32
SIGNATURE_BYTES = 64
MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
MAX_TEXT_BYTES = 4096
MAX_SITES = 1000
MAX_ITEMS = 1_000_000
MAX_AHEAD = 64
"""Secrets that one attempt may deal for later iterations."""
MAX_COUNTER = 2**48
"""Masked inputs of one site in all its life; ledgers keep counters as signed 64-bit integers."""
MAX_WAIVERS = 200
"""Of one site."""

_Ordered = TypeVar("_Ordered", int, str)
_Wire = TypeVar("_Wire", bound=Wire)


def encode(message: Message) -> tuple[Kind, bytes]:
    """Return a message's kind and payload bytes."""
    kind, built = _to_wire(message)
    return kind, built.SerializeToString(deterministic=True)


def decode(kind: Kind, payload: bytes) -> Message:
    """Return the message behind payload bytes of one kind; raises RemoteProtocolError M2 for anything malformed."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise _malformed(f"a payload of {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} are read")
    return _DECODERS[kind](payload)


def envelope_to_wire(envelope: Envelope) -> wire.Envelope:
    """Return the protobuf form of an envelope."""
    return wire.Envelope(
        context=envelope.context,
        kind=int(envelope.kind),
        sender=envelope.sender,
        payload=envelope.payload,
        signature=envelope.signature,
    )


def envelope_from_wire(held: wire.Envelope) -> Envelope:
    """Return the envelope behind its protobuf form; raises RemoteProtocolError M2."""
    try:
        kind = Kind(held.kind)
    except ValueError:
        raise _malformed(f"message kind {held.kind} is unknown; upgrade one side") from None
    return Envelope(
        context=_sized(held.context, DIGEST_BYTES, "context"),
        kind=kind,
        sender=_text(held.sender, "sender"),
        payload=held.payload,
        signature=_sized(held.signature, SIGNATURE_BYTES, "signature"),
    )


def packet_to_bytes(packet: Packet) -> bytes:
    """Return a packet as bytes for a store or a transport."""
    held = wire.Packet(envelope=envelope_to_wire(packet.envelope), attachments=packet.attachments)
    return held.SerializeToString(deterministic=True)


def packet_from_bytes(data: bytes) -> Packet:
    """Return the packet behind bytes; raises RemoteProtocolError M2."""
    if len(data) > 2 * MAX_PAYLOAD_BYTES:
        raise _malformed(f"a packet of {len(data)} bytes, at most {2 * MAX_PAYLOAD_BYTES} are read")
    held = wire.Packet()
    _parse(held, data)
    return packet_from_wire(held)


def packet_from_wire(held: wire.Packet) -> Packet:
    """Return the packet behind its protobuf form; raises RemoteProtocolError M2."""
    return Packet(envelope_from_wire(held.envelope), tuple(held.attachments))


def _to_wire(message: Message) -> tuple[Kind, Wire]:
    match message:
        case Approval():
            return Kind.APPROVAL, wire.Approval(
                study_digest=message.study_digest,
                roster_digest=message.roster_digest,
                profile=message.regimen.profile,
                supplies=message.supplies,
                count=message.regimen.count,
                waivers=[
                    wire.WaivedRule(
                        rule=one.rule, value=one.value, reason=one.reason, by=one.by, until=one.until
                    )
                    for one in message.regimen.waivers
                ],
            )
        case Opening():
            return Kind.OPENING, wire.Opening(
                round_id=message.key.round_id,
                iteration=message.key.iteration,
                attempt=message.key.attempt,
                study_digest=message.study_digest,
                roster_digest=message.roster_digest,
                epoch=message.epoch,
                approvals=map(envelope_to_wire, message.approvals),
                survivors=message.survivors,
                earlier=message.earlier,
                plan=message.plan,
                ahead=message.ahead,
                dealt=message.dealt,
                slot=message.slot,
            )
        case Advert():
            return Kind.ADVERT, wire.Advert(
                channel_key=message.channel_key,
                mask_key=message.mask_key,
                gate_commitment=message.gate_commitment,
                data_commitment=message.data_commitment,
                counter=message.counter,
                protected=message.protected,
                used=message.used,
                ahead=message.ahead,
            )
        case Adverts():
            return Kind.ADVERTS, wire.Adverts(adverts=map(envelope_to_wire, message.adverts))
        case Shares():
            return Kind.SHARES, wire.Shares(
                adverts_digest=message.adverts_digest,
                holders=message.holders,
                ciphertext_digests=message.ciphertext_digests,
                mask_commitments=message.mask_commitments,
                gate_commitments=message.gate_commitments,
                data_commitments=message.data_commitments,
                ahead_commitments=message.ahead_commitments,
            )
        case Delivery():
            return Kind.DELIVERY, wire.Delivery(shares=map(envelope_to_wire, message.shares))
        case MaskedInput():
            return Kind.MASKED, wire.MaskedInput(
                adverts_digest=message.adverts_digest,
                shares_digest=message.shares_digest,
                gate_digest=message.gate_digest,
                data_digest=message.data_digest,
            )
        case Survivors():
            return Kind.SURVIVORS, wire.Survivors(masked=map(envelope_to_wire, message.masked))
        case Consistency():
            return Kind.CONSISTENCY, wire.Consistency(statement=message.statement)
        case Quorum():
            return Kind.QUORUM, wire.Quorum(signatures=map(envelope_to_wire, message.signatures))
        case GateShares():
            return Kind.GATE_SHARES, wire.GateShares(
                statement=message.statement, gate=_shares(message.gate), mask=_shares(message.mask)
            )
        case GateOpening():
            survivors = [
                wire.OpenedGate(owner=owner, words=opened.words, seed=field.to_bytes(opened.seed))
                for owner, opened in sorted(message.survivors.items())
            ]
            return Kind.GATE_OPENING, wire.GateOpening(survivors=survivors, dropped=_shares(message.dropped))
        case DataShares():
            return Kind.DATA_SHARES, wire.DataShares(statement=message.statement, data=_shares(message.data))
        case Closing():
            return Kind.CLOSING, wire.Closing(
                statement=message.statement,
                result_digest=message.result_digest,
                data=_shares(message.data),
                mask=_shares(message.mask),
            )
        case Abort():
            return Kind.ABORT, wire.Abort(reason=message.reason)
        case Complaint():
            return Kind.COMPLAINT, wire.Complaint(check=message.check, accused=message.accused)
        case Tombstone():
            return Kind.TOMBSTONE, wire.Tombstone()
        case Burial():
            return Kind.BURIAL, wire.Burial(tombstones=map(envelope_to_wire, message.tombstones))
        case EncryptionKeyOffer():
            return Kind.KEY_OFFER, wire.EncryptionKeyOffer(parameters=message.parameters, key=message.key)
        case Unlocked():
            return Kind.UNLOCKED, wire.Unlocked(
                statement=message.statement,
                ciphertext_digest=message.ciphertext_digest,
                masked_digest=message.masked_digest,
            )
        case NotTakingPart():
            return Kind.NOT_TAKING_PART, wire.NotTakingPart(
                study_digest=message.study_digest, roster_digest=message.roster_digest
            )


def _approval(held: wire.Approval) -> Approval:
    if len(held.supplies) > MAX_ITEMS // 8:
        raise _malformed(f"supplies has {len(held.supplies)} bytes, at most {MAX_ITEMS // 8} are read")
    return Approval(
        _sized(held.study_digest, DIGEST_BYTES, "study_digest"),
        _sized(held.roster_digest, DIGEST_BYTES, "roster_digest"),
        _regimen(held),
        held.supplies,
    )


def _regimen(held: wire.Approval) -> Regimen:
    rules = [waived.rule for waived in held.waivers]
    if len(rules) > MAX_WAIVERS or any(first >= second for first, second in pairwise(rules)):
        raise _malformed(f"waivers are sorted by rule, each once, at most {MAX_WAIVERS}")
    return Regimen(
        _text(held.profile, "profile"),
        held.count,
        tuple(
            WaivedRule(
                _text(one.rule, "rule"),
                _text(one.value, "value"),
                _text(one.reason, "reason"),
                _text(one.by, "by"),
                _text(one.until, "until"),
            )
            for one in held.waivers
        ),
    )


def _opening(held: wire.Opening) -> Opening:
    if held.iteration < 1 or held.attempt < 1:
        raise _malformed("iteration and attempt count from 1")
    return Opening(
        RoundKey(_sized(held.round_id, ROUND_ID_BYTES, "round_id"), held.iteration, held.attempt),
        _sized(held.study_digest, DIGEST_BYTES, "study_digest"),
        _sized(held.roster_digest, DIGEST_BYTES, "roster_digest"),
        _text(held.epoch, "epoch"),
        _envelopes(held.approvals, Kind.APPROVAL),
        tuple(_ascending(held.survivors, "survivors", MAX_SITES)),
        _optional(held.earlier, "earlier"),
        _optional(held.plan, "plan"),
        held.ahead if held.ahead <= MAX_AHEAD else _refuse_ahead(held.ahead),
        _optional(held.dealt, "dealt"),
        held.slot,
    )


def _advert(held: wire.Advert) -> Advert:
    ahead = _columns(held.ahead, 1, "ahead")
    slots = (ahead[start : start + DIGEST_BYTES] for start in range(0, len(ahead), 3 * DIGEST_BYTES))
    for key in (held.channel_key, held.mask_key, *slots):
        agreement.check_public(key)
    if held.counter > MAX_COUNTER:
        raise _malformed(f"counter is {held.counter}, no site has made more than {MAX_COUNTER} masked inputs")
    return Advert(
        held.channel_key,
        held.mask_key,
        _sized(held.gate_commitment, DIGEST_BYTES, "gate_commitment"),
        _sized(held.data_commitment, DIGEST_BYTES, "data_commitment"),
        held.counter,
        held.protected,
        _optional(held.used, "used"),
        ahead,
    )


def _shares_message(held: wire.Shares) -> Shares:
    holders = tuple(_ascending(held.holders, "holders", MAX_SITES))
    size = DIGEST_BYTES * len(holders)
    return Shares(
        _sized(held.adverts_digest, DIGEST_BYTES, "adverts_digest"),
        holders,
        _sized(held.ciphertext_digests, size, "ciphertext_digests"),
        _sized(held.mask_commitments, size, "mask_commitments"),
        _sized(held.gate_commitments, size, "gate_commitments"),
        _sized(held.data_commitments, size, "data_commitments"),
        _columns(held.ahead_commitments, len(holders), "ahead_commitments"),
    )


def _masked(held: wire.MaskedInput) -> MaskedInput:
    return MaskedInput(
        _sized(held.adverts_digest, DIGEST_BYTES, "adverts_digest"),
        _sized(held.shares_digest, DIGEST_BYTES, "shares_digest"),
        _sized(held.gate_digest, DIGEST_BYTES, "gate_digest"),
        _sized(held.data_digest, DIGEST_BYTES, "data_digest"),
    )


def _gate_shares(held: wire.GateShares) -> GateShares:
    return GateShares(_statement(held.statement), _elements(held.gate, "gate"), _elements(held.mask, "mask"))


def _gate_opening(held: wire.GateOpening) -> GateOpening:
    _ascending([opened.owner for opened in held.survivors], "survivors", MAX_SITES)
    survivors = {
        opened.owner: OpenedGate(_sized(opened.words, 8, "words"), field.from_bytes(opened.seed))
        for opened in held.survivors
    }
    return GateOpening(survivors, _elements(held.dropped, "dropped"))


def _decoder(build: Callable[[], _Wire], read: Callable[[_Wire], Message]) -> Callable[[bytes], Message]:
    def decoder(payload: bytes) -> Message:
        held = build()
        _parse(held, payload)
        try:
            return read(held)
        except CryptoError as error:
            raise _malformed(error.message) from error

    return decoder


_DECODERS: dict[Kind, Callable[[bytes], Message]] = {
    Kind.APPROVAL: _decoder(wire.Approval, _approval),
    Kind.OPENING: _decoder(wire.Opening, _opening),
    Kind.ADVERT: _decoder(wire.Advert, _advert),
    Kind.ADVERTS: _decoder(wire.Adverts, lambda held: Adverts(_envelopes(held.adverts, Kind.ADVERT))),
    Kind.SHARES: _decoder(wire.Shares, _shares_message),
    Kind.DELIVERY: _decoder(wire.Delivery, lambda held: Delivery(_envelopes(held.shares, Kind.SHARES))),
    Kind.MASKED: _decoder(wire.MaskedInput, _masked),
    Kind.SURVIVORS: _decoder(wire.Survivors, lambda held: Survivors(_envelopes(held.masked, Kind.MASKED))),
    Kind.CONSISTENCY: _decoder(wire.Consistency, lambda held: Consistency(_statement(held.statement))),
    Kind.QUORUM: _decoder(wire.Quorum, lambda held: Quorum(_envelopes(held.signatures, Kind.CONSISTENCY))),
    Kind.GATE_SHARES: _decoder(wire.GateShares, _gate_shares),
    Kind.GATE_OPENING: _decoder(wire.GateOpening, _gate_opening),
    Kind.DATA_SHARES: _decoder(
        wire.DataShares,
        lambda held: DataShares(_statement(held.statement), _elements(held.data, "data")),
    ),
    Kind.CLOSING: _decoder(
        wire.Closing,
        lambda held: Closing(
            _statement(held.statement),
            _sized(held.result_digest, DIGEST_BYTES, "result_digest"),
            _elements(held.data, "data"),
            _elements(held.mask, "mask"),
        ),
    ),
    Kind.TOMBSTONE: _decoder(wire.Tombstone, lambda _held: Tombstone()),
    Kind.BURIAL: _decoder(wire.Burial, lambda held: Burial(_envelopes(held.tombstones, Kind.TOMBSTONE))),
    Kind.KEY_OFFER: _decoder(
        wire.EncryptionKeyOffer,
        lambda held: EncryptionKeyOffer(
            _sized(held.parameters, DIGEST_BYTES, "parameters"), _sized(held.key, DIGEST_BYTES, "key")
        ),
    ),
    Kind.UNLOCKED: _decoder(
        wire.Unlocked,
        lambda held: Unlocked(
            _statement(held.statement),
            _sized(held.ciphertext_digest, DIGEST_BYTES, "ciphertext_digest"),
            _sized(held.masked_digest, DIGEST_BYTES, "masked_digest"),
        ),
    ),
    Kind.ABORT: _decoder(wire.Abort, lambda held: Abort(_text(held.reason, "reason"))),
    Kind.COMPLAINT: _decoder(
        wire.Complaint,
        lambda held: Complaint(_text(held.check, "check"), _text(held.accused, "accused")),
    ),
    Kind.NOT_TAKING_PART: _decoder(
        wire.NotTakingPart,
        lambda held: NotTakingPart(
            _sized(held.study_digest, DIGEST_BYTES, "study_digest"),
            _sized(held.roster_digest, DIGEST_BYTES, "roster_digest"),
        ),
    ),
}


def _parse(held: Wire, data: bytes) -> None:
    check_shape(cast("Descriptor", held.DESCRIPTOR), data)
    try:
        held.ParseFromString(data)
        held.DiscardUnknownFields()
        canonical = held.SerializeToString(deterministic=True)
    except (DecodeError, ValueError) as error:
        raise _malformed("the bytes are not a message of this kind") from error
    if canonical != data:
        raise _malformed("the bytes are not the canonical encoding of this kind, or hold unknown fields")


def _envelopes(held: Sequence[wire.Envelope], kind: Kind) -> tuple[Envelope, ...]:
    if len(held) > MAX_SITES:
        raise _malformed(f"{len(held)} envelopes, at most {MAX_SITES} are read")
    envelopes = tuple(map(envelope_from_wire, held))
    if any(envelope.kind is not kind for envelope in envelopes):
        raise _malformed(f"an envelope of another kind than {kind.name}")
    return envelopes


def _ascending(values: Iterable[_Ordered], name: str, most: int) -> list[_Ordered]:
    held = list(values)
    if len(held) > most:
        raise _malformed(f"{name} holds {len(held)} entries, at most {most} are read")
    if any(not before < after for before, after in pairwise(held)):
        raise _malformed(f"{name} must be in ascending order without repeats")
    return held


def _elements(held: Sequence[wire.Share], name: str) -> dict[int, int]:
    _ascending([share.owner for share in held], name, MAX_SITES)
    return {share.owner: field.from_bytes(share.value) for share in held}


def _shares(shares: Mapping[int, int]) -> list[wire.Share]:
    return [wire.Share(owner=owner, value=field.to_bytes(share)) for owner, share in sorted(shares.items())]


def _optional(data: bytes, name: str) -> bytes:
    return _sized(data, DIGEST_BYTES, name) if data else b""


def _columns(data: bytes, holders: int, name: str) -> bytes:
    """Return three digests or keys per holder and slot dealt ahead, for at most `MAX_AHEAD` slots."""
    slots, rest = divmod(len(data), 3 * DIGEST_BYTES * max(holders, 1))
    if rest or slots > MAX_AHEAD or (slots and not holders):
        raise _malformed(f"{name} has {len(data)} bytes, expected {3 * DIGEST_BYTES} per holder and slot")
    return data


def _refuse_ahead(slots: int) -> int:
    raise _malformed(f"{slots} slots are dealt ahead, at most {MAX_AHEAD} are")


def _statement(data: bytes) -> bytes:
    return _sized(data, DIGEST_BYTES, "statement")


def _sized(data: bytes, size: int, name: str) -> bytes:
    if len(data) != size:
        raise _malformed(f"{name} has {len(data)} bytes, expected {size}")
    return data


def _text(text: str, name: str) -> str:
    if (
        not 0 < len(text.encode()) <= MAX_TEXT_BYTES or not text.isprintable()
    ):  # a terminal obeys what it does not show
        raise _malformed(f"{name} must be one printable line of 1 to {MAX_TEXT_BYTES} bytes")
    return text


def _malformed(sentence: str) -> RemoteProtocolError:
    return RemoteProtocolError("M2", f"malformed message: {sentence}")
