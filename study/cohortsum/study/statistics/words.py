"""Numbers in two words: what the grid rounds off one number travels in a second.

A sum over sites that has to serve a sharp site and a blunt one alike may need more digits than one 64-bit word holds. The first
word is the value on the grid; the second the remainder, at most half a unit of the first, on a grid as fine again. Both add up.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.interface import to_grid

REST_BOUND = 0.5
"""Greatest magnitude of a remainder, in units of the first word."""


def in_words(values: NDArray[np.float64], fraction_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``values`` as multiples of 2**-fraction_bits, and the remainders as multiples of 2**(-2 fraction_bits)."""
    first = to_grid(values, fraction_bits)
    rest = np.ldexp(values - np.ldexp(first.astype(np.float64), -fraction_bits), fraction_bits)  # exact
    return first, to_grid(rest, fraction_bits)


def from_words(first: Sequence[int], rest: Sequence[int] | None, fraction_bits: int) -> list[Fraction]:
    """Return the sums behind added words; without ``rest`` the first words are all there is."""
    second = [0] * len(first) if rest is None else rest
    return [
        Fraction((int(a) << fraction_bits) + int(b), 1 << 2 * fraction_bits)
        for a, b in zip(first, second, strict=True)
    ]
