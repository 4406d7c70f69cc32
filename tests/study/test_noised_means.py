"""The sums of means and of summaries under noise: nobody moves them farther than claimed, over ten thousand neighbours."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.noising import ROUNDING
from cohortsum.study.statistics.means import Means
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.variables import Factor, Number

Floats = NDArray[np.float64]

AGE = Number("age", "years", 5.0, 65.0)
SEX = Factor("sex", ("female", "male"))
MANY = 10_000
FAR = Number("far", "1", 2.0**50 - 500.0, 2.0**50 + 500.0)
NEAR = Number("near", "mm", -3.0, 7.0)
COHORT = Factor("cohort", tuple(str(place) for place in range(MANY)))
NOISED_BITS = 24


def drawn(rng: np.random.Generator, variable: Number, size: tuple[int, ...]) -> Floats:
    """Return values at, near and beyond the ends of a range, anywhere in it, and missing ones."""
    inside = rng.uniform(variable.lower, variable.upper, size)
    tiny = variable.half_width * 2.0 ** -rng.uniform(10, 40, size)
    choices = [
        inside,
        np.full(size, variable.lower),
        np.full(size, variable.upper),
        variable.upper - tiny,
        variable.lower + tiny,
        variable.middle + tiny,
        np.full(size, np.nan),
        variable.upper + 2 * tiny,
    ]
    return np.asarray(np.choose(rng.integers(0, len(choices), size), choices), np.float64)


def _over_cohorts(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums over everything but the second axis, (cohorts,) int64."""
    return np.asarray(array.sum(axis=tuple(axis for axis in range(array.ndim) if axis != 1)), np.int64)


def squared(one: NDArray[Any], other: NDArray[Any], scale: int) -> NDArray[np.int64]:
    """Return per cohort the squared L2 norm of what differs, in units of the grid; axes are (variables, cohorts, ...)."""
    change = (np.asarray(one, np.int64) - np.asarray(other, np.int64)) * scale
    return _over_cohorts(change * change)


def touched(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.int64]:
    change = np.asarray(one != other, np.int64)
    return _over_cohorts(change)


def is_member(batch: Batch) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = batch.numbers["member"] > 0
    return mask


@pytest.mark.parametrize("by", [(), (SEX,)])
@pytest.mark.parametrize("where", [False, True])
def test_ten_thousand_neighbours_keep_to_the_claim_of_a_summary(by: tuple[Factor, ...], where: bool) -> None:
    """All cohorts of four go through one batch, each a cell of its own: cells share no integer."""
    rng = np.random.default_rng(2 + 10 * len(by) + where)
    variables = (FAR, NEAR)
    values = {one.name: drawn(rng, one, (MANY, 5)) for one in variables}
    sexes = rng.integers(-1, 2, (MANY, 5)).astype(np.int16)
    member = rng.random((MANY, 5)) < 0.8
    cohorts = np.repeat(np.arange(MANY, dtype=np.int16)[:, np.newaxis], 5, axis=1)
    inner = Summary("s", variables, by, NOISED_BITS)
    wide = replace(inner, by=(COHORT, *by), where=is_member if where else None)

    def state(people: list[int], shuffled: bool = False) -> dict[str, NDArray[Any]]:
        rows = np.arange(MANY * len(people))
        if shuffled:
            rng.shuffle(rows)
        numbers = {name: array[:, people].ravel()[rows] for name, array in values.items()}
        numbers["member"] = member[:, people].ravel()[rows].astype(np.float64)
        levels = {"cohort": cohorts[:, people].ravel()[rows], "sex": sexes[:, people].ravel()[rows]}
        found = wide.accumulate(Batch(len(rows), numbers, levels))
        shape = (len(variables), MANY, -1)
        return {name: array.reshape(shape) for name, array in found.items()}

    one, other, without = state([0, 1, 2, 3]), state([0, 1, 2, 4]), state([0, 1, 2])
    again = state([3, 1, 0, 2], shuffled=True)
    for name, sums in one.items():
        assert np.array_equal(sums, again[name])
    scale = {name: 2**NOISED_BITS if name == "people" else 1 for name in one}
    pairs: list[tuple[Adjacency, dict[str, NDArray[Any]]]] = [
        ("replace_one", other),
        ("add_or_remove", without),
    ]
    for adjacency, neighbour in pairs:
        (part,) = inner.parts(adjacency)
        norms = sum(squared(one[name], neighbour[name], scale[name]) for name in one)
        limit = (part.l2 * 2.0**NOISED_BITS) ** 2
        assert np.max(norms) <= limit * ROUNDING
        assert np.max(norms) >= 0.95 * limit
        assert np.max(sum(touched(one[name], neighbour[name]) for name in one)) <= part.touched


@pytest.mark.parametrize("clip", [None, 1.2])
def test_ten_thousand_neighbours_keep_to_the_claim_of_means(clip: float | None) -> None:
    rng = np.random.default_rng(3)
    variables = (FAR, NEAR, AGE)
    values = {one.name: drawn(rng, one, (MANY, 5)) for one in variables}
    statistic = Means("m", variables, NOISED_BITS, clip)
    part, public = statistic.parts("replace_one")
    assert public.l2 == 0.0
    limit = (part.l2 * 2.0**NOISED_BITS) ** 2 * ROUNDING
    greatest = 0

    def sums(place: int, people: list[int]) -> NDArray[np.int64]:
        batch = Batch(len(people), {name: array[place, people] for name, array in values.items()}, {})
        return np.asarray(statistic.accumulate(batch)["sums"], np.int64)

    for place in range(MANY):
        one, other = sums(place, [0, 1, 2, 3]), sums(place, [0, 1, 2, 4])
        assert np.array_equal(one, sums(place, [3, 1, 0, 2]))
        change = one - other
        greatest = max(greatest, int(change @ change))
        assert np.count_nonzero(change) <= part.touched
    assert 0.95 * limit <= greatest <= limit
