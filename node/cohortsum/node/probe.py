"""The mechanics of trying a line: the way to the coordinator as gRPC goes it, and handshakes on it.

Handshakes here verify nothing themselves unless asked to: what a server shows is returned and judged by the caller, and
nothing of the site's data ever travels over them.
"""

import socket
import ssl
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.proxy import Proxy, TunnelError, tunnel
from cohortsum.protocol.roster import Identity

TIMEOUT_S = 10.0
LIFETIME = timedelta(minutes=10)
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What an HTTP/2 client says first (RFC 9113, 3.4) with empty settings; a server that takes our certificate answers."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way to the coordinator.

    Attributes:
        host: the coordinator's host.
        port: its port.
        name: the name its certificate bears: its id in the roster.
        proxy: the CONNECT proxy in between, if any.
    """

    host: str
    port: int
    name: str
    proxy: Proxy | None

    @property
    def target(self) -> str:
        """Host and port of the coordinator."""
        return f"{self.host}:{self.port}"

    @property
    def first(self) -> tuple[str, int]:
        """Host and port that this machine itself connects to."""
        return (self.host, self.port) if self.proxy is None else (self.proxy.host, self.proxy.port)

    @contextmanager
    def open(self) -> Generator[socket.socket]:
        """Open the way up to where TLS begins; raises OSError, or TunnelError where the proxy refuses."""
        with socket.create_connection(self.first, timeout=TIMEOUT_S) as line:
            if self.proxy is not None:
                tunnel(line, self.proxy, self.target)
            yield line

    def shown_certificate(self, context: ssl.SSLContext) -> x509.Certificate | None:
        """Return the certificate that the server shows, or None without a handshake."""
        try:
            with self.open() as line, context.wrap_socket(line, server_hostname=self.name) as safe:
                shown = safe.getpeercert(binary_form=True)
                return None if shown is None else x509.load_der_x509_certificate(shown)
        except (OSError, TunnelError, ValueError):
            return None

    def is_answered(self, context: ssl.SSLContext) -> bool:
        """Return whether the server says a first word of HTTP/2 after the handshake.

        Raises ssl.SSLCertVerificationError where its certificate does not pass.
        """
        try:
            with self.open() as line, context.wrap_socket(line, server_hostname=self.name) as safe:
                safe.sendall(PREFACE)
                return bool(safe.recv(1))
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, TunnelError):
            return False


def looking(lowest: ssl.TLSVersion, highest: ssl.TLSVersion) -> ssl.SSLContext:
    """Return a context that takes any certificate, to look at it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version, context.maximum_version = lowest, highest
    context.set_alpn_protocols(["h2"])
    return context


def trusting(coordinator: Identity, now: datetime) -> ssl.SSLContext:
    """Return a TLS 1.3 context that trusts the coordinator's pinned identity key alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = TLS_1_3
    context.load_verify_locations(cadata=trust_anchor(coordinator.id, coordinator.key, now).decode())
    context.set_alpn_protocols(["h2"])
    return context


def show_own(context: ssl.SSLContext, site: str, key: IdentityKey, now: datetime, scratch: Path) -> None:
    """Give a context a fresh certificate of this site, valid for ten minutes.

    The ssl module reads keys from files only: this one lies in a private folder below ``scratch`` for a moment.
    """
    with tempfile.TemporaryDirectory(prefix="cohortsum-", dir=scratch) as folder:
        tls = certify(key, site, now, LIFETIME)
        path = Path(folder) / "tls.pem"
        path.touch(mode=0o600)
        path.write_bytes(tls.certificate + tls.private_key)
        context.load_cert_chain(path)
