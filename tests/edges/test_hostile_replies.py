"""What a coordinator must not do to a node's memory: replies too long, with parts without end, compressed, in crumbs, or no message.

The coordinator here has the genuine key, so TLS is in order; every call gets the same bytes as its reply.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from cohortsum.coordinator import client as desk_client
from cohortsum.coordinator.client import Desk, open_desk
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.service import CertificateDesk
from cohortsum.crypto.errors import CohortsumError, RefusedError, RoundFailedError
from cohortsum.node import recovery
from cohortsum.node.board import STATE
from cohortsum.node.client import Caller, Connection, Line, list_studies
from cohortsum.node.daemon import Daemon
from cohortsum.node.decisions import DecisionBook
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES
from cohortsum.protocol.denylist import nobody_denied
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import MAX_LISTED, SERVICE, SIZES
from cohortsum.protocol.shape import MAX_REPLY_FIELDS
from cohortsum.wire.v1 import round_pb2, service_pb2
from tests.edges.harness import HUB, LIMIT_S, STATISTICIAN, pinned_roster
from tests.edges.test_limits import padded
from tests.protocol.consortium import identity_key

ROSTER = pinned_roster(3)
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
CALLS = [path for path in SIZES if path.startswith(f"/{SERVICE}/")]


class Liar(grpc.GenericRpcHandler):
    """Answers every call with pieces that only its path decides about."""

    def __init__(self, answer: Callable[[str], Sequence[bytes]]) -> None:
        self._answer = answer

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        pieces = self._answer(handler_call_details.method)

        async def answer(requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            async for _ in requests:
                pass
            for piece in pieces:
                await context.write(piece)

        handler: Any = grpc.stream_stream_rpc_method_handler
        return handler(answer)


@asynccontextmanager
async def lying(
    *pieces: bytes,
    answer: Callable[[str], Sequence[bytes]] | None = None,
    compression: grpc.Compression | None = None,
) -> AsyncGenerator[str]:
    """Serve a lying coordinator and return host and port."""
    server = grpc.aio.server(options=UNLIMITED, compression=compression)
    server.add_generic_rpc_handlers([Liar(answer or (lambda _path: pieces))])
    roll = Roll({1: ROSTER}, nobody_denied(ROSTER.consortium))
    certificates = CertificateDesk(lambda: roll, identity_key(HUB), "127.0.0.1").renewed()
    assert certificates is not None
    unchanged = cast("Callable[[], grpc.ServerCertificateConfiguration]", lambda: None)
    held = grpc.dynamic_ssl_server_credentials(certificates, unchanged, require_client_authentication=True)
    port = server.add_secure_port("127.0.0.1:0", held)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def asked(path: str, *pieces: bytes, compression: grpc.Compression | None = None) -> object:
    """Return what a node, or for streams a statistician, makes of a reply."""
    name = path.rpartition("/")[2]
    async with asyncio.timeout(LIMIT_S), lying(*pieces, compression=compression) as target:
        if name in ("GetResult", "GetReleaseItem", "GetBundle"):
            async with desk(target) as statistician:
                return await statistician.bundle(bytes(32))
        signer, line = Signer(ROSTER.identities["site0"], identity_key("site0")), Line(target, 5.0)
        async with Connection(line, signer, ROSTER) as connection:
            kind = service_pb2.DESCRIPTOR.services_by_name["Consortium"].methods_by_name[name].input_type
            module = round_pb2 if kind.full_name.endswith(".Packet") else service_pb2
            empty = getattr(module, kind.name)()

            def call(stub: Any) -> Awaitable[object]:
                return cast("Awaitable[object]", getattr(stub, name)([empty] if name == "Upload" else empty))

            return await Caller(connection, line, "site0").call(call)


@asynccontextmanager
async def desk(target: str) -> AsyncGenerator[Desk]:
    signer = Signer(ROSTER.identities[STATISTICIAN], identity_key(STATISTICIAN))
    async with open_desk(target, signer, ROSTER) as held:
        yield held


def refusal(path: str, *pieces: bytes, compression: grpc.Compression | None = None) -> str:
    with pytest.raises(CohortsumError) as caught:
        asyncio.run(asked(path, *pieces, compression=compression))
    assert isinstance(caught.value, RoundFailedError | RefusedError)
    return caught.value.message


@pytest.mark.parametrize("path", CALLS)
def test_a_reply_of_its_call_s_length_is_read_and_one_byte_more_is_refused_by_name(path: str) -> None:
    size = SIZES[path].reply
    assert "larger than max" in refusal(path, padded(size + 1))
    assert asyncio.run(asked(path, padded(size))) is not None


def test_what_a_reply_unpacks_to_does_not_count_because_it_is_not_unpacked() -> None:
    said = refusal(f"/{SERVICE}/Next", bytes(MAX_MESSAGE_BYTES - 1), compression=grpc.Compression.Gzip)
    assert "gzip" in said


def lists(number: int) -> bytes:
    return service_pb2.ListStudiesReply(
        serial=1, studies=[service_pb2.StudyEntry(digest=bytes(32), name="s") for _ in range(number)]
    ).SerializeToString()


CROWDS: dict[str, tuple[str, bytes]] = {
    "attachments of a packet": (
        "Next",
        service_pb2.NextReply(
            packet=round_pb2.Packet(attachments=[b""] * (MAX_REPLY_FIELDS + 1))
        ).SerializeToString(),
    ),
    "envelopes of a trail": (
        "GetTrail",
        service_pb2.Trail(masked=[round_pb2.Envelope()] * (MAX_REPLY_FIELDS + 1)).SerializeToString(),
    ),
    "survivors of a transcript": (
        "GetTranscript",
        service_pb2.Transcript(survivors=[1] * (MAX_REPLY_FIELDS + 1)).SerializeToString(),
    ),
    "studies of a list": ("ListStudies", b"\x12\x00" * (MAX_REPLY_FIELDS + 1)),
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_parts_without_end_are_counted_before_they_are_objects(crowd: str) -> None:
    name, reply = CROWDS[crowd]
    assert len(reply) <= SIZES[f"/{SERVICE}/{name}"].reply  # so that no length is in the way
    assert "more fields than any may have" in refusal(f"/{SERVICE}/{name}", reply)


@pytest.mark.parametrize("path", [path for path in CALLS if "Get" not in path or "Study" in path])
def test_a_reply_that_is_no_message_is_one_of_our_errors(path: str) -> None:
    assert "no message of this call" in refusal(path, b"\xff\xff\xff")


def test_a_node_refuses_a_list_with_one_study_too_many_and_reads_one_that_is_full() -> None:
    async def listed(number: int) -> int:
        async with asyncio.timeout(LIMIT_S), lying(lists(number)) as target:
            signer, line = Signer(ROSTER.identities["site0"], identity_key("site0")), Line(target, 5.0)
            async with Connection(line, signer, ROSTER) as connection:
                return len((await list_studies(Caller(connection, line, "site0"), 0)).studies)

    assert asyncio.run(listed(MAX_LISTED)) == MAX_LISTED
    with pytest.raises(RoundFailedError, match="lists more than 10000 studies"):
        asyncio.run(listed(MAX_LISTED + 1))


def test_a_statistician_s_list_has_the_same_limit() -> None:
    async def listed(number: int) -> int:
        async with asyncio.timeout(LIMIT_S), lying(lists(number)) as target, desk(target) as statistician:
            return len(await statistician.studies())

    assert asyncio.run(listed(MAX_LISTED)) == MAX_LISTED
    with pytest.raises(RefusedError, match="lists more than 10000 studies"):
        asyncio.run(listed(MAX_LISTED + 1))


def piece(size: int) -> bytes:
    return service_pb2.ResultChunk(document=bytes(size)).SerializeToString()


BUNDLE = f"/{SERVICE}/GetBundle"


def test_a_document_comes_in_full_pieces_or_not_at_all() -> None:
    whole = asyncio.run(asked(BUNDLE, piece(MAX_CHUNK_BYTES), piece(MAX_CHUNK_BYTES), piece(7)))
    assert whole == bytes(2 * MAX_CHUNK_BYTES + 7)
    assert "in crumbs" in refusal(BUNDLE, piece(1), piece(1))
    assert "in crumbs" in refusal(BUNDLE, piece(MAX_CHUNK_BYTES), piece(0), piece(MAX_CHUNK_BYTES))
    assert "in crumbs" in refusal(BUNDLE, piece(MAX_CHUNK_BYTES), b"\xff\xff\xff")


def test_a_document_ends_at_its_greatest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_client, "MAX_DOCUMENT_BYTES", MAX_CHUNK_BYTES + 5)
    assert asyncio.run(asked(BUNDLE, piece(MAX_CHUNK_BYTES), piece(5))) == bytes(MAX_CHUNK_BYTES + 5)
    assert "a document of more than" in refusal(BUNDLE, piece(MAX_CHUNK_BYTES), piece(6))


def test_a_trail_whose_envelopes_are_cut_short_is_one_of_our_errors() -> None:
    async def trail() -> None:
        reply = service_pb2.Trail(masked=[round_pb2.Envelope(context=bytes(31))]).SerializeToString()
        async with asyncio.timeout(LIMIT_S), lying(reply) as target:
            signer, line = Signer(ROSTER.identities["site0"], identity_key("site0")), Line(target, 5.0)
            async with Connection(line, signer, ROSTER) as connection:
                await recovery.forgotten_contexts(
                    Caller(connection, line, "site0"), signer, (ROSTER,), cast("Any", None)
                )

    with pytest.raises(CohortsumError, match="M2"):
        asyncio.run(trail())


def test_invented_studies_are_forgotten_when_they_are_listed_no_more(tmp_path: Path) -> None:
    """A coordinator lists three new ones in every answer; the node holds what the newest list has, however long that goes on."""
    answered = 0

    def answer(path: str) -> list[bytes]:
        nonlocal answered
        if not path.endswith("ListStudies"):
            return [service_pb2.SignedStudy(canonical=b"{}", statistician=STATISTICIAN).SerializeToString()]
        answered += 1
        invented = [
            service_pb2.StudyEntry(digest=bytes([answered, number] * 16), name=f"s{answered}")
            for number in range(3)
        ]
        return [service_pb2.ListStudiesReply(serial=answered, studies=invented).SerializeToString()]

    async def play() -> None:
        async with asyncio.timeout(LIMIT_S), lying(answer=answer) as target:
            signer, line = Signer(ROSTER.identities["site0"], identity_key("site0")), Line(target, 5.0)
            async with Connection(line, signer, ROSTER) as connection:
                caller = Caller(connection, line, "site0")
                daemon = Daemon(tmp_path, caller, cast("Any", None), DecisionBook(tmp_path))
                running = asyncio.create_task(daemon.run())
                while answered < 20:
                    await asyncio.sleep(0.01)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                held = json.loads((tmp_path / STATE).read_text())["studies"]
        assert 0 < len(held) <= 3
        assert {line["here"] for line in held} == {"cannot be used"}

    asyncio.run(play())
