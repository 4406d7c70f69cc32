"""The gRPC edge: who is calling, what is too large, and bytes to packets. Everything else is the runner's."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import cast

import grpc
import structlog
from grpc_health.v1 import health, health_pb2_grpc

from cohortsum.coordinator.addresses import Network
from cohortsum.coordinator.callers import CALLERS, Context, identify
from cohortsum.coordinator.committee_desk import CommitteeDesk
from cohortsum.coordinator.committee_service import CommitteeService
from cohortsum.coordinator.faults import guarded
from cohortsum.coordinator.gate import Gate
from cohortsum.coordinator.hub import Hub
from cohortsum.coordinator.limits import AS_BUILT, Limits, server_options
from cohortsum.coordinator.metrics import Tally
from cohortsum.coordinator.outlet import Call, Outlet
from cohortsum.coordinator.release_wire import decision_from_wire, list_to_wire
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.runner import StudyRunner
from cohortsum.coordinator.spool import Upload
from cohortsum.coordinator.status import StudyStatus
from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import (
    AuthenticationError,
    ConfigurationError,
    RemoteProtocolError,
)
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.codec import (
    MAX_CHUNK_BYTES,
    WIRE_VERSION,
    envelope_to_wire,
    packet_from_wire,
)
from cohortsum.protocol.limits import MAX_LISTED
from cohortsum.protocol.roster import Identity, Role
from cohortsum.protocol.transcript_wire import transcript_to_wire
from cohortsum.report.item_file import item_to_json
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.definition.withdrawal import Withdrawal
from cohortsum.wire.v1 import committee_pb2_grpc, round_pb2, service_pb2, service_pb2_grpc

MAX_WAIT_S = 30.0
CERTIFICATE_LIFETIME = timedelta(days=30)
READERS = (Role.CHECKER, Role.SITE, Role.AUDITOR)
"""Roles that may see values before they have left."""

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class ConsortiumService(service_pb2_grpc.ConsortiumServicer):
    """Serves the identities of one consortium.

    Args:
        hub: the studies.
        tally: counts what is refused; None counts for nobody.
    """

    def __init__(self, hub: Hub, tally: Tally | None = None) -> None:
        self._hub, self._tally = hub, tally or Tally()
        self._outlet = Outlet()

    @property
    def tally(self) -> Tally:
        """What counts refusals."""
        return self._tally

    async def ListStudies(
        self, request: service_pb2.ListStudiesRequest, context: Context
    ) -> service_pb2.ListStudiesReply:
        """Return the studies, waiting for a change for a while."""
        async with guarded("ListStudies", context, self._tally):
            self._caller(context)
            check_version(request.wire_version)
            serial = await self._hub.changes(request.after, min(request.wait_ms / 1000, MAX_WAIT_S))
            studies = [
                service_pb2.StudyEntry(
                    digest=entry.digest, name=entry.name, version=entry.version, state=entry.state
                )
                for entry in self._hub.entries()[-MAX_LISTED:]
            ]
            return service_pb2.ListStudiesReply(serial=serial, studies=studies)
        raise AssertionError("a refused call was aborted")

    async def GetStudy(
        self, request: service_pb2.GetStudyRequest, context: Context
    ) -> service_pb2.SignedStudy:
        """Return a study as its statistician signed it."""
        async with guarded("GetStudy", context, self._tally):
            self._caller(context)
            check_version(request.wire_version)
            signed = self._hub.signed(request.digest)
            return service_pb2.SignedStudy(
                canonical=signed.canonical, statistician=signed.statistician, signature=signed.signature
            )
        raise AssertionError("a refused call was aborted")

    async def Next(self, request: service_pb2.NextRequest, context: Context) -> service_pb2.NextReply:
        """Return the caller's next packet, waiting for it for a while."""
        async with guarded("Next", context, self._tally):
            caller = self._caller(context, Role.SITE)
            if self._hub.is_over(request.study):
                return service_pb2.NextReply(over=True)
            runner = self._hub.running(request.study)
            site = self._hub.place_of(caller, runner)
            wait_s = min(request.wait_ms / 1000, MAX_WAIT_S)
            with self._hub.slots.poll(site, request.study):
                number, packet = await runner.next_packet(site, request.after, wait_s)
            if packet is None:
                return service_pb2.NextReply(over=runner.over)
            await self._outlet.enter(packet, cast("Call", context))  # gRPC's types know no plain callback
            held = round_pb2.Packet(
                envelope=envelope_to_wire(packet.envelope), attachments=packet.attachments
            )
            return service_pb2.NextReply(number=number, packet=held)
        raise AssertionError("a refused call was aborted")

    async def Submit(self, request: round_pb2.Packet, context: Context) -> service_pb2.SubmitReply:
        """Take one packet of the caller."""
        async with guarded("Submit", context, self._tally):
            caller = self._caller(context, Role.SITE)
            packet = packet_from_wire(request)
            if packet.envelope.sender != caller.id:
                raise RemoteProtocolError("R0.9", "a packet of another sender than the one who is connected")
            runner = self._hub.owner(packet.envelope.context)
            self._hub.place_of(caller, runner)
            await runner.submit(packet)
        return service_pb2.SubmitReply()

    async def Upload(
        self, request_iterator: AsyncIterator[service_pb2.UploadChunk], context: Context
    ) -> service_pb2.SubmitReply:
        """Take the caller's masked data words, chunk by chunk."""
        async with guarded("Upload", context, self._tally):
            caller = self._caller(context, Role.SITE)
            upload: Upload | None = None
            runner: StudyRunner | None = None
            round_context = b""
            site = 0
            with ExitStack() as places:
                async for chunk in request_iterator:
                    if len(chunk.words) > MAX_CHUNK_BYTES:
                        raise RemoteProtocolError("U1", f"a chunk of more than {MAX_CHUNK_BYTES} bytes")
                    if upload is None:
                        round_context = chunk.context
                        runner = self._hub.owner(round_context)
                        site = self._hub.place_of(caller, runner)
                        size = runner.upload_bytes(round_context)
                        places.enter_context(self._hub.slots.upload(site, round_context, size))
                        upload = runner.begin_upload(site, round_context)
                        places.callback(upload.drop)
                    await asyncio.to_thread(upload.add, chunk.words, chunk.running_digest)
                if upload is None or runner is None:
                    raise RemoteProtocolError("U1", "an upload without a chunk")
                await runner.end_upload(site, round_context, upload)
        return service_pb2.SubmitReply()

    async def GetTrail(self, request: service_pb2.GetTrailRequest, context: Context) -> service_pb2.Trail:
        """Return every masked input of the caller."""
        async with guarded("GetTrail", context, self._tally):
            caller = self._caller(context, Role.SITE)
            return service_pb2.Trail(masked=map(envelope_to_wire, self._hub.trail(caller.id)))
        raise AssertionError("a refused call was aborted")

    async def GetTranscript(
        self, request: service_pb2.GetTranscriptRequest, context: Context
    ) -> service_pb2.Transcript:
        """Return the signed messages of a round that the caller took part in."""
        async with guarded("GetTranscript", context, self._tally):
            held = self._hub.transcript(request.context, self._caller(context, Role.SITE).id)
            return transcript_to_wire(held)
        raise AssertionError("a refused call was aborted")

    async def SubmitStudy(
        self, request: service_pb2.SignedStudy, context: Context
    ) -> service_pb2.SubmitReply:
        """Take in a statistician's study."""
        async with guarded("SubmitStudy", context, self._tally):
            caller = self._caller(context, Role.STATISTICIAN)
            if request.statistician != caller.id:
                raise AuthenticationError("a study is submitted by the statistician who signed it")
            await self._hub.submit(SignedStudy(request.canonical, request.statistician, request.signature))
        return service_pb2.SubmitReply()

    async def WithdrawStudy(
        self, request: service_pb2.StudyWithdrawal, context: Context
    ) -> service_pb2.SubmitReply:
        """Take a study back."""
        async with guarded("WithdrawStudy", context, self._tally):
            self._caller(context, Role.STATISTICIAN)
            await self._hub.withdraw(Withdrawal(request.digest, request.statistician, request.signature))
        return service_pb2.SubmitReply()

    async def GetStatus(
        self, request: service_pb2.GetStatusRequest, context: Context
    ) -> service_pb2.StudyStatus:
        """Return where a study stands."""
        async with guarded("GetStatus", context, self._tally):
            self._caller(context)
            return _status_to_wire(self._hub.status(request.digest))
        raise AssertionError("a refused call was aborted")

    async def GetResult(
        self, request: service_pb2.GetResultRequest, context: Context
    ) -> AsyncGenerator[service_pb2.ResultChunk]:
        """Return the released document of a study."""
        document = b""
        async with guarded("GetResult", context, self._tally):
            document = self._hub.document(request.digest, self._caller(context).id)
        for piece in _pieces(document):
            yield piece

    async def GetBundle(
        self, request: service_pb2.GetResultRequest, context: Context
    ) -> AsyncGenerator[service_pb2.ResultChunk]:
        """Return the proof bundle of a study."""
        archive = b""
        async with guarded("GetBundle", context, self._tally):
            archive = await self._hub.bundle(request.digest, self._caller(context).id)
        for piece in _pieces(archive):
            yield piece

    async def ListReleases(
        self, request: service_pb2.ListReleasesRequest, context: Context
    ) -> service_pb2.ListReleasesReply:
        """Return where every item of a study stands."""
        async with guarded("ListReleases", context, self._tally):
            caller = self._caller(context)
            check_version(request.wire_version)
            return list_to_wire(self._hub.review.lines(request.study, caller))
        raise AssertionError("a refused call was aborted")

    async def GetReleaseItem(
        self, request: service_pb2.GetReleaseItemRequest, context: Context
    ) -> AsyncGenerator[service_pb2.ResultChunk]:
        """Return one item with its values to whoever decides about it, and to auditors."""
        file = b""
        async with guarded("GetReleaseItem", context, self._tally):
            caller = self._caller(context, *READERS)
            check_version(request.wire_version)
            file = item_to_json(self._hub.review.file(request.study, request.item, caller))
        for piece in _pieces(file):
            yield piece

    async def Decide(self, request: service_pb2.ReleaseDecision, context: Context) -> service_pb2.SubmitReply:
        """Take a decision of the caller about an item."""
        async with guarded("Decide", context, self._tally):
            caller = self._caller(context, Role.CHECKER, Role.SITE)
            if request.by != caller.id:
                raise AuthenticationError("a decision is handed in by whoever signed it")
            await self._hub.decide(decision_from_wire(request))
        return service_pb2.SubmitReply()

    def _caller(self, context: Context, *roles: Role) -> Identity:
        """Return the identity, in the newest roster and not denied, whose key certified the caller's TLS key.

        It has one of ``roles``, or without any one of `CALLERS`.
        """
        identity = identify(context, self._hub.roll.now)
        if roles and identity.role not in roles:
            raise AuthenticationError
        if identity.role is Role.SITE:
            self._hub.heard(identity.id)
        return identity


