"""A coordinator that lost its lease, at every step: whatever it would have written is refused, and no site hears a word more of it.

Another process has taken the next token (`cohortsum.coordinator.lease`); this one does not know yet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from cohortsum.coordinator.lease import Lease
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.store import (
    LEASE,
    EventRow,
    IterationRow,
    LeaseRow,
    MessageRow,
    RoundRow,
    Store,
    now,
    sqlite_url,
)
from cohortsum.crypto.errors import FencedError
from tests.edges.harness import STUDY, Loopback, study_with
from tests.protocol.lies import TO_COORDINATOR

SITES = 4
LAST = f"site{SITES - 1}"
Picture = tuple[object, ...]


def take_over(folder: Path) -> None:
    """Let another process take the lease, as it may once that has ended."""
    with closing(Store(sqlite_url(folder / "coordinator.db"))) as store:
        with store.transaction() as session:
            session.get_one(LeaseRow, LEASE).until = now() - timedelta(seconds=1)
        assert Lease(store, "second", 600).take() == 2


def picture(folder: Path) -> Picture:
    """Return how much is kept, and in which state."""
    with closing(Store(sqlite_url(folder / "coordinator.db"))) as store, store.transaction() as session:
        counts = [
            session.scalar(select(func.count()).select_from(row))
            for row in (MessageRow, EventRow, IterationRow)
        ]
        states = session.execute(select(RoundRow.attempt, RoundRow.state, RoundRow.survivors)).all()
        return (*counts, *map(tuple, states))


def said(town: Loopback) -> set[str]:
    """Return the packets that sites were handed."""
    return {data.hex() for sent in town.wire.sent.values() for what, data in sent if what == "Next" and data}


def fenced(
    folder: Path,
    study: str,
    reach: Callable[[Loopback], Awaitable[None]],
    logs: list[dict[str, object]],
    felt: str = "call.refused",
) -> None:
    """Fail unless nothing is written and said any more after ``reach`` has let the lease be taken, until ``felt`` is in the log."""

    async def play() -> None:
        async with Loopback(folder, SITES, study) as town, asyncio.timeout(60):
            town.store.token = Lease(town.store, "first", 600).take()
            ending = town.start()
            try:
                await reach(town)
                before, heard = picture(folder), said(town)
                while not any(refused(line, felt) for line in logs):
                    assert not ending.done()
                    await asyncio.sleep(0.05)
                assert picture(folder) == before
                assert said(town) <= heard
                assert not town.runner.over
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

    asyncio.run(play())


def refused(line: dict[str, object], felt: str) -> bool:
    return line["event"] == felt and line.get("error", FencedError.__name__) == FencedError.__name__


@pytest.mark.parametrize("kind", TO_COORDINATOR, ids=lambda kind: kind.name)
def test_the_last_message_of_a_step_is_refused(tmp_path: Path, kind: int) -> None:
    name = next(one.name for one in TO_COORDINATOR if one == kind)

    async def reach(town: Loopback) -> None:
        holds = [town.hold(f"site{index}", name) for index in range(SITES)]
        await asyncio.gather(*(held.reached.wait() for held in holds))
        take_over(tmp_path)
        for held in holds:
            held.released.set()

    with capture_logs() as logs:
        fenced(tmp_path, STUDY, reach, logs)  # type: ignore[arg-type]


def test_an_opened_sum_is_neither_kept_nor_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, reached = StudyRecord.iteration_opened, asyncio.Event()

    def taken_over(self: StudyRecord, *arguments: object) -> None:
        take_over(tmp_path)
        reached.set()
        opened(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StudyRecord, "iteration_opened", taken_over)

    async def reach(_town: Loopback) -> None:
        await reached.wait()

    with capture_logs() as logs:
        fenced(tmp_path, STUDY, reach, logs, "round.fenced")  # type: ignore[arg-type]


def test_a_deadline_ends_nothing(tmp_path: Path) -> None:
    """Too few are left, and an abort would end the attempt that the other process goes on with."""

    async def reach(town: Loopback) -> None:
        holds = [town.hold(f"site{index}", "SHARES") for index in range(SITES)]
        await asyncio.gather(*(held.reached.wait() for held in holds))
        take_over(tmp_path)

    with capture_logs() as logs:
        fenced(tmp_path, study_with(step="3s"), reach, logs, "round.fenced")  # type: ignore[arg-type]


def test_an_attempt_is_not_opened_and_nobody_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = StudyRecord.attempt_opened

    def taken_over(self: StudyRecord, *arguments: object) -> None:
        take_over(tmp_path)
        opened(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StudyRecord, "attempt_opened", taken_over)

    async def play() -> None:
        async with Loopback(tmp_path, SITES) as town, asyncio.timeout(60):
            town.store.token = Lease(town.store, "first", 600).take()
            with pytest.raises(FencedError):
                await town.start()
            assert not town.runner.over
            assert picture(tmp_path) == (0, 0, 0)

    asyncio.run(play())
