"""The study file as it is written: one pydantic model per section, unknown keys refused.

These types say what a file may hold; `freezing` says what it means. Only defaults and single fields are checked here;
whatever needs two sections is checked when the study is frozen. The analyses are in `kinds`.
"""

import datetime
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, AwareDatetime, Discriminator, Field, Tag, model_validator

from cohortsum.study.definition.fields import (
    Count,
    Duration,
    Finite,
    Formula,
    Name,
    Range,
    Section,
    Slug,
    Text,
    utc,
)
from cohortsum.study.definition.kinds import KINDS, AnalysisEntry
from cohortsum.study.variables import OutOfRange

MOST_DELTA = 1e-5
"""The probability-like mass for which a claim may fail: far below one over the people of any cohort."""


class FactorEntry(Section):
    """A variable with named levels; the first is the reference."""

    levels: Annotated[tuple[Text, ...], Field(min_length=2, max_length=1000)]

    @model_validator(mode="after")
    def _levels_differ(self) -> Self:
        if len(set(self.levels)) < len(self.levels):
            raise ValueError("a level is listed twice; list each once")
        return self


class NumberEntry(Section):
    """A numeric variable with its unit and public range."""

    unit: Text
    range: Range
    out_of_range: OutOfRange = "clamp"


class CatalogueEntry(Section):
    """One variable, or with ``*`` in its name several, of a catalogue family; ``range`` replaces the clamp."""

    catalogue: Text
    unit: Text | None = None
    range: Range | None = None
    out_of_range: OutOfRange = "clamp"


def _variable_tag(value: object) -> str:
    if isinstance(value, FactorEntry | CatalogueEntry):
        return "<factor>" if isinstance(value, FactorEntry) else "<catalogue>"
    keys: Collection[object] = cast("Collection[object]", value) if isinstance(value, Mapping) else ()
    return "<factor>" if "levels" in keys else "<catalogue>" if "catalogue" in keys else "<number>"


VariableEntry = Annotated[
    Annotated[FactorEntry, Tag("<factor>")]
    | Annotated[NumberEntry, Tag("<number>")]
    | Annotated[CatalogueEntry, Tag("<catalogue>")],
    Discriminator(_variable_tag),
]


class CohortEntry(Section):
    """Who is in: the condition on raw values, the epoch label, and what a site with a near-duplicate set does."""

    include: Formula | None = None
    epoch: Text
    near_duplicate: Literal["stay_out", "reuse"] = "stay_out"


class Protection(Section):
    """What must hold before anything is opened."""

    mode: Literal["masking", "two_key", "committee"] = "masking"
    min_sites: Count = 5
    min_participants: Count
    max_participants: Count
    min_participants_per_site: Count = 20
    max_colluding_sites: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    min_honest_inputs: Annotated[int, Field(ge=3, le=2**31 - 1)] = 3
    max_attempts: Count = 2
    committee: tuple[Text, ...] | None = None
    min_cell: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.max_participants < self.min_participants:
            raise ValueError("expected max_participants to be at least min_participants")
        if (self.mode == "committee") != (self.committee is not None):
            raise ValueError("committee: [...] belongs to mode: committee and is needed there")
        if self.committee is not None and (
            len(self.committee) not in (3, 5, 7) or len(set(self.committee)) < len(self.committee)
        ):
            raise ValueError("expected a committee of 3, 5 or 7 different sites")
        if self.min_cell is not None and self.committee is None:
            raise ValueError("min_cell belongs to mode: committee; remove it")
        if self.committee is not None and self.max_colluding_sites > (len(self.committee) - 1) // 2:
            raise ValueError(
                f"a committee of {len(self.committee)} is opened by {(len(self.committee) + 1) // 2} of its members; name "
                f"{2 * self.max_colluding_sites + 1} sites for max_colluding_sites: {self.max_colluding_sites}"
            )
        return self


class Privacy(Section):
    """The noise, the study's total budget, what neighbours are, and how analyses share the budget; equally, by default."""

    noise: Literal["distributed", "local", "none"]
    epsilon: Annotated[Finite, Field(gt=0, le=100)] | None = None
    delta: Annotated[Finite, Field(gt=0, le=MOST_DELTA)] | None = None
    adjacency: Literal["add_or_remove"] | None = None
    shares: dict[Slug, Annotated[Finite, Field(gt=0)]] | None = None
    each: Literal["number"] | None = None
    accept_noise: Literal[True] | None = None

    @model_validator(mode="after")
    def _budget_belongs_to_noise(self) -> Self:
        if self.noise == "none" and self.model_fields_set != {"noise"}:
            raise ValueError("noise: none spends no budget; remove the other keys")
        if self.noise != "none" and (self.epsilon is None or self.delta is None):
            raise ValueError("noise needs epsilon and delta; add them")
        return self

    @property
    def neighbours(self) -> Literal["replace_one", "add_or_remove"]:
        """Return what the claim is about: one person's values replaced, unless the file says otherwise."""
        return self.adjacency or "replace_one"

    @property
    def placement(self) -> Literal["distributed", "local"]:
        """Return where the noise is; raises ValueError where there is none."""
        if self.noise == "none":
            raise ValueError("this study has no noise")
        return self.noise


class Checkers(Section):
    """Who signs a release."""

    consortium: Annotated[int, Field(ge=0, le=100)] = 1
    sites: Literal["none", "any", "all"] = "none"


def _odd(base: int) -> int:
    if base % 2 == 0:
        raise ValueError(f"an even number has ties; write {base + 1}")
    return base


class Release(Section):
    """What happens between computed and released."""

    checkers: Checkers = Checkers()
    round_to: Annotated[int, Field(ge=3, le=999), AfterValidator(_odd)] | None = None


class Enrol(Section):
    """How long sites may join, and what starts the round."""

    until: Annotated[AwareDatetime, AfterValidator(utc)] | None = None
    start: Literal["all_invited", "at_deadline", "manual"] = "all_invited"

    @model_validator(mode="after")
    def _deadline_exists(self) -> Self:
        if self.start == "at_deadline" and self.until is None:
            raise ValueError("start: at_deadline needs until")
        return self


class Deadlines(Section):
    """Liveness only: how long each wait lasts. ``tick`` is the grid on which answers leave."""

    gather: Duration = 72 * 3_600_000
    step: Duration = 10 * 60_000
    step_max: Duration = 24 * 3_600_000
    rejoin: Duration = 192 * 3_600_000
    tick: Duration = 100

    @model_validator(mode="after")
    def _steps_nest(self) -> Self:
        if not self.tick <= self.step <= self.step_max:
            raise ValueError("expected tick <= step <= step_max")
        return self


class StudyFile(Section):
    """A whole study file."""

    study: Slug
    title: Text
    version: Count
    roster: Count
    expires: datetime.date
    person: Name
    variables: Annotated[dict[Name, VariableEntry], Field(min_length=1)]
    derive: dict[Name, Formula] = Field(default_factory=dict[Name, Formula])
    cohort: CohortEntry
    analyses: Annotated[dict[Slug, AnalysisEntry], Field(min_length=1, max_length=200)]
    protection: Protection
    privacy: Privacy
    release: Release = Release()
    enrol: Enrol = Enrol()
    deadlines: Deadlines = Deadlines()


TAGGED: dict[str, type[Section]] = {
    "<factor>": FactorEntry,
    "<number>": NumberEntry,
    "<catalogue>": CatalogueEntry,
    **KINDS,
}
"""The models behind the tags that pydantic puts into the place of an error."""
