"""Mask expansion modulo a prime: AES-256-CTR words, cut to the prime's bits and rejected where they reach it.

Encrypted vectors live modulo the plaintext prime p of the encryption, so their masks do too. Reducing a 64-bit word modulo p
would favour small residues; a word is cut to the bits of p instead, and one that is p or more is drawn again, which makes
every residue exactly as likely as any other.

A rejection must not move later words, or threads could not take ranges of one vector. So word i has candidates of its own:
candidate 0 is word i of the keystream, as in `cohortsum.crypto.masks`, and candidate r >= 1 is the first word of the cipher
block of counter r * 2**64 + i. Blocks of the keystream itself have counters below 2**63, so no block serves twice.

The prime of two-key mode lies so close below a power of two that a word is rejected once in 7 * 10**13; just above a power of
two it is every other word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from cohortsum.crypto.masks import CHUNK_BYTES, WORD_BYTES, WORDS_PER_BLOCK, Vector, keystream_of
from cohortsum.crypto.secret import SecretBytes

GREATEST_MODULUS = 2**63 - 1

_ZEROS = bytes(CHUNK_BYTES)


def add_masks_modulo(
    vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], modulus: int, start: int = 0
) -> None:
    """Add the masks of ``plus`` and subtract those of ``minus`` modulo ``modulus``, in place.

    Args:
        vector: (length,) uint64, contiguous, residues in [0, modulus); words ``start`` to ``start + length`` of the whole vector.
        plus: 32-byte keys whose masks are added.
        minus: 32-byte keys whose masks are subtracted.
        modulus: in [2, 2**63).
        start: index of the first word; even, because one cipher block holds two words.

    Raises:
        ValueError: for another dtype, a modulus or a residue out of range, an odd start, a range that ends beyond word
            2**64, or a key of another length; the vector is then unchanged.
    """
    if vector.dtype != np.uint64 or vector.ndim != 1:
        raise ValueError("masks are added to a one-dimensional uint64 vector")
    if not 2 <= modulus <= GREATEST_MODULUS:
        raise ValueError("masks are drawn modulo a number in [2, 2**63)")
    if start < 0 or start % WORDS_PER_BLOCK or start + len(vector) > 1 << 64:
        raise ValueError("a range starts at an even word, one cipher block holds two, and ends by word 2**64")
    if len(vector) and vector.max() >= modulus:
        raise ValueError("masks are added to residues: every word is less than the modulus")
    streams = [_Stream(key, keystream_of(key, start), added=True) for key in plus]
    streams += [_Stream(key, keystream_of(key, start), added=False) for key in minus]
    size = min(CHUNK_BYTES, vector.nbytes)
    buffer = bytearray(size + 16)  # the library asks for room for one more block
    words: Vector = np.frombuffer(buffer, dtype="<u8", count=size // WORD_BYTES)
    quotients = np.empty_like(words)
    for begin in range(0, len(vector), max(len(words), 1)):
        chunk = vector[begin : begin + len(words)]
        part = slice(0, len(chunk))
        _add_to_chunk(chunk, streams, modulus, start + begin, buffer, words[part], quotients[part])
    buffer[:] = bytes(len(buffer))
    quotients[:] = 0


def expand_modulo(key: SecretBytes, length: int, modulus: int, start: int = 0) -> Vector:
    """Return ``length`` words of a key's mask from word ``start`` on, residues in [0, modulus)."""
    vector = np.zeros(length, dtype=np.uint64)
    add_masks_modulo(vector, [key], [], modulus, start)
    return vector


@dataclass(frozen=True, slots=True)
class _Stream:
    key: SecretBytes
    cipher: CipherContext
    added: bool


def _add_to_chunk(
    chunk: Vector,
    streams: Sequence[_Stream],
    modulus: int,
    start: int,
    buffer: bytearray,
    words: Vector,
    quotients: Vector,
) -> None:
    """Add the next words of every stream to the residues of a chunk.

    One sum grows without reduction: it starts below p, a mask adds less than p, and for every mask that will be subtracted
    it is given p beforehand, so it never falls below 0. ``room`` terms of p fit into a word; it is reduced once per so many.
    For a prime of 60 bits that is once per 15 keys, for one just below 2**63 once per key.
    """
    zeros = _ZEROS if chunk.nbytes == CHUNK_BYTES else _ZEROS[: chunk.nbytes]
    batch = (1 << 64) // modulus - 1  # room, less the residue that is there
    p, mask = np.uint64(modulus), np.uint64((1 << modulus.bit_length()) - 1)
    for first in range(0, len(streams), batch):
        taken = streams[first : first + batch]
        np.add(chunk, np.uint64(modulus * sum(not stream.added for stream in taken)), out=chunk)
        for stream in taken:
            stream.cipher.update_into(zeros, buffer)
            np.bitwise_and(words, mask, out=words)
            if words.max() >= p:
                _replace(words, stream.key, modulus, start)
            (np.add if stream.added else np.subtract)(chunk, words, out=chunk)
        np.floor_divide(chunk, p, out=quotients)
        np.multiply(quotients, p, out=quotients)
        np.subtract(chunk, quotients, out=chunk)


def _replace(words: Vector, key: SecretBytes, modulus: int, start: int) -> None:
    """Draw every word that is not below the modulus anew from its own blocks, until it is."""
    cipher = Cipher(algorithms.AES(key.reveal()), modes.ECB())  # noqa: S305  # blocks of counters: counter mode, with gaps
    encryptor = cipher.encryptor()
    mask = np.uint64((1 << modulus.bit_length()) - 1)
    rejected: NDArray[np.intp] = np.flatnonzero(words >= np.uint64(modulus))
    candidate = 0
    while len(rejected):
        candidate += 1
        counters = np.empty((len(rejected), 2), dtype=">u8")
        counters[:, 0] = candidate
        counters[:, 1] = rejected.astype(np.uint64) + np.uint64(start)
        blocks = np.frombuffer(encryptor.update(counters.tobytes()), dtype="<u8")
        drawn = blocks[::2].astype(np.uint64) & mask
        words[rejected] = drawn
        rejected = rejected[drawn >= np.uint64(modulus)]
