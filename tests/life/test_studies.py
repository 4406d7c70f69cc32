"""Studies that come and go: side by side, narrowed, replaced, taken back, across restarts, by policy."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cohortsum.crypto.errors import RefusedError
from cohortsum.node.client import Caller, Connection, Line
from cohortsum.node.decisions import read_decisions
from cohortsum.node.files import read_key
from cohortsum.protocol.envelope import Signer
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition.withdrawal import withdraw
from cohortsum.wire.v1 import service_pb2
from tests.admin import desk
from tests.edges.oracle import check_pooled, people_of
from tests.life.town import LIMIT_S, STATISTICIAN, Town, study_of

Story = Callable[[Town], Coroutine[None, None, None]]


def play(home: Path, story: Story, sites: int = 5) -> None:
    async def told() -> None:
        async with Town(home, sites) as town:
            await story(town)

    asyncio.run(told())


def people(document: ResultDocument) -> int:
    table = next(block.table() for block in document.tables if block.analysis == "ages")
    return sum(int(str(row[table.columns.index("n")])) for row in table.rows)


def test_two_studies_run_side_by_side(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        first, second = [await town.submit(study_of(name)) for name in ("one", "two")]
        for index in range(town.count):
            town.decide(index, second)
            town.decide(index, first)
        for study in (first, second):
            document = await town.result(study)
            assert document.study.id == study.study
            check_pooled(document, range(5))

    play(tmp_path, story)


def test_nothing_is_approved_by_default_and_nothing_is_sent_before_a_decision(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            await town.hears(index, study, "waits for a decision")
        await asyncio.sleep(0.5)
        assert town.hub.running(study.digest).enrolment.answers == {}

    play(tmp_path, story)


def test_an_approval_may_be_narrowed_to_some_analyses(tmp_path: Path) -> None:
    """Site 4 says yes to the ages alone: the regression is that of the other sites."""

    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            town.decide(index, study, analyses=frozenset({"ages"}) if index == 4 else None)
        document = await town.result(study)
        assert people(document) == people_of(range(5))
        table = next(block.table() for block in document.tables if block.analysis == "thickness")
        assert {int(str(row[table.columns.index("n")])) for row in table.rows} == {people_of(range(4))}

    play(tmp_path, story)


def test_a_decline_and_an_approval_that_ended_both_say_not_taking_part(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
        town.decide(3, study, approved=False)
        town.decide(4, study, until=yesterday)
        for index in range(3):
            town.decide(index, study)
        document = await town.result(study)
        check_pooled(document, range(3))
        line = town.line(4, study)
        assert line is not None
        assert "the approval ended" in line.reason or line.here == "over"

    play(tmp_path, story)


def test_an_approval_that_is_revoked_before_the_round_does_not_count(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(4):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        town.decide(3, study, approved=False)
        await town.until(lambda: town.hub.running(study.digest).enrolment.answers.get(3) is False)
        town.decide(4, study)
        check_pooled(await town.result(study), (0, 1, 2, 4))

    play(tmp_path, story)


def test_a_node_that_is_away_finds_the_study_when_it_comes_back(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes(range(4))
        study = await town.submit(study_of("one"))
        for index in range(4):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        await town.stop_node(2)
        town.start_nodes((2, 4))
        town.decide(4, study)
        check_pooled(await town.result(study), range(5))

    play(tmp_path, story)


def test_a_coordinator_restarted_between_rounds_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        done = await town.submit(study_of("done"))
        open_one = await town.submit(study_of("open"))
        for index in range(town.count):
            town.decide(index, done)
        first = await town.result(done)
        for index in range(4):
            town.decide(index, open_one)
            await town.hears(index, open_one, "takes part")
        await town.stop_hub()
        await town.start_hub()
        async with town.desk() as held:
            assert await held.result(done.digest) == first
            states = {entry.name: entry.state for entry in await held.studies()}
        assert states == {"done": "released", "open": "enrolling"}
        assert town.hub.running(open_one.digest).enrolment.answers == dict.fromkeys(range(4), True)
        town.decide(4, open_one)
        check_pooled(await town.result(open_one), range(5))

    play(tmp_path, story)


def test_a_node_that_asks_a_restarted_coordinator_hears_that_its_study_is_over(tmp_path: Path) -> None:
    """It was still waiting for a packet when the coordinator went; a refusal would be noted as a fault."""

    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            town.decide(index, study)
        await town.result(study)
        await town.stop_hub()
        await town.start_hub()
        roster = town.hub.roll.now
        signer = Signer(roster.identities["site0"], read_key(town.folder(0) / "identity.key"))
        asked, at = service_pb2.NextRequest(study=study.digest, wait_ms=100), Line(town.target, LIMIT_S)
        async with Connection(at, signer, roster) as connection:
            reply = await Caller(connection, at, "site0").call(lambda stub: stub.Next(asked, timeout=LIMIT_S))
        assert (reply.over, reply.number) == (True, 0)

    play(tmp_path, story)


def test_a_new_version_takes_the_place_of_one_that_still_enrols(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        old = await town.submit(study_of("one"))
        for index in range(3):
            town.decide(index, old)
        new = await town.submit(study_of("one", version=2))
        async with town.desk() as held:
            status = await held.status(old.digest)
        assert (status.state, status.reason) == ("superseded", "version 2 took its place")
        for index in range(town.count):
            town.decide(index, new)
        check_pooled(await town.result(new), range(5))
        with pytest.raises(RefusedError, match="version 2 is here already; write version 3"):
            await town.submit(study_of("one", 2, {"title: Loopback": "title: Other"}))

    play(tmp_path, story)


def test_only_who_signed_a_study_takes_it_back(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        home = town.home
        desk.ok("key", "new", home / "stat2.key")
        desk.ok(
            *("key", "request", home / "stat2.key", "--id", "stat2", "--role", "statistician"),
            *("--name", "S", "--organisation", "U", "--out", home / "stat2.yaml"),
        )
        desk.ok("coordinator", "admit", town.consortium, home / "stat2.yaml", "--role", "statistician")
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            await town.hears(index, study, "waits for a decision")
        key = read_key(home / "stat2.key")
        async with town.desk("stat2", "stat2.key") as held:
            with pytest.raises(RefusedError, match="signed by stat1; only stat1 takes it back"):
                await held.withdraw(withdraw(study.digest, "stat2", key))
        assert town.hub.running(study.digest).state == "enrolling"
        async with town.desk() as held:
            await held.withdraw(withdraw(study.digest, STATISTICIAN, read_key(home / "stat1.key")))
            await town.hub.ended(study.digest)
            assert (await held.status(study.digest)).state == "withdrawn"
            with pytest.raises(RefusedError, match="the study is withdrawn; there is no result"):
                await held.result(study.digest)
        for index in range(town.count):
            await town.hears(index, study, "over")

    play(tmp_path, story)


def test_a_site_that_is_admitted_while_the_coordinator_runs_joins_the_next_study(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        town.make_node(5, "site5")
        desk.admit(town.consortium, town.home / "site5")
        town.names.append("site5")
        for name in town.names:
            desk.pin(town.consortium, town.home / name)
        town.start_nodes((5,))
        study = await town.submit(study_of("one", roster=4))
        for index in range(6):
            town.decide(index, study)
        check_pooled(await town.result(study), range(6))

    play(tmp_path, story)


def test_a_revocation_counts_in_a_study_that_enrols(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(4):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        desk.ok("coordinator", "revoke", town.consortium, "site3", "--reason", "stolen")
        await town.hub.exclude_denied()
        town.decide(4, study)
        check_pooled(await town.result(study), (0, 1, 2, 4))

    play(tmp_path, story)


POLICY = """
profile: open_data
auto_approve:
  - statisticians: [stat1]
    statistics: [summary, histogram, regression]
    outcomes: [age, "thi*"]
    until: 2099-01-01
