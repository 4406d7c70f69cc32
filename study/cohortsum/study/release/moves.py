"""From the opened sums of one statistic to those of a coarser one: which old number is added to which new one.

Blocks travel in the order of a `layout`, which is made of *runs*: the blocks of a run are the cells of a grid with one axis per
variable, factor or kind of sum, the last one running fastest. Merging levels, or leaving one out, changes one kind of axis. `moved`
follows the grids of both layouts and compares suppliers and sizes on the way, so that a layout that is ordered otherwise is found out.

A new sum is there where all its parts are: a part with too few suppliers makes the whole one absent. A part is over the sites that have
somebody there; a site that has nobody adds nothing to it, and would add nothing to a sum that was merged from the start.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.crossing import NOWHERE
from cohortsum.study.statistics.interface import Block
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.variables import Factor

Places = tuple[int, ...]
"""By old place the new one, or NOWHERE where it is left out."""
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a run: where its places go, and how many there are then."""

    places: Places
    size: int


@dataclass(frozen=True, slots=True)
class Regrouped:
    """A factor with fewer levels.

    Attributes:
        old: as it is.
        new: as it becomes.
        axis: where its levels go.
    """

    old: Factor
    new: Factor
    axis: Axis

    def swapped(self, factors: Sequence[Factor]) -> tuple[Factor, ...]:
        """Return the factors with this one changed."""
        return tuple(self.new if factor == self.old else factor for factor in factors)

    def axes(self, factors: Sequence[Factor]) -> tuple[Axis, ...]:
        """Return an axis for each factor."""
        return tuple(self.axis if factor == self.old else unchanged(len(factor.levels)) for factor in factors)

    def renamed(self, item: str) -> str:
        """Return a supply item of the old layout as the new one has it."""
        named = {
            self.old.level_name(level): self.new.level_name(self.new.levels[place])
            for level, place in zip(self.old.levels, self.axis.places, strict=True)
            if place != NOWHERE
        }
        return named.get(item, item)


@dataclass(frozen=True, slots=True)
class Move:
    """An old block is added to a new one; ``places`` says where its numbers go, None leaves them where they are."""

    old: str
    new: Block
    places: Places | None = None


def unchanged(size: int) -> Axis:
    """Return an axis on which nothing moves."""
    return Axis(tuple(range(size)), size)


def merged(factor: Factor, levels: Sequence[str], name: str) -> Regrouped:
    """Return a factor some of whose levels are one; it stands where the first of them stood."""
    first = min(factor.levels.index(level) for level in levels)
    kept = [level for place, level in enumerate(factor.levels) if place == first or level not in levels]
    places = tuple(kept.index(factor.levels[first] if level in levels else level) for level in factor.levels)
    named = tuple(name if level == factor.levels[first] else level for level in kept)
    return Regrouped(factor, Factor(factor.name, named), Axis(places, len(named)))


def without(factor: Factor, levels: Sequence[str]) -> Regrouped:
    """Return a factor that lacks some of its levels."""
    kept = tuple(level for level in factor.levels if level not in levels)
    places = tuple(kept.index(level) if level in kept else NOWHERE for level in factor.levels)
    return Regrouped(factor, Factor(factor.name, kept), Axis(places, len(kept)))


def moved(
    old: Sequence[Block],
    new: Sequence[Block],
    runs: Sequence[Sequence[Axis]],
    renamed: Callable[[str], str] = str,
) -> tuple[Move, ...]:
    """Return where the blocks of a layout go.

    Args:
        old: the layout.
        new: the coarser one.
        runs: the axes of every run, in the order of the layout.
        renamed: a supply item of the old layout as the new one has it.

    Raises:
        ValueError: the layouts are not made of these runs.
    """
    sizes = [(prod(len(axis.places) for axis in axes), prod(axis.size for axis in axes)) for axes in runs]
    if (sum(size for size, _ in sizes), sum(size for _, size in sizes)) != (len(old), len(new)):
        raise ValueError("the runs are not the whole layout")
    found: list[Move] = []
    start = target = 0
    for axes, (here, there) in zip(runs, sizes, strict=True):
        for place, goes in enumerate(_cells(axes)):
            if goes == NOWHERE:
                continue
            block, other = old[start + place], new[target + goes]
            supply = tuple(frozenset(map(renamed, group)) for group in block.supply)
            if replace(block, name="", sets=(), supply=supply) != replace(other, name="", sets=()):
                raise ValueError(f"block {block.name} is no part of {other.name}")
            found.append(Move(block.name, other))
        start, target = start + here, target + there
    return tuple(found)


def _cells(axes: Sequence[Axis]) -> Iterator[int]:
    """Yield the new place of every cell of a run."""
    for cell in product(*(axis.places for axis in axes)):
        place = 0
        for axis, along in zip(axes, cell, strict=True):
            place = NOWHERE if NOWHERE in (place, along) else place * axis.size + along
        yield place


def added(sums: Mapping[str, Integers], moves: Sequence[Move]) -> dict[str, Integers]:
    """Return the sums of the new blocks; one with an absent part is absent."""
    found: dict[str, Integers] = {}
    for block, parts in _by_block(moves, frozenset(sums)):
        total = np.zeros(block.size, np.int64)
        for part in parts:
            _add(total, sums[part.old], part.places)
        found[block.name] = total
    return found


def added_noise(noisy: Noisy, moves: Sequence[Move]) -> Noisy:
    """Return likewise sums under noise, whose variances add up.

    Raises:
        ValueError: numbers inside one block are added, so that its noise would not be of one size.
    """
    if any(move.places is not None for move in moves):
        raise ValueError("the noise of a block is of one size")
    values: dict[str, NDArray[np.float64]] = {}
    for block, parts in _by_block(moves, frozenset(noisy.values)):
        values[block.name] = np.sum([noisy.values[part.old] for part in parts], axis=0)
    variances: dict[str, float] = {}
    for move in moves:
        variances[move.new.name] = variances.get(move.new.name, 0.0) + noisy.sd[move.old] ** 2
    return replace(noisy, values=values, sd={name: sqrt(value) for name, value in variances.items()})


def _by_block(moves: Sequence[Move], opened: frozenset[str]) -> Iterator[tuple[Block, list[Move]]]:
    """Yield every new block whose parts were all opened, with its parts."""
    parts: dict[str, list[Move]] = {}
    for move in moves:
        parts.setdefault(move.new.name, []).append(move)
    for found in parts.values():
        if all(part.old in opened for part in found):
            yield found[0].new, found


def _add(total: Integers, values: Integers, places: Places | None) -> None:
    if places is None:
        total += values
        return
    for place, value in zip(places, values, strict=True):
        if place != NOWHERE:
            total[place] += value
