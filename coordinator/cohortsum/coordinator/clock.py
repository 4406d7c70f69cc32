"""Time for waits of days: a clock that a test may move by hand.

Steps inside a round last minutes and use the event loop's own timers; enrolment and gathering last days, outlive restarts,
and are therefore moments in UTC, never countdowns.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

LONGEST_SLEEP_S = 3600.0
"""A machine that slept, or whose clock was set, notices within this time."""


class Clock(Protocol):
    """What time it is, and waiting until a moment."""

    def now(self) -> datetime:
        """Return the time, UTC."""
        ...

    async def reach(self, moment: datetime) -> None:
        """Return once ``moment`` has come."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time, UTC."""
        return datetime.now(UTC)

    async def reach(self, moment: datetime) -> None:
        """Return once ``moment`` has come."""
        while (left_s := (moment - self.now()).total_seconds()) > 0:
            await asyncio.sleep(min(left_s, LONGEST_SLEEP_S))


async def before(
    clock: Clock, moment: datetime, changed: asyncio.Condition, ready: Callable[[], bool]
) -> bool:
    """Wait until ``ready`` holds or ``moment`` comes; return whether it holds. ``changed`` tells when to look again."""
    alarm = asyncio.create_task(_ring(clock, moment, changed))
    try:
        async with changed:
            await changed.wait_for(lambda: ready() or alarm.done() or clock.now() >= moment)
        return ready()
    finally:
        alarm.cancel()


async def tell(changed: asyncio.Condition) -> None:
    """Let everybody who waits for ``changed`` look again."""
    async with changed:
        changed.notify_all()


async def _ring(clock: Clock, moment: datetime, changed: asyncio.Condition) -> None:
    await clock.reach(moment)
    await tell(changed)
