"""A node's part in the committee runs of one study, over the connection to the coordinator.

The node calls out only: it asks for what waits for it, and sends what its machine and its worker make. Whatever goes wrong in a run ends
this site's part in it with a public sentence, and the run for everybody; the coordinator may open another one.

A run has no life of its own beyond this process. A node that starts anew and is told of a run that it does not know says so, and the
others need not wait for a time limit.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

import grpc
import structlog

from cohortsum.crypto.errors import (
    CohortsumError,
    LineError,
    RemoteProtocolError,
    RoundFailedError,
)
from cohortsum.node.client import CALL_TIMEOUT_S, WAIT_MS, Caller, in_thread
from cohortsum.node.committee.bindings import Bindings
from cohortsum.node.committee.process import Worker, worker
from cohortsum.protocol.committee.codec import (
    encode,
    packet_from_wire,
    packet_to_wire,
    sealed_from_wire,
    sealed_to_wire,
)
from cohortsum.protocol.committee.effects import Bind, Compute, Ended, Finished, Identity, Part, Send
from cohortsum.protocol.committee.messages import End, Kind, Opening, Packet, Sealed, authenticate, sign
from cohortsum.protocol.committee.site import SiteRun
from cohortsum.protocol.roster import Role
from cohortsum.protocol.shape import CheckedChannel
from cohortsum.wire.v1 import committee_pb2, committee_pb2_grpc

DEADLINE_S = 600.0
BATCH_BYTES = 2**20
MOST_ENDED = 64
"""Runs that are over and remembered, so that what still comes of them is known."""

LONG = frozenset({Kind.OPENING, Kind.KEYS, Kind.INPUTS})
"""What reads tables, deals or opens packages, in a thread. None of it runs beside a worker, whose frames the machine seals."""

Item = Packet | Sealed
PartOf = Callable[[Opening], Part]
R = TypeVar("R")
OnResult = Callable[[Opening, Finished], None]

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class CommitteeClient:
    """Takes part in the runs of one study.

    Args:
        caller: to the coordinator.
        identity: who this site is, and the study.
        part_of: what this site brings to an opening, without ``bound``; raises ConfigurationError for one that is not of the study.
        bindings: this member's record.
        on_result: told of every result that all members signed.
        deadline_s: seconds that a worker may take.
    """

    def __init__(
        self,
        caller: Caller,
        identity: Identity,
        part_of: PartOf,
        bindings: Bindings,
        on_result: OnResult,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._caller, self._identity, self._part_of = caller, identity, part_of
        self._bindings, self._on_result, self._deadline_s = bindings, on_result, deadline_s
        self._running: _Running | None = None
        self._ended: dict[bytes, None] = {}

    async def follow(self) -> None:
        """Take part until cancelled, or until the line is given up (LineError)."""
        after = 0
        try:
            while True:
                reply = await self._next(after)
                for held in reply.items:
                    after = max(after, held.number)
                    await self._take(held)
        finally:
            await self._leave()

    async def _next(self, after: int) -> committee_pb2.CommitteeNextReply:
        study = self._identity.study_digest
        request = committee_pb2.CommitteeNextRequest(study=study, after=after, wait_ms=WAIT_MS)
        return await self._called(lambda stub: stub.CommitteeNext(request, timeout=CALL_TIMEOUT_S))

    async def _take(self, held: committee_pb2.CommitteeItem) -> None:
        try:
            item: Item = (
                sealed_from_wire(held.frame) if held.HasField("frame") else packet_from_wire(held.packet)
            )
            await self._route(item)
        except RemoteProtocolError as error:
            log.warning("committee.refused", check=error.check, sentence=error.message)
            await self._give_up(error.message)
        except (CohortsumError, OSError) as error:
            log.warning("committee.failed", error=type(error).__name__)
            await self._give_up("this site cannot go on; its own log says why")
            if isinstance(error, LineError):
                raise

    async def _route(self, item: Item) -> None:
        context = item.context if isinstance(item, Sealed) else item.signed.context
        running = self._running
        if running is not None and running.context == context:
            await self._handle(running, item)
        elif isinstance(item, Packet) and item.signed.kind is Kind.OPENING:
            await self._leave()
            self._running = running = _Running(self, context)
            await self._handle(running, item)
        elif context not in self._ended and not (isinstance(item, Packet) and item.signed.kind is Kind.END):
            self._note(context)
            await self._say_lost(item, context)

    async def _handle(self, running: "_Running", item: Item) -> None:
        if isinstance(item, Sealed):
            running.arrived(item)
            return
        handle = partial(running.machine.handle, item)
        for effect in await in_thread(handle) if item.signed.kind in LONG else handle():
            match effect:
                case Send():
                    await self.send([effect.packet], [])
                case Bind():
                    self._bindings.bind(self._identity.study_digest, effect.stage, effect.dealers)
                case Compute():
                    running.compute(effect)
                case Finished():
                    opening = running.machine.opening
                    await self._leave()
                    self._on_result(opening, effect)
                case Ended():
                    log.info("committee.ended", sentence=effect.reason)
                    await self._leave()

    def machine(self) -> SiteRun:
        """Return a machine for a new run."""

        def part_of(opening: Opening) -> Part:
            bound = self._bindings.of(opening.study_digest, opening.key.stage)
            return replace(self._part_of(opening), bound=bound)

        return SiteRun(self._identity, part_of, secrets.token_bytes)

    async def send(self, packets: list[Packet], frames: list[Sealed]) -> None:
        """Send messages and frames, trying again while the line is down."""
        request = committee_pb2.CommitteeSendRequest(
            packets=map(packet_to_wire, packets), frames=map(sealed_to_wire, frames)
        )
        await self._called(lambda stub: stub.CommitteeSend(request, timeout=CALL_TIMEOUT_S))

    async def failed(self, running: "_Running", sentence: str) -> None:
        """Give a run up because its worker did not come to an end."""
        if self._running is running:
            await self._give_up(sentence)

    @property
    def deadline_s(self) -> float:
        """Seconds that a worker may take."""
        return self._deadline_s

    async def _give_up(self, sentence: str) -> None:
        running = self._running
        if running is None:
            return
        ended = running.machine.give_up(sentence) if running.machine.is_open else None
        await self._leave()
        if ended is not None:
            try:
                await self.send([ended.packet], [])
            except RoundFailedError as error:
                log.warning("committee.not_taken", sentence=error.message)

    async def _leave(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            self._note(running.context)
            running.machine.wipe()
            await running.stop()

    def _note(self, context: bytes) -> None:
        self._ended[context] = None
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    async def _say_lost(self, item: Item, context: bytes) -> None:
        """Tell the coordinator that this node has no such run, where it is truly the coordinator that speaks of one."""
        if isinstance(item, Packet):
            sender = authenticate(item.signed, context, self._identity.roster)
            if sender.role is not Role.COORDINATOR:
                raise RemoteProtocolError("C1", "a message that the coordinator did not sign")
        kind, payload = encode(End("this node has started anew"))
        await self.send([Packet(sign(self._identity.signer, context, kind, payload))], [])

    async def _called(self, call: "Callable[[committee_pb2_grpc.CommitteeAsyncStub], Awaitable[R]]") -> R:
        return await self._caller.on_channel(lambda channel: call(_stub(channel)))


class _Running:
    """One run in this process: its machine, and the task of its worker.

    Args:
        client: whose run it is.
        context: of the run.
    """

    def __init__(self, client: CommitteeClient, context: bytes) -> None:
        self._client, self.context = client, context
        self.machine = client.machine()
        self._waiting: asyncio.Queue[Sealed] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def arrived(self, frame: Sealed) -> None:
        """Take a frame for the worker."""
        self._waiting.put_nowait(frame)

    def compute(self, job: Compute) -> None:
        """Start the worker."""
        self._task = asyncio.create_task(self._computed(job))

    async def stop(self) -> None:
        """End the worker, if this is not its own doing."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait([task])

    async def _computed(self, job: Compute) -> None:
        sentence = "this site cannot go on; its own log says why"
        try:
            async with asyncio.timeout(self._client.deadline_s), worker() as one:
                await one.begin(job.plan, job.member, job.shares)
                incoming = asyncio.create_task(self._hand(one))
                outgoing = asyncio.create_task(self._carry(one))
                try:
                    await asyncio.wait((incoming, outgoing), return_when=asyncio.FIRST_COMPLETED)
                    for task in (incoming, outgoing):
                        if task.done():
                            task.result()
                finally:
                    for task in (incoming, outgoing):
                        task.cancel()
                    await asyncio.wait((incoming, outgoing))
            return
        except TimeoutError:
            sentence = "its worker did not come to an end in time"
        except RemoteProtocolError as error:
            sentence = error.message
        except (CohortsumError, OSError) as error:
            log.warning("committee.worker_failed", error=type(error).__name__, sentence=str(error))
        try:
            await self._client.failed(self, sentence)
        except CohortsumError as error:
            log.warning("committee.not_taken", sentence=error.message)

    async def _hand(self, one: Worker) -> None:
        while True:
            frame = await self._waiting.get()
            await one.hand(frame.sender, self.machine.unseal(frame))

    async def _carry(self, one: Worker) -> None:
        """Send what the worker says, as much at once as there is, and its answers."""
        ready: asyncio.Queue[tuple[int, bytes] | bytes | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async for message in one.messages():
                    ready.put_nowait(message)
            finally:
                ready.put_nowait(None)

        reading = asyncio.create_task(read())
        try:
            while True:
                first = await ready.get()
                frames: list[Sealed] = []
                for message in [first, *(ready.get_nowait() for _ in range(ready.qsize()))]:
                    if isinstance(message, tuple):
                        frames.append(self.machine.seal(*message))
                        if sum(len(frame.sealed) for frame in frames) > BATCH_BYTES:
                            await self._client.send([], frames)
                            frames = []
                    elif message is None:
                        await reading  # raises why the worker ended
                    else:
                        await self._client.send([self.machine.answered(message).packet], frames)
                        return
                await self._client.send([], frames)
        finally:
            reading.cancel()
            await asyncio.wait([reading])


def _stub(channel: grpc.aio.Channel) -> "committee_pb2_grpc.CommitteeAsyncStub":
    served = committee_pb2.DESCRIPTOR.services_by_name["Committee"]
    return committee_pb2_grpc.CommitteeStub(cast("grpc.aio.Channel", CheckedChannel(channel, served)))
