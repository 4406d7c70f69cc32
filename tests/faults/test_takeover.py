"""Two coordinators over one PostgreSQL database: kill or stop either at any step, and the other goes on with the same attempt."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.edges.oracle import check_pooled
from tests.faults.test_coordinator_killed import ONCE, PACE
from tests.faults.town import FaultTown
from tests.life.town import study_of

STEPS = ("r0", "r1", "r2", "named", "r3", "r4a", "r4b", "r5", "published")


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_the_second_takes_over_where_the_first_was_killed(
    tmp_path: Path, postgres_url: str, step: str
) -> None:
    async def told() -> None:
        town = FaultTown(tmp_path, store=postgres_url)
        town.make_standby()
        async with town:
            await town.stop_hub()
            await town.restart_hub(f"hub.{step}.noted{'' if step in ONCE else ':3'}")
            second, log = town.start_second()
            try:
                town.start_nodes()
                await town.until(lambda: b"lease.waits" in log.read_bytes())
                study = await town.submit(study_of("one", changes=PACE))
                for index in range(town.count):
                    town.decide(index, study)
                await town.until(lambda: town.hub_is_dead)
                await town.until(lambda: b"coordinator.listening" in log.read_bytes())
                town.coordinator, town.target = second, town.addresses[1]
                check_pooled(await town.result(study), range(town.count))
                assert town.attempts(study) == [(1, 1, "opened")]
            finally:
                second.kill()
                second.wait()

    asyncio.run(told())


@pytest.mark.faults
def test_a_coordinator_that_slept_through_its_lease_writes_and_says_nothing_any_more(
    tmp_path: Path, postgres_url: str
) -> None:
    """Paused as a virtual machine is, with a study that waits for one site; it wakes up when the second has finished, and ends."""

    async def told() -> None:
        town = FaultTown(tmp_path, store=postgres_url)
        town.make_standby()
        async with town:
            second, log = town.start_second()
            try:
                town.start_nodes(range(4))
                await town.until(lambda: b"lease.waits" in log.read_bytes())
                study = await town.submit(study_of("one", changes=PACE))
                for index in range(town.count):
                    town.decide(index, study)
                for index in range(4):
                    await town.hears(index, study, "takes part")
                sleeper = town.coordinator
                os.kill(sleeper.pid, signal.SIGSTOP)
                await town.until(lambda: b"coordinator.listening" in log.read_bytes())
                town.target, town.coordinator = town.addresses[1], second
                town.start_nodes([4])
                document = await town.result(study)
                before = town.attempts(study)
                os.kill(sleeper.pid, signal.SIGCONT)
                await asyncio.wait_for(asyncio.to_thread(sleeper.wait), 60)
                assert sleeper.returncode == 2
                assert town.attempts(study) == before == [(1, 1, "opened")]
                check_pooled(document, range(town.count))
            finally:
                second.kill()
                second.wait()

    asyncio.run(told())
