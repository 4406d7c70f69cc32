"""A site dies at every point of a round, with SIGKILL, and is started again at once, while the attempt goes on.

Five sites, of which four are needed. The one that is killed has written down more or less by then, and sent more or less; who is in the sum
follows from that alone. Whatever it did, the node that is started again sends nothing more in that context, and takes part in the next study.
"""

import asyncio
from pathlib import Path

import pytest

from cohortsum.crypto.failpoints import SITE_STEPS
from tests.edges.oracle import check_pooled
from tests.faults.invariants import charged, deeds_of, spent
from tests.faults.town import FaultTown
from tests.life.town import study_of

VICTIM = 1
OTHERS = (0, 2, 3, 4)
EVERYBODY = tuple(range(5))
SOON = {"deadlines: {step: 20s, tick: 1ms}": "deadlines: {step: 10s, step_max: 10s, tick: 1ms}"}
LATER = {"deadlines: {step: 20s, tick: 1ms}": "deadlines: {step: 120s, step_max: 120s, tick: 1ms}"}
"""Time enough for a node that is started again to take the place that is free still."""

STEPS = {
    "r0": ((), (), ()),
    "r1": ((), (), ()),
    "r2": ((), ("spent",), ("spent",)),
    "r3": (("spent",), ("spent", "signed"), ("spent", "signed")),
    "r4a": (("spent", "signed"), ("spent", "signed"), ("spent", "signed", "answered gate")),
    "r4b": (
        ("spent", "signed", "answered gate"),
        ("spent", "signed", "answered gate", "answered data"),
        ("spent", "signed", "answered gate", "answered data"),
    ),
}
"""What the ledger says, by when the site was killed: before its record, before it sends, and after."""
WHENS = ("before", "recorded", "sent")
OPENED = (
    ("spent", "signed", "answered gate", "answered data"),
    ("spent", "signed", "answered gate", "answered data", "opened"),
)
SENT = {
    "before": 0,
    "recorded": 0,
    "sent": 1,
}
KINDS = ("ADVERT", "SHARES", "MASKED", "CONSISTENCY", "GATE_SHARES", "DATA_SHARES")


def counted(step: str, when: str) -> tuple[int, ...]:
    """Return who is in the sum: the victim is once its masked input is in, and where nothing of it was there before its record."""
    place = SITE_STEPS.index(step) if step in SITE_STEPS else len(SITE_STEPS)
    in_time = place > 2 or (step, when) in {("r2", "sent"), ("r0", "before")}
    return EVERYBODY if in_time else OTHERS


async def killed_at(town: FaultTown, point: str, pace: dict[str, str]) -> bytes:
    """Run a study in which the victim dies at a point and starts again; return the context, once the study is over."""
    _, step, when = point.split(".")
    town.end_process(VICTIM)
    doomed = town.start_process(VICTIM, point)
    study = await town.submit(study_of(f"{step}-{when}", changes=pace))
    for index in range(town.count):
        town.decide(index, study)
    await town.until(lambda: doomed.poll() == -9)
    town.start_process(VICTIM)
    members = counted(step, when)
    check_pooled(await town.result(study), members)
    assert town.attempts(study) == [(1, 1, "opened")]
    ((context, survivors),) = town.opened(study)
    assert survivors == {town.names[index] for index in members}
    return context


async def healthy(town: FaultTown, name: str) -> None:
    """Fail unless the site takes part in a study that follows."""
    study = await town.submit(study_of(name))
    for index in range(town.count):
        town.decide(index, study)
    check_pooled(await town.result(study), EVERYBODY)


@pytest.mark.faults
@pytest.mark.parametrize("step", SITE_STEPS)
def test_at_every_point_of_a_step(tmp_path: Path, step: str) -> None:
    contexts: dict[str, bytes] = {}

    async def told() -> None:
        async with FaultTown(tmp_path) as town:
            town.start_nodes(OTHERS)
            for when in WHENS:
                pace = LATER if (step, when) == ("r0", "before") else SOON
                contexts[when] = await killed_at(town, f"site.{step}.{when}", pace)
            await healthy(town, "after")
            town.end_process(VICTIM)
        town.check_disks()
        deeds = deeds_of(town.folder(VICTIM) / "ledger.db")
        for when, expected in zip(WHENS, STEPS[step], strict=True):
            context = contexts[when]
            if (step, when) == ("r0", "before"):
                expected = OPENED[-1]
            held = {deed for place, deed in deeds if place == context}
            assert held - {"opened"} == set(expected) - {"opened"}, when
            sent = [kind for kind in KINDS if kind in town.kinds_of(VICTIM, context)]
            if (step, when) != ("r0", "before"):
                assert sent == list(KINDS[: SITE_STEPS.index(step) + SENT[when]]), when

    asyncio.run(told())


@pytest.mark.faults
@pytest.mark.parametrize("when", ["before", "recorded"])
def test_when_it_hears_how_the_round_ended(tmp_path: Path, when: str) -> None:
    """The result stands, and what the ledger says of what left is complete; the end is in it or not."""
    contexts: list[bytes] = []

    async def told() -> None:
        async with FaultTown(tmp_path) as town:
            town.start_nodes(OTHERS)
            contexts.append(await killed_at(town, f"site.r5.{when}", SOON))
            await healthy(town, "after")
            town.end_process(VICTIM)
        town.check_disks()
        deeds = {
            deed for context, deed in deeds_of(town.folder(VICTIM) / "ledger.db") if context == contexts[0]
        }
        assert ("opened" in deeds) is (when == "recorded")
        assert deeds - {"opened"} == set(OPENED[0])

    asyncio.run(told())


NOISED = {
    "privacy: {noise: none}": "privacy: {noise: distributed, epsilon: 0.3, delta: 1.0e-6, accept_noise: true}",
    "  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}\n": "",
    "  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}\n": "",
    "min_sites: 3": "min_sites: 4",
    **SOON,
}


@pytest.mark.faults
def test_a_noised_study_is_charged_with_the_record_of_the_masked_input_and_not_before(tmp_path: Path) -> None:
    cases = {
        "site.r2.before": (OTHERS, False),
        "site.r2.recorded": (OTHERS, True),
        "site.r3.before": (EVERYBODY, True),
        "site.r4a.recorded": (EVERYBODY, True),
    }
    contexts: dict[str, bytes] = {}

    async def told() -> None:
        async with FaultTown(tmp_path) as town:
            town.start_nodes(OTHERS)
            for point, (members, _) in cases.items():
                town.end_process(VICTIM)
                doomed = town.start_process(VICTIM, point)
                study = await town.submit(study_of(point.replace(".", "-"), changes=NOISED))
                for index in range(town.count):
                    town.decide(index, study)
                await town.until(lambda: doomed.poll() == -9)  # noqa: B023  waited for here
                town.start_process(VICTIM)
                await town.result(study)
                ((contexts[point], survivors),) = town.opened(study)
                assert survivors == {town.names[index] for index in members}
            town.end_process(VICTIM)
        town.check_disks()
        ledger = town.folder(VICTIM) / "ledger.db"
        assert {point for point in cases if contexts[point] in charged(ledger)} == {
            point for point, (_, costs) in cases.items() if costs
        }
        assert charged(ledger) == spent(ledger)

    asyncio.run(told())
