"""Numbers that one round hands to the next, made equal on every machine.

Every site and the coordinator derive them from the same integers, but processors and libraries may differ in the last bits
of a float64. Rounding to `BITS` bits makes such differences vanish, save for a value that lies on a border of rounding.
"""

import numpy as np
from numpy.typing import NDArray

BITS = 40
"""Bits kept of 53: a relative error of at most 2**-40, far below what an estimate is right to."""


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` with their mantissas rounded to `BITS` bits; 0 stays 0."""
    mantissas, exponents = np.frexp(values)
    kept: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(mantissas, BITS)), exponents - BITS)
    return kept
