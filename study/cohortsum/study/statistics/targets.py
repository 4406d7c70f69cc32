"""Outcomes and offsets of generalised linear models, in scaled units.

An outcome is 1 at the level that is the event and 0 at the others, or a count over its public upper end. An offset is counted
from its public upper end, so that its exponential is a share of at most 1; the intercept takes what is left.
"""

from dataclasses import dataclass
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.families import entropy
from cohortsum.study.statistics.units import clipped
from cohortsum.study.variables import Factor, Number

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Event:
    """One level of a factor against all others."""

    factor: Factor
    level: str

    @property
    def name(self) -> str:
        """The name in result tables, for example ``dx[autism]``."""
        return self.factor.level_name(self.level)

    @property
    def unit(self) -> float:
        """What 1 stands for."""
        return 1.0

    @property
    def items(self) -> frozenset[str]:
        """What a site must supply; every site has the factor."""
        return frozenset()

    @property
    def levels(self) -> tuple[str, ...]:
        """The items of the levels, each of which enough sites must have."""
        return tuple(self.factor.level_name(level) for level in self.factor.levels)

    def values(self, batch: Batch, people: NDArray[np.intp]) -> Floats:
        """Return 1 for an event, 0 for another level, NaN where there is none."""
        levels = batch.levels[self.factor.name][people]
        return np.where(levels < 0, np.nan, levels == self.factor.levels.index(self.level))


@dataclass(frozen=True, slots=True)
class Count:
    """A number from 0 upwards."""

    number: Number

    @property
    def name(self) -> str:
        """The name in result tables."""
        return self.number.name

    @property
    def unit(self) -> float:
        """What 1 stands for: the public upper end."""
        return self.number.upper

    @property
    def items(self) -> frozenset[str]:
        """What a site must supply."""
        return frozenset({self.number.name})

    @property
    def levels(self) -> tuple[str, ...]:
        """A count has no levels."""
        return ()

    def values(self, batch: Batch, people: NDArray[np.intp]) -> Floats:
        """Return the counts over the upper end, in [0, 1]; NaN where there is none."""
        return np.clip(clipped(batch, self.number, people) / self.unit, 0.0, 1.0)

    @property
    def least_saturated(self) -> float:
        """The saturated log-likelihood of the highest count, which is the least one."""
        return self.unit * log(self.unit) - self.unit - lgamma(self.unit + 1.0)

    def saturated(self, values: Floats) -> Floats:
        """Return the log-likelihood of counts whose means they are, y log y - y - log y!, over its least; in [0, 1]."""
        counts = values * self.unit
        factorials = np.array([lgamma(count + 1.0) for count in counts.tolist()], np.float64)
        likelihood = counts * np.log(np.where(counts > 0.0, counts, 1.0)) - counts - factorials
        return np.clip(likelihood / self.least_saturated, 0.0, 1.0)


Target = Event | Count


@dataclass(frozen=True, slots=True)
class Shift:
    """A number that is added to the linear predictor, or whose logarithm is."""

    number: Number
    logged: bool

    @property
    def highest(self) -> float:
        """The greatest shift in natural units, from which it is counted."""
        return log(self.number.upper) if self.logged else self.number.upper

    @property
    def width(self) -> float:
        """How far the least shift lies below the greatest."""
        lowest = log(self.number.lower) if self.logged else self.number.lower
        return self.highest - lowest

    def values(self, batch: Batch, people: NDArray[np.intp]) -> Floats:
        """Return the shifts below the greatest, in [-width, 0]; NaN where there is none."""
        natural = clipped(batch, self.number, people)
        return np.clip((np.log(natural) if self.logged else natural) - self.highest, -self.width, 0.0)


def null_deviances(values: Floats, shifts: Floats, width: float) -> Floats:
    """Return v log v - v s over max(1, width): what the deviance of the model of an intercept alone is made of."""
    return np.clip((entropy(values) - values * shifts) / max(1.0, width), -1.0, 1.0)


def exponentials(shifts: Floats) -> Floats:
    """Return exp(s), at most 1."""
    return np.minimum(np.exp(shifts), exp(0.0))
