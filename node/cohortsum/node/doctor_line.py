"""Is there a way to the coordinator, and is it the coordinator at the other end?

The way is tried as gRPC goes it: proxy or straight, then TLS 1.3 with the certificate of this site's identity key. Whoever
answers is judged by the roster alone: the certificate must be signed by the coordinator's pinned identity key. A proxy that
opens TLS to read along presents a certificate of its own; its issuer is named, because the name tells the admin whom to ask.
"""

import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cohortsum.crypto.certificates import certify, check_certified, trust_anchor
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.proxy import Proxy, TunnelError, ignored_variables, proxy_for, tunnel
from cohortsum.protocol.roster import Identity

TIMEOUT_S = 10.0
SOON = timedelta(days=30)
LIFETIME = timedelta(minutes=10)
SKEW = timedelta(minutes=5)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What an HTTP/2 client says first (RFC 9113, 3.4) with empty settings; a server that takes our certificate answers."""

_PROXY_CURES = {
    0: "correct the proxy's address; ask IT which host and port the CONNECT proxy has",
    403: "ask IT to allow CONNECT to {target} on this proxy",
    407: "put user and password into {variable} (http://user:password@host:port), or ask IT for access without",
    502: "check the address under coordinator in node.yaml; ask IT whether the proxy may reach {target}",
    503: "check the address under coordinator in node.yaml; ask IT whether the proxy may reach {target}",
    504: "check the address under coordinator in node.yaml; ask IT whether the proxy may reach {target}",
}


@dataclass(frozen=True, slots=True)
class LineSetup:
    """What the checks of the line need.

    Attributes:
        target: ``host:port`` of the coordinator, from node.yaml.
        coordinator: its identity in the pinned roster.
        site: this site's id.
        key: this site's identity key.
        environment: where proxies are named.
        scratch: a private folder, for the key of one handshake.
        now: the current time, with a time zone.
    """

    target: str
    coordinator: Identity
    site: str
    key: IdentityKey
    environment: Mapping[str, str]
    scratch: Path
    now: datetime

    @property
    def host(self) -> str:
        """The coordinator's host."""
        return self.target.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The coordinator's port."""
        return int(self.target.rpartition(":")[2])


def check_line(setup: LineSetup) -> Iterator[Finding]:
    """Yield the findings from the name to the certificate; what cannot be tried any more is skipped."""
    ignored = ignored_variables(setup.environment)
    try:
        proxy = proxy_for(setup.host, setup.environment)
    except ConfigurationError as error:
        yield from_error("proxy", error.message)
        yield from _skip("the proxy setting cannot be used", "resolution", "connection", *_TLS)
        return
    if proxy is None and ignored:
        yield warning(
            "proxy",
            f"{' and '.join(ignored)} is set, but gRPC reads lower-case names only",
            f"export {ignored[0].lower()} with the same value, if the node needs the proxy",
        )
    elif proxy is None:
        yield ok("proxy", "none: the node connects straight to the coordinator")
    else:
        yield ok("proxy", f"{proxy.host}:{proxy.port} (from {proxy.variable})")
    resolution = _resolution(setup, proxy)
    yield resolution
    if resolution.cure:
        yield from _skip("the name does not resolve", "connection", *_TLS)
        return
    connection = _connection(setup, proxy)
    yield connection
    if connection.cure:
        yield from _skip("there is no connection", *_TLS)
        return
    yield from _tls(setup, proxy)


_TLS = ("tls 1.3", "identity", "admission", "tls 1.2", "clock", "certificate")


def _skip(why: str, *names: str) -> Iterator[Finding]:
    return (skipped(name, f"not tried: {why}") for name in names)


def _resolution(setup: LineSetup, proxy: Proxy | None) -> Finding:
    host, port = (setup.host, setup.port) if proxy is None else (proxy.host, proxy.port)
    whose = "the coordinator" if proxy is None else "the proxy"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        where = "coordinator in node.yaml" if proxy is None else proxy.variable
        return failure(
            "resolution",
            f"the name of {whose}, {host}, does not resolve",
            f"check the name under {where}; ask IT for name resolution or an entry in the hosts file",
        )
    addresses = sorted({str(entry[4][0]) for entry in found})
    also = "" if proxy is None else "; the proxy resolves the coordinator's name itself"
    return ok("resolution", f"{host} is {', '.join(addresses)}{also}")


