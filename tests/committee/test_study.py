"""A study in mode committee over real gRPC in one loop, with members that vanish: its runs, its release, its audit logs."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from structlog.testing import capture_logs

from cohortsum.coordinator.committee_desk import CommitteeDesk, CommitteePace
from cohortsum.coordinator.runner import Outcome
from cohortsum.node.committee.bindings import Bindings
from cohortsum.node.joining import Site
from cohortsum.protocol.audit import DeedKind
from tests.edges.harness import EPOCH, HUB, LIMIT_S, Loopback, People, approving, rows
from tests.protocol.consortium import identity_key

SITES = 5
TEXT = f"""\
study: closed
title: A study over a committee
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {{levels: [control, case]}}
  age: {{unit: years, range: [0, 100]}}
cohort: {{epoch: {EPOCH}}}
analyses:
  ages: {{kind: quantiles, variables: [age], step: 0.01, probabilities: [0.25, 0.5]}}
  dx: {{kind: crosstab, factors: [dx]}}
protection:
  mode: committee
  committee: [site0, site2, site4]
  min_sites: 3
  min_participants: 20
  max_participants: 10000
  min_participants_per_site: 2
  max_colluding_sites: 1
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{step: 20s, tick: 1ms}}
"""


class StudyTown(Loopback):
    """A consortium with one study in mode committee."""

    def __init__(
        self, folder: Path, text: str = TEXT, change: Mapping[int, Callable[[Site], Site]] | None = None
    ) -> None:
        super().__init__(folder, SITES, text, change)

    def make_desk(self) -> CommitteeDesk:
        """Return a desk."""
        return CommitteeDesk(identity_key(HUB), CommitteePace(20.0, 20.0, 1))

    async def begun(self, index: int, stage: int) -> None:
        """Wait until a member has begun a stage."""
        while Bindings(self.folder / f"site{index}").of(self.study.digest, stage) is None:
            await asyncio.sleep(0.005)


def run(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await play()

    asyncio.run(limited())


def check(outcome: Outcome, sites: tuple[int, ...] = tuple(range(SITES))) -> None:
    """Check that a study has the tables of these sites."""
    assert outcome.document is not None, outcome.reason
    ages = np.concatenate([People.of(index).age for index in sites])
    for row in rows(outcome.document, "ages"):
        probability = float(str(row["probability"]))
        assert row["value"] == np.percentile(ages, 100 * probability)
        assert row["n"] == len(ages)
    levels = np.concatenate([People.of(index).dx for index in sites])
    assert [row["count"] for row in rows(outcome.document, "dx")] == [*np.bincount(levels)]
    assert outcome.document.sites.survivors == tuple(f"site{index}" for index in sites)


def test_a_study_over_a_committee_is_released_and_stands_in_every_log(tmp_path: Path) -> None:
    async def play() -> None:
        async with StudyTown(tmp_path) as town:
            outcome = await town.run()
            check(outcome)
            stages = 5
            for index in range(SITES):
                lines = (tmp_path / f"site{index}" / "audit.jsonl").read_text()
                assert lines.count(DeedKind.SHARES_DEALT.value) == stages
                assert DeedKind.INPUT_MASKED.value not in lines
            assert town.runner.state == "released"
            assert [path.name for path in town.results.rglob("result.json")] == ["result.json"]
            again = await town.runner.run()  # as after a restart: nothing is computed again
            assert again.document == outcome.document

    run(play)


def test_a_member_that_vanishes_and_comes_back_costs_an_attempt(tmp_path: Path) -> None:
    async def play() -> None:
        async with StudyTown(tmp_path) as town:
            ending = town.start()
            await town.begun(2, 2)
            town.tasks["site2"].cancel()
            await asyncio.wait([town.tasks["site2"]])
            town.join(2)
            with capture_logs() as logs:
                check(await ending)
            assert any(entry["event"] == "committee.attempt_failed" for entry in logs)

    run(play)


def declining(site: Site) -> Site:
    return replace(site, decision=approving())


def test_a_study_without_one_of_its_members_ends_and_says_who_is_absent(tmp_path: Path) -> None:
    async def play() -> None:
        async with StudyTown(tmp_path, change={4: declining}) as town:
            ended = await town.run()
            assert ended.document is None
            assert "absent is site4" in ended.reason

    run(play)


def test_a_study_that_is_withdrawn_ends_while_its_committee_computes(tmp_path: Path) -> None:
    async def play() -> None:
        async with StudyTown(tmp_path) as town:
            ending = town.start()
            await town.begun(0, 1)
            await town.runner.stop("withdrawn", "its statistician took it back")
            ended = await ending
            assert ended.document is None
            assert town.runner.state == "withdrawn"

    run(play)


def test_too_few_people_end_the_study_with_one_bit(tmp_path: Path) -> None:
    async def play() -> None:
        text = TEXT.replace("min_participants: 20", "min_participants: 500")
        async with StudyTown(tmp_path, text) as town:
            ended = await town.run()
            assert ended.document is None
            assert "min_participants 500" in ended.reason
            for index in (0, 2, 4):
                assert Bindings(tmp_path / f"site{index}").of(town.study.digest, 2) is None

    run(play)
