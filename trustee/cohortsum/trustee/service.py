"""The gRPC edge of a trustee: the coordinator of the roster calls, and nobody else.

Every call is served as a stream of bytes, which looks the same on the wire: who calls is asked before anything of a body is read, a message is
held to the length and the fields that its call may have, and parsed last. A sum comes in full pieces behind a request that has passed every
check that needs no sum; memory for it is bounded by the study's own plan. Calls that are not below are unknown here; there is no reflection.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
import numpy as np
import structlog
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2

from cohortsum.crypto.errors import CohortsumError, LimitError, RemoteProtocolError
from cohortsum.crypto.masks import WORD_BYTES, Vector
from cohortsum.protocol.callers import certified_identity
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, WIRE_VERSION, envelope_from_wire, envelope_to_wire
from cohortsum.protocol.limits import HEALTH, PIECE, TRUSTEE, TRUSTEE_SIZES
from cohortsum.protocol.masking import words_to_bytes
from cohortsum.protocol.roster import Role
from cohortsum.protocol.shape import MAX_REPLY_FIELDS, MAX_REQUEST_FIELDS, check_shape
from cohortsum.protocol.transcript_wire import transcript_from_wire
from cohortsum.protocol.unlocking import UnlockRequest
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.trustee.desk import Desk, Permitted
from cohortsum.trustee.faults import FAILED, public_fault, public_hints
from cohortsum.trustee.roll import Roll
from cohortsum.wire.v1 import service_pb2, trustee_pb2

Context = grpc.aio.ServicerContext[Any, Any]
Work = Callable[[Context], Awaitable[None]]
M = TypeVar("M", bound=Message)

BODY_S = 60.0
"""A message that is not there by then is given up."""
DRAIN_S = 10.0
"""What still comes of a refused call is read for so long, unseen: a caller that is cut off while it sends does not hear why."""
HOLD_S = 0.5
"""Whoever is not the coordinator waits so long for the refusal, and nothing is read."""
UNLOCKS_AT_ONCE = 2
"""Sums in memory; a further request is to come again."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class TrusteeService:
    """Serves the coordinator of one consortium.

    Args:
        desk: decides and answers.
        roll: returns who counts now.
    """

    def __init__(self, desk: Desk, roll: Callable[[], Roll]) -> None:
        self._desk, self._roll, self._unlocks = desk, roll, 0

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return what a server serves."""
        calls: dict[str, dict[str, Work]] = {
            TRUSTEE: {"Offer": self._offer, "Unlock": self._unlock},
            HEALTH: {"Check": self._check},
        }
        return tuple(
            grpc.method_handlers_generic_handler(
                service, {name: self._served(f"/{service}/{name}", work) for name, work in works.items()}
            )
            for service, works in calls.items()
        )

    def _served(self, path: str, work: Work) -> Any:
        """Return a handler that asks who calls before ``work`` reads anything, and turns errors into a status."""

        async def behind(_requests: object, context: Context) -> None:
            async with _guarded(path.rpartition("/")[2], context):
                try:
                    pem = next(iter(context.auth_context().get("x509_pem_cert", ())), None)
                    certified_identity(pem, self._roll().now, {Role.COORDINATOR})
                except CohortsumError:
                    await asyncio.sleep(HOLD_S)
                    raise
                try:
                    await work(context)
                except Exception:
                    await _drain(context)
                    raise

        stream: Any = grpc.stream_stream_rpc_method_handler
        return stream(behind, None, None)

    async def _offer(self, context: Context) -> None:
        """Offer a key."""
        most = TRUSTEE_SIZES[f"/{TRUSTEE}/Offer"].request
        request = await _message(context, trustee_pb2.OfferRequest, most)
        _check_version(request.wire_version)
        signed, opening = _study(request.study), envelope_from_wire(request.opening)
        packet = await asyncio.to_thread(self._desk.offer, signed, opening)
        (key,) = packet.attachments
        reply = trustee_pb2.OfferReply(offer=envelope_to_wire(packet.envelope), key=key)
        log.info("key.offered", context=opening.context.hex())
        await context.write(reply.SerializeToString())

    async def _unlock(self, context: Context) -> None:
        """Decrypt a sum."""
        if self._unlocks >= UNLOCKS_AT_ONCE:
            raise LimitError(f"{UNLOCKS_AT_ONCE} sums are being decrypted; try again in 1 s", "unlocks", 1.0)
        self._unlocks += 1
        try:
            permitted = await self._permitted(context)
            words = await _words(context, permitted.words)
            answer = await asyncio.to_thread(self._desk.unlock, permitted, words)
        finally:
            self._unlocks -= 1
        log.info("sum.decrypted", context=permitted.proven.context.hex(), length=permitted.length)
        first = trustee_pb2.UnlockedPiece(unlocked=envelope_to_wire(answer.envelope))
        await context.write(first.SerializeToString())
        data = words_to_bytes(answer.words)
        for start in range(0, len(data), MAX_CHUNK_BYTES):
            piece = trustee_pb2.UnlockedPiece(words=data[start : start + MAX_CHUNK_BYTES])
            await context.write(piece.SerializeToString())

    async def _permitted(self, context: Context) -> Permitted:
        """Return the request at the head of an unlock, after every check that needs no sum."""
        most = TRUSTEE_SIZES[f"/{TRUSTEE}/Unlock"].request
        piece = await _message(context, trustee_pb2.UnlockPiece, most, MAX_REPLY_FIELDS)
        if piece.words or not piece.HasField("request"):
            raise RemoteProtocolError("M2", "an unlock begins with its request alone")
        _check_version(piece.request.wire_version)
        return await asyncio.to_thread(self._desk.permitted, *unlock_from_wire(piece.request))

    async def _check(self, context: Context) -> None:
        """Say that the trustee serves."""
        most = TRUSTEE_SIZES[f"/{HEALTH}/Check"].request
        request = await _message(context, health_pb2.HealthCheckRequest, most)
        known = request.service in ("", TRUSTEE)
        states = health_pb2.HealthCheckResponse
        status = states.SERVING if known else states.SERVICE_UNKNOWN
        await context.write(health_pb2.HealthCheckResponse(status=status).SerializeToString())


def unlock_from_wire(held: trustee_pb2.UnlockRequest) -> tuple[SignedStudy, UnlockRequest, int]:
    """Return study, request and length behind the protobuf form of an unlock's request; raises RemoteProtocolError M2."""
    request = UnlockRequest(transcript_from_wire(held.transcript), envelope_from_wire(held.gate))
    return _study(held.study), request, held.length


