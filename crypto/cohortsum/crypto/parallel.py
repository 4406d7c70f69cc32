"""Mask expansion over several workers of an executor that the caller owns."""

from collections.abc import Sequence
from concurrent.futures import Executor

from cohortsum.crypto.masks import CHUNK_BYTES, WORD_BYTES, Vector, add_masks
from cohortsum.crypto.secret import SecretBytes

CHUNK_WORDS = CHUNK_BYTES // WORD_BYTES


def add_masks_parallel(
    vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], pool: Executor, workers: int
) -> None:
    """Do what `add_masks` does, on disjoint ranges of whole chunks, one per worker.

    Args:
        vector: (length,) uint64, contiguous, changed in place.
        plus: keys whose masks are added.
        minus: keys whose masks are subtracted.
        pool: where the ranges are worked on; cipher and addition release the interpreter lock.
        workers: number of ranges.
    """
    chunks = -(-len(vector) // CHUNK_WORDS)
    size = max(1, -(-chunks // workers)) * CHUNK_WORDS
    ranges = [
        pool.submit(add_masks, vector[start : start + size], plus, minus, start)
        for start in range(0, len(vector), size)
    ]
    for done in ranges:
        done.result()
