"""``kind: dp_sgd``: private training of a logistic regression, one round per step."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Formula, Name, Text
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term

LEAST_RATE = 1e-6
"""Below it a sample of any cohort is empty."""


@dataclass(frozen=True, slots=True)
class DpSgdSpec(AnalysisSpec):
    """Logistic regression of one factor by noised gradient descent on samples.

    Attributes:
        name: the analysis.
        outcome: a factor that is in no term.
        event: its level that is the event.
        terms: main effects and interactions, in the order of the file.
        sampling_rate: probability with which a person is in the sample of a step.
        steps: how many, which is the number of rounds.
        clip: greatest norm of a person's gradient.
        learning_rate: of the first step.
        schedule: ``constant``, or ``decaying`` with the root of the step.
        average: ``tail`` reports the mean of the points of the second half, ``last`` the last point.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "dp_sgd"

    name: str
    outcome: str
    event: str
    terms: tuple[Term, ...]
    sampling_rate: float
    steps: int
    clip: float
    learning_rate: float
    schedule: Literal["constant", "decaying"]
    average: Literal["last", "tail"]
    where: Condition | None

    @property
    def required(self) -> frozenset[str]:
        """The outcome and the variables of the terms."""
        return frozenset({self.outcome, *(name for term in self.terms for name in term)})

    @property
    def about(self) -> frozenset[str]:
        """The outcome."""
        return frozenset({self.outcome})


class DpSgdEntry(AnalysisSection):
    """Private training of a logistic regression; only under noise."""

    kind: Literal["dp_sgd"]
    outcome: Name
    event: Text | None = None
    terms: Annotated[tuple[Formula, ...], Field(min_length=1, max_length=200)]
    sampling_rate: Annotated[Finite, Field(ge=LEAST_RATE, le=1)]
    steps: Annotated[int, Field(ge=1, le=1000)]
    clip: Annotated[Finite, Field(ge=1e-6, le=1e6)]
    learning_rate: Annotated[Finite, Field(gt=0, le=1e6)]
    schedule: Literal["constant", "decaying"] = "constant"
    average: Literal["last", "tail"] = "tail"

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, DpSgdSpec]:
        """Return the entry with event and terms written out, and the spec."""
        path = path_of(name, "outcome")
        reading.factor(self.outcome, path)
        event = reading.event(self.outcome, self.event, path)
        terms = reading.terms(self.terms, path_of(name, "terms"))
        reading.no_outcome_in_terms((self.outcome,), terms, path)
        written = {"event": event, "terms": tuple(write_term(term) for term in terms)}
        return (
            self.model_copy(update=written),
            DpSgdSpec(
                name,
                self.outcome,
                event,
                terms,
                self.sampling_rate,
                self.steps,
                self.clip,
                self.learning_rate,
                self.schedule,
                self.average,
                where,
            ),
        )
