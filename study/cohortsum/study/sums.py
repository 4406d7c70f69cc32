"""Opened sums as they are kept: a digest over the rest, block names and sizes as JSON, then the integers, little-endian int64.

The coordinator keeps them so that a later version of the study need not open unchanged blocks again, and both daemons keep those
of a fit's iterations, so that a restart does not end it. Whoever may read the coordinator's store may read them; so it is with
the result itself.
"""

import hashlib
import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StoreError

Integers = NDArray[np.int64]
HEAD_BYTES = 8
DIGEST_BYTES = 32


def pack(sums: Mapping[str, Integers]) -> bytes:
    """Return sums by block name as bytes."""
    head = json.dumps([[name, len(values)] for name, values in sums.items()]).encode()
    body = b"".join(values.astype("<i8").tobytes() for values in sums.values())
    held = len(head).to_bytes(HEAD_BYTES, "little") + head + body
    return hashlib.sha256(held).digest() + held


def unpack(data: bytes) -> dict[str, Integers]:
    """Return what `pack` was given; raises StoreError for anything else."""
    check, held = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    try:
        sums = _unpacked(held) if hashlib.sha256(held).digest() == check else None
    except (RecursionError, TypeError, ValueError):
        sums = None
    if sums is None or pack(sums) != data:
        raise StoreError("stored sums are damaged, or another version wrote them; restore the store")
    return sums


def _unpacked(held: bytes) -> dict[str, Integers]:
    start = HEAD_BYTES + int.from_bytes(held[:HEAD_BYTES], "little")
    listed: list[tuple[str, int]] = json.loads(held[HEAD_BYTES:start])
    values = np.frombuffer(held[start:], "<i8").astype(np.int64)
    sums: dict[str, Integers] = {}
    place = 0
    for name, size in listed:
        sums[name] = values[place : place + size]
        place += size
    return sums
