"""The study as every other room sees it: complete, immutable, one meaning, one digest.

Mappings iterate in sorted order and lists in the order of the file, so that every party that holds the same canonical
bytes lays the same blocks in the same order.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cohortsum.crypto.fingerprint import short_form
from cohortsum.study.definition.expressions import Condition, Expression
from cohortsum.study.definition.kinds import AnalysisSpec
from cohortsum.study.definition.models import Privacy, Protection, Release
from cohortsum.study.variables import Factor, Number, Variable


@dataclass(frozen=True, slots=True)
class EnrolSpec:
    """Until when sites may join (UTC), and what starts the round."""

    until: datetime.datetime | None
    start: Literal["all_invited", "at_deadline", "manual"]


@dataclass(frozen=True, slots=True)
class DeadlineSpec:
    """Waits in seconds: gathering, a step, a step at most, a protected site's return; and the grid of answers."""

    gather: float
    step: float
    step_max: float
    rejoin: float
    tick: float


@dataclass(frozen=True, slots=True)
class FrozenStudy:
    """A study with every glob expanded, every default written out and every cross-reference checked.

    Attributes:
        study: id of the study.
        title: one line.
        version: version of the study; monotone.
        roster: roster version the study was written for.
        expires: last day on which anything of it may run.
        person: column that identifies a person.
        variables: declared and derived variables by name; derived ones are numbers in the unit ``derived``.
        families: catalogue family of each variable that came from the catalogue.
        derived: expressions of the derived variables, over declared and derived numbers; free of cycles.
        include: who is in the cohort, judged on raw declared values; None takes everyone.
        epoch: label of the snapshot.
        near_duplicate: what a site does whose people differ by a few from an earlier set.
        analyses: by name.
        protection: the thresholds, as written.
        privacy: noise and budget, as written.
        release: checkers and rounding, as written.
        enrol: the enrolment window.
        deadlines_s: all waits, in seconds.
        canonical: the canonical bytes, UTF-8 JSON.
        digest: 32 bytes, SHA-256 over a domain label and ``canonical``.
        numbers: the numeric variables, derived ones included.
        factors: the variables with levels.
    """

    study: str
    title: str
    version: int
    roster: int
    expires: datetime.date
    person: str
    variables: Mapping[str, Variable]
    families: Mapping[str, str]
    derived: Mapping[str, Expression]
    include: Condition | None
    epoch: str
    near_duplicate: Literal["stay_out", "reuse"]
    analyses: Mapping[str, AnalysisSpec]
    protection: Protection
    privacy: Privacy
    release: Release
    enrol: EnrolSpec
    deadlines_s: DeadlineSpec
    canonical: bytes = field(repr=False)
    digest: bytes = field(repr=False)
    numbers: Mapping[str, Number] = field(init=False, repr=False, compare=False)
    factors: Mapping[str, Factor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the variables by what they are, once: whoever looks at every one of thousands asks for these each time."""
        entries = self.variables.items()
        numbers = {name: entry for name, entry in entries if isinstance(entry, Number)}
        factors = {name: entry for name, entry in entries if isinstance(entry, Factor)}
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "factors", factors)

    @property
    def fingerprint(self) -> str:
        """Return the digest's first 75 bits for reading aloud, as in ``7KQ-M2X-0TA-9FD-W3C``.

        Crockford's base 32 (no I, L, O, U). For people comparing by voice; programs compare `digest`.
        """
        return short_form(self.digest)
