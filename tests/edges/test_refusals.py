"""What a site must not send: every refusal names its check, changes nothing, and the round still ends with the right sum.

One round is stopped in R2, with four of five masked vectors in; a peer then speaks under the identity of site 0, which has
not answered yet, and of site 1, which has.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

import grpc
import numpy as np
import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import MessageRow
from cohortsum.crypto.encoding import number
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, encode, envelope_to_wire
from cohortsum.protocol.envelope import MESSAGE, Signer
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import Advert, Consistency, Envelope, Kind, MaskedInput, Message
from cohortsum.wire.v1 import round_pb2, service_pb2, service_pb2_grpc
from tests.edges.harness import Loopback
from tests.edges.oracle import check_pooled

ZERO = bytes(32)


@dataclass
class Peer:
    """A caller with the TLS identity of a site that knows the open round."""

    stub: "service_pb2_grpc.ConsortiumAsyncStub"
    signer: Signer
    context: bytes
    length: int
    other: Signer

    def sign(self, message: Message, context: bytes | None = None) -> Envelope:
        return self.signer.sign(self.context if context is None else context, message)

    def raw(self, kind: Kind, payload: bytes) -> Envelope:
        """Return a payload that no codec made, genuinely signed."""
        sender = self.signer.identity.id
        signed = (self.context, number(kind), sender.encode(), payload)
        return Envelope(self.context, kind, sender, payload, self.signer.key.sign(MESSAGE, *signed))

    async def submit(self, envelope: Envelope, *attachments: bytes) -> None:
        await self.submit_wire(round_pb2.Packet(envelope=envelope_to_wire(envelope), attachments=attachments))

    async def submit_wire(self, packet: round_pb2.Packet) -> None:
        await self.stub.Submit(packet, timeout=20)

    async def upload(
        self, *chunks: bytes, context: bytes | None = None, damaged: bool = False, length: int | None = None
    ) -> None:
        hasher = words_hasher(8 * (self.length if length is None else length))

        async def parts() -> AsyncIterator[service_pb2.UploadChunk]:
            for chunk in chunks:
                hasher.update(chunk + b"!" if damaged else chunk)
                yield service_pb2.UploadChunk(
                    context=self.context if context is None else context,
                    words=chunk,
                    running_digest=hasher.digest(),
                )

        await self.stub.Upload(parts(), timeout=20)


MASKED = MaskedInput(ZERO, ZERO, ZERO, ZERO)
Attack = Callable[[Peer], Awaitable[None]]

AT_THE_EDGE: dict[str, tuple[str, Attack]] = {
    "a context that is too short": (
        "M2",
        lambda peer: peer.submit(replace(peer.sign(MASKED), context=ZERO[:31])),
    ),
    "a signature that is too short": (
        "M2",
        lambda peer: peer.submit(replace(peer.sign(MASKED), signature=b"")),
    ),
    "an empty packet": ("M2", lambda peer: peer.submit_wire(round_pb2.Packet())),
    "an unknown kind": (
        "M2",
        lambda peer: peer.submit_wire(
            round_pb2.Packet(envelope=round_pb2.Envelope(context=ZERO, kind=99, sender="site0"))
        ),
    ),
    "another sender than the one connected": (
        "R0.9",
        lambda peer: peer.submit(peer.other.sign(peer.context, MASKED)),
    ),
    "the coordinator as sender": (
        "R0.9",
        lambda peer: peer.submit(replace(peer.sign(MASKED), sender="hub")),
    ),
    "a message from another round": (
        "M3",
        lambda peer: peer.submit(peer.sign(MASKED, hashlib.sha256(b"another round").digest())),
    ),
    "a chunk that is too large": ("U1", lambda peer: peer.upload(bytes(MAX_CHUNK_BYTES + 8))),
    "an upload that is too long": ("U1", lambda peer: peer.upload(bytes(8 * peer.length), bytes(8))),
    "an upload that is too short": ("U1", lambda peer: peer.upload(bytes(8 * peer.length - 8))),
    "an upload without a chunk": ("U1", lambda peer: peer.upload()),
    "a damaged chunk": ("U3", lambda peer: peer.upload(bytes(8 * peer.length), damaged=True)),
    "a digest over another length": (
        "U3",
        lambda peer: peer.upload(bytes(8 * peer.length), length=peer.length + 1),
    ),
    "an upload of another round": ("M3", lambda peer: peer.upload(bytes(8), context=ZERO)),
    "an upload without a context": ("M3", lambda peer: peer.upload(bytes(8), context=b"")),
    "another wire version": ("W1", lambda peer: _ask(peer, 2)),
    "no wire version": ("W1", lambda peer: _ask(peer, 0)),
}
"""What the edge refuses by itself, with the check."""

IN_THE_MACHINE: dict[str, tuple[str, Attack]] = {
    "no signature": ("M1", lambda peer: peer.submit(replace(peer.sign(MASKED), signature=bytes(64)))),
    "another kind than signed": (
        "M1",
        lambda peer: peer.submit(replace(peer.sign(MASKED), kind=Kind.SHARES)),
    ),
    "a payload that is no message": ("M2", lambda peer: peer.submit(peer.raw(Kind.MASKED, b"\xff\xff\xff"))),
    "an unknown field": (
        "M2",
        lambda peer: peer.submit(peer.raw(Kind.MASKED, encode(MASKED)[1] + b"\xf8\x07\x01")),
    ),
    "a message of a later step": ("R2", lambda peer: peer.submit(peer.sign(Consistency(ZERO)))),
    "another transcript": ("R2", lambda peer: peer.submit(peer.sign(MASKED), bytes(8))),
    "a second advert": ("M5", lambda peer: peer.submit(peer.sign(Advert(_key(1), _key(2), ZERO, ZERO)))),
}
"""What only the machine can refuse."""

AS_SITE_1: dict[str, tuple[str, Attack]] = {
    "an upload when none is awaited": ("U2", lambda peer: peer.upload(bytes(8 * peer.length))),
}
"""What is refused because this site's masked vector is in."""


