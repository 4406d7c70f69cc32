"""Bytes of ciphertexts and keys: frames of one size, and bounds that hold before TenSEAL parses anything.

SEAL compresses what it saves, so a ciphertext's length depends on its bytes. A frame is a length of four little-endian bytes,
the ciphertext, and zeros up to a size that follows from the parameters alone: what travels tells nothing.

Compressed bytes can also unfold: a few hundred kilobytes could hold thousands of ciphertexts of zeros, of gigabytes. TenSEAL
wraps SEAL's bytes in protobuf messages, whose few fields are walked here first: one ciphertext per frame, one public key and
nothing else per key. SEAL itself never unfolds more than the parameters allow for one object.
"""

import numpy as np

from cohortsum.crypto.errors import CryptoError, PublicKeyError
from cohortsum.crypto.masks import WORD_BYTES, Vector

LENGTH_BYTES = 4
PAGE_BYTES = 4096
MOST_PARAMETER_BYTES = 128
"""Bytes of a key's parameters: room for a dozen coefficient moduli, too few to fill a memory with tables."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def frame_bytes(raw: int) -> int:
    """Return the size of a frame, whatever the bytes are, that holds an object of ``raw`` bytes of coefficients.

    zstd makes n bytes no longer than n + n / 256 and 64 more (ZSTD_COMPRESSBOUND). Half a page is room for the rest: SEAL's
    header and metadata take 137 bytes, TenSEAL's wrapping a dozen, a block of zstd three per 128 KiB.
    """
    whole = LENGTH_BYTES + raw + raw // 256 + PAGE_BYTES // 2
    return -(-whole // PAGE_BYTES) * PAGE_BYTES


def put_frame(data: bytes, frame: memoryview) -> None:
    """Write bytes into a frame of zeros; raises CryptoError if they do not fit."""
    if LENGTH_BYTES + len(data) > len(frame):
        raise CryptoError(f"a ciphertext has {len(data)} bytes: its frame holds {len(frame) - LENGTH_BYTES}")
    frame[:LENGTH_BYTES] = len(data).to_bytes(LENGTH_BYTES, "little")
    frame[LENGTH_BYTES : LENGTH_BYTES + len(data)] = data


def from_frame(words: Vector, size: int, what: str) -> bytes:
    """Return the bytes in a frame of ``size`` bytes; raises CryptoError for another size, length or filling than zeros."""
    if words.dtype != np.uint64 or words.ndim != 1 or words.nbytes != size:
        raise CryptoError(f"{what}: expected a frame of {size // WORD_BYTES} words")
    data = words.astype("<u8", copy=False).tobytes()
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    if end > size:
        raise CryptoError(f"{what}: says it is longer than its frame of {size} bytes")
    if data[end:] != bytes(size - end):
        raise CryptoError(f"{what}: its frame is filled with something other than zeros")
    return data[LENGTH_BYTES:end]


def check_one_ciphertext(data: bytes, slots: int, what: str) -> None:
    """Check that TenSEAL's message holds one vector of ``slots`` numbers in one ciphertext; raises CryptoError.

    Its fields are the sizes of vectors (a packed list) and the ciphertexts, and nothing may follow.
    """
    fields = _fields(data)
    sizes = _varint(slots)
    if fields is None or [(number, kind) for number, kind, _, _ in fields] != [(1, _BYTES), (2, _BYTES)]:
        raise CryptoError(f"{what}: expected one ciphertext of TenSEAL's BFV vectors and nothing else")
    _, _, begin, end = fields[0]
    if data[begin:end] != sizes:
        raise CryptoError(f"{what}: expected a vector that fills {slots} slots")


def check_public_key_alone(data: bytes) -> None:
    """Check that TenSEAL's message holds parameters of a bounded length and a public key alone; raises PublicKeyError."""
    fields = _fields(data)
    if fields is None or not fields or fields[0][:2] != (1, _BYTES):
        raise PublicKeyError("the trustee's key: these bytes are not a context of TenSEAL")
    if fields[0][3] - fields[0][2] > MOST_PARAMETER_BYTES:
        raise PublicKeyError(
            f"the trustee's key: its parameters have more than {MOST_PARAMETER_BYTES} bytes, as no key of ours has"
        )
    if [(number, kind) for number, kind, _, _ in fields] != [(1, _BYTES), (2, _BYTES)]:
        raise PublicKeyError(
            "the trustee's key: it holds more than parameters and a public key, such as a secret key, or a symmetric "
            "key; a public key is shared without any of them"
        )
    public = _fields(data[fields[1][2] : fields[1][3]])
    shape = None if public is None else [(number, kind) for number, kind, _, _ in public]
    if shape not in ([(1, _BYTES), (2, _VARINT), (3, _FIXED64)], [(1, _BYTES), (3, _FIXED64)]):
        raise PublicKeyError(
            "the trustee's key: expected a public key alone, without Galois or relinearisation keys, which sums do not need"
        )


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _fields(data: bytes) -> list[tuple[int, int, int, int]] | None:
    """Return number, wire type, begin and end of every field of a protobuf message; None where it is not one."""
    found: list[tuple[int, int, int, int]] = []
    at = 0
    while at < len(data):
        if len(found) == 8:
            return None
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        size = {_VARINT: 0, _FIXED64: 8}.get(kind)
        if kind in (_VARINT, _BYTES):
            value, at = _read_varint(data, at)
            size = value if kind == _BYTES else 0
        if size is None or at < 0 or at + size > len(data):
            return None
        found.append((number, kind, at, at + size))
        at += size
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it; a place below 0 where there is none of at most five bytes."""
    value = 0
    for place, byte in enumerate(data[at : at + 5] if at >= 0 else b""):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    return 0, -len(data) - 1