@contextmanager
def _open(setup: LineSetup, proxy: Proxy | None) -> Iterator[socket.socket]:
    """Open the way to the coordinator as gRPC does, up to where TLS begins."""
    host, port = (setup.host, setup.port) if proxy is None else (proxy.host, proxy.port)
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as line:
        if proxy is not None:
            tunnel(line, proxy, setup.target)
        yield line


def _connection(setup: LineSetup, proxy: Proxy | None) -> Finding:
    try:
        with _open(setup, proxy):
            return ok("connection", f"{setup.target} answers{'' if proxy is None else ' through the proxy'}")
    except TunnelError as error:
        said = f"answers CONNECT with {error.status}" if error.status else "does not speak HTTP CONNECT"
        cure = _PROXY_CURES.get(error.status, "ask IT why the proxy refuses CONNECT to {target}")
        variable = "" if proxy is None else proxy.variable
        return failure(
            "connection", f"the proxy {said}", cure.format(target=setup.target, variable=variable)
        )
    except OSError as error:
        where = f"{setup.target}" if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
        why = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or "broken off"
        cure = "ask IT to allow outgoing TCP to this host and port, and the operator whether it is up"
        if proxy is None:
            cure += "; if the way out is a proxy, export https_proxy=http://host:port"
        return failure("connection", f"no connection to {where} ({why})", cure)


