"""Public bins, as kinds that count between edges are given them: ``edges``, or ``bins`` of equal width."""

from itertools import pairwise
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.fields import Finite, Section, as_written
from cohortsum.study.definition.kinds.interface import AnalysisSection


class Bins(Section):
    """``count`` bins of equal width between two edges."""

    start: Finite = Field(alias="from")
    end: Finite = Field(alias="to")
    count: Annotated[int, Field(ge=1, le=1000)]

    def edges(self) -> tuple[float, ...]:
        """Return the count + 1 edges: of each decimal the nearest number in floating point."""
        start, end = as_written(self.start), as_written(self.end)
        return tuple(float(start + (end - start) * index / self.count) for index in range(self.count + 1))


class Binned(AnalysisSection):
    """Base of the entries that count between public edges."""

    edges: Annotated[tuple[Finite, ...], Field(min_length=2, max_length=1001)] | None = None
    bins: Bins | None = None

    wanted: ClassVar[str] = "expected either edges: [...] or bins: {from, to, count}"
    """What is said where there is not exactly one of what parts the numbers."""

    @property
    def without_bins(self) -> bool:
        """Whether the entry names a grid in their place."""
        return False

    @model_validator(mode="after")
    def _edges_increase(self) -> Self:
        if self.without_bins and self.edges is None and self.bins is None:
            return self
        if self.without_bins or (self.edges is None) == (self.bins is None):
            raise ValueError(self.wanted)
        edges = self.public_edges()
        if not all(low < high for low, high in pairwise(edges)):
            raise ValueError("expected edges that increase")
        return self

    def public_edges(self) -> tuple[float, ...]:
        """Return the edges, whichever way they were written."""
        return self.edges if self.edges is not None else self.bins.edges() if self.bins is not None else ()
