"""Mask expansion: AES-256-CTR as the standards have it, in place, from any even word, over any workers.

Statistical tests run on fixed keys, so that they pass always or never. Their false-alarm rate says how often
keys drawn anew would fail: below one in a million for the whole file.
"""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

# scipy ships no types; both are converted where they are used
from scipy.special import bdtr, chdtrc  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

from cohortsum.crypto.masks import CHUNK_BYTES, WORD_BYTES, Vector, add_masks, expand
from cohortsum.crypto.parallel import CHUNK_WORDS, add_masks_parallel
from cohortsum.crypto.secret import SecretBytes
from tests import slow_crypto
from tests.vectors.make_own import Texts, load, octets

LENGTHS = [0, 1, 2, 3, CHUNK_WORDS - 1, CHUNK_WORDS, CHUNK_WORDS + 1, 2 * CHUNK_WORDS + 3]
KEYS = st.binary(min_size=32, max_size=32)


def mask_key(raw: bytes) -> SecretBytes:
    return SecretBytes(raw, "mask key")


def labelled(*labels: str) -> list[SecretBytes]:
    return [mask_key(sha256(label.encode()).digest()) for label in labels]


def library(raw: bytes, length: int) -> Vector:
    """Return a mask by one call of the library over the whole length."""
    stream = Cipher(algorithms.AES(raw), modes.CTR(bytes(16))).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def some_words(length: int) -> Vector:
    """Return distinct words that wrap when anything is added to most of them."""
    return np.arange(length, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


# Known answers


@pytest.mark.parametrize("vector", load("own_masks.json", "vectors"), ids=lambda v: v["name"])
def test_the_own_vectors(vector: Texts) -> None:
    (key,) = octets(vector, "key")
    mask = expand(mask_key(key), int(vector["words"]))
    first = [int(word) for word in vector["first_words"].split()]
    assert mask[: len(first)].tolist() == first
    assert int(mask[-1]) == int(vector["last_word"])
    assert int(np.sum(mask, dtype=np.uint64)) == int(vector["sum_mod_2_64"])


@pytest.mark.parametrize("vector", load("nist_aes256.json", "ctr"))
def test_the_counter_mode_of_sp_800_38a(vector: Texts) -> None:
    """NIST starts at another counter block, which is a range that starts at a very late word."""
    key, counter, plain, cipher = octets(vector, "key", "counter", "plaintext", "ciphertext")
    words = np.zeros(len(plain) // WORD_BYTES, dtype=np.uint64)
    add_masks(words, [mask_key(key)], [], start=2 * int.from_bytes(counter, "big"))
    stream = words.astype("<u8").tobytes()
    assert bytes(x ^ y for x, y in zip(plain, stream, strict=True)) == cipher


@pytest.mark.parametrize("vector", load("nist_aes256.json", "block"))
def test_the_block_of_fips_197(vector: Texts) -> None:
    key, plain, cipher = octets(vector, "key", "plaintext", "ciphertext")
    words = np.zeros(2, dtype=np.uint64)
    add_masks(words, [mask_key(key)], [], start=2 * int.from_bytes(plain, "big"))
    assert words.astype("<u8").tobytes() == cipher


@settings(max_examples=20, deadline=None)
@given(KEYS, st.integers(0, 40))
def test_a_mask_is_the_slow_one(key: bytes, length: int) -> None:
    assert expand(mask_key(key), length).tolist() == slow_crypto.mask_words(key, length)


@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_leave_no_seam(length: int) -> None:
    raw = sha256(b"seam").digest()
    assert CHUNK_WORDS * WORD_BYTES == CHUNK_BYTES
    assert np.array_equal(expand(mask_key(raw), length), library(raw, length))


# In place, and modulo 2**64


@settings(max_examples=40, deadline=None)
@given(
    st.lists(KEYS, max_size=4), st.lists(KEYS, max_size=4), st.lists(st.integers(0, 2**64 - 1), max_size=20)
)
def test_masks_are_added_and_subtracted_modulo_two_to_the_64(
    plus: list[bytes], minus: list[bytes], values: list[int]
) -> None:
    vector = np.array(values, dtype=np.uint64)
    add_masks(vector, [mask_key(key) for key in plus], [mask_key(key) for key in minus])
    expected = [
        (
            value
            + sum(int(library(key, len(values))[at]) for key in plus)
            - sum(int(library(key, len(values))[at]) for key in minus)
        )
        % 2**64
        for at, value in enumerate(values)
    ]
    assert vector.tolist() == expected


@pytest.mark.parametrize("length", LENGTHS)
def test_adding_and_then_subtracting_changes_nothing(length: int) -> None:
    plus, minus = labelled("a", "b", "c"), labelled("d", "e")
    vector = some_words(length)
    add_masks(vector, plus, minus)
    assert length == 0 or not np.array_equal(vector, some_words(length))
    add_masks(vector, minus, plus)
    assert np.array_equal(vector, some_words(length))
    add_masks(vector, plus, plus)
    assert np.array_equal(vector, some_words(length))


def test_extreme_words_wrap_silently() -> None:
    vector = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    add_masks(vector, labelled("a") * 3, [])
    mask = library(sha256(b"a").digest(), 4).tolist()
    starts = (0, 2**63 - 1, 2**63, 2**64 - 1)
    assert vector.tolist() == [(at + 3 * word) % 2**64 for at, word in zip(starts, mask, strict=True)]


# Ranges and workers


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3 * CHUNK_WORDS // 2), max_size=5), st.integers(0, 3 * CHUNK_WORDS))
def test_ranges_from_any_even_word_add_up_to_the_whole(halves: list[int], length: int) -> None:
    plus, minus = labelled("a", "b"), labelled("c")
    whole, parts = some_words(length), some_words(length)
    add_masks(whole, plus, minus)
    cuts = sorted({0, length, *(2 * half for half in halves if 2 * half < length)})
    for begin, end in pairwise(cuts):
        add_masks(parts[begin:end], plus, minus, start=begin)
    assert np.array_equal(parts, whole)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("length", [0, 1, CHUNK_WORDS, CHUNK_WORDS + 1, 5 * CHUNK_WORDS + 3])
def test_any_number_of_workers_does_the_same(workers: int, length: int) -> None:
    plus, minus = labelled("a", "b"), labelled("c")
    alone, together = some_words(length), some_words(length)
    add_masks(alone, plus, minus)
    with ThreadPoolExecutor(2) as pool:
        add_masks_parallel(together, plus, minus, pool, workers)
    assert np.array_equal(together, alone)


def test_a_fault_in_a_worker_is_the_callers_fault_too() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="32 bytes, got 16"):
        add_masks_parallel(some_words(10), [mask_key(bytes(16))], [], pool, 2)


# Refusals


@pytest.mark.parametrize(
    ("vector", "start", "size", "message"),
    [
        (np.zeros(4, dtype=np.int64), 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=np.float64), 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=np.uint32), 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=">u8"), 0, 32, "one-dimensional uint64"),
        (np.zeros((2, 2), dtype=np.uint64), 0, 32, "one-dimensional uint64"),
        (np.zeros(4, dtype=np.uint64), 1, 32, "even word"),
        (np.zeros(4, dtype=np.uint64), 0, 16, "32 bytes, got 16"),
        (np.zeros(4, dtype=np.uint64), 0, 24, "32 bytes, got 24"),
        (np.zeros(4, dtype=np.uint64), 0, 33, "32 bytes, got 33"),
    ],
)
def test_what_cannot_be_masked_is_refused_and_left_alone(
    vector: Vector, start: int, size: int, message: str
) -> None:
    good, bad = mask_key(bytes(32)), mask_key(bytes(size))
    with pytest.raises(ValueError, match=message):
        add_masks(vector, [good], [bad], start)
    assert not vector.any()


