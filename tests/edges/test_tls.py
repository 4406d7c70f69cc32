"""Who can connect: TLS 1.3 only, and only a TLS key that a site's own identity key certified."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from cohortsum.crypto.certificates import TlsCredentials, certify, trust_anchor
from cohortsum.wire.v1 import service_pb2, service_pb2_grpc
from tests.edges.harness import HUB, STATISTICIAN, Loopback
from tests.protocol.consortium import identity_key

DAY = timedelta(days=1)


def certificate(subject: str, issuer: str, key: str) -> TlsCredentials:
    """Return a TLS key certified by the identity key of ``key``, with any names in the certificate."""
    now, tls = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    named = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    built = (
        x509.CertificateBuilder().subject_name(named[0]).issuer_name(named[1]).public_key(tls.public_key())
    )
    signed = (
        built.serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .sign(identity_key(key).private, algorithm=None)
    )
    return TlsCredentials(
        signed.public_bytes(serialization.Encoding.PEM),
        tls.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def own(name: str, key: str | None = None, age: timedelta = timedelta(0)) -> TlsCredentials:
    """Return what the daemon ``name`` presents, certified by its own or by another identity key."""
    return certify(identity_key(key or name), name, datetime.now(UTC) - age, DAY)


def credentials(tls: TlsCredentials | None, hub_key: str = HUB) -> grpc.ChannelCredentials:
    anchor = trust_anchor(HUB, identity_key(hub_key).public, datetime.now(UTC))
    if tls is None:
        return grpc.ssl_channel_credentials(anchor)
    return grpc.ssl_channel_credentials(anchor, tls.private_key, tls.certificate)


async def asked(town: Loopback, held: grpc.ChannelCredentials) -> tuple[grpc.StatusCode, str]:
    """Ask for the study and return status and sentence."""
    options = [("grpc.ssl_target_name_override", HUB)]
    async with grpc.aio.secure_channel(town.line.target, held, options=options) as channel:
        stub: service_pb2_grpc.ConsortiumAsyncStub = service_pb2_grpc.ConsortiumStub(channel)
        try:
            await stub.GetStudy(
                service_pb2.GetStudyRequest(wire_version=1, digest=town.study.digest), timeout=10
            )
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


async def in_town(
    folder: Path, held: grpc.ChannelCredentials
) -> tuple[grpc.StatusCode, str, list[str], bool]:
    """Return status, sentence, the events logged, and whether a call reached the edge at all."""
    async with Loopback(folder, 3) as town:
        with capture_logs() as logs:
            status, sentence = await asked(town, held)
    return status, sentence, [str(line["event"]) for line in logs], bool(town.wire.received)


@pytest.mark.parametrize("name", ["site0", STATISTICIAN])
def test_a_site_or_statistician_with_its_own_certificate_is_served(tmp_path: Path, name: str) -> None:
    assert asyncio.run(in_town(tmp_path, credentials(own(name)))) == (grpc.StatusCode.OK, "", [], True)


@pytest.mark.parametrize(
    "tls",
    [
        None,
        own("stranger"),
        own(HUB),
        own("site1", key="site0"),
        own("site0", age=timedelta(days=3)),
        certificate("site0", "site0 identity", "stranger"),
    ],
    ids=[
        "no certificate",
        "unknown identity",
        "coordinator",
        "right name and another site's key",
        "expired",
        "right names and an unknown key",
    ],
)
def test_tls_refuses(tmp_path: Path, tls: TlsCredentials | None) -> None:
    status, _, logs, reached = asyncio.run(in_town(tmp_path, credentials(tls)))
    assert (status, logs, reached) == (grpc.StatusCode.UNAVAILABLE, [], False)


@pytest.mark.parametrize(
    ("subject", "issuer", "key"),
    [
        ("site1", "site0 identity", "site0"),
        ("stranger", "site0 identity", "site0"),
        (STATISTICIAN, "site0 identity", "site0"),
        (HUB, "site0 identity", "site0"),
    ],
    ids=["another site", "nobody", "statistician", "coordinator"],
)
def test_a_site_that_certifies_itself_as_somebody_else_is_refused_with_one_sentence_and_one_line(
    tmp_path: Path, subject: str, issuer: str, key: str
) -> None:
    held = credentials(certificate(subject, issuer, key))
    status, sentence, logs, _ = asyncio.run(in_town(tmp_path, held))
    assert (status, sentence) == (grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster")
    assert logs == ["call.refused"]


def test_a_node_does_not_talk_to_a_coordinator_with_another_key(tmp_path: Path) -> None:
    held = credentials(own("site0"), hub_key="impostor")
    status, _, logs, reached = asyncio.run(in_town(tmp_path, held))
    assert (status, logs, reached) == (grpc.StatusCode.UNAVAILABLE, [], False)


def plain_client(folder: Path, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Return the standard library's TLS client with a site's certificate, up to ``version``."""
    tls = own("site0")
    (folder / "tls.pem").write_bytes(tls.certificate + tls.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(
        cadata=trust_anchor(HUB, identity_key(HUB).public, datetime.now(UTC)).decode()
    )
    context.load_cert_chain(folder / "tls.pem")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = version
    return context


async def handshake(folder: Path, version: ssl.TLSVersion) -> str | None:
    async with Loopback(folder, 3) as town:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", town.port, ssl=plain_client(folder, version), server_hostname=HUB
        )
        spoken: ssl.SSLObject = writer.get_extra_info("ssl_object")
        version_spoken = spoken.version()
        writer.close()
        return version_spoken


def test_tls_1_3_shakes_hands(tmp_path: Path) -> None:
    assert asyncio.run(handshake(tmp_path, ssl.TLSVersion.TLSv1_3)) == "TLSv1.3"


def test_tls_1_2_does_not(tmp_path: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(handshake(tmp_path, ssl.TLSVersion.TLSv1_2))
