"""The hostile coordinator as a real server: gRPC and mutual TLS on loopback, in front of nodes as they run in earnest.

A script runs in a thread of its own and tells a site one packet at a time. A node asks for its next packet only when everything
that the one before made it send has arrived; so the reply to a packet is whatever came in until the node asks again, and nothing
waits for a clock.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Self

import numpy as np
from structlog.testing import capture_logs

from cohortsum.coordinator.hub import Hub
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.codec import envelope_to_wire, packet_from_wire
from cohortsum.protocol.effects import Send
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import words_from_bytes
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.plan import RoundPlan
from cohortsum.study.planning import plan_study
from cohortsum.wire.v1 import round_pb2, service_pb2
from tests.attacks.sessions import refusal
from tests.attacks.sites import Betrayed, Reply
from tests.edges.harness import (
    HUB,
    LIMIT_S,
    STUDY,
    Context,
    Loopback,
    WatchedService,
    Wire,
    caller,
    people_at,
)
from tests.protocol.consortium import identity_key


class Line:
    """What one node and the hostile coordinator have said to each other."""

    def __init__(self) -> None:
        self.moved = asyncio.Condition()
        self.number, self.asked = 0, -1
        self.packet = round_pb2.Packet()
        self.packets: list[Packet] = []
        self.words: dict[bytes, Vector] = {}

    async def put(self, packet: Packet) -> int:
        async with self.moved:
            self.number += 1
            self.packet = round_pb2.Packet(
                envelope=envelope_to_wire(packet.envelope), attachments=packet.attachments
            )
            self.moved.notify_all()
            return self.number

    async def next(self, after: int, wait_s: float) -> service_pb2.NextReply:
        async with self.moved:
            self.asked = max(self.asked, after)
            self.moved.notify_all()
            try:
                async with asyncio.timeout(wait_s):
                    await self.moved.wait_for(lambda: self.number > after)
            except TimeoutError:
                return service_pb2.NextReply()
            return service_pb2.NextReply(number=self.number, packet=self.packet)

    async def answered(self, number: int) -> None:
        async with self.moved:
            await self.moved.wait_for(lambda: self.asked >= number)


class HostileService(WatchedService):
    """Relays nothing by itself: packets come from the script, and whatever nodes send is the script's."""

    def __init__(self, hub: Hub, wire: Wire) -> None:
        super().__init__(hub, wire)
        self.lines: dict[str, Line] = {}

    def line(self, site: str) -> Line:
        return self.lines.setdefault(site, Line())

    async def Next(self, request: service_pb2.NextRequest, context: Context) -> service_pb2.NextReply:
        return await self.line(caller(context)).next(request.after, request.wait_ms / 1000)

    async def Submit(self, request: round_pb2.Packet, context: Context) -> service_pb2.SubmitReply:
        site = caller(context)
        self.wire.note(self.wire.received, site, "Submit", request.SerializeToString())
        self.line(site).packets.append(packet_from_wire(request))
        return service_pb2.SubmitReply()

    async def Upload(
        self, request_iterator: AsyncIterator[service_pb2.UploadChunk], context: Context
    ) -> service_pb2.SubmitReply:
        held, of_context = bytearray(), b""
        async for chunk in request_iterator:
            of_context = of_context or chunk.context
            held += chunk.words
        self.line(caller(context)).words[of_context] = words_from_bytes(bytes(held))
        return service_pb2.SubmitReply()


class Served(Loopback):
    """Nodes and the hostile coordinator that serves them; from the script's side these are `Sites`."""

    betrayed: Mapping[tuple[bytes, int], Betrayed] = {}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.loop = asyncio.get_running_loop()
        return self

    def make_service(self) -> WatchedService:
        self.hostile = HostileService(self.hub, self.wire)
        return self.hostile

    @property
    def plan(self) -> RoundPlan:
        return plan_study(self.study, self.roster).round

    @property
    def coordinator(self) -> Signer:
        return Signer(self.roster.coordinator, identity_key(HUB))


class Answering:
    """The sites of `Served`, as a script in another thread sees them."""

    def __init__(self, town: Served, logs: list[dict[str, object]]) -> None:
        self._town, self._logs = town, logs
        self.roster, self.plan, self.hub = town.roster, town.plan, town.coordinator
        self.betrayed: Mapping[tuple[bytes, int], Betrayed] = {}
        self.approvals: dict[int, Envelope] = {}

    async def enrolled(self) -> None:
        """Wait until every node has sent its approval and asks for packets."""
        for index in range(self._town.count):
            line = self._town.hostile.line(f"site{index}")
            await line.answered(0)
            (approval,) = line.packets
            assert approval.envelope.kind is Kind.APPROVAL
            self.approvals[index] = approval.envelope

    def people(self, index: int) -> int:
        return people_at(index)

    def tell(self, index: int, packet: Packet) -> Reply:
        return asyncio.run_coroutine_threadsafe(self._tell(index, packet), self._town.loop).result(LIMIT_S)

    async def _tell(self, index: int, packet: Packet) -> Reply:
        name = f"site{index}"
        line, since = self._town.hostile.line(name), len(self._logs)
        known = len(line.packets)
        await line.answered(await line.put(packet))
        sends = tuple(
            Send(held, self._words(line, held) if held.envelope.kind is Kind.MASKED else None)
            for held in line.packets[known:]
        )
        return Reply(sends, refusal(self._logs[since:], name))

    @staticmethod
    def _words(line: Line, packet: Packet) -> Vector:
        return np.array(line.words[packet.envelope.context])


def serve(folder: Path, script: Callable[[Answering], None], sites: int = 5, study: str = STUDY) -> None:
    """Run a script of the hostile coordinator against nodes over gRPC."""

    async def play(logs: list[dict[str, object]]) -> None:
        async with Served(folder, sites, study) as town:
            for index in range(sites):
                town.join(index)
            answering = Answering(town, logs)
            async with asyncio.timeout(LIMIT_S):
                await answering.enrolled()
                await asyncio.to_thread(script, answering)

    with capture_logs() as logs:
        asyncio.run(play(logs))  # type: ignore[arg-type]
