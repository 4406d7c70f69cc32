"""The server of a trustee: TLS 1.3, and both ends prove an identity of the roster. Only the coordinator's key opens a connection."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import grpc

from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.limits import KIB, TRUSTEE_SIZES, Option, answering_options
from cohortsum.trustee.roll import Roll
from cohortsum.trustee.service import TrusteeService

CERTIFICATE_LIFETIME = timedelta(days=30)
CONNECTIONS = 64
"""Open connections, of strangers too until their handshake fails."""
CALLS_AT_ONCE = 16
"""Calls of one connection; further ones wait at the caller."""


def server_options() -> tuple[Option, ...]:
    """Return the options of the server: sizes of messages, and what connections may do."""
    return (
        *answering_options(TRUSTEE_SIZES),
        ("grpc.max_allowed_incoming_connections", CONNECTIONS),
        ("grpc.max_concurrent_streams", CALLS_AT_ONCE),
        ("grpc.http2.lookahead_bytes", 64 * KIB),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.server_handshake_timeout_ms", 20_000),
        ("grpc.max_connection_idle_ms", 600_000),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.enable_channelz", 0),
        ("grpc.so_reuseport", 0),
    )


def secure_server(
    service: TrusteeService, roll: Callable[[], Roll], identity: str, key: IdentityKey, listen: str
) -> tuple[grpc.aio.Server, int]:
    """Return a server, not started yet, and its port.

    Args:
        service: what it serves.
        roll: returns who counts now.
        identity: the trustee's id in the roster.
        key: its identity key.
        listen: host and port; port 0 picks a free one.

    Raises ConfigurationError where the address cannot be listened on.
    """
    server = grpc.aio.server(options=server_options())
    server.add_generic_rpc_handlers(service.handlers())
    desk = CertificateDesk(roll, identity, key, listen.rpartition(":")[0])
    first = desk.renewed()
    if first is None:
        raise AssertionError("the first certificate is new")
    due = cast(
        "Callable[[], grpc.ServerCertificateConfiguration]", desk.renewed
    )  # None: no change, says gRPC
    credentials = grpc.dynamic_ssl_server_credentials(first, due, require_client_authentication=True)
    try:
        return server, server.add_secure_port(listen, credentials)
    except RuntimeError:  # gRPC's own word for it
        raise ConfigurationError(
            f"trustee.yaml: listen: {listen} cannot be listened on; end what listens there, or name another address"
        ) from None


class CertificateDesk:
    """Makes the server's certificates, and says when new ones are due: half-way through their life, and when the roll changes.

    Args:
        roll: returns who counts now.
        identity: the trustee's id in the roster.
        key: its identity key.
        host: under which it is reached.
        now: the time, UTC.
    """

    def __init__(
        self,
        roll: Callable[[], Roll],
        identity: str,
        key: IdentityKey,
        host: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._roll, self._identity, self._key, self._host, self._now = roll, identity, key, host, now
        self._held: tuple[Roll, datetime] | None = None

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a configuration where one is due, else None; called for every connection, in any thread."""
        roll, now = self._roll(), self._now()
        if self._held is not None and self._held[0] is roll and now < self._held[1]:
            return None
        hub = roll.rosters[roll.newest].coordinator  # one that is denied is refused at its first call
        tls = certify(self._key, self._identity, now, CERTIFICATE_LIFETIME, [self._host])
        self._held = (roll, now + CERTIFICATE_LIFETIME / 2)
        return grpc.ssl_server_certificate_configuration(
            [(tls.private_key, tls.certificate)], root_certificates=trust_anchor(hub.id, hub.key, now)
        )
