"""What may leave, checked once more before a packet is sent: a closed set of messages, of fields that cannot hold a person's value.

Rows, ids of people, values per person, registration matrices and logs have no message of their own: the types of `messages` have no
place for them. This is the second line, for the day a caller is wrong. Every field of every type has a rule in `RULES`
(`outgoing_fields`), and a type or a field without one is refused: a digest, key, signature or share of its length that is no text; a
small whole number; an id, index, item, epoch, profile or context that the plan and the roster name. Attachments and the masked words
have the lengths that the plan gives them, and the digests that the message signs. The payload's bytes are read again by the codec, so
that what is judged is what travels.

The check is against mistakes, not against an end that hides bits in a key it draws.
"""

import hmac
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import cast

import numpy as np

from cohortsum.crypto import field
from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.sealing import OVERHEAD_BYTES
from cohortsum.protocol import codec
from cohortsum.protocol import outgoing_fields as may
from cohortsum.protocol.ahead import SLOT_BYTES
from cohortsum.protocol.masking import words_digest, words_from_bytes
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
    Opening,
    Packet,
    Quorum,
    Shares,
    Survivors,
    Tombstone,
    Unlocked,
)
from cohortsum.protocol.outgoing_fields import Known, Rule
from cohortsum.protocol.plan import GATE_LENGTH, WORD_BITS
from cohortsum.protocol.roster import Role
from cohortsum.protocol.seeds import SHARE_KINDS, ciphertext_digest
from cohortsum.protocol.unlocking import key_digest

OUTGOING = "O1"
"""The name of this check."""
LEAST_WORDS = 32
"""Of which it can be told whether they are masked."""

FROM_SITES = frozenset(
    {
        Kind.APPROVAL,
        Kind.NOT_TAKING_PART,
        Kind.ADVERT,
        Kind.SHARES,
        Kind.MASKED,
        Kind.CONSISTENCY,
        Kind.GATE_SHARES,
        Kind.DATA_SHARES,
        Kind.TOMBSTONE,
        Kind.COMPLAINT,
    }
)
"""What sites send; everything else is the coordinator's."""


def check_message(message: object, known: Known) -> None:
    """Raise LocalProtocolError O1, with the name of the field, unless a message holds only what may leave.

    Args:
        message: of `messages.Message`.
        known: what the other end knows already.
    """
    rules = RULES.get(type(message))
    if rules is None:
        raise LocalProtocolError(
            OUTGOING, "what is to be sent is no message of the protocol; nothing is sent"
        )
    sent = cast("Message", message)
    for one in fields(sent):
        rule = rules.get(one.name)
        if rule is None or not rule(getattr(sent, one.name), sent, known):
            raise _refused(f"{type(sent).__name__}.{one.name}")


def check_packet(packet: Packet, known: Known, words: Vector | None = None) -> None:
    """Raise LocalProtocolError O1 unless a packet, and the masked words behind it, are what may leave.

    Args:
        packet: as it would be sent, signed.
        known: what the other end knows already.
        words: the masked vector that follows, where one does.
    """
    envelope = packet.envelope
    identity = known.roster.identities.get(envelope.sender)
    if identity is None or (identity.role is Role.SITE) is not (envelope.kind in FROM_SITES):
        raise _refused("Envelope.sender")
    message = _opened(envelope, known)
    if message is None:
        raise _refused("Envelope")
    check_message(message, known)
    if not _attached(message, packet.attachments, known):
        raise _refused(f"the attachments of {type(message).__name__}")
    if (words is not None) is not isinstance(message, MaskedInput) or not _masked(words, known):
        raise _refused(f"the words behind {type(message).__name__}")


def _refused(where: str) -> LocalProtocolError:
    return LocalProtocolError(
        OUTGOING,
        f"{where} holds something that no message may carry; nothing is sent, report this as a fault",
    )


def _opened(envelope: Envelope, known: Known) -> Message | None:
    """Return the message in an envelope that may leave; None where the envelope itself may not."""
    standing = envelope.kind in (Kind.APPROVAL, Kind.NOT_TAKING_PART)
    contexts = frozenset({known.approvals}) if standing else known.contexts
    if envelope.context not in contexts or not may.is_digest(envelope.signature, codec.SIGNATURE_BYTES):
        return None
    try:
        return codec.decode(envelope.kind, envelope.payload)
    except RemoteProtocolError:
        return None


def _envelopes(kind: Kind, value: object, _message: Message, known: Known) -> bool:
    """Signed messages of sites, of one kind, each of which may leave itself."""
    if type(value) is not tuple:
        return False
    for envelope in cast("tuple[object, ...]", value):
        if type(envelope) is not Envelope or envelope.kind is not kind:
            return False
        identity, held = known.roster.identities.get(envelope.sender), _opened(envelope, known)
        if identity is None or identity.role is not Role.SITE or held is None:
            return False
        try:
            check_message(held, known)
        except LocalProtocolError:
            return False
    return True


