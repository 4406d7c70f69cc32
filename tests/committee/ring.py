"""Workers of one committee in one event loop, joined by plain queues: the engine without sealing and without a coordinator."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.shamir import split
from cohortsum.node.committee.process import COMMAND, Worker, worker
from cohortsum.protocol.committee import Answer, CommitteePlan, Program
from cohortsum.protocol.committee.plain import answers_from_bytes

Meddle = Callable[[int, int, bytes], list[bytes]]
"""(sender, receiver, message) to what arrives instead."""


@dataclass
class Tape:
    """What was said: the shares that members started from, and every message with sender and receiver."""

    shares: list[list[int]] = field(default_factory=list[list[int]])
    messages: list[tuple[int, int, bytes]] = field(default_factory=list[tuple[int, int, bytes]])
    locks: list[frozenset[str]] = field(default_factory=list[frozenset[str]])


def plan_of(members: int, *programs: Program, sites: int = 4) -> CommitteePlan:
    return CommitteePlan(tuple(range(members)), tuple(range(sites)), (members - 1) // 2, programs, honest=1)


def dealt(plan: CommitteePlan, vectors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return every member's shares of the sums over sites, added member by member."""
    points = range(1, len(plan.members) + 1)
    sums = [[0] * plan.length for _ in plan.members]
    for vector in vectors:
        plan.check_values(vector)
        for place, value in enumerate(vector):
            coefficients = [COMMITTEE.draw(secrets.token_bytes) for _ in range(plan.degree)]
            for point, share in split(value, coefficients, points, COMMITTEE.prime).items():
                sums[point - 1][place] = (sums[point - 1][place] + share) % COMMITTEE.prime
    return sums


async def computed(
    plan: CommitteePlan,
    vectors: Sequence[Sequence[int]],
    tape: Tape | None = None,
    meddle: Meddle | None = None,
    command: Sequence[str] = COMMAND,
) -> list[tuple[Answer, ...]]:
    """Return what every member answers; the first error of a member ends the run."""
    tape = tape or Tape()
    tape.shares = dealt(plan, vectors)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(worker(command)) for _ in plan.members]
        members = list(enumerate(zip(workers, tape.shares, strict=True)))
        for number, (one, shares) in members:
            await one.begin(plan, number, shares)

        arrived = [asyncio.Queue[tuple[int, bytes]]() for _ in workers]

        async def handed(number: int, one: Worker) -> None:
            """Hand over what arrives, beside the reading: two workers whose pipes are full would wait for each other."""
            while True:
                await one.hand(*await arrived[number].get())

        async def served(number: int, one: Worker) -> bytes:
            async for message in one.messages():
                if isinstance(message, bytes):
                    return message
                peer, body = message
                tape.messages.append((number, peer, body))
                for arriving in [body] if meddle is None else meddle(number, peer, body):
                    arrived[peer].put_nowait((number, arriving))
            raise AssertionError("the messages end with an answer or an error")

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(served(number, one)) for number, (one, _) in members]
            handing = [group.create_task(handed(number, one)) for number, (one, _) in members]
            await asyncio.wait(tasks)
            for hands in handing:
                hands.cancel()
        tape.locks = [one.locks for one in workers]
        return [answers_from_bytes(plan, task.result()) for task in tasks]
