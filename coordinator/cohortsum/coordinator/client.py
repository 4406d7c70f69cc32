"""A person's line to the coordinator: submit, list, look, take back, decide, fetch. One call, one answer, no retries.

Both ends prove an identity of the roster, as nodes do; what the coordinator answers about a study is for reading and is
checked where it matters: a fetched result must name the digest of the study that was asked for.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import grpc

from cohortsum.coordinator.hub import StudyEntry
from cohortsum.coordinator.release_wire import ReleaseList, decision_to_wire, list_from_wire
from cohortsum.coordinator.status import AttemptStatus, SiteStatus, StudyStatus
from cohortsum.crypto.certificates import certify, trust_anchor
from cohortsum.crypto.errors import AuthenticationError, LineError, RefusedError, RemoteProtocolError
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, WIRE_VERSION
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import MAX_DOCUMENT_BYTES, MAX_LISTED, caller_options
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.shape import CheckedChannel
from cohortsum.report.document import ResultDocument, from_json
from cohortsum.report.item_file import ItemFile, item_from_json
from cohortsum.study.definition.fields import utc
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.definition.withdrawal import Withdrawal
from cohortsum.study.release.decision import Decision
from cohortsum.wire.v1 import service_pb2, service_pb2_grpc

TIMEOUT_S = 60.0
LIFETIME = timedelta(hours=1)
DOWN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})

R = TypeVar("R")


class Desk:
    """Calls the coordinator under an identity of the roster; what a role may not ask is refused there.

    Every method raises RefusedError with the coordinator's sentence where it refuses, and LineError where it does not answer.

    Args:
        stub: of an open channel.
        target: host and port, for errors.
    """

    def __init__(self, stub: "service_pb2_grpc.ConsortiumAsyncStub", target: str) -> None:
        self._stub, self._target = stub, target

    async def submit(self, signed: SignedStudy) -> None:
        """Hand a study in."""
        held = service_pb2.SignedStudy(
            canonical=signed.canonical, statistician=signed.statistician, signature=signed.signature
        )
        await self._asked(self._stub.SubmitStudy(held, timeout=TIMEOUT_S))

    async def withdraw(self, withdrawal: Withdrawal) -> None:
        """Take a study back."""
        held = service_pb2.StudyWithdrawal(
            digest=withdrawal.digest, statistician=withdrawal.statistician, signature=withdrawal.signature
        )
        await self._asked(self._stub.WithdrawStudy(held, timeout=TIMEOUT_S))

    async def studies(self) -> tuple[StudyEntry, ...]:
        """Return all studies at the coordinator, the newest last."""
        request = service_pb2.ListStudiesRequest(wire_version=WIRE_VERSION)
        reply = await self._asked(self._stub.ListStudies(request, timeout=TIMEOUT_S))
        if len(reply.studies) > MAX_LISTED:
            raise RefusedError(f"the coordinator lists more than {MAX_LISTED} studies; nothing was kept")
        return tuple(StudyEntry(held.digest, held.name, held.version, held.state) for held in reply.studies)

    async def study(self, digest: bytes) -> SignedStudy:
        """Return a study as it was signed; nothing is verified."""
        request = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=digest)
        held = await self._asked(self._stub.GetStudy(request, timeout=TIMEOUT_S))
        return SignedStudy(held.canonical, held.statistician, held.signature)

    async def status(self, digest: bytes) -> StudyStatus:
        """Return where a study stands."""
        held = await self._asked(
            self._stub.GetStatus(service_pb2.GetStatusRequest(digest=digest), timeout=TIMEOUT_S)
        )
        return status_from_wire(held)

    async def result(self, digest: bytes) -> ResultDocument:
        """Return the released document of a study; raises AuthenticationError if it is about another one."""
        call = self._stub.GetResult(service_pb2.GetResultRequest(digest=digest), timeout=10 * TIMEOUT_S)
        document = from_json(await self._joined(call))
        if document.study.digest != digest.hex():
            raise AuthenticationError("the coordinator handed out the result of another study")
        return document

    async def bundle(self, digest: bytes) -> bytes:
        """Return the proof bundle of a study as it came; `report.bundle_check` says what it proves."""
        call = self._stub.GetBundle(service_pb2.GetResultRequest(digest=digest), timeout=10 * TIMEOUT_S)
        return await self._joined(call)

    async def releases(self, study: bytes) -> ReleaseList:
        """Return where every item of a study stands."""
        request = service_pb2.ListReleasesRequest(wire_version=WIRE_VERSION, study=study)
        return list_from_wire(await self._asked(self._stub.ListReleases(request, timeout=TIMEOUT_S)))

    async def item(self, study: bytes, name: str) -> ItemFile:
        """Return an item with its values; raises AuthenticationError unless its digest is that of its table."""
        request = service_pb2.GetReleaseItemRequest(wire_version=WIRE_VERSION, study=study, item=name)
        held = await self._joined(self._stub.GetReleaseItem(request, timeout=10 * TIMEOUT_S))
        return item_from_json(held, study, name)

    async def decide(self, decision: Decision) -> None:
        """Hand a signed decision in."""
        await self._asked(self._stub.Decide(decision_to_wire(decision), timeout=10 * TIMEOUT_S))

    async def _joined(self, call: AsyncIterable[service_pb2.ResultChunk | None]) -> bytes:
        """Return a document that comes in pieces, each full but the last: many small ones would cost more than they hold."""
        document, whole = bytearray(), True
        try:
            async for chunk in call:
                if chunk is None or not whole:
                    raise RefusedError("the coordinator sends a document in crumbs; nothing was kept")
                whole = len(chunk.document) == MAX_CHUNK_BYTES
                document += chunk.document
                if len(document) > MAX_DOCUMENT_BYTES:
                    raise RefusedError(
                        f"a document of more than {MAX_DOCUMENT_BYTES} bytes; nothing was kept"
                    )
        except grpc.aio.AioRpcError as error:
            raise self._fault(error) from error
        return bytes(document)

    async def _asked(self, call: Awaitable[R]) -> R:
        try:
            reply = await call
        except grpc.aio.AioRpcError as error:
            raise self._fault(error) from error
        if reply is None:
            raise RefusedError("the coordinator's reply is no message of this call; nothing was kept")
        return reply

    def _fault(self, error: grpc.aio.AioRpcError) -> RefusedError | LineError:
        if error.code() in DOWN:
            return LineError(
                f"the coordinator at {self._target} does not answer; check address and network, and whether your key is in "
                "its newest roster"
            )
        return RefusedError(f"the coordinator refuses: {error.details()}")


@asynccontextmanager
async def open_desk(target: str, signer: Signer, roster: Roster) -> AsyncGenerator[Desk]:
    """Open a line with TLS 1.3 on which both ends prove an identity of ``roster``."""
    now, hub = datetime.now(UTC), roster.coordinator
    tls = certify(signer.key, signer.identity.id, now, LIFETIME)
    credentials = grpc.ssl_channel_credentials(
        trust_anchor(hub.id, hub.key, now), tls.private_key, tls.certificate
    )
    options = [("grpc.ssl_target_name_override", hub.id), *caller_options()]
    async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
        served = service_pb2.DESCRIPTOR.services_by_name["Consortium"]
        checked = cast("grpc.aio.Channel", CheckedChannel(channel, served))
        yield Desk(service_pb2_grpc.ConsortiumStub(checked), target)


def status_from_wire(held: service_pb2.StudyStatus) -> StudyStatus:
    """Return where a study stands, as the coordinator says; raises RemoteProtocolError (M2) for a time that is none."""
    return StudyStatus(
        held.digest,
        held.name,
        held.version,
        held.state,
        held.reason,
        _moment(held.enrolment_closes),
        tuple(SiteStatus(site.id, site.answer, site.present, _moment(site.last_seen)) for site in held.sites),
        tuple(
            AttemptStatus(one.iteration, one.attempt, one.state, one.reason, tuple(one.survivors))
            for one in held.attempts
        ),
        tuple(held.blocks),
    )


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return utc(moment)
    except ValueError:
        pass
    raise RemoteProtocolError("M2", "a time in the status of a study is none, or has no time zone")
