"""Runs over real gRPC: dealers and members that only call out, frames through the coordinator, workers that are processes."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from cohortsum.coordinator.committee_desk import CommitteeDesk, CommitteePace
from cohortsum.crypto.errors import RemoteProtocolError, RoundFailedError, StoreError
from cohortsum.node.client import secure_channel
from cohortsum.node.committee import process
from cohortsum.node.committee.bindings import MOST_BEGUN, Bindings
from cohortsum.node.committee.process import Worker
from cohortsum.protocol.committee import (
    CommitteePlan,
    OrderStatistics,
    outcome_digest,
    percentile,
)
from cohortsum.protocol.committee.checks import agreed_answers
from cohortsum.protocol.committee.codec import encode, packet_to_wire, sealed_to_wire
from cohortsum.protocol.committee.messages import End, Packet, Sealed, sign
from cohortsum.wire.v1 import committee_pb2, committee_pb2_grpc
from tests.committee.town import CommitteeTown
from tests.committee.vectors import MEMBERS, SHOWN, counting, counts
from tests.edges.harness import HUB, LIMIT_S
from tests.protocol.consortium import identity_key


def run(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await play()

    asyncio.run(limited())


def test_a_run_over_grpc_opens_what_may_be_seen_at_every_site(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts) as town:
            for index in range(5):
                town.join(index)
            plan = counting()
            opened = await town.compute(plan)
            assert opened.answers == SHOWN
            await town.everybody_heard()
            for heard in town.heard.values():
                assert heard[0].answers == SHOWN
                context = heard[0].results[0].context
                assert agreed_answers(plan, context, town.roster, heard[0].results) == SHOWN
            for index in MEMBERS:
                assert town.bindings(index).of(town.study.digest, 1) == (0, 1, 2, 3, 4)
            assert town.bindings(1).of(town.study.digest, 1) is None

    run(play)


def test_a_median_in_two_stages_over_grpc_is_numpys(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    values = [[int(value) for value in generator.integers(0, 1000, 20 + index)] for index in range(5)]
    pooled = [value for site in values for value in site]
    place = percentile(len(pooled), 50)

    def vector(index: int, plan: CommitteePlan) -> Sequence[int]:
        (program,) = plan.programs
        assert isinstance(program, OrderStatistics)
        return [sum(low <= value < high for value in values[index]) for low, high in program.intervals]

    async def play() -> None:
        async with CommitteeTown(tmp_path, vector) as town:
            for index in range(5):
                town.join(index)
            program = OrderStatistics(
                "x", 1000, len(pooled), tuple(sorted({place.lower, place.upper})), width=40
            )
            stages, earlier = 0, b""
            found = None
            following: OrderStatistics | None = program
            while following is not None:
                stages += 1
                plan = CommitteePlan(MEMBERS, tuple(range(5)), 1, (following,), stages, earlier)
                opened = await town.compute(plan)
                found = following.found(opened.answers[0])
                assert found is not None
                following, earlier = following.narrowed(found), outcome_digest(opened.results)
            assert stages == 2
            assert found is not None
            assert place.between(found[0][0], found[-1][0]) == np.median(pooled)

    run(play)


def test_a_member_that_vanishes_ends_the_run_for_all_and_a_retry_succeeds(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts, pace=CommitteePace(20.0, 20.0, attempts=1)) as town:
            for index in range(5):
                town.join(index)
            first = asyncio.create_task(town.compute(counting()))
            while town.bindings(2).of(town.study.digest, 1) is None:  # it is about to compute
                await asyncio.sleep(0.005)
            await town.vanish(2)
            town.join(2)
            with pytest.raises(RoundFailedError, match="started anew"):
                await first
            assert (await town.compute(counting())).answers == SHOWN
            await town.everybody_heard()

    run(play)


def test_a_member_that_stays_away_ends_the_run_in_time_and_is_named(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts, pace=CommitteePace(20.0, 1.0, attempts=1)) as town:
            for index in range(5):
                town.join(index)
            first = asyncio.create_task(town.compute(counting()))
            while town.bindings(2).of(town.study.digest, 1) is None:
                await asyncio.sleep(0.005)
            await town.vanish(2)
            with pytest.raises(RoundFailedError, match=r"no result of .*site2"):
                await first
            town.join(2)
            town.desk.pace = CommitteePace(20.0, 20.0)
            assert (await town.compute(counting())).answers == SHOWN

    run(play)


def test_a_worker_that_is_killed_ends_the_run_with_a_reason_and_the_next_attempt_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []
    honest = Worker.begin

    async def killing(self: Worker, *job: Any) -> None:
        started.append(self)
        await honest(self, *job)
        if len(started) == 1:
            self.process.kill()

    monkeypatch.setattr(Worker, "begin", killing)

    async def play() -> None:
        async with CommitteeTown(tmp_path, counts, pace=CommitteePace(20.0, 20.0, attempts=2)) as town:
            for index in range(5):
                town.join(index)
            assert (await town.compute(counting())).answers == SHOWN
            assert len(started) > 3  # three members, and again

    run(play)


async def member_process(town: CommitteeTown, index: int) -> asyncio.subprocess.Process:
    """Start the node of a site as a process of its own, and return once it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.committee.member_process", str(town.port), str(town.folder), "5", str(index)),
        cwd=Path(__file__).resolve().parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.faults
