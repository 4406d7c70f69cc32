"""The coordinator's line to the trustee of two-key mode: a key for an attempt, and the one decryption of its sum.

Both ends prove an identity of the roster. Calls are repeated with growing pauses while the trustee does not answer; repeating one has no
second effect: the same opening gets the same key and the same sum the same answer, as long as the trustee was not restarted. Everything it
says is checked before it is believed: the offer as a site checks it (T0), and the trustee's signature over the very sum and masked words.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import grpc
import numpy as np
import structlog

from cohortsum.crypto.bfv import Parameters
from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import LineError, RefusedError, RemoteProtocolError
from cohortsum.crypto.masks import WORD_BYTES, Vector
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, WIRE_VERSION, envelope_from_wire, envelope_to_wire
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import RETRY_AFTER, TRUSTEE_SIZES, caller_options
from cohortsum.protocol.masking import words_digest, words_from_bytes
from cohortsum.protocol.messages import Envelope, Packet, Unlocked
from cohortsum.protocol.proof import statement_of
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.shape import CheckedChannel
from cohortsum.protocol.transcript_wire import transcript_to_wire
from cohortsum.protocol.unlocking import UnlockRequest, check_offer, check_unlocked, trustee_of
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.wire.v1 import service_pb2, trustee_pb2, trustee_pb2_grpc

LIFETIME = timedelta(hours=6)
OFFER_TIMEOUT_S = 60.0
UNLOCK_TIMEOUT_S = 120.0
"""And a second for every 100 kB beside it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
DOWN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})

log: structlog.stdlib.BoundLogger = structlog.get_logger()
R = TypeVar("R")
Stub = trustee_pb2_grpc.TrusteeStub


