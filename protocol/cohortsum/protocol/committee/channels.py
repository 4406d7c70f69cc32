"""Channels between members: every message of a worker is sealed for the one member it is for, numbered, and taken once, in its order.

Each direction of each pair has a key of its own, from the two members' keys of this run, the context, the keys of all members (h1) and
the deals of all dealers (h2). Members who were shown other inputs than a peer share no key with it: they hear nothing from each other,
and nothing is opened. The coordinator carries frames; one that it leaves out, repeats, reorders, changes, or takes from another run or
direction is refused (C7), and the run ends.
"""

from collections.abc import Mapping

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.derivation import COMMITTEE as LABELS
from cohortsum.crypto.derivation import derive
from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.errors import AuthenticationError, LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, seal, unseal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.committee.messages import Sealed

MOST_FRAMES = 2**20
"""Of one direction: an honest run has some hundred."""


class Channels:
    """One member's channels to all others.

    Args:
        own: this member's key pair of the run.
        keys: public keys of all members, in their order.
        member: this member's number.
        context: of the run.
        h1: digest of the members' keys.
        h2: digest of the inputs.
    """

    def __init__(
        self, own: AgreementKey, keys: Mapping[int, bytes], member: int, context: bytes, h1: bytes, h2: bytes
    ) -> None:
        self._member, self._context = member, context
        self._out: dict[int, SecretBytes] = {}
        self._in: dict[int, SecretBytes] = {}
        for peer, key in keys.items():
            if peer == member:
                continue
            shared = own.exchange(key)
            for held, sender, receiver in ((self._out, member, peer), (self._in, peer, member)):
                ends = (number(sender), number(receiver), keys[sender], keys[receiver], h1, h2)
                held[peer] = derive(shared, context, LABELS["frame"], *ends, size=KEY_AND_NONCE_BYTES)
        self._sent, self._taken = dict.fromkeys(self._out, 0), dict.fromkeys(self._in, 0)

    def seal(self, peer: int, message: bytes) -> Sealed:
        """Return a message for a peer, sealed under the next number; raises LocalProtocolError for no peer."""
        if peer not in self._out or self._sent[peer] >= MOST_FRAMES:
            raise LocalProtocolError("C7", "a frame for no other member, or one too many")
        at = self._sent[peer]
        self._sent[peer] += 1
        sealed = seal(self._out[peer], message, self._associated(self._member, peer, at), at)
        return Sealed(self._context, self._member, peer, at, sealed)

    def open(self, frame: Sealed) -> bytes:
        """Return the message of a peer; raises RemoteProtocolError C7 unless it is the next one that this peer sealed."""
        peer = frame.sender
        expected = frame.context == self._context and frame.receiver == self._member and peer in self._in
        if not expected or frame.number != self._taken[peer] or frame.number >= MOST_FRAMES:
            raise RemoteProtocolError("C7", "a frame that is not the next one of its direction in this run")
        try:
            message = unseal(
                self._in[peer], frame.sealed, self._associated(peer, self._member, frame.number), frame.number
            )
        except AuthenticationError as error:
            raise RemoteProtocolError(
                "C7", f"a frame that member {peer} did not seal for this member and these inputs"
            ) from error
        self._taken[peer] += 1
        return message

    def wipe(self) -> None:
        """Forget every key; nothing is sealed or opened any more."""
        for held in (self._out, self._in):
            for key in held.values():
                key.wipe()
            held.clear()

    def _associated(self, sender: int, receiver: int, at: int) -> bytes:
        return encode(self._context, number(sender), number(receiver), number(at))
