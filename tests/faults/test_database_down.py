"""PostgreSQL is switched off at every step of a round, and comes back: calls wait, nothing is lost or done twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.runner import Outcome
from tests.edges.harness import Loopback, study_with
from tests.edges.test_line import check_once
from tests.postgres import NoServerError, Server, running
from tests.protocol.lies import TO_COORDINATOR

SITES = 4
SLOW = study_with(step="60s, step_max: 60s")
LIMIT_S = 120.0
REFUSED = ("call.refused", "round.not_kept", "study.waits")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of this module's own: it is switched off."""
    try:
        with running() as held:
            yield held
    except NoServerError as error:
        pytest.skip(str(error))


async def switch_off(server: Server, logs: list[dict[str, object]]) -> None:
    """Switch the database off; on again as soon as somebody has felt it."""
    await asyncio.to_thread(server.stop)
    asyncio.get_running_loop().create_task(switch_on(server, logs, len(logs)))


async def switch_on(server: Server, logs: list[dict[str, object]], since: int) -> None:
    while not any(line["event"] in REFUSED for line in logs[since:]):
        await asyncio.sleep(0.05)
    await asyncio.to_thread(server.start)


@pytest.mark.faults
@pytest.mark.parametrize("kind", TO_COORDINATOR, ids=lambda kind: kind.name)
def test_when_the_last_message_of_a_step_comes(tmp_path: Path, server: Server, kind: int) -> None:
    name = next(one.name for one in TO_COORDINATOR if one == kind)

    async def play(logs: list[dict[str, object]], url: str) -> None:
        async with Loopback(tmp_path, SITES, SLOW, store=url) as town, asyncio.timeout(LIMIT_S):
            held = [town.hold(f"site{index}", name) for index in range(SITES)]
            ending = town.start()
            await asyncio.gather(*(one.reached.wait() for one in held))
            await switch_off(server, logs)
            for one in held:
                one.released.set()
            check_once(town, await over(town, ending))

    url = server.made()
    with capture_logs() as logs:
        asyncio.run(play(logs, url))  # type: ignore[arg-type]
    server.dropped(url)


async def over(town: Loopback, ending: "asyncio.Task[Outcome]") -> Outcome:
    outcome = await ending
    await asyncio.gather(*town.tasks.values())
    return outcome


@pytest.mark.faults
@pytest.mark.parametrize("write", ["attempt_opened", "survivors", "iteration_opened", "computed", "wrote"])
def test_when_the_coordinator_writes_by_itself(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """The sum and its release are there together or not at all, and the study goes on with what is there."""
    written = getattr(StudyRecord, write)
    first = [True]

    async def play(logs: list[dict[str, object]], url: str) -> None:
        loop = asyncio.get_running_loop()

        def off(self: StudyRecord, *arguments: object) -> object:
            if first[0]:
                first[0] = False
                server.stop()
                loop.call_soon_threadsafe(lambda: loop.create_task(switch_on(server, logs, len(logs))))
            return written(self, *arguments)

        monkeypatch.setattr(StudyRecord, write, off)
        async with Loopback(tmp_path, SITES, SLOW, store=url) as town, asyncio.timeout(LIMIT_S):
            check_once(town, await over(town, town.start()))

    url = server.made()
    with capture_logs() as logs:
        asyncio.run(play(logs, url))  # type: ignore[arg-type]
    assert not first[0]
    server.dropped(url)