@asynccontextmanager
async def _guarded(call: str, context: Context) -> AsyncGenerator[None]:
    """Turn errors into a status and a sentence, and log what happened; faults of ours are said in one sentence."""
    try:
        yield
    except CohortsumError as error:
        log.warning("call.refused", call=call, error=type(error).__name__, sentence=error.message)
        status, sentence, hints = *public_fault(error), public_hints(error)
    except Exception as error:  # a fault of ours: its traceback is scrubbed like everything else
        log.exception("call.failed", call=call, error=type(error).__name__)
        status, sentence, hints = grpc.StatusCode.INTERNAL, FAILED, ()
    else:
        return
    await context.abort(status, sentence, hints)


async def _message(context: Context, kind: type[M], most: int, fields: int = MAX_REQUEST_FIELDS) -> M:
    """Return the next message of a call; raises LimitError or RemoteProtocolError M2."""
    held = await _next(context, kind, most, fields)
    if held is None:
        raise RemoteProtocolError("M2", "a call without a request")
    return held


async def _next(context: Context, kind: type[M], most: int, fields: int = MAX_REQUEST_FIELDS) -> M | None:
    """Return the next message of a call, None at its end."""
    try:
        async with asyncio.timeout(BODY_S):
            raw: Any = await context.read()
    except TimeoutError:
        raise LimitError(f"nothing has come for {BODY_S:.0f} s; send it again", "idle", 0.0) from None
    if raw is grpc.aio.EOF:
        return None
    if len(raw) > most:
        raise LimitError(f"a message of {len(raw)} bytes, at most {most} are read", "message_bytes")
    descriptor: Any = kind.DESCRIPTOR
    check_shape(descriptor, raw, fields)
    message = kind()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        raise RemoteProtocolError("M2", "the bytes are not a message of this call") from None
    return message


async def _words(context: Context, count: int) -> Vector:
    """Return ``count`` words that come in full pieces, and nothing behind them."""
    words = np.empty(count, dtype="<u8")
    view, at = words.data.cast("B"), 0
    while at < len(view):
        piece = await _message(context, trustee_pb2.UnlockPiece, PIECE)
        size = min(MAX_CHUNK_BYTES, len(view) - at)
        if piece.HasField("request") or len(piece.words) != size:
            raise RemoteProtocolError(
                "M2", f"a sum of {WORD_BYTES * count} bytes comes in full pieces of {MAX_CHUNK_BYTES}"
            )
        view[at : at + size] = piece.words
        at += size
    if await _next(context, trustee_pb2.UnlockPiece, PIECE) is not None:
        raise RemoteProtocolError("M2", f"more than the {WORD_BYTES * count} bytes of the sum")
    return words.astype(np.uint64, copy=False)


async def _drain(context: Context) -> None:
    """Read what still comes of a refused call, for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            raw: Any = None
            while raw is not grpc.aio.EOF:
                raw = await context.read()


def _check_version(version: int) -> None:
    if version != WIRE_VERSION:
        raise RemoteProtocolError(
            "W1",
            f"wire version {version}; this trustee speaks {WIRE_VERSION}: install the version of cohortsum that it has",
        )


def _study(held: service_pb2.SignedStudy) -> SignedStudy:
    return SignedStudy(held.canonical, held.statistician, held.signature)
