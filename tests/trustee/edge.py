"""A trustee's server on loopback, with real gRPC and mutual TLS, and everybody who may try to call it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc

from cohortsum.coordinator.roll import Roll as CoordinatorRoll
from cohortsum.coordinator.trustee_client import TrusteeClient
from cohortsum.crypto.certificates import TlsCredentials, certify, trust_anchor
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.trustee.desk import Desk
from cohortsum.trustee.server import secure_server
from cohortsum.trustee.service import TrusteeService
from tests.edges.harness import HUB
from tests.protocol.consortium import identity_key
from tests.trustee.world import TRUSTEE, Office, roster


@asynccontextmanager
async def serving(
    office: Office, desk: Desk | None = None, listen: str = "127.0.0.1:0"
) -> AsyncGenerator[int]:
    """Serve a desk, the office's own unless another is given; yield the port."""
    service = TrusteeService(desk or office.desk, lambda: office.roll)
    server, port = secure_server(service, lambda: office.roll, TRUSTEE, office.key, listen)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=None)


def client(port: int, key: str = HUB) -> TrusteeClient:
    """Return the coordinator's line; with another key, somebody else's."""
    held = roster()
    book = CoordinatorRoll({held.version: held}, nobody_denied(held.consortium))
    return TrusteeClient(f"127.0.0.1:{port}", identity_key(key), lambda: book)


def certified(name: str, key: str | None = None) -> TlsCredentials:
    """Return what ``name`` presents, certified by its own or by another identity key."""
    return certify(identity_key(key or name), name, datetime.now(UTC), timedelta(days=1))


@asynccontextmanager
async def channel(port: int, tls: TlsCredentials | None) -> AsyncGenerator[grpc.aio.Channel]:
    anchor = trust_anchor(TRUSTEE, identity_key(TRUSTEE).public, datetime.now(UTC))
    pair = (None, None) if tls is None else (tls.private_key, tls.certificate)
    options = [("grpc.ssl_target_name_override", TRUSTEE)]
    credentials = grpc.ssl_channel_credentials(anchor, *pair)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as held:
        yield held


async def raw(
    port: int, path: str, *messages: bytes, tls: TlsCredentials | None = None
) -> tuple[grpc.StatusCode, str, list[bytes]]:
    """Send these bytes as the messages of one call; return status, sentence and what came back."""
    same: Callable[[bytes], bytes] = bytes
    replies: list[bytes] = []
    async with channel(port, tls or certified(HUB)) as line:
        call = line.stream_stream(path, same, same)(iter(messages), timeout=20)
        try:
            async for reply in call:
                replies.append(reply)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or "", replies
    return grpc.StatusCode.OK, "", replies


async def handshake(folder: Path, port: int, version: ssl.TLSVersion) -> str | None:
    """Return the version of TLS that is spoken with the standard library's client, which speaks up to ``version``."""
    tls = certified(HUB)
    (folder / "tls.pem").write_bytes(tls.certificate + tls.private_key)
    anchor = trust_anchor(TRUSTEE, identity_key(TRUSTEE).public, datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=anchor.decode())
    context.load_cert_chain(folder / "tls.pem")
    context.set_alpn_protocols(["h2"])
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, version

    def shaken() -> str | None:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname=TRUSTEE) as line,
        ):
            return line.version()

    return await asyncio.to_thread(shaken)