"""


def test_a_policy_approves_what_the_admin_described_and_nothing_else(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        for index in range(town.count):
            (town.folder(index) / "policy.yaml").write_text(POLICY)
        (town.folder(4) / "policy.yaml").write_text(POLICY.replace('"thi*"', '"vol*"'))
        town.start_nodes()
        study = await town.submit(study_of("one"))
        await town.hears(4, study, "waits for a decision")
        for index in range(4):
            await town.hears(index, study, "takes part")
            assert read_decisions(town.folder(index))[study.digest].by == "auto_approve 1"
        town.decide(4, study)
        check_pooled(await town.result(study), range(5))

    play(tmp_path, story)


def test_an_approval_carries_over_only_where_the_policy_says_and_only_for_wording(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        for index in (0, 1):
            path = town.folder(index) / "policy.yaml"
            path.write_text(path.read_text() + "\ncarry_over: true\n")
        town.start_nodes((0, 1, 2))
        first = await town.submit(study_of("one"))
        for index in (0, 2):
            town.decide(index, first)
            await town.hears(index, first, "takes part")
        worded = await town.submit(study_of("one", 2, {"title: Loopback": "title: Better words"}))
        await town.hears(0, worded, "takes part")
        await town.hears(1, worded, "waits for a decision")  # nothing was approved there
        await town.hears(2, worded, "waits for a decision")  # the policy does not say so there
        more = await town.submit(study_of("one", 3, {"variables: [age]": "variables: [age, thick]"}))
        for index in range(3):
            await town.hears(index, more, "waits for a decision")

    play(tmp_path, story)
