"""Bytes that mean one thing: length-prefixed fields and domain-separated digests.

Joining fields without lengths lets ``"1" + "23"`` equal ``"12" + "3"``; a signature over such a string is valid for both.
Every signed or hashed string in cohortsum is therefore ``encode(domain, field, ...)``: each field behind its length as
eight big-endian bytes, the domain first, so that no two purposes share a string.
"""

import hashlib


def encode(*fields: bytes) -> bytes:
    """Return the fields, each behind its length; two different lists of fields never give the same bytes."""
    parts: list[bytes] = []
    for field in fields:
        parts.append(len(field).to_bytes(8, "big"))
        parts.append(field)
    return b"".join(parts)


def digest(domain: str, *fields: bytes) -> bytes:
    """Return the SHA-256 digest, 32 bytes, of ``encode(domain, *fields)``."""
    return hashlib.sha256(encode(domain.encode("ascii"), *fields)).digest()


def number(value: int) -> bytes:
    """Return a whole number in [0, 2**64) as eight big-endian bytes; raises OverflowError outside."""
    return value.to_bytes(8, "big")
