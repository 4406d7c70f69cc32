"""Who is there: a site is present while one of its polls is open, and shortly after its last call.

Known from calls alone; says nothing about what a site computes. Liveness only: nothing that opens depends on it.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from cohortsum.coordinator.store import now

LINGERS_S = 2.0
"""A node asks again at once after every answer; whoever is silent for longer has gone."""


class Presence:
    """The sites of one study, by roster index.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._polls: dict[int, int] = {}
        self._last: dict[int, float] = {}
        self._heard: dict[int, datetime] = {}

    def seen(self, site: int) -> None:
        """Note a call of a site."""
        self._last[site] = self._clock()
        self._heard[site] = now()

    @contextmanager
    def polling(self, site: int) -> Generator[None]:
        """Count a site as present while its poll is open."""
        self._polls[site] = self._polls.get(site, 0) + 1
        try:
            yield
        finally:
            self._polls[site] -= 1
            self.seen(site)

    def is_present(self, site: int) -> bool:
        """Whether a site is there now."""
        return bool(self._polls.get(site)) or self._clock() - self._last.get(site, -LINGERS_S) < LINGERS_S

    def last_heard(self, site: int) -> datetime | None:
        """Return when a site was last heard of (UTC), or None."""
        return now() if self._polls.get(site) else self._heard.get(site)