def _tls(setup: LineSetup, proxy: Proxy | None) -> Iterator[Finding]:
    newest = _handshake(setup, proxy, _unverified(ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3))
    # an inspector that cannot do 1.3 shall be named all the same
    shown = newest or _handshake(setup, proxy, _unverified(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
    if shown is None:
        yield failure(
            "tls 1.3",
            f"{setup.target} does not speak TLS",
            "check host and port under coordinator in node.yaml, and whether something in between ends the connection",
        )
        yield from _skip("there is no TLS", *_TLS[1:])
        return
    identity = _identity(setup, shown)
    if newest is None:
        yield failure("tls 1.3", "whoever answers does not speak TLS 1.3", identity.cure or _UPGRADE)
    else:
        yield ok("tls 1.3", "spoken by whoever answers")
    yield identity
    if identity.cure:
        yield from _skip("it is not the coordinator that answers", *_TLS[2:])
        return
    if newest is None:
        yield skipped("admission", "not tried: there is no TLS 1.3")
    else:
        yield _admission(setup, proxy)
    older = _handshake(setup, proxy, _unverified(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2))
    if older is None:
        yield ok("tls 1.2", "refused, as it should be")
    else:
        yield warning("tls 1.2", "the coordinator accepts TLS 1.2", _UPGRADE)
    yield _clock(setup, shown)
    yield _age(setup, shown)


_UPGRADE = "ask the operator to start the coordinator with `cohortsum coordinator run`, which allows TLS 1.3 only"


def _identity(setup: LineSetup, shown: x509.Certificate) -> Finding:
    hub = setup.coordinator
    try:
        check_certified(shown.public_bytes(Encoding.PEM), hub.id, hub.key)
    except AuthenticationError:
        issuer = _printable(shown.issuer.rfc4514_string())
        if issuer == f"CN={hub.id} identity":
            return failure(
                "identity",
                f"the server calls itself {hub.id}, but the roster's key did not certify it",
                "call the operator; if the coordinator has a new key, pin the newer roster with `cohortsum node pin`",
            )
        return failure(
            "identity",
            f"the certificate is not the coordinator's: it was issued by {issuer}; a TLS-inspecting proxy sits in between",
            f"ask IT to exempt {setup.target} from TLS inspection; the pinned identity cannot pass through it",
        )
    return ok("identity", f"the certificate is signed by the pinned key of {hub.id}")


def _admission(setup: LineSetup, proxy: Proxy | None) -> Finding:
    """Try a whole verified handshake with this site's certificate, up to the server's first words."""
    hub = setup.coordinator
    with tempfile.TemporaryDirectory(prefix="cohortsum-", dir=setup.scratch) as folder:
        tls = certify(setup.key, setup.site, setup.now, LIFETIME)
        path = Path(folder) / "tls.pem"
        path.touch(mode=0o600)
        path.write_bytes(tls.certificate + tls.private_key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=trust_anchor(hub.id, hub.key, setup.now).decode())
        context.load_cert_chain(path)
    context.set_alpn_protocols(["h2"])
    try:
        with (
            _open(setup, proxy) as line,
            context.wrap_socket(line, server_hostname=hub.id) as safe,
        ):
            safe.sendall(PREFACE)
            taken = bool(safe.recv(1))
    except ssl.SSLCertVerificationError as error:
        return failure(
            "admission",
            f"the coordinator's certificate is not valid ({_printable(error.verify_message)})",
            "check this machine's clock, then ask the operator to restart the coordinator, which renews its certificate",
        )
    except (OSError, TunnelError):
        taken = False
    if taken:
        return ok("admission", "the coordinator takes this site's certificate")
    return failure(
        "admission",
        "the coordinator does not take this site's certificate",
        "ask the operator whether this site is admitted and its key not revoked, and whether the coordinator runs with "
        "the newest roster; check this machine's clock",
    )


def _clock(setup: LineSetup, shown: x509.Certificate) -> Finding:
    start, end = shown.not_valid_before_utc, shown.not_valid_after_utc
    if setup.now + SKEW < start:
        return failure(
            "clock",
            f"this machine's clock reads {_time(setup.now)}, before the coordinator's certificate begins ({_time(start)})",
            "set the clock, best by NTP; ask the operator to check theirs",
        )
    if setup.now > end:
        return warning(
            "clock",
            f"this machine's clock reads {_time(setup.now)}, after the coordinator's certificate ended ({_time(end)})",
            "check the clock of this machine; if it is right, see the certificate below",
        )
    return ok("clock", f"{_time(setup.now)} lies inside the coordinator's certificate")


def _age(setup: LineSetup, shown: x509.Certificate) -> Finding:
    """Judge what is left: less than 30 days and less than a quarter of the lifetime is little."""
    end = shown.not_valid_after_utc
    left, lifetime = end - setup.now, end - shown.not_valid_before_utc
    if left <= timedelta(0):
        return failure(
            "certificate",
            f"the coordinator's certificate ended on {_time(end)}",
            "ask the operator to restart the coordinator, which renews it; no site has to do anything",
        )
    if left < min(SOON, lifetime / 4):
        return warning(
            "certificate",
            f"the coordinator's certificate ends in {left.days} days, on {_time(end)}",
            "ask the operator to restart the coordinator, which renews it; no site has to do anything",
        )
    return ok("certificate", f"valid until {_time(end)}")


def _handshake(
    setup: LineSetup, proxy: Proxy | None, context: ssl.SSLContext
) -> x509.Certificate | None:
    """Return the certificate that the server shows, unverified, or None without a handshake."""
    try:
        with (
            _open(setup, proxy) as line,
            context.wrap_socket(line, server_hostname=setup.coordinator.id) as safe,
        ):
            shown = safe.getpeercert(binary_form=True)
            return None if shown is None else x509.load_der_x509_certificate(shown)
    except (OSError, TunnelError, ValueError):
        return None


def _unverified(lowest: ssl.TLSVersion, highest: ssl.TLSVersion) -> ssl.SSLContext:
    """Return a context that takes any certificate: it is looked at here, and nothing is ever sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version, context.maximum_version = lowest, highest
    context.set_alpn_protocols(["h2"])
    return context


def _printable(text: str) -> str:
    """Return text of a stranger without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def _time(moment: datetime) -> str:
    """Return a time as people here read it, with its offset."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M%z")


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)
