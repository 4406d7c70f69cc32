"""``kind: histogram``: counts between public edges."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Name, Section
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading


@dataclass(frozen=True, slots=True)
class HistogramSpec(AnalysisSpec):
    """Counts of ``variables`` between public ``edges`` (increasing, at least 2, in the variables' unit)."""

    kind: ClassVar[str] = "histogram"

    name: str
    variables: tuple[str, ...]
    edges: tuple[float, ...]
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The variables."""
        return frozenset({"variables"})

    @property
    def suppliable(self) -> frozenset[str]:
        """What is counted."""
        return frozenset(self.variables)

    def partings(self, variable: str) -> AbstractSet[float]:
        """Return the edges, for what is counted."""
        return frozenset(self.edges) if variable in self.variables else frozenset()


class Bins(Section):
    """``count`` bins of equal width between two edges."""

    start: Finite = Field(alias="from")
    end: Finite = Field(alias="to")
    count: Annotated[int, Field(ge=1, le=1000)]

    def edges(self) -> tuple[float, ...]:
        """Return the count + 1 edges, in floating point."""
        step = (self.end - self.start) / self.count
        return (*(self.start + step * index for index in range(self.count)), self.end)


class HistogramEntry(AnalysisSection):
    """Counts between public edges."""

    kind: Literal["histogram"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    edges: Annotated[tuple[Finite, ...], Field(min_length=2, max_length=1001)] | None = None
    bins: Bins | None = None

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

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, HistogramSpec]:
        """Return the entry with globs and edges written out, and the spec."""
        variables = reading.numbers(self.variables, path_of(name, "variables"))
        edges = self.public_edges()
        return (
            self.model_copy(update={"variables": variables, "edges": edges, "bins": None}),
            HistogramSpec(name, variables, edges, where),
        )
