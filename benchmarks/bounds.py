"""What the primitives alone would cost: the only code here that computes what the product computes, and nothing of it.

The masking bound moves the same bytes as a mask step does: for every key and every 256 KiB of the vector one
AES-256-CTR ``update_into`` and one uint64 addition, on buffers made beforehand and one cipher context for all keys. No key
agreement, no derivation, no digest, no copy of the values.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from benchmarks.measure import cpu_ms, wall_ms

CHUNK_BYTES = 256 * 1024
WORD_BYTES = 8
SIGNED_BYTES = 200  # an advert with its context and lengths


def masking_bound_ms(length: int, keys: int) -> float:
    """Return the processor time of ``keys`` keystreams added to ``length`` words."""
    return cpu_ms(_mover(length, keys))[0]


def free_cores(length: int, keys: int, pool: Executor) -> float:
    """Return how much more the bare primitives do on two threads than on one: 2 where two cores are free."""
    one, two = _mover(length, keys), (_mover(length, keys), _mover(length, keys))

    def both() -> None:
        for moving in [pool.submit(move) for move in two]:
            moving.result()

    return 2 * wall_ms(one)[0] / wall_ms(both)[0]


def _mover(length: int, keys: int) -> Callable[[], None]:
    vector = np.zeros(length, dtype=np.uint64)
    stream = Cipher(algorithms.AES(bytes(32)), modes.CTR(bytes(16))).encryptor()
    buffer = bytearray(CHUNK_BYTES + 16)
    words = np.frombuffer(buffer, dtype=np.uint64, count=CHUNK_BYTES // WORD_BYTES)
    zeros = bytes(min(CHUNK_BYTES, length * WORD_BYTES))

    def move() -> None:
        for begin in range(0, length, len(words)):
            chunk = vector[begin : begin + len(words)]
            source, keystream = zeros[: chunk.nbytes], words[: len(chunk)]
            for _ in range(keys):
                stream.update_into(source, buffer)
                np.add(chunk, keystream, out=chunk)

    return move


def verifications_ms(count: int) -> float:
    """Return the processor time of ``count`` Ed25519 verifications of a short message under a ready key."""
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, message = private.public_key(), bytes(SIGNED_BYTES)
    signature = private.sign(message)

    def verify() -> None:
        for _ in range(count):
            public.verify(signature, message)

    return cpu_ms(verify)[0]
