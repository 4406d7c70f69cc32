"""The gRPC edge: who is calling, what is too large, and bytes to packets. Everything else is the runner's."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import structlog

from cohortsum.coordinator.faults import public_fault
from cohortsum.coordinator.runner import StudyRunner
from cohortsum.coordinator.spool import Upload
from cohortsum.crypto.certificates import certified_name, certify, check_certified, trust_anchor
from cohortsum.crypto.errors import AuthenticationError, CohortsumError, RemoteProtocolError, StoreError
from cohortsum.protocol.codec import (
    MAX_CHUNK_BYTES,
    MESSAGE_OPTIONS,
    WIRE_VERSION,
    envelope_to_wire,
    packet_from_wire,
)
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Role, Roster, SiteId
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc

MAX_WAIT_S = 30.0
CERTIFICATE_LIFETIME = timedelta(days=30)

log: structlog.stdlib.BoundLogger = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
"""gRPC's own types name the request and response of every method here; the edge needs neither."""


@asynccontextmanager
async def guarded(call: str, context: Context) -> AsyncGenerator[None]:
    """Turn our errors into a status and a public sentence, and log what happened."""
    try:
        yield
    except CohortsumError as error:
        log.warning("call.refused", call=call, error=type(error).__name__, sentence=error.message)
        await context.abort(*public_fault(error))
    except OSError as error:  # the spool's disk
        log.error("call.failed", call=call, error=type(error).__name__, errno=error.errno)
        await context.abort(*public_fault(StoreError("the spool's disk refuses a write")))


class ConsortiumService(service_pb2_grpc.ConsortiumServicer):
    """Serves the sites of one roster.

    Args:
        roster: who may call.
        runner: the study that is running.
    """

    def __init__(self, roster: Roster, runner: StudyRunner) -> None:
        self._roster, self._runner = roster, runner
        self._callers: dict[bytes, int] = {}

    async def GetStudy(
        self, request: service_pb2.GetStudyRequest, context: Context
    ) -> service_pb2.SignedStudy:
        """Return the study as its statistician signed it."""
        async with guarded("GetStudy", context):
            self._caller(context)
            if request.wire_version != WIRE_VERSION:
                sentence = f"wire version {request.wire_version}; this coordinator speaks {WIRE_VERSION}"
                raise RemoteProtocolError("W1", sentence)
        signed = self._runner.signed
        return service_pb2.SignedStudy(
            canonical=signed.canonical, statistician=signed.statistician, signature=signed.signature
        )

    async def Next(self, request: service_pb2.NextRequest, context: Context) -> service_pb2.NextReply:
        """Return the caller's next packet, waiting for it for a while."""
        async with guarded("Next", context):
            site = self._caller(context)
            wait_s = min(request.wait_ms / 1000, MAX_WAIT_S)
            number, packet = await self._runner.next_packet(site, request.after, wait_s)
            if packet is None:
                return service_pb2.NextReply(over=self._runner.over)
            held = round_pb2.Packet(
                envelope=envelope_to_wire(packet.envelope), attachments=packet.attachments
            )
            return service_pb2.NextReply(number=number, packet=held)
        raise AssertionError("a refused call was aborted")

    async def Submit(self, request: round_pb2.Packet, context: Context) -> service_pb2.SubmitReply:
        """Take one packet of the caller."""
        async with guarded("Submit", context):
            site = self._caller(context)
            packet = packet_from_wire(request)
            if self._roster.sites.get(SiteId(packet.envelope.sender)) != site:
                raise RemoteProtocolError("R0.9", "a packet of another sender than the one who is connected")
            await self._runner.submit(packet)
        return service_pb2.SubmitReply()

    async def Upload(
        self, request_iterator: AsyncIterator[service_pb2.UploadChunk], context: Context
    ) -> service_pb2.SubmitReply:
        """Take the caller's masked data words, chunk by chunk."""
        async with guarded("Upload", context):
            site = self._caller(context)
            upload: Upload | None = None
            round_context = b""
            try:
                async for chunk in request_iterator:
                    if len(chunk.words) > MAX_CHUNK_BYTES:
                        raise RemoteProtocolError("U1", f"a chunk of more than {MAX_CHUNK_BYTES} bytes")
                    if upload is None:
                        round_context = chunk.context
                        upload = self._runner.begin_upload(site, round_context)
                    await asyncio.to_thread(upload.add, chunk.words, chunk.running_digest)
                if upload is None:
                    raise RemoteProtocolError("U1", "an upload without a chunk")
                await self._runner.end_upload(site, round_context, upload)
            finally:
                if upload is not None:
                    upload.drop()
        return service_pb2.SubmitReply()

    def _caller(self, context: Context) -> int:
        """Return the roster index of the site whose identity key certified the caller's TLS key."""
        pem = next(iter(context.auth_context().get("x509_pem_cert", ())), None)
        if pem is None:
            raise AuthenticationError
        known = self._callers.get(pem)
        if known is None:
            known = self._callers[pem] = self._identify(pem)
        return known

    def _identify(self, pem: bytes) -> int:
        name = certified_name(pem)
        identity = self._roster.identities.get(name)
        if identity is None or identity.role is not Role.SITE:
            raise AuthenticationError
        check_certified(pem, name, identity.key)
        return self._roster.sites[SiteId(name)]


def secure_server(
    service: ConsortiumService, roster: Roster, signer: Signer, listen: str
) -> tuple[grpc.aio.Server, int]:
    """Return a server, not started yet, and its port; with TLS 1.3, and both ends prove an identity of the roster.

    Args:
        service: what it serves.
        roster: whose sites may connect.
        signer: the coordinator's identity.
        listen: host and port; port 0 picks a free one.
    """
    host = listen.rpartition(":")[0]
    tls = certify(signer.key, signer.identity.id, datetime.now(UTC), CERTIFICATE_LIFETIME, [host])
    server = grpc.aio.server(options=MESSAGE_OPTIONS)
    service_pb2_grpc.add_ConsortiumServicer_to_server(service, server)
    credentials = grpc.ssl_server_credentials(
        [(tls.private_key, tls.certificate)],
        root_certificates=_site_anchors(roster),
        require_client_auth=True,
    )
    return server, server.add_secure_port(listen, credentials)


def _site_anchors(roster: Roster) -> bytes:
    return b"".join(trust_anchor(site.id, site.key, datetime.now(UTC)) for site in roster.of_role(Role.SITE))
