"""``kind: logrank``: do groups differ in their survival?"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Name
from cohortsum.study.definition.kinds.followed import FollowedSection, FollowedSpec
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import OBSERVED_COLUMNS


@dataclass(frozen=True, slots=True)
class LogrankSpec(FollowedSpec):
    """The log-rank test between groups."""

    kind: ClassVar[str] = "logrank"


class LogrankEntry(FollowedSection):
    """The log-rank test between groups, from counts on a grid of times."""

    kind: Literal["logrank"]
    by: Annotated[tuple[Name, ...], Field(min_length=1)]

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, LogrankSpec]:
        """Return the entry with times and event written out, and the spec."""
        entry = self.written(name, self.by, reading, frozenset(OBSERVED_COLUMNS))
        return entry, LogrankSpec(
            name, entry.time, entry.status, entry.event or "", entry.public_times(), entry.by, where
        )
