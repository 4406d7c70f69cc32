"""The digests by which sites know that they saw the same round.

``h1`` covers all signed adverts (L1), ``h2`` the complete signed share message of every site of U2, the *statement* covers
h1, h2, U3 and the signed digests of its members. Sites sign the statement once per context; with 2 t > n + c at most one
statement can collect t signatures.
"""

from collections.abc import Iterable

from cohortsum.crypto.encoding import digest
from cohortsum.protocol.messages import Envelope


def adverts_digest(context: bytes, adverts: Iterable[Envelope]) -> bytes:
    """Return h1 over all signed adverts, by roster index."""
    return digest("cohortsum/v1/h1", context, *(advert.digest for advert in adverts))


def shares_digest(context: bytes, h1: bytes, shares: Iterable[Envelope]) -> bytes:
    """Return h2 over the signed share messages of U2, by roster index."""
    return digest("cohortsum/v1/h2", context, h1, *(share.digest for share in shares))


def statement(context: bytes, h1: bytes, h2: bytes, masked: Iterable[Envelope]) -> bytes:
    """Return the digest of U3 with its members' signed digests, by roster index."""
    return digest("cohortsum/v1/statement", context, h1, h2, *(envelope.digest for envelope in masked))
