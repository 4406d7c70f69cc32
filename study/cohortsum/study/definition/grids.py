"""The public grid of a number: the values that a committee tells apart, as whole steps above the lower end of the range.

Level 0 is the lower end of the number's range, and the last level reaches its upper end or passes it by less than a step. A value stands
for the nearest level. Levels are counted in decimals as they are written, so that the values of a table that was written with as many
decimals are found again digit by digit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.definition.fields import as_written
from cohortsum.study.variables import Number

MOST_LEVELS = 2**31
"""Beyond this a step is lost in the digits of the values."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of one number.

    Attributes:
        variable: with its public range.
        step: between two levels, in the variable's unit; above 0.
    """

    variable: Number
    step: float

    @property
    def levels(self) -> int:
        """How many there are."""
        reach = as_written(self.variable.upper) - as_written(self.variable.lower)
        return -int(-reach // as_written(self.step)) + 1

    def value(self, level: int) -> float:
        """Return what a level stands for: the nearest double to its decimal."""
        return float(as_written(self.variable.lower) + level * as_written(self.step))

    def places(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the level of each value, int64; values lie within the range, and none is missing."""
        nearest = np.rint((values - self.variable.lower) / self.step)
        return np.clip(nearest, 0, self.levels - 1).astype(np.int64)
