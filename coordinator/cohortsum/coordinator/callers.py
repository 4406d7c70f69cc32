"""Who calls: the identity of the newest roster whose key certified the TLS key of a connection."""

from typing import Any

import grpc

from cohortsum.protocol.callers import certified_identity
from cohortsum.protocol.roster import Identity, Role, Roster

Context = grpc.aio.ServicerContext[Any, Any]
"""gRPC's own types name the request and response of every method; the edge needs neither."""

CALLERS = frozenset({Role.SITE, Role.STATISTICIAN, Role.CHECKER, Role.AUDITOR})
"""Roles that may call at all; single calls ask for one of them."""


def identify(context: Context, roster: Roster) -> Identity:
    """Return the identity of ``roster``, with a role that may call, whose key certified the caller's TLS key.

    Raises AuthenticationError, which never says why.
    """
    return certified_identity(
        next(iter(context.auth_context().get("x509_pem_cert", ())), None), roster, CALLERS
    )
