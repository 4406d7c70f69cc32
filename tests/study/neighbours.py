"""Cohorts that differ in one person, and sums under noise that a test chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Cell, Table
from cohortsum.study.statistics.interface import Statistic, Sums
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.variables import Factor, Number
from tests.study.pooled import federate

LOST = 2.0**-40
"""What float64 may lose when a bound is formed: `cohortsum.study.noising.ROUNDING` covers as much."""


@dataclass(frozen=True)
class Person:
    """One row: values by number, the place of a level by factor; NaN and -1 are missing."""

    numbers: Mapping[str, float]
    levels: Mapping[str, int] = field(default_factory=dict[str, int])


def batch_of(people: Sequence[Person], numbers: Sequence[Number], factors: Sequence[Factor]) -> Batch:
    return Batch(
        len(people),
        {one.name: np.array([person.numbers[one.name] for person in people], np.float64) for one in numbers},
        {one.name: np.array([person.levels[one.name] for person in people], np.int16) for one in factors},
    )


def persons(numbers: Sequence[Number], factors: Sequence[Factor]) -> SearchStrategy[Person]:
    """Draw people: corners, middles, what is beyond the range, anything between, and missing values."""

    def value(one: Number) -> SearchStrategy[float]:
        special = [one.lower, one.upper, one.middle, one.lower - 1.0, one.upper + 1.0, float("nan")]
        return st.one_of(st.sampled_from(special), st.floats(one.lower, one.upper))

    return st.builds(
        Person,
        st.fixed_dictionaries({one.name: value(one) for one in numbers}),
        st.fixed_dictionaries({one.name: st.integers(-1, len(one.levels) - 1) for one in factors}),
    )


def sums_of(statistic: Statistic, batch: Batch) -> Sums:
    return statistic.contribute(statistic.accumulate(batch))


def moved(
    statistic: Statistic, adjacency: Adjacency, one: Batch, other: Batch
) -> list[tuple[float, int, float, int]]:
    """Return, per part, by how much two sites' sums differ: L2 norm and numbers, and the same as they are claimed."""
    bits = {block.name: block.fraction_bits for block in statistic.layout()}
    first, second = sums_of(statistic, one), sums_of(statistic, other)
    parts = statistic.parts(adjacency)
    assert sorted(name for part in parts for name in part.blocks) == sorted(bits)
    assert sum(part.share for part in parts) == 1.0
    found: list[tuple[float, int, float, int]] = []
    for part in parts:
        differences = [(first[name] - second[name]) * 2.0 ** -bits[name] for name in part.blocks]
        change = np.concatenate(differences)
        found.append((float(np.linalg.norm(change)), int(np.count_nonzero(change)), part.l2, part.touched))
    return found


def within_claims(statistic: Statistic, adjacency: Adjacency, one: Batch, other: Batch) -> None:
    for norm, numbers, l2, touched in moved(statistic, adjacency, one, other):
        assert norm <= l2 * (1.0 + LOST)
        assert numbers <= touched


def noisy_sums(statistic: Statistic, sites: Sequence[Batch]) -> Noisy:
    """Return the sums over ``sites`` in the blocks' own units, without any noise yet."""
    totals = federate(statistic, sites, batch_size=1000)
    values = {
        block.name: np.ldexp(totals[block.name].astype(np.float64), -block.fraction_bits)
        for block in statistic.layout()
    }
    return Noisy(values, dict.fromkeys(values, 0.0), sum(site.people for site in sites), len(sites))


def fresh(noisy: Noisy, sd: float, rng: np.random.Generator) -> Noisy:
    """Return exact sums with fresh normal noise."""
    values = {name: value + sd * rng.standard_normal(len(value)) for name, value in noisy.values.items()}
    return Noisy(values, dict.fromkeys(values, sd), noisy.people, noisy.sites)


def same_numbers(noised: Table, exact: Table, near: float = 1e-12) -> None:
    """Assert that the noised table has every row and cell of the exact one, and columns about noise alone after them."""
    width = len(exact.columns)
    assert noised.kind == exact.kind
    assert noised.columns[:width] == exact.columns
    assert all("noise" in name for name in noised.columns[width:])
    assert len(noised.rows) == len(exact.rows)
    for line, expected in zip(noised.rows, exact.rows, strict=True):
        for cell, wanted in zip(line, expected, strict=False):
            same_cell(cell, wanted, near)


def same_cell(cell: Cell, wanted: Cell, near: float) -> None:
    if isinstance(wanted, float):
        assert isinstance(cell, float)
        assert abs(cell - wanted) <= near * max(1.0, abs(wanted)), (cell, wanted)
    else:
        assert cell == wanted


def column(table: Table, name: str) -> list[Cell]:
    place = table.columns.index(name)
    return [line[place] for line in table.rows]


def numbers_in(table: Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a column of which every cell is a number."""
    cells = column(table, name)
    assert not any(isinstance(cell, Absent | str) for cell in cells), cells
    return np.array(cells, np.float64)
