"""Sites cut off at every step, alone or too many of them, for a while or for good; and lines that damage, slow down or swallow.

Five sites, of which four are needed. A site is cut off while its message of the step is on its way, so that the message has no effect.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import select

from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import RoundRow
from cohortsum.node import client
from cohortsum.node.client import Line
from cohortsum.protocol.messages import Kind
from tests.edges.harness import PATIENCE_S, Loopback, study_with
from tests.edges.oracle import check_pooled
from tests.edges.test_line import check_once
from tests.faults.invariants import check_answers, check_no_id, check_one_sum, check_site, check_transcripts
from tests.faults.proxy import Proxy
from tests.protocol.lies import TO_COORDINATOR

SITES = 5
FEW, MANY = (2,), (2, 4)
COLLECTING = (Kind.ADVERT, Kind.SHARES, Kind.MASKED)
SLOW = study_with(step="60s, step_max: 60s", min_sites="4")
FAST = study_with(step="5s, step_max: 5s", min_sites="4")
BEFORE = dict(
    zip(
        (kind.name for kind in (*TO_COORDINATOR, Kind.CLOSING)),
        ("APPROVAL", "ADVERT", "SHARES", "UPLOAD", "CONSISTENCY", "GATE_SHARES", "DATA_SHARES"),
        strict=True,
    )
)
"""What a site has sent by the time that it sends a message, or hears the last one."""
EVERY_KIND = pytest.mark.parametrize("kind", TO_COORDINATOR, ids=lambda kind: kind.name)
SIZES = pytest.mark.parametrize("victims", [FEW, MANY], ids=["few", "many"])


class ProxiedTown(Loopback):
    """A consortium whose sites have a line each."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._lines = AsyncExitStack()
        self.proxies = [await self._lines.enter_async_context(Proxy(self.port)) for _ in range(self.count)]
        return self

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(None, None, None)
        await self._lines.aclose()

    def line_of(self, site: str) -> Line:
        return Line(f"127.0.0.1:{self.proxies[int(site.removeprefix('site'))].port}", PATIENCE_S)

    async def cut_off(self, victims: Iterable[int], what: str, when: str = "before") -> None:
        """Cut sites off once they all have a message on its way."""
        holds = [self.hold(f"site{index}", what, when) for index in victims]
        await asyncio.gather(*(held.reached.wait() for held in holds))
        for index in victims:
            await self.proxies[index].cut()

    async def heal(self, victims: Iterable[int]) -> None:
        for index in victims:
            await self.proxies[index].heal()

    def states(self) -> list[tuple[int, str]]:
        """Return number and state of every attempt."""
        with self.store.transaction() as session:
            rows = session.execute(select(RoundRow.attempt, RoundRow.state).order_by(RoundRow.attempt))
            return [(number, state) for number, state in rows]

    async def until_state(self, wanted: list[tuple[int, str]]) -> None:
        while self.states() != wanted:
            await asyncio.sleep(0.05)

    async def ends(self, ending: "asyncio.Task[Outcome]") -> Outcome:
        """Return how the study ended, once every node has heard of it; what holds after every run holds."""
        outcome = await ending
        await asyncio.gather(*self.tasks.values())
        for index in range(self.count):
            check_site(self.folder / f"site{index}" / "ledger.db", f"site{index}", self.store)
        check_answers(self.wire.received)
        check_one_sum(self.store)
        check_transcripts(self.store, {self.roster.version: self.roster})
        check_no_id(self.folder, self.count)
        return outcome


@asynccontextmanager
async def town(folder: Path, study: str) -> AsyncGenerator[ProxiedTown]:
    async with ProxiedTown(folder, SITES, study) as held, asyncio.timeout(180):
        yield held


def check_sum(outcome: Outcome, sites: Iterable[int], attempt: int = 1) -> None:
    assert outcome.document is not None, outcome.reason
    assert outcome.document.round.attempt == attempt
    check_pooled(outcome.document, sites)


@pytest.mark.faults
@EVERY_KIND
@SIZES
def test_sites_that_come_back_in_time_are_in_the_sum(
    tmp_path: Path, kind: Kind, victims: tuple[int, ...]
) -> None:
    async def play() -> None:
        async with town(tmp_path, SLOW) as held:
            ending = held.start()
            await held.cut_off(victims, kind.name)
            await held.heal(victims)
            outcome = await held.ends(ending)
            check_once(held, outcome)

    asyncio.run(play())


