"""The coordinator's database fails at every write of a study: once before the commit, and once after it with the answer lost.

Either costs time and nothing else: no site hears of what is not kept, nothing is done twice, and the study ends in the same attempt.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from cohortsum.coordinator import attempt, runner
from cohortsum.coordinator.attempt_rows import Event, EventKind
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import IterationRow, ResultRow, RoundRow
from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.messages import Packet
from tests.edges.harness import STUDY, Loopback, study_with
from tests.edges.oracle import check_pooled
from tests.protocol.lies import TO_COORDINATOR

SITES = 4
LIMIT_S = 30.0
WRITES = (
    "answer",
    "enter",
    "close_window",
    "attempts",
    "attempt_opened",
    "event",
    "survivors",
    "iteration_opened",
    "computed",
    "wrote",
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a store that refuses again at once."""
    for module in (attempt, runner):
        monkeypatch.setattr(module, "ASK_AGAIN_S", 0.05)


def failing(write: Callable[..., object], at: Callable[..., bool]) -> Callable[..., object]:
    """Return a write that fails the first two times that ``at`` is true: without its effect, then after it."""
    failures = ["before", "after"]

    def failed(*arguments: object, **named: object) -> object:
        when = failures.pop(0) if failures and at(*arguments) else ""
        if when == "before":
            raise StoreError("the database is away")
        result = write(*arguments, **named)
        if when == "after":
            raise StoreError("the database went away")
        return result

    return failed


def check(folder: Path, sites: int = SITES, study: str = STUDY, leaver: str = "") -> None:
    """Run a study and fail unless it ended well, in one attempt, with everything kept once."""

    async def play() -> Outcome:
        async with Loopback(folder, SITES, study) as town:
            if leaver:
                town.leave_after(leaver, "SHARES")
            async with asyncio.timeout(LIMIT_S):
                outcome = await town.run()
            with town.store.transaction() as session:
                assert [tuple(row) for row in session.execute(select(RoundRow.attempt, RoundRow.state))] == [
                    (1, "opened")
                ]
                assert len(session.scalars(select(IterationRow)).all()) == 1
                assert len(session.scalars(select(ResultRow)).all()) == 1
            return outcome

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(sites))


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str) -> None:
    calls: list[str] = []

    def noted(*_: object) -> bool:
        calls.append(write)
        return True

    monkeypatch.setattr(StudyRecord, write, failing(getattr(StudyRecord, write), noted))
    check(tmp_path)
    assert calls


@pytest.mark.parametrize("kind", TO_COORDINATOR, ids=lambda kind: kind.name)
def test_the_last_message_that_a_step_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    seen: list[str] = []

    def last(_record: StudyRecord, packet: Packet) -> bool:
        if packet.envelope.kind == kind:
            seen.append(packet.envelope.sender)
        return packet.envelope.kind == kind and len(seen) >= 3

    monkeypatch.setattr(StudyRecord, "message", failing(StudyRecord.message, last))
    check(tmp_path)
    assert len(seen) == 4


def test_what_a_deadline_brings_is_taken_once_the_store_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[bytes] = []

    def at(_record: StudyRecord, _context: bytes, event: Event) -> bool:
        if event.kind is EventKind.LATE:
            late.append(event.content)
        return event.kind is EventKind.LATE

    monkeypatch.setattr(StudyRecord, "event", failing(StudyRecord.event, at))
    check(tmp_path, 3, study_with(step="2s"), "site3")
    assert len(late) == 2
