"""What stands before every call: address, identity and limits, asked before the body of a request is read.

gRPC reads the one message of a unary call before any handler runs. So the gate serves every call as a stream, which looks the same on
the wire: at the head of a call only method, address and certificate are known, the gate decides by them, and the first message is read
when somebody asks for it. Until then gRPC takes no more of a body than its window (64 KiB at first). Messages come as bytes, are held
to the length that their call may have, and are parsed last.

The order: the address is on the list; the address and then the identity have not used up their share; nothing but calls of `RULES` is
known here, whatever is registered beside them. Whoever is refused for a limit hears RESOURCE_EXHAUSTED, a sentence and when to come again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import grpc
import structlog
from google.protobuf.message import DecodeError, Message

from cohortsum.coordinator.addresses import Network, is_allowed, metered, peer_address
from cohortsum.coordinator.buckets import Clock, Meter, Meters
from cohortsum.coordinator.call_rules import RULES, Rule
from cohortsum.coordinator.callers import Context, identify
from cohortsum.coordinator.faults import public_fault, public_hints
from cohortsum.coordinator.limits import (
    ADDRESSES,
    AS_BUILT,
    BODY_S,
    HELD,
    HOLD_S,
    IDLE_S,
    Limits,
)
from cohortsum.coordinator.metrics import Tally
from cohortsum.coordinator.roll import Roll
from cohortsum.crypto.errors import CohortsumError, LimitError, RemoteProtocolError
from cohortsum.protocol.shape import MAX_REQUEST_FIELDS, check_shape

log: structlog.stdlib.BoundLogger = structlog.get_logger()

Work = Callable[[Any, Context], Any]


class Handler(Protocol):
    """What gRPC knows of one call that is registered; of the four kinds of work one is there."""

    request_streaming: bool
    response_streaming: bool
    request_deserializer: Callable[[bytes], Message]
    response_serializer: Callable[[Message], bytes]
    unary_unary: Work | None
    unary_stream: Work | None
    stream_unary: Work | None


WITHOUT = "a call without a request"
QUIET_S = 60.0
"""Seconds between two lines of the log about the same refusal of the same caller."""


class Gate(grpc.aio.ServerInterceptor):
    """Decides about every call from its method, the peer's address and its certificate.

    Args:
        roll: returns who counts now.
        limits: of the coordinator.
        allow: networks from which one may call; empty for all.
        tally: counts refusals.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        roll: Callable[[], Roll],
        limits: Limits = AS_BUILT,
        allow: Sequence[Network] = (),
        tally: Tally | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._roll, self._limits, self._allow = roll, limits, tuple(allow)
        self._tally, self._clock = tally or Tally(), clock
        self._meters = Meters(limits, clock)
        self._logged: dict[tuple[str, str], float] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return what serves a call behind the gate, or None (UNIMPLEMENTED) for a call that there is not."""
        rule = RULES.get(handler_call_details.method)
        handler = None if rule is None else cast("Handler | None", await continuation(handler_call_details))
        if rule is None or handler is None:
            self._tally.refused["other", "UnknownCall"] += 1
            return None

        async def behind(_requests: object, context: Context) -> None:
            await self._serve(rule, handler, context)

        stream: Any = grpc.stream_stream_rpc_method_handler
        return stream(behind, None, None)

    async def _serve(self, rule: Rule, handler: Handler, context: Context) -> None:
        address = peer_address(context.peer())
        who = metered(address)
        near = self._meters.of_address(who)
        meters: tuple[Meter, ...] = (near,)
        try:
            if not is_allowed(address, self._allow):
                raise LimitError(
                    "this address is not in `allow` of the coordinator's coordinator.yaml; ask its operator to add your network",
                    "address",
                )
            self._check(near, rule, "address")
            near.calls.take(rule.calls)
            caller = identify(context, self._roll().now)
            who, own = caller.id, self._meters.of_caller(caller.id)
            meters = (own, near)
            self._check(own, rule, "identity")
            self._check_open(own, rule)
            own.calls.take(rule.calls)
        except CohortsumError as error:
            await self._refuse(rule, context, error, who, meters)
            return
        async with _counted(own, rule), _costly(own, rule):
            try:
                await self._answer(rule, handler, context, meters)
            except CohortsumError as error:  # about the request as bytes; the service answers for all else
                await self._refuse(rule, context, error, who, meters)

    async def _answer(self, rule: Rule, handler: Handler, context: Context, meters: Sequence[Meter]) -> None:
        """Read the request, let the service answer, and send what it says; bytes are paid both ways."""
        messages = self._messages(rule, handler.request_deserializer, context, meters)
        work = handler.stream_unary or handler.unary_unary or handler.unary_stream
        if work is None:
            raise AssertionError("no call here is a stream both ways")
        given: Any = messages
        if not handler.request_streaming:
            given = await anext(messages, None)
            if given is None:
                raise RemoteProtocolError("M2", WITHOUT)
        if not handler.response_streaming:
            await _reply(context, handler.response_serializer(await work(given, context)), meters)
            return
        async for piece in work(given, context):
            await _reply(context, handler.response_serializer(piece), meters)

    async def _messages(
        self, rule: Rule, parse: Callable[[bytes], Message], context: Context, meters: Sequence[Meter]
    ) -> AsyncIterator[Message]:
        """Yield the messages of a request, each read when it is asked for."""
        patience_s = IDLE_S if rule.name == "Upload" else BODY_S
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    raw = await context.read()
            except TimeoutError:
                raise LimitError(
                    f"{rule.name}: nothing has come for {patience_s:.0f} s; send it again", "idle", 0.0
                ) from None
            if raw is grpc.aio.EOF:
                return
            for meter in meters:
                meter.size.take(len(raw))
            if len(raw) > rule.request:
                raise LimitError(
                    f"{rule.name}: a message of {len(raw)} bytes, at most {rule.request} are read",
                    "message_bytes",
                )
            check_shape(rule.kind, raw, MAX_REQUEST_FIELDS)
            try:
                message = parse(raw)
            except DecodeError:
                raise RemoteProtocolError("M2", "the bytes are not a message of this call") from None
            del raw  # the service may work on the message for long
            yield message

    def _check(self, meter: Meter, rule: Rule, whose: str) -> None:
        """Refuse whoever has used up calls or bytes; raises LimitError."""
        prefix = "" if whose == "identity" else "address_"
        if wait_s := meter.calls.wait_s(rule.calls):
            raise LimitError(_later("calls", whose, wait_s), f"{prefix}calls", wait_s)
        if wait_s := meter.size.wait_s(1):
            raise LimitError(_later("bytes", whose, wait_s), f"{prefix}bytes", wait_s)

    def _check_open(self, meter: Meter, rule: Rule) -> None:
        """Refuse who has too many calls open; raises LimitError."""
        limits = self._limits
        if meter.open >= limits.calls_at_once:
            raise LimitError(
                f"{limits.calls_at_once} calls of this identity are open; end one, and run one node per key",
                "calls_at_once",
                1.0,
            )
        if rule.name == "Upload" and meter.uploads >= limits.uploads_at_once:
            raise LimitError(
                f"{limits.uploads_at_once} uploads of this identity are open; end one first",
                "uploads_at_once",
                1.0,
            )

    async def _refuse(
        self, rule: Rule, context: Context, error: CohortsumError, who: str, meters: Sequence[Meter]
    ) -> None:
        """Answer with a status, after a little while, so that whoever calls again at once costs little.

        Of one caller a refusal is logged once a minute for each limit and class; all are counted.
        """
        limit = error.limit if isinstance(error, LimitError) else ""
        self._tally.note(rule.name, error)
        now, key = self._clock(), (who, limit or type(error).__name__)
        if now - self._logged.get(key, -QUIET_S) >= QUIET_S:
            if len(self._logged) >= ADDRESSES:
                self._logged.clear()
            self._logged[key] = now
            log.warning(
                "call.refused",
                call=rule.name,
                error=type(error).__name__,
                sentence=error.message,
                limit=limit,
            )
        holder = meters[0]
        if holder.held < HELD:
            holder.held += 1
            try:
                await asyncio.sleep(HOLD_S)
            finally:
                holder.held -= 1
        status, sentence = public_fault(error)
        if limit == "address":
            status = grpc.StatusCode.PERMISSION_DENIED
        await context.abort(status, sentence, public_hints(error))


@asynccontextmanager
async def _counted(meter: Meter, rule: Rule) -> AsyncGenerator[None]:
    """Count a call while it is open."""
    upload = rule.name == "Upload"
    meter.open += 1
    meter.uploads += upload
    try:
        yield
    finally:
        meter.open -= 1
        meter.uploads -= upload


@asynccontextmanager
async def _costly(meter: Meter, rule: Rule) -> AsyncGenerator[None]:
    """Wait for a place among the few calls of an identity that may hold much, where this is one."""
    if not rule.costly:
        yield
        return
    async with meter.costly:
        yield


async def _reply(context: Context, message: bytes, meters: Sequence[Meter]) -> None:
    for meter in meters:
        meter.size.take(len(message))
    await context.write(message)


def _later(what: str, whose: str, wait_s: float) -> str:
    return f"too many {what} from this {whose}; try again in {max(wait_s, 0.001):.3g} s"
