"""Sums of products over people, for many outcomes at once.

For every outcome and over the people who have it (or who have all outcomes): n, the sums of x, xx', y, xy and yy, where x
are the normalised columns of a design and y is a normalised outcome. All values lie in [-1, 1], so the sums are taken
about the public centres and lose little when they are centred later. With weights w, in (0, 1], every term is w times
that, and the sum of w stands in for n where means are formed.

Two ways to add:

- ``floating`` keeps float64 sums, formed by matrix products; right to about ``n * 2**-50`` per entry. A site centres
  them and rounds once.
- ``exact`` rounds every person's product to the grid and adds integers, so batches, sites and order cannot change a
  digit. Matrix products stay usable: a grid value is split into two halves that float64 adds without rounding.

People go through in slices, so memory does not grow with people times outcomes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.design import Design
from cohortsum.study.statistics.interface import State, merge, to_grid
from cohortsum.study.statistics.units import Where, clipped, selected
from cohortsum.study.variables import Number

CELLS = 2**20
"""Entries of one slice, people times outcomes: 8 MB of float64."""
MOST_PEOPLE = 2**13
"""People of one slice: 2**13 values below 2**39 add to less than 2**53, so float64 adds them exactly."""
CACHED = 2**16
"""Entries that are multiplied, rounded and added at a time: half a megabyte of float64."""
HALF_BITS = 24

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slice:
    """Some people who have every covariate.

    Attributes:
        people: their positions in the batch.
        x: (people, columns) float64.
        y: (outcomes, people) float64; 0 where the person does not count for the outcome.
        counted: (groups, people) float64 of 0 and 1; one group per outcome, or one for all of them. Where nobody lacks a
            value it is one row of 1, seen as many times as there are groups, and read-only.
        levels: (people,) int16, level of the effect; 0 for everybody without one.
        weights: (people,) float64 in (0, 1], as shares of the greatest weight; None where everybody counts alike.
    """

    people: NDArray[np.intp]
    x: Floats
    y: Floats
    counted: Floats
    levels: NDArray[np.int16]
    weights: Floats | None = None

    def weighted(self, values: Floats) -> Floats:
        """Return (people, ...) float64 ``values`` times each person's weight."""
        return values if self.weights is None else (values.T * self.weights).T

    def over_counted(self, values: Floats) -> Floats:
        """Return the sums of (people, ...) float64 ``values`` over who counts, (groups, ...) float64.

        Tables whose outcomes are all there (one pipeline, one run) are common; their groups are added up once.
        """
        if self.counted.strides[0] == 0:
            once = self.counted[:1] @ values
            return np.broadcast_to(once, (len(self.counted), *once.shape[1:]))
        return self.counted @ values


