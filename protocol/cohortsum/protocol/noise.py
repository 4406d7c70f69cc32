"""Noise that every site adds to its own numbers before it masks them, and what it is worth.

A round under noise falls into *parts*: blocks on one grid whose numbers one person changes together, by at most Delta in L2
norm (grid units). Over the sum of h independent discrete Gaussians N_Z(0, s^2) such a part satisfies rho-zCDP with

    rho = Delta^2 / (2 h s^2)

(Canonne, Kamath and Steinke 2020 for one of them; Kairouz, Liu and Steinke 2021, Proposition 14, for a sum: what it adds is below
exp(-600) wherever s is at least 4 grid units). Under *distributed* noise h is how many honest sites every opened sum holds at
least, ``threshold(n1) - c`` for the n1 sites that really take part, so that it is known only in the round; under *local* noise
every site stands for itself, h = 1. Each site takes the least whole s with which the part's rho is not even reached, in integers.

Where people may be added or removed, the number of people is data as well: it carries noise in the vector and, a second time, at the
gate, each on a grid and with a charge of its own.

If the masks failed, a reader of one site's vector would face that site's own noise alone: h times the rho.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.noise import NoiseStream, discrete_gaussian
from cohortsum.protocol.bounds import Protection, allowed_sizes, threshold

NANO = 10**9
"""Budgets are whole billionths of rho: sums of them are exact."""
LEAST_SIGMA = 4
"""Below it a sum of discrete Gaussians is not close enough to one."""
MOST_SIGMA = 4000
"""The grid is chosen so that no site needs more; the sampler is exact and fast up to there."""
TAIL = 24
"""A draw beyond this many standard deviations has a probability below 1e-124; bounds that prove no wrap rest on it."""

Placement = Literal["distributed", "local"]
Adjacency = Literal["replace_one", "add_or_remove"]
"""Neighbouring cohorts: one person has other values, or one person is there or not."""


@dataclass(frozen=True, slots=True)
class NoisePart:
    """Blocks that share a grid and a charge.

    Attributes:
        blocks: their names.
        squared: upper bound on the squared L2 norm of what one person changes in all of them, in grid units.
        nano_rho: what one opening of the part may cost, in billionths of rho.
    """

    blocks: tuple[str, ...]
    squared: int
    nano_rho: int

    def sigma(self, honest: int) -> int:
        """Return the standard deviation of a site's noise, in grid units, where ``honest`` sites' noise is in the sum."""
        return 1 + isqrt(self.squared * NANO // (2 * self.nano_rho * honest))


@dataclass(frozen=True, slots=True)
class NoisedCount:
    """A number of people under noise: its part, and how many units of the grid are one person."""

    part: NoisePart
    levels: int


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """The noise of one round.

    Attributes:
        placement: how many sites' noise a claim rests on.
        adjacency: what the claim is about: one person's values replaced, or one person more or less.
        parts: every block is in one of them, but for the number of people and what is public.
        public: blocks that neighbours share by the study's own declaration, and that are sent as they are.
        people: the first block, where people may be added or removed; None where their number is public.
        gate: the count at the gate, likewise.
    """

    placement: Placement
    adjacency: Adjacency
    parts: tuple[NoisePart, ...]
    public: tuple[str, ...] = ()
    people: NoisedCount | None = None
    gate: NoisedCount | None = None

    @property
    def vector(self) -> tuple[NoisePart, ...]:
        """Return the parts of what travels in the vector."""
        return self.parts if self.people is None else (self.people.part, *self.parts)

    @property
    def nano_rho(self) -> int:
        """What one opening of the round costs every person in it."""
        gate = 0 if self.gate is None else self.gate.part.nano_rho
        return gate + sum(part.nano_rho for part in self.vector)

    def honest(self, advertised: int, protection: Protection) -> int:
        """Return how many sites' noise is in every sum that opens, where ``advertised`` sites take part."""
        return 1 if self.placement == "local" else threshold(advertised) - protection.max_colluding_sites

    def bounds(self, invited: int, protection: Protection) -> dict[str, int]:
        """Return the greatest magnitude of one site's noise in each block, whatever number of sites takes part.

        Raises:
            ConfigurationError: some number of sites would need noise on a grid that is too coarse or too fine.
        """
        sizes = {self.honest(size, protection) for size in allowed_sizes(invited, protection)}
        found: dict[str, int] = {}
        for part in (*self.vector, *(() if self.gate is None else (self.gate.part,))):
            least, most = part.sigma(max(sizes)), part.sigma(min(sizes))
            if least < LEAST_SIGMA or most > MOST_SIGMA:
                raise ConfigurationError(
                    f"block {part.blocks[0]}: a site's noise would be {least} to {most} grid units; expected {LEAST_SIGMA} to "
                    f"{MOST_SIGMA}: choose another epsilon, fewer numbers or another number of sites"
                )
            found |= dict.fromkeys(part.blocks, TAIL * most)
        return found

    def encoded(self) -> bytes:
        """Return what the digest of a round's plan covers."""
        counts = (
            b"" if count is None else encode(number(count.levels), _encoded(count.part))
            for count in (self.people, self.gate)
        )
        public = encode(*(name.encode() for name in self.public))
        named = (self.placement.encode(), self.adjacency.encode())
        return encode(*named, public, *counts, *map(_encoded, self.parts))


def _encoded(part: NoisePart) -> bytes:
    names = encode(*(name.encode() for name in part.blocks))
    return encode(number(part.squared), number(part.nano_rho), names)


def draw_noise(
    plan: NoisePlan, blocks: Sequence[tuple[str, int]], honest: int, stream: NoiseStream
) -> NDArray[np.int64]:
    """Return one site's noise for the blocks that travel, in their order; zeros where none is due.

    Args:
        plan: of the round.
        blocks: name and size of every block that travels.
        honest: as `NoisePlan.honest` says.
        stream: fresh for this attempt; noise is never used twice.
    """
    due = {name: part.sigma(honest) for part in plan.vector for name in part.blocks}
    sigmas = np.repeat([due.get(name, 0) for name, _ in blocks], [size for _, size in blocks])
    noise = np.zeros(len(sigmas), np.int64)
    for sigma in np.unique(sigmas[sigmas > 0]):
        here = sigmas == sigma
        noise[here] = discrete_gaussian(int(sigma), int(np.count_nonzero(here)), stream)
    return noise


def draw_gate_noise(plan: NoisePlan, honest: int, stream: NoiseStream) -> int:
    """Return one site's noise for the count at the gate, in units of its grid; 0 where none is due."""
    return 0 if plan.gate is None else int(discrete_gaussian(plan.gate.part.sigma(honest), 1, stream)[0])
