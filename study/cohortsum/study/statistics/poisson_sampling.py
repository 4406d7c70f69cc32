"""Secret samples: every person is in with the same probability, by a coin of his own.

What such a sample amplifies (`cohortsum.study.privacy.subsampled`, `sampled_replace`) rests on three things. The coins are independent
and everybody's has the same chance; nobody outside the site learns who was in, or how many; and no coin is thrown twice. The coins are
words of a keystream under a fresh key of the operating system's generator, compared with a whole number: the chance is the study's
rate rounded down to a multiple of 2**-64, exactly.
"""

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.noise import NoiseStream

WORD = 2**64


def sampled(people: int, rate: float, stream: NoiseStream) -> NDArray[np.bool_]:
    """Return who is in the sample, (people,) bool; ``rate`` is above 0 and at most 1."""
    if rate == 1.0:
        return np.ones(people, np.bool_)
    least = int(rate * WORD)  # exact: a product with a power of two, cut off
    mask: NDArray[np.bool_] = stream.words(people) < np.uint64(least)
    return mask
