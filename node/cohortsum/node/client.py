"""The gRPC edge of a node: it calls out, asks for its next packet, and sends what the session hands it.

A lost line costs nothing: every call is repeated with growing pauses, and repeating a submission has no second effect. So is a
call for which the coordinator had no room, not before the time it said, within the longest pause.
Answers leave on a public grid of time with a phase of their own per round and site, so that the moment of an answer
says nothing about how long it took to compute.
"""

import asyncio
import hashlib
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Self, TypeVar, cast

import grpc
import structlog

from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import LineError, RemoteProtocolError, RoundFailedError
from cohortsum.crypto.failpoints import reach
from cohortsum.crypto.masks import Vector
from cohortsum.node.session import StudySession
from cohortsum.protocol.codec import (
    MAX_CHUNK_BYTES,
    WIRE_VERSION,
    envelope_to_wire,
    packet_from_wire,
)
from cohortsum.protocol.effects import Send
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import MAX_LISTED, asked_to_wait_s, caller_options
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.shape import CheckedChannel
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc

WAIT_MS = 20_000
CALL_TIMEOUT_S = 60.0
CERTIFICATE_LIFETIME = timedelta(days=30)
RENEW_S = CERTIFICATE_LIFETIME.total_seconds() / 3
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0

TRY_AGAIN = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,  # what a server that stops makes of open calls
    }
)

BROKE_OFF = "Internal error from Core"
"""What gRPC itself says, as INTERNAL, where the other end refuses a call of which it is still sending: the refusal is lost."""

