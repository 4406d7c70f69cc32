"""What a statistic is: a bounded contribution.

A statistic declares a `layout` of named blocks. From the layout alone follow the clamp, the grid, the modulus that
cannot wrap, the message size and who supplies what. The parts, in the order they run:

=============  ===========  =============================================================================
``layout``     everywhere   the blocks: kind, size, bounds, grid, suppliers
``at_site``    at a site    a first look at all of the site's people, where the sums need one
``accumulate`` at a site    a batch of people to a state; states merge, by addition or as they say, so data may stream
``members``    at a site    who of a batch enters which people set, for the site's own record of what it answered
``contribute`` at a site    the state to integers, once per site and round
``parts``      everywhere   how far one person moves which blocks, for analyses that noise can cover
``further``    everywhere   the opened sums to the statistic of the next round, where one is needed
``finish``     coordinator  the opened integer sums of the last round to tables
``locally``    at a site    the opened sums to values per person, which stay at the site
=============  ===========  =============================================================================

A statistic is one round of an analysis. What another round depends on (coefficients, edges, a variance) are attributes of the
statistic that `further` returns, and its `parameters` are what every site compares before it adds anything: each derives them
itself, from sums it recomputed itself. All sums of a round are handed to `further`, so that an analysis may wait for another.

A block is `additive` (every person's bounded value is rounded to the grid, the integers are added exactly) or `site`
(computed once from the site's people, rounded once).

A *people set* is the people whose rows enter a number. Every number of a block is about the people of one of the block's
sets, or is computed from such numbers: a bin's count about the people in the bin, a product of two 0/1 columns about
the people at both levels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.noised import Forecast, Noisy, Part

State = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]
"""Sums over the people seen so far, by name; two states of one statistic merge by adding entry by entry."""

Sums = Mapping[str, NDArray[np.int64]]
"""Integer block values by block name: one site's contribution, or the opened total of all suppliers."""

Members = Mapping[str, NDArray[np.bool_]]
"""Who of a batch is in a people set, (people,) bool by the set's name. Never leaves the site."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of numbers in the round's vector that share one bound, one grid and one set of suppliers.

    Attributes:
        name: unique in the study, for example ``thickness/lh_cuneus_thickness/cxy``.
        kind: ``additive`` or ``site``.
        size: how many numbers; at least 1.
        bound: greatest magnitude that one person can add to one number, before the grid; a site of n people adds at
            most ``n * bound`` (for a count of sites: at most ``bound``, with ``per`` = ``site``).
        per: whether ``bound`` is per person or per site.
        fraction_bits: the grid is 2**-fraction_bits; 0 for counts.
        supply: groups of supply items. A site supplies the block if it supplies every item of the first group, else it
            contributes zeros. Every group must keep enough sites that supply all of its items, or the block leaves the
            plan as `too few sites`.
        sets: names of the people sets its numbers are about; blocks about the same people share a name. Somebody in
            none of them changes nothing in the block.
    """

    name: str
    kind: Literal["additive", "site"]
    size: int
    bound: float
    per: Literal["person", "site"]
    fraction_bits: int
    supply: tuple[frozenset[str], ...]
    sets: tuple[str, ...]


