"""Counts of people in public bins.

Bins are closed on the left and open on the right, the last one given is closed on both sides. Where the public range of
a variable reaches beyond the edges of the study, one more bin on that side holds the people there, so that the counts of
a variable and its missing people always add up to the people asked about.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Cell, Status, Table
from cohortsum.study.statistics.interface import Block, State, Sums
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many people fall into each public bin of each variable.

    Attributes:
        name: name of the analysis.
        variables: what is counted.
        edges: bin edges in the unit of the variables, strictly ascending, at least 2.
        where: the subgroup, or everybody.

    Raises:
        StudyFileError: the edges are fewer than 2, not finite or not ascending.
    """

    name: str
    variables: tuple[Number, ...]
    edges: tuple[float, ...]
    where: Where | None = None

    def __post_init__(self) -> None:
        """Refuse edges that are no bins."""
        finite = bool(np.all(np.isfinite(self.edges)))
        if len(self.edges) < 2 or not finite or any(low >= high for low, high in pairwise(self.edges)):
            raise StudyFileError(
                f"analysis '{self.name}', field 'edges': expected at least 2 finite numbers, each greater than the "
                "one before; correct the list"
            )

    def layout(self) -> tuple[Block, ...]:
        """Return one block per variable: the counts of its bins in order, then the missing people."""
        return tuple(
            Block(
                name=self._block(variable),
                kind="additive",
                size=len(self._bins(variable)) + 1,
                bound=1.0,
                per="person",
                fraction_bits=0,
                supply=(frozenset({variable.name}),),
            )
            for variable in self.variables
        )

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, (variables, below + bins + above + missing) int64."""
        people = selected(batch, self.where)
        counts = np.zeros((len(self.variables), len(self.edges) + 2), np.int64)
        for row, variable in enumerate(self.variables):
            counts[row] = self._count(clipped(batch, variable, people))
        return {"people": counts}

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block, without the outer bins that the public range rules out."""
        contribution: dict[str, NDArray[np.int64]] = {}
        for row, variable in enumerate(self.variables):
            below, above = self._outside(variable)
            keep = np.ones(len(self.edges) + 2, np.bool_)
            keep[0], keep[-2] = below, above
            contribution[self._block(variable)] = state["people"][row][keep].astype(np.int64)
        return contribution

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per variable and bin; ``missing`` repeats the variable's missing people."""
        rows: list[tuple[Cell, ...]] = []
        for variable in self.variables:
            totals = sums.get(self._block(variable))
            bins = self._bins(variable)
            if totals is None:
                withheld, status = Absent(Status.TOO_FEW_SITES), Status.TOO_FEW_SITES.value
                rows += [(variable.name, low, high, withheld, status, withheld) for low, high in bins]
                continue
            *counts, missing = (int(total) for total in totals)
            status = Status.OK.value if any(counts) else Status.ALL_MISSING.value
            rows += [
                (variable.name, low, high, count, status, missing)
                for (low, high), count in zip(bins, counts, strict=True)
            ]
        columns = ("variable", "low", "high", "count", "status", "missing")
        return (Table(self.name, "histogram", columns, tuple(rows)),)

    def _count(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the counts below, in each bin, above and missing; NaN sorts last and is told apart."""
        last = len(self.edges)
        place = np.searchsorted(self.edges, values, side="right")
        place[values == self.edges[-1]] = last - 1
        place[np.isnan(values)] = last + 1
        return np.bincount(place, minlength=last + 2).astype(np.int64)

    def _outside(self, variable: Number) -> tuple[bool, bool]:
        """Return whether the public range reaches below and above the edges."""
        return variable.lower < self.edges[0], variable.upper > self.edges[-1]

    def _bins(self, variable: Number) -> tuple[tuple[float, float], ...]:
        """Return low and high of every bin of ``variable``, the outer ones included."""
        below, above = self._outside(variable)
        first = (variable.lower,) if below else ()
        last = (variable.upper,) if above else ()
        return tuple(pairwise((*first, *self.edges, *last)))

    def _block(self, variable: Number) -> str:
        return f"{self.name}/{variable.name}/people"