def slices(
    batch: Batch,
    design: Design,
    outcomes: tuple[Number, ...],
    effect: str | None,
    complete: bool,
    where: Where | None,
    weights: Number | None = None,
) -> Iterator[Slice]:
    """Cut the people of ``batch`` who have every covariate into slices of bounded size; at least one, maybe empty.

    With ``weights`` only people of a weight above 0 are taken.
    """
    people = selected(batch, where)
    x = design.values(batch, people)
    known = ~np.isnan(x).any(axis=1)
    shares = None if weights is None else clipped(batch, weights, people) / weights.upper
    if shares is not None:
        known &= shares > 0.0  # false for a missing one
        shares = np.minimum(shares[known], 1.0)
    people, x = people[known], x[known]
    levels = np.zeros(batch.people, np.int16) if effect is None else batch.levels[effect]
    step = max(1, min(MOST_PEOPLE, CELLS // len(outcomes)))
    for start in range(0, max(len(people), 1), step):
        part = people[start : start + step]
        y, counted = _outcomes(batch, outcomes, part, complete)
        weight = None if shares is None else shares[start : start + step]
        yield Slice(part, x[start : start + step], y, counted, levels[part], weight)


def _outcomes(
    batch: Batch, outcomes: tuple[Number, ...], people: NDArray[np.intp], complete: bool
) -> tuple[Floats, Floats]:
    """Return ``y`` and ``counted`` of a slice, a few outcomes at a time so that their rows stay in the processor's cache.

    Of values inside the public range the numbers are those of `normalised`; what is outside counts as -1 or 1.
    """
    y = np.empty((len(outcomes), len(people)))
    groups = 1 if complete else len(outcomes)
    everybody = np.ones((1, len(people)))
    counted = np.broadcast_to(everybody, (groups, len(people)))
    whole = len(people) > 0 and people[-1] - people[0] == len(people) - 1  # a view spares a copy
    chosen = slice(people[0], people[-1] + 1) if whole else people
    half_widths = np.array([outcome.half_width for outcome in outcomes])[:, np.newaxis]
    step = max(1, CACHED // max(1, len(people)))
    for start in range(0, len(outcomes), step):
        rows = slice(start, start + step)
        block = y[rows]
        for row, outcome in zip(block, outcomes[rows], strict=True):
            values = batch.numbers.get(outcome.name)
            np.subtract(np.nan if values is None else values[chosen], outcome.middle, out=row)
        block /= half_widths[rows]
        np.clip(block, -1.0, 1.0, out=block)  # also what another room let through beyond the public range
        if np.isnan(block.sum()):  # a value is missing
            known = ~np.isnan(block)
            if not counted.flags.writeable:
                counted = counted.copy()
            if complete:
                counted *= known.all(axis=0)
            else:
                counted[rows] = known
            np.copyto(block, 0.0, where=~known)
    if complete and not counted.all():
        y *= counted
    return y, counted


def who_counts(parts: Iterable[Slice], groups: int, people: int) -> NDArray[np.bool_]:
    """Return who counts in the slices of a batch of ``people``, (groups, people) bool."""
    counted = np.zeros((groups, people), np.bool_)
    for part in parts:
        counted[:, part.people] = part.counted > 0
    return counted


def people_by_level(part: Slice, levels: int) -> Integers:
    """Return the people that count and how many of them are at each level, (groups, 1 + levels) int64."""
    at_level = np.equal.outer(part.levels, np.arange(levels)).astype(np.float64)
    everybody = np.ones((len(part.levels), 1))
    return part.over_counted(np.hstack((everybody, at_level))).astype(np.int64)


def floating(part: Slice) -> dict[str, Floats]:
    """Return the float64 sums of a slice: x, xx (upper triangle by rows), y, xy and yy; with weights also w."""
    y = part.weighted(part.y.T).T
    with_x = y @ np.hstack((np.ones((len(part.x), 1)), part.x))  # in one pass over y
    sums = {
        "x": part.over_counted(part.weighted(part.x)),
        "xx": part.over_counted(part.weighted(pairs(part.x))),
        "y": with_x[:, 0],
        "xy": with_x[:, 1:],
        "yy": np.einsum("ij,ij->i", y, part.y),
    }
    return sums if part.weights is None else sums | {"w": part.over_counted(part.weights)}


def floating_sums(parts: Iterable[Slice], levels: int) -> State:
    """Return people and the float64 sums of at least one slice, added up."""
    each: Iterator[State] = ({"people": people_by_level(part, levels), **floating(part)} for part in parts)
    return reduce(lambda total, one: merge((total, one)), each)  # one at a time: there may be many slices


def exact(part: Slice, fraction_bits: int) -> dict[str, Integers]:
    """Return the integer sums of a slice, every product rounded to the grid: x, xx, y, xy and yy; with weights also w."""
    outcomes, people = part.y.shape
    totals = np.empty((outcomes, part.x.shape[1] + 2), np.int64)
    step = max(1, CACHED // max(1, people))
    for start in range(0, outcomes, step):
        rows = slice(start, start + step)
        values = part.y[rows]
        y = part.weighted(values.T).T
        for place, factor in enumerate((None, *part.x.T, values)):
            product = y if factor is None else y * factor
            totals[rows, place] = to_grid(product, fraction_bits).sum(axis=1)
    sums = {
        "x": _exact_total(part, to_grid(part.weighted(part.x), fraction_bits)),
        "xx": _exact_total(part, to_grid(part.weighted(pairs(part.x)), fraction_bits)),
        "y": totals[:, 0],
        "xy": totals[:, 1:-1],
        "yy": totals[:, -1],
    }
    if part.weights is None:
        return sums
    weights = to_grid(part.weights[:, np.newaxis], fraction_bits)
    return sums | {"w": _exact_total(part, weights)[:, 0]}


def pairs(x: Floats) -> Floats:
    """Return the products of every two columns, (people, p (p + 1) / 2), in the order of `symmetric`."""
    first, second = np.triu_indices(x.shape[1])
    return x[:, first] * x[:, second]


def symmetric(triangle: Floats, size: int) -> Floats:
    """Return the symmetric (size, size) matrix whose upper triangle, row by row, is ``triangle``."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = triangle
    return matrix + np.triu(matrix, 1).T


def centred(people: Integers, sums: dict[str, Floats]) -> dict[str, Floats]:
    """Return xx, xy and yy about the means of the people, kept within the bound of one unit per person.

    Args:
        people: (groups,) int64; groups without people give zeros.
        sums: float64 sums as `floating` returns them.
    """
    mass = sums.get("w", people)
    n = np.where(people > 0, mass, 1)[:, np.newaxis].astype(np.float64)
    x, y = sums["x"], sums["y"][:, np.newaxis]
    limit = people[:, np.newaxis].astype(np.float64)
    return {
        "xx": np.clip(sums["xx"] - pairs(x) / n, -limit, limit),
        "xy": np.clip(sums["xy"] - y * x / n, -limit, limit),
        "yy": np.clip(sums["yy"][:, np.newaxis] - y * y / n, -limit, limit),
    }


def _exact_total(part: Slice, grid: Integers) -> Integers:
    """Return the sums of (people, columns) grid values over who counts, exactly, for at most `MOST_PEOPLE` people."""
    high = grid >> HALF_BITS  # floor, so that low is never negative
    low = grid - (high << HALF_BITS)
    total_high = part.over_counted(high.astype(np.float64)).astype(np.int64)
    total_low = part.over_counted(low.astype(np.float64)).astype(np.int64)
    return (total_high << HALF_BITS) + total_low
