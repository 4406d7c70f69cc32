"""Mask expansion: AES-256-CTR keystreams added to a vector modulo 2**64.

The keystream under a fresh 32-byte key and a zero initial counter block (NIST SP 800-38A, 6.5) is read as little-endian
uint64 words and added or subtracted in place; uint64 wraps, which is the group's own arithmetic. The vector is walked in
chunks that stay in the second-level cache, with all keys inside a chunk, so that memory holds one chunk of keystream
whatever the length and the number of keys. Counter mode can start at any block: callers may hand disjoint ranges of one
vector to several threads; the cipher and numpy both release the interpreter lock.
"""

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from cohortsum.crypto.secret import SecretBytes

Vector = NDArray[np.uint64]

CHUNK_BYTES = 256 * 1024
KEY_BYTES = 32
WORD_BYTES = 8
WORDS_PER_BLOCK = 2

_ZEROS = bytes(CHUNK_BYTES)


def add_masks(
    vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], start: int = 0
) -> None:
    """Add the masks of ``plus`` and subtract those of ``minus``, in place.

    Args:
        vector: (length,) uint64, contiguous; words ``start`` to ``start + length`` of the whole vector.
        plus: 32-byte keys whose keystreams are added.
        minus: 32-byte keys whose keystreams are subtracted.
        start: index of the first word; even, because one cipher block holds two words.

    Raises:
        ValueError: for another dtype, an odd start or a key of another length.
    """
    if vector.dtype != np.uint64 or vector.ndim != 1:
        raise ValueError("masks are added to a one-dimensional uint64 vector")
    if start % WORDS_PER_BLOCK:
        raise ValueError("a range must start at an even word: one cipher block holds two")
    added = [keystream_of(key, start) for key in plus]
    subtracted = [keystream_of(key, start) for key in minus]
    size = min(CHUNK_BYTES, vector.nbytes)
    buffer = bytearray(size + 16)  # the library asks for room for one more block
    words: Vector = np.frombuffer(buffer, dtype="<u8", count=size // WORD_BYTES)
    for begin in range(0, len(vector), max(len(words), 1)):
        chunk = vector[begin : begin + len(words)]
        zeros = _ZEROS if chunk.nbytes == CHUNK_BYTES else _ZEROS[: chunk.nbytes]
        keystream = words[: len(chunk)]
        for stream in added:
            stream.update_into(zeros, buffer)
            np.add(chunk, keystream, out=chunk)
        for stream in subtracted:
            stream.update_into(zeros, buffer)
            np.subtract(chunk, keystream, out=chunk)
    buffer[:] = bytes(len(buffer))


def expand(key: SecretBytes, length: int) -> Vector:
    """Return the first ``length`` words of a key's mask."""
    vector = np.zeros(length, dtype=np.uint64)
    add_masks(vector, [key], [])
    return vector


def keystream_of(key: SecretBytes, start: int) -> CipherContext:
    """Return the AES-256-CTR stream of a key from an even word on; raises ValueError for a key of another length."""
    raw = key.reveal()
    if len(raw) != KEY_BYTES:
        raise ValueError(f"a mask key has {KEY_BYTES} bytes, got {len(raw)}")
    counter = (start // WORDS_PER_BLOCK).to_bytes(16, "big")
    return Cipher(algorithms.AES(raw), modes.CTR(counter)).encryptor()
