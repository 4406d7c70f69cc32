"""The messages of a round as domain objects: frozen, checked, with shares kept out of every repr.

A message becomes bytes in `codec` and is signed in `envelope`. Sites are named by roster index inside messages and by
roster id as senders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from cohortsum.crypto.encoding import digest, number
from cohortsum.protocol.context import RoundKey


class Kind(IntEnum):
    """What a payload holds; part of what is signed."""

    APPROVAL = 1
    OPENING = 2
    ADVERT = 3
    ADVERTS = 4
    SHARES = 5
    DELIVERY = 6
    MASKED = 7
    SURVIVORS = 8
    CONSISTENCY = 9
    QUORUM = 10
    GATE_SHARES = 11
    GATE_OPENING = 12
    DATA_SHARES = 13
    CLOSING = 14
    ABORT = 15
    COMPLAINT = 16
    NOT_TAKING_PART = 17
    TOMBSTONE = 18
    BURIAL = 19
    KEY_OFFER = 20
    UNLOCKED = 21


@dataclass(frozen=True, slots=True)
class Envelope:
    """Signed bytes: a payload behind its context, kind and sender.

    Attributes:
        context: 32 bytes.
        kind: what the payload holds.
        sender: id in the roster.
        payload: the received bytes, never re-serialised.
        signature: 64 bytes.
    """

    context: bytes
    kind: Kind
    sender: str
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """SHA-256 over every field, 32 bytes: two envelopes are the same only if all their bytes are."""
        return digest(
            "cohortsum/v1/envelope",
            self.context,
            number(self.kind),
            self.sender.encode(),
            self.payload,
            self.signature,
        )


@dataclass(frozen=True, slots=True)
class Packet:
    """An envelope with the attachments whose digests its payload signs."""

    envelope: Envelope
    attachments: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class WaivedRule:
    """A rule of the profile that a site sets aside in public: by whom, why and until when (ISO 8601 date)."""

    rule: str
    value: str
    reason: str
    by: str
    until: str


@dataclass(frozen=True, slots=True)
class Regimen:
    """Under which rules of disclosure a site takes part.

    Attributes:
        profile: name of the profile that its policy starts from.
        count: the least count that it lets anybody publish, where it asks for more than the profile; 0 otherwise.
        waivers: sorted by rule, each rule once.
    """

    profile: str
    count: int = 0
    waivers: tuple[WaivedRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Approval:
    """A site agrees to a study and says what it supplies: one bit per item of the plan, in the plan's order."""

    study_digest: bytes
    roster_digest: bytes
    regimen: Regimen
    supplies: bytes


@dataclass(frozen=True, slots=True)
class NotTakingPart:
    """A site stays out of a study; never why."""

    study_digest: bytes
    roster_digest: bytes


@dataclass(frozen=True, slots=True)
class Opening:
    """R0: the coordinator opens an attempt.

    Attributes:
        key: which attempt.
        study_digest: of the study, 32 bytes.
        roster_digest: of the roster it names, 32 bytes.
        epoch: label of the data epoch.
        approvals: by roster index.
        survivors: roster indices that the attempt is bound to; empty for nobody.
        earlier: context of an opened round whose unchanged blocks do not travel again; empty for a round that stands alone.
        plan: digest of the plan of an iteration after the first; empty in the first.
        ahead: how many secrets are dealt beside this attempt's own, for iterations after it.
        dealt: context of the attempt that dealt this one's secrets ahead; empty where it deals its own.
        slot: which of these secrets, from 1.
    """

    key: RoundKey
    study_digest: bytes
    roster_digest: bytes
    epoch: str
    approvals: tuple[Envelope, ...]
    survivors: tuple[int, ...]
    earlier: bytes = b""
    plan: bytes = b""
    ahead: int = 0
    dealt: bytes = b""
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Advert:
    """R0: a site's public keys of this attempt, its commitments to both self seeds, and its standing.

    ``counter`` is how many masked inputs it ever made; ``protected`` and ``used`` are for the rule of protected sites (R3.8).
    ``ahead`` holds, per slot dealt ahead, a mask key and both commitments, 32 bytes each.
    """

    channel_key: bytes
    mask_key: bytes
    gate_commitment: bytes
    data_commitment: bytes
    counter: int = 0
    protected: bool = False
    used: bytes = b""
    ahead: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Adverts:
    """R1: all signed adverts, L1, by roster index."""

    adverts: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class ShareEntry:
    """What a dealer signs about the shares sealed for one holder."""

    holder: int
    ciphertext_digest: bytes
    mask_commitment: bytes
    gate_commitment: bytes
    data_commitment: bytes


