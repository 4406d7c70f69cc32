"""Which identity of a roster holds the other end of a connection: the one whose key certified its TLS key.

The TLS library has verified that some anchor of the roster certified it; this ties it to the one identity that it names. A coordinator and
a trustee ask so of everybody who calls.
"""

from collections.abc import Collection
from functools import lru_cache

from cohortsum.crypto.certificates import certified_name, check_certified
from cohortsum.crypto.errors import AuthenticationError
from cohortsum.protocol.roster import Identity, Role, Roster


def certified_identity(pem: bytes | None, roster: Roster, roles: Collection[Role]) -> Identity:
    """Return the identity of ``roster``, with one of ``roles``, whose key certified the key of a PEM certificate.

    Raises AuthenticationError, which never says why.
    """
    identity = None if pem is None else roster.identities.get(_name(pem))
    if pem is None or identity is None or identity.role not in roles:
        raise AuthenticationError
    _check(pem, identity.id, identity.key)
    return identity


@lru_cache(maxsize=1024)
def _name(pem: bytes) -> str:
    return certified_name(pem)


@lru_cache(maxsize=1024)
def _check(pem: bytes, name: str, key: bytes) -> None:
    """Verify once per certificate, name and key; nothing that fails is remembered."""
    check_certified(pem, name, key)