def _key(last: int) -> bytes:
    """Return a canonical public key of high order."""
    return hashlib.sha256(bytes([last])).digest()[:31] + bytes([last])


def submitting(packet: round_pb2.Packet) -> Attack:
    return lambda peer: peer.submit_wire(packet)


async def _ask(peer: Peer, version: int) -> None:
    await peer.stub.GetStudy(service_pb2.GetStudyRequest(wire_version=version, digest=bytes(32)), timeout=20)


@dataclass(frozen=True)
class Refusal:
    """How one attack ended."""

    status: grpc.StatusCode
    sentence: str
    lines: list[dict[str, object]]
    changed: bool


@dataclass
class Played:
    """All attacks on one round, and how the round ended."""

    refusals: dict[str, Refusal]
    repeated: dict[str, Refusal]
    left_behind: set[str]
    outcome: Outcome


async def attack(town: Loopback, peer: Peer, deed: Attack) -> Refusal:
    def picture() -> tuple[object, ...]:
        with town.store.transaction() as session:
            messages = session.scalar(select(func.count(MessageRow.id)))
        return town.runner.machine.state, messages, spooled(town)

    before = picture()
    status, sentence = grpc.StatusCode.OK, ""
    with capture_logs() as logs:
        try:
            await deed(peer)
        except grpc.aio.AioRpcError as error:
            status, sentence = error.code(), error.details() or ""
    return Refusal(status, sentence, [dict(line) for line in logs], picture() != before)


def spooled(town: Loopback) -> set[str]:
    return {path.name for path in (town.folder / "spool").rglob("*") if path.is_file()}


