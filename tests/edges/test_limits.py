"""What one caller may ask for, over real gRPC and mutual TLS: each limit met exactly, exceeded by one, and nobody else touched.

Whoever is hostile here holds the key of a site; its client obeys none of our own limits.
"""

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import grpc
import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator import gate
from cohortsum.coordinator.addresses import Network, parse_network
from cohortsum.coordinator.buckets import Bucket
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.limits import AS_BUILT, COSTLY_CALLS, Limits
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.service import secure_server
from cohortsum.coordinator.slots import POLLS, Slots
from cohortsum.crypto.encoding import number
from cohortsum.crypto.errors import ConfigurationError, LimitError
from cohortsum.node.client import BROKE_OFF, retry_after_s
from cohortsum.protocol.approvals import approval_context
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, MAX_PAYLOAD_BYTES, WIRE_VERSION, envelope_to_wire
from cohortsum.protocol.denylist import Denied, DenyList, nobody_denied
from cohortsum.protocol.envelope import MESSAGE
from cohortsum.protocol.limits import MAX_REQUEST_BYTES, MIB, SERVICE, SIZES
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import Envelope, Kind
from cohortsum.study.planning import plan_study
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc
from tests.edges.harness import HUB, LIMIT_S, STATISTICIAN, Loopback, Wire, signed_study, study_with
from tests.edges.oracle import check_pooled
from tests.edges.test_fits import FIT
from tests.edges.test_tls import credentials, own
from tests.protocol.consortium import identity_key


@pytest.fixture(autouse=True)
def refusals_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "HOLD_S", 0.001)


SLOW = 1e-3
"""Tokens a second that never come back while a test runs."""
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
OPEN: Sequence[tuple[str, int | str]] = [
    ("grpc.ssl_target_name_override", HUB),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


class Town(Loopback):
    """A consortium whose coordinator has limits of its own, and counts what it reads of requests."""

    def __init__(
        self,
        folder: Path,
        sites: int = 3,
        limits: Limits = AS_BUILT,
        allow: Sequence[Network] = (),
        **more: Any,
    ) -> None:
        super().__init__(folder, sites, **more)
        self.limits, self.allow = limits, allow
        self.read: list[int] = []
        self.rolled = Roll({1: self.roster}, nobody_denied(self.roster.consortium))

    def roll(self) -> Roll:
        return self.rolled

    async def start_server(self) -> None:
        self.hub.slots = Slots(self.folder / "spool", self.limits.spool_bytes)
        add = cast("Callable[[Any, Any], None]", service_pb2_grpc.add_ConsortiumServicer_to_server)

        def add_counted(servicer: object, server: grpc.aio.Server) -> None:
            add(servicer, Counting(server, self.read))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service_pb2_grpc, "add_ConsortiumServicer_to_server", add_counted)
            self._server, self.port = secure_server(
                self.service, self.roll, identity_key(HUB), f"127.0.0.1:{self.port}", self.limits, self.allow
            )
        await self._server.start()

    @property
    def limited(self) -> Mapping[tuple[str, str], int]:
        return self.service.tally.limited

    @asynccontextmanager
    async def hostile(self, name: str = "site0", port: int = 0) -> AsyncGenerator["Hostile"]:
        """Call under the key of an identity with a client that has no limits."""
        target = f"127.0.0.1:{port or self.port}"
        async with grpc.aio.secure_channel(target, credentials(own(name)), options=OPEN) as channel:
            yield Hostile(channel)