def _attached(message: Message, attachments: tuple[bytes, ...], known: Known) -> bool:
    """Return whether attachments are those that a message announces, by number, length and digest."""
    match message:
        case Shares():
            columns = message.ciphertext_digests
            sizes = [_sealed_bytes(message)] * len(message.holders)
            digests = [columns[start : start + 32] for start in range(0, len(columns), 32)]
            return _sized(attachments, sizes) and all(
                hmac.compare_digest(ciphertext_digest(held), signed)
                for held, signed in zip(attachments, digests, strict=True)
            )
        case MaskedInput():
            return _sized(attachments, [8 * GATE_LENGTH]) and hmac.compare_digest(
                words_digest(words_from_bytes(attachments[0])), message.gate_digest
            )
        case Delivery():
            lists = [codec.decode(envelope.kind, envelope.payload) for envelope in message.shares]
            return _sized(attachments, [_sealed_bytes(held) for held in lists if isinstance(held, Shares)])
        case Opening() if known.plan.encryption is not None:
            return len(attachments) == 2 and all(
                type(held) is bytes for held in attachments
            )  # `unlocking` reads them
        case EncryptionKeyOffer():
            return len(attachments) == 1 and hmac.compare_digest(key_digest(attachments[0]), message.key)
        case Closing():
            return _sized(attachments, [8 * _length(known)] * len(message.data))
        case _:
            return not attachments


def _sized(attachments: tuple[bytes, ...], sizes: list[int]) -> bool:
    return [len(held) for held in attachments] == sizes and all(type(held) is bytes for held in attachments)


def _sealed_bytes(message: Shares) -> int:
    """Return the size of one sealed package of a dealer: two indices, a digest, and the shares of the attempt and its slots."""
    per_set = len(SHARE_KINDS) * field.ELEMENT_BYTES
    sets = 1 + len(message.ahead_commitments) // (SLOT_BYTES * max(1, len(message.holders)))
    return OVERHEAD_BYTES + 2 * len(number(0)) + codec.DIGEST_BYTES + per_set * sets


def _length(known: Known) -> int:
    """Return how many words travel; no vector has a negative length, so that before an attempt none fits."""
    return -1 if known.blocks is None else known.plan.upload_words(known.blocks)


def _masked(words: Vector | None, known: Known) -> bool:
    """Return whether words have the plan's length and look masked: of uniform ones, 1 in 128 is below 2**56 in magnitude.

    Of encrypted ones all are coefficients, uniform below primes of 54 bits, and 1 in 128 is below 2**46 in magnitude.
    """
    if words is None:
        return True
    if words.dtype != np.uint64 or words.shape != (_length(known),):
        return False
    encryption = known.plan.encryption
    bits = WORD_BITS if encryption is None else min(encryption.coefficient_bits)
    # Both ends of the ring are small: shifted by 2**56, a magnitude below it is a word below 2**57.
    shifted = words + np.uint64(2 ** (bits - 8)) & np.uint64(2**bits - 1)
    small = int(np.count_nonzero(shifted < np.uint64(2 ** (bits - 7))))
    return len(words) < LEAST_WORDS or 4 * small <= len(words)


RULES: Mapping[type[object], Mapping[str, Rule]] = {
    Approval: {
        "study_digest": may.study,
        "roster_digest": may.roster,
        "regimen": may.regimen,
        "supplies": may.supplies,
    },
    NotTakingPart: {"study_digest": may.study, "roster_digest": may.roster},
    Opening: {
        "key": may.round_key,
        "study_digest": may.study,
        "roster_digest": may.roster,
        "epoch": may.epoch,
        "approvals": partial(_envelopes, Kind.APPROVAL),
        "survivors": may.indices,
        "earlier": may.earlier_context,
        "plan": may.plan_digest,
        "ahead": may.slots,
        "dealt": may.earlier_context,
        "slot": may.slots,
    },
    Advert: {
        "channel_key": may.digest,
        "mask_key": may.digest,
        "gate_commitment": may.digest,
        "data_commitment": may.digest,
        "counter": may.count,
        "protected": may.flag,
        "used": may.earlier_context,
        "ahead": may.slot_columns,
    },
    Adverts: {"adverts": partial(_envelopes, Kind.ADVERT)},
    Shares: {
        "adverts_digest": may.digest,
        "holders": may.indices,
        "ciphertext_digests": may.per_holder,
        "mask_commitments": may.per_holder,
        "gate_commitments": may.per_holder,
        "data_commitments": may.per_holder,
        "ahead_commitments": may.slots_per_holder,
    },
    Delivery: {"shares": partial(_envelopes, Kind.SHARES)},
    MaskedInput: {
        "adverts_digest": may.digest,
        "shares_digest": may.digest,
        "gate_digest": may.digest,
        "data_digest": may.digest,
    },
    Survivors: {"masked": partial(_envelopes, Kind.MASKED)},
    Consistency: {"statement": may.digest},
    Quorum: {"signatures": partial(_envelopes, Kind.CONSISTENCY)},
    GateShares: {"statement": may.digest, "gate": may.shares, "mask": may.shares},
    GateOpening: {"survivors": may.opened_gates, "dropped": may.shares},
    DataShares: {"statement": may.digest, "data": may.shares},
    Closing: {
        "statement": may.digest,
        "result_digest": may.digest,
        "data": may.shares,
        "mask": may.shares,
    },
    Abort: {"reason": may.sentence},
    Complaint: {"check": may.check_name, "accused": may.site_id},
    Tombstone: {},
    Burial: {"tombstones": partial(_envelopes, Kind.TOMBSTONE)},
    EncryptionKeyOffer: {"parameters": may.digest, "key": may.digest},
    Unlocked: {"statement": may.digest, "ciphertext_digest": may.digest, "masked_digest": may.digest},
}
"""What every field of every message may hold."""
