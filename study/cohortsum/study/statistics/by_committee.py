"""What a committee opens for an analysis, as the analysis itself says it.

The analyses that a committee answers are made of tables of counts: the cells of a crosstab, the bins of a histogram, the people of the
groups of which quantiles are sought. A count is named by its block and its place there, as the statistic contributes it. What was opened
comes back in the same form; a count that stayed closed is None, whether it is small or keeps a small one hidden.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cohortsum.study.results import HIDDEN, Absent, Cell, Status

Place = tuple[str, int]
"""A count: the name of its block, and its place in the block."""
Found = Mapping[str, tuple[int | None, ...]]
"""The opened counts by table, in the order of its places; None for one that stayed closed."""
NOT_OPENED = Absent("not opened")
"""In the place of what a committee is not asked for."""


@dataclass(frozen=True, slots=True)
class CountTable:
    """Counts of disjoint people that are opened together.

    Attributes:
        name: unique in the study.
        places: where its counts are found.
    """

    name: str
    places: tuple[Place, ...]


def closed_note(least: int) -> str:
    """Return what a reader of a table with closed counts must know."""
    return f"Counts below {least} stayed closed at the committee: nobody has seen them, the coordinator included."


def shown(count: int | None) -> Cell:
    """Return a count as tables have it."""
    return HIDDEN if count is None else count


def opened_status(count: int | None) -> Status:
    """Return the status of a row whose count a committee opened, or not."""
    return Status.HIDDEN if count is None else Status.OK
