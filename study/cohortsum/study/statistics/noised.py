"""What a statistic declares so that noise can be put on it, and what it gets back.

A statistic under noise says for each *part* (blocks that share a grid) how far one person can move all their numbers together: the
L2 norm of the difference between two cohorts that differ in one person's values (replace one; the number of people is public), or
in one person more (add or remove). The bound is over everything a person's record can hold, missing values and membership of a
subgroup included, and is proven in the statistic's own module. No part: no noise is known to suffice, and the analysis is refused.

A site rounds its exact sums once to the part's grid. Two sums that differ by x units then differ by less than x + 1 after rounding,
so every number that a person can change adds one unit: the sensitivity in units is at most ``l2 / unit + sqrt(touched)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Part:
    """Blocks whose numbers one person changes together.

    Attributes:
        blocks: their names.
        l2: the greatest L2 norm of that change, in the blocks' own units; 0 where neighbours share the numbers because the study
            declares them public: they are sent as they are.
        touched: how many numbers it can change at most.
        share: of the analysis's budget; the shares of its parts add up to 1, and what is public has none.
        rate: probability with which a person is in the sums, secretly and independently of others; below 1 ``l2`` is the norm of
            what one person adds, whatever the neighbours are.
    """

    blocks: tuple[str, ...]
    l2: float
    touched: int
    share: float = 1.0
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Noisy:
    """Opened sums under noise.

    Attributes:
        values: by block, (size,) float64 in the block's own units; exact multiples of the grid.
        sd: by block, the standard deviation of the noise in each of its numbers, in the same units.
        people: of the cohort at the sites in the sum; exact.
        sites: how many sites are in the sum.
    """

    values: Mapping[str, NDArray[np.float64]]
    sd: Mapping[str, float]
    people: int
    sites: int

    def of(self, block: str) -> NDArray[np.float64] | None:
        """Return the sums of a block, or None where it had too few suppliers."""
        return self.values.get(block)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What noise would do to one number of the results, or to several alike.

    Attributes:
        what: the number, in words: ``mean of age, sex[F]``.
        unit: of the two errors.
        noise_se: standard error that the noise adds.
        sampling_se: standard error that the number has without noise.
        per: how many numbers of the analysis share its budget alike: with half as many the noise is 0.71 of this.
    """

    what: str
    unit: str
    noise_se: float
    sampling_se: float
    per: int

    @property
    def ratio(self) -> float:
        """Noise beside sampling error; the study counts as one of ``1 / (1 + ratio**2)`` of its people."""
        return self.noise_se / self.sampling_se
