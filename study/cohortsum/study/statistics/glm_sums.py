"""What a site adds for one outcome of a generalised linear model: every person's values, on the grid, added as integers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.design import Design
from cohortsum.study.statistics.families import Family
from cohortsum.study.statistics.interface import State, to_grid
from cohortsum.study.statistics.products import pairs
from cohortsum.study.statistics.targets import Count, Shift, Target, exponentials, null_deviances
from cohortsum.study.statistics.units import Where, selected

CELLS = 2**21
"""Products held at once: 16 MB of float64."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some people who have every covariate and the offset.

    Attributes:
        people: their positions in the batch.
        x: (people, coefficients) float64, a 1 for the intercept and the normalised columns.
        shifts: (people,) float64, the offset below its public upper end; 0 without one.
    """

    people: NDArray[np.intp]
    x: Floats
    shifts: Floats

    def where(self, kept: NDArray[np.bool_]) -> "Rows":
        """Return the rows that are kept."""
        return Rows(self.people[kept], self.x[kept], self.shifts[kept])


def rows_of(batch: Batch, design: Design, shift: Shift | None, where: Where | None) -> Iterator[Rows]:
    """Yield the people who have every covariate and the offset, in runs of bounded size; at least one, maybe empty."""
    people = selected(batch, where)
    x = np.hstack((np.ones((len(people), 1)), design.values(batch, people)))
    shifts = np.zeros(len(people)) if shift is None else shift.values(batch, people)
    rows = Rows(people, x, shifts).where(~np.isnan(x).any(axis=1) & ~np.isnan(shifts))
    width = x.shape[1]
    step = max(1, CELLS // (width * (width + 1) // 2))
    for begin in range(0, max(len(rows.people), 1), step):
        run = slice(begin, begin + step)
        yield Rows(rows.people[run], rows.x[run], rows.shifts[run])


@dataclass(frozen=True, slots=True)
class Adding:
    """How the values of one outcome are formed.

    Attributes:
        target: the outcome.
        family: its family.
        shift: the offset, if there is one.
        beta: the coefficients at which weights and means are taken; None in the first round.
        fraction_bits: the grid.
    """

    target: Target
    family: Family
    shift: Shift | None
    beta: tuple[float, ...] | None
    fraction_bits: int

    def sums(self, batch: Batch, rows: Rows) -> State:
        """Return the sums over ``rows`` by part, and ``weights``: the sum of the weights and of their squares, float64."""
        y = self.target.values(batch, rows.people)
        present = ~np.isnan(y)
        y, rows = y[present], rows.where(present)
        exposures = exponentials(rows.shifts)
        weights, bound, residuals, fit = exposures, 1.0, y, np.zeros((len(y), 2))
        if self.beta is not None:
            weights, residuals, fit = self._at(self.beta, y, rows)
            bound = self.family.weight
        totals = np.zeros((len(y), 4))
        if isinstance(self.target, Count):
            width = 0.0 if self.shift is None else self.shift.width
            of_null = null_deviances(y, rows.shifts, width)
            totals = np.column_stack((y, exposures, of_null, self.target.saturated(y)))
        people: Integers = np.array((len(y), np.count_nonzero(y == 1.0)), np.int64)
        moments: Floats = np.array((weights.sum(), (weights * weights).sum()), np.float64)
        return {
            "people": people,
            "information": self._added((weights / bound)[:, np.newaxis] * pairs(rows.x)),
            "score": self._added(residuals[:, np.newaxis] * rows.x),
            "totals": self._added(totals),
            "fit": self._added(fit),
            "weights": moments,
        }

    def _at(self, beta: Sequence[float], y: Floats, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return weights, residuals over their bound, and deviances over theirs beside who is at the clip."""
        family, predictor = self.family, rows.shifts
        for column, coefficient in zip(rows.x.T, beta, strict=True):
            predictor = predictor + column * coefficient
        inside = np.clip(predictor, family.lowest, family.highest)
        means = family.means(inside)
        residuals = np.clip((y - means) / family.residual, -1.0, 1.0)
        deviances = family.deviances(y, inside, means) / family.deviance
        return family.weights(inside, means), residuals, np.column_stack((deviances, inside != predictor))

    def _added(self, values: Floats) -> Integers:
        """Return the sums over people of values on the grid."""
        summed: Integers = to_grid(values, self.fraction_bits).sum(axis=0)
        return summed


def stacked(states: Sequence[State]) -> State:
    """Return the states of several outcomes as one, with a row per outcome."""
    found: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {}
    for name in states[0]:
        rows = [state[name] for state in states]
        found[name] = np.array(rows, np.float64) if rows[0].dtype == np.float64 else np.array(rows, np.int64)
    return found
