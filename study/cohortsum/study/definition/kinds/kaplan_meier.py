"""``kind: kaplan_meier``: survival curves on a public grid of times."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Name
from cohortsum.study.definition.kinds.followed import FollowedSection, FollowedSpec
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import MEDIAN_COLUMNS, SURVIVAL_COLUMNS


@dataclass(frozen=True, slots=True)
class KaplanMeierSpec(FollowedSpec):
    """Survival curves; ``censored`` says how much of an interval those last seen in it count at risk: ``half`` or ``end``."""

    kind: ClassVar[str] = "kaplan_meier"
    afterwards: ClassVar[frozenset[str]] = frozenset({"censored"})

    censored: Literal["half", "end"]


class KaplanMeierEntry(FollowedSection):
    """Survival by groups, at the times of a grid."""

    kind: Literal["kaplan_meier"]
    by: tuple[Name, ...] = ()
    censored: Literal["half", "end"] = "half"

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, KaplanMeierSpec]:
        """Return the entry with times and event written out, and the spec."""
        entry = self.written(name, self.by, reading, {*SURVIVAL_COLUMNS, *MEDIAN_COLUMNS})
        return entry, KaplanMeierSpec(
            name,
            entry.time,
            entry.status,
            entry.event or "",
            entry.public_times(),
            entry.by,
            where,
            entry.censored,
        )
