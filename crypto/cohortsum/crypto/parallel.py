"""Mask expansion over several workers of an executor that the caller owns."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from cohortsum.crypto.masks import CHUNK_BYTES, WORD_BYTES, Vector, add_masks
from cohortsum.crypto.modular import add_masks_modulo
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
    _in_ranges(lambda part, start: add_masks(part, plus, minus, start), vector, pool, workers)


def add_masks_modulo_parallel(
    vector: Vector,
    plus: Sequence[SecretBytes],
    minus: Sequence[SecretBytes],
    modulus: int,
    pool: Executor,
    workers: int,
) -> None:
    """Do what `add_masks_modulo` does, as `add_masks_parallel` does it.

    A residue out of range is refused by the worker that meets it; the other ranges may have changed by then.
    """
    _in_ranges(lambda part, start: add_masks_modulo(part, plus, minus, modulus, start), vector, pool, workers)


def _in_ranges(work: Callable[[Vector, int], None], vector: Vector, pool: Executor, workers: int) -> None:
    chunks = -(-len(vector) // CHUNK_WORDS)
    size = max(1, -(-chunks // workers)) * CHUNK_WORDS
    ranges = [pool.submit(work, vector[start : start + size], start) for start in range(0, len(vector), size)]
    for done in ranges:
        done.result()