AFTER = {
    Kind.ADVERT: "site.r0.sent",
    Kind.SHARES: "site.r1.sent",
    Kind.MASKED: "site.r2.sent",
    Kind.CONSISTENCY: "site.r3.sent",
    Kind.GATE_SHARES: "site.r4a.sent",
    Kind.DATA_SHARES: "site.r4b.sent",
}
"""Failpoints right after a message has been delivered."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Line:
    """How to reach the coordinator, and for how long to try.

    Attributes:
        target: host and port.
        patience_s: seconds of unbroken failure after which the node gives up.
        others: further addresses of the same coordinator, tried in turn while the line is down.
    """

    target: str
    patience_s: float
    others: tuple[str, ...] = ()


def secure_channel(line: Line, signer: Signer, roster: Roster) -> grpc.aio.Channel:
    """Return a channel with TLS 1.3 on which both ends prove an identity of the roster."""
    now = datetime.now(UTC)
    tls = certify(signer.key, signer.identity.id, now, CERTIFICATE_LIFETIME)
    hub = roster.coordinator
    credentials = grpc.ssl_channel_credentials(
        trust_anchor(hub.id, hub.key, now), tls.private_key, tls.certificate
    )
    return grpc.aio.secure_channel(
        line.target,
        credentials,
        options=[
            ("grpc.ssl_target_name_override", hub.id),  # the certificate names the identity, not the host
            *caller_options(),
        ],
    )


def checked_stub(channel: grpc.aio.Channel) -> "service_pb2_grpc.ConsortiumAsyncStub":
    """Return what calls go through; a reply that is no message of its call, or has fields without end, comes as None."""
    served = service_pb2.DESCRIPTOR.services_by_name["Consortium"]
    return service_pb2_grpc.ConsortiumStub(cast("grpc.aio.Channel", CheckedChannel(channel, served)))


class Connection:
    """The channel to the coordinator, made anew before its certificate ends; an async context manager.

    Args:
        line: address and patience.
        signer: the site's identity.
        roster: names the coordinator.
    """

    def __init__(self, line: Line, signer: Signer, roster: Roster) -> None:
        self._line, self._signer, self._roster = line, signer, roster
        self._channel: grpc.aio.Channel | None = None
        self._made = 0.0
        self._renew = datetime.min.replace(tzinfo=UTC)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._channel is not None:
            await self._channel.close()

    @property
    def target(self) -> str:
        """The address that is tried now."""
        return self._line.target

    def turn(self, failed: str) -> None:
        """Go on to the next address from one that failed; where another call has done so already, nothing changes."""
        target, *others = self._line.target, *self._line.others
        if others and target == failed:
            self._line = replace(self._line, target=others[0], others=(*others[1:], target))
            self._made = -math.inf

    def stub(self) -> "service_pb2_grpc.ConsortiumAsyncStub":
        """Return what calls go through now."""
        return checked_stub(self.channel())

    def channel(self) -> grpc.aio.Channel:
        """Return the channel of now."""
        now, today = time.monotonic(), datetime.now(UTC)
        # a machine that slept was not counted by the first clock, and the second may be set back
        if self._channel is None or now - self._made > RENEW_S or today > self._renew:
            old, self._made, self._renew = self._channel, now, today + CERTIFICATE_LIFETIME / 3
            self._channel = secure_channel(self._line, self._signer, self._roster)
            if old is not None:  # calls that are under way may end
                self._closing = asyncio.create_task(old.close(grace=CALL_TIMEOUT_S))
        return self._channel


class Caller:
    """Repeats calls while the line is down.

    Args:
        connection: to the coordinator.
        line: address and patience.
        site: the site's id, for the log.
    """

    def __init__(self, connection: Connection, line: Line, site: str) -> None:
        self._connection, self._line, self._site = connection, line, site
        self.down_since: datetime | None = datetime.now(UTC)

    async def call(self, call: "Callable[[service_pb2_grpc.ConsortiumAsyncStub], Awaitable[R]]") -> R:
        """Return what a call returns, trying again while the line is down.

        Raises RoundFailedError where the coordinator refuses, with its sentence, and LineError when patience is at an end.
        """
        return await self._repeated(lambda: call(self._connection.stub()))

    async def on_channel(self, call: Callable[[grpc.aio.Channel], Awaitable[R | None]]) -> R:
        """Return what a call of another service than the consortium's returns; otherwise as `call`."""
        return await self._repeated(lambda: call(self._connection.channel()))

    async def _repeated(self, call: Callable[[], Awaitable[R | None]]) -> R:
        """As `call`."""
        pause_s, failing_s = FIRST_PAUSE_S, 0.0
        while True:
            began_s, target = time.monotonic(), self._connection.target
            try:
                reply = await call()
            except grpc.aio.AioRpcError as error:
                later_s = retry_after_s(error)
                again = error.code() in TRY_AGAIN or later_s is not None or error.details() == BROKE_OFF
                if not again:
                    raise RoundFailedError(
                        f"the coordinator answers: {error.details()} ({error.code().name})"
                    ) from error
                self.down_since = self.down_since or datetime.now(UTC)
                self._connection.turn(target)
                failing_s += time.monotonic() - began_s
                if failing_s >= self._line.patience_s:
                    raise LineError(
                        f"the coordinator at {self._line.target} does not answer; check address, network and its state"
                    ) from error
                wait_s = max(pause_s, min(later_s or 0.0, LONGEST_PAUSE_S))
                jitter_s = wait_s * secrets.randbelow(1000) / 2000
                log.info("line.down", site=self._site, status=error.code().name, next_try_s=round(wait_s, 1))
                await asyncio.sleep(wait_s + jitter_s)
                failing_s += wait_s + jitter_s
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self.down_since = None
                if reply is None:
                    raise RoundFailedError(
                        "the coordinator's reply is no message of this call, or has more fields than any may have"
                    )
                return reply


def retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    """Return after how many seconds a coordinator without room takes the same call, or None where it does not say so."""
    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return None
    return asked_to_wait_s(error.trailing_metadata())


async def list_studies(caller: Caller, after: int) -> service_pb2.ListStudiesReply:
    """Return the coordinator's list of studies once it is another than the one with serial ``after``, or the wait ends.

    Raises as `Caller.call`, and RoundFailedError for a list that is longer than any may be.
    """
    request = service_pb2.ListStudiesRequest(wire_version=WIRE_VERSION, after=after, wait_ms=WAIT_MS)
    reply = await caller.call(lambda stub: stub.ListStudies(request, timeout=CALL_TIMEOUT_S))
    if len(reply.studies) > MAX_LISTED:
        raise RoundFailedError(f"the coordinator lists more than {MAX_LISTED} studies; ask its operator")
    return reply


