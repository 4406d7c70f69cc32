"""``kind: test``: tests of means between the levels of a factor."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading

TestName = Literal["student", "welch", "anova"]
MOST_PAIRED = 20
"""Levels of a factor that t tests compare two by two: at most 190 comparisons."""


@dataclass(frozen=True, slots=True)
class GroupTestSpec(AnalysisSpec):
    """Means of ``outcomes`` compared between the levels of ``factor`` by each of ``tests``."""

    kind: ClassVar[str] = "test"
    afterwards: ClassVar[frozenset[str]] = frozenset({"tests"})

    name: str
    outcomes: tuple[str, ...]
    factor: str
    tests: tuple[TestName, ...]
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset({"outcomes"})

    @property
    def required(self) -> frozenset[str]:
        """The factor."""
        return frozenset({self.factor})

    @property
    def suppliable(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset(self.outcomes)


class GroupTestEntry(AnalysisSection):
    """Student's and Welch's t test of every two levels of a factor, and one-way analysis of variance over all."""

    kind: Literal["test"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    factor: Name
    tests: Annotated[tuple[TestName, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _tests_differ(self) -> Self:
        if len(set(self.tests)) < len(self.tests):
            raise ValueError("a test is listed twice; list each once")
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, GroupTestSpec]:
        """Return the entry with globs written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        levels = reading.factor(self.factor, path_of(name, "factor"))
        if len(levels) > MOST_PAIRED and {"student", "welch"} & set(self.tests):
            reading.problems.add(
                path_of(name, "tests"),
                f"{self.factor!r} has {len(levels)} levels, too many to compare two by two; at most {MOST_PAIRED}: ask for "
                "anova, or for a factor with fewer levels",
            )
        return (
            self.model_copy(update={"outcomes": outcomes}),
            GroupTestSpec(name, outcomes, self.factor, self.tests, where),
        )
