"""The consortium whose folders are kept: four sites, and one study of every kind that leaves something in a store.

``open`` is released as it ends; ``checked`` has two of its three tables released and waits for the third; ``odds`` is a fit of several
rounds; ``noised`` is charged to every site's budget; one site declines ``fewer``; ``taken-back`` is withdrawn while it enrols.
Everything runs as in earnest (`tests.life.town`), then stops.
"""

import asyncio
from pathlib import Path

from cohortsum.node.files import read_key
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.withdrawal import withdraw
from cohortsum.study.release.decision import Act
from tests.life.town import STATISTICIAN, study_of
from tests.release.test_bundle_town import AuditedTown
from tests.release.test_end_to_end import CHECKED, ITEMS

SITES, DECLINES = 4, 3
THICKNESS = "  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}\n"
ODDS = {
    THICKNESS: THICKNESS
    + "  odds: {kind: glm, family: binomial, outcomes: [dx], event: case, terms: [age, thick]}\n"
}
NOISED = {"privacy: {noise: none}": "privacy: {noise: distributed, epsilon: 8, delta: 1.0e-6}", THICKNESS: ""}
BUDGET = "\nbudget: {epsilon: 20, delta: 1.0e-6}\n"


def told(home: Path) -> None:
    """Play the story; the folders stay below ``home``."""
    asyncio.run(_told(home))


async def _told(home: Path) -> None:
    town = AuditedTown(home, SITES)
    for index in range(SITES):
        policy = town.folder(index) / "policy.yaml"
        policy.write_text(policy.read_text() + BUDGET)
    async with town:
        town.start_nodes()
        await _approved(town, study_of("open", roster=town.pinned), range(SITES))
        checked = await _approved(
            town, study_of("checked", changes=CHECKED, roster=town.pinned), range(SITES)
        )
        for who, item in (("chk1", 0), ("site0", 0), ("chk1", 1), ("site1", 1)):
            await town.decide_item(who, await town.look(who, checked, ITEMS[item]), Act.RELEASE)
        await _approved(town, study_of("odds", changes=ODDS, roster=town.pinned), range(SITES))
        await _approved(town, study_of("noised", changes=NOISED, roster=town.pinned), range(SITES))
        await _approved(town, study_of("fewer", roster=town.pinned), range(DECLINES))
        back = await town.submit(study_of("taken-back", roster=town.pinned))
        for index in range(SITES):
            await town.hears(index, back, "waits for a decision")
        town.decide(0, back)
        await town.hears(0, back, "takes part")
        async with town.desk() as held:
            await held.withdraw(withdraw(back.digest, STATISTICIAN, read_key(home / "stat1.key")))
            await town.hub.ended(back.digest)
        for index in range(SITES):
            await town.hears(index, back, "over")


async def _approved(town: AuditedTown, text: str, sites: range) -> FrozenStudy:
    """Submit a study, let these sites approve and the others decline it, and wait for its end."""
    study = await town.submit(text)
    for index in range(SITES):
        town.decide(index, study, approved=index in sites)
    await asyncio.wait_for(town.hub.ended(study.digest), 60)
    for index in sites:
        await town.hears(index, study, "over")
    return study