def test_a_wiped_key_masks_nothing() -> None:
    vector = np.zeros(4, dtype=np.uint64)
    good, wiped = labelled("a", "b")
    wiped.wipe()
    with pytest.raises(ValueError, match="wiped"):
        add_masks(vector, [good, wiped], [])
    assert not vector.any()


# Every key its own stream, every residue as likely as any other


def test_a_flipped_bit_at_any_of_256_places_of_the_key_changes_the_stream() -> None:
    raw = int.from_bytes(sha256(b"flip").digest(), "big")
    keys = [raw, *(raw ^ 1 << bit for bit in range(256))]
    streams = [expand(mask_key(key.to_bytes(32, "big")), 64) for key in keys]
    assert len({tuple(stream.tolist()) for stream in streams}) == 257
    # 4096 bits of each differ from the first stream's by a fair coin: 7 standard deviations are 7 * 32.
    for stream in streams[1:]:
        differing = int(np.sum(np.bitwise_count(stream ^ streams[0])))
        assert abs(differing - 2048) < 7 * 32


WORDS = 1 << 18
ALARM = 1e-8
"""False-alarm rate of each statistic below, of which there are fewer than 100 (Bonferroni)."""


def residues(stream: Vector, modulus: int) -> NDArray[np.int64]:
    """Return how often each residue modulo ``modulus`` occurs."""
    return np.bincount((stream % np.uint64(modulus)).astype(np.int64), minlength=modulus).astype(np.int64)


