"""The plan of a round: how long the vector is, what bounds every number, who supplies which block.

The study room builds one plan from a study file; both daemons and the offline verifier build it again and compare. The
protocol moves vectors on the ring of integers modulo 2**64 and never learns what a mean is.

No wrap: a sum of N people, each adding at most b grid units to a number, stays inside the signed range while
``N_max * b + n_sites * (1 + w) < 2**63``: per site one more unit for the one rounding of site blocks, and w for the noise it may add
(`noise`). In two-key mode the ring has the plaintext prime p of the encryption in the place of 2**64, and its half is p // 2. A plan
that breaks this is refused when it is made, and the opened number of people is compared with N_max before anything else is believed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.bfv import Parameters
from cohortsum.crypto.encoding import digest, encode, number
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.bounds import Protection
from cohortsum.protocol.noise import NoisePlan

PLAN = "cohortsum/v1/plan"
GATE_LENGTH = 1
WORD_BITS = 64
LONG_BLOCKS = 256
"""Mean block length beyond which blocks are compared one by one, which copies nothing."""


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A run of numbers with one bound and one set of suppliers.

    Attributes:
        name: unique in the plan.
        size: how many numbers.
        unit_bound: greatest magnitude, in grid units, that one person (or one site) adds to one number.
        per: whether the bound is per person or per site.
        supply: groups of supply items; a site supplies the block if it supplies every item of the first group, and every
            group must keep enough sites that supply all its items.
    """

    name: str
    size: int
    unit_bound: int
    per: Literal["person", "site"]
    supply: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Everything a round must agree on besides its identifiers.

    Attributes:
        study_digest: digest of the signed study, 32 bytes.
        roster_digest: digest of the roster the study names, 32 bytes.
        epoch: label of the data epoch.
        sites_invited: number of sites of the roster, for the no-wrap proof.
        protection: the study's thresholds.
        blocks: the blocks in the order they travel; the first holds the number of people, alone.
        items: every supply item, sorted; a site signs yes or no for each.
        seen: whether sites may see the opened sums and recompute them, because another round or their own rows need them.
        iteration: 1 for the first round of a study.
        parameters: digest of the numbers that an iteration depends on, 32 bytes; empty in the first.
        noise: what every site adds before it masks, or None.
        encryption: under which every site encrypts what it has masked (two-key mode), or None.
        noise_bounds: by block, the greatest magnitude of one site's noise; blocks that have none are absent.
        length: how many numbers all blocks hold.
        digest: SHA-256 over everything above: two builders of one study must agree on it.
    """

    study_digest: bytes
    roster_digest: bytes
    epoch: str
    sites_invited: int
    protection: Protection
    blocks: tuple[PlannedBlock, ...]
    items: tuple[str, ...]
    seen: bool = False
    iteration: int = 1
    parameters: bytes = b""
    noise: NoisePlan | None = None
    encryption: Parameters | None = None
    noise_bounds: Mapping[str, int] = field(init=False, repr=False, compare=False)
    length: int = field(init=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prove that no number can wrap and that noise covers every number it must, or refuse the plan."""
        object.__setattr__(self, "noise_bounds", self._noise_bounds())
        if self.seen and self.encryption is not None:
            raise ConfigurationError(
                "two_key serves analyses of one round: sites cannot decrypt, so they cannot recompute the sums that a further round "
                "or their own rows need; write mode: masking for these"
            )
        half = self.modulus // 2 + 1 if self.modulus else 2 ** (WORD_BITS - 1)
        people = self.protection.max_participants + self.people_slack
        for block in self.blocks:
            most = people if block.per == "person" else self.sites_invited
            site = 1 + self.noise_bounds.get(block.name, 0)
            if most * block.unit_bound + self.sites_invited * site >= half:
                ring = self.modulus or f"2**{WORD_BITS}"
                raise ConfigurationError(
                    f"block {block.name}: the sum of max_participants {self.protection.max_participants} could wrap "
                    f"modulo {ring}; lower max_participants or narrow the variable's range"
                )
        object.__setattr__(self, "length", sum(block.size for block in self.blocks))
        object.__setattr__(self, "digest", self._digest())

    def _noise_bounds(self) -> Mapping[str, int]:
        if self.noise is None:
            return {}
        covered = [*self.noise.public, *(name for part in self.noise.vector for name in part.blocks)]
        people_too = self.noise.adjacency == "add_or_remove"
        blocks = self.blocks if people_too else self.blocks[1:]
        counted = people_too is (self.noise.people is not None) is (self.noise.gate is not None)
        if not counted or sorted(covered) != sorted(block.name for block in blocks):
            raise ConfigurationError(
                "the noise of a round must cover every block but what is public, each once; the number of people, there and at "
                "the gate, where people may be added or removed"
            )
        return self.noise.bounds(self.sites_invited, self.protection)

    @property
    def modulus(self) -> int:
        """The prime modulo which data are masked in two-key mode; 0 for 2**64."""
        return 0 if self.encryption is None else self.encryption.modulus

    def upload_words(self, blocks: Iterable[PlannedBlock]) -> int:
        """Return how many words every site uploads where these blocks travel."""
        length = sum(block.size for block in blocks)
        return length if self.encryption is None else self.encryption.words(length)

    @property
    def people_levels(self) -> int:
        """Units of the first block that are one person."""
        return 1 if self.noise is None or self.noise.people is None else self.noise.people.levels

    @property
    def gate_levels(self) -> int:
        """Units of the count at the gate that are one person."""
        return 1 if self.noise is None or self.noise.gate is None else self.noise.gate.levels

    @property
    def people_slack(self) -> int:
        """By how many people the opened number of people may be off; 0 without noise in it."""
        if not self.noise_bounds:
            return 0
        noise = self.noise_bounds.get(self.blocks[0].name, 0)
        return -(-self.sites_invited * noise // self.people_levels)

    def people_of(self, opened: int) -> int:
        """Return the number of people behind the opened first block: rounded, where it carries noise."""
        return (2 * opened + self.people_levels) // (2 * self.people_levels)

    def _digest(self) -> bytes:
        parts = [
            encode(
                block.name.encode(),
                number(block.size),
                number(block.unit_bound),
                block.per.encode(),
                *(encode(*(item.encode() for item in sorted(group))) for group in block.supply),
            )
            for block in self.blocks
        ]
        bounds = self.protection
        numbers = (
            self.sites_invited,
            bounds.min_sites,
            bounds.min_participants,
            bounds.max_participants,
            bounds.min_participants_per_site,
            bounds.max_colluding_sites,
            bounds.min_honest_inputs,
            bounds.max_attempts,
        )
        return digest(
            PLAN,
            self.study_digest,
            self.roster_digest,
            self.epoch.encode(),
            encode(*map(number, numbers)),
            encode(*(item.encode() for item in self.items)),
            *parts,
            *((encode(number(self.iteration), self.parameters),) if self.seen else ()),
            *(() if self.noise is None else (self.noise.encoded(),)),
            *(() if self.encryption is None else (encode(b"two_key", self.encryption.encode()),)),
        )

    def kept(self, supplies: Mapping[int, frozenset[str]]) -> tuple[PlannedBlock, ...]:
        """Return the blocks with enough suppliers among the approving sites, in order.

        Args:
            supplies: the items every approving site signed, by roster index.
        """
        suppliers = Suppliers(supplies)
        minimum = self.protection.suppliers_minimum
        return tuple(block for block in self.blocks if suppliers.least(block) >= minimum)

    def travelling(
        self, supplies: Mapping[int, frozenset[str]], unchanged: frozenset[str]
    ) -> tuple[PlannedBlock, ...]:
        """Return what travels: the kept blocks but those that an earlier round opened unchanged; the first always does.

        Args:
            supplies: the items every approving site signed, by roster index.
            unchanged: names of blocks that an earlier round opened.
        """
        kept = self.kept(supplies)
        return tuple(block for block in kept if block is self.blocks[0] or block.name not in unchanged)


class Suppliers:
    """Counts who supplies what among some sites.

    Sites are bits of an integer, one integer per item: a study has thousands of blocks over few distinct items.

    Args:
        supplies: the items every site signed, by roster index.
    """

    def __init__(self, supplies: Mapping[int, frozenset[str]]) -> None:
        self._everyone = (1 << len(supplies)) - 1
        self._holders: dict[str, int] = {}
        for bit, items in enumerate(supplies.values()):
            for item in items:
                self._holders[item] = self._holders.get(item, 0) | 1 << bit
        self._known: dict[tuple[frozenset[str], ...], int] = {}

    def least(self, block: PlannedBlock) -> int:
        """Return the number of sites that supply the scarcest group of a block."""
        known = self._known.get(block.supply)
        if known is None:
            known = min((self._count(group) for group in block.supply), default=self._everyone.bit_count())
            self._known[block.supply] = known
        return known

    def _count(self, group: frozenset[str]) -> int:
        sites = self._everyone
        for item in group:
            sites &= self._holders.get(item, 0)
        return sites.bit_count()


def first_beyond(
    blocks: Sequence[PlannedBlock], bounds: Sequence[int], values: NDArray[np.int64]
) -> PlannedBlock | None:
    """Return the first block that holds a value of greater magnitude than its bound, or None.

    Args:
        blocks: in the order of ``values``.
        bounds: one per block, below 2**63.
        values: (total size of the blocks,) int64.
    """
    if len(values) > LONG_BLOCKS * len(blocks):
        start = 0
        for block, bound in zip(blocks, bounds, strict=True):
            part = values[start : start + block.size]
            if int(part.max()) > bound or int(part.min()) < -bound:
                return block
            start += block.size
        return None
    sizes = np.array([block.size for block in blocks])
    limits = np.repeat(np.array(bounds, dtype=np.int64), sizes)
    beyond = np.flatnonzero((values > limits) | (values < -limits))
    if not len(beyond):
        return None
    ends: NDArray[np.int64] = np.cumsum(sizes)
    return blocks[int(np.searchsorted(ends, int(beyond[0]), side="right"))]
