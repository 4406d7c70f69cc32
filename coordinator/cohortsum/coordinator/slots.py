"""Places that a site takes at the edge: one upload per round, few polls per study, and so much disk.

The plan tells how long an upload will be, so its room on disk is taken before its first byte is written: what is kept of the site, in
all open rounds, and what its open uploads may become stay below the quota together.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cohortsum.coordinator.spool import kept_bytes
from cohortsum.crypto.errors import LimitError

POLLS = 4
"""Polls of one site for one study: one, and those of lines that broke unnoticed."""
AGAIN_S = 1.0


class Slots:
    """Who has which places.

    Args:
        spool: where all studies spool.
        quota: bytes on disk per site.
    """

    def __init__(self, spool: Path, quota: int) -> None:
        self._spool, self._quota = spool, quota
        self._uploads: dict[tuple[int, bytes], int] = {}
        self._polls: Counter[tuple[int, bytes]] = Counter()

    @contextmanager
    def upload(self, site: int, context: bytes, size: int) -> Generator[None]:
        """Hold the place of an upload of ``size`` bytes; raises LimitError."""
        if (site, context) in self._uploads:
            raise LimitError(
                "an upload of this site for this round is open; one at a time",
                "one_upload_per_round",
                AGAIN_S,
            )
        coming = sum(held for (of, _), held in self._uploads.items() if of == site)
        if kept_bytes(self._spool, site) + coming + size > self._quota:
            raise LimitError(
                f"uploads of this site would take more than {self._quota} bytes on the coordinator's disk (`limits.spool_bytes` of "
                "its coordinator.yaml); wait until another round has ended",
                "spool_bytes",
                10 * AGAIN_S,
            )
        self._uploads[site, context] = size
        try:
            yield
        finally:
            del self._uploads[site, context]

    @contextmanager
    def poll(self, site: int, study: bytes) -> Generator[None]:
        """Hold the place of a poll; raises LimitError."""
        if self._polls[site, study] >= POLLS:
            raise LimitError(
                f"{POLLS} polls of this site for this study are open; run one node per key", "polls", AGAIN_S
            )
        self._polls[site, study] += 1
        try:
            yield
        finally:
            self._polls[site, study] -= 1
            if not self._polls[site, study]:
                del self._polls[site, study]
