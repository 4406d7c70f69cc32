"""Masks modulo a prime: equal to a slow reading of their definition, uniform, in ranges and over workers alike."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

# scipy ships no types; what it returns is converted where it is used
from scipy.special import chdtrc  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

from cohortsum.crypto.bfv import PRIME
from cohortsum.crypto.masks import Vector, expand
from cohortsum.crypto.modular import add_masks_modulo, expand_modulo
from cohortsum.crypto.parallel import CHUNK_WORDS, add_masks_modulo_parallel
from cohortsum.crypto.secret import SecretBytes

HALF_REJECTED = 2**20 + 7
"""A prime just above a power of two: nearly half of all words are drawn again, a quarter twice."""
GREATEST = 2**63 - 25
"""The greatest prime below 2**63: two residues hardly fit into a word."""
MODULI = [2, 3, 251, 65_537, HALF_REJECTED, 2**44 + 7, 2**45 - 4095, PRIME, 2**62 + 57, GREATEST]
KEYS = st.binary(min_size=32, max_size=32)


def mask_key(raw: bytes) -> SecretBytes:
    return SecretBytes(raw, "mask key")


def labelled(*labels: str) -> list[SecretBytes]:
    return [mask_key(sha256(label.encode()).digest()) for label in labels]


def slow_word(key: bytes, modulus: int, index: int) -> int:
    """Return one word of a mask as the definition has it: one cipher block per candidate, on Python integers."""
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  # single blocks, for an oracle
    bits = (1 << modulus.bit_length()) - 1
    block = blocks.update((index // 2).to_bytes(16, "big"))
    word = int.from_bytes(block[8:] if index % 2 else block[:8], "little") & bits
    candidate = 0
    while word >= modulus:
        candidate += 1
        block = blocks.update((candidate * 2**64 + index).to_bytes(16, "big"))
        word = int.from_bytes(block[:8], "little") & bits
    return word


def slow_mask(key: bytes, length: int, modulus: int, start: int = 0) -> list[int]:
    return [slow_word(key, modulus, index) for index in range(start, start + length)]


def some_residues(length: int, modulus: int) -> Vector:
    """Return words spread over all residues, the greatest among them."""
    spread = [(index * 0x9E3779B97F4A7C15 - 1) % modulus for index in range(length)]
    return np.array(spread, dtype=np.uint64)


# Equal to the definition


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("start", [0, 2, 2**32, 2**63, 2**64 - 98])
def test_a_mask_is_the_slow_one_from_any_even_word(modulus: int, start: int) -> None:
    raw = sha256(b"slow").digest()
    assert expand_modulo(mask_key(raw), 98, modulus, start).tolist() == slow_mask(raw, 98, modulus, start)


@settings(max_examples=30)
@given(KEYS, st.integers(2, 2**63 - 1), st.integers(0, 40), st.integers(0, 2**63 - 21))
def test_any_modulus_and_any_start(key: bytes, modulus: int, length: int, half: int) -> None:
    start = 2 * half
    assert expand_modulo(mask_key(key), length, modulus, start).tolist() == slow_mask(
        key, length, modulus, start
    )


def test_a_chunk_that_is_half_rejected_is_the_slow_one_over_its_border() -> None:
    raw, near = sha256(b"border").digest(), CHUNK_WORDS - 60
    whole = expand_modulo(mask_key(raw), CHUNK_WORDS + 60, HALF_REJECTED)
    assert whole[near:].tolist() == slow_mask(raw, 120, HALF_REJECTED, near)
    plain = expand(mask_key(raw), CHUNK_WORDS + 60) & np.uint64(2**21 - 1)
    kept = plain < HALF_REJECTED
    assert 0.4 < float(np.mean(kept)) < 0.6
    assert np.array_equal(whole[kept], plain[kept]), "a rejection moved a word that was not rejected"


@settings(max_examples=40)
@given(
    st.sampled_from(MODULI),
    st.lists(KEYS, max_size=4),
    st.lists(KEYS, max_size=4),
    st.lists(st.integers(0, 2**63), max_size=12),
)
def test_masks_are_added_and_subtracted_modulo_p(
    modulus: int, plus: list[bytes], minus: list[bytes], values: list[int]
) -> None:
    residues = [value % modulus for value in values]
    vector = np.array(residues, dtype=np.uint64)
    add_masks_modulo(vector, [mask_key(key) for key in plus], [mask_key(key) for key in minus], modulus)
    assert vector.tolist() == [
        (
            value
            + sum(slow_word(key, modulus, at) for key in plus)
            - sum(slow_word(key, modulus, at) for key in minus)
        )
        % modulus
        for at, value in enumerate(residues)
    ]


@pytest.mark.parametrize("modulus", [2, 3, PRIME, 2**61 - 1, 2**62 + 57, GREATEST, 2**63 - 1])
@pytest.mark.parametrize(("plus", "minus"), [(12, 0), (0, 12), (9, 11)])
def test_many_keys_never_overflow(modulus: int, plus: int, minus: int) -> None:
    """The extremes of the sum: all residues at the top or at 0, as many terms as fit into a word and more."""
    added, subtracted = labelled(*map(str, range(plus))), labelled(*map(str, range(100, 100 + minus)))
    for residue in (0, modulus - 1):
        vector = np.full(7, residue, dtype=np.uint64)
        add_masks_modulo(vector, added, subtracted, modulus)
        masks = [expand_modulo(key, 7, modulus).tolist() for key in (*added, *subtracted)]
        assert vector.tolist() == [
            (residue + sum(column[:plus]) - sum(column[plus:])) % modulus
            for column in zip(*masks, strict=True)
        ]


@pytest.mark.parametrize("modulus", [3, HALF_REJECTED, PRIME, GREATEST])
@pytest.mark.parametrize("length", [0, 1, 2, 3, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1])
def test_masks_cancel(length: int, modulus: int) -> None:
    """What one adds and another subtracts is gone from the sum, and what one adds and subtracts from its vector."""
    plus, minus = labelled("a", "b", "c"), labelled("d", "e")
    values = some_residues(length, modulus)
    mine, theirs = values.copy(), values.copy()
    add_masks_modulo(mine, plus, minus, modulus)
    add_masks_modulo(theirs, minus, plus, modulus)
    assert length < 3 or not np.array_equal(mine, values)
    p = np.uint64(modulus)
    assert np.array_equal((mine + theirs) % p, (values + values) % p)
    add_masks_modulo(mine, minus, plus, modulus)
    assert np.array_equal(mine, values)


# Ranges and workers


@settings(max_examples=15)
@given(
    st.sampled_from([HALF_REJECTED, PRIME]),
    st.lists(st.integers(0, 3 * CHUNK_WORDS // 2), max_size=4),
    st.integers(0, 3 * CHUNK_WORDS),
)
def test_ranges_from_any_even_word_add_up_to_the_whole(modulus: int, halves: list[int], length: int) -> None:
    plus, minus = labelled("a", "b"), labelled("c")
    whole = np.arange(length, dtype=np.uint64) % np.uint64(modulus)
    parts = whole.copy()
    add_masks_modulo(whole, plus, minus, modulus)
    cuts = sorted({0, length, *(2 * half for half in halves if 2 * half < length)})
    for begin, end in pairwise(cuts):
        add_masks_modulo(parts[begin:end], plus, minus, modulus, start=begin)
    assert np.array_equal(parts, whole)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [0, 1, CHUNK_WORDS + 1, 3 * CHUNK_WORDS + 3])
def test_any_number_of_workers_does_the_same(workers: int, length: int) -> None:
    plus, minus = labelled("a", "b"), labelled("c")
    alone = np.arange(length, dtype=np.uint64) % np.uint64(HALF_REJECTED)
    together = alone.copy()
    add_masks_modulo(alone, plus, minus, HALF_REJECTED)
    with ThreadPoolExecutor(2) as pool:
        add_masks_modulo_parallel(together, plus, minus, HALF_REJECTED, pool, workers)
    assert np.array_equal(together, alone)


# Refusals


@pytest.mark.parametrize(
    ("vector", "modulus", "start", "size", "message"),
    [
        (np.zeros(4, dtype=np.int64), 7, 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=">u8"), 7, 0, 32, "one-dimensional uint64"),
        (np.zeros((2, 2), dtype=np.uint64), 7, 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=np.uint64), 7, 1, 32, "even word"),
        (np.zeros(4, dtype=np.uint64), 7, -2, 32, "even word"),
        (np.zeros(4, dtype=np.uint64), 7, 2**64 - 2, 32, "ends by word"),
        (np.zeros(4, dtype=np.uint64), 7, 0, 16, "32 bytes, got 16"),
        (np.zeros(4, dtype=np.uint64), 1, 0, 32, r"\[2, 2\*\*63\)"),
        (np.zeros(4, dtype=np.uint64), 0, 0, 32, r"\[2, 2\*\*63\)"),
        (np.zeros(4, dtype=np.uint64), -7, 0, 32, r"\[2, 2\*\*63\)"),
        (np.zeros(4, dtype=np.uint64), 2**63, 0, 32, r"\[2, 2\*\*63\)"),
    ],
)
def test_what_cannot_be_masked_is_refused_and_left_alone(
    vector: Vector, modulus: int, start: int, size: int, message: str
) -> None:
    good, bad = mask_key(bytes(32)), mask_key(bytes(size))
    with pytest.raises(ValueError, match=message):
        add_masks_modulo(vector, [good], [bad], modulus, start)
    assert not vector.any()


@pytest.mark.parametrize("modulus", MODULI)
def test_a_word_that_is_no_residue_is_refused_and_all_left_alone(modulus: int) -> None:
    vector = np.array([0, 1, modulus], dtype=np.uint64)
    with pytest.raises(ValueError, match="less than the modulus"):
        add_masks_modulo(vector, labelled("a"), [], modulus)
    assert vector.tolist() == [0, 1, modulus]


def test_a_fault_in_a_worker_is_the_callers_fault_too() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="32 bytes, got 16"):
        add_masks_modulo_parallel(some_residues(10, 7), [mask_key(bytes(16))], [], 7, pool, 2)


# Uniform. Keys are fixed, so these pass always or never; ALARM says how often keys drawn anew would fail.

ALARM = 1e-8
WORDS = 1 << 18


def spread_is_even(mask: Vector, modulus: int, cells: int) -> bool:
    """Tell whether masks fill cells of equal width as chance would; widths differ by less than the test can see."""
    edges = [-(-modulus * cell // cells) for cell in range(cells + 1)]
    counts = np.diff(np.searchsorted(np.sort(mask), np.array(edges, dtype=np.uint64)))
    expected = np.diff(np.array([edge / modulus for edge in edges])) * len(mask)
    return float(chdtrc(cells - 1, float(((counts - expected) ** 2 / expected).sum()))) > ALARM


@pytest.mark.parametrize("modulus", MODULI)
def test_masks_fill_the_residues_evenly(modulus: int) -> None:
    mask = expand_modulo(labelled(f"even {modulus}")[0], WORDS, modulus)
    assert int(mask.max()) < modulus
    assert spread_is_even(mask, modulus, min(modulus, 256))
    assert spread_is_even(mask % np.uint64(251), 251, 251) or modulus < 2**20


def test_every_single_residue_is_as_likely_as_any_other() -> None:
    """Rejection, counted residue by residue: 131 of 256 values of a byte are drawn again for most of their words."""
    mask = expand_modulo(labelled("single")[0], WORDS, 131)
    assert spread_is_even(mask, 131, 131)
    assert {0, 130} <= set(mask.tolist())


def test_the_statistic_sees_masks_that_are_reduced_instead_of_rejected() -> None:
    modulus = 3 * 2**19 + 5  # of 2**21 words a quarter wraps: the low third is twice as likely
    words = expand(labelled("reduced")[0], WORDS)
    assert not spread_is_even((words & np.uint64(2**21 - 1)) % np.uint64(modulus), modulus, 256)


def test_masked_vectors_are_as_even_as_masks() -> None:
    zeros, top = np.zeros(WORDS, dtype=np.uint64), np.full(WORDS, PRIME - 1, dtype=np.uint64)
    add_masks_modulo(zeros, [], labelled("one"), PRIME)
    add_masks_modulo(top, labelled("two"), labelled("three"), PRIME)
    assert spread_is_even(zeros, PRIME, 256)
    assert spread_is_even(top, PRIME, 256)


def test_a_mask_for_two_key_mode_is_the_cut_keystream() -> None:
    """For the prime of two-key mode a mask is the cut keystream but for one word in 7 * 10**13."""
    key = labelled("plain")[0]
    cut = expand(key, 1000) & np.uint64((1 << PRIME.bit_length()) - 1)
    assert np.array_equal(expand_modulo(key, 1000, PRIME), cut)
