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


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["APPROVAL", "ADVERT", "MASKED", "UPLOAD", "DATA_SHARES"])
def test_a_call_broken_off_before_or_after_its_effect_has_one_effect(
    tmp_path: Path, what: str, when: str
) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town:
            check_once(town, await interrupted(town, "site2", what, when))

    with capture_logs() as logs:
        asyncio.run(play())
    assert {line["site"] for line in logs if line["event"] == "line.down"} >= {"site2"}


def test_the_line_may_drop_between_polls_again_and_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 4) as town:
            holds = [town.hold("site0", what) for what in ("ADVERT", "SHARES", "CONSISTENCY")]
            ending = town.start()
            async with asyncio.timeout(30):
                for held in holds:
                    await held.reached.wait()
                    others = [f"site{index}" for index in (1, 2, 3)]
                    await town.until(lambda others=others: all(town.polls(site) for site in others))
                    await town.stop_server()
                    await town.start_server()
                outcome = await ending
                await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)

    with capture_logs() as logs:
        asyncio.run(play())
    assert {line["site"] for line in logs if line["event"] == "line.down"} == {f"site{index}" for index in range(4)}
