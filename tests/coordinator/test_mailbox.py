"""Packets that wait for one site: in order, once each by number, and afterwards only how the round ended."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cohortsum.coordinator.mailbox import ENDING, Mailbox
from cohortsum.protocol.messages import Envelope, Kind, Packet

LIMIT_S = 5.0
AWAKE = datetime(2026, 12, 1, tzinfo=UTC)


def packet(kind: Kind) -> Packet:
    return Packet(Envelope(bytes(32), kind, "hub", b"", bytes(64)))


def never() -> bool:
    return False


def test_packets_come_in_order_and_again_for_who_asks_again() -> None:
    async def play() -> None:
        box = Mailbox()
        kinds = (Kind.OPENING, Kind.ADVERTS, Kind.DELIVERY)
        for kind in kinds:
            box.put(packet(kind))
        number, seen = 0, list[Kind]()
        for _ in kinds:
            again = await box.next(number, LIMIT_S, never)
            number, held = await box.next(number, LIMIT_S, never)
            assert held is not None
            assert again == (number, held)
            seen.append(held.envelope.kind)
        assert tuple(seen) == kinds
        assert await box.next(number, 0.01, never) == (0, None)

    asyncio.run(play())


def test_who_waits_gets_what_comes() -> None:
    async def play() -> None:
        box = Mailbox()
        waiting = asyncio.create_task(box.next(0, LIMIT_S, never))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        box.put(packet(Kind.OPENING))
        async with asyncio.timeout(1):
            number, held = await waiting
        assert (number, held) == (box.last, packet(Kind.OPENING))

    asyncio.run(play())


def test_who_waits_for_a_study_that_ends_is_sent_away_at_once() -> None:
    async def play() -> None:
        box, over = Mailbox(), list[bool]()
        waiting = asyncio.create_task(box.next(0, 60, lambda: bool(over)))
        await asyncio.sleep(0.01)
        over.append(True)
        box.arrived.set()
        async with asyncio.timeout(1):
            assert await waiting == (0, None)

    asyncio.run(play())


def test_what_is_there_is_handed_out_although_the_study_is_over() -> None:
    async def play() -> None:
        box = Mailbox()
        box.put(packet(Kind.CLOSING))
        assert await box.next(0, LIMIT_S, lambda: True) == (box.last, packet(Kind.CLOSING))

    asyncio.run(play())


def test_only_how_a_round_ended_is_kept_under_the_same_numbers() -> None:
    box = Mailbox()
    for kind in Kind:
        box.put(packet(kind))
    before = dict(box.packets)
    box.keep_ending(packet(Kind.CLOSING).envelope.context)
    assert {held.envelope.kind for held in box.packets.values()} == ENDING
    assert Kind.GATE_OPENING not in ENDING  # it holds opened seeds
    assert box.packets.items() <= before.items()
    box.put(packet(Kind.OPENING))
    assert max(box.packets) == max(before) + 1


def test_opened_inputs_of_earlier_iterations_are_forgotten() -> None:
    box = Mailbox()
    closing = packet(Kind.CLOSING)
    for context in (bytes(32), b"\1" * 32):
        box.put(Packet(replace(closing.envelope, context=context), (b"words",)))
    box.put(closing)
    box.keep_ending(b"\1" * 32)
    kept = [(held.envelope.context[:1], held.attachments) for held in box.packets.values()]
    assert kept == [(b"\1", (b"words",)), (closing.envelope.context[:1], ())]


def test_a_restarted_coordinator_does_not_give_a_number_again(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = AWAKE
    monkeypatch.setattr("cohortsum.coordinator.mailbox.now", lambda: moment)
    first = Mailbox()
    for _ in range(500):
        first.put(packet(Kind.OPENING))
    moment += timedelta(seconds=1)
    again = Mailbox()
    again.put(packet(Kind.OPENING))
    assert again.last > first.last
    assert again.after(first.last) == again.last
