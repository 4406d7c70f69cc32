"""The outer lock of a round in two-key mode, seen from the coordinator: the trustee, whoever carries the calls.

The coordinator asks for a key before it invites anybody, and for the masked sum once t sites have released their shares. It never
holds a key: without the trustee's answer the ciphertexts stay closed, whatever the sites have opened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cohortsum.crypto.errors import LocalProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.coordinator_states import Combining
from cohortsum.protocol.messages import Envelope, Packet
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.unlocking import UnlockRequest
from cohortsum.study.definition.signing import SignedStudy


@dataclass(frozen=True, slots=True)
class UnlockedSum:
    """What a trustee decrypted: its signed word about it, and the masked sum, (length,) uint64 residues."""

    envelope: Envelope
    words: Vector


class Trustee(Protocol):
    """A trustee that can be reached."""

    async def offer(self, signed: SignedStudy, opening: Envelope, wait_s: float) -> Packet:
        """Return the trustee's signed offer of a key for the attempt that ``opening`` opens, the public key attached.

        Raises LineError where it does not answer for ``wait_s``, RefusedError or RemoteProtocolError where it refuses.
        """
        ...

    async def unlock(
        self,
        signed: SignedStudy,
        request: UnlockRequest,
        ciphertexts: Vector,
        length: int,
        wait_s: float,
    ) -> UnlockedSum:
        """Return the masked sum behind a sum of ciphertexts, as the trustee signed it; raises as `offer`."""
        ...


@dataclass(frozen=True, slots=True)
class RoundLock:
    """The trustee of one study.

    Attributes:
        trustee: whom to ask.
        signed: the study.
        transcript: returns the kept transcript of a round, by context.
        wait_s: how long its answer is waited for.
    """

    trustee: Trustee
    signed: SignedStudy
    transcript: Callable[[bytes], Transcript]
    wait_s: float

    async def key(self, opening: Envelope) -> Packet:
        """Return the trustee's offer for a round that is to open."""
        return await self.trustee.offer(self.signed, opening, self.wait_s)

    async def open(self, state: Combining, context: bytes, ciphertexts: Vector, length: int) -> UnlockedSum:
        """Return the masked sum of a round whose seeds are all open.

        Args:
            state: the coordinator's.
            context: of the round.
            ciphertexts: the sum of the survivors' uploads, framed.
            length: how many numbers travelled.
        """
        transcript = self.transcript(context)
        if transcript.survivors != tuple(sorted(state.u3.inputs)):
            raise LocalProtocolError("K1", "the kept transcript names other survivors than the round")
        request = UnlockRequest(transcript, state.gate)
        return await self.trustee.unlock(self.signed, request, ciphertexts, length, self.wait_s)
