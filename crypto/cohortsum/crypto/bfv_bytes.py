"""Bytes of TenSEAL and SEAL, taken apart: what comes from others is bounded before either of them parses it.

SEAL precedes coefficients by metadata, and compresses both with zstd. Metadata can lie: a ciphertext of some hundred bytes that
says it has no polynomials, but an array of 2**31 numbers, makes SEAL reserve 16 GB and keep them. So metadata do not travel.
A ciphertext is its coefficients and nothing else, a public key is unfolded here and compared up to its coefficients, and what
SEAL is given is put together anew around them, uncompressed.

Both layers are simple. SEAL's objects have a header of 16 bytes: two of magic, its length, version (2), compression, two
unused, length of the whole. TenSEAL's messages are protobuf: a vector has a list of sizes (1) and ciphertexts (2); a context has
parameters (1), a public part (2) with public key (1), flags (2), scale (3) and evaluation keys, and a secret part (3).
"""

from dataclasses import dataclass

from cohortsum.crypto.errors import PublicKeyError
from cohortsum.crypto.tenseal_seam import decompressed

HEADER_BYTES = 16
METADATA_BYTES = 97
"""What precedes the coefficients of a ciphertext or public key: id, form, sizes, scale, and the head of an array."""
MOST_PARAMETER_BYTES = 128
"""Bytes of a key's parameters: room for a dozen coefficient moduli, too few to fill a memory with tables."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_FLAGS_AND_SCALE = b"\x10\x07\x19" + bytes.fromhex("000000000000f0bf")
"""A context's flags, all set, and no scale: as TenSEAL writes them for BFV."""


def seal_content(seal: bytes, size: int) -> bytes | None:
    """Return the ``size`` bytes that an object of SEAL holds behind its header, unfolded; None if it holds anything else."""
    head, body = seal[:HEADER_BYTES], seal[HEADER_BYTES:]
    if len(head) < HEADER_BYTES or int.from_bytes(head[8:], "little") != len(seal):
        return None
    if head[5] == 0:
        return body if len(body) == size else None
    return decompressed(body, size) if head[5] == 2 else None


def seal_object(version: bytes, *content: bytes) -> bytes:
    """Return an object of SEAL that is not compressed; ``version`` is the header of any object that this SEAL wrote."""
    size = HEADER_BYTES + sum(len(part) for part in content)
    return b"".join((version[:5], b"\0", version[6:8], size.to_bytes(8, "little"), *content))


def vector_of(seal: bytes, slots: int) -> bytes:
    """Return TenSEAL's message of a vector that fills ``slots`` slots of one ciphertext."""
    sizes = _varint(slots)
    return b"".join((_head(1, sizes), sizes, _head(2, seal), seal))


def ciphertext_in(vector: bytes, slots: int) -> bytes | None:
    """Return the ciphertext in a message as `vector_of` makes it; None for any other message."""
    fields = _fields(vector)
    if fields is None or [field.kind for field in fields] != [(1, _BYTES), (2, _BYTES)]:
        return None
    return fields[1].content if fields[0].content == _varint(slots) else None


def context_of(parameters: bytes, public_key: bytes = b"") -> bytes:
    """Return TenSEAL's message of a context with a public key alone, or with none."""
    public = (_head(1, public_key) + public_key if public_key else b"") + _FLAGS_AND_SCALE
    return b"".join((_head(1, parameters), parameters, _head(2, public), public))


def public_key_in(context: bytes) -> tuple[bytes, bytes]:
    """Return parameters and public key of a context that holds nothing else; raises PublicKeyError."""
    fields = _fields(context)
    if not fields or fields[0].kind != (1, _BYTES):
        raise PublicKeyError("the trustee's key: these bytes are not a context of TenSEAL")
    if len(fields[0].content) > MOST_PARAMETER_BYTES:
        raise PublicKeyError(
            f"the trustee's key: its parameters have more than {MOST_PARAMETER_BYTES} bytes, as no key of ours has"
        )
    if [field.kind for field in fields] != [(1, _BYTES), (2, _BYTES)]:
        raise PublicKeyError(
            "the trustee's key: it holds more than parameters and a public key, such as a secret key, or a symmetric "
            "key; a public key is shared without any of them"
        )
    public = _fields(fields[1].content) or []
    if [field.kind for field in public] != [(1, _BYTES), (2, _VARINT), (3, _FIXED64)]:
        raise PublicKeyError(
            "the trustee's key: expected a public key alone, without Galois or relinearisation keys, which sums do not need"
        )
    return fields[0].content, public[0].content


@dataclass(frozen=True, slots=True)
class _Field:
    kind: tuple[int, int]
    content: bytes


def _head(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(content))


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _fields(data: bytes) -> list[_Field] | None:
    """Return number, wire type and content of the fields of a protobuf message; None where it is not one of a few fields."""
    found: list[_Field] = []
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
        found.append(_Field((number, kind), data[at : at + size]))
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
