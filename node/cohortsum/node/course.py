"""Where this site stands in the rounds of one study, and what it holds for the next.

The plan of each round after the first is derived here, from sums that this site recomputed itself and wrote down; after a restart
it is derived again from these. Secrets dealt ahead are held in memory only: without them the next attempt deals anew.
"""

from collections.abc import Mapping

import structlog

from cohortsum.protocol.ahead import Ahead
from cohortsum.study.planning import Integers, StudyPlan

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class Course:
    """The rounds of one study at one site.

    Args:
        plan: of its first round.

    Attributes:
        plan: of the round that comes next, or of the last one.
        previous: survivors of the round before; None before the first.
        ahead: secrets dealt for rounds to come, or None.
        last: the sums of the last round, once they were seen; None while rounds may follow.
    """

    def __init__(self, plan: StudyPlan) -> None:
        self.plan = plan
        self.previous: tuple[int, ...] | None = None
        self.ahead: Ahead | None = None
        self.last: Mapping[str, Integers] | None = None

    def take(self, survivors: tuple[int, ...], sums: Mapping[str, Integers]) -> None:
        """Go on from sums that this site recomputed."""
        following = self.plan.advance(sums)
        self.previous = survivors
        if following is None:
            self.last = sums
            self.forget()
        else:
            self.plan = following

    def hold(self, secrets: Ahead) -> None:
        """Keep what was dealt ahead in the place of what is left of an earlier exchange."""
        self.forget()
        self.ahead = secrets

    def forget(self) -> None:
        """Wipe secrets dealt ahead."""
        if self.ahead is not None:
            self.ahead.wipe()
            self.ahead = None
