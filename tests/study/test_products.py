"""Sums of products: tables without a missing value are added up once for all outcomes, and to the same sums."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.design import build_design
from cohortsum.study.statistics.products import Slice, exact, floating, pairs, people_by_level, slices
from cohortsum.study.variables import Number

BITS = 40
TERMS = {"a": Number("a", "1", -1.0, 1.0), "b": Number("b", "1", 0.0, 4.0)}
OUTCOMES = tuple(Number(f"y{place}", "mm", 0.0, 5.0) for place in range(4))


def table(seed: int, people: int, lacking: tuple[int, ...]) -> Batch:
    rng = np.random.default_rng(seed)
    numbers = {name: rng.uniform(one.lower, one.upper, people) for name, one in TERMS.items()}
    for place, one in enumerate(OUTCOMES):
        numbers[one.name] = rng.uniform(0.0, 5.0, people)
        if place in lacking:
            numbers[one.name][rng.integers(people)] = np.nan
    return Batch(people, numbers, {})


def only_slice(batch: Batch, complete: bool = False, weights: Number | None = None) -> Slice:
    (part,) = slices(
        batch, build_design("r", tuple(TERMS), TERMS, {}), OUTCOMES, None, complete, None, weights
    )
    return part


def spelled_out(part: Slice) -> Slice:
    return replace(part, counted=part.counted.copy())


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@given(seed=st.integers(0, 2**32), people=st.integers(1, 60))
def test_outcomes_that_nobody_lacks_share_their_sums(
    complete: bool, weighted: bool, seed: int, people: int
) -> None:
    part = only_slice(table(seed, people, ()), complete, TERMS["b"] if weighted else None)
    assert not part.counted.flags.writeable
    assert part.counted.shape == (1 if complete else 4, len(part.people))
    other = spelled_out(part)
    assert np.array_equal(people_by_level(part, 1), people_by_level(other, 1))
    for name, sums in exact(other, BITS).items():
        assert np.array_equal(exact(part, BITS)[name], sums), name  # on the grid no order of adding shows
    for name, floats in floating(other).items():
        np.testing.assert_allclose(floating(part)[name], floats, rtol=0, atol=people * 2.0**-50)


@given(seed=st.integers(0, 2**32), people=st.integers(1, 60))
def test_one_missing_value_leaves_its_outcome_alone(seed: int, people: int) -> None:
    batch = table(seed, people, (2,))
    part = only_slice(batch)
    found = floating(part)
    known = np.array([~np.isnan(batch.numbers[one.name]) for one in OUTCOMES])
    assert np.array_equal(part.counted, known)
    columns: Any = part.x
    for group in range(4):
        for column, total in enumerate(found["xx"][group]):
            products = pairs(columns)[known[group], column]
            assert abs(Fraction(float(total)) - sum(map(Fraction, products.tolist()))) <= people * Fraction(
                1, 2**50
            )
    shared = floating(only_slice(batch, complete=True))
    assert np.allclose(shared["xx"][0], found["xx"][2], rtol=0, atol=people * 2.0**-50)