@pytest.mark.faults
@EVERY_KIND
def test_a_few_that_stay_away_are_dropouts_or_not_needed(tmp_path: Path, kind: Kind) -> None:
    async def play() -> None:
        async with town(tmp_path, FAST) as held:
            ending = held.start()
            await held.cut_off(FEW, kind.name)
            outcome = await asyncio.shield(ending)
            await held.heal(FEW)
            everybody = set(range(SITES))
            check_sum(outcome, sorted(everybody - set(FEW) if kind in COLLECTING else everybody))
            assert held.states() == [(1, "opened")]
            await held.ends(ending)

    asyncio.run(play())


@pytest.mark.faults
@EVERY_KIND
def test_too_many_end_the_attempt_and_the_next_one_opens_when_they_are_back(
    tmp_path: Path, kind: Kind
) -> None:
    """Before the masked inputs it was free. After them the sites that are there bury it, unless gate shares are out: then the same
    survivors open in the next one."""

    async def play() -> None:
        async with town(tmp_path, FAST) as held:
            ending = held.start()
            await held.cut_off(MANY, kind.name)
            while held.states()[0] != (1, "aborted"):
                await asyncio.sleep(0.05)
            context = held.runner.machine.fixed.context
            spent = [site.ledger.has_spent(context) for site in held.sites]
            assert any(spent) is (kind not in (Kind.ADVERT, Kind.SHARES))
            await held.heal(MANY)
            check_sum(await held.ends(ending), range(SITES), attempt=2)
            assert held.states() == [(1, "aborted"), (2, "opened")]

    asyncio.run(play())


@pytest.mark.faults
@SIZES
def test_who_is_cut_off_before_it_hears_the_end_hears_it_when_it_is_back(
    tmp_path: Path, victims: tuple[int, ...]
) -> None:
    async def play() -> None:
        async with town(tmp_path, SLOW) as held:
            ending = held.start()
            await held.cut_off(victims, "DATA_SHARES", "after")
            outcome = await asyncio.shield(ending)
            context = held.runner.machine.fixed.context
            assert not any("opened" in held.sites[index].ledger.deeds(context) for index in victims)
            await held.heal(victims)
            check_sum(await held.ends(ending), range(SITES))
            assert all("opened" in held.sites[index].ledger.deeds(context) for index in victims)
            assert outcome.document is not None

    asyncio.run(play())


@pytest.mark.faults
@pytest.mark.parametrize("how", ["flip", "truncate"])
@pytest.mark.parametrize("kind", BEFORE)
def test_damaged_bytes_below_tls_break_the_connection_and_nothing_else(
    tmp_path: Path, kind: str, how: str
) -> None:
    async def play() -> None:
        async with town(tmp_path, SLOW) as held:
            reached = held.hold("site2", BEFORE[kind], "after")
            ending = held.start()
            await reached.reached.wait()
            held.proxies[2].damage(how, 3)
            reached.released.set()
            outcome = await held.ends(ending)
            check_once(held, outcome)
            assert held.proxies[2].felt

    asyncio.run(play())


@pytest.mark.faults
@pytest.mark.parametrize("kind", BEFORE)
def test_a_line_that_swallows_everything_is_given_up_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(client, "CALL_TIMEOUT_S", 3.0)

    async def play() -> None:
        async with town(tmp_path, SLOW) as held:
            reached = held.hold("site2", BEFORE[kind], "after")
            ending = held.start()
            await reached.reached.wait()
            held.proxies[2].swallow()
            reached.released.set()
            while not held.proxies[2].felt:
                await asyncio.sleep(0.05)
            await held.proxies[2].heal()
            check_once(held, await held.ends(ending))

    asyncio.run(play())


@pytest.mark.faults
def test_slow_lines_only_cost_time(tmp_path: Path) -> None:
    async def play() -> None:
        async with town(tmp_path, SLOW) as held:
            for proxy in held.proxies:
                proxy.delay_s = 0.05
            check_once(held, await held.ends(held.start()))

    asyncio.run(play())
