"""From answers to attempts: who is denied while a study is under way, and a store that refuses."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.runner import Outcome, Pace, StudyRunner
from cohortsum.coordinator.store import RoundRow
from cohortsum.crypto.errors import ConfigurationError, RemoteProtocolError
from cohortsum.node.session import StudySession
from cohortsum.protocol.denylist import Denied, DenyList, without_denied
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Roster
from cohortsum.study.planning import plan_study
from tests.edges.harness import HUB, Loopback, study_with
from tests.edges.oracle import check_pooled
from tests.protocol.consortium import identity_key

STEP = study_with(step="2s")


def denying(roster: Roster, *names: str) -> Roster:
    """Return the roster without the sites whose keys the operator has revoked."""
    now = datetime.now(UTC)
    entries = tuple(Denied(name, roster.identities[name].key, now, "stolen") for name in names)
    return without_denied(roster, DenyList(roster.consortium, 1, entries))


def survivors(town: Loopback) -> list[tuple[str, str]]:
    with town.store.transaction() as session:
        rows = session.scalars(select(RoundRow).order_by(RoundRow.attempt)).all()
        return [(row.state, row.survivors) for row in rows]


def test_a_site_that_is_denied_after_its_vector_is_in_still_counts_and_is_named(tmp_path: Path) -> None:
    """Its words are in the sum that the others have masked; it is a dropout of every later step."""

    async def play() -> Outcome:
        async with Loopback(tmp_path, 5, STEP) as town:
            held = town.hold("site0", "MASKED")
            ending = town.start()
            await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == 4)
            await town.runner.exclude(denying(town.roster, "site1"))
            assert 1 not in town.runner.enrolment.names
            held.released.set()
            async with asyncio.timeout(30):
                outcome = await ending
            assert survivors(town) == [("opened", "site0,site1,site2,site3,site4")]
            return outcome

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(5))


def test_a_site_that_is_denied_before_its_vector_is_in_is_a_dropout(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with Loopback(tmp_path, 5, STEP) as town:
            held = town.hold("site1", "MASKED")
            ending = town.start()
            await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == 4)
            await town.runner.exclude(denying(town.roster, "site1"))
            town.tasks["site1"].cancel()  # its calls are refused from now on
            held.released.set()
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    assert outcome.document.sites.dropouts == ("site1",)
    check_pooled(outcome.document, (0, 2, 3, 4))


def test_a_site_that_is_denied_before_the_round_is_in_no_opening(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with Loopback(tmp_path, 5, STEP) as town:
            last = town.hold("site4", "APPROVAL")
            ending = town.start()
            await town.until(lambda: last.reached.is_set() and len(town.runner.enrolment.answers) == 4)
            await town.runner.exclude(denying(town.roster, "site1"))
            assert set(town.runner.enrolment.answers) == {0, 2, 3}
            last.released.set()
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    assert outcome.document.sites.took_part == ("site0", "site2", "site3", "site4")
    check_pooled(outcome.document, (0, 2, 3, 4))


def test_a_survivor_that_is_denied_between_attempts_ends_the_study_with_its_name(tmp_path: Path) -> None:
    """Seven survivors are named and three leave; one of them is denied before the retry could gather."""

    async def play() -> Outcome:
        async with Loopback(tmp_path, 7, STEP) as town:
            for index in (1, 2, 3):
                town.leave_after(f"site{index}", "GATE_SHARES")
            ending = town.start()
            await town.until(lambda: all(town.times("GATE_SHARES", f"site{index}") for index in (1, 2, 3)))
            await asyncio.gather(*(town.tasks[f"site{index}"] for index in (1, 2, 3)), return_exceptions=True)
            await town.runner.exclude(denying(town.roster, "site2"))
            for index in (1, 3):
                town.join(index)
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome == Outcome(None, "a retry needs every survivor, and absent is site2")


def test_a_survivor_that_is_denied_before_a_restart_ends_the_study_with_its_name(tmp_path: Path) -> None:
    async def first() -> None:
        async with Loopback(tmp_path, 7, STEP, gather_s=3) as town:
            for index in (1, 2, 3):
                town.leave_after(f"site{index}", "GATE_SHARES")
            assert (await town.run()).document is None
            assert {named for _, named in survivors(town)} == {",".join(f"site{index}" for index in range(7))}

    async def second() -> Outcome:
        async with Loopback(tmp_path, 7, STEP) as town:
            runner = StudyRunner(
                plan_study(town.study, town.roster),
                town.signed,
                denying(town.roster, "site5"),
                Signer(town.roster.coordinator, identity_key(HUB)),
                town.store,
                tmp_path / "spool",
                tmp_path / "results",
                town.pool,
            )
            async with asyncio.timeout(10):
                outcome = await runner.run()
            assert runner.state == "ended"
            return outcome

    asyncio.run(first())
    assert asyncio.run(second()) == Outcome(None, "a retry needs every survivor, and absent is site5")


@asynccontextmanager
async def failing(town: Loopback, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """Let the study run into a fault that no waiting cures once enrolment is over."""

    def refuse(_record: StudyRecord, _moment: datetime) -> None:
        raise ConfigurationError("a setting does not hold")

    monkeypatch.setattr(StudyRecord, "close_window", refuse)
    ending = asyncio.create_task(town.runner.run())
    await asyncio.sleep(0)
    yield
    with pytest.raises(ConfigurationError, match="does not hold"):
        await ending


def test_a_study_that_fails_sends_everybody_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 3) as town, asyncio.timeout(20):
            town.runner = type(town.runner)(
                plan_study(town.study, town.roster),
                town.signed,
                town.roster,
                Signer(town.roster.coordinator, identity_key(HUB)),
                town.store,
                tmp_path / "spool",
                tmp_path / "results",
                town.pool,
                Pace(enrol_s=0.5),
            )
            async with failing(town, monkeypatch):
                waiting = asyncio.create_task(town.runner.next_packet(0, 0, 60))
                await asyncio.sleep(0)
                assert not town.runner.over
            assert town.runner.over
            assert await waiting == (0, None)
            session = StudySession(town.sites[0])
            late = session.consider(town.signed)
            session.close()
            with pytest.raises(RemoteProtocolError, match=r"^A1"):
                await town.runner.submit(late)

    asyncio.run(play())