class Passage:
    """A way to a port that counts the bytes that go there."""

    def __init__(self) -> None:
        self.port, self.passed = 0, 0

    @asynccontextmanager
    async def to(self, port: int) -> AsyncGenerator[Self]:
        """Listen on a port of its own and hand on to ``port``."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(
                self._hand_on(reader, far_writer, True), self._hand_on(far_reader, writer, False)
            )

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.passed += len(data) * count
                writer.write(data)
                await writer.drain()
        writer.close()


class Counting:
    """Stands between generated code and a server: every request that is parsed is counted."""

    def __init__(self, server: grpc.aio.Server, read: list[int]) -> None:
        self._server, self._read = server, read

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._server.add_generic_rpc_handlers([Watched(handler, self._read) for handler in handlers])

    def add_registered_method_handlers(self, name: str, handlers: Mapping[str, Any]) -> None:
        watched = {method: counted(handler, self._read) for method, handler in handlers.items()}
        self._server.add_registered_method_handlers(name, watched)


def counted(handler: Any, read: list[int]) -> Any:
    """Return a handler whose deserializer counts."""
    parse = handler.request_deserializer

    def counting(raw: bytes) -> object:
        read.append(len(raw))
        return parse(raw)

    return handler._replace(request_deserializer=counting)


class Watched(grpc.GenericRpcHandler):
    """A handler whose deserializers count."""

    def __init__(self, inner: Any, read: list[int]) -> None:
        self._inner, self._read = inner, read

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        handler = self._inner.service(handler_call_details)
        return None if handler is None else counted(handler, self._read)


@dataclass
class Hostile:
    """A client that sends what it likes."""

    channel: Any

    @property
    def stub(self) -> "service_pb2_grpc.ConsortiumAsyncStub":
        return cast("service_pb2_grpc.ConsortiumAsyncStub", service_pb2_grpc.ConsortiumStub(self.channel))

    async def ask(self, path: str, request: bytes = b"") -> "Heard":
        """Call anything with these bytes as the only request."""
        return await heard(self.channel.stream_stream(path)(self._once(request), timeout=LIMIT_S))

    async def _once(self, request: bytes) -> AsyncIterator[bytes]:
        yield request

    async def upload(self, *chunks: bytes) -> "Heard":
        """Upload chunks as bytes, again where gRPC itself broke on a call that had been refused while it was still sending."""

        async def parts() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        while True:
            ended = await heard(self.channel.stream_unary(f"/{SERVICE}/Upload")(parts(), timeout=LIMIT_S))
            if ended.sentence != BROKE_OFF:
                return ended


@dataclass(frozen=True)
class Heard:
    """How a call ended: status, sentence, and seconds after which to come again, if they were said."""

    status: grpc.StatusCode
    sentence: str
    later_s: float | None


async def heard(call: Any) -> Heard:
    try:
        if hasattr(call, "__aiter__"):
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return Heard(error.code(), error.details() or "", retry_after_s(error))
    return Heard(grpc.StatusCode.OK, "", None)


def run(play: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(4 * LIMIT_S):
            await play()

    asyncio.run(within())


def padded(size: int) -> bytes:
    """Return a message of exactly ``size`` bytes in which everything is an unknown field."""
    for digits in range(1, 5):
        rest = size - 2 - digits
        length, left = bytearray(), rest
        for _ in range(digits - 1):
            length.append(left & 127 | 128)
            left >>= 7
        if left < 128:
            return b"\xa2\x06" + bytes([*length, left]) + bytes(rest)
    raise AssertionError(size)


GET_STUDY = f"/{SERVICE}/GetStudy"
QUESTION = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=bytes(32)).SerializeToString()
"""Refused by the service with FAILED_PRECONDITION: no such study."""
TAKEN = grpc.StatusCode.FAILED_PRECONDITION


def polling(serial: int) -> service_pb2.ListStudiesRequest:
    """Return a question that waits."""
    return service_pb2.ListStudiesRequest(wire_version=WIRE_VERSION, after=serial, wait_ms=30_000)


def test_every_call_takes_a_message_of_its_length_and_refuses_one_byte_more(tmp_path: Path) -> None:
    limits = Limits(calls_burst=10_000)

    async def play() -> None:
        async with Town(tmp_path, limits=limits) as town, town.hostile() as peer:
            assert {path for path in SIZES if path.startswith(f"/{SERVICE}/")} == {
                f"/{SERVICE}/{method.name}"
                for method in service_pb2.DESCRIPTOR.services_by_name["Consortium"].methods
            }
            for path, sizes in SIZES.items():
                exact = await peer.ask(path, padded(sizes.request))
                assert exact.status is not EXHAUSTED, (path, exact)
                parsed = len(town.read)
                over = await peer.ask(path, padded(sizes.request + 1))
                assert (over.status, over.later_s) == (EXHAUSTED, None), path
                assert len(town.read) == parsed, path  # not parsed
                named = path.rpartition("/")[2] if sizes.request < MAX_REQUEST_BYTES else "larger than max"
                assert named in over.sentence
            assert max(town.read) <= MAX_REQUEST_BYTES

    run(play)


def test_compressed_requests_are_refused_whatever_they_hold(tmp_path: Path) -> None:
    async def play() -> None:
        async with Town(tmp_path) as town, town.hostile() as peer:
            bomb = peer.channel.unary_unary(f"/{SERVICE}/Submit")
            ended = await heard(bomb(bytes(2**26), compression=grpc.Compression.Gzip, timeout=LIMIT_S))
            assert ended.status is grpc.StatusCode.UNIMPLEMENTED
            assert town.read == []

    run(play)


def test_so_many_calls_may_be_open_and_one_more_is_refused_until_one_ends(tmp_path: Path) -> None:
    limits = Limits(studies=1)

    async def play() -> None:
        async with (
            Town(tmp_path, limits=limits) as town,
            town.hostile() as peer,
            town.hostile("site1") as other,
        ):
            serial = (await peer.stub.ListStudies(polling(0))).serial
            most = limits.calls_at_once
            assert most == 6
            polls = [asyncio.ensure_future(peer.stub.ListStudies(polling(serial))) for _ in range(most)]
            await until(lambda: len(town.read) == most + 1)
            refused = await peer.ask(GET_STUDY, QUESTION)
            assert refused.status is EXHAUSTED
            assert refused.later_s == 1.0
            assert "6 calls of this identity are open" in refused.sentence
            assert len(town.read) == most + 1
            assert town.limited == {("GetStudy", "calls_at_once"): 1}
            assert (await other.ask(GET_STUDY, QUESTION)).status is TAKEN
            polls.pop().cancel()
            while (await peer.ask(GET_STUDY, QUESTION)).status is EXHAUSTED:
                await asyncio.sleep(0.05)
            for poll in polls:
                poll.cancel()

    run(play)


def test_so_many_calls_may_come_and_one_more_is_refused_before_it_is_read(tmp_path: Path) -> None:
    limits = Limits(calls_per_s=SLOW, calls_burst=COSTLY_CALLS + 2)

    async def play() -> None:
        async with (
            Town(tmp_path, limits=limits) as town,
            town.hostile() as peer,
            town.hostile("site1") as other,
        ):
            assert (await peer.ask(f"/{SERVICE}/GetTrail")).status is grpc.StatusCode.OK
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            before = list(town.read)
            with capture_logs() as logs:
                refusals = [await peer.ask(GET_STUDY, QUESTION) for _ in range(3)]
            assert {refusal.status for refusal in refusals} == {EXHAUSTED}
            assert refusals[0].later_s is not None
            assert "too many calls from this identity; try again in" in refusals[0].sentence
            assert town.read == before
            assert town.limited == {("GetStudy", "calls"): 3}
            assert len(logs) == 1  # a flood of refusals is no flood of lines
            assert (await other.ask(GET_STUDY, QUESTION)).status is TAKEN

    run(play)


@pytest.mark.parametrize(("spare", "status"), [(1, TAKEN), (0, EXHAUSTED)])
def test_bytes_are_paid_when_they_have_come_and_a_debt_holds_up_the_next_call(
    tmp_path: Path, spare: int, status: grpc.StatusCode
) -> None:
    limits = Limits(bytes_per_s=SLOW, bytes_burst=2 * len(QUESTION) + spare)

    async def play() -> None:
        async with (
            Town(tmp_path, limits=limits) as town,
            town.hostile() as peer,
            town.hostile("site1") as other,
        ):
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            assert (await peer.ask(GET_STUDY, QUESTION)).status is status
            assert len(town.read) == 2 + spare
            assert town.limited == ({} if spare else {("GetStudy", "bytes"): 1})
            assert (await other.ask(GET_STUDY, QUESTION)).status is TAKEN

    run(play)


def test_replies_are_paid_too(tmp_path: Path) -> None:
    limits = Limits(bytes_per_s=SLOW, bytes_burst=200)

    async def play() -> None:
        async with Town(tmp_path, limits=limits) as town, town.hostile() as peer:
            request = service_pb2.GetStudyRequest(wire_version=WIRE_VERSION, digest=town.study.digest)
            assert (await peer.ask(GET_STUDY, request.SerializeToString())).status is grpc.StatusCode.OK
            assert (await peer.ask(GET_STUDY, QUESTION)).status is EXHAUSTED

    run(play)


def test_an_address_has_limits_of_its_own_over_all_identities(tmp_path: Path) -> None:
    limits = Limits(address_calls_per_s=SLOW, address_calls_burst=4)

    async def play() -> None:
        async with (
            Town(tmp_path, limits=limits) as town,
            town.hostile() as peer,
            town.hostile("site1") as other,
        ):
            for caller in (peer, other, peer, other):
                assert (await caller.ask(GET_STUDY, QUESTION)).status is TAKEN
            for caller in (peer, other):
                refused = await caller.ask(GET_STUDY, QUESTION)
                assert refused.status is EXHAUSTED
                assert "from this address" in refused.sentence
            assert len(town.read) == 4
            assert town.limited == {("GetStudy", "address_calls"): 2}

    run(play)


def test_so_many_connections_may_be_open_and_one_more_is_closed_until_one_ends(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            Town(tmp_path, limits=Limits(connections=2)) as town,
            town.hostile() as peer,
            town.hostile("site1") as other,
        ):
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            assert (await other.ask(GET_STUDY, QUESTION)).status is TAKEN
            async with town.hostile("site2") as third:
                assert (await third.ask(GET_STUDY, QUESTION)).status is grpc.StatusCode.UNAVAILABLE
            assert (await other.ask(GET_STUDY, QUESTION)).status is TAKEN
            await peer.channel.close()
            async with town.hostile("site2") as third:
                while (await third.ask(GET_STUDY, QUESTION)).status is grpc.StatusCode.UNAVAILABLE:
                    await asyncio.sleep(0.05)

    run(play)


def test_two_coordinators_do_not_share_a_port(tmp_path: Path) -> None:
    async def play() -> None:
        async with Town(tmp_path) as town:
            with pytest.raises(
                ConfigurationError, match=r"coordinator\.yaml: listen: 127\.0\.0\.1:[0-9]+ cannot"
            ):
                secure_server(town.service, town.roll, identity_key(HUB), f"127.0.0.1:{town.port}")

    run(play)


def test_the_body_of_a_refused_call_stays_at_its_sender(tmp_path: Path) -> None:
    """Of an upload of 64 MiB gRPC takes a window and no more, and nothing reaches a deserializer."""
    limits = Limits(calls_per_s=SLOW, calls_burst=1)

    async def play() -> None:
        async with (
            Town(tmp_path, limits=limits) as town,
            Passage().to(town.port) as way,
            town.hostile(port=way.port) as peer,
        ):
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            chunk = service_pb2.UploadChunk(words=bytes(MAX_CHUNK_BYTES)).SerializeToString()
            refused = await peer.upload(*[chunk] * 64)
            assert refused.status is EXHAUSTED
            assert refused.later_s is not None
            assert (await peer.ask(f"/{SERVICE}/Submit", bytes(MAX_REQUEST_BYTES))).status is EXHAUSTED
            assert way.passed < 8 * 2**20  # of 80 MiB: the windows of a few calls
            assert town.read == [len(QUESTION)]

    run(play)


def test_an_address_that_is_not_on_the_list_is_refused_with_the_cure_and_unread(tmp_path: Path) -> None:
    async def play() -> None:
        allow = [parse_network("192.0.2.0/24"), parse_network("2001:db8::/32")]
        async with Town(tmp_path, allow=allow) as town, town.hostile() as peer:
            refused = await peer.ask(GET_STUDY, QUESTION)
            assert refused.status is grpc.StatusCode.PERMISSION_DENIED
            assert "not in `allow` of the coordinator's coordinator.yaml" in refused.sentence
            assert "ask its operator" in refused.sentence
            assert town.read == []
            assert town.limited == {("GetStudy", "address"): 1}
            await town.stop_server()
            town.allow = [*allow, parse_network("127.0.0.1")]
            await town.start_server()
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN

    run(play)


@pytest.mark.parametrize(
    "path",
    [
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.channelz.v1.Channelz/GetServers",
        "/grpc.health.v1.Health/Watch",
        f"/{SERVICE}/Nothing",
        "/",
    ],
)
def test_no_service_but_ours_and_health_is_there(tmp_path: Path, path: str) -> None:
    async def play() -> None:
        async with Town(tmp_path) as town, town.hostile() as peer:
            assert (await peer.ask(path)).status is grpc.StatusCode.UNIMPLEMENTED
            assert town.service.tally.refused == {("other", "UnknownCall"): 1}

    run(play)


def test_what_is_registered_beside_our_calls_is_not_served() -> None:
    """A service that somebody adds is no call of the table, so the gate does not know it."""

    async def play() -> None:
        async def there(_details: object) -> object:
            raise AssertionError("the gate asks for no handler of a call that is not in its table")

        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        details = cast("grpc.HandlerCallDetails", SimpleNamespace(method=path, invocation_metadata=()))
        guard = gate.Gate(lambda: pytest.fail("nobody is looked up"))
        assert await guard.intercept_service(there, details) is None

    run(play)


def test_a_key_that_was_denied_reaches_no_handler(tmp_path: Path) -> None:
    """Its connection is from before; the roll is asked for every call, before the body."""

    async def play() -> None:
        async with Town(tmp_path) as town, town.hostile() as peer:
            assert (await peer.ask(GET_STUDY, QUESTION)).status is TAKEN
            denied = Denied("site0", identity_key("site0").public, datetime.now(UTC), "stolen")
            town.rolled = Roll({1: town.roster}, DenyList(town.roster.consortium, 1, (denied,)))
            read = list(town.read)
            for path in SIZES:
                refused = await peer.ask(path, QUESTION)
                assert refused == Heard(
                    grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster", None
                ), path
            assert town.read == read

    run(play)


@asynccontextmanager
async def open_upload(town: Town, peer: Hostile) -> AsyncGenerator[asyncio.Task[Heard]]:
    """Hold an upload of site 0 open after its first chunk was taken."""
    machine, never = town.runner.machine, asyncio.Event()
    before = town.times("CHUNK")

    async def parts() -> AsyncIterator[service_pb2.UploadChunk]:
        digest = words_hasher(8 * machine.length)
        digest.update(bytes(8))
        yield service_pb2.UploadChunk(
            context=machine.fixed.context, words=bytes(8), running_digest=digest.digest()
        )
        await never.wait()

    sending = asyncio.ensure_future(heard(peer.stub.Upload(parts(), timeout=LIMIT_S)))
    await town.until(lambda: town.times("CHUNK") > before)
    yield sending
    sending.cancel()


def test_a_second_upload_for_a_round_is_refused_while_one_is_open_and_the_round_ends_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "IDLE_S", 2.0)  # of the first, which never goes on

    async def play() -> None:
        async with Town(tmp_path, 4) as town, town.hostile() as peer:
            held = town.hold("site0", "MASKED")
            ending = town.start()
            await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == 3)
            async with open_upload(town, peer) as first:
                files = spooled(town)
                second = await peer.upload(
                    service_pb2.UploadChunk(context=town.runner.machine.fixed.context).SerializeToString()
                )
                assert second.status is EXHAUSTED
                assert second.later_s == 1.0
                assert "one at a time" in second.sentence
                assert spooled(town) == files
                held.released.set()  # the honest node's own upload meets the open one, waits as told, and comes in
                assert (await first).sentence == "Upload: nothing has come for 2 s; send it again"
            async with asyncio.timeout(LIMIT_S):
                outcome = await ending
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(4))
            assert town.limited["Upload", "idle"] == 1
            assert town.limited["Upload", "one_upload_per_round"] >= 2

    run(play)


def spooled(town: Town) -> set[str]:
    return {path.name for path in (town.folder / "spool").rglob("*") if path.is_file()}


def test_an_upload_that_would_not_fit_the_site_s_quota_is_refused_before_it_is_spooled(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with Town(tmp_path, 3) as town, town.hostile() as peer:
            held = town.hold("site0", "MASKED")
            ending = town.start()
            await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == 2)
            size, files = 8 * town.runner.machine.length, spooled(town)
            town.hub.slots = Slots(town.folder / "spool", size - 1)
            chunk = service_pb2.UploadChunk(context=town.runner.machine.fixed.context, words=bytes(8))
            refused = await peer.upload(chunk.SerializeToString())
            assert refused.status is EXHAUSTED
            assert refused.later_s == 10.0
            assert f"more than {size - 1} bytes on the coordinator's disk" in refused.sentence
            assert "limits.spool_bytes" in refused.sentence
            assert spooled(town) == files
            town.hub.slots = Slots(town.folder / "spool", size)
            held.released.set()
            async with asyncio.timeout(LIMIT_S):
                outcome = await ending
            assert outcome.document is not None, outcome.reason

    run(play)


def test_a_site_polls_a_study_so_often_at_once_and_once_more_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with Town(tmp_path) as town, town.hostile() as peer:
            ask = service_pb2.NextRequest(study=town.study.digest, wait_ms=30_000)
            polls = [asyncio.ensure_future(peer.stub.Next(ask)) for _ in range(POLLS)]
            await town.until(lambda: town.times("POLL", "site0") == POLLS)
            refused = await heard(peer.stub.Next(ask))
            assert refused.status is EXHAUSTED
            assert refused.later_s == 1.0
            assert town.limited == {("Next", "polls"): 1}
            for poll in polls:
                poll.cancel()

    run(play)


def test_a_study_beyond_the_limit_is_refused_with_the_cure_and_a_new_version_is_not(tmp_path: Path) -> None:
    async def play() -> None:
        async with Town(tmp_path) as town:
            place = Place(town.store, tmp_path / "spool", town.results, town.pool, limits=Limits(studies=1))
            hub = Hub(town.roll, identity_key(HUB), place)
            hub.adopt(town.runner)
            _, other = signed_study(study_with(study="another"))
            with pytest.raises(LimitError, match="1 studies are under way at this coordinator") as caught:
                await hub.submit(other)
            assert caught.value.retry_after_s is None
            assert "or withdraw one" in caught.value.message
            town.runner.over = True
            digest = await hub.submit(other)
            assert hub.running(digest).plan.study.study == "another"
            _, newer = signed_study(study_with(study="another", version="2"))
            await until(lambda: hub.running(digest).state == "enrolling")
            assert await hub.submit(newer) != digest
            await hub.close()

    run(play)


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not ready():
            await asyncio.sleep(0.01)


def test_an_answer_that_would_crowd_out_the_others_in_an_opening_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with Town(tmp_path, 3) as town, town.hostile() as peer:
            plan, signer = plan_study(town.study, town.roster).round, town.sites[0].signer
            context = approval_context(plan.study_digest, plan.roster_digest)
            most = MAX_PAYLOAD_BYTES // 6

            def answer(payload: bytes) -> round_pb2.Packet:
                signed = (context, number(Kind.APPROVAL), b"site0", payload)
                envelope = Envelope(
                    context, Kind.APPROVAL, "site0", payload, signer.key.sign(MESSAGE, *signed)
                )
                return round_pb2.Packet(envelope=envelope_to_wire(envelope))

            refused = await heard(peer.stub.Submit(answer(bytes(most + 1))))
            assert (refused.status, refused.later_s) == (EXHAUSTED, None)
            assert f"more than {most} bytes" in refused.sentence
            assert town.limited == {("Submit", "answer_bytes"): 1}
            assert (await heard(peer.stub.Submit(answer(bytes(most))))).sentence == "refused (M2)"

    run(play)


def test_an_honest_consortium_meets_no_limit(tmp_path: Path) -> None:
    """A fit of many iterations, at the pace of a tick of 1 ms: a hundred times that of the default."""

    async def play() -> None:
        async with Town(tmp_path, 4, study=FIT) as town:
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            assert outcome.document.round.iterations > 3
            assert town.limited == {}

    run(play)


def test_the_defaults_leave_room_for_what_the_docstring_says() -> None:
    """Four fits side by side, one message per tick of 100 ms, for an hour; and a fit of 30 iterations at once."""
    seconds = [0.0]
    calls = Bucket(AS_BUILT.calls_per_s, AS_BUILT.calls_burst, lambda: seconds[0])
    for _ in range(6000):  # attempts of 0.6 s
        for _ in range(4 * 14):
            assert calls.wait_s(1) == 0
            calls.take(1)
        seconds[0] += 0.6
    size = Bucket(AS_BUILT.bytes_per_s, AS_BUILT.bytes_burst, lambda: 0.0)
    for _ in range(30):
        assert size.wait_s(1) == 0
        size.take(8 * 10**5 + 32 * MIB)
    near = Bucket(AS_BUILT.address_calls_per_s, AS_BUILT.address_calls_burst, lambda: 0.6)
    near.take(200 * 14)
    assert near.wait_s(1) == 0


FLOOD = 1000


class Deaf(Wire):
    """The harness records everything that passes; here that would be most of the memory."""

    def note(self, direction: dict[str, list[tuple[str, bytes]]], site: str, what: str, data: bytes) -> None:
        return


def test_memory_stays_flat_under_a_flood_from_one_identity_and_the_others_finish_their_round(
    tmp_path: Path,
) -> None:
    """The statistician's key calls without end: large bodies, uploads, questions that cost much and such that cost little.

    What Python holds at its peak stays below a few messages, whether the flood has 300 calls or five times as many.
    """
    limits = Limits(studies=4, calls_per_s=50, calls_burst=200, bytes_burst=64 * MIB)

    async def play() -> None:
        async with Town(tmp_path, 4, limits=limits) as town:
            town.service.wire = Deaf()
            peaks: list[int] = []
            async with town.hostile(STATISTICIAN) as peer:
                ending = town.start()
                tracemalloc.start()
                try:
                    for number in (FLOOD // 5, FLOOD):
                        tracemalloc.reset_peak()
                        assert EXHAUSTED in await flood(peer, number)
                        peaks.append(tracemalloc.get_traced_memory()[1])
                finally:
                    tracemalloc.stop()
                async with asyncio.timeout(LIMIT_S):
                    outcome = await ending
            assert outcome.document is not None, outcome.reason
            check_pooled(outcome.document, range(4))
            assert peaks[1] < 2 * peaks[0] + 8 * MIB
            assert max(peaks) < 64 * MIB
            assert {limit for _, limit in town.limited} >= {"calls"}

    run(play)


async def flood(peer: Hostile, number: int) -> set[grpc.StatusCode]:
    """Call so often, from a hundred tasks, and return how the calls ended."""
    steps, statuses = iter(range(number)), set[grpc.StatusCode]()

    async def work() -> None:
        for step in steps:
            statuses.add((await _one(peer, step)).status)

    await asyncio.gather(*(work() for _ in range(100)))
    return statuses


BODY = padded(4 * MIB)


async def _one(peer: Hostile, step: int) -> Heard:
    match step % 4:
        case 0:
            return await peer.ask(f"/{SERVICE}/Submit", BODY)
        case 1:
            return await peer.ask(f"/{SERVICE}/GetTrail")
        case 2:
            return await peer.ask(GET_STUDY, QUESTION)
        case _:
            return await peer.upload(
                service_pb2.UploadChunk(words=bytes(MAX_CHUNK_BYTES)).SerializeToString()
            )
