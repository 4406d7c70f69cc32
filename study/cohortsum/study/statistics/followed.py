"""People counted by when they had an event or were last seen, in intervals of a public grid.

With times t1 < t2 < ... an interval is (t[j-1], t[j]], the first one from the start, 0 included. Every person who has a time
and a status is in one count of one group: events of an interval, people last seen in it, or those still there after the last
time. From these counts follow the people at risk at the start of every interval. All counts are additive; each is about a
people set of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.crossing import NOWHERE, Crossing
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.targets import Event
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Factor, Number

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LifeTable:
    """The opened counts of one group.

    Attributes:
        events: (intervals,) int64.
        censored: (intervals,) int64, people last seen in the interval without the event.
        beyond: people still there after the last time.
    """

    events: Counts
    censored: Counts
    beyond: int

    @property
    def people(self) -> int:
        """Everybody in the group."""
        return int(self.events.sum() + self.censored.sum()) + self.beyond

    @property
    def at_risk(self) -> Counts:
        """People at risk at the start of every interval, (intervals,) int64."""
        gone = np.cumsum(self.events + self.censored)
        return self.people - np.concatenate((np.zeros(1, np.int64), gone[:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed(Statistic):
    """Counts of events and of people last seen, by group and interval.

    Attributes:
        name: name of the analysis.
        time: from entry to the event or the last time seen.
        event: the level of a factor that is the event.
        times: increasing, above 0.
        by: factors whose levels, crossed, are the groups; without them one group holds everybody.
        where: the subgroup, or everybody.
    """

    name: str
    time: Number
    event: Event
    times: tuple[float, ...]
    by: tuple[Factor, ...] = ()
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return one block per group: events, then last seen, by interval; then those still there."""
        blocks: list[Block] = []
        for cell in self._crossing.cells:
            base = frozenset({self.time.name, *self._crossing.level_names(cell)})
            supply = (base, *(base | {level} for level in self.event.levels))
            sets = self._sets(cell)
            blocks.append(Block(self._called(cell), "additive", len(sets), 1.0, "person", 0, supply, sets))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, (groups, 2 intervals + 1) int64."""
        _, cells, places = self._placed(batch)
        size = 2 * len(self.times) + 1
        counts = np.bincount(cells * size + places, minlength=len(self._crossing.cells) * size)
        return {"people": counts.reshape(-1, size).astype(np.int64)}

    def members(self, batch: Batch) -> Members:
        """Return who is in which count."""
        people, cells, places = self._placed(batch)
        return {
            name: marked(batch.people, people[(cells == row) & (places == place)])
            for row, cell in enumerate(self._crossing.cells)
            for place, name in enumerate(self._sets(cell))
        }

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block."""
        return {
            self._called(cell): state["people"][row].astype(np.int64)
            for row, cell in enumerate(self._crossing.cells)
        }

    def life_tables(self, sums: Sums) -> Sequence[LifeTable | None]:
        """Return the counts of the groups, in their order; None where too few sites have them."""
        number = len(self.times)
        opened = [sums.get(self._called(cell)) for cell in self._crossing.cells]
        return [
            None
            if counts is None
            else LifeTable(counts[:number], counts[number : 2 * number], int(counts[-1]))
            for counts in opened
        ]

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The groups as one level per factor, in order."""
        return self._crossing.cells

    @property
    def _crossing(self) -> Crossing:
        return Crossing(self.by)

    def _called(self, cell: tuple[str, ...]) -> str:
        return set_name(self.name, self.time.name, *self._crossing.level_names(cell))

    def _sets(self, cell: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the sets of a group, one per count."""
        intervals = [f"({low}, {high}]" for low, high in pairwise((0.0, *self.times))]
        called = [f"{what} {interval}" for what in ("event", "last seen") for interval in intervals]
        parts = (self.time.name, *self._crossing.level_names(cell))
        return tuple(set_name(self.name, *parts, one) for one in (*called, f"after {self.times[-1]}"))

    def _placed(self, batch: Batch) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
        """Return who is counted, in which group and which count."""
        people = selected(batch, self.where)
        cells = self._crossing.places(batch, people)
        times, events = clipped(batch, self.time, people), self.event.values(batch, people)
        known = (cells != NOWHERE) & ~np.isnan(times) & ~np.isnan(events)
        people, cells, times, events = people[known], cells[known], times[known], events[known]
        number = len(self.times)
        interval = np.searchsorted(np.array(self.times), times, side="left").astype(np.int64)
        places = np.where(interval == number, 2 * number, interval + number * (events == 0.0))
        return people, cells, places
