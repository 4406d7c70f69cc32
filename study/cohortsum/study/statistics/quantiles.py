"""Quantiles of numbers by groups, from counts in public bins; where asked for, a second round looks into the bins that hold them.

The first round is a histogram per variable and group: one block with the people of every bin, then those without a value.
`ranks` says where a quantile lies then and how far off it can be: at most the width of its bin. With ``refine`` the
second round parts each bin that holds a wanted rank into equal pieces no wider than that. Which bins these are follows
from the first sums, which every site recomputes, and how they are parted from the study; bins of fewer than ``min_bin``
people stay closed. Where the second round cannot be opened, the first one stands. The weighted mean of site quantiles,
which is done elsewhere, estimates something else. Under noise there is one round alone (`quantiles_noised`): its budget could not be
spent on bins that only the first one names.

People sets are the bins, those without a value, and in the second round the pieces.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.bins import refuse_no_bins
from cohortsum.study.statistics.counts_noised import places_part
from cohortsum.study.statistics.crossing import NOWHERE
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.quantile_table import Counts, Place, Request
from cohortsum.study.statistics.quantiles_noised import forecast_quantile, noised_table
from cohortsum.study.statistics.units import clipped, selected

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quantiles(Statistic):
    """The first round: people in every bin.

    Raises:
        StudyFileError: the edges are fewer than 2, not finite or not ascending.
    """

    name: str
    request: Request

    def __post_init__(self) -> None:
        """Refuse edges that are no bins."""
        refuse_no_bins(self.name, self.request.edges)

    def layout(self) -> tuple[Block, ...]:
        """Return one block per variable and group: its bins in order, then those without a value."""
        return tuple(
            _block(self.request, name, row, column, self.request.sets(row, column))
            for row, column, name in self.request.blocks
        )

    def accumulate(self, batch: Batch) -> State:
        """Return, per variable, the people of every group and bin, (groups, bins + 1) int64."""
        asked = self.request
        cells = len(asked.groups.cells)
        people, groups = _grouped(asked, batch)
        state: dict[str, Integers] = {}
        for row, variable in enumerate(asked.variables):
            bins = asked.bins(row)
            size = len(bins.intervals) + 1
            places = groups * size + bins.places(clipped(batch, variable, people))
            state[variable.name] = np.bincount(places, minlength=cells * size).reshape(cells, size)
        return state

    def members(self, batch: Batch) -> Members:
        """Return who is in which bin of each variable, and who has no value, by group."""
        asked = self.request
        people, groups = _grouped(asked, batch)
        places = [
            asked.bins(row).places(clipped(batch, one, people)) for row, one in enumerate(asked.variables)
        ]
        return {
            name: marked(batch.people, people[(groups == column) & (places[row] == place)])
            for row, column, _ in asked.blocks
            for place, name in enumerate(asked.sets(row, column))
        }

    def contribute(self, state: State) -> Sums:
        """Return the counts of every block."""
        return {
            name: state[self.request.variables[row].name][column].astype(np.int64)
            for row, column, name in self.request.blocks
        }

    @property
    def most_rounds(self) -> int:
        """Two where quantiles are refined."""
        return 1 if self.request.refine is None else 2

    def further(self, sums: Sums) -> "Zoom | None":
        """Return the round that looks into bins, or None where nothing is to be refined."""
        if self.request.refine is None:
            return None
        counts = self._counts(sums)
        places = self.request.worth_refining(counts)
        return Zoom(self.name, self.request, counts, places) if places else None

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, from the bins of the study alone."""
        return (self.request.table(self._counts(sums), {}),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part: whoever is in a group is in one place per variable; nothing where quantiles are refined."""
        if self.request.refine is not None:
            return ()
        names = tuple(name for _, _, name in self.request.blocks)
        return (places_part(names, len(self.request.variables), adjacency),)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, with bounds that hold the noise."""
        return (noised_table(self.request, noisy.values, noisy.sd),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of every quantile, groups being of one size."""
        asked = self.request
        here = people / len(asked.groups.cells)
        return tuple(
            forecast_quantile(asked, row, probability, sd[asked.block(row, 0)], here)
            for row in range(len(asked.variables))
            for probability in asked.probabilities
        )

    def _counts(self, sums: Sums) -> Counts:
        return {
            name: tuple(int(total) for total in sums[name])
            for _, _, name in self.request.blocks
            if name in sums
        }


@dataclass(frozen=True, slots=True)
class Zoom(Statistic):
    """The second round: people in the pieces of some bins.

    Attributes:
        name: name of the analysis.
        request: what the study asks for.
        counts: the people of the first round.
        places: the bins that are parted, in order.
    """

    name: str
    request: Request
    counts: Counts
    places: tuple[Place, ...]

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers of variable, group and bin of each bin that is parted."""
        return tuple(float(number) for place in self.places for number in place)

    def layout(self) -> tuple[Block, ...]:
        """Return one block per bin that is parted."""
        return tuple(
            _block(self.request, name, place[0], place[1], self.request.part_sets(place))
            for place, name in self._names.items()
        )

    def accumulate(self, batch: Batch) -> State:
        """Return the people of the pieces by block name, (pieces,) int64."""
        names = self._names
        return {
            names[place]: np.bincount(pieces, minlength=size).astype(np.int64)
            for place, size, _, pieces in self._looked_at(batch)
        }

    def members(self, batch: Batch) -> Members:
        """Return who is in which piece."""
        return {
            name: marked(batch.people, people[pieces == piece])
            for place, _, people, pieces in self._looked_at(batch)
            for piece, name in enumerate(self.request.part_sets(place))
        }

    def contribute(self, state: State) -> Sums:
        """Return the counts; they are the state itself."""
        return {name: counts.astype(np.int64) for name, counts in state.items()}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, with the pieces of the bins that were opened."""
        parts = {
            place: tuple(int(total) for total in sums[name])
            for place, name in self._names.items()
            if name in sums
        }
        return (self.request.table(self.counts, parts),)

    def without(self) -> tuple[Table, ...]:
        """Return the table of the first round, with its bounds."""
        return self.finish({})

    def _looked_at(self, batch: Batch) -> list[tuple[Place, int, NDArray[np.intp], NDArray[np.intp]]]:
        """Return, per bin, the number of its pieces, the people in it, and the piece of each."""
        asked = self.request
        people, groups = _grouped(asked, batch)
        rows = {row for row, _, _ in self.places}
        values = {row: clipped(batch, asked.variables[row], people) for row in rows}
        places = {row: asked.bins(row).places(values[row]) for row in rows}
        found: list[tuple[Place, int, NDArray[np.intp], NDArray[np.intp]]] = []
        for row, column, number in self.places:
            inside = (groups == column) & (places[row] == number)
            edges = asked.bins(row).parts(number, asked.width)
            pieces = np.searchsorted(edges, values[row][inside], side="right") - 1
            size = len(edges) - 1
            pieces = np.clip(
                pieces, 0, size - 1
            )  # the upper end of a bin that is closed belongs to its last piece
            found.append(((row, column, number), size, people[inside], pieces))
        return found

    @property
    def _names(self) -> Mapping[Place, str]:
        """The names of the blocks; those of a variable's bins are formed once, for there may be a thousand of them."""
        sets = {(row, column): self.request.sets(row, column) for row, column, _ in self.places}
        return {
            (row, column, number): f"{sets[row, column][number]}/parts" for row, column, number in self.places
        }


def _grouped(asked: Request, batch: Batch) -> tuple[NDArray[np.intp], Integers]:
    """Return the people who are in a group, and the group of each."""
    people = selected(batch, asked.where)
    groups = asked.groups.places(batch, people)
    return people[groups != NOWHERE], groups[groups != NOWHERE]


def _block(asked: Request, name: str, row: int, column: int, sets: tuple[str, ...]) -> Block:
    items = asked.groups.items(asked.groups.cells[column]) | {asked.variables[row].name}
    return Block(name, "additive", len(sets), 1.0, "person", 0, (items,), sets)
