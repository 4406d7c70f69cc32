"""The coordinator dies at every durable write of a round, with SIGKILL, and the next process goes on with the same attempt.

Nodes run on and repeat what was lost on the way. The first attempt opens, over everybody, and its numbers are those of the pooled
rows: nothing is counted twice and nobody is missing.
"""

import asyncio
from pathlib import Path

import pytest

from cohortsum.crypto.failpoints import HUB_STEPS
from tests.edges.oracle import check_pooled
from tests.edges.test_fits import check_fit
from tests.faults.town import FaultTown
from tests.life.town import study_of

ONCE = ("named", "r5", "published")
"""Steps with one write; the others have one for every site, and the third is taken."""
PACE = {"deadlines: {step: 20s, tick: 1ms}": "deadlines: {step: 20s, step_max: 40s, tick: 1ms}"}


@pytest.mark.faults
@pytest.mark.parametrize("step", HUB_STEPS)
def test_at_every_write_of_a_step(tmp_path: Path, step: str) -> None:
    async def told() -> None:
        async with FaultTown(tmp_path) as town:
            town.start_nodes()
            for when in ("before", "noted"):
                await town.stop_hub()
                await town.restart_hub(f"hub.{step}.{when}{'' if step in ONCE else ':3'}")
                study = await town.submit(study_of(when, changes=PACE))
                for index in range(town.count):
                    town.decide(index, study)
                await town.until(lambda: town.hub_is_dead)
                await town.restart_hub()
                check_pooled(await town.result(study), range(town.count))
                assert town.attempts(study) == [(1, 1, "opened")], when

    asyncio.run(told())


FITTED = {
    "protection:": "  odds: {kind: glm, family: binomial, outcomes: [dx], event: case, terms: [age, thick]}\nprotection:",
    **PACE,
}


@pytest.mark.faults
@pytest.mark.parametrize(
    "point", ["hub.r1.noted:8", "hub.r2.noted:13", "hub.named.noted:3", "hub.r4a.noted:18"]
)
def test_inside_an_iteration_of_a_fit(tmp_path: Path, point: str) -> None:
    """In the iteration that deals ahead, and in one that uses what was dealt: sites still hold it, and the fit loses no attempt."""

    async def told() -> None:
        async with FaultTown(tmp_path) as town:
            town.start_nodes()
            await town.stop_hub()
            await town.restart_hub(point)
            study = await town.submit(study_of("fit", changes=FITTED))
            for index in range(town.count):
                town.decide(index, study)
            await town.until(lambda: town.hub_is_dead)
            await town.restart_hub()
            document = await town.result(study)
            check_pooled(document, range(town.count))
            check_fit(document, range(town.count))
            attempts = town.attempts(study)
            assert len(attempts) > 3
            assert attempts == [(iteration, 1, "opened") for iteration in range(1, len(attempts) + 1)]

    asyncio.run(told())
