"""The enrolment window over days, on a simulated clock: one sum over everybody who came in time, and a sentence for who did not."""

import asyncio
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from cohortsum.coordinator.presence import Presence
from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import AnswerRow, RoundRow, StudyRow
from cohortsum.node.session import StudySession
from cohortsum.protocol.approvals import decline
from cohortsum.protocol.codec import envelope_to_wire
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.study.planning import plan_study
from cohortsum.wire.v1 import round_pb2
from tests.edges.harness import STUDY, Loopback
from tests.edges.oracle import check_pooled, people_of
from tests.edges.simulated import SimulatedClock


class Absent(Presence):
    """Presence in which some sites are never there."""

    def __init__(self, absent: set[int]) -> None:
        super().__init__()
        self._absent = absent

    def is_present(self, site: int) -> bool:
        return site not in self._absent and super().is_present(site)


DAY = timedelta(days=1)
WEEK = STUDY + 'enrol: {until: "2026-12-08T00:00+00:00", start: at_deadline}\n'
EAGER = STUDY + 'enrol: {until: "2026-12-08T00:00+00:00", start: all_invited}\n'
SITES = 9


def counted(outcome: Outcome) -> int:
    assert outcome.document is not None, outcome.reason
    table = next(block.table() for block in outcome.document.tables if block.analysis == "ages")
    return sum(int(str(row[table.columns.index("n")])) for row in table.rows)


def test_who_approves_on_day_6_of_7_is_in_the_one_sum(tmp_path: Path) -> None:
    async def play() -> Outcome:
        clock = SimulatedClock()
        async with Loopback(tmp_path, SITES, WEEK, clock=clock) as town:
            ending = town.start(range(SITES - 1))
            await town.until(lambda: len(town.runner.enrolment.answers) == SITES - 1)
            await clock.move(6 * DAY)
            assert town.runner.state == "enrolling"
            town.join(SITES - 1)
            await town.until(lambda: len(town.runner.enrolment.answers) == SITES)
            assert town.runner.state == "enrolling"  # everybody is there, and the window is still open
            await clock.move(DAY)
            async with asyncio.timeout(30):
                outcome = await ending
            with town.store.transaction() as session:
                assert len(session.query(RoundRow).all()) == 1
            return outcome

    outcome = asyncio.run(play())
    assert counted(outcome) == people_of(range(SITES))
    assert outcome.document is not None
    check_pooled(outcome.document, range(SITES))


def test_who_approves_on_day_8_hears_the_rule_and_what_would_make_a_second_opening_possible(
    tmp_path: Path,
) -> None:
    async def play() -> tuple[Outcome, grpc.aio.AioRpcError]:
        clock = SimulatedClock()
        async with Loopback(tmp_path, SITES, WEEK, clock=clock) as town:
            ending = town.start(range(SITES - 1))
            await town.until(lambda: len(town.runner.enrolment.answers) == SITES - 1)
            await clock.move(7 * DAY)
            async with asyncio.timeout(30):
                outcome = await ending
            await clock.move(DAY)
            session = StudySession(town.sites[SITES - 1])
            late = session.consider(town.signed)
            session.close()
            assert late.envelope.kind is Kind.APPROVAL
            async with town.stub(SITES - 1) as stub:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stub.Submit(round_pb2.Packet(envelope=envelope_to_wire(late.envelope)), timeout=10)
            return outcome, refused.value

    outcome, refused = asyncio.run(play())
    assert counted(outcome) == people_of(range(SITES - 1))
    assert refused.code() is grpc.StatusCode.FAILED_PRECONDITION
    said = refused.details() or ""
    for part in ("closed at 2026-12-08", "opened once", "version 2", "if its people are the same"):
        assert part in said


def test_all_invited_does_not_wait_for_the_deadline(tmp_path: Path) -> None:
    async def play() -> Outcome:
        async with Loopback(tmp_path, 5, EAGER, clock=SimulatedClock()) as town:
            return await town.run()

    check = asyncio.run(play())
    assert check.document is not None
    check_pooled(check.document, range(5))


def test_the_newest_answer_counts_until_the_window_closes(tmp_path: Path) -> None:
    """Site 4 approves and takes it back; site 3 stays out first and approves later."""

    async def play() -> Outcome:
        clock = SimulatedClock()
        async with Loopback(tmp_path, 5, WEEK, clock=clock) as town:
            ending = town.start((0, 1, 2, 4))
            await town.until(lambda: len(town.runner.enrolment.answers) == 4)
            plan = plan_study(town.study, town.roster).round
            for index in (3, 4):
                no = Packet(decline(town.sites[index].signer, plan))
                async with town.stub(index) as stub:
                    await stub.Submit(round_pb2.Packet(envelope=envelope_to_wire(no.envelope)), timeout=10)
            assert town.runner.enrolment.answers == {0: True, 1: True, 2: True, 3: False, 4: False}
            town.join(3)
            await town.until(lambda: town.runner.enrolment.answers[3])
            await clock.move(7 * DAY)
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(4))


def test_a_restart_in_the_window_forgets_no_answer_and_does_not_open_it_again(tmp_path: Path) -> None:
    async def first() -> None:
        clock = SimulatedClock()
        async with Loopback(tmp_path, 5, WEEK, clock=clock) as town:
            ending = town.start((0, 1, 2))
            await town.until(lambda: len(town.runner.enrolment.answers) == 3)
            ending.cancel()

    async def second() -> Outcome:
        clock = SimulatedClock()
        async with Loopback(tmp_path, 5, WEEK, clock=clock) as town:
            ending = asyncio.create_task(town.runner.run())
            await asyncio.sleep(0.05)
            assert town.runner.enrolment.answers == dict.fromkeys((0, 1, 2), True)
            for index in range(5):
                town.join(index)
            await town.until(lambda: len(town.runner.enrolment.answers) == 5)
            await clock.move(8 * DAY)
            async with asyncio.timeout(30):
                outcome = await ending
            with town.store.transaction() as session:
                assert len(session.query(AnswerRow).all()) == 5
                assert session.query(StudyRow).one().state == "released"
            return outcome

    asyncio.run(first())
    outcome = asyncio.run(second())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(5))


def test_approving_sites_that_never_come_end_the_study_and_waste_no_attempt(tmp_path: Path) -> None:
    async def play() -> Outcome:
        clock = SimulatedClock()
        async with Loopback(tmp_path, 5, WEEK, clock=clock, gather_s=3600) as town:
            town.runner.enrolment.presence = Absent({2, 3})
            ending = town.start((0, 1))
            for index in (2, 3):
                session = StudySession(town.sites[index])
                yes = session.consider(town.signed)
                session.close()
                async with town.stub(index) as stub:
                    await stub.Submit(round_pb2.Packet(envelope=envelope_to_wire(yes.envelope)), timeout=10)

            await town.until(lambda: len(town.runner.enrolment.answers) == 4)
            await clock.move(7 * DAY)
            await town.until(lambda: town.runner.state == "gathering")
            blocks = town.hub.status(town.study.digest).blocks
            assert any("site2, site3" in sentence for sentence in blocks), blocks
            assert any("would end the study" in sentence for sentence in blocks), blocks
            await clock.move(timedelta(hours=1))
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome == Outcome(None, "2 sites are present, 3 are required")
