"""Named points at which a test may kill this process, to see that what it has done by then suffices.

``COHORTSUM_FAILPOINT=site.r2.recorded`` sends SIGKILL to the process itself when it reaches that point: nothing is flushed, no
handler runs, as when a machine loses power. ``hub.r0.noted:3`` does so the third time. Without the variable every point is a dictionary
look-up.

Points are named after the step of the round. At a site: ``before`` its record is written, ``recorded`` when it is and nothing
has left, ``sent`` when the coordinator has answered. At the coordinator: ``before`` a message is written down, ``noted`` when it is and
its sender has no answer yet. At the trustee: ``before`` a decryption is in its ledger, ``recorded`` when it is and nobody has heard of it.
"""

import os
import signal
from collections import Counter

VARIABLE = "COHORTSUM_FAILPOINT"
SITE_STEPS = ("r0", "r1", "r2", "r3", "r4a", "r4b")
HUB_STEPS = (*SITE_STEPS, "named", "r5", "published")
POINTS = (
    *(f"site.{step}.{when}" for step in SITE_STEPS for when in ("before", "recorded", "sent")),
    "site.r5.before",
    "site.r5.recorded",
    *(f"hub.{step}.{when}" for step in HUB_STEPS for when in ("before", "noted")),
    "trustee.unlock.before",
    "trustee.unlock.recorded",
)

_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Die here if a test asked for it."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    name, _, times = wanted.partition(":")
    if name == point:
        _reached[point] += 1
        if _reached[point] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
