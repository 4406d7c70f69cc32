"""Opened sums as they are kept: block names and sizes as JSON, then the integers, little-endian int64.

They are kept so that a later version of the study need not open unchanged blocks again. Whoever may read the coordinator's
store may read them; so it is with the result itself.
"""

import json
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StoreError

Integers = NDArray[np.int64]
HEAD_BYTES = 8


def pack(sums: Mapping[str, Integers]) -> bytes:
    """Return sums by block name as bytes."""
    head = json.dumps([[name, len(values)] for name, values in sums.items()]).encode()
    body = b"".join(values.astype("<i8").tobytes() for values in sums.values())
    return len(head).to_bytes(HEAD_BYTES, "little") + head + body


def unpack(data: bytes) -> dict[str, Integers]:
    """Return what `pack` was given; raises StoreError for anything else."""
    start = HEAD_BYTES + int.from_bytes(data[:HEAD_BYTES], "little")
    try:
        listed = cast("list[tuple[str, int]]", json.loads(data[HEAD_BYTES:start]))
        values = np.frombuffer(data[start:], "<i8").astype(np.int64)
        if sum(size for _, size in listed) != len(values):
            raise ValueError("length")
    except (ValueError, TypeError):
        raise StoreError(
            "stored sums have another form than this version writes; restore the store"
        ) from None
    sums: dict[str, Integers] = {}
    place = 0
    for name, size in listed:
        sums[name] = values[place : place + size]
        place += size
    return sums
