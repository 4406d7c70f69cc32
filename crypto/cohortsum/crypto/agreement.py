"""X25519 key agreement (RFC 7748) with one encoding per public key.

X25519 ignores the top bit and reduces modulo p, so several encodings give one shared secret; a peer that may choose
between them can slip past checks for distinct keys. Only canonical encodings are accepted: value below 2**255 - 19, top
bit 0. Points of low order make the shared secret 0 and are refused when they arrive, so that whoever sends one is the only
one who pays for it.
"""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from cohortsum.crypto.errors import PublicKeyError
from cohortsum.crypto.field import PRIME
from cohortsum.crypto.secret import SecretBytes

PUBLIC_BYTES = 32
LOW_ORDER = frozenset(
    {
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
        PRIME - 1,
    }
)
"""u of every point whose order divides 8, on the curve and its twist; each makes any shared secret 0."""


class AgreementKey:
    """A private X25519 key, made from 32 secret bytes."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: SecretBytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(seed.reveal())
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def exchange(self, peer: bytes) -> SecretBytes:
        """Return the shared secret with a peer's public key; feed it to `derive`, never use it as a key.

        Raises:
            PublicKeyError: for a key that is not canonical or of low order.
        """
        check_public(peer)
        return SecretBytes(self._private.exchange(X25519PublicKey.from_public_bytes(peer)), "shared secret")

    def __repr__(self) -> str:
        return "<X25519 private key>"


def check_public(key: bytes) -> None:
    """Raise PublicKeyError unless ``key`` is the one canonical encoding of a point that is not of low order."""
    if len(key) != PUBLIC_BYTES:
        raise PublicKeyError(f"an X25519 public key has {PUBLIC_BYTES} bytes, got {len(key)}")
    if int.from_bytes(key, "little") >= PRIME:
        raise PublicKeyError("an X25519 public key that is not canonical: its owner is refused")
    if int.from_bytes(key, "little") in LOW_ORDER:
        raise PublicKeyError("an X25519 public key of low order: its owner is refused")
