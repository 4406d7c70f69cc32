"""Means of everybody in the cohort, and nothing else: what a small budget can carry.

Per variable a person adds u, the value about the middle of the public range in half-ranges; nothing is added for who has no value,
who so stands in the middle. Divided by the number of people at the sites that supply the variable, which is public where one person's
values are replaced and travels without noise, that is the mean. With v variables, replacing one person's values moves the sums by at most 2 sqrt(v) in L2 norm.

``clip`` bounds the norm of each person's u: longer vectors are shortened to it. The sums then move by at most 2 clip; what that costs
is a bias toward the middle, for whoever was shortened, which no interval covers. Rounding the shortened vector to the grid of the
exact sums cannot lengthen it: it is rounded toward 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, NOISED_COLUMNS, SUMMARY_COLUMNS, Absent, Cell, Status, Table
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.summary_noised import NORMAL_95, forecast_mean
from cohortsum.study.statistics.units import clipped, normalised
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class Means(Statistic):
    """The mean of each variable over the whole cohort; only under noise.

    Attributes:
        name: name of the analysis.
        variables: what is averaged.
        fraction_bits: grid of the exact sums.
        clip: greatest norm of a person's normalised values, or None for no bound beyond the ranges.
    """

    name: str
    variables: tuple[Number, ...]
    fraction_bits: int
    clip: float | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return, per variable, the number of people and the sum."""
        bound = 1.0 if self.clip is None else min(1.0, self.clip)
        blocks: list[Block] = []
        for variable in self.variables:
            supply, sets = (frozenset({variable.name}),), (set_name(self.name, variable.name),)
            count, total = self._blocks(variable)
            blocks.append(Block(count, "additive", 1, 1.0, "person", 0, supply, sets))
            blocks.append(Block(total, "additive", 1, bound, "person", self.fraction_bits, supply, sets))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return ``people``, (1,), and ``sums``, (variables,) int64."""
        people = np.arange(batch.people)
        u = np.zeros((len(self.variables), batch.people))
        for row, variable in enumerate(self.variables):
            u[row] = np.nan_to_num(
                normalised(clipped(batch, variable, people), variable.middle, variable.half_width), nan=0.0
            )
        if self.clip is not None:
            norms = np.sqrt(np.sum(u * u, axis=0))
            u *= np.minimum(1.0, self.clip / np.maximum(norms, self.clip))
        integers = np.trunc(u * 2.0**self.fraction_bits).astype(np.int64)
        sums: NDArray[np.int64] = integers.sum(axis=1)
        return {"people": np.array([batch.people], np.int64), "sums": sums}

    def members(self, batch: Batch) -> Members:
        """Return, per variable, who has a value."""
        masks: dict[str, NDArray[np.bool_]] = {}
        for variable in self.variables:
            values = batch.numbers.get(variable.name)
            has = np.zeros(batch.people, np.bool_) if values is None else ~np.isnan(values)
            masks[set_name(self.name, variable.name)] = has
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the numbers as they are."""
        found: dict[str, NDArray[np.int64]] = {}
        for row, variable in enumerate(self.variables):
            count, total = self._blocks(variable)
            found[count] = state["people"].astype(np.int64)
            found[total] = state["sums"][row : row + 1].astype(np.int64)
        return found

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return one part of all sums together, and the public numbers of people."""
        if adjacency == "add_or_remove":
            raise StudyFileError(
                f"analysis {self.name}: moments: 1 divides by a number of people that is not public when people may be added or "
                "removed; write moments: 2"
            )
        counts, totals = zip(*map(self._blocks, self.variables), strict=True)
        norm = sqrt(len(self.variables))
        l2 = 2.0 * (norm if self.clip is None else min(self.clip, norm))
        return Part(totals, l2, len(self.variables)), Part(counts, 0.0, 0, 0.0)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Refuse: without noise the means of who has a value cost nothing more."""
        raise StudyFileError(f"analysis {self.name}: moments: 1 needs noise; write moments: 2")

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, one row per variable."""
        rows = tuple((variable.name, *self._row(noisy, variable)) for variable in self.variables)
        notes = [
            "The means are of everybody in the cohort at the sites that have the variable; who has no value counts as the middle of "
            "the public range. low and high are 95 % limits from the noise alone."
        ]
        if self.clip is not None:
            notes.append(
                f"Normalised values of a person whose norm exceeds {self.clip:g} half-ranges were shortened to it; the bias toward "
                "the middle of the ranges is in no interval."
            )
        return (
            Table(self.name, "summary", ("variable", *SUMMARY_COLUMNS, *NOISED_COLUMNS), rows, tuple(notes)),
        )

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of every mean."""
        per = len(self.variables)
        return tuple(
            forecast_mean(variable, "", sd[self._blocks(variable)[1]], people, per)
            for variable in self.variables
        )

    def _row(self, noisy: Noisy, variable: Number) -> tuple[Cell, ...]:
        """Return n, missing, mean, sd, mean_noise_se, status, variance, mean_se, low and high."""
        count, total = self._blocks(variable)
        people, sums = noisy.of(count), noisy.of(total)
        if people is None or sums is None:
            withheld = Absent(Status.TOO_FEW_SITES)
            return (withheld,) * 5 + (Status.TOO_FEW_SITES.value,) + (withheld,) * 4
        half, n = variable.half_width, round(float(people[0]))
        mean = variable.middle + half * min(max(float(sums[0]) / n, -1.0), 1.0)
        noise = half * noisy.sd[total] / n
        limit = NORMAL_95 * noise
        return (
            *(n, NO_DATA, mean, NO_DATA, noise, Status.OK.value, NO_DATA, NO_DATA),
            *(mean - limit, mean + limit),
        )

    def _blocks(self, variable: Number) -> tuple[str, str]:
        """Return the names of the blocks of a variable: people, and the sum."""
        return f"{self.name}/{variable.name}/everybody", f"{self.name}/{variable.name}/sum"