def faults(counts: NDArray[np.int64]) -> list[str]:
    """Return what is uneven: all residues together by chi-square, 0 and the top one by the binomial law."""
    total, sizes = int(counts.sum()), len(counts)
    statistic = float(((counts - total / sizes) ** 2).sum()) * sizes / total
    found = ["spread"] if float(chdtrc(sizes - 1, statistic)) < ALARM else []
    for name, count in (("bottom", int(counts[0])), ("top", int(counts[-1]))):
        at_most = float(bdtr(count, total, 1 / sizes))
        at_least = 1 - float(bdtr(count - 1, total, 1 / sizes)) if count else 1.0
        if min(at_most, at_least) < ALARM / 2:
            found.append(name)
    return found


@pytest.mark.parametrize("modulus", [2, 3, 256, 257, 4096])
def test_every_residue_is_as_likely_as_any_other(modulus: int) -> None:
    """Also 0 and the top one; a modulus that does not divide 2**64 is uneven by less than 2**-50."""
    counts = residues(expand(labelled(f"residues {modulus}")[0], WORDS), modulus)
    assert int(counts.sum()) == WORDS
    assert faults(counts) == []


@pytest.mark.parametrize("modulus", [256, 4096])
def test_the_top_bits_are_as_even_as_the_low_ones(modulus: int) -> None:
    stream = expand(labelled(f"top {modulus}")[0], WORDS)
    assert faults(residues(stream // np.uint64(2**64 // modulus), modulus)) == []


def test_masked_vectors_are_as_even_as_masks() -> None:
    """Zeros under one mask, and the largest word under a difference of masks."""
    zeros, largest = np.zeros(WORDS, dtype=np.uint64), np.full(WORDS, 2**64 - 1, dtype=np.uint64)
    add_masks(zeros, labelled("one"), [])
    add_masks(largest, labelled("two"), labelled("three"))
    assert faults(residues(zeros, 256)) == []
    assert faults(residues(largest, 256)) == []


def test_the_statistics_see_an_end_that_is_left_out() -> None:
    """The mistake they are there for: a generator that never reaches its upper bound, or never 0."""
    even = expand(labelled("power")[0], WORDS)
    below_top = even % np.uint64(4095)
    assert faults(residues(below_top, 4096)) == ["top"]
    assert faults(residues(below_top + np.uint64(1), 4096)) == ["bottom"]
    assert faults(residues(even % np.uint64(255), 256)) == ["spread", "top"]
    assert faults(residues(even & np.uint64(2**64 - 2), 256)) == ["spread", "bottom", "top"]
