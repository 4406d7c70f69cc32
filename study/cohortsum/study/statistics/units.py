"""From a batch to normalised values: the one place where a value meets its public range.

Every statistic works on ``u = (value - middle) / half_width``. The reader has clamped already; values are clipped here
again, because the proof that no sum wraps must not rest on another room, and because the division may end one unit in
the last place above 1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.variables import Number

Where = Callable[[Batch], NDArray[np.bool_]]
"""A subgroup: which people of a batch an analysis is about, (people,) bool."""


def selected(batch: Batch, where: Where | None) -> NDArray[np.intp]:
    """Return the positions of the people an analysis is about, ascending."""
    return np.arange(batch.people) if where is None else np.flatnonzero(where(batch))


def clipped(batch: Batch, number: Number, people: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the values of ``number`` for ``people`` within its public range, float64; NaN is missing.

    A column that the site does not have is missing for everybody; the site then supplies no block of it.
    """
    values = batch.numbers.get(number.name)
    if values is None:
        return np.full(len(people), np.nan)
    return np.clip(values[people], number.lower, number.upper)


def normalised(values: NDArray[np.float64], middle: float, half_width: float) -> NDArray[np.float64]:
    """Return ``values`` as multiples of ``half_width`` around ``middle``, within [-1, 1]; NaN stays NaN."""
    return np.clip((values - middle) / half_width, -1.0, 1.0)
