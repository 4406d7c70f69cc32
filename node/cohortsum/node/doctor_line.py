"""Is there a way to the coordinator, and is it the coordinator at the other end?

The way is tried as gRPC goes it: proxy or straight, then TLS 1.3 with the certificate of this site's identity key. Whoever
answers is judged by the roster alone: the certificate must be signed by the coordinator's pinned identity key. A proxy that
opens TLS to read along presents a certificate of its own; its issuer is named, because the name tells the admin whom to ask.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cohortsum.crypto.certificates import check_certified
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.probe import TLS_1_2, TLS_1_3, Way, looking, show_own, trusting
from cohortsum.node.proxy import TunnelError, ignored_variables, proxy_for
from cohortsum.protocol.roster import Identity

SOON = timedelta(days=30)
SKEW = timedelta(minutes=5)
LINE_CHECKS = (
    "proxy", "resolution", "connection", "tls 1.3", "identity", "admission", "tls 1.2", "clock", "certificate",
)  # fmt: skip

_UPGRADE = (
    "ask the operator to start the coordinator with `cohortsum coordinator run`, which allows TLS 1.3 only"
)
_UNREACHED = "check the address under coordinator in node.yaml; ask IT whether the proxy may reach {target}"
_PROXY_CURES = {
    0: "correct the proxy's address; ask IT which host and port the CONNECT proxy has",
    403: "ask IT to allow CONNECT to {target} on this proxy",
    407: "put user and password into {variable} (http://user:password@host:port), or ask IT for access without",
    502: _UNREACHED,
    503: _UNREACHED,
    504: _UNREACHED,
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


def check_line(setup: LineSetup) -> Iterator[Finding]:
    """Yield the findings of LINE_CHECKS in their order; what cannot be tried any more is skipped."""
    host, _, port = setup.target.rpartition(":")
    try:
        proxy = proxy_for(host, setup.environment)
    except ConfigurationError as error:
        yield from_error("proxy", error.message)
        yield from skip_after("proxy", "the proxy setting cannot be used")
        return
    way = Way(host, int(port), setup.coordinator.id, proxy)
    yield _proxy(way, ignored_variables(setup.environment))
    for finding, why in (
        (_resolution(way), "the name does not resolve"),
        (_connection(way), "no connection"),
    ):
        yield finding
        if finding.cure:
            yield from skip_after(finding.name, why)
            return
    yield from _tls(setup, way)


def skip_after(name: str, why: str) -> Iterator[Finding]:
    """Yield a skipped finding for every line check after ``name``; for all of them if it is none."""
    first = LINE_CHECKS.index(name) + 1 if name in LINE_CHECKS else 0
    return (skipped(later, f"not tried: {why}") for later in LINE_CHECKS[first:])


def _proxy(way: Way, ignored: tuple[str, ...]) -> Finding:
    if way.proxy is not None:
        return ok("proxy", f"{way.proxy.host}:{way.proxy.port} (from {way.proxy.variable})")
    if ignored:
        return warning(
            "proxy",
            f"{' and '.join(ignored)} is set, but gRPC reads lower-case names only",
            f"export {ignored[0].lower()} with the same value, if the node needs the proxy",
        )
    return ok("proxy", "none: the node connects straight to the coordinator")


def _resolution(way: Way) -> Finding:
    (host, port), proxy = way.first, way.proxy
    whose = "the coordinator" if proxy is None else "the proxy"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError):
        where = "coordinator in node.yaml" if proxy is None else proxy.variable
        return failure(
            "resolution",
            f"the name of {whose}, {host}, does not resolve",
            f"check the name under {where}; ask IT for name resolution or an entry in the hosts file",
        )
    addresses = ", ".join(sorted({str(entry[4][0]) for entry in found}))
    also = "" if proxy is None else " (the proxy resolves the coordinator's name itself)"
    return ok("resolution", f"{host} is {addresses}{also}")


def _connection(way: Way) -> Finding:
    proxy = way.proxy
    try:
        with way.open():
            return ok("connection", f"{way.target} answers{'' if proxy is None else ' through the proxy'}")
    except TunnelError as error:
        said = f"answers CONNECT with {error.status}" if error.status else "does not speak HTTP CONNECT"
        cure = _PROXY_CURES.get(error.status, "ask IT why the proxy refuses CONNECT to {target}")
        variable = "" if proxy is None else proxy.variable
        return failure("connection", f"the proxy {said}", cure.format(target=way.target, variable=variable))
    except (OSError, OverflowError) as error:
        where = way.target if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
        why = "no answer in time" if isinstance(error, TimeoutError) else "refused or broken off"
        cure = "ask IT to allow outgoing TCP to this host and port, and the operator whether it is up"
        if proxy is None:
            cure += "; if the way out is a proxy, export https_proxy=http://host:port"
        return failure("connection", f"no connection to {where} ({why})", cure)


def _tls(setup: LineSetup, way: Way) -> Iterator[Finding]:
    newest = way.shown_certificate(looking(TLS_1_3, TLS_1_3))
    # whoever cannot do 1.3 shall be named all the same
    older = way.shown_certificate(_offering_1_2(setup))
    shown = newest or older
    if shown is None:
        yield failure(
            "tls 1.3",
            f"{way.target} does not speak TLS",
            "check host and port under coordinator in node.yaml, and whether something in between ends the connection",
        )
        yield from skip_after("tls 1.3", "there is no TLS")
        return
    identity = _identity(setup, shown)
    if newest is None:
        yield failure("tls 1.3", "whoever answers does not speak TLS 1.3", identity.cure or _UPGRADE)
    else:
        yield ok("tls 1.3", "spoken by whoever answers")
    yield identity
    if identity.cure:
        yield from skip_after("identity", "it is not the coordinator that answers")
        return
    if newest is None:
        yield skipped("admission", "not tried: there is no TLS 1.3")
    else:
        yield _admission(setup, way)
    if older is None:
        yield ok("tls 1.2", "refused, as it should be")
    else:
        yield warning("tls 1.2", "the coordinator accepts TLS 1.2", _UPGRADE)
    yield _clock(setup, shown)
    yield _age(setup, shown)


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


def _admission(setup: LineSetup, way: Way) -> Finding:
    """Try a whole verified handshake with this site's certificate, up to the server's first word."""
    context = trusting(setup.coordinator, setup.now)
    show_own(context, setup.site, setup.key, setup.now, setup.scratch)
    try:
        taken = way.is_answered(context)
    except ssl.SSLCertVerificationError as error:
        return failure(
            "admission",
            f"the coordinator's certificate is not valid ({_printable(error.verify_message)})",
            "check this machine's clock, then ask the operator to restart the coordinator, which renews its certificate",
        )
    if taken:
        return ok("admission", "the coordinator takes this site's certificate")
    return failure(
        "admission",
        "the coordinator does not take this site's certificate",
        "ask the operator whether this site is admitted and its key not revoked, and whether the coordinator runs with "
        "the newest roster; check this machine's clock",
    )


def _offering_1_2(setup: LineSetup) -> ssl.SSLContext:
    """Return a context for TLS 1.2 with this site's certificate, so that nothing but the version can be refused.

    The certificate says the site's id, which the roster says too, and may be seen by whoever answers.
    """
    context = looking(TLS_1_2, TLS_1_2)
    show_own(context, setup.site, setup.key, setup.now, setup.scratch)
    return context


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


def _printable(text: str) -> str:
    """Return text of a stranger without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def _time(moment: datetime) -> str:
    """Return a time as people here read it, with its offset."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M%z")
