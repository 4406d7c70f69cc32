"""A clock that moves when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta


class SimulatedClock:
    """Starts on 2026-12-01 and stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 12, 1, tzinfo=UTC)
        self._moved = asyncio.Condition()

    def now(self) -> datetime:
        return self._now

    async def reach(self, moment: datetime) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._now >= moment)

    async def move(self, by: timedelta) -> None:
        """Move on, and let everybody who waited for it act."""
        self._now += by
        async with self._moved:
            self._moved.notify_all()
        for _ in range(20):
            await asyncio.sleep(0)
