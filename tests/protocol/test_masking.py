"""Masks cancel for every set of dropouts and any values; nothing less than all removal keys opens a sum."""

import hashlib
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.masking import (
    Dropouts,
    MaskKeys,
    add_words,
    mask,
    removal_keys,
    signed,
    site_keys,
    words_digest,
    words_from_bytes,
    words_hasher,
    words_to_bytes,
)
from cohortsum.protocol.seeds import PARTS, Seeds, mask_key, pair_mask_keys, self_mask_key
from tests.protocol.consortium import stream

CONTEXT, H1, H2 = (hashlib.sha256(name).digest() for name in (b"context", b"h1", b"h2"))
INDICES = (0, 3, 4, 17, 65535)
"""A roster has gaps, and its order decides who adds and who subtracts."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1
VALUES = st.integers(LOWEST, HIGHEST) | st.sampled_from([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST])
SEEDS = {index: Seeds.draw(stream(f"masking/{index}")) for index in INDICES}
PUBLICS = {index: mask_key(CONTEXT, seeds.element("mask")).public for index, seeds in SEEDS.items()}


@cache
def keys_of(index: int, sites: tuple[int, ...], part: str) -> MaskKeys:
    """Return what site ``index`` of U2 = ``sites`` masks with."""
    own = mask_key(CONTEXT, SEEDS[index].element("mask"))
    pairs = {
        peer: pair_mask_keys(own, index, PUBLICS[peer], peer, CONTEXT, H1, H2)
        for peer in sites
        if peer != index
    }
    return site_keys(part, index, self_mask_key(CONTEXT, part, index, SEEDS[index].element(part)), pairs)


@cache
def removal(survivors: tuple[int, ...], sites: tuple[int, ...], part: str) -> MaskKeys:
    self_seeds = {index: SEEDS[index].element(part) for index in survivors}
    dropped = {index: SEEDS[index].element("mask") for index in sites if index not in survivors}
    return removal_keys(part, CONTEXT, H1, H2, self_seeds, Dropouts.of(CONTEXT, dropped, survivors, PUBLICS))


def survivor_sets(sites: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for size in range(1, len(sites) + 1) for chosen in combinations(sites, size)]


def masked_sum(values: dict[int, NDArray[np.int64]], survivors: tuple[int, ...], part: str) -> Vector:
    sites = tuple(values)
    words = (mask(values[index].copy(), keys_of(index, sites, part)) for index in survivors)
    return add_words(words, len(values[sites[0]]))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_masks_cancel_for_every_set_of_dropouts_and_any_values(
    n: int, part: str, data: st.DataObject
) -> None:
    length = data.draw(st.integers(1, 5))
    column = st.lists(VALUES, min_size=length, max_size=length)
    values = {index: np.array(data.draw(column), dtype=np.int64) for index in INDICES[:n]}
    for survivors in survivor_sets(INDICES[:n]):
        total = masked_sum(values, survivors, part)
        keys = removal(survivors, INDICES[:n], part)
        add_masks(total, keys.plus, keys.minus)
        exact = [sum(int(values[index][at]) for index in survivors) for at in range(length)]
        assert total.tolist() == [number % 2**64 for number in exact]
        if all(LOWEST <= number <= HIGHEST for number in exact):
            assert signed(total).tolist() == exact


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_without_any_one_removal_key_nothing_opens(n: int) -> None:
    sites = INDICES[:n]
    values = {index: np.arange(4, dtype=np.int64) for index in sites}
    for survivors in survivor_sets(sites):
        plain = np.arange(4, dtype=np.uint64) * np.uint64(len(survivors))
        keys = removal(survivors, sites, "data")
        dropped = n - len(survivors)
        assert len(keys.plus) + len(keys.minus) == len(survivors) + len(survivors) * dropped
        signs = [(key, 1) for key in keys.plus] + [(key, -1) for key in keys.minus]
        for left_out in range(len(signs)):
            used = signs[:left_out] + signs[left_out + 1 :]
            total = masked_sum(values, survivors, "data")
            add_masks(total, [key for key, sign in used if sign > 0], [key for key, sign in used if sign < 0])
            assert not np.any(total == plain)


def test_the_keys_of_one_part_do_not_open_the_other() -> None:
    sites = INDICES[:4]
    values = {index: np.arange(4, dtype=np.int64) for index in sites}
    for survivors in survivor_sets(sites):
        total = masked_sum(values, survivors, "data")
        gate = removal(survivors, sites, "gate")
        add_masks(total, gate.plus, gate.minus)
        assert not np.any(total == np.arange(4, dtype=np.uint64) * np.uint64(len(survivors)))


def test_a_site_adds_towards_higher_indices_and_subtracts_towards_lower_ones() -> None:
    def key(name: str) -> SecretBytes:
        return SecretBytes(hashlib.sha256(name.encode()).digest(), "mask key")

    pairs = {peer: {part: key(f"{part}{peer}") for part in PARTS} for peer in (9, 1, 4, 7)}
    keys = site_keys("gate", 5, key("self"), pairs)
    assert keys.plus == (key("self"), key("gate7"), key("gate9"))
    assert keys.minus == (key("gate1"), key("gate4"))


def test_keys_of_masks_do_not_show() -> None:
    keys = removal(INDICES[:2], INDICES[:3], "data")
    shown = repr(keys)
    for key in (*keys.plus, *keys.minus):
        assert key.reveal().hex() not in shown
        assert repr(key.reveal())[2:-1] not in shown


# Words


def test_masking_leaves_no_unmasked_values_behind_and_uses_the_given_adder() -> None:
    values = np.array([LOWEST, -1, 0, HIGHEST], dtype=np.int64)
    calls: list[tuple[int, int]] = []

    def add(
        vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], /, *, modulus: int = 0
    ) -> None:
        assert modulus == 0
        calls.append((len(plus), len(minus)))
        add_masks(vector, plus, minus)

    keys = keys_of(INDICES[1], INDICES[:3], "data")
    kept = values.copy()
    words = mask(values, keys, add)
    assert calls == [(2, 1)]
    assert np.shares_memory(values, words)
    assert kept.tolist() == [LOWEST, -1, 0, HIGHEST]
    assert words.dtype == np.uint64
    assert not np.any(words == kept.view(np.uint64))
    assert np.array_equal(words, mask(kept, keys))


def test_sums_of_words_wrap_and_no_words_sum_to_zero() -> None:
    top = np.full(3, 2**64 - 1, dtype=np.uint64)
    assert add_words([top, top], 3).tolist() == [2**64 - 2] * 3
    assert signed(add_words([top, top], 3)).tolist() == [-2] * 3
    assert add_words([], 3).tolist() == [0, 0, 0]
    assert top.tolist() == [2**64 - 1] * 3


def test_words_of_another_length_are_not_added() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        add_words([np.zeros(2, dtype=np.uint64)], 3)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.integers(1, 7))
def test_words_travel_as_little_endian_bytes_and_are_digested_in_any_chunks(
    words: list[int], step: int
) -> None:
    vector = np.array(words, dtype=np.uint64)
    data = words_to_bytes(vector)
    assert data == b"".join(word.to_bytes(8, "little") for word in words)
    assert words_from_bytes(data).tolist() == words
    hasher = words_hasher(len(data))
    for at in range(0, len(data), step):
        hasher.update(data[at : at + step])
    assert hasher.digest() == words_digest(vector) == digest("cohortsum/v1/words", data)


def test_the_digest_of_words_covers_their_number() -> None:
    short, long = np.zeros(1, dtype=np.uint64), np.zeros(2, dtype=np.uint64)
    assert words_digest(short) != words_digest(long)
    announced = words_hasher(16)
    announced.update(bytes(8))
    assert announced.digest() not in {words_digest(short), words_digest(long)}
