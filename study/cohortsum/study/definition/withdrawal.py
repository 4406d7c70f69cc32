"""A statistician takes a study back: a signature over its digest.

Only whoever signed the study may take it back. Open rounds end, released results stand, and nothing of it begins again.
"""

from dataclasses import dataclass

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.signing import IdentityKey, verify
from cohortsum.protocol.roster import Role, Roster

WITHDRAWAL = "cohortsum/v1/study-withdrawal"


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The digest of a study (32 bytes), and who takes it back."""

    digest: bytes
    statistician: str
    signature: bytes


def withdraw(digest: bytes, statistician: str, key: IdentityKey) -> Withdrawal:
    """Return the signed withdrawal of a study."""
    return Withdrawal(digest, statistician, key.sign(WITHDRAWAL, statistician.encode(), digest))


def verify_withdrawal(withdrawal: Withdrawal, signed_by: str, roster: Roster) -> None:
    """Raise AuthenticationError unless ``signed_by``, a statistician of the roster, signed this withdrawal."""
    identity = roster.identities.get(withdrawal.statistician)
    if identity is None or identity.role is not Role.STATISTICIAN or identity.id != signed_by:
        raise AuthenticationError("a study is withdrawn by the statistician who signed it")
    verify(
        identity.key, withdrawal.signature, WITHDRAWAL, withdrawal.statistician.encode(), withdrawal.digest
    )