@dataclass(frozen=True, slots=True)
class Shares:
    """R1: a dealer's signed list, one entry per site of L1, itself included, by roster index.

    The digests stand in columns, 32 bytes per holder: a site receives n lists of n entries and reads one entry of each.
    ``ahead_commitments`` hold, per holder, the commitments to mask, gate and data share of every slot dealt ahead.
    """

    adverts_digest: bytes
    holders: tuple[int, ...]
    ciphertext_digests: bytes = field(repr=False)
    mask_commitments: bytes = field(repr=False)
    gate_commitments: bytes = field(repr=False)
    data_commitments: bytes = field(repr=False)
    ahead_commitments: bytes = field(default=b"", repr=False)

    @classmethod
    def of(
        cls, adverts_digest: bytes, entries: Sequence[ShareEntry], ahead_commitments: bytes = b""
    ) -> "Shares":
        """Return the list that holds these entries, with the commitments to what is dealt ahead."""
        return cls(
            adverts_digest,
            tuple(entry.holder for entry in entries),
            b"".join(entry.ciphertext_digest for entry in entries),
            b"".join(entry.mask_commitment for entry in entries),
            b"".join(entry.gate_commitment for entry in entries),
            b"".join(entry.data_commitment for entry in entries),
            ahead_commitments,
        )

    def entry(self, holder: int) -> ShareEntry:
        """Return the entry of one holder; raises ValueError if there is none."""
        start = 32 * self.holders.index(holder)
        part = slice(start, start + 32)
        return ShareEntry(
            holder,
            self.ciphertext_digests[part],
            self.mask_commitments[part],
            self.gate_commitments[part],
            self.data_commitments[part],
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """R2: the signed lists of all dealers of U2; the ciphertexts for the receiver are attached in that order."""

    shares: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class MaskedInput:
    """R2: digests of a masked vector under the transcript its sender saw."""

    adverts_digest: bytes
    shares_digest: bytes
    gate_digest: bytes
    data_digest: bytes


@dataclass(frozen=True, slots=True)
class Survivors:
    """R3: U3, as the signed digests of its members by roster index."""

    masked: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class Consistency:
    """R3: the statement a site stands by."""

    statement: bytes


@dataclass(frozen=True, slots=True)
class Quorum:
    """R4a: signatures over one statement."""

    signatures: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class GateShares:
    """R4a: shares of the gate seeds of survivors and of the mask seeds of dropouts, by owner."""

    statement: bytes
    gate: Mapping[int, int] = field(repr=False)
    mask: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenedGate:
    """A survivor's masked gate words and its gate seed."""

    words: bytes = field(repr=False)
    seed: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class GateOpening:
    """R4a: all that a site needs to recompute the gate sum, by owner."""

    survivors: Mapping[int, OpenedGate] = field(repr=False)
    dropped: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DataShares:
    """R4b: shares of the data seeds of survivors, by owner."""

    statement: bytes
    data: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Closing:
    """R5: the round is over; the digest names the opened result.

    Where sites recompute the sum (R5.0), ``data`` holds the data seeds of all survivors and ``mask`` the mask seeds of the
    dropouts, by owner; the masked words of the survivors are attached, by roster index.
    """

    statement: bytes
    result_digest: bytes
    data: Mapping[int, int] = field(default_factory=dict[int, int], repr=False)
    mask: Mapping[int, int] = field(default_factory=dict[int, int], repr=False)


@dataclass(frozen=True, slots=True)
class Abort:
    """The round ended without a result."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tombstone:
    """After an abort: this site has erased its secrets and has answered neither gate nor data."""


@dataclass(frozen=True, slots=True)
class Burial:
    """Tombstones of one context, by roster index: enough of them show that nobody can open it any more."""

    tombstones: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class EncryptionKeyOffer:
    """R0, trustee: under which key the data of this context are encrypted; the key itself is attached to the opening.

    Attributes:
        parameters: digest of the scheme's parameters, 32 bytes.
        key: digest of the public key, 32 bytes.
    """

    parameters: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Unlocked:
    """R4b, trustee: which sum of ciphertexts it decrypted in this context, once, and to which masked words.

    Attributes:
        statement: what t sites signed (R3), 32 bytes.
        ciphertext_digest: of the sum as it was handed in, 32 bytes.
        masked_digest: of the masked sum it decrypted to, 32 bytes.
    """

    statement: bytes
    ciphertext_digest: bytes
    masked_digest: bytes


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a peer dealt is provably malformed: which check failed, and who dealt it."""

    check: str
    accused: str


Message = (
    Approval
    | Opening
    | Advert
    | Adverts
    | Shares
    | Delivery
    | MaskedInput
    | Survivors
    | Consistency
    | Quorum
    | GateShares
    | GateOpening
    | DataShares
    | Closing
    | Abort
    | Complaint
    | NotTakingPart
    | Tombstone
    | EncryptionKeyOffer
    | Unlocked
    | Burial
)
