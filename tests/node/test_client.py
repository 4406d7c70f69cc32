"""When a node speaks, and how it waits: the public grid of answers, and pauses that grow until patience ends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import CohortsumError, LineError, RoundFailedError
from cohortsum.node import client
from cohortsum.node.client import (
    BROKE_OFF,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Caller,
    Connection,
    Line,
    NodeClient,
    until_tick,
)
from cohortsum.node.session import StudySession
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.limits import RETRY_AFTER
from cohortsum.protocol.roster import Roster
from cohortsum.wire.v1 import service_pb2_grpc

CLOCK_STEP_S = 1e-6
"""What a clock of 2**31 seconds resolves in float64, with room."""

contexts = st.binary(min_size=32, max_size=32)
ticks = st.floats(0.001, 3600)
clocks = st.floats(1.7e9, 2.1e9)


@given(context=contexts, now_s=clocks, tick_s=ticks)
def test_an_answer_waits_for_less_than_a_tick(context: bytes, now_s: float, tick_s: float) -> None:
    assert 0 <= until_tick(context, "amc", now_s, tick_s) <= tick_s


@given(context=contexts, first_s=clocks, second_s=clocks, tick_s=ticks)
def test_all_answers_of_one_site_and_round_leave_on_one_grid(
    context: bytes, first_s: float, second_s: float, tick_s: float
) -> None:
    leave = [now_s + until_tick(context, "amc", now_s, tick_s) for now_s in (first_s, second_s)]
    apart = (leave[1] - leave[0]) % tick_s
    assert min(apart, tick_s - apart) <= CLOCK_STEP_S


@given(context=contexts, now_s=clocks, late_s=st.floats(0, 0.999))
def test_the_moment_of_an_answer_says_only_which_tick_it_was_ready_for(
    context: bytes, now_s: float, late_s: float
) -> None:
    ready_s = now_s + until_tick(context, "amc", now_s, 1.0)  # the end of one tick is the start of the next
    late = ready_s + CLOCK_STEP_S + late_s * (1 - 3 * CLOCK_STEP_S)
    assert late + until_tick(context, "amc", late, 1.0) == pytest.approx(ready_s + 1, abs=3 * CLOCK_STEP_S)


def test_phases_differ_between_sites_and_rounds_and_fill_the_tick() -> None:
    phases = [
        until_tick(bytes([index]) * 32, f"site{place}", 0.0, 1.0)
        for index in range(20)
        for place in range(20)
    ]
    assert len(set(phases)) == 400
    counts = [sum(low <= phase < low + 0.25 for phase in phases) for low in (0, 0.25, 0.5, 0.75)]
    assert min(counts) > 60  # 100 are expected


class Failing(grpc.aio.AioRpcError):
    """A call that ended with a status."""

    def __init__(self, code: grpc.StatusCode, hints: Sequence[tuple[str, str]], details: str) -> None:
        super().__init__(code, grpc.aio.Metadata(), grpc.aio.Metadata(*hints), details=details)


@dataclass
class FakeChannel:
    """A channel whose calls end with one status, ``times`` in a row, and then succeed."""

    code: grpc.StatusCode
    times: int
    calls: int = 0
    hints: Sequence[tuple[str, str]] = ()
    details: str = "a sentence"

    def unary_unary(self, _method: str, **_: object) -> Callable[..., Awaitable[object]]:
        async def call(_request: object, **_options: object) -> object:
            self.calls += 1
            if self.calls <= self.times:
                raise Failing(self.code, self.hints, self.details)
            raise Reached

        return call

    stream_unary = unary_unary
    unary_stream = unary_unary


class Reached(Exception):  # noqa: N818  not an error: the call went through
    """The call went through."""


@dataclass
class Waits:
    """Stands in for asyncio in the client: notes pauses and returns at once."""

    pauses: list[float] = field(default_factory=list[float])

    async def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    held = Waits()
    monkeypatch.setattr(client, "asyncio", SimpleNamespace(sleep=held.sleep, to_thread=asyncio.to_thread))
    return held


def run(
    code: grpc.StatusCode,
    times: int,
    patience_s: float,
    hints: Sequence[tuple[str, str]] = (),
    details: str = "a sentence",
) -> FakeChannel:
    channel = FakeChannel(code, times, hints=hints, details=details)
    stub = service_pb2_grpc.ConsortiumStub(cast("grpc.aio.Channel", channel))
    line = Line("hub.example:443", patience_s)
    connection = cast(
        "Connection", SimpleNamespace(stub=lambda: stub, target=line.target, turn=lambda _failed: None)
    )
    caller = Caller(connection, line, "amc")
    node = NodeClient(caller, cast("StudySession", None), "amc")  # the first call already fails
    asyncio.run(node.follow(bytes(32)))
    return channel


def test_calls_that_fail_together_go_on_to_the_next_address_once() -> None:
    line = Line("a.example:1", 1.0, ("b.example:2", "c.example:3"))
    connection = Connection(line, cast("Signer", None), cast("Roster", None))
    for _ in range(2):  # two calls were under way on the same line
        connection.turn("a.example:1")
    assert connection.target == "b.example:2"
    connection.turn("b.example:2")
    connection.turn("c.example:3")
    assert connection.target == "a.example:1"


def test_a_single_address_is_tried_again() -> None:
    connection = Connection(Line("a.example:1", 1.0), cast("Signer", None), cast("Roster", None))
    connection.turn("a.example:1")
    assert connection.target == "a.example:1"


DOWN = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED]


@pytest.mark.parametrize("code", DOWN)
def test_pauses_double_up_to_the_longest_with_some_chance_in_each(
    waits: Waits, code: grpc.StatusCode
) -> None:
    with pytest.raises(LineError):
        run(code, 10**6, 100.0)
    expected = [min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S) for number in range(len(waits.pauses))]
    assert len(waits.pauses) > 8
    for pause_s, least_s in zip(waits.pauses, expected, strict=True):
        assert least_s <= pause_s < 1.5 * least_s
    assert len({pause_s / least_s for pause_s, least_s in zip(waits.pauses, expected, strict=True)}) > 1


def test_a_node_gives_up_once_its_patience_is_used_up_and_says_what_to_check(waits: Waits) -> None:
    with pytest.raises(LineError, match=r"hub\.example:443 does not answer; check address"):
        run(grpc.StatusCode.UNAVAILABLE, 10**6, 30.0)
    assert sum(waits.pauses) >= 30.0
    assert sum(waits.pauses[:-1]) < 30.0


def test_without_patience_a_node_tries_once(waits: Waits) -> None:
    with pytest.raises(LineError):
        run(grpc.StatusCode.UNAVAILABLE, 10**6, 0.0)
    assert waits.pauses == []


def test_a_line_that_comes_back_is_used_again(waits: Waits) -> None:
    with pytest.raises(Reached):
        run(grpc.StatusCode.UNAVAILABLE, 5, 100.0)
    assert len(waits.pauses) == 5


def test_a_call_that_a_stopping_coordinator_cancels_is_repeated(waits: Waits) -> None:
    with pytest.raises(Reached):
        run(grpc.StatusCode.CANCELLED, 1, 100.0)
    assert len(waits.pauses) == 1


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNIMPLEMENTED,
    ],
)
def test_a_refusal_is_not_repeated_and_is_one_of_our_errors(waits: Waits, code: grpc.StatusCode) -> None:
    with pytest.raises(RoundFailedError, match="a sentence") as caught:
        run(code, 10**6, 100.0)
    assert isinstance(caught.value, CohortsumError)
    assert waits.pauses == []


BUSY = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("said", "least_s"),
    [("4000", 4.0), ("1", FIRST_PAUSE_S), ("999999999", LONGEST_PAUSE_S)],
    ids=["as it says", "no sooner than its own pause", "no later than its longest"],
)
def test_a_node_comes_again_when_a_coordinator_without_room_says_so(
    waits: Waits, said: str, least_s: float
) -> None:
    with pytest.raises(Reached):
        run(BUSY, 1, 100.0, [("another", "1"), (RETRY_AFTER, said)])
    (pause_s,) = waits.pauses
    assert least_s <= pause_s < 1.5 * least_s


def test_a_coordinator_that_never_has_room_uses_up_the_node_s_patience(waits: Waits) -> None:
    with pytest.raises(LineError):
        run(BUSY, 10**6, 60.0, [(RETRY_AFTER, "5000")])
    assert sum(waits.pauses) >= 60.0


@pytest.mark.parametrize(
    "hints",
    [[], [(RETRY_AFTER, "soon")], [(RETRY_AFTER, "-1")], [(RETRY_AFTER, "1" * 10)], [(RETRY_AFTER, "5")] * 2],
    ids=["nothing", "a word", "a sign", "too many digits", "two"],
)
def test_what_is_too_much_for_ever_is_a_refusal(waits: Waits, hints: Sequence[tuple[str, str]]) -> None:
    with pytest.raises(RoundFailedError, match="a sentence"):
        run(BUSY, 10**6, 100.0, hints)
    assert waits.pauses == []


def test_only_a_coordinator_without_room_is_believed_about_time(waits: Waits) -> None:
    with pytest.raises(RoundFailedError):
        run(grpc.StatusCode.PERMISSION_DENIED, 1, 100.0, [(RETRY_AFTER, "5")])


def test_a_refusal_that_grpc_lost_while_it_was_sending_is_asked_for_again(waits: Waits) -> None:
    with pytest.raises(Reached):
        run(grpc.StatusCode.INTERNAL, 2, 100.0, details=BROKE_OFF)
    assert len(waits.pauses) == 2
