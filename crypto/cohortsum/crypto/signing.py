"""Ed25519 signatures (RFC 8032) over domain-separated, length-prefixed strings.

What is signed is always the received bytes behind a domain, never a re-serialisation: protobuf has many encodings of one
message.
"""

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import AuthenticationError, PublicKeyError
from cohortsum.crypto.secret import SecretBytes

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
LOW_ORDER = frozenset(
    bytes.fromhex(key)
    for key in (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    )
)
"""Encodings of the eight points of low order; under such a key a signature over anything can be made by anybody."""


class IdentityKey:
    """A private Ed25519 key, made from 32 secret bytes; its public half is pinned in the roster."""

    __slots__ = ("private", "public")

    def __init__(self, seed: SecretBytes) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(seed.reveal())
        self.public: bytes = self.private.public_key().public_bytes_raw()

    def sign(self, domain: str, *fields: bytes) -> bytes:
        """Return the 64-byte signature over ``encode(domain, *fields)``."""
        return self.private.sign(encode(domain.encode("ascii"), *fields))

    def __repr__(self) -> str:
        return "<Ed25519 private key>"


def verify(public: bytes, signature: bytes, domain: str, *fields: bytes) -> None:
    """Raise AuthenticationError unless ``signature`` is ``public``'s own over ``encode(domain, *fields)``."""
    try:
        public_key(public).verify(signature, encode(domain.encode("ascii"), *fields))
    except InvalidSignature as error:
        raise AuthenticationError from error


@lru_cache(maxsize=4096)  # the keys of a roster, parsed once
def public_key(raw: bytes) -> Ed25519PublicKey:
    """Return the public key that 32 bytes encode; raises PublicKeyError for another length or a point of low order."""
    if raw in LOW_ORDER:
        raise PublicKeyError(
            "an Ed25519 public key of low order: anybody could sign under it; its owner is refused"
        )
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise PublicKeyError(f"an Ed25519 public key has {PUBLIC_BYTES} bytes, got {len(raw)}") from error