class NodeClient:
    """Carries one study's session over a connection.

    Args:
        caller: to the coordinator.
        session: the site's side of the study.
        site: the site's id, for the phase of its ticks.
    """

    def __init__(self, caller: Caller, session: StudySession, site: str) -> None:
        self._caller, self._session, self._site = caller, session, site

    async def answer(self, packet: Packet) -> str:
        """Send the site's answer to the study; return an empty text, or the coordinator's sentence if it refuses."""
        await self._tick(packet.envelope.context)
        return await self._submit(packet)

    async def follow(self, digest: bytes) -> None:
        """Take part in a study's rounds, and return when it has ended."""
        after = 0
        while True:
            reply = await self._next(digest, after)
            if reply.number == 0:
                if reply.over:
                    return
                continue
            after = reply.number
            try:
                packet = packet_from_wire(reply.packet)
            except RemoteProtocolError as error:
                log.warning("message.refused", site=self._site, check=error.check, sentence=error.message)
                continue
            for send in await in_thread(partial(self._session.handle, packet)):
                await self._send(send)

    async def _next(self, digest: bytes, after: int) -> service_pb2.NextReply:
        request = service_pb2.NextRequest(study=digest, after=after, wait_ms=WAIT_MS)
        return await self._caller.call(lambda stub: stub.Next(request, timeout=CALL_TIMEOUT_S))

    async def _send(self, send: Send) -> None:
        await self._tick(send.packet.envelope.context)
        refused = await self._submit(send.packet)
        if not refused and send.words is not None:
            await self._upload(send.packet.envelope.context, send.words)
        log.info("message.sent", site=self._site, kind=send.packet.envelope.kind.name)
        point = AFTER.get(send.packet.envelope.kind)
        if point is not None:
            reach(point)

    async def _submit(self, packet: Packet) -> str:
        held = round_pb2.Packet(envelope=envelope_to_wire(packet.envelope), attachments=packet.attachments)
        return await self._deliver(lambda stub: stub.Submit(held, timeout=CALL_TIMEOUT_S))

    async def _upload(self, context: bytes, words: Vector) -> str:
        timeout_s = CALL_TIMEOUT_S + words.nbytes / 1e5
        return await self._deliver(lambda stub: stub.Upload(_chunks(context, words), timeout=timeout_s))

    async def _deliver(
        self,
        call: "Callable[[service_pb2_grpc.ConsortiumAsyncStub], Awaitable[service_pb2.SubmitReply]]",
    ) -> str:
        """Return an empty text, or why the coordinator did not take it; that costs this site its place in the round."""
        try:
            await self._caller.call(call)
        except RoundFailedError as error:
            log.warning("message.not_taken", site=self._site, sentence=error.message)
            return error.message
        return ""

    async def _tick(self, context: bytes) -> None:
        await asyncio.sleep(
            until_tick(context, self._site, datetime.now(UTC).timestamp(), self._session.tick_s)
        )


async def in_thread(work: Callable[[], R]) -> R:
    """Return what ``work`` returns, run in a thread; if the caller is cancelled, only after the work has ended."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def until_tick(context: bytes, site: str, now_s: float, tick_s: float) -> float:
    """Return the seconds from ``now_s`` to the next point of the grid for this round and site."""
    phase = int.from_bytes(hashlib.sha256(context + site.encode()).digest()[:8], "big") / 2**64 * tick_s
    return (phase - now_s) % tick_s


async def _chunks(context: bytes, words: Vector) -> AsyncIterator[service_pb2.UploadChunk]:
    data = words.astype("<u8", copy=False).data.cast("B")
    hasher = words_hasher(len(data))
    for start in range(0, len(data), MAX_CHUNK_BYTES):
        chunk = bytes(data[start : start + MAX_CHUNK_BYTES])
        hasher.update(chunk)
        yield service_pb2.UploadChunk(
            context=context if start == 0 else b"", words=chunk, running_digest=hasher.digest()
        )
