"""Commitments to seeds and shares: a digest over label, context, owner and value.

Seeds and shares are uniform over 255 bits, so a plain digest hides them; binding follows from collision resistance.
Every seed that is opened and every share that comes back is checked against what its owner signed at the start.
"""

import hmac

from cohortsum.crypto.encoding import digest, number
from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.field import to_bytes

SEED = "cohortsum/v1/commit/seed"
SHARE = "cohortsum/v1/commit/share"


def commit_seed(context: bytes, part: str, owner: int, seed: int) -> bytes:
    """Return the commitment to the self seed of ``owner`` (a roster index) for ``part``, gate or data."""
    return digest(SEED, context, part.encode("ascii"), number(owner), to_bytes(seed))


def commit_share(context: bytes, kind: str, owner: int, holder: int, share: int) -> bytes:
    """Return the commitment to the share of one of ``owner``'s seeds that ``holder`` gets."""
    return digest(SHARE, context, kind.encode("ascii"), number(owner), number(holder), to_bytes(share))


def check(expected: bytes, actual: bytes) -> None:
    """Raise AuthenticationError unless two commitments are equal; constant time."""
    if not hmac.compare_digest(expected, actual):
        raise AuthenticationError
