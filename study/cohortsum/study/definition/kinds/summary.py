"""``kind: summary``: counts and moments of variables, by groups."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Name, Slug
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import NOISED_COLUMNS, SHAPE_COLUMNS, SUMMARY_COLUMNS


@dataclass(frozen=True, slots=True)
class SummarySpec(AnalysisSpec):
    """Moments of ``variables`` in every combination of the levels of ``by``: up to the second, or up to the fourth.

    With ``moments`` 1 the means of everybody alone, who has no value standing in the middle of the public range: what noise of
    a small budget can carry. ``clip`` then bounds the norm of a person's normalised values.
    """

    kind: ClassVar[str] = "summary"
    afterwards: ClassVar[frozenset[str]] = frozenset({"moments"})  # higher ones have blocks of their own

    name: str
    variables: tuple[str, ...]
    by: tuple[str, ...]
    where: Condition | None
    moments: Literal[1, 2, 4] = 2
    needs: str | None = None
    clip: float | None = None

    @property
    def required(self) -> frozenset[str]:
        """The grouping factors."""
        return frozenset(self.by)

    @property
    def lists(self) -> frozenset[str]:
        """The variables."""
        return frozenset({"variables"})

    @property
    def suppliable(self) -> frozenset[str]:
        """What is summarised."""
        return frozenset(self.variables)


class SummaryEntry(AnalysisSection):
    """n, mean, variance and SD of variables, by groups; with ``moments: 4`` skewness and kurtosis too, with 1 means alone."""

    kind: Literal["summary"]
    needs: Slug | None = None
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    by: tuple[Name, ...] = ()
    moments: Literal[1, 2, 4] | None = None
    clip: Annotated[Finite, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _means_are_of_everybody(self) -> Self:
        if self.moments == 1 and (self.by or self.where or self.needs):
            raise ValueError("moments: 1 is about everybody; remove by, where and needs, or write moments: 2")
        if self.clip is not None and self.moments != 1:
            raise ValueError("clip belongs to moments: 1")
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, SummarySpec]:
        """Return the entry with globs written out, and the spec; two moments go without saying."""
        variables = reading.numbers(self.variables, path_of(name, "variables"))
        by = reading.factors(
            self.by, path_of(name, "by"), {"variable", *SUMMARY_COLUMNS, *SHAPE_COLUMNS, *NOISED_COLUMNS}
        )
        higher = None if self.moments == 2 else self.moments
        return (
            self.model_copy(update={"variables": variables, "by": by, "moments": higher}),
            SummarySpec(name, variables, by, where, higher or 2, self.needs, self.clip),
        )