class Local(Protocol):
    """Values per person that a site computes from opened sums and keeps: harmonised measures, z-scores.

    Whoever inherits this class has no tables unless it says so.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values."""
        ...

    def values(self, batch: Batch) -> NDArray[np.float64]:
        """Return the values of a batch of prepared people, (people, columns) float64; NaN where there is none."""
        ...

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables about this site alone, which stay there as well."""
        return ()


class Statistic(ABC):
    """One round of one analysis of a study, pure: no files, no sockets, no clock.

    A statistic inherits this class for the parts that most do without: by default states add up, nothing is looked at
    beforehand, one round suffices and nothing goes back to the rows.
    """

    name: str
    """The name of the analysis in the study file."""

    @abstractmethod
    def layout(self) -> tuple[Block, ...]:
        """Return the blocks in the order they travel; depends on the study alone."""

    @abstractmethod
    def accumulate(self, batch: Batch) -> State:
        """Return the state of one batch; an empty batch gives the zero state."""

    @abstractmethod
    def members(self, batch: Batch) -> Members:
        """Return who enters which people set: a mask for every set of the layout, supplied here or not."""

    @abstractmethod
    def contribute(self, state: State) -> Sums:
        """Return the integers of every block, (block.size,) int64; blocks the site does not supply are zeroed later."""

    @abstractmethod
    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the tables; a block absent from ``sums`` had too few suppliers. Only asked of the last round."""

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return every block's part, each with its proven sensitivity; none: no noise is known to suffice."""
        return ()

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return the tables under noise; only asked of a statistic that has parts."""
        raise self._no_noise()

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return what noise would do to the results of ``people`` people, given its standard deviation by block."""
        raise self._no_noise()

    def _no_noise(self) -> StudyFileError:
        return StudyFileError(
            f"analysis {self.name}: no noise is known to suffice for its sums; run it in a study without noise"
        )

    def merge(self, states: Sequence[State]) -> State:
        """Return the state of all people behind ``states``, at least one; by default their sum."""
        return merge(states)

    def at_site(self, people: Callable[[], Iterable[Batch]]) -> "Statistic":
        """Return what accumulates at this site; ``people`` gives all its prepared people, as often as it is called."""
        return self

    @property
    def most_rounds(self) -> int:
        """How many rounds this analysis takes at most, this one included; from the study alone in the first round."""
        return 1

    @property
    def supplied_later(self) -> frozenset[str]:
        """Return the supply items of blocks that only a later round has; from the study alone."""
        return frozenset()

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that this round depends on beside the study; all finite. Empty in the first round."""
        return ()

    def further(self, sums: Sums) -> "Statistic | None":
        """Return the statistic of the next round, or None where this round was the last."""
        return None

    @property
    def unprotected(self) -> frozenset[str]:
        """Variables that the study declares public: under noise neighbours have the same values of them."""
        return frozenset()

    def further_noised(self, values: Mapping[str, NDArray[np.float64]], people: int) -> "Statistic | None":
        """Return, under noise, the statistic of the next round from noised sums in the blocks' own units; None: no further one."""
        return None

    def without(self) -> tuple[Table, ...]:
        """Return the tables that stand if this round cannot be opened; none, where earlier rounds answer nothing."""
        return ()

    def effective_people(self, state: State) -> float:
        """Return on how many of the site's people the weights of this round rest: (sum w)^2 / (sum w^2); inf without any."""
        return inf

    @property
    def keeps_local(self) -> bool:
        """Whether a site writes values per person once it has seen the sums of the last round of this analysis."""
        return False

    def locally(self, sums: Sums, people: Callable[[], Iterable[Batch]]) -> Local | None:
        """Return what this site computes for its own people from the sums of the last round, or None."""
        return None


def merge(states: Sequence[State]) -> State:
    """Return the state of all people behind ``states``; there is at least one."""
    first, *others = states
    merged = {name: array.copy() for name, array in first.items()}
    for state in others:
        for name, array in state.items():
            merged[name] += array
    return merged


def set_name(analysis: str, *parts: str) -> str:
    """Return the name of a people set of an analysis, unique in the study for distinct parts.

    Single slashes separate the parts; a slash inside one, which only the name of a level can hold, is doubled.
    """
    return "/".join((analysis, *(part.replace("/", "//") for part in parts)))


def marked(people: int, positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a mask over ``people`` people that is true at ``positions``."""
    mask = np.zeros(people, np.bool_)
    mask[positions] = True
    return mask


def to_grid(values: NDArray[np.float64], fraction_bits: int) -> NDArray[np.int64]:
    """Return ``values`` as whole multiples of 2**-fraction_bits, rounded to nearest, ties to even.

    Scaling by a power of two is exact in float64, so this rounds once. Raises ValueError for a value that is not finite
    or would not fit 63 bits: callers clamp before they scale.
    """
    scaled = np.asarray(values * 2.0**fraction_bits)
    np.rint(scaled, out=scaled)
    greatest = max(scaled.max(initial=0.0), -scaled.min(initial=0.0)) if scaled.size else 0.0
    if not greatest < 2.0**63:  # also catches NaN, which passes through both
        raise ValueError("a value is not finite or too large for the grid; clamp before scaling")
    return scaled.astype(np.int64)
