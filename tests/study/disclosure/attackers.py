"""A second attacker and a naive protector, written without the package, for crossed tables with all their margins.

The unknowns are the cells of every table with its totals, and the equations say that a total is the sum over its axis. (The package
has sets of people and no equations.) Two tables are linked by the totals over what they do not share; for two tables no more
follows, because any two tables with one margin in common can be joined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPTIMIZE: Any = import_module("scipy.optimize")
Counts = NDArray[np.int64]
Place = tuple[int, tuple[int, ...]]
"""The number of a table, and one index per axis; the last index of an axis is its total."""
UNBOUNDED = 10**6


@dataclass(frozen=True)
class Sheet:
    """One table: the name of each axis, and the counts of its crossing."""

    axes: tuple[str, ...]
    counts: Counts

    @property
    def with_totals(self) -> Counts:
        full = self.counts
        for axis in range(full.ndim):
            full = np.concatenate((full, full.sum(axis=axis, keepdims=True)), axis)
        return full


def name_of(number: int, sheet: Sheet, at: tuple[int, ...]) -> str:
    """Return the name that the package gives a cell, where factor f of table t0 has levels l0, l1, ..."""
    levels = [
        f"{axis}[l{index}]"
        for axis, index, size in zip(sheet.axes, at, sheet.counts.shape, strict=True)
        if index < size
    ]
    return "/".join((f"t{number}", *levels))


def places(sheets: Sequence[Sheet]) -> list[Place]:
    return [(number, at) for number, sheet in enumerate(sheets) for at in np.ndindex(sheet.with_totals.shape)]


def equations(sheets: Sequence[Sheet]) -> Iterator[dict[Place, float]]:
    for number, sheet in enumerate(sheets):
        shape = sheet.with_totals.shape
        for axis, size in enumerate(shape):
            others = [range(one) for other, one in enumerate(shape) if other != axis]
            for rest in product(*others):
                along = [(number, (*rest[:axis], index, *rest[axis:])) for index in range(size)]
                yield {**dict.fromkeys(along[:-1], 1.0), along[-1]: -1.0}
    for (one, first), (other, second) in combinations(enumerate(sheets), 2):
        shared = [axis for axis in first.axes if axis in second.axes]
        sizes = [range(first.counts.shape[first.axes.index(axis)]) for axis in shared]
        for levels in product(*sizes):
            where = dict(zip(shared, levels, strict=True))
            same = [(one, _margin(first, where)), (other, _margin(second, where))]
            yield {same[0]: 1.0, same[1]: -1.0}


def _margin(sheet: Sheet, where: dict[str, int]) -> tuple[int, ...]:
    totals: tuple[int, ...] = sheet.counts.shape
    return tuple(where.get(axis, total) for axis, total in zip(sheet.axes, totals, strict=True))


class Attacker:
    """Knows the cells that are not hidden, and that hidden ones hold at least ``floor`` people."""

    def __init__(self, sheets: Sequence[Sheet], hidden: set[Place], floor: int) -> None:
        self._place = {place: column for column, place in enumerate(places(sheets))}
        rows = list(equations(sheets))
        self._matrix = np.zeros((len(rows), len(self._place)))
        for row, terms in enumerate(rows):
            for place, factor in terms.items():
                self._matrix[row, self._place[place]] += factor
        self._bounds = [
            (floor, UNBOUNDED) if (number, at) in hidden else (int(sheets[number].with_totals[at]),) * 2
            for number, at in self._place
        ]

    def interval(self, cells: Sequence[Place]) -> tuple[int, int]:
        """Return the least and the greatest whole number of people in some cells together."""
        costs = np.zeros(len(self._place))
        costs[[self._place[cell] for cell in cells]] = 1.0
        ends: list[int] = []
        for sign in (1.0, -1.0):
            found = OPTIMIZE.linprog(
                sign * costs,
                A_eq=self._matrix,
                b_eq=np.zeros(len(self._matrix)),
                bounds=self._bounds,
                integrality=1,
            )
            assert found.status == 0, found.message
            ends.append(round(sign * found.fun))
        return ends[0], ends[1]


def is_safe(sheets: Sequence[Sheet], hidden: set[Place], threshold: int, floor: int, width: int) -> bool:
    """Whether the range of every small cell, and of what a line leaves when one of its cells is taken away, is wide enough."""
    attacker = Attacker(sheets, hidden, floor)
    counts = {(number, at): int(sheets[number].with_totals[at]) for number, at in places(sheets)}
    sets = {frozenset((place,)) for place in counts}
    for terms in equations(sheets):
        *parts, _ = terms
        if len({number for number, _ in terms}) == 1:
            sets |= {frozenset(parts) - {part} for part in parts if len(parts) > 1}
    for cells in sets:
        if 1 <= sum(counts[cell] for cell in cells) < threshold:
            low, high = attacker.interval(sorted(cells))
            if high < threshold or high - low < width:
                return False
    return True


def enumerated(sheet: Sheet, hidden: set[tuple[int, ...]], floor: int, most: int) -> list[Counts]:
    """Return every whole table with totals that fits what is not hidden, by trying all counts up to ``most``; slow."""
    full = sheet.with_totals
    free = [at for at in np.ndindex(sheet.counts.shape) if at in hidden]
    found: list[Counts] = []
    trial = sheet.counts.copy()
    for values in product(range(floor, most + 1), repeat=len(free)):
        for at, value in zip(free, values, strict=True):
            trial[at] = value
        whole = Sheet(sheet.axes, trial.copy()).with_totals
        if all(
            whole[at] >= floor if at in hidden else whole[at] == full[at] for at in np.ndindex(full.shape)
        ):
            found.append(whole)
    return found


def naive(sheets: Sequence[Sheet], threshold: int) -> list[set[Place]]:
    """Return patterns in the order of a naive method: two hidden cells per line, then the smallest that is left, one by one.

    Every pattern contains the one before it; the last hides all that can be hidden.
    """
    counts = {(number, at): int(sheets[number].with_totals[at]) for number, at in places(sheets)}
    same: dict[Place, set[Place]] = {place: {place} for place in counts}
    for terms in equations(sheets):
        if len({number for number, _ in terms}) == 2:
            for place in terms:
                same[place] |= set(terms)
    hidden = {place for place, count in counts.items() if 1 <= count < threshold}
    lines = [list(terms) for terms in equations(sheets) if len({number for number, _ in terms}) == 1]
    while choices := [
        place
        for line in lines
        if sum(place in hidden for place in line) == 1
        for place in line
        if place not in hidden and counts[place] > 0
    ]:
        hidden |= same[min(choices, key=lambda place: (counts[place], place))]
    found = [set(hidden)]
    for place in sorted(counts, key=lambda place: (counts[place], place)):
        if counts[place] > 0 and place not in hidden:
            hidden |= same[place]
            found.append(set(hidden))
    return found
