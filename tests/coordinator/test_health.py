"""The health service: for whoever may connect at all, and for nobody else."""

import asyncio
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from cohortsum.crypto.certificates import TlsCredentials
from tests.edges.harness import HUB, STATISTICIAN, Loopback
from tests.edges.test_tls import credentials, own


async def asked(folder: Path, tls: grpc.ChannelCredentials | None) -> "int | grpc.StatusCode":
    """Return the health that a client hears, or the status that refuses it."""
    options = [("grpc.ssl_target_name_override", HUB)]
    async with Loopback(folder, 3) as town:
        target = town.line.target
        channel = (
            grpc.aio.insecure_channel(target)
            if tls is None
            else grpc.aio.secure_channel(target, tls, options=options)
        )
        async with channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            try:
                reply = await check(health_pb2.HealthCheckRequest(), timeout=10)
            except grpc.aio.AioRpcError as error:
                return error.code()
    return reply.status


@pytest.mark.parametrize("name", ["site0", STATISTICIAN])
def test_who_has_a_certificate_of_its_own_hears_serving(tmp_path: Path, name: str) -> None:
    assert asyncio.run(asked(tmp_path, credentials(own(name)))) == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    "tls",
    [None, own("stranger"), own("site1", key="site0"), own("site0", age=timedelta(days=3))],
    ids=["no certificate", "unknown identity", "another site's key", "expired"],
)
def test_who_has_none_of_the_roster_s_cannot_ask(tmp_path: Path, tls: TlsCredentials | None) -> None:
    assert asyncio.run(asked(tmp_path, credentials(tls))) is grpc.StatusCode.UNAVAILABLE


def test_without_tls_nobody_asks(tmp_path: Path) -> None:
    assert asyncio.run(asked(tmp_path, None)) is grpc.StatusCode.UNAVAILABLE
