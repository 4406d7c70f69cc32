"""Named points at which a test may kill this process, to see that what it has done by then suffices.

``COHORTSUM_FAILPOINT=r2.masked`` sends SIGKILL to the process itself when it reaches that point: nothing is flushed, no
handler runs, as when a machine loses power. Without the variable every point is a dictionary look-up.
"""

import os
import signal

VARIABLE = "COHORTSUM_FAILPOINT"
POINTS = ("r1.shared", "r2.masked", "r2.sent", "r3.signed")


def reach(point: str) -> None:
    """Die here if a test asked for it."""
    if os.environ.get(VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)
