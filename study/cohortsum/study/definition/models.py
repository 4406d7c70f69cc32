"""The study file as it is written: one pydantic model per section, unknown keys refused.

These types say what a file may hold; `freezing` says what it means. Validation is strict and runs on JSON, so that a
YAML file and the canonical bytes take the same path and nothing is guessed: ``"5"`` is text and never a number. Only
defaults and single fields are checked here; whatever needs two sections is checked when the study is frozen.
"""

import datetime
import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Annotated, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)

from cohortsum.study.variables import OutOfRange

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"^[0-9]{1,9}(ms|s|m|h|d)$"


def _read_duration(value: object) -> int:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a duration above 0 such as 100ms, 10m, 72h or 8d")
    return int(match[1]) * _MILLISECONDS[match[2]]


def _write_duration(milliseconds: int) -> str:
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % _MILLISECONDS[unit] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def _checked_name(name: str) -> str:
    """Accept any text that expressions, term names and result tables can carry unambiguously."""
    if name != name.strip() or not name.isprintable() or re.search(r"[:/\[\]`\"]", name):
        raise ValueError(
            'a name has no blanks at its ends and none of : / [ ] ` "; rename the column in node.yaml'
        )
    return name


def _checked_text(text: str) -> str:
    if text != text.strip() or not text.isprintable() or '"' in text:
        raise ValueError("expected one printable line without blanks at its ends and without double quotes")
    return text


def _ordered_range(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] < ends[1]:
        raise ValueError("expected [lower, upper] with lower below upper")
    return ends


def _utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC)


def _without_negative_zero(value: float) -> float:
    return value + 0.0  # equal studies have equal bytes, and -0.0 == 0.0


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(_write_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": _DURATION, "description": "for example 100ms, 10m, 72h or 8d"}
    ),
]
"""Milliseconds; written with a unit."""
Finite = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_without_negative_zero)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_checked_name)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_checked_text)]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""An id that is also a file name."""
Formula = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Range = Annotated[tuple[Finite, Finite], AfterValidator(_ordered_range)]


class Section(BaseModel):
    """Base of every section: no unknown keys, no coercion, no change after loading, no values in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


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


class SummaryEntry(Section):
    """n, mean, variance and SD of variables, by groups."""

    kind: Literal["summary"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    by: tuple[Name, ...] = ()
    where: Formula | None = None


class Bins(Section):
    """``count`` bins of equal width between two edges."""

    start: Finite = Field(alias="from")
    end: Finite = Field(alias="to")
    count: Annotated[int, Field(ge=1, le=1000)]

    def edges(self) -> tuple[float, ...]:
        """Return the count + 1 edges, in floating point."""
        step = (self.end - self.start) / self.count
        return (*(self.start + step * index for index in range(self.count)), self.end)


class HistogramEntry(Section):
    """Counts between public edges."""

    kind: Literal["histogram"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    edges: Annotated[tuple[Finite, ...], Field(min_length=2, max_length=1001)] | None = None
    bins: Bins | None = None
    where: Formula | None = None

    @model_validator(mode="after")
    def _edges_increase(self) -> Self:
        if (self.edges is None) == (self.bins is None):
            raise ValueError("expected either edges: [...] or bins: {from, to, count}")
        edges = self.public_edges()
        if not all(low < high for low, high in pairwise(edges)):
            raise ValueError("expected edges that increase")
        return self

    def public_edges(self) -> tuple[float, ...]:
        """Return the edges, whichever way they were written."""
        return self.edges if self.edges is not None else self.bins.edges() if self.bins is not None else ()


class CrosstabEntry(Section):
    """Counts in every combination of the levels of factors: rows and columns are the last two, layers the first of three."""

    kind: Literal["crosstab"]
    factors: Annotated[tuple[Name, ...], Field(min_length=1, max_length=3)]
    where: Formula | None = None


class ReportEntry(Section):
    """The effect to report for every outcome, and the correction over outcomes."""

    effect: Name
    measure: Literal["cohens_d"] = "cohens_d"
    correction: Literal["fdr_bh", "none"] = "none"


class RegressionEntry(Section):
    """One linear regression per outcome on shared terms."""

    kind: Literal["regression"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    site_effect: Literal["within", "none"] = "within"
    missing: Literal["per_outcome", "complete"] = "per_outcome"
    report: ReportEntry | None = None
    contrasts: dict[Slug, Annotated[dict[Formula, Finite], Field(min_length=1)]] = Field(
        default_factory=dict[Slug, dict[Formula, Finite]]
    )
    tests: dict[Slug, Annotated[tuple[Formula, ...], Field(min_length=1)]] = Field(
        default_factory=dict[Slug, tuple[Formula, ...]]
    )
    where: Formula | None = None


AnalysisEntry = Annotated[
    SummaryEntry | HistogramEntry | CrosstabEntry | RegressionEntry, Field(discriminator="kind")
]


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
        return self


class Privacy(Section):
    """The noise and the study's total budget."""

    noise: Literal["distributed", "local", "none"]
    epsilon: Annotated[Finite, Field(gt=0)] | None = None
    delta: Annotated[Finite, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _budget_belongs_to_noise(self) -> Self:
        if self.noise == "none" and not (self.epsilon is None and self.delta is None):
            raise ValueError("noise: none spends no budget; remove epsilon and delta")
        if self.noise != "none" and (self.epsilon is None or self.delta is None):
            raise ValueError("noise needs epsilon and delta; add them")
        return self


class Checkers(Section):
    """Who signs a release."""

    consortium: Annotated[int, Field(ge=0, le=100)] = 1
    sites: Literal["none", "any", "all"] = "none"


class Release(Section):
    """What happens between computed and released."""

    checkers: Checkers = Checkers()
    round_to: Annotated[int, Field(ge=2, le=1000)] | None = None


class Enrol(Section):
    """How long sites may join, and what starts the round."""

    until: Annotated[AwareDatetime, AfterValidator(_utc)] | None = None
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
    "summary": SummaryEntry,
    "histogram": HistogramEntry,
    "crosstab": CrosstabEntry,
    "regression": RegressionEntry,
}
"""The models behind the tags that pydantic puts into the place of an error."""
