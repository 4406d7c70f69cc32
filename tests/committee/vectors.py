"""Four counts over five sites, with what may be seen of them at k = 10."""

from collections.abc import Sequence

from cohortsum.protocol.committee import CommitteePlan, OpenCounts

COUNTS = ((7, 3, 0, 10), (0, 3, 0, 10), (0, 6, 0, 20), (0, 0, 0, 0), (0, 0, 0, 0))
SHOWN = ((-1, 12, -1, 40),)
MEMBERS = (0, 2, 4)


def counts(index: int, _: CommitteePlan) -> Sequence[int]:
    return COUNTS[index]


def counting(members: Sequence[int] = MEMBERS, dealers: Sequence[int] = range(5)) -> CommitteePlan:
    return CommitteePlan(tuple(members), tuple(dealers), 1, (OpenCounts("x", 4, 10, 40),))
