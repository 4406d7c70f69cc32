"""TLS certificates that an identity key certifies, and the trust anchors that a roster implies.

A roster pins Ed25519 identity keys. A daemon's TLS key is a short-lived ECDSA P-256 key in a certificate signed by its
identity key; renewing it changes no roster. A verifier needs no certificate authority: a trust anchor is only a name and a
key (RFC 5280, 6.1.1 d), so it is built here from the roster. The anchor's own signature is made by a throw-away key and
means nothing; verifiers do not check the signature of an anchor.

gRPC's Python server also accepts TLS 1.2 and has no option against it. `TLS13_ONLY` names the one cipher suite that an
ECDSA certificate can never serve under 1.2, so that no usable 1.2 suite is left. It must be in the environment before grpc
is first imported.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cohortsum.crypto.errors import AuthenticationError, PublicKeyError
from cohortsum.crypto.signing import IdentityKey, public_key

TLS13_ONLY = ("GRPC_SSL_CIPHER_SUITES", "ECDHE-RSA-AES256-GCM-SHA384")
"""Environment variable and value that leave only TLS 1.3, together with ECDSA certificates."""

_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class TlsCredentials:
    """A TLS key with its certificate, both in PEM."""

    certificate: bytes
    private_key: bytes = field(repr=False)


def certify(
    identity: IdentityKey, name: str, now: datetime, lifetime: timedelta, hosts: Iterable[str] = ()
) -> TlsCredentials:
    """Return a fresh TLS key certified by an identity key.

    Args:
        identity: the identity's private key.
        name: its id in the roster; becomes subject and issuer name.
        now: timezone-aware; the certificate starts five minutes earlier, for clocks that are behind.
        lifetime: how long it holds.
        hosts: DNS names under which a server is reached.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(host) for host in (name, *hosts)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_common_name(name))
        .issuer_name(_anchor_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
    )
    certificate = builder.sign(identity.private, algorithm=None)
    return TlsCredentials(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def trust_anchor(name: str, identity_public: bytes, now: datetime) -> bytes:
    """Return, in PEM, the trust anchor for the identity ``name`` with this Ed25519 key."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(_anchor_name(name))
        .issuer_name(_anchor_name(name))
        .public_key(public_key(identity_public))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    throw_away = Ed25519PrivateKey.generate()
    return builder.sign(throw_away, algorithm=None).public_bytes(serialization.Encoding.PEM)


def certified_name(certificate: bytes) -> str:
    """Return the identity that a PEM certificate names; nothing is verified."""
    return _name_of(_load(certificate))


def check_certified(certificate: bytes, name: str, identity_public: bytes) -> None:
    """Raise AuthenticationError unless the identity key of ``name`` signed this PEM certificate.

    The TLS library has verified the chain; this ties it to the one identity that the connection claims to be.
    """
    held = _load(certificate)
    if _name_of(held) != name:
        raise AuthenticationError
    try:
        public_key(identity_public).verify(held.signature, held.tbs_certificate_bytes)
    except (InvalidSignature, PublicKeyError) as error:
        raise AuthenticationError from error


def _load(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except (ValueError, x509.InvalidVersion) as error:
        raise AuthenticationError from error


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _anchor_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} identity")])


def _name_of(certificate: x509.Certificate) -> str:
    try:
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (TypeError, ValueError) as error:  # names are parsed when they are asked for
        raise AuthenticationError from error
    if len(names) != 1:
        raise AuthenticationError
    return str(names[0].value)
