"""Who calls: the identity of the newest roster whose key certified the TLS key of a connection."""

from functools import lru_cache
from typing import Any

import grpc

from cohortsum.crypto.certificates import certified_name, check_certified
from cohortsum.crypto.errors import AuthenticationError
from cohortsum.protocol.roster import Identity, Role, Roster

Context = grpc.aio.ServicerContext[Any, Any]
"""gRPC's own types name the request and response of every method; the edge needs neither."""

CALLERS = frozenset({Role.SITE, Role.STATISTICIAN, Role.CHECKER, Role.AUDITOR})
"""Roles that may call at all; single calls ask for one of them."""


def identify(context: Context, roster: Roster) -> Identity:
    """Return the identity of ``roster``, with a role that may call, whose key certified the caller's TLS key.

    Raises AuthenticationError, which never says why.
    """
    pem = next(iter(context.auth_context().get("x509_pem_cert", ())), None)
    if pem is None:
        raise AuthenticationError
    identity = roster.identities.get(_name(pem))
    if identity is None or identity.role not in CALLERS:
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