class TrusteeClient:
    """Asks the trustee of one roster.

    Args:
        target: host and port.
        signer: the coordinator's identity.
        roster: of the study, without denied identities; has exactly one trustee.
        parameters: of the study's encryption.
        patience_s: seconds for which a call is repeated while nobody answers.

    Raises ConfigurationError where the roster has not exactly one trustee.
    """

    def __init__(
        self, target: str, signer: Signer, roster: Roster, parameters: Parameters, patience_s: float
    ) -> None:
        self._target, self._signer, self._roster = target, signer, roster
        self._parameters, self._patience_s = parameters, patience_s
        self._trustee = trustee_of(roster)

    async def offer(self, signed: SignedStudy, opening: Envelope, context: bytes) -> Packet:
        """Return the trustee's signed offer of a key for an attempt, with the key attached.

        Args:
            signed: the study, as its statistician signed it.
            opening: of the attempt, as this coordinator signed it.
            context: of the attempt, 32 bytes.

        Raises:
            LineError: nobody answered for as long as patience lasts.
            RefusedError: the trustee refuses, with its sentence.
            RemoteProtocolError: M1 to M4 and T0, where the offer is not one that sites would take.
        """
        request = trustee_pb2.OfferRequest(
            wire_version=WIRE_VERSION, study=_study_to_wire(signed), opening=envelope_to_wire(opening)
        )

        async def ask(stub: "trustee_pb2_grpc.TrusteeAsyncStub") -> trustee_pb2.OfferReply | None:
            return await stub.Offer(request, timeout=OFFER_TIMEOUT_S)

        reply = await self._asked(ask)
        if reply is None:
            raise self._no_message()
        packet = Packet(envelope_from_wire(reply.offer), (reply.key,))
        await asyncio.to_thread(check_offer, packet, context, self._parameters, self._roster)
        return packet

    async def unlock(
        self, signed: SignedStudy, request: UnlockRequest, context: bytes, ciphertexts: Vector, length: int
    ) -> Vector:
        """Return the masked sum of an attempt, (length,) uint64 residues modulo p, as the trustee decrypted and signed it.

        Args:
            signed: the study, as its statistician signed it.
            request: what the trustee believes instead of us.
            context: of the attempt, 32 bytes.
            ciphertexts: the sum of the survivors' framed ciphertexts, ``parameters.words(length)`` words.
            length: how many numbers travelled.

        Raises as `offer`; RemoteProtocolError is T3 where the answer is not the one that the trustee signed.
        """
        said = trustee_pb2.UnlockRequest(
            wire_version=WIRE_VERSION,
            study=_study_to_wire(signed),
            transcript=transcript_to_wire(request.transcript),
            gate=envelope_to_wire(request.gate),
            length=length,
        )
        timeout_s = UNLOCK_TIMEOUT_S + ciphertexts.nbytes / 1e5

        async def ask(stub: "trustee_pb2_grpc.TrusteeAsyncStub") -> tuple[Envelope, Vector]:
            return await self._read(stub.Unlock(_pieces(said, ciphertexts), timeout=timeout_s), length)

        envelope, masked = await self._asked(ask)
        expected = Unlocked(
            statement_of(request.transcript, self._roster), words_digest(ciphertexts), words_digest(masked)
        )
        check_unlocked(envelope, expected, context, self._roster)
        if np.any(masked >= np.uint64(self._parameters.modulus)):
            raise RemoteProtocolError(
                "T3", f"{self._trustee.id} signed words that are no residues", self._trustee.id
            )
        return masked

    async def _read(
        self, call: AsyncIterable[trustee_pb2.UnlockedPiece | None], length: int
    ) -> tuple[Envelope, Vector]:
        """Return the signed answer and the words behind it, of which there are ``length``."""
        envelope: Envelope | None = None
        data = bytearray()
        async for piece in call:
            if piece is None:
                raise self._no_message()
            if envelope is None:
                envelope = envelope_from_wire(piece.unlocked)
                continue
            data += piece.words
            if not piece.words or len(data) > WORD_BYTES * length:
                break
        if envelope is None or len(data) != WORD_BYTES * length:
            raise RemoteProtocolError(
                "T3", f"{self._trustee.id} answers with another number of words than {length}"
            )
        return envelope, words_from_bytes(bytes(data))

    async def _asked(self, ask: "Callable[[trustee_pb2_grpc.TrusteeAsyncStub], Awaitable[R]]") -> R:
        loop = asyncio.get_running_loop()
        pause_s, until_s = FIRST_PAUSE_S, loop.time() + self._patience_s
        async with self._channel() as channel:
            served = trustee_pb2.DESCRIPTOR.services_by_name["Trustee"]
            stub = Stub(cast("grpc.aio.Channel", CheckedChannel(channel, served)))
            while True:
                try:
                    return await ask(stub)
                except grpc.aio.AioRpcError as error:
                    later_s = _retry_after_s(error)
                    if error.code() not in DOWN and later_s is None:
                        raise RefusedError(f"the trustee refuses: {error.details()}") from error
                    wait_s = max(pause_s, min(later_s or 0.0, LONGEST_PAUSE_S))
                    if loop.time() + wait_s >= until_s:
                        raise LineError(
                            f"the trustee at {self._target} does not answer; check `trustee` in coordinator.yaml, the network, and "
                            "that `cohortsum trustee run` serves there"
                        ) from error
                    log.info("trustee.down", status=error.code().name, next_try_s=round(wait_s, 1))
                    await asyncio.sleep(wait_s + wait_s * secrets.randbelow(1000) / 2000)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _channel(self) -> AsyncGenerator[grpc.aio.Channel]:
        """Open a line with TLS 1.3 on which both ends prove an identity of the roster."""
        now, signer = datetime.now(UTC), self._signer
        tls = certify(signer.key, signer.identity.id, now, LIFETIME)
        anchor = trust_anchor(self._trustee.id, self._trustee.key, now)
        credentials = grpc.ssl_channel_credentials(anchor, tls.private_key, tls.certificate)
        options = [("grpc.ssl_target_name_override", self._trustee.id), *caller_options(TRUSTEE_SIZES)]
        async with grpc.aio.secure_channel(self._target, credentials, options=options) as channel:
            yield channel

    def _no_message(self) -> RemoteProtocolError:
        return RemoteProtocolError("M2", f"the reply of {self._trustee.id} is no message of this call")


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
    said = [value for key, value in error.trailing_metadata() if key == RETRY_AFTER]
    if len(said) != 1 or not isinstance(said[0], str) or not re.fullmatch(r"[0-9]{1,9}", said[0]):
        return None
    return int(said[0]) / 1000
