"""Shares over 2^255 - 19: the own vectors, the slow code, and what too few shares say (nothing)."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypedDict, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ShareError
from cohortsum.crypto.field import PRIME, draw, from_bytes, to_bytes
from cohortsum.crypto.shamir import combine, split, weights
from tests import slow_crypto

VECTORS = json.loads(
    (Path(__file__).resolve().parents[1] / "vectors" / "own_shamir.json").read_text(encoding="utf-8")
)
ELEMENTS = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, 2, PRIME - 2, PRIME - 1])
POINTS = range(1, 10)


class TooFew(TypedDict):
    points: list[int]
    naive_result: str


class Sharing(TypedDict):
    name: str
    threshold: int
    coefficients: list[str]
    shares: dict[str, str]
    combine: list[list[int]]
    too_few: TooFew


class Rejected(TypedDict):
    name: str
    threshold: int
    shares: list[tuple[int, str]]


def element(big_endian: str) -> int:
    """Read an element of the vector file, which writes them the other way round than the wire."""
    return from_bytes(bytes.fromhex(big_endian)[::-1])


def times(one: Sequence[int], root: int) -> list[int]:
    """Return the coefficients of a polynomial times (x - root)."""
    return [(up - root * same) % PRIME for up, same in zip([0, *one], [*one, 0], strict=True)]


def polynomial(values: Mapping[int, int]) -> list[int]:
    """Return the coefficients of the polynomial of least degree through the values, constant first."""
    total = [0] * len(values)
    for x, y in values.items():
        basis, below = [1], 1
        for other in values:
            if other != x:
                basis, below = times(basis, other), below * (x - other)
        factor = y * pow(below, -1, PRIME)
        total = [(have + factor * more) % PRIME for have, more in zip(total, basis, strict=True)]
    return total


# The field


@given(ELEMENTS)
def test_an_element_is_32_little_endian_bytes(value: int) -> None:
    assert to_bytes(value) == value.to_bytes(32, "little")
    assert from_bytes(to_bytes(value)) == value


@pytest.mark.parametrize("value", [-1, PRIME, PRIME + 1, 2**255, 2**256])
def test_a_number_outside_the_field_has_no_bytes(value: int) -> None:
    with pytest.raises(ShareError, match=r"2\*\*255 - 19"):
        to_bytes(value)


@pytest.mark.parametrize("value", [PRIME, PRIME + 1, PRIME + 18, 2**255 - 1, 2**255, 2**256 - 1])
def test_bytes_of_p_or_more_are_no_element(value: int) -> None:
    with pytest.raises(ShareError, match=r"2\*\*255 - 19"):
        from_bytes(value.to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_an_element_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ShareError, match=f"32 bytes, got {size}"):
        from_bytes(bytes(size))


def test_drawing_rejects_p_and_more_and_ignores_the_top_bit() -> None:
    offered = [2**255 - 1, PRIME, 2**256 - 1, 2**255 + PRIME, 2**255 + PRIME - 1, 7]
    left = iter(offered)
    asked: list[int] = []

    def randomness(size: int) -> bytes:
        asked.append(size)
        return next(left).to_bytes(32, "little")

    assert draw(randomness) == PRIME - 1
    assert asked == [32] * 5, "p and more are drawn again, never reduced"
    assert draw(randomness) == 7


# Vectors


@pytest.mark.parametrize("vector", cast(list[Sharing], VECTORS["vectors"]), ids=lambda v: v["name"])
def test_the_own_vectors(vector: Sharing) -> None:
    secret, *coefficients = map(element, vector["coefficients"])
    shares = {int(x): element(y) for x, y in vector["shares"].items()}
    threshold = vector["threshold"]
    assert split(secret, coefficients, list(shares)) == shares
    for points in vector["combine"]:
        assert combine({x: shares[x] for x in points}, threshold) == secret
    few = {x: shares[x] for x in vector["too_few"]["points"]}
    with pytest.raises(ShareError, match=f"{threshold - 1} shares, the threshold is {threshold}"):
        combine(few, threshold)
    assert combine(few, threshold - 1) == element(vector["too_few"]["naive_result"]) != secret


@pytest.mark.parametrize("vector", cast(list[Rejected], VECTORS["rejected"]), ids=lambda v: v["name"])
def test_sets_of_shares_that_must_be_refused(vector: Rejected) -> None:
    def take() -> int:
        shares = [(x, element(y)) for x, y in vector["shares"]]
        weights(tuple(x for x, _ in shares))  # a mapping already holds each point once
        return combine(dict(shares), vector["threshold"])

    with pytest.raises(ShareError):
        take()


# Properties


@settings(max_examples=60, deadline=None)
@given(st.lists(ELEMENTS, min_size=1, max_size=7))
def test_shares_equal_the_slow_ones_and_every_set_of_threshold_size_gives_the_secret(
    coefficients: list[int],
) -> None:
    secret, threshold = coefficients[0], len(coefficients)
    shares = split(secret, coefficients[1:], POINTS)
    assert shares == slow_crypto.shamir_split(coefficients, POINTS)
    for points in combinations(POINTS, threshold):
        chosen = {x: shares[x] for x in points}
        assert combine(chosen, threshold) == secret
    assert combine(shares, threshold) == secret


@settings(max_examples=60, deadline=None)
@given(st.lists(ELEMENTS, min_size=2, max_size=7), ELEMENTS, st.data())
def test_one_share_too_few_fits_every_other_secret_equally_well(
    coefficients: list[int], other: int, data: st.DataObject
) -> None:
    """One choice of coefficients deals the seen shares with another secret, and all choices are as likely."""
    threshold = len(coefficients)
    shares = split(coefficients[0], coefficients[1:], POINTS)
    seen = sorted(data.draw(st.permutations(POINTS))[: threshold - 1])
    constant, *fitting = polynomial({0: other} | {x: shares[x] for x in seen})
    assert constant == other
    assert len(fitting) == threshold - 1
    dealt = split(other, fitting, POINTS)
    assert {x: dealt[x] for x in seen} == {x: shares[x] for x in seen}
    assert combine(dealt, threshold) == other
    assert (dealt == shares) == (other == coefficients[0])


@settings(max_examples=40, deadline=None)
@given(st.lists(ELEMENTS, min_size=1, max_size=5), st.integers(1, PRIME - 1), st.data())
def test_a_wrong_share_gives_a_wrong_secret_and_no_error(
    coefficients: list[int], error: int, data: st.DataObject
) -> None:
    threshold = len(coefficients)
    shares = split(coefficients[0], coefficients[1:], range(1, threshold + 1))
    point = data.draw(st.sampled_from(sorted(shares)))
    shares[point] = (shares[point] + error) % PRIME
    assert combine(shares, threshold) != coefficients[0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 2**16), min_size=3, max_size=6, unique=True),
    st.lists(ELEMENTS, min_size=3, max_size=3),
)
def test_the_points_of_any_roster_serve(points: list[int], coefficients: list[int]) -> None:
    shares = split(coefficients[0], coefficients[1:], points)
    assert combine(shares, 3) == coefficients[0] == slow_crypto.shamir_combine(shares)


def test_shares_beyond_the_threshold_are_not_looked_at() -> None:
    shares = split(5, [6, 7], [4, 1, 3, 2])
    assert combine(shares | {4: 0}, 3) == 5
    assert combine(shares | {3: 0}, 3) != 5


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8, unique=True))
def test_lagrange_weights_add_up_to_one(points: list[int]) -> None:
    """They interpolate the constant 1, in whatever order the points come."""
    assert sum(weights(tuple(points))) % PRIME == 1
    assert dict(zip(points, weights(tuple(points)), strict=True)) == dict(
        zip(sorted(points), weights(tuple(sorted(points))), strict=True)
    )


# Refusals


@pytest.mark.parametrize("points", [[0, 1, 2], [1, 1, 2], [1, 2, PRIME], [1, 2, PRIME + 1], [-1, 1, 2]])
def test_points_that_are_zero_repeated_or_outside_the_field_are_refused(points: list[int]) -> None:
    """Point 0 holds the secret itself, and p + 1 is the point 1 again."""
    with pytest.raises(ShareError, match="distinct and not 0"):
        split(5, [6], points)
    with pytest.raises(ShareError, match="distinct and not 0"):
        weights(tuple(points))


def test_combining_with_point_0_is_refused() -> None:
    with pytest.raises(ShareError, match="distinct and not 0"):
        combine({0: 5, 1: 11}, 2)


def test_fewer_holders_than_the_threshold_are_refused() -> None:
    assert len(split(5, [6, 7], [1, 2, 3])) == 3
    with pytest.raises(ShareError, match="2 holders cannot reach a threshold of 3"):
        split(5, [6, 7], [1, 2])
