"""``kind: cox``: proportional hazards by Cox's partial likelihood, every site a stratum of its own."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Count, Formula, Name, Text
from cohortsum.study.definition.kinds.followed import time_of
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class CoxSpec(AnalysisSpec):
    """A proportional hazards model.

    Attributes:
        name: the analysis.
        time: a number, from the origin to the event or the last time seen.
        status: a factor.
        event: the level of ``status`` that is the event.
        start: a number, from the origin to when a person came under observation; without it everybody is from the start.
        terms: main effects and interactions, in the order of the file.
        ties: how events at one time of one site are treated.
        min_events: a site with fewer events adds nothing to the likelihood.
        proportionality: the function of time by which hazards might not be proportional, if that is tested.
        max_iterations: most evaluations.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "cox"

    name: str
    time: str
    status: str
    event: str
    start: str | None
    terms: tuple[Term, ...]
    ties: Literal["breslow", "efron", "exact"]
    min_events: int
    proportionality: Literal["time", "log_time"] | None
    max_iterations: int
    where: Condition | None

    @property
    def required(self) -> frozenset[str]:
        """The variables of the terms, the status and the start."""
        names = {name for term in self.terms for name in term} | {self.status}
        return frozenset(names if self.start is None else {*names, self.start})

    @property
    def suppliable(self) -> frozenset[str]:
        """The time."""
        return frozenset({self.time})

    @property
    def about(self) -> frozenset[str]:
        """Time and status."""
        return frozenset({self.time, self.status})


class CoxEntry(AnalysisSection):
    """Proportional hazards, stratified by site."""

    kind: Literal["cox"]
    time: Name
    status: Name
    event: Text | None = None
    start: Name | None = None
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    ties: Literal["breslow", "efron", "exact"] = "efron"
    min_events: Count = 1
    proportionality: Literal["time", "log_time"] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 25

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, CoxSpec]:
        """Return the entry with terms and event written out, and the spec."""
        time_of(self.time, path_of(name, "time"), reading)
        reading.factor(self.status, path_of(name, "status"))
        event = reading.event(self.status, self.event, path_of(name, "status"))
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms((self.time, self.status), terms, path_of(name, "terms"))
        if self.start is not None:
            reading.number(self.start, path_of(name, "start"))
            if self.start == self.time:
                reading.problems.add(path_of(name, "start"), "start and time are one number; name another")
        entry = reading.variables.get(self.time)
        if self.proportionality == "log_time" and isinstance(entry, Number) and entry.lower <= 0:
            reading.problems.add(
                path_of(name, "proportionality"),
                f"the range of {self.time!r} begins at 0, which has no logarithm; let it begin above 0, or write time",
            )
        return (
            self.model_copy(update={"event": event, "terms": tuple(write_term(term) for term in terms)}),
            CoxSpec(
                name=name,
                time=self.time,
                status=self.status,
                event=event,
                start=self.start,
                terms=terms,
                ties=self.ties,
                min_events=self.min_events,
                proportionality=self.proportionality,
                max_iterations=self.max_iterations,
                where=where,
            ),
        )
