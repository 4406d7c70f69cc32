"""Waiting for people and for moments at once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from cohortsum.coordinator.clock import LONGEST_SLEEP_S, SystemClock, before, tell
from tests.edges.simulated import SimulatedClock

HOUR = timedelta(hours=1)
Story = Callable[[SimulatedClock, asyncio.Condition, list[str]], Awaitable[None]]


def wait(story: Story, after: timedelta = HOUR) -> bool:
    """Return what `before` says when ``ready`` holds once the list is not empty, while the story goes on."""

    async def play() -> bool:
        clock, changed, happened = SimulatedClock(), asyncio.Condition(), list[str]()
        waiting = asyncio.create_task(before(clock, clock.now() + after, changed, lambda: bool(happened)))
        await asyncio.sleep(0)
        await story(clock, changed, happened)
        async with asyncio.timeout(5):
            held = await waiting
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}  # the alarm is gone
        return held

    return asyncio.run(play())


async def nothing(_clock: SimulatedClock, _changed: asyncio.Condition, _happened: list[str]) -> None:
    return


async def an_hour_passes(clock: SimulatedClock, _changed: asyncio.Condition, _happened: list[str]) -> None:
    await clock.move(HOUR)


async def it_happens(_clock: SimulatedClock, changed: asyncio.Condition, happened: list[str]) -> None:
    await tell(changed)
    happened.append("it")
    await tell(changed)


async def it_happens_unheard_and_an_hour_passes(
    clock: SimulatedClock, _changed: asyncio.Condition, happened: list[str]
) -> None:
    happened.append("it")
    await clock.move(HOUR)


def test_what_is_waited_for_ends_the_wait() -> None:
    assert wait(it_happens)


def test_the_moment_ends_the_wait() -> None:
    assert not wait(an_hour_passes)


def test_what_holds_by_the_moment_counts() -> None:
    assert wait(it_happens_unheard_and_an_hour_passes)


def test_a_moment_in_the_past_is_not_waited_for() -> None:
    assert not wait(nothing, -HOUR)


def test_a_change_that_is_not_the_one_and_half_the_time_end_nothing() -> None:
    async def play() -> None:
        clock, changed = SimulatedClock(), asyncio.Condition()
        waiting = asyncio.create_task(before(clock, clock.now() + HOUR, changed, lambda: False))
        await clock.move(HOUR / 2)
        await tell(changed)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(play())


def test_the_machine_s_clock_looks_again_at_least_every_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept would else oversleep a moment that is days away."""
    slept: list[float] = []
    moved = timedelta(0)

    class Sleepy(SystemClock):
        def now(self) -> datetime:
            return super().now() + moved

    async def sleep(seconds: float) -> None:
        nonlocal moved
        slept.append(seconds)
        moved += timedelta(seconds=seconds)

    async def play() -> None:
        clock = Sleepy()
        await clock.reach(clock.now() + timedelta(hours=2, minutes=30))

    monkeypatch.setattr("cohortsum.coordinator.clock.asyncio.sleep", sleep)
    asyncio.run(play())
    assert slept[:2] == [LONGEST_SLEEP_S] * 2
    assert 1790 < slept[2] < 1801
