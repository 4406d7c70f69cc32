"""Counts of people in public bins.

Bins are closed on the left and open on the right, the last one given is closed on both sides. Where the public range of
a variable reaches beyond the edges of the study, one more bin on that side holds the people there, so that the counts of
a variable and its missing people always add up to the people asked about.

Every count is a number about the people it counts: each bin is a people set of its own, and so are the missing people.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Cell, Status, Table
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class Histogram(Statistic):
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
                sets=self._sets(variable),
            )
            for variable in self.variables
        )

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, (variables, below + bins + above + missing) int64."""
        people = selected(batch, self.where)
        counts = np.zeros((len(self.variables), len(self.edges) + 2), np.int64)
        for row, variable in enumerate(self.variables):
            places = self._places(clipped(batch, variable, people))
            counts[row] = np.bincount(places, minlength=len(self.edges) + 2)
        return {"people": counts}

    def members(self, batch: Batch) -> Members:
        """Return who is in which bin of each variable, and who has no value."""
        people = selected(batch, self.where)
        masks: dict[str, NDArray[np.bool_]] = {}
        for variable in self.variables:
            places = self._places(clipped(batch, variable, people))
            possible = np.flatnonzero(self._possible(variable))
            for name, place in zip(self._sets(variable), possible, strict=True):
                masks[name] = marked(batch.people, people[places == place])
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block, without the outer bins that the public range rules out."""
        return {
            self._block(variable): state["people"][row][self._possible(variable)].astype(np.int64)
            for row, variable in enumerate(self.variables)
        }

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

    def _places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return where each value counts: 0 below, then the bins, above, missing; NaN sorts last and is told apart."""
        last = len(self.edges)
        place = np.searchsorted(self.edges, values, side="right")
        place[values == self.edges[-1]] = last - 1
        place[np.isnan(values)] = last + 1
        return place

    def _possible(self, variable: Number) -> NDArray[np.bool_]:
        """Return which places the block has: all but the outer bins that the public range rules out."""
        possible = np.ones(len(self.edges) + 2, np.bool_)
        possible[0], possible[-2] = self._outside(variable)
        return possible

    def _outside(self, variable: Number) -> tuple[bool, bool]:
        """Return whether the public range reaches below and above the edges."""
        return variable.lower < self.edges[0], variable.upper > self.edges[-1]

    def _bins(self, variable: Number) -> tuple[tuple[float, float], ...]:
        """Return low and high of every bin of ``variable``, the outer ones included."""
        below, above = self._outside(variable)
        first = (variable.lower,) if below else ()
        last = (variable.upper,) if above else ()
        return tuple(pairwise((*first, *self.edges, *last)))

    def _sets(self, variable: Number) -> tuple[str, ...]:
        """Return the names of the people sets: the bins as intervals, such as ``ages/age/[20.0, 40.0)``, then missing."""
        bins = self._bins(variable)
        last = len(bins) - 1 - self._outside(variable)[1]  # of those given; one above it is open on the left
        intervals = [
            f"{'(' if place > last else '['}{low}, {high}{')' if place < last else ']'}"
            for place, (low, high) in enumerate(bins)
        ]
        return tuple(set_name(self.name, variable.name, part) for part in (*intervals, "missing"))

    def _block(self, variable: Number) -> str:
        return f"{self.name}/{variable.name}/people"
