"""What analyses of times to an event share: the time, the event, and the public grid of times at which people are counted."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from math import floor
from typing import Annotated, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Name, Section, Text, as_written
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.variables import Number

MAX_TIMES = 2000
"""Times of a grid; every group counts two kinds of people in every interval."""


@dataclass(frozen=True, slots=True)
class FollowedSpec(AnalysisSpec):
    """People counted by when they had an event or were last seen.

    Attributes:
        name: the analysis.
        time: a number, from entry to the event or the last time seen.
        status: a factor.
        event: the level of ``status`` that is the event; people at another level were last seen without it.
        times: increasing times above 0; people are counted between them.
        by: factors whose levels, crossed, are the groups.
        where: the subgroup, judged on prepared values.
    """

    name: str
    time: str
    status: str
    event: str
    times: tuple[float, ...]
    by: tuple[str, ...]
    where: Condition | None

    @property
    def required(self) -> frozenset[str]:
        """The status and the groups."""
        return frozenset({self.status, *self.by})

    @property
    def suppliable(self) -> frozenset[str]:
        """The time."""
        return frozenset({self.time})

    @property
    def about(self) -> frozenset[str]:
        """Time and status."""
        return frozenset({self.time, self.status})

    def partings(self, variable: str) -> AbstractSet[float]:
        """Return the grid, for the time."""
        return frozenset(self.times) if variable == self.time else frozenset()


class Grid(Section):
    """Times ``step``, 2 ``step`` and so on up to ``to``, which is one of them."""

    step: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    to: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    def times(self) -> tuple[float, ...]:
        """Return the times: of each decimal the nearest number in floating point."""
        step, end = as_written(self.step), as_written(self.to)
        whole = tuple(float(step * index) for index in range(1, floor(end / step) + 1))
        return whole if whole and whole[-1] >= self.to else (*whole, self.to)


class FollowedSection(AnalysisSection):
    """Base of entries about times to an event on a grid."""

    time: Name
    status: Name
    event: Text | None = None
    grid: Grid | None = None
    times: Annotated[tuple[Finite, ...], Field(min_length=1, max_length=MAX_TIMES)] | None = None

    @model_validator(mode="after")
    def _times_increase(self) -> Self:
        if (self.grid is None) == (self.times is None):
            raise ValueError("expected either grid: {step, to} or times: [...]")
        if self.grid is not None and self.grid.to / self.grid.step > MAX_TIMES:
            raise ValueError(f"the grid has more than {MAX_TIMES} times; take a longer step")
        times = self.public_times()
        if times[0] <= 0 or not all(low < high for low, high in pairwise(times)):
            raise ValueError("expected times above 0 that increase")
        return self

    def public_times(self) -> tuple[float, ...]:
        """Return the times, whichever way they were written."""
        return self.times if self.times is not None else self.grid.times() if self.grid is not None else ()

    def written(self, name: str, by: tuple[str, ...], reading: Reading, taken: AbstractSet[str]) -> Self:
        """Return the entry with times and event written out; no factor of ``by`` is called like a column of ``taken``."""
        time_of(self.time, path_of(name, "time"), reading)
        event = reading.event(self.status, self.event, path_of(name, "status"))
        reading.factor(self.status, path_of(name, "status"))
        reading.factors(by, path_of(name, "by"), taken)
        if self.status in by:
            reading.problems.add(
                path_of(name, "by"), f"{self.status!r} holds the event; group by other factors"
            )
        return self.model_copy(update={"times": self.public_times(), "grid": None, "event": event})


def time_of(name: str, path: tuple[str | int, ...], reading: Reading) -> None:
    """Note what is no number from 0 upwards."""
    reading.number(name, path)
    entry = reading.variables.get(name)
    if isinstance(entry, Number) and entry.lower < 0:
        reading.problems.add(path, f"the range of {name!r} begins below 0; a time since entry begins at 0")