def test_a_member_process_that_is_killed_ends_the_run_and_when_it_is_back_a_retry_succeeds(
    tmp_path: Path,
) -> None:
    """SIGKILL, as a machine that goes away: no word leaves, and its worker ends with it."""

    async def play() -> None:
        async with CommitteeTown(tmp_path, counts, pace=CommitteePace(20.0, 20.0, attempts=1)) as town:
            for index in (0, 1, 3, 4):
                town.join(index)
            killed = await member_process(town, 2)
            first = asyncio.create_task(town.compute(counting()))
            while town.bindings(2).of(town.study.digest, 1) is None:
                await asyncio.sleep(0.005)
            killed.kill()
            await killed.wait()
            again = await member_process(town, 2)
            try:
                with pytest.raises(RoundFailedError, match=r"site2.*started anew"):
                    await first
                assert (await town.compute(counting())).answers == SHOWN
                while any(not town.heard[index] for index in (0, 1, 3, 4)):
                    await asyncio.sleep(0.01)
            finally:
                again.kill()
                await again.wait()

    run(play)


def test_a_coordinator_that_starts_anew_opens_another_run(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts) as town:
            for index in range(5):
                town.join(index)
            first = asyncio.create_task(town.compute(counting()))
            while town.bindings(2).of(town.study.digest, 1) is None:
                await asyncio.sleep(0.005)
            await town.stop_server()
            first.cancel()
            await asyncio.wait([first])
            town.desk = CommitteeDesk(identity_key(HUB), CommitteePace(20.0, 20.0))
            await town.start_server()
            assert (await town.compute(counting())).answers == SHOWN
            await town.everybody_heard()

    run(play)


def test_a_node_without_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: list[str] = []

    def find_spec(name: str) -> object | None:
        return None if name in missing else object()

    monkeypatch.setattr(process, "find_spec", find_spec)

    async def start() -> None:
        async with process.worker():
            raise AssertionError("no worker starts")

    for name, sentence in (("mpyc", r"cohortsum\[committee\]"), ("resource", "Linux or macOS")):
        missing[:] = [name]
        with pytest.raises(RoundFailedError, match=sentence):
            asyncio.run(start())


def test_members_that_began_compute_again_on_the_same_dealers_only(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts, pace=CommitteePace(20.0, 20.0, attempts=1)) as town:
            for index in range(5):
                town.join(index)
            await town.compute(counting())
            with pytest.raises(RoundFailedError, match="C9"):
                await town.compute(counting(dealers=(0, 1, 2, 3)))
            assert (await town.compute(counting())).answers == SHOWN

    run(play)


def test_a_site_hands_in_its_own_messages_and_frames_only(tmp_path: Path) -> None:
    async def play() -> None:
        async with CommitteeTown(tmp_path, counts) as town:
            for index in (0, 1, 2, 3):
                town.join(index)  # site 4 is played here, and stays silent: the run stands still
            computing = asyncio.create_task(town.compute(counting()))
            async with secure_channel(town.line, town.sites[4].signer, town.roster) as channel:
                stub: committee_pb2_grpc.CommitteeAsyncStub = committee_pb2_grpc.CommitteeStub(channel)
                request = committee_pb2.CommitteeNextRequest(study=town.study.digest, after=0, wait_ms=20_000)
                opening = (await stub.CommitteeNext(request)).items[0].packet.signed
                kind, payload = encode(End("nothing"))
                foreign = packet_to_wire(Packet(sign(town.sites[1].signer, opening.context, kind, payload)))
                frame = sealed_to_wire(Sealed(opening.context, 2, 0, 0, bytes(40)))
                for wrong, check in (
                    (committee_pb2.CommitteeSendRequest(packets=[foreign]), "C1"),
                    (committee_pb2.CommitteeSendRequest(frames=[frame]), "C7"),
                    (committee_pb2.CommitteeSendRequest(frames=[committee_pb2.CommitteeFrame()]), "C2"),
                ):
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await stub.CommitteeSend(wrong)
                    assert check in (caught.value.details() or "")
            computing.cancel()
            await asyncio.wait([computing])

    run(play)


def test_the_record_of_a_member_is_for_good(tmp_path: Path) -> None:
    held = Bindings(tmp_path)
    for _ in range(MOST_BEGUN):
        held.bind(b"study", 1, (0, 1))
    held.bind(b"study", 2, (0, 2))
    with pytest.raises(RemoteProtocolError, match="other sites"):
        held.bind(b"study", 2, (0, 3))
    with pytest.raises(RemoteProtocolError, match="times"):
        held.bind(b"study", 1, (0, 1))
    assert Bindings(tmp_path).of(b"study", 1) == (0, 1)
    assert held.of(b"other", 1) is None
    for damaged in (b"{", b"[]", b'{"a": ["x"]}', b'{"a": {"dealers": ["x"], "times": 1}}'):
        (tmp_path / "committee.json").write_bytes(damaged)
        with pytest.raises(StoreError):
            held.of(b"study", 1)
