"""What a hub takes in and takes back, and what it refuses with a sentence for the statistician."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest

from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.crypto.errors import AuthenticationError, RefusedError
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.study.definition.withdrawal import Withdrawal, withdraw
from tests.edges.harness import HUB, STATISTICIAN, STUDY, pinned_roster, signed_study
from tests.edges.simulated import SimulatedClock
from tests.protocol.consortium import identity_key

UNTIL = STUDY + 'enrol: {until: "2026-12-08T00:00+00:00", start: at_deadline}\n'
WEEK = timedelta(days=7)
SECOND = timedelta(seconds=1)
Story = Callable[[Hub, SimulatedClock], Awaitable[None]]


@asynccontextmanager
async def hub_in(folder: Path, clock: SimulatedClock) -> AsyncGenerator[Hub]:
    roster = pinned_roster(5)
    roll = Roll({roster.version: roster}, nobody_denied(roster.consortium))
    with closing(Store(sqlite_url(folder / "hub.db"))) as store, ThreadPoolExecutor(1) as pool:
        place = Place(store, folder / "spool", folder / "results", pool)
        hub = Hub(lambda: roll, identity_key(HUB), place, clock)
        try:
            yield hub
        finally:
            await hub.close()


def play(folder: Path, story: Story) -> None:
    async def told() -> None:
        clock = SimulatedClock()
        async with asyncio.timeout(20), hub_in(folder, clock) as hub:
            await story(hub, clock)

    asyncio.run(told())


def taken_back(digest: bytes) -> Withdrawal:
    return withdraw(digest, STATISTICIAN, identity_key(STATISTICIAN))


def test_a_window_that_closed_before_the_study_was_handed_in_is_refused(tmp_path: Path) -> None:
    async def story(hub: Hub, clock: SimulatedClock) -> None:
        await clock.move(WEEK + SECOND)
        with pytest.raises(RefusedError, match=r"enrol\.until 2026-12-08T00:00\+00:00 lies in the past"):
            await hub.submit(signed_study(UNTIL)[1])
        assert hub.entries() == ()
        assert hub.runners == ()

    play(tmp_path, story)


def test_until_the_very_moment_a_study_is_taken_and_the_same_bytes_again_change_nothing(
    tmp_path: Path,
) -> None:
    async def story(hub: Hub, clock: SimulatedClock) -> None:
        study, signed = signed_study(UNTIL)
        await clock.move(WEEK - SECOND)
        assert await hub.submit(signed) == study.digest
        await clock.move(WEEK)
        assert (await hub.ended(study.digest)).reason == "0 sites take part, 3 are required"
        assert await hub.submit(signed) == study.digest  # in the past by now, and known
        assert [entry.state for entry in hub.entries()] == ["ended"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("study", "sentence"),
    [
        (STUDY + "enrol: {start: manual}\n", r"enrol\.start manual: not in this version; write start: "),
        (
            STUDY.replace("epoch: 2026-11", "epoch: 2026-11, near_duplicate: reuse"),
            r"cohort\.near_duplicate reuse: not in this version",
        ),
        (STUDY.replace("2099-12-31", "2026-11-30"), "expired on 2026-11-30; sign a new version"),
        (STUDY.replace("roster: 1", "roster: 2"), "roster version 2, which the study names, is not at this"),
    ],
    ids=["manual start", "near duplicates", "expired", "another roster"],
)
def test_what_cannot_run_is_refused_by_name(tmp_path: Path, study: str, sentence: str) -> None:
    async def story(hub: Hub, _clock: SimulatedClock) -> None:
        with pytest.raises(RefusedError, match=sentence):
            await hub.submit(signed_study(study)[1])
        assert hub.entries() == ()

    play(tmp_path, story)


def test_a_study_that_nobody_of_the_roster_signed_is_refused(tmp_path: Path) -> None:
    async def story(hub: Hub, _clock: SimulatedClock) -> None:
        signed = signed_study()[1]
        with pytest.raises(AuthenticationError):
            await hub.submit(type(signed)(signed.canonical, "site0", signed.signature))
        with pytest.raises(AuthenticationError):
            await hub.submit(type(signed)(signed.canonical, signed.statistician, bytes(64)))
        assert hub.entries() == ()

    play(tmp_path, story)


def test_a_study_that_was_taken_back_is_not_taken_back_again(tmp_path: Path) -> None:
    async def story(hub: Hub, _clock: SimulatedClock) -> None:
        digest = await hub.submit(signed_study(UNTIL)[1])
        await hub.withdraw(taken_back(digest))
        assert (await hub.ended(digest)).reason == "the statistician withdrew the study"
        with pytest.raises(RefusedError, match="version 1 is withdrawn; nothing is left to withdraw"):
            await hub.withdraw(taken_back(digest))
        assert hub.status(digest).state == "withdrawn"

    play(tmp_path, story)


def test_a_study_that_ended_is_not_taken_back(tmp_path: Path) -> None:
    async def story(hub: Hub, clock: SimulatedClock) -> None:
        digest = await hub.submit(signed_study(UNTIL)[1])
        await clock.move(WEEK)
        await hub.ended(digest)
        with pytest.raises(RefusedError, match="version 1 is ended; nothing is left to withdraw"):
            await hub.withdraw(taken_back(digest))
        status = hub.status(digest)
        assert (status.state, status.reason) == ("ended", "0 sites take part, 3 are required")

    play(tmp_path, story)


def test_a_study_that_is_not_here_or_was_not_signed_away_is_not_taken_back(tmp_path: Path) -> None:
    async def story(hub: Hub, _clock: SimulatedClock) -> None:
        with pytest.raises(RefusedError, match="no such study at this coordinator"):
            await hub.withdraw(taken_back(bytes(32)))
        digest = await hub.submit(signed_study(UNTIL)[1])
        with pytest.raises(AuthenticationError):
            await hub.withdraw(Withdrawal(digest, STATISTICIAN, bytes(64)))
        assert hub.status(digest).state == "enrolling"

    play(tmp_path, story)
