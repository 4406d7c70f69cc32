"""The messages of a committee run as domain objects, and what is signed of them.

A signature covers the received payload bytes with context, kind and sender, under a label of its own, so that no message of a round
can stand for one of a run. Sites are named by roster index, members by their number in the committee.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from cohortsum.crypto.encoding import digest, number
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError
from cohortsum.crypto.signing import verify
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Identity, Roster

MESSAGE = "cohortsum/v1/committee/message"
CONTEXT = "cohortsum/v1/committee/ctx"


class Kind(IntEnum):
    """What a payload holds; part of what is signed."""

    OPENING = 1
    KEY = 2
    KEYS = 3
    DEAL = 4
    INPUTS = 5
    RESULT = 6
    CLOSING = 7
    END = 8


@dataclass(frozen=True, slots=True)
class Signed:
    """Signed bytes: a payload behind its context, kind and sender."""

    context: bytes
    kind: Kind
    sender: str
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """SHA-256 over every field, 32 bytes."""
        parts = (self.context, number(self.kind), self.sender.encode(), self.payload, self.signature)
        return digest("cohortsum/v1/committee/signed", *parts)


@dataclass(frozen=True, slots=True)
class Packet:
    """A signed message with the attachments whose digests its payload signs."""

    signed: Signed
    attachments: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Sealed:
    """One message of a member's worker to another's, sealed between the two.

    Attributes:
        context: of the run.
        sender: number in the committee.
        receiver: likewise.
        number: of this direction, from 0 without gaps.
        sealed: the ciphertext.
    """

    context: bytes
    sender: int
    receiver: int
    number: int
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run this is.

    Attributes:
        run_id: 16 random bytes drawn by the coordinator.
        stage: of the analysis, from 1.
        attempt: from 1; a retry has fresh keys and shares.
    """

    run_id: bytes
    stage: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Opening:
    """The coordinator opens a run; the attributes are those of plan and run."""

    key: RunKey
    study_digest: bytes
    roster_digest: bytes
    epoch: str
    dealers: tuple[int, ...]
    earlier: bytes
    plan: bytes

    @property
    def context(self) -> bytes:
        """The 32 bytes that every key, seal and signature of the run depends on."""
        return digest(
            CONTEXT,
            self.roster_digest,
            self.study_digest,
            self.key.run_id,
            number(self.key.stage),
            number(self.key.attempt),
            self.epoch.encode(),
            self.plan,
        )


@dataclass(frozen=True, slots=True)
class Key:
    """A member's public key of the run."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of all members, in their order."""

    keys: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Deal:
    """What a dealer signs about the shares that it sealed: one ciphertext digest per member, 32 bytes each."""

    keys_digest: bytes
    key: bytes
    ciphertexts: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All deals, by roster index."""

    deals: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a member opened, over which inputs."""

    inputs_digest: bytes
    answers: bytes


@dataclass(frozen=True, slots=True)
class Closing:
    """The results of all members, in their order."""

    results: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The run ends without a result; the sentence is public."""

    reason: str


Message = Opening | Key | Keys | Deal | Inputs | Result | Closing | End


def sign(signer: Signer, context: bytes, kind: Kind, payload: bytes) -> Signed:
    """Return payload bytes signed by an identity."""
    sender = signer.identity.id
    signature = signer.key.sign(MESSAGE, context, number(kind), sender.encode(), payload)
    return Signed(context, kind, sender, payload, signature)


def authenticate(signed: Signed, context: bytes, roster: Roster) -> Identity:
    """Return the sender; raises RemoteProtocolError C1 unless its roster key signed these bytes for this run."""
    identity = roster.identities.get(signed.sender)
    if identity is None or signed.context != context:
        raise RemoteProtocolError("C1", f"a {signed.kind.name} of another run, or of nobody in the roster")
    try:
        fields = (signed.context, number(signed.kind), signed.sender.encode(), signed.payload)
        verify(identity.key, signed.signature, MESSAGE, *fields)
    except AuthenticationError as error:
        raise RemoteProtocolError(
            "C1", f"a {signed.kind.name} of {signed.sender} without its signature"
        ) from error
    return identity
