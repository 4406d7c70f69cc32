"""Large packets leave one after the other, in order, and nobody who does not read holds them up for ever."""

import asyncio
from collections.abc import Callable

import pytest

from cohortsum.coordinator import outlet
from cohortsum.coordinator.outlet import SMALL_BYTES, Outlet
from cohortsum.protocol.messages import Envelope, Kind, Packet

SIZE = 2 * SMALL_BYTES


class Call:
    """A call that ends when it is told to."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[..., None]] = []

    def add_done_callback(self, callback: Callable[..., None], /) -> None:
        self.callbacks.append(callback)

    def end(self) -> None:
        for callback in self.callbacks:
            callback(self)


def packet(size: int = SIZE) -> Packet:
    half = size // 2
    return Packet(Envelope(bytes(32), Kind.DELIVERY, "hub", bytes(half), bytes(64)), (bytes(size - half),))


async def settled(tasks: list[asyncio.Task[None]]) -> list[bool]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


def entering(out: Outlet, calls: list[Call], size: int = SIZE) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(out.enter(packet(size), call)) for call in calls]


def test_two_have_room_and_the_others_follow_in_their_order() -> None:
    async def story() -> None:
        calls = [Call() for _ in range(5)]
        tasks = entering(Outlet(2 * SIZE), calls)
        assert await settled(tasks) == [True, True, False, False, False]
        calls[1].end()
        assert await settled(tasks) == [True, True, True, False, False]
        calls[1].end()  # told twice, it gives its room back once
        assert await settled(tasks) == [True, True, True, False, False]
        calls[0].end()
        calls[2].end()
        assert await settled(tasks) == [True] * 5

    asyncio.run(story())


def test_small_packets_never_wait_and_one_above_the_bound_goes_alone() -> None:
    async def story() -> None:
        out, large, second, small = Outlet(SIZE), Call(), Call(), Call()
        tasks = [*entering(out, [large, second], 3 * SIZE), *entering(out, [small], SMALL_BYTES - 1)]
        assert await settled(tasks) == [True, False, True]
        assert small.callbacks == []
        large.end()
        assert await settled(tasks) == [True, True, True]

    asyncio.run(story())


def test_who_gives_up_waiting_holds_nothing() -> None:
    async def story() -> None:
        out, calls = Outlet(SIZE), [Call() for _ in range(3)]
        tasks = entering(out, calls)
        assert await settled(tasks) == [True, False, False]
        tasks[1].cancel()
        calls[0].end()
        assert await settled(tasks) == [True, True, True]
        calls[2].end()
        last = entering(out, [Call()])
        assert await settled(last) == [True]

    asyncio.run(story())


def test_who_gives_up_in_the_moment_of_its_turn_gives_it_on() -> None:
    async def story() -> None:
        out, calls = Outlet(SIZE), [Call() for _ in range(3)]
        tasks = entering(out, calls)
        assert await settled(tasks) == [True, False, False]
        calls[0].end()  # the second has its turn, and has not noticed
        tasks[1].cancel()
        assert await settled(tasks) == [True, True, True]
        assert tasks[1].cancelled()
        assert not tasks[2].cancelled()

    asyncio.run(story())


def test_a_site_that_does_not_read_loses_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "SLOW_S", 0.01)

    async def story() -> None:
        out, stuck, next_one = Outlet(SIZE), Call(), Call()
        async with asyncio.timeout(10):
            await out.enter(packet(), stuck)
            await out.enter(packet(), next_one)
        stuck.end()  # much later, and to no effect
        third = entering(out, [Call()])
        async with asyncio.timeout(10):
            await third[0]

    asyncio.run(story())
