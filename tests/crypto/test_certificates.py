"""Certificates under identity keys: an identity vouches for its own TLS key and for nobody else's.

OpenSSL shakes hands in memory, so that times, names and chains are judged by a TLS library, as they are
in service.
"""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cohortsum.crypto.certificates import (
    TLS13_ONLY,
    TlsCredentials,
    certified_name,
    certify,
    check_certified,
    trust_anchor,
)
from cohortsum.crypto.errors import AuthenticationError, PublicKeyError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey

HOUR = timedelta(hours=1)
NOW = datetime.now(UTC)
AMC, HUB, MALLORY = (IdentityKey(SecretBytes(bytes([seed]) * 32, "identity seed")) for seed in (1, 2, 3))


def amc(**changes: datetime) -> TlsCredentials:
    return certify(AMC, "amc", changes.get("now", NOW), HOUR)


def hub(now: datetime = NOW, identity: IdentityKey = HUB, name: str = "hub") -> TlsCredentials:
    return certify(identity, name, now, HOUR, ["localhost"])


def parsed(credentials: TlsCredentials) -> x509.Certificate:
    return x509.load_pem_x509_certificate(credentials.certificate)


# What a certificate says


def test_a_certificate_holds_its_own_fresh_p_256_key_under_the_identity() -> None:
    one, other = amc(), amc()
    held = parsed(one)
    private = serialization.load_pem_private_key(one.private_key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP256R1)
    assert private.public_key() == held.public_key()
    assert one.private_key != other.private_key
    assert held.serial_number != parsed(other).serial_number
    AMC.private.public_key().verify(held.signature, held.tbs_certificate_bytes)


def test_a_certificate_names_its_identity_hosts_times_and_uses() -> None:
    held = parsed(hub())
    assert certified_name(hub().certificate) == "hub"
    assert held.subject.rfc4514_string() == "CN=hub"
    assert held.issuer.rfc4514_string() == "CN=hub identity"
    names = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub", "localhost"]
    assert held.not_valid_before_utc == (NOW - 2 * HOUR).replace(microsecond=0)
    assert held.not_valid_after_utc == (NOW + HOUR).replace(microsecond=0)
    basic = held.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert not basic.value.ca
    uses = held.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_trust_anchor_is_a_name_and_a_key_and_cannot_be_extended() -> None:
    held = x509.load_pem_x509_certificate(trust_anchor("amc", AMC.public, NOW))
    assert held.subject == held.issuer == parsed(amc()).issuer
    assert held.public_key() == AMC.private.public_key()
    basic = held.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert (basic.value.ca, basic.value.path_length) == (True, 0)


def test_a_trust_anchor_needs_an_identity_key() -> None:
    with pytest.raises(PublicKeyError, match="32 bytes, got 31"):
        trust_anchor("amc", AMC.public[:31], NOW)


def test_the_private_key_does_not_show() -> None:
    credentials = amc()
    shown = repr(credentials)
    assert "PRIVATE KEY" not in shown
    assert credentials.private_key.splitlines()[1].decode() not in shown


# Who is believed


def test_the_identity_key_and_name_that_certified_are_believed() -> None:
    check_certified(amc().certificate, "amc", AMC.public)
    check_certified(hub().certificate, "hub", HUB.public)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("amc", HUB.public),
        ("amc", bytes(32)),
        ("hub", AMC.public),
        ("amc identity", AMC.public),
        ("", AMC.public),
    ],
    ids=["another identity's key", "no key", "another name", "the anchor's name", "no name"],
)
def test_another_key_or_name_is_not_believed(name: str, key: bytes) -> None:
    with pytest.raises(AuthenticationError, match=r"^authentication failed$"):
        check_certified(amc().certificate, name, key)


def test_an_impostor_that_takes_the_name_is_not_believed() -> None:
    forged = certify(MALLORY, "amc", NOW, HOUR)
    assert certified_name(forged.certificate) == "amc"
    with pytest.raises(AuthenticationError):
        check_certified(forged.certificate, "amc", AMC.public)


def test_the_trust_anchor_itself_is_no_certificate_of_the_identity() -> None:
    """A throw-away key signed it, and its subject is another name."""
    anchor = trust_anchor("amc", AMC.public, NOW)
    for name in ("amc", "amc identity"):
        with pytest.raises(AuthenticationError):
            check_certified(anchor, name, AMC.public)


def test_any_altered_byte_of_what_is_signed_is_not_believed() -> None:
    """Name, times, key and extensions: whatever still parses is refused."""
    held = parsed(amc())
    der = held.public_bytes(serialization.Encoding.DER)
    start = der.index(held.tbs_certificate_bytes)
    refused = 0
    for at in range(start, start + len(held.tbs_certificate_bytes)):
        altered = der[:at] + bytes([der[at] ^ 1]) + der[at + 1 :]
        try:
            pem = x509.load_der_x509_certificate(altered).public_bytes(serialization.Encoding.PEM)
            certified_name(pem)
        except (ValueError, x509.InvalidVersion, AuthenticationError):
            continue
        with pytest.raises(AuthenticationError):
            check_certified(pem, "amc", AMC.public)
        refused += 1
    assert refused > 100


