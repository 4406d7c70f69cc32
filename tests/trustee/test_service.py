"""The trustee over the wire: only the coordinator is heard, and only in the form that the calls have."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.bfv import STANDARD, DecryptionKey
from cohortsum.crypto.certificates import TlsCredentials
from cohortsum.crypto.errors import CohortsumError, LineError, RefusedError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.codec import MAX_CHUNK_BYTES, envelope_to_wire
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import HEALTH, KIB
from cohortsum.protocol.limits import TRUSTEE as SERVICE
from cohortsum.protocol.masking import words_digest, words_to_bytes
from cohortsum.protocol.messages import Envelope, Packet, Unlocked
from cohortsum.protocol.shape import MAX_REPLY_FIELDS, check_shape
from cohortsum.protocol.transcript_wire import transcript_from_wire, transcript_to_wire
from cohortsum.protocol.unlocking import UnlockRequest, offer_of
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.trustee.desk import Desk, Permitted
from cohortsum.trustee.faults import FAILED
from cohortsum.trustee.keys import Answer
from cohortsum.trustee.service import unlock_from_wire
from cohortsum.wire.v1 import service_pb2, trustee_pb2
from tests.edges.harness import HUB, STATISTICIAN
from tests.edges.test_tls import certificate
from tests.trustee.edge import certified, client, handshake, raw, serving
from tests.trustee.world import TRUSTEE, Office, Played, roll, roster, round_of

WAIT_S = 20.0
OFFER, UNLOCK = f"/{SERVICE}/Offer", f"/{SERVICE}/Unlock"
Code = grpc.StatusCode


def study_of(played: Played) -> service_pb2.SignedStudy:
    held = played.by_statistician
    return service_pb2.SignedStudy(
        canonical=held.canonical, statistician=held.statistician, signature=held.signature
    )


def offer_request(played: Played, version: int = 1) -> bytes:
    return trustee_pb2.OfferRequest(
        wire_version=version, study=study_of(played), opening=envelope_to_wire(played.opening)
    ).SerializeToString()


def head(played: Played, version: int = 1, length: int | None = None) -> bytes:
    """Return the first piece of an unlock."""
    request = trustee_pb2.UnlockRequest(
        wire_version=version,
        study=study_of(played),
        transcript=transcript_to_wire(played.request.transcript),
        gate=envelope_to_wire(played.request.gate),
        length=played.length if length is None else length,
    )
    return trustee_pb2.UnlockPiece(request=request).SerializeToString()


def piece(words: bytes) -> bytes:
    return trustee_pb2.UnlockPiece(words=words).SerializeToString()


def test_a_transcript_survives_the_wire() -> None:
    transcript = round_of().request.transcript
    assert transcript_from_wire(transcript_to_wire(transcript)) == transcript


_HELD: list[Office] = []


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 2**32), wrong=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_request_is_refused_in_our_own_words_or_is_the_same_request(
    tmp_path_factory: pytest.TempPathFactory, at: int, wrong: int, cut: bool
) -> None:
    played = round_of()
    if not _HELD:
        _HELD.append(Office(tmp_path_factory.mktemp("held")))
        _HELD[0].offer(played)
    data = bytearray(head(played))
    at %= len(data)
    if cut:
        del data[at:]
    else:
        data[at] ^= wrong
    descriptor = trustee_pb2.UnlockPiece.DESCRIPTOR
    try:
        check_shape(descriptor, bytes(data), MAX_REPLY_FIELDS)
        request = trustee_pb2.UnlockPiece.FromString(bytes(data)).request
        permitted = _HELD[0].desk.permitted(*unlock_from_wire(request))
    except (CohortsumError, DecodeError):
        return
    assert permitted.proven.survivors == played.survivors
    assert permitted.length == played.length


def test_the_coordinator_gets_a_key_and_the_masked_sum(tmp_path: Path) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        async with serving(office) as port:
            line = client(port)
            packet = await line.offer(played.by_statistician, played.opening, WAIT_S)
            assert packet == office.offer(played)
            sums = [
                await line.unlock(
                    played.by_statistician, played.request, played.ciphertexts(), played.length, WAIT_S
                )
                for _ in range(2)
            ]
            assert played.opened(sums[0].words) == played.expected_sum()
            assert sums[0].envelope == sums[1].envelope
            assert np.array_equal(sums[0].words, sums[1].words)

    asyncio.run(story())


def test_a_sum_of_several_pieces_travels_whole(tmp_path: Path) -> None:
    bands = "  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}"
    edges = ", ".join(str(edge / 10) for edge in range(1001))
    more = (bands.replace("bands", f"b{number}").replace("0, 25, 50, 75, 100", edges) for number in range(40))
    played = round_of("pieces", (), (bands, "\n".join(more)))
    assert 8 * STANDARD.words(played.length) > MAX_CHUNK_BYTES

    async def story() -> None:
        office = Office(tmp_path)
        office.offer(played)
        async with serving(office) as port:
            unlocked = await client(port).unlock(
                played.by_statistician, played.request, played.ciphertexts(), played.length, WAIT_S
            )
            assert played.opened(unlocked.words) == played.expected_sum()

    asyncio.run(story())


def test_the_coordinator_hears_the_trustees_sentence(tmp_path: Path) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        async with serving(office) as port:
            line, asked = client(port), (played.by_statistician, played.request)
            with pytest.raises(RefusedError, match="the trustee refuses: no key is held for this attempt"):
                await line.unlock(*asked, played.ciphertexts(), played.length, WAIT_S)
            await line.offer(played.by_statistician, played.opening, WAIT_S)
            few = replace(played.request.transcript, consistency=())
            request = UnlockRequest(few, played.request.gate)
            with pytest.raises(RefusedError, match=r"R4\.3: 0 signatures"):
                await line.unlock(
                    played.by_statistician, request, played.ciphertexts(), played.length, WAIT_S
                )
            await line.unlock(*asked, played.ciphertexts(), played.length, WAIT_S)
            with pytest.raises(RefusedError, match="K3: a sum was decrypted in this attempt already"):
                await line.unlock(*asked, played.ciphertexts(0), played.length, WAIT_S)

    asyncio.run(story())


def test_a_full_ring_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        office = replace(Office(tmp_path), most=1)
        office.offer(round_of())
        played = round_of("again")
        async with serving(office) as port:
            with pytest.raises(RefusedError, match="holds 1 keys and has room for no further one"):
                await client(port).offer(played.by_statistician, played.opening, WAIT_S)

    asyncio.run(story())


async def heard(office: Office, tls: TlsCredentials) -> tuple[Code, str]:
    async with serving(office) as port:
        status, sentence, _ = await raw(port, OFFER, offer_request(round_of()), tls=tls)
    return status, sentence


@pytest.mark.parametrize(
    "tls",
    [
        certified("site0"),
        certified(STATISTICIAN),
        certified(TRUSTEE),
        certified("stranger"),
        certified(HUB, "site0"),
        certificate(HUB, f"{HUB} identity", "stranger"),
    ],
    ids=["site", "statistician", "itself", "stranger", "a site as coordinator", "the right names"],
)
def test_nobody_but_the_coordinator_connects(tmp_path: Path, tls: TlsCredentials) -> None:
    office = Office(tmp_path)
    assert asyncio.run(heard(office, tls))[0] is Code.UNAVAILABLE
    assert office.drawn == 0


@pytest.mark.parametrize("subject", ["site0", STATISTICIAN, TRUSTEE, "nobody"])
def test_a_coordinator_that_certifies_itself_as_somebody_else_is_refused(
    tmp_path: Path, subject: str
) -> None:
    tls = certificate(subject, f"{HUB} identity", HUB)
    assert asyncio.run(heard(Office(tmp_path), tls)) == (
        Code.PERMISSION_DENIED,
        "not the coordinator of the roster",
    )


def test_a_denied_coordinator_is_refused_at_once(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.roll = roll(HUB)
    assert asyncio.run(heard(office, certified(HUB)))[0] is Code.PERMISSION_DENIED


async def spoken(folder: Path, version: ssl.TLSVersion) -> str | None:
    async with serving(Office(folder)) as port:
        return await handshake(folder, port, version)


def test_tls_1_3_shakes_hands_and_1_2_does_not(tmp_path: Path) -> None:
    assert asyncio.run(spoken(tmp_path, ssl.TLSVersion.TLSv1_3)) == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(spoken(tmp_path, ssl.TLSVersion.TLSv1_2))


@pytest.mark.parametrize("what", ["empty", "junk", "version", "words first", "nothing behind", "two requests",
                                  "crumbs", "long piece", "too much", "large", "fields"])  # fmt: skip
def test_a_stream_of_another_form_decrypts_nothing(tmp_path: Path, what: str) -> None:
    played = round_of()
    data = words_to_bytes(played.ciphertexts())
    pieces = [data[start : start + MAX_CHUNK_BYTES] for start in range(0, len(data), MAX_CHUNK_BYTES)]
    whole = [head(played), *map(piece, pieces)]
    match what:
        case "empty":
            sent, code, said = [], Code.FAILED_PRECONDITION, "M2"
        case "junk":
            sent, code, said = [b"\xff\xff\xff", *whole[1:]], Code.FAILED_PRECONDITION, "M2"
        case "version":
            sent, code, said = [head(played, 2), *whole[1:]], Code.FAILED_PRECONDITION, "W1: wire version 2"
        case "words first":
            sent, code, said = whole[1:], Code.FAILED_PRECONDITION, "M2"
        case "nothing behind":
            sent, code, said = whole[:1], Code.FAILED_PRECONDITION, "M2"
        case "two requests":
            sent, code, said = [whole[0], *whole], Code.FAILED_PRECONDITION, "M2"
        case "crumbs":
            sent, code, said = [whole[0], piece(data[:8]), piece(data[8:])], Code.FAILED_PRECONDITION, "M2"
        case "long piece":
            sent, code, said = [whole[0], piece(bytes(2 * MAX_CHUNK_BYTES))], Code.RESOURCE_EXHAUSTED, "bytes"
        case "too much":
            sent, code, said = [*whole, piece(bytes(8))], Code.FAILED_PRECONDITION, "M2: more than"
        case "fields":
            request = trustee_pb2.UnlockRequest(transcript=service_pb2.Transcript(survivors=[1] * 300_000))
            sent = [trustee_pb2.UnlockPiece(request=request).SerializeToString()]
            code, said = Code.FAILED_PRECONDITION, "fields"
        case _:
            sent, code, said = [head(played, length=2**40)], Code.FAILED_PRECONDITION, "K3"

    async def story() -> None:
        office = Office(tmp_path)
        office.offer(played)
        async with serving(office) as port:
            status, sentence, replies = await raw(port, UNLOCK, *sent)
            assert (status, replies) == (code, [])
            assert said in sentence
            assert office.ledger.every() == ()
            status, _, replies = await raw(port, UNLOCK, *whole)  # the key is still there
            assert status is Code.OK
            assert len(replies) == 2

    asyncio.run(story())


def test_an_offer_of_another_form_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        async with serving(office) as port:
            for sent, code in (
                ([], Code.FAILED_PRECONDITION),
                ([b"\xff"], Code.FAILED_PRECONDITION),
                ([b"\x12\x00" * 5000], Code.FAILED_PRECONDITION),
                ([bytes(17 * KIB * KIB)], Code.RESOURCE_EXHAUSTED),
                ([offer_request(played, 2)], Code.FAILED_PRECONDITION),
            ):
                assert (await raw(port, OFFER, *sent))[0] is code
        assert office.drawn == 0

    asyncio.run(story())


def test_health_is_answered_and_nothing_else_is_known(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(Office(tmp_path)) as port:
            request = health_pb2.HealthCheckRequest(service=SERVICE).SerializeToString()
            status, _, (reply,) = await raw(port, f"/{HEALTH}/Check", request)
            assert status is Code.OK
            held = health_pb2.HealthCheckResponse.FromString(reply)
            assert held.status == health_pb2.HealthCheckResponse.SERVING
            for path in (
                f"/{HEALTH}/Watch",
                f"/{SERVICE}/Other",
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            ):
                assert (await raw(port, path, request))[0] is Code.UNIMPLEMENTED

    asyncio.run(story())


def test_a_fault_of_ours_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        office = Office(tmp_path)

        def broken(*_: object) -> Packet:
            raise ZeroDivisionError("a secret of this machine")

        monkeypatch.setattr(office.desk, "offer", broken)
        async with serving(office) as port:
            answer = await raw(port, OFFER, offer_request(round_of()))
            assert answer == (Code.INTERNAL, FAILED, [])

    asyncio.run(story())


class Lying(Desk):
    """A trustee that does as it should, and then says something else."""

    def __init__(self, office: Office, lie: str) -> None:
        super().__init__(
            office.name,
            office.key,
            lambda: office.roll,
            office.ring,
            office.ledger,
            office.numbers,
            office.draw,
        )
        self.lie = lie
        self.signer = Signer(roster().identities[TRUSTEE], office.key)

    def offer(self, signed: SignedStudy, envelope: Envelope) -> Packet:
        held = super().offer(signed, envelope)
        if self.lie == "context":
            key = held.attachments[0]
            return replace(held, envelope=self.signer.sign(bytes(32), offer_of(STANDARD, key)))
        return replace(held, attachments=(DecryptionKey.draw(STANDARD).public,))

    def unlock(self, permitted: Permitted, words: Vector) -> Answer:
        held = super().unlock(permitted, words)
        context, statement = permitted.proven.context, permitted.proven.statement
        said = Unlocked(statement, words_digest(words), words_digest(held.words))
        match self.lie:
            case "unsigned words":
                return replace(held, words=held.words + np.uint64(1))
            case "short":
                return replace(held, words=held.words[:-1])
            case "another sum":
                said = replace(said, ciphertext_digest=bytes(32))
            case "another set":
                said = replace(said, statement=bytes(32))
            case "another attempt":
                context = bytes(32)
            case _:
                beyond = held.words + np.uint64(STANDARD.modulus)
                said = replace(said, masked_digest=words_digest(beyond))
                held = replace(held, words=beyond)
        return replace(held, envelope=self.signer.sign(context, said))


@pytest.mark.parametrize(("lie", "check"), [("context", "M3"), ("key", "K0")])
def test_a_coordinator_does_not_believe_a_false_offer(tmp_path: Path, lie: str, check: str) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        async with serving(office, Lying(office, lie)) as port:
            with pytest.raises(RemoteProtocolError, match=f"^{check}"):
                await client(port).offer(played.by_statistician, played.opening, WAIT_S)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lie", "check"),
    [
        ("unsigned words", "K3"),
        ("short", "K3"),
        ("another sum", "K3"),
        ("another set", "K3"),
        ("another attempt", "M3"),
        ("no residues", "K3"),
    ],
)
def test_a_coordinator_does_not_believe_a_false_sum(tmp_path: Path, lie: str, check: str) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        office.offer(played)
        async with serving(office, Lying(office, lie)) as port:
            with pytest.raises(RemoteProtocolError, match=f"^{check}"):
                await client(port).unlock(
                    played.by_statistician, played.request, played.ciphertexts(), played.length, WAIT_S
                )

    asyncio.run(story())


def test_a_trustee_that_is_away_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        office, played = Office(tmp_path), round_of()
        async with serving(office) as port:
            pass
        asked = (played.by_statistician, played.opening)
        with pytest.raises(LineError, match=r"does not answer; check `trustee` in coordinator\.yaml"):
            await client(port).offer(*asked, 0.3)
        waiting = asyncio.create_task(client(port).offer(*asked, 60.0))
        await asyncio.sleep(0.3)
        async with serving(office, listen=f"127.0.0.1:{port}"):
            assert await waiting == office.offer(played)

    asyncio.run(story())


def test_a_coordinator_with_another_key_is_not_answered(tmp_path: Path) -> None:
    async def story() -> None:
        played = round_of()
        asked = (played.by_statistician, played.opening)
        async with serving(Office(tmp_path)) as port:
            with pytest.raises(LineError):
                await client(port, "stolen").offer(*asked, 0.3)

    asyncio.run(story())
