"""What a gate says: under which regime a release stands, and what every rule found.

A rule result names a rule, a table and what became of it, and never a value: results are printed for everybody who reads the
release. The strictest regime of the sites in a sum holds for all of it.
"""

import datetime
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from cohortsum.study.results import Table

Profile = Literal["dpuk", "open_data"]
PROFILES: tuple[Profile, ...] = ("dpuk", "open_data")


class Outcome(StrEnum):
    """What became of a rule."""

    PASSED = "passed"
    CHANGED = "changed"
    """The rule hid, rounded or recomputed something."""
    WITHHELD = "withheld"
    """The table is not released."""
    WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule found in one table.

    Attributes:
        rule: its id in the catalogue, or of the gate's own rules (`disclosure.own_rules`).
        table: the table's analysis.
        outcome: what became of it.
        what: a sentence, without any value of the data.
    """

    rule: str
    table: str
    outcome: Outcome
    what: str


@dataclass(frozen=True, slots=True)
class Waiver:
    """A site sets one rule of its profile aside, in public.

    Attributes:
        rule: the rule's id.
        value: what holds in its place.
        reason: why.
        by: who decided.
        until: the last day on which it holds.
        site: the site's id.
    """

    rule: str
    value: str
    reason: str
    by: str
    until: datetime.date
    site: str


@dataclass(frozen=True, slots=True)
class Regime:
    """Under which rules a release stands.

    Attributes:
        profile: ``dpuk`` as soon as one site of the sum holds to it.
        waivers: of all sites of the sum.
        held: ids of the sites that hold to ``dpuk``.
        count: the least count that some site lets anybody publish, where it asks for more than the profile; else 0.
    """

    profile: Profile
    waivers: tuple[Waiver, ...] = ()
    held: frozenset[str] = frozenset()
    count: int = 0

    def waived(self, rule: str) -> bool:
        """Whether every site that holds to ``dpuk`` waives a rule: the strictest site decides."""
        return bool(self.held) and self.held <= {one.site for one in self.waivers if one.rule == rule}


@dataclass(frozen=True, slots=True)
class Gated:
    """Tables as they may be shown, and what every rule found in them; tables in the order of the study."""

    tables: tuple[Table, ...]
    results: tuple[RuleResult, ...] = ()

    def of(self, table: str) -> tuple[RuleResult, ...]:
        """Return the results about one table."""
        return tuple(result for result in self.results if result.table == table)