def secure_server(
    service: ConsortiumService,
    roll: Callable[[], Roll],
    key: IdentityKey,
    listen: str,
    limits: Limits = AS_BUILT,
    allow: Sequence[Network] = (),
    committee: CommitteeDesk | None = None,
) -> tuple[grpc.aio.Server, int]:
    """Return a server, not started yet, and its port; with TLS 1.3, and both ends prove an identity of the roster.

    The server's certificate, and whose certificates it takes, are made anew for a connection when half a certificate's life
    is over or the roll has changed: a process that runs for years needs no restart for either.

    Args:
        service: what it serves.
        roll: returns who may connect now.
        key: the coordinator's identity key.
        listen: host and port; port 0 picks a free one.
        limits: what callers may ask for.
        allow: networks from which one may call; empty for all.
        committee: the runs of committees; None for a coordinator that has none.

    Raises ConfigurationError where the address cannot be listened on.
    """
    gate = Gate(roll, limits, allow, service.tally)
    server = grpc.aio.server(interceptors=(gate,), options=server_options(limits))
    service_pb2_grpc.add_ConsortiumServicer_to_server(service, server)
    desk = committee or CommitteeDesk(key)
    committee_pb2_grpc.add_CommitteeServicer_to_server(CommitteeService(desk, roll, service.tally), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    certificates = CertificateDesk(roll, key, listen.rpartition(":")[0])
    first = certificates.renewed()
    if first is None:
        raise AssertionError("the first certificate is new")
    due = cast(
        "Callable[[], grpc.ServerCertificateConfiguration]", certificates.renewed
    )  # None: no change, says gRPC
    credentials = grpc.dynamic_ssl_server_credentials(first, due, require_client_authentication=True)
    try:
        return server, server.add_secure_port(listen, credentials)
    except (
        RuntimeError
    ):  # gRPC's own word for it; ports are not shared, or half the calls would reach another coordinator
        raise ConfigurationError(
            f"coordinator.yaml: listen: {listen} cannot be listened on; end what listens there, or name another address"
        ) from None


class CertificateDesk:
    """Makes the server's certificates, and says when new ones are due.

    Args:
        roll: returns who may connect now.
        key: the coordinator's identity key.
        host: under which it is reached.
        now: the time, UTC.
    """

    def __init__(
        self,
        roll: Callable[[], Roll],
        key: IdentityKey,
        host: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._roll, self._key, self._host, self._now = roll, key, host, now
        self._held: tuple[Roll, datetime] | None = None

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a configuration where one is due, else None; called for every connection, in any thread."""
        roll, now = self._roll(), self._now()
        if self._held is not None and self._held[0] is roll and now < self._held[1]:
            return None
        roster = roll.now
        tls = certify(self._key, roster.coordinator.id, now, CERTIFICATE_LIFETIME, [self._host])
        callers = [entry for role in sorted(CALLERS) for entry in roster.of_role(role)]
        anchors = b"".join(trust_anchor(entry.id, entry.key, now) for entry in callers)
        self._held = (roll, now + CERTIFICATE_LIFETIME / 2)
        return grpc.ssl_server_certificate_configuration(
            [(tls.private_key, tls.certificate)], root_certificates=anchors
        )


def _pieces(document: bytes) -> Iterator[service_pb2.ResultChunk]:
    for start in range(0, len(document), MAX_CHUNK_BYTES):
        yield service_pb2.ResultChunk(document=document[start : start + MAX_CHUNK_BYTES])


def check_version(version: int) -> None:
    """Raise RemoteProtocolError W1, which names both, for another wire version than ours."""
    if version != WIRE_VERSION:
        raise RemoteProtocolError(
            "W1",
            f"wire version {version}; this coordinator speaks {WIRE_VERSION}: install the version of cohortsum that it has",
        )


def _status_to_wire(status: StudyStatus) -> service_pb2.StudyStatus:
    closes = status.enrolment_closes
    return service_pb2.StudyStatus(
        digest=status.digest,
        name=status.name,
        version=status.version,
        state=status.state,
        reason=status.reason,
        enrolment_closes="" if closes is None else closes.isoformat(),
        sites=[
            service_pb2.SiteStatus(
                id=site.id,
                answer=site.answer,
                present=site.present,
                last_seen="" if site.last_seen is None else site.last_seen.isoformat(),
            )
            for site in status.sites
        ],
        attempts=[
            service_pb2.AttemptStatus(
                iteration=held.iteration,
                attempt=held.attempt,
                state=held.state,
                reason=held.reason,
                survivors=held.survivors,
            )
            for held in status.attempts
        ],
        blocks=status.blocks,
    )
