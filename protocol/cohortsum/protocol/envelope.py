"""Signing and opening envelopes.

A signature covers ``encode("cohortsum/v1/message", context, kind, sender, payload)``: the received payload bytes, never a
re-serialisation. Message checks, before any rule of a step:

==  =================================================================================
M1  the sender is in the roster with the expected role and the signature is its own
M2  the payload is well formed (`codec`)
M3  the context is that of this round: nothing from another round, study or step
M4  the kind is one that this state expects
M5  a second message of one kind equals the first
==  =================================================================================
"""

from dataclasses import dataclass, field
from typing import TypeVar

from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import AuthenticationError, LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.signing import IdentityKey, verify
from cohortsum.protocol import codec
from cohortsum.protocol.messages import Envelope, Message
from cohortsum.protocol.roster import Identity, Role, Roster

MESSAGE = "cohortsum/v1/message"

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Signer:
    """An identity of the roster that holds its private key."""

    identity: Identity
    key: IdentityKey = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a key that the roster does not hold for this identity."""
        if self.key.public != self.identity.key:
            raise LocalProtocolError("M1", f"the key of {self.identity.id} is not the one in the roster")

    def sign(self, context: bytes, message: Message) -> Envelope:
        """Return the message as signed bytes of this identity."""
        kind, payload = codec.encode(message)
        sender = self.identity.id
        signature = self.key.sign(MESSAGE, context, number(kind), sender.encode(), payload)
        return Envelope(context, kind, sender, payload, signature)


def open_envelope(envelope: Envelope, expected: type[M], context: bytes, roster: Roster, role: Role) -> M:
    """Return the message inside an envelope after checks M1 to M3.

    Args:
        envelope: as received.
        expected: the message class.
        context: the context it must be bound to.
        roster: the pinned roster.
        role: the role its sender must have.

    Raises:
        RemoteProtocolError: M1, M2, M3 or M4.
    """
    message = open_any(envelope, context, roster, role)
    if not isinstance(message, expected):
        raise RemoteProtocolError(
            "M4", f"{envelope.sender} sent {envelope.kind.name}, expected {expected.__name__}"
        )
    return message


def open_any(envelope: Envelope, context: bytes, roster: Roster, role: Role) -> Message:
    """Return whatever message an envelope of ``role`` bound to ``context`` holds; raises M1, M2 or M3."""
    authenticate(envelope, roster, role)
    if envelope.context != context:
        sentence = f"a {envelope.kind.name} of {envelope.sender} from another round or study"
        raise RemoteProtocolError("M3", sentence)
    return codec.decode(envelope.kind, envelope.payload)


def authenticate(envelope: Envelope, roster: Roster, role: Role) -> Identity:
    """Return the sender's identity; raises RemoteProtocolError M1 unless its roster key signed these bytes."""
    identity = roster.identities.get(envelope.sender)
    if identity is None or identity.role is not role:
        raise RemoteProtocolError("M1", f"a {envelope.kind.name} that no {role} of the roster sent")
    try:
        verify(
            identity.key,
            envelope.signature,
            MESSAGE,
            envelope.context,
            number(envelope.kind),
            envelope.sender.encode(),
            envelope.payload,
        )
    except AuthenticationError as error:
        raise RemoteProtocolError(
            "M1", f"a {envelope.kind.name} of {envelope.sender} without its signature"
        ) from error
    return identity
