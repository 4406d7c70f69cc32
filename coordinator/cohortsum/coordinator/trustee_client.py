"""The coordinator's line to the trustee of two-key mode: a key for an attempt, and the one decryption of its sum.

Both ends prove an identity of the roster. Calls are repeated with growing pauses while the trustee does not answer; repeating one has no
second effect: the same opening gets the same key and the same sum the same answer, as long as the trustee was not restarted. Everything it
says is checked before it is believed: the offer as a site checks it (K0), and the trustee's signature over the very sum and masked words.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import grpc
import numpy as np
import structlog

from cohortsum.coordinator.locking import UnlockedSum
from cohortsum.coordinator.roll import Roll
from cohortsum.crypto.bfv import STANDARD
from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import LineError, RefusedError, RemoteProtocolError
from cohortsum.crypto.masks import WORD_BYTES, Vector
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, WIRE_VERSION, envelope_from_wire, envelope_to_wire
from cohortsum.protocol.limits import TRUSTEE_SIZES, asked_to_wait_s, caller_options
from cohortsum.protocol.masking import words_digest, words_from_bytes
from cohortsum.protocol.messages import Envelope, Packet, Unlocked
from cohortsum.protocol.proof import statement_of
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.shape import CheckedChannel
from cohortsum.protocol.transcript_wire import transcript_to_wire
from cohortsum.protocol.unlocking import UnlockRequest, check_offer, check_unlocked, trustee_of
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.wire.v1 import service_pb2, trustee_pb2, trustee_pb2_grpc

LIFETIME = timedelta(hours=6)
OFFER_TIMEOUT_S = 60.0
UNLOCK_TIMEOUT_S = 120.0
"""And a second for every 100 kB beside it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
DOWN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
BROKE_OFF = "Internal error from Core"
"""What gRPC itself says, as INTERNAL, where the other end refuses a call of which it is still sending: the refusal is lost."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()
R = TypeVar("R")
Stub = trustee_pb2_grpc.TrusteeStub


class TrusteeClient:
    """Asks the trustee of a study's roster; a `locking.Trustee`.

    Args:
        target: host and port.
        key: the coordinator's identity key.
        roll: returns who counts now.
    """

    def __init__(self, target: str, key: IdentityKey, roll: Callable[[], Roll]) -> None:
        self._target, self._key, self._roll = target, key, roll

    async def offer(self, signed: SignedStudy, opening: Envelope, wait_s: float) -> Packet:
        """Return the trustee's signed offer of a key for an attempt, with the key attached.

        Args:
            signed: the study, as its statistician signed it.
            opening: of the attempt, as this coordinator signed it.
            wait_s: seconds for which the call is repeated while nobody answers.

        Raises:
            LineError: nobody answered for so long.
            RefusedError: the trustee refuses, with its sentence.
            RemoteProtocolError: M1 to M4 and K0, where the offer is not one that sites would take.
            ConfigurationError: the study's roster has not exactly one trustee.
        """
        roster = self._roster(signed)
        request = trustee_pb2.OfferRequest(
            wire_version=WIRE_VERSION, study=_study_to_wire(signed), opening=envelope_to_wire(opening)
        )

        async def ask(stub: "trustee_pb2_grpc.TrusteeAsyncStub") -> trustee_pb2.OfferReply | None:
            return await stub.Offer(request, timeout=min(OFFER_TIMEOUT_S, wait_s))

        reply = await self._asked(ask, roster, wait_s)
        if reply is None:
            raise _no_message()
        packet = Packet(envelope_from_wire(reply.offer), (reply.key,))
        await asyncio.to_thread(check_offer, packet, opening.context, STANDARD, roster)
        return packet

    async def unlock(
        self,
        signed: SignedStudy,
        request: UnlockRequest,
        ciphertexts: Vector,
        length: int,
        wait_s: float,
    ) -> UnlockedSum:
        """Return the masked sum of an attempt, residues modulo p, as the trustee decrypted and signed it.

        Args:
            signed: the study, as its statistician signed it.
            request: what the trustee believes instead of us.
            ciphertexts: the sum of the survivors' framed ciphertexts, ``STANDARD.words(length)`` words.
            length: how many numbers travelled.
            wait_s: seconds for which the call is repeated while nobody answers.

        Raises as `offer`; RemoteProtocolError is K3 where the answer is not the one that the trustee signed.
        """
        roster, context = self._roster(signed), request.transcript.opening.context
        said = trustee_pb2.UnlockRequest(
            wire_version=WIRE_VERSION,
            study=_study_to_wire(signed),
            transcript=transcript_to_wire(request.transcript),
            gate=envelope_to_wire(request.gate),
            length=length,
        )
        timeout_s = UNLOCK_TIMEOUT_S + ciphertexts.nbytes / 1e5

        async def ask(stub: "trustee_pb2_grpc.TrusteeAsyncStub") -> UnlockedSum:
            return await _read(stub.Unlock(_pieces(said, ciphertexts), timeout=timeout_s), length)

        unlocked = await self._asked(ask, roster, wait_s)
        expected = Unlocked(
            statement_of(request.transcript, self._roll().whole(roster.version)),
            words_digest(ciphertexts),
            words_digest(unlocked.words),
        )
        check_unlocked(unlocked.envelope, expected, context, roster)
        if np.any(unlocked.words >= np.uint64(STANDARD.modulus)):
            raise RemoteProtocolError("K3", "the trustee signed words that are no residues")
        return unlocked

    def _roster(self, signed: SignedStudy) -> Roster:
        """Return the roster that a study names, without denied identities."""
        return self._roll().counted(parse_canonical(signed.canonical).roster)

    async def _asked(
        self,
        ask: "Callable[[trustee_pb2_grpc.TrusteeAsyncStub], Awaitable[R]]",
        roster: Roster,
        wait_s: float,
    ) -> R:
        loop = asyncio.get_running_loop()
        pause_s, until_s = FIRST_PAUSE_S, loop.time() + wait_s
        async with self._channel(roster) as channel:
            served = trustee_pb2.DESCRIPTOR.services_by_name["Trustee"]
            stub = Stub(cast("grpc.aio.Channel", CheckedChannel(channel, served)))
            while True:
                try:
                    return await ask(stub)
                except grpc.aio.AioRpcError as error:
                    later_s = _retry_after_s(error)
                    if error.code() not in DOWN and later_s is None and error.details() != BROKE_OFF:
                        raise RefusedError(f"the trustee refuses: {error.details()}") from error
                    rest_s = max(pause_s, min(later_s or 0.0, LONGEST_PAUSE_S))
                    if loop.time() + rest_s >= until_s:
                        raise LineError(
                            f"the trustee at {self._target} does not answer; check `trustee` in coordinator.yaml, the network, and "
                            "that `cohortsum trustee run` serves there"
                        ) from error
                    log.info("trustee.down", status=error.code().name, next_try_s=round(rest_s, 1))
                    await asyncio.sleep(rest_s + rest_s * secrets.randbelow(1000) / 2000)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _channel(self, roster: Roster) -> AsyncGenerator[grpc.aio.Channel]:
        """Open a line with TLS 1.3 on which both ends prove an identity of the roster."""
        now, trustee = datetime.now(UTC), trustee_of(roster)
        tls = certify(self._key, roster.coordinator.id, now, LIFETIME)
        anchor = trust_anchor(trustee.id, trustee.key, now)
        credentials = grpc.ssl_channel_credentials(anchor, tls.private_key, tls.certificate)
        options = [("grpc.ssl_target_name_override", trustee.id), *caller_options(TRUSTEE_SIZES)]
        async with grpc.aio.secure_channel(self._target, credentials, options=options) as channel:
            yield channel


async def _read(call: AsyncIterable[trustee_pb2.UnlockedPiece | None], length: int) -> UnlockedSum:
    """Return the signed answer and the words behind it, of which there are ``length``."""
    envelope: Envelope | None = None
    data = bytearray()
    async for piece in call:
        if piece is None:
            raise _no_message()
        if envelope is None:
            envelope = envelope_from_wire(piece.unlocked)
            continue
        data += piece.words
        if not piece.words or len(data) > WORD_BYTES * length:
            break
    if envelope is None or len(data) != WORD_BYTES * length:
        raise RemoteProtocolError("K3", f"the trustee answers with another number of words than {length}")
    return UnlockedSum(envelope, words_from_bytes(bytes(data)))


def _no_message() -> RemoteProtocolError:
    return RemoteProtocolError("M2", "the trustee's reply is no message of this call")


def _study_to_wire(signed: SignedStudy) -> service_pb2.SignedStudy:
    return service_pb2.SignedStudy(
        canonical=signed.canonical, statistician=signed.statistician, signature=signed.signature
    )


async def _pieces(
    request: trustee_pb2.UnlockRequest, words: Vector
) -> AsyncIterator[trustee_pb2.UnlockPiece]:
    yield trustee_pb2.UnlockPiece(request=request)
    data = words.astype("<u8", copy=False).data.cast("B")
    for start in range(0, len(data), MAX_CHUNK_BYTES):
        yield trustee_pb2.UnlockPiece(words=bytes(data[start : start + MAX_CHUNK_BYTES]))


def _retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    """Return after how many seconds a trustee without room takes the same call, or None where it does not say so."""
    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return None
    return asked_to_wait_s(error.trailing_metadata())