async def play(town: Loopback) -> Played:
    held = town.hold("site0", "MASKED")
    ending = town.start()
    await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == 4)
    await town.until(lambda: all(town.polls(f"site{index}") for index in range(1, 5)))
    machine = town.runner.machine
    signers = [site.signer for site in town.sites]
    refusals: dict[str, Refusal] = {}
    repeated: dict[str, Refusal] = {}
    async with town.stub(0) as first, town.stub(1) as second:
        peer = Peer(first, signers[0], machine.fixed.context, machine.length, signers[1])
        for name, (_, deed) in (AT_THE_EDGE | IN_THE_MACHINE).items():
            refusals[name] = await attack(town, peer, deed)
        done = Peer(second, signers[1], machine.fixed.context, machine.length, signers[0])
        for name, (_, deed) in AS_SITE_1.items():
            refusals[name] = await attack(town, done, deed)
        for what, data in town.wire.packets("site1"):
            if what in Kind.__members__:
                repeated[what] = await attack(town, done, submitting(round_pb2.Packet.FromString(data)))
        await break_off(town, peer)
        left_behind = {name for name in spooled(town) if not name.endswith(".words")}
        await peer.upload(
            np.arange(peer.length, dtype="<u8").tobytes()
        )  # of other words than site 0 will sign
    held.released.set()
    async with asyncio.timeout(30):
        return Played(refusals, repeated, left_behind, await ending)


async def break_off(town: Loopback, peer: Peer) -> None:
    """Begin an upload and cancel it after its first chunk arrived."""
    chunks, broken = town.times("CHUNK"), town.times("UPLOAD broken off")
    never = asyncio.Event()

    async def parts() -> AsyncIterator[service_pb2.UploadChunk]:
        digest = words_hasher(8 * peer.length)
        digest.update(bytes(8))
        yield service_pb2.UploadChunk(context=peer.context, words=bytes(8), running_digest=digest.digest())
        await never.wait()

    call = peer.stub.Upload(parts(), timeout=20)
    sending = asyncio.ensure_future(call)
    await town.until(lambda: town.times("CHUNK") > chunks)
    sending.cancel()
    await town.until(lambda: town.times("UPLOAD broken off") > broken)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    async def in_town() -> Played:
        async with Loopback(tmp_path_factory.mktemp("refusals"), 5) as town:
            return await play(town)

    return asyncio.run(in_town())


CHECKS = {name: check for name, (check, _) in (AT_THE_EDGE | IN_THE_MACHINE | AS_SITE_1).items()}


@pytest.mark.parametrize("name", CHECKS)
def test_a_refusal_changes_nothing_and_leaves_one_line_with_its_check(played: Played, name: str) -> None:
    refusal, check = played.refusals[name], CHECKS[name]
    assert not refusal.changed
    (line,) = refusal.lines
    assert line["event"] in ("call.refused", "round.refused")
    assert line["log_level"] == "warning"
    assert str(line["sentence"]).startswith(f"{check}: ")


@pytest.mark.parametrize("name", AT_THE_EDGE | AS_SITE_1)
def test_a_refusal_has_a_status_and_a_public_sentence_without_details(played: Played, name: str) -> None:
    refusal = played.refusals[name]
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    if CHECKS[name] == "W1":  # both versions are public, and say what to install
        assert re.fullmatch(
            r"W1: wire version [02]; this coordinator speaks 1: install the version .+", refusal.sentence
        )
    else:
        assert refusal.sentence == f"refused ({CHECKS[name]})"


@pytest.mark.parametrize("name", IN_THE_MACHINE)
def test_what_the_machine_refuses_has_a_status_too(played: Played, name: str) -> None:
    refusal = played.refusals[name]
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.sentence == f"refused ({CHECKS[name]})"


@pytest.mark.parametrize("what", ["APPROVAL", "ADVERT", "SHARES", "MASKED"])
def test_the_same_bytes_again_are_taken_without_a_second_effect_or_a_line(played: Played, what: str) -> None:
    assert played.repeated[what] == Refusal(grpc.StatusCode.OK, "", [], changed=False)


def test_an_upload_that_breaks_off_leaves_nothing_on_disk(played: Played) -> None:
    assert played.left_behind == set()


def test_the_round_still_ends_with_the_right_sum(played: Played) -> None:
    document = played.outcome.document
    assert document is not None, played.outcome.reason
    assert document.round.attempt == 1
    check_pooled(document, range(5))
