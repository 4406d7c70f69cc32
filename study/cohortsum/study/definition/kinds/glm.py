"""``kind: glm``: logistic and Poisson regression by Newton's method, one round per iteration."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Formula, Name, Text
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class GlmSpec(AnalysisSpec):
    """One generalised linear model per outcome on shared terms, with one intercept.

    Attributes:
        name: the analysis.
        family: ``binomial`` or ``poisson``.
        outcomes: factors (binomial) or numbers from 0 upwards (Poisson), none of them in a term.
        events: binomial: the level of each outcome that is the event; Poisson: empty.
        terms: main effects and interactions, in the order of the file.
        offset: a number that is added to the linear predictor, if any.
        exposure: a number above 0 whose logarithm is, if any.
        max_iterations: most evaluations, which is most rounds.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "glm"

    name: str
    family: Literal["binomial", "poisson"]
    outcomes: tuple[str, ...]
    events: tuple[str, ...]
    terms: tuple[Term, ...]
    offset: str | None
    exposure: str | None
    max_iterations: int
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset({"outcomes"})

    @property
    def required(self) -> frozenset[str]:
        """The variables of the terms, offset and exposure, and factors that are outcomes."""
        names = {name for term in self.terms for name in term}
        names |= {name for name in (self.offset, self.exposure) if name is not None}
        return frozenset(names | set(self.outcomes if self.family == "binomial" else ()))

    @property
    def suppliable(self) -> frozenset[str]:
        """Outcomes that are numbers."""
        return frozenset(self.outcomes if self.family == "poisson" else ())

    @property
    def about(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset(self.outcomes)


class GlmEntry(AnalysisSection):
    """Logistic or Poisson regression: one model per outcome on shared terms."""

    kind: Literal["glm"]
    family: Literal["binomial", "poisson"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    event: Text | None = None
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    site_effect: Literal["none"] = "none"
    offset: Name | None = None
    exposure: Name | None = None
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 25

    @model_validator(mode="after")
    def _keys_fit_the_family(self) -> Self:
        if self.family == "binomial" and (self.offset is not None or self.exposure is not None):
            raise ValueError("offset and exposure belong to family: poisson; remove them")
        if self.family == "poisson" and self.event is not None:
            raise ValueError("event belongs to family: binomial; remove it")
        if self.offset is not None and self.exposure is not None:
            raise ValueError(
                "expected offset: or exposure:, not both; an exposure is logged, an offset is not"
            )
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, GlmSpec]:
        """Return the entry with globs and terms written out, and the spec."""
        path, events = path_of(name, "outcomes"), tuple[str, ...]()
        if self.family == "binomial":
            outcomes = reading.factors(self.outcomes, path, frozenset())
            events = tuple(
                reading.event(outcome, self.event, (*path, index)) for index, outcome in enumerate(outcomes)
            )
        else:
            outcomes = reading.numbers(self.outcomes, path)
            for outcome in outcomes:
                _lowest(reading, outcome, path, above=False)
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms(outcomes, terms, path)
        for key, shift in (("offset", self.offset), ("exposure", self.exposure)):
            if shift is None:
                continue
            reading.number(shift, path_of(name, key))
            if shift in outcomes:
                reading.problems.add(path_of(name, key), f"{shift!r} is an outcome; name another number")
            if key == "exposure":
                _lowest(reading, shift, path_of(name, key), above=True)
        written = {"outcomes": outcomes, "terms": tuple(write_term(term) for term in terms)}
        return (
            self.model_copy(update=written),
            GlmSpec(
                name,
                self.family,
                outcomes,
                events,
                terms,
                self.offset,
                self.exposure,
                self.max_iterations,
                where,
            ),
        )


def _lowest(reading: Reading, name: str, path: tuple[str | int, ...], above: bool) -> None:
    """Note a number whose public range reaches below 0, or, ``above``, to it."""
    entry = reading.variables.get(name)
    if isinstance(entry, Number) and (entry.lower < 0 or (above and entry.lower == 0)):
        expected = "above 0: its logarithm is taken" if above else "at or above 0: it is a count"
        reading.problems.add(path, f"the range of {name!r} begins at {entry.lower:g}; expected {expected}")
