"""What a site may ask back: its own masked inputs, and the signed messages of rounds in which it sent one. Nobody else may."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from sqlalchemy import select

from cohortsum.coordinator.store import MessageRow, RoundRow
from cohortsum.coordinator.trail import study_of_round
from cohortsum.crypto.errors import RefusedError
from cohortsum.protocol.messages import Envelope, Kind
from cohortsum.protocol.proof import ProvenRound, Transcript, read_transcript
from cohortsum.study.planning import plan_study
from cohortsum.wire.v1 import service_pb2, service_pb2_grpc
from tests.edges.harness import HUB, STATISTICIAN, Loopback, study_with
from tests.edges.test_tls import credentials, own

SITES, GONE = 5, 4
SURVIVORS = (0, 1, 2, 3)
Answer = tuple[grpc.StatusCode, str]


@dataclass
class Asked:
    """One round that site 4 left before its masked input, and what everybody gets who asks about it."""

    context: bytes
    transcripts: dict[str, Transcript]
    trails: dict[str, tuple[Envelope, ...]]
    proven: dict[int, ProvenRound]
    refusals: dict[str, str]
    over_the_wire: dict[str, Answer]
    kept: list[tuple[str, str, bool]]


def refusal(town: Loopback, context: bytes, site: str) -> str:
    with pytest.raises(RefusedError) as caught:
        town.hub.transcript(context, site)
    return caught.value.message


async def answered(call: Awaitable[object]) -> Answer:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


async def wire_answers(town: Loopback, context: bytes) -> dict[str, Answer]:
    request = service_pb2.GetTranscriptRequest(context=context)
    answers: dict[str, Answer] = {}
    options = [("grpc.ssl_target_name_override", HUB)]
    for name in ("site0", f"site{GONE}", STATISTICIAN):
        held = credentials(own(name))
        async with grpc.aio.secure_channel(town.line.target, held, options=options) as channel:
            stub: service_pb2_grpc.ConsortiumAsyncStub = service_pb2_grpc.ConsortiumStub(channel)
            answers[f"{name} transcript"] = await answered(stub.GetTranscript(request, timeout=10))
            trail = service_pb2.GetTrailRequest()
            answers[f"{name} trail"] = await answered(stub.GetTrail(trail, timeout=10))
    return answers


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    async def play() -> Asked:
        folder = tmp_path_factory.mktemp("trail")
        async with Loopback(folder, SITES, study_with(step="2s")) as town:
            town.leave_after(f"site{GONE}", "SHARES")
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason
            with town.store.transaction() as session:
                (context,) = map(bytes.fromhex, session.scalars(select(RoundRow.context)))
                kept = [
                    (row.kind, row.sender, bool(row.packet)) for row in session.scalars(select(MessageRow))
                ]
            names = [f"site{index}" for index in SURVIVORS]
            transcripts = {name: town.hub.transcript(context, name) for name in names}
            plan = plan_study(town.study, town.roster).round
            return Asked(
                context,
                transcripts,
                {name: town.hub.trail(name) for name in (*names, f"site{GONE}", "stranger")},
                {
                    index: read_transcript(transcripts[f"site{index}"], index, plan, town.roster)
                    for index in SURVIVORS
                },
                {
                    name: refusal(town, context, name)
                    for name in (f"site{GONE}", "stranger", STATISTICIAN, HUB)
                }
                | {"another round": refusal(town, bytes(32), "site0")},
                await wire_answers(town, context),
                kept,
            )

    return asyncio.run(play())


def test_a_trail_is_the_site_s_own_masked_inputs_and_nothing_else(asked: Asked) -> None:
    for index in SURVIVORS:
        (envelope,) = asked.trails[f"site{index}"]
        assert (envelope.sender, envelope.kind) == (f"site{index}", Kind.MASKED)
        assert envelope.context == asked.context
    assert asked.trails[f"site{GONE}"] == asked.trails["stranger"] == ()


def test_a_transcript_proves_the_round_to_every_site_that_sent_a_masked_input(asked: Asked) -> None:
    for index, proven in asked.proven.items():
        assert proven.survivors == SURVIVORS
        assert proven.signed
        assert proven.masked == asked.trails[f"site{index}"][0].digest
    assert len(asked.transcripts) == len(SURVIVORS)
    assert len(set(asked.transcripts.values())) == 1


def test_who_sent_no_masked_input_in_a_round_is_refused_its_transcript(asked: Asked) -> None:
    sentence = "this site sent no masked input in that round"
    for name in (f"site{GONE}", "stranger", STATISTICIAN, HUB):
        assert asked.refusals[name] == sentence


def test_a_round_that_is_not_here_is_refused(asked: Asked) -> None:
    assert asked.refusals["another round"] == "no such round at this coordinator"


def test_the_edge_answers_sites_about_themselves_and_nobody_else(asked: Asked) -> None:
    nobody = (grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster")
    fine = (grpc.StatusCode.OK, "")
    assert asked.over_the_wire == {
        "site0 transcript": fine,
        "site0 trail": fine,
        f"site{GONE} transcript": (
            grpc.StatusCode.FAILED_PRECONDITION,
            "this site sent no masked input in that round",
        ),
        f"site{GONE} trail": fine,
        f"{STATISTICIAN} transcript": nobody,
        f"{STATISTICIAN} trail": nobody,
    }


def test_a_message_that_holds_shares_is_kept_as_a_digest_only(asked: Asked) -> None:
    proving = {"ADVERT", "SHARES", "MASKED", "CONSISTENCY"}
    assert {kind for kind, _, whole in asked.kept if whole} == proving
    assert {"GATE_SHARES", "DATA_SHARES"} <= {kind for kind, _, whole in asked.kept if not whole}
    assert not {kind for kind, _, whole in asked.kept if not whole} & proving


def test_the_study_of_a_round_that_is_not_here_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 3) as town:
            with pytest.raises(RefusedError, match="no such round"):
                study_of_round(town.store, bytes(32))

    asyncio.run(play())
