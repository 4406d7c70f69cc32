"""A normative model that has been fitted: mean and spread of every outcome for a person of given age, sex and so on.

Both are linear in the same normalised columns. Where each site centred its own people, the mean at a grid point is that of a
person of an average site: the level is that of all people, mean y less b times mean x. A site's own people are judged
against its own level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Design
from cohortsum.study.statistics.distributions import normal_quantile
from cohortsum.study.statistics.estimates import Estimate
from cohortsum.study.statistics.interface import Local
from cohortsum.study.statistics.units import clipped, normalised
from cohortsum.study.variables import Number

Floats = NDArray[np.float64]
Grid = tuple[tuple[str, ...], tuple[tuple[str | float, ...], ...], Batch]
"""Names of the grid's columns, its points as they are written, and the same as people."""


@dataclass(frozen=True, slots=True)
class Norms(Local):
    """Mean and spread of outcomes.

    Attributes:
        design: the columns.
        outcomes: what is modelled.
        slopes: (outcomes, columns) float64 of the normalised outcome.
        levels: (outcomes,) float64, the normalised outcome where all columns are 0; of the site, or of all people.
        spread_slopes: (outcomes, columns) float64 of the standard deviation, in half widths of the outcome.
        spread_levels: (outcomes,) float64, likewise.
        statuses: what became of each outcome.
    """

    design: Design
    outcomes: tuple[Number, ...]
    slopes: Floats
    levels: Floats
    spread_slopes: Floats
    spread_levels: Floats
    statuses: tuple[Status, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the outcomes: what a site keeps per person is a z-score of each."""
        return tuple(outcome.name for outcome in self.outcomes)

    def mean(self, batch: Batch) -> Floats:
        """Return the normalised mean of every outcome for every person, (people, outcomes) float64."""
        return self._linear(batch, self.slopes, self.levels)

    def spread(self, batch: Batch) -> Floats:
        """Return the standard deviation likewise, in half widths; NaN where the model gives none above 0."""
        spread = self._linear(batch, self.spread_slopes, self.spread_levels)
        return np.where(spread > 0.0, spread, np.nan)

    def values(self, batch: Batch) -> Floats:
        """Return the z-scores of a batch, (people, outcomes) float64; NaN where there is none."""
        everybody = np.arange(batch.people)
        z = np.full((batch.people, len(self.outcomes)), np.nan)
        mean, spread = self.mean(batch), self.spread(batch)
        for place, (outcome, status) in enumerate(zip(self.outcomes, self.statuses, strict=True)):
            if status is Status.OK:
                y = normalised(clipped(batch, outcome, everybody), outcome.middle, outcome.half_width)
                z[:, place] = (y - mean[:, place]) / spread[:, place]
        return z

    def _linear(self, batch: Batch, slopes: Floats, levels: Floats) -> Floats:
        x = self.design.values(batch, np.arange(batch.people))
        values = np.broadcast_to(levels, (batch.people, len(levels))).copy()
        for column, slope in zip(
            x.T, slopes.T, strict=True
        ):  # in one order: the size of a batch changes no digit
            values += column[:, np.newaxis] * slope
        return values


def absolute_factor() -> float:
    """Return the standard deviation of a normal variable over the mean of its magnitude, sqrt(pi / 2)."""
    return sqrt(pi / 2.0)


def intercept_of(found: Estimate, means: Floats | None) -> float:
    """Return mean y less slopes times mean x, of the normalised columns; 0 where there is no model."""
    return (
        0.0
        if found.failure is not None or means is None
        else float(means[-1] - np.sum(found.slopes * means[:-1]))
    )


def centile_table(
    analysis: str,
    norms: Norms,
    grid: Grid,
    centiles: Sequence[int],
    people: Sequence[int | None],
    notes: tuple[str, ...],
) -> Table:
    """Return one row per outcome and grid point: mean, standard deviation, centiles of the normal law, n."""
    names, points, batch = grid
    columns = ("outcome", *names, "mean", "sd", *(f"p{centile:02d}" for centile in centiles), "n", "status")
    quantiles = [normal_quantile(centile / 100.0) for centile in centiles]
    means, spreads = norms.mean(batch), norms.spread(batch)
    rows: list[tuple[Cell, ...]] = []
    for place, (outcome, status) in enumerate(zip(norms.outcomes, norms.statuses, strict=True)):
        n: Cell = NO_DATA
        if people[place] is not None:
            n = people[place] or 0
        for row, point in enumerate(points):
            here, sd = status, float(spreads[row, place]) * outcome.half_width
            if here is Status.OK and not sd > 0.0:
                here = Status.NOT_ESTIMABLE
            if here is not Status.OK:
                reason = Absent(here.value) if here is Status.TOO_FEW_SITES else NO_DATA
                known = reason if here is Status.TOO_FEW_SITES else n
                rows.append((outcome.name, *point, *(reason,) * (2 + len(quantiles)), known, here.value))
                continue
            mean = outcome.middle + outcome.half_width * float(means[row, place])
            values = [mean + quantile * sd for quantile in quantiles]
            rows.append((outcome.name, *point, mean, sd, *values, n, here.value))
    return Table(analysis, "normative", columns, tuple(rows), notes)
