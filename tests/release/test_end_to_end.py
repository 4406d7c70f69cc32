"""A study that asks for signatures, over real gRPC with TLS: nothing leaves before they are there, and a retraction takes it back."""

import asyncio
from pathlib import Path

import pytest

from cohortsum.coordinator.client import Desk
from cohortsum.crypto.errors import RefusedError
from cohortsum.node.files import read_key
from cohortsum.report.document import ResultDocument, from_json, provenance
from cohortsum.report.item_file import ItemFile, queue_item
from cohortsum.report.notices import NoticeKind
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from tests.admin import desk
from tests.edges.oracle import check_pooled
from tests.life.town import STATISTICIAN, Town, study_of

CHECKED = {"consortium: 0, sites: none": "consortium: 1, sites: any"}
AT = "2026-11-30T18:00:00+00:00"
ITEMS = ("ages", "bands", "thickness")


class CheckedTown(Town):
    """A town with a checker and an auditor, admitted after the roster that the study names."""

    def __init__(self, home: Path, sites: int) -> None:
        super().__init__(home, sites)
        for name, role in (("chk1", "checker"), ("aud1", "auditor")):
            desk.ok("key", "new", home / f"{name}.key")
            desk.ok(
                *("key", "request", home / f"{name}.key", "--id", name, "--role", role),
                *("--name", "C", "--organisation", "U", "--out", home / f"{name}.yaml"),
            )
            desk.ok("coordinator", "admit", self.consortium, home / f"{name}.yaml", "--role", role)

    def key_of(self, name: str) -> str:
        return f"{name}/identity.key" if name in self.names else f"{name}.key"

    async def look(self, who: str, study: FrozenStudy, item: str) -> ItemFile:
        async with self.desk(who, self.key_of(who)) as held:
            return await held.item(study.digest, item)

    def decision(self, who: str, file: ItemFile, act: Act, reason: str = "") -> Decision:
        confirmed = HUMAN if act is Act.RELEASE else ()
        about = bytes.fromhex(file.study.digest), file.item, bytes.fromhex(file.digest)
        made = Decision(*about, act, reason, "", confirmed, who, AT)
        return made.sign(read_key(self.home / self.key_of(who)))

    async def hand_in(self, who: str, made: Decision) -> None:
        async with self.desk(who, self.key_of(who)) as held:
            await held.decide(made)

    async def decide_item(self, who: str, file: ItemFile, act: Act, reason: str = "") -> None:
        await self.hand_in(who, self.decision(who, file, act, reason))

    async def states(self, who: str, study: FrozenStudy) -> dict[str, str]:
        async with self.desk(who, self.key_of(who)) as held:
            return {line.item: line.state for line in (await held.releases(study.digest)).items}

    async def fetched(self, study: FrozenStudy) -> ResultDocument:
        async with self.desk() as held:
            return await held.result(study.digest)


async def refused_item(held: Desk, study: FrozenStudy, item: str) -> str:
    with pytest.raises(RefusedError) as caught:
        await held.item(study.digest, item)
    return caught.value.message


def test_values_leave_with_the_last_signature_and_a_retraction_takes_them_back(tmp_path: Path) -> None:
    async def told() -> None:
        async with CheckedTown(tmp_path, 4) as town:
            town.start_nodes()
            study = await town.submit(study_of("checked", changes=CHECKED))
            for index in range(town.count):
                await town.hears(index, study, "waits for a decision")
                town.decide(index, study)
            await asyncio.wait_for(town.hub.ended(study.digest), 60)
            for index in range(town.count):
                await town.hears(index, study, "over")

            # the round is over: nothing of it is anywhere but at the coordinator, with those who decide, and auditors
            results = town.consortium / "results" / "checked" / "v1"
            assert not list(results.glob("results/*"))
            assert from_json((results / "result.json").read_bytes()).tables == ()
            assert town.hub.status(study.digest).state == "in review"
            with pytest.raises(RefusedError, match="in review; nothing of it is released yet"):
                await town.fetched(study)
            async with town.desk() as statistician:
                assert await refused_item(statistician, study, "ages") == (
                    "the coordinator refuses: not an identity of the roster"
                )
                listed = await statistician.releases(study.digest)
            assert [(line.item, line.state, line.digest) for line in listed.items] == [
                (name, "queue", b"") for name in ITEMS
            ]
            seen = [await town.look(who, study, "ages") for who in ("chk1", "site0", "aud1")]
            assert seen[0] == seen[1] == seen[2]
            assert queue_item(seen[0]).table.rows

            # whoever is connected hands in their own decisions and nobody else's, and some have none
            for who, by in (
                ("chk1", "site1"),
                ("site1", "chk1"),
                ("aud1", "aud1"),
                (STATISTICIAN, STATISTICIAN),
            ):
                with pytest.raises(RefusedError, match="not an identity of the roster"):
                    await town.hand_in(who, town.decision(by, seen[0], Act.RELEASE))

            # the decisions need no runner: they outlast a restart between any two of them
            await town.stop_hub()
            await town.start_hub()
            assert town.hub.runners == ()
            for item in ITEMS:
                await town.decide_item("chk1", await town.look("chk1", study, item), Act.RELEASE)
            assert set((await town.states(STATISTICIAN, study)).values()) == {"queue"}
            with pytest.raises(RefusedError, match="nothing of it is released yet"):
                await town.fetched(study)
            await town.stop_hub()
            await town.start_hub()
            await town.decide_item("site1", await town.look("site1", study, "ages"), Act.RELEASE)
            first = await town.fetched(study)
            assert [block.analysis for block in first.tables] == ["ages"]
            assert provenance(first).endswith("1 of 3 items released, signed by chk1, site1; 2 in the queue")
            assert town.hub.status(study.digest).state == "in review"
            for item in ITEMS[1:]:
                await town.decide_item("site2", await town.look("site2", study, item), Act.RELEASE)
            document = await town.fetched(study)
            check_pooled(document, range(4))
            assert town.hub.status(study.digest).state == "released"
            assert from_json((results / "result.json").read_bytes()) == document
            assert {path.name for path in results.glob("results/*")} == {f"{item}.csv" for item in ITEMS}

            # the operator was told that signatures are wanted, and when the last one was there
            assert [notice.kind for notice in town.notices] == [
                NoticeKind.SIGNATURE_WANTED,
                NoticeKind.RESULTS_RELEASED,
            ]

            # one entitled party is enough to take it back
            await town.decide_item(
                "site3", await town.look("site3", study, "ages"), Act.RETRACT, "wrong epoch"
            )
            after = await town.fetched(study)
            assert [block.analysis for block in after.tables] == ["bands", "thickness"]
            (retracted,) = [entry for entry in after.release if entry.item == "ages"]
            assert (retracted.state, retracted.signatures[-1].reason) == ("retracted", "wrong epoch")
            assert not (results / "results" / "ages.csv").exists()
            assert from_json((results / "result.json").read_bytes()) == after

    asyncio.run(told())
