"""Counts of people in public bins (`bins`).

Every count is a number about the people it counts: each bin is a people set of its own, and so are the missing people.
`counts_noised` says how far one person moves them, and what stands in the table under noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Cell, Status, Table
from cohortsum.study.statistics.bins import Bins, refuse_no_bins
from cohortsum.study.statistics.by_committee import (
    NOT_OPENED,
    CountTable,
    Found,
    opened_status,
    shown,
)
from cohortsum.study.statistics.counts_noised import COUNTS_NOTE, forecast_count, places_part, whole
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Number

COLUMNS = ("variable", "low", "high", "count", "status", "missing")


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
        refuse_no_bins(self.name, self.edges)

    def layout(self) -> tuple[Block, ...]:
        """Return one block per variable: the counts of its bins in order, then the missing people."""
        return tuple(
            Block(
                name=self._block(variable),
                kind="additive",
                size=len(self._bins(variable).intervals) + 1,
                bound=1.0,
                per="person",
                fraction_bits=0,
                supply=(frozenset({variable.name}),),
                sets=self._sets(variable),
            )
            for variable in self.variables
        )

    def accumulate(self, batch: Batch) -> State:
        """Return, per variable, the counts of its bins and of the missing people, (bins + 1,) int64."""
        people = selected(batch, self.where)
        state: dict[str, NDArray[np.int64]] = {}
        for variable in self.variables:
            bins = self._bins(variable)
            places = bins.places(clipped(batch, variable, people))
            state[variable.name] = np.bincount(places, minlength=len(bins.intervals) + 1).astype(np.int64)
        return state

    def members(self, batch: Batch) -> Members:
        """Return who is in which bin of each variable, and who has no value."""
        people = selected(batch, self.where)
        masks: dict[str, NDArray[np.bool_]] = {}
        for variable in self.variables:
            places = self._bins(variable).places(clipped(batch, variable, people))
            for place, name in enumerate(self._sets(variable)):
                masks[name] = marked(batch.people, people[places == place])
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block."""
        return {self._block(variable): state[variable.name].astype(np.int64) for variable in self.variables}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per variable and bin; ``missing`` repeats the variable's missing people."""
        rows: list[tuple[Cell, ...]] = []
        for variable in self.variables:
            totals = sums.get(self._block(variable))
            bins = self._bins(variable).intervals
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
        return (Table(self.name, "histogram", COLUMNS, tuple(rows)),)

    def count_tables(self) -> tuple[CountTable, ...]:
        """Return one table per variable, of its bins; the missing people are not told."""
        return tuple(
            CountTable(
                self._block(variable),
                tuple((self._block(variable), place) for place in range(len(self._bins(variable).intervals))),
            )
            for variable in self.variables
        )

    def finish_counts(self, found: Found) -> tuple[Table, ...]:
        """Return the table of `finish` from the counts that a committee opened; what was not opened is hidden."""
        rows: list[tuple[Cell, ...]] = []
        for variable in self.variables:
            bins = zip(self._bins(variable).intervals, found[self._block(variable)], strict=True)
            rows += [
                (variable.name, low, high, shown(count), opened_status(count).value, NOT_OPENED)
                for (low, high), count in bins
            ]
        return (Table(self.name, "histogram", COLUMNS, tuple(rows)),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part: the counts of all variables together, each a table."""
        names = tuple(self._block(variable) for variable in self.variables)
        return (places_part(names, len(self.variables), adjacency),)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, with the noise of each count."""
        counts = {name: np.array([whole(value) for value in values]) for name, values in noisy.values.items()}
        (table,) = self.finish(counts)
        withheld = Absent(Status.TOO_FEW_SITES)
        noise = {
            variable.name: noisy.sd[block] if (block := self._block(variable)) in counts else withheld
            for variable in self.variables
        }
        rows = tuple((*row, noise[str(row[0])]) for row in table.rows)
        return (Table(self.name, table.kind, (*table.columns, "count_noise_sd"), rows, (COUNTS_NOTE,)),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the counts of each variable, people being spread evenly over its bins."""
        return tuple(
            forecast_count(
                f"each count of {variable.name}",
                len(self._sets(variable)),
                sd[self._block(variable)],
                people,
                len(self.variables),
            )
            for variable in self.variables
        )

    def _bins(self, variable: Number) -> Bins:
        return Bins(variable, self.edges)

    def _sets(self, variable: Number) -> tuple[str, ...]:
        """Return the names of the people sets: the bins, such as ``ages/age/[20.0, 40.0)``, then the missing people."""
        return tuple(
            set_name(self.name, variable.name, part) for part in (*self._bins(variable).names, "missing")
        )

    def _block(self, variable: Number) -> str:
        return f"{self.name}/{variable.name}/people"
