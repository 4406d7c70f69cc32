"""A site is set back to an older image of its whole folder while a round is open, at every step of it, and its admin approves again.

The image knows nothing of the round. It never makes a masked input in that context again; where the coordinator holds one that it does not
know, it halts until it is recovered.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.edges.oracle import check_pooled
from tests.faults.invariants import deeds_of, spent
from tests.faults.test_site_killed import EVERYBODY, OTHERS, SOON, VICTIM, counted, healthy
from tests.faults.town import FaultTown
from tests.life.town import study_of

POINTS = ("r0.sent", "r1.sent", "r2.sent", "r3.sent", "r4a.sent", "r4b.sent", "r5.recorded")


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS)
def test_set_back_after_a_step(tmp_path: Path, point: str) -> None:
    image, contexts = tmp_path / "image", list[bytes]()
    step, _, when = point.partition(".")

    async def told() -> None:
        async with FaultTown(tmp_path / "town") as town:
            folder = town.folder(VICTIM)
            town.start_nodes(OTHERS)
            town.start_process(VICTIM)
            await healthy(town, "before")
            town.end_process(VICTIM)
            shutil.copytree(folder, image)

            doomed = town.start_process(VICTIM, f"site.{point}")
            study = await town.submit(study_of("during", changes=SOON))
            for index in range(town.count):
                town.decide(index, study)
            await town.until(lambda: doomed.poll() == -9)
            shutil.rmtree(folder)
            shutil.copytree(image, folder)
            town.decide(VICTIM, study)
            town.start_process(VICTIM)
            members = counted(step, when)
            check_pooled(await town.result(study), members)
            assert town.attempts(study) == [(1, 1, "opened")]
            ((context, _),) = town.opened(study)
            contexts.append(context)

            after = await town.submit(study_of("after"))
            for index in range(town.count):
                town.decide(index, after)
            forgot = step not in ("r0", "r1")
            check_pooled(await town.result(after), OTHERS if forgot else EVERYBODY)
            town.end_process(VICTIM)
        town.check_disks(restored=(VICTIM,))
        ledger = town.folder(VICTIM) / "ledger.db"
        assert contexts[0] not in spent(ledger)
        assert not any(place == contexts[0] for place, _ in deeds_of(ledger))

    asyncio.run(told())
