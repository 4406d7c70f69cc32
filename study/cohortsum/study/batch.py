"""A batch of people: what a reader hands to the statistics.

A batch never leaves the site. Its repr shows shapes only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Values of some people, one entry per person in every array.

    Attributes:
        people: number of people.
        numbers: (people,) float64 by variable name, in the study's unit; NaN is missing, never infinite.
        levels: (people,) int16 by factor name, the index into ``Factor.levels``; -1 is missing.
    """

    people: int
    numbers: Mapping[str, NDArray[np.float64]] = field(repr=False)
    levels: Mapping[str, NDArray[np.int16]] = field(repr=False)
