"""The line drops: nodes come back with growing pauses, nothing is done twice, and they give up only out of patience."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import MessageRow, RoundRow
from cohortsum.protocol.bounds import threshold
from tests.edges.harness import Loopback
from tests.edges.oracle import check_pooled

NEEDED_OF_ALL = ("ADVERT", "SHARES", "MASKED")
NEEDED_OF_SOME = ("CONSISTENCY", "GATE_SHARES", "DATA_SHARES")
"""Answers of a threshold of sites suffice; a later one may find the round closed."""


def check_once(town: Loopback, outcome: Outcome) -> None:
    """Fail unless the study was opened in one attempt, over everybody, with every message counted once."""
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(town.count))
    with town.store.transaction() as session:
        assert session.scalars(select(RoundRow.attempt)).all() == [1]
        found = session.execute(select(MessageRow.sender, MessageRow.kind))
        stored = Counter((sender, kind) for sender, kind in found)
    assert set(stored.values()) == {1}
    everybody = {f"site{index}" for index in range(town.count)}
    for kind in NEEDED_OF_ALL:
        assert {sender for sender, held in stored if held == kind} == everybody
    for kind in NEEDED_OF_SOME:
        assert len({sender for sender, held in stored if held == kind}) >= threshold(town.count)


class Cable:
    """A line to the coordinator that can be cut: every connection dies at once, the coordinator notices nothing."""

    def __init__(self, town: Loopback) -> None:
        self._town, self._target = town, town.port
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Let every node that joins from now on go through this line."""
        self._near = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self._town.port = int(self._near.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        self._near.close()

    async def cut(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, back), (there, writer)):
            pump = asyncio.create_task(_pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.transport.abort()


@pytest.mark.parametrize(
    ("what", "when"),
    [("APPROVAL", "after"), ("SHARES", "before"), ("UPLOAD", "after"), ("DATA_SHARES", "after")],
)
def test_a_call_whose_line_is_cut_before_or_after_its_effect_has_one_effect(
    tmp_path: Path, what: str, when: str
) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town, Cable(town) as cable:
            held = town.hold("site2", what, when)
            ending = town.start()
            async with asyncio.timeout(30):
                await held.reached.wait()
                await cable.cut()
                outcome = await ending
                await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)

    with capture_logs() as logs:
        asyncio.run(play())
    assert "site2" in {line["site"] for line in logs if line["event"] == "line.down"}


def test_a_server_that_stops_and_comes_back_again_and_again_costs_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town:
            holds = [town.hold("site2", "APPROVAL", "after"), town.hold("site1", "UPLOAD", "after")]
            ending = town.start()
            async with asyncio.timeout(30):
                for held in holds:
                    await held.reached.wait()
                    await town.stop_server()
                    await town.start_server()
                outcome = await ending
                await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)

    asyncio.run(play())


def test_a_line_that_is_cut_between_polls_again_and_again_costs_nothing(tmp_path: Path) -> None:
    waiting = {"site1", "site2", "site3"}

    def felt() -> set[str]:
        return {line["site"] for line in logs if line["event"] == "line.down"}

    async def play() -> None:
        async with Loopback(tmp_path, 4) as town, Cable(town) as cable:
            holds = [town.hold("site0", what) for what in ("ADVERT", "CONSISTENCY")]
            ending = town.start()
            async with asyncio.timeout(30):
                for held in holds:
                    await held.reached.wait()
                    await town.until(lambda: all(map(town.polls, waiting)))
                    await cable.cut()
                    # gRPC may repeat a call by itself, and a poll may just have returned: such a cut is not felt
                    while len(felt() & waiting) < 2:
                        await asyncio.sleep(0.05)
                        await cable.cut()
                    held.released.set()
                outcome = await ending
                await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)

    with capture_logs() as logs:
        asyncio.run(play())
    down = [line for line in logs if line["event"] == "line.down"]
    assert felt() <= waiting | {"site0"}
    assert len(felt() & waiting) >= 2
    assert {line["status"] for line in down} == {"UNAVAILABLE"}