def named(*names: str) -> bytes:
    """Return a certificate of AMC's with these common names."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(AMC.private.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + HOUR)
    )
    return builder.sign(AMC.private, None).public_bytes(serialization.Encoding.PEM)


def test_a_certificate_with_no_name_or_two_is_not_believed() -> None:
    check_certified(named("amc"), "amc", AMC.public)
    for pem in (named(), named("amc", "hub"), named("hub", "amc")):
        with pytest.raises(AuthenticationError):
            certified_name(pem)
        with pytest.raises(AuthenticationError):
            check_certified(pem, "amc", AMC.public)


# What TLS makes of it

Configure = Callable[[ssl.SSLContext], object]


def shake_hands(
    folder: Path,
    server: TlsCredentials,
    client: TlsCredentials,
    *,
    trusted_server: bytes | None = None,
    trusted_client: bytes | None = None,
    host: str = "localhost",
    server_option: Configure = lambda _: None,
    client_option: Configure = lambda _: None,
) -> str | None:
    """Return the TLS version that hub and amc agree on; raises what OpenSSL raises."""

    def context(side: int, own: TlsCredentials, anchor: bytes) -> ssl.SSLContext:
        made = ssl.SSLContext(side)
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(cadata=anchor.decode())
        certificate, key = folder / f"{side}.crt", folder / f"{side}.key"
        certificate.write_bytes(own.certificate)
        key.write_bytes(own.private_key)
        made.load_cert_chain(certificate, key)
        return made

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = context(
        ssl.PROTOCOL_TLS_SERVER, server, trusted_client or trust_anchor("amc", AMC.public, NOW)
    )
    at_client = context(
        ssl.PROTOCOL_TLS_CLIENT, client, trusted_server or trust_anchor("hub", HUB.public, NOW)
    )
    server_option(at_server)
    client_option(at_client)
    ends = [
        at_client.wrap_bio(to_client, to_server, server_hostname=host),
        at_server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done: set[int] = set()
    for turn in range(10):
        try:
            ends[turn % 2].do_handshake()
            done.add(turn % 2)
        except ssl.SSLWantReadError:
            continue
    assert done == {0, 1}
    return ends[1].version()


def test_two_identities_of_a_roster_meet_under_tls_1_3(tmp_path: Path) -> None:
    assert shake_hands(tmp_path, hub(), amc()) == "TLSv1.3"
    assert shake_hands(tmp_path, hub(), amc(), host="hub") == "TLSv1.3"


def test_another_identity_is_refused_at_either_end(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(tmp_path, hub(identity=MALLORY), amc())
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(tmp_path, hub(), certify(MALLORY, "amc", NOW, HOUR))


def test_an_identity_does_not_vouch_for_another_name(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(tmp_path, hub(), certify(AMC, "umcu", NOW, HOUR))
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(tmp_path, hub(), amc(), trusted_client=trust_anchor("umcu", AMC.public, NOW))


def test_a_certificate_does_not_certify_another(tmp_path: Path) -> None:
    """The TLS key of amc is no authority: what it signs is not believed."""
    own = amc()
    tls_key = serialization.load_pem_private_key(own.private_key, None)
    assert isinstance(tls_key, ec.EllipticCurvePrivateKey)
    held = parsed(own)
    below = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "umcu")]))
        .issuer_name(held.subject)
        .public_key(tls_key.public_key())
        .serial_number(2)
        .not_valid_before(NOW - HOUR)
        .not_valid_after(NOW + HOUR)
        .sign(tls_key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    chain = TlsCredentials(below + own.certificate, own.private_key)
    with pytest.raises(ssl.SSLCertVerificationError, match="invalid CA certificate"):
        shake_hands(tmp_path, hub(), chain)


def test_a_server_is_reached_under_its_own_names_only(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(tmp_path, hub(), amc(), host="elsewhere")


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (NOW - 2 * HOUR, "certificate has expired"),
        (NOW - HOUR - timedelta(seconds=2), "certificate has expired"),
        (NOW + 3 * HOUR, "not yet valid"),
    ],
)
def test_a_certificate_out_of_its_time_is_refused_at_either_end(
    tmp_path: Path, now: datetime, reason: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        shake_hands(tmp_path, hub(now=now), amc())
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        shake_hands(tmp_path, hub(), amc(now=now))


def test_a_clock_that_is_an_hour_ahead_does_no_harm(tmp_path: Path) -> None:
    ahead = NOW + HOUR
    assert shake_hands(tmp_path, hub(now=ahead), amc(now=ahead)) == "TLSv1.3"


def test_with_the_one_cipher_suite_left_tls_1_2_has_none(tmp_path: Path) -> None:
    def only_1_3(context: ssl.SSLContext) -> None:
        context.set_ciphers(TLS13_ONLY[1])

    def at_most_1_2(context: ssl.SSLContext) -> None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2

    assert TLS13_ONLY[0] == "GRPC_SSL_CIPHER_SUITES"
    assert shake_hands(tmp_path, hub(), amc(), server_option=only_1_3) == "TLSv1.3"
    assert shake_hands(tmp_path, hub(), amc(), client_option=at_most_1_2) == "TLSv1.2"
    with pytest.raises(ssl.SSLError, match="no shared cipher"):
        shake_hands(tmp_path, hub(), amc(), server_option=only_1_3, client_option=at_most_1_2)
