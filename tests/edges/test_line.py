"""The line drops: nodes come back with growing pauses, nothing is done twice, and they give up only out of patience."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import MessageRow, RoundRow
from tests.edges.harness import Loopback
from tests.edges.oracle import check_pooled

MESSAGES = ("ADVERT", "SHARES", "MASKED", "CONSISTENCY", "GATE_SHARES", "DATA_SHARES")


def check_once(town: Loopback, outcome: Outcome) -> None:
    """Fail unless the study was opened in one attempt, over everybody, with every message counted once."""
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(town.count))
    with town.store.transaction() as session:
        assert session.scalars(select(RoundRow.attempt)).all() == [1]
        stored = session.execute(select(MessageRow.sender, MessageRow.kind)).all()
    expected = sorted((f"site{index}", kind) for index in range(town.count) for kind in MESSAGES)
    assert sorted((sender, kind) for sender, kind in stored) == expected


async def interrupted(town: Loopback, site: str, what: str, when: str) -> Outcome:
    """Run a study in which the coordinator's server vanishes while it works on one call, and comes back."""
    held = town.hold(site, what, when)
    ending = town.start()
    async with asyncio.timeout(30):
        await held.reached.wait()
        await town.stop_server()
        await town.start_server()
        outcome = await ending
        await asyncio.gather(*town.tasks.values())
    return outcome


@pytest.mark.parametrize(
    ("what", "when"),
    [("APPROVAL", "after"), ("SHARES", "before"), ("UPLOAD", "after"), ("DATA_SHARES", "after")],
)
def test_a_call_broken_off_before_or_after_its_effect_has_one_effect(
    tmp_path: Path, what: str, when: str
) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town:
            check_once(town, await interrupted(town, "site2", what, when))

    with capture_logs() as logs:
        asyncio.run(play())
    assert "site2" in {line["site"] for line in logs if line["event"] == "line.down"}


class Cable:
    """A line to the coordinator that can be cut: every connection dies at once, the coordinator notices nothing."""

    def __init__(self, town: Loopback) -> None:
        self._target = town.port
        self._pumps: set[asyncio.Task[None]] = set()

    async def lay(self) -> int:
        """Return the port at which the line begins."""
        self._near = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return int(self._near.sockets[0].getsockname()[1])

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

    async def close(self) -> None:
        await self.cut()
        self._near.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.transport.abort()


def test_a_line_that_is_cut_between_polls_again_and_again_costs_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town:
            cable = Cable(town)
            town.port = await cable.lay()
            holds = [town.hold("site0", what) for what in ("ADVERT", "CONSISTENCY")]
            ending = town.start()
            async with asyncio.timeout(30):
                for held in holds:
                    await held.reached.wait()
                    await town.until(lambda: all(town.polls(f"site{index}") for index in (1, 2, 3)))
                    await cable.cut()
                    held.released.set()
                outcome = await ending
                await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)
            await cable.close()

    with capture_logs() as logs:
        asyncio.run(play())
    down = [line for line in logs if line["event"] == "line.down"]
    assert {line["site"] for line in down} == {f"site{index}" for index in range(4)}
    assert {line["status"] for line in down} == {"UNAVAILABLE"}
