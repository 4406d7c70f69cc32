"""Servers on loopback that doctors meet: coordinators good and bad, CONNECT proxies, and one that reads along."""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cohortsum.crypto.certificates import TlsCredentials, certify, trust_anchor
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.roster import Roster

DAY = timedelta(days=1)
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
LIMIT_S = 5.0

Handler = Callable[[socket.socket], None]


@contextmanager
def serving(handle: Handler) -> Generator[int]:
    """Serve connections one after the other, each by ``handle``, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    line, _ = listener.accept()
                    line.settimeout(LIMIT_S)
                    with line, contextlib.suppress(OSError):
                        handle(line)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            over.set()
            thread.join()


def server_context(
    folder: Path, tls: TlsCredentials, versions: tuple[ssl.TLSVersion, ssl.TLSVersion], clients: bytes = b""
) -> ssl.SSLContext:
    """Return a server's context; with ``clients``, PEM anchors, it asks for a client certificate."""
    path = folder / f"server-{id(tls)}.pem"
    path.write_bytes(tls.certificate + tls.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.minimum_version, context.maximum_version = versions
    context.set_alpn_protocols(["h2"])
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.decode())
    return context


def answering(context: ssl.SSLContext) -> Handler:
    """Return a server that shakes hands and answers an HTTP/2 preface."""

    def handle(line: socket.socket) -> None:
        with context.wrap_socket(line, server_side=True) as safe:
            if safe.recv(24):
                safe.sendall(SETTINGS)

    return handle


@dataclass
class ConnectProxy:
    """A CONNECT proxy.

    Attributes:
        status: what it answers.
        inspector: reads along with this context instead of passing bytes on.
        asked: the request lines and headers it got.
    """

    status: int = 200
    inspector: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list[str])

    def handle(self, line: socket.socket) -> None:
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            byte = line.recv(1)
            if not byte:
                return
            request += byte
        self.asked.append(request.decode())
        line.sendall(f"HTTP/1.1 {self.status} As Asked\r\nVia: test\r\n\r\n".encode())
        if self.status != 200:
            return
        if self.inspector is not None:
            answering(self.inspector)(line)
            return
        host, _, port = request.split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as onward:
            pump(line, onward)


def pump(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until one side ends."""
    while True:
        ready, _, _ = select.select([one, other], [], [], LIMIT_S)
        if not ready:
            return
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)


def inspecting_ca(name: str, subject: str) -> TlsCredentials:
    """Return what a TLS-inspecting proxy presents: a certificate made up on the spot by its own authority."""
    authority, key, now = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
        datetime.now(UTC),
    )
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .sign(authority, hashes.SHA256())
    )
    return TlsCredentials(
        built.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def site_anchors(roster: Roster) -> bytes:
    now = datetime.now(UTC)
    return b"".join(trust_anchor(site, roster.identities[site].key, now) for site in roster.sites)


@contextmanager
def grpc_coordinator(key: IdentityKey, roster: Roster) -> Generator[int]:
    """Run a gRPC server set up as the coordinator's is, and yield its port."""
    from concurrent.futures import ThreadPoolExecutor

    hub = roster.coordinator
    tls = certify(key, hub.id, datetime.now(UTC), 30 * DAY, ["127.0.0.1"])
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        credentials = grpc.ssl_server_credentials(
            [(tls.private_key, tls.certificate)], site_anchors(roster), require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()
