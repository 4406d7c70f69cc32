"""``kind: histogram``: counts between public edges."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Name
from cohortsum.study.definition.kinds.binned import Binned
from cohortsum.study.definition.kinds.interface import AnalysisSpec, path_of
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


class HistogramEntry(Binned):
    """Counts between public edges."""

    kind: Literal["histogram"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, HistogramSpec]:
        """Return the entry with globs and edges written out, and the spec."""
        variables = reading.numbers(self.variables, path_of(name, "variables"))
        edges = self.public_edges()
        return (
            self.model_copy(update={"variables": variables, "edges": edges, "bins": None}),
            HistogramSpec(name, variables, edges, where),
        )
