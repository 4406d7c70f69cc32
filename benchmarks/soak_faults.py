"""The faults of a soak: a plan drawn from a seed, and what is done to which daemon or line, for how long.

The plan says when, what, whom and for how long, before anything starts. At its moment a fault hits its target, or the next site
that has no fault yet; where nobody is free it is left out. Every fault ends by itself: killed daemons are started again, paused
ones go on, lines are mended, disks are empty again.
"""

import asyncio
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.daemons import HUB, Daemons
from benchmarks.relay import FAULTS

NODE_KILLED, NODE_PAUSED, NODE_STOPPED, NODE_FULL = (
    "node killed",
    "node paused",
    "node restarted",
    "node's disk full",
)
HUB_KILLED, HUB_PAUSED, HUB_STOPPED, HUB_FULL = (
    "coordinator killed",
    "coordinator paused",
    "coordinator restarted",
    "coordinator's disk full",
)
SPLIT = "consortium split"
LINES = tuple(f"line {fault}" for fault in FAULTS)
LIKELY = {
    NODE_KILLED: 22,
    HUB_KILLED: 8,
    NODE_PAUSED: 13,
    HUB_PAUSED: 4,
    NODE_STOPPED: 7,
    HUB_STOPPED: 3,
    NODE_FULL: 6,
    HUB_FULL: 2,
    SPLIT: 3,
    **dict.fromkeys(LINES, 6),
}
"""How often each kind is drawn, relative to the others."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault: seconds from the beginning, its kind, the number of the site that is meant, and how long it lasts."""

    at_s: float
    kind: str
    site: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Done:
    """One fault that happened, with the seconds at which it began and ended, and who had it."""

    at_s: float
    until_s: float
    kind: str
    whom: tuple[str, ...]


def plan(seed: int, sites: int, minutes: float, per_minute: float) -> list[Planned]:
    """Return the faults of a soak in their order, the first ones some seconds after the beginning."""
    draw = random.Random(f"faults/{seed}/{sites}")  # noqa: S311  decides what goes wrong when
    kinds, weights = list(LIKELY), list(LIKELY.values())
    planned: list[Planned] = []
    at_s = 3.0
    while (at_s := at_s + draw.expovariate(per_minute / 60)) < 60 * minutes:
        kind = draw.choices(kinds, weights)[0]
        planned.append(Planned(at_s, kind, draw.randrange(sites), draw.uniform(0.2, 7.0)))
    return planned


class Saboteur:
    """Carries a plan out.

    Args:
        daemons: whom it is about.
        restarted: told when a coordinator begins anew.

    Attributes:
        done: what happened, in the order of the ends.
        busy: daemons that have a fault now.
        since: when the plan began, in seconds of the time of day.
    """

    def __init__(self, daemons: Daemons, restarted: Callable[[], None]) -> None:
        self.done: list[Done] = []
        self.busy: set[str] = set()
        self._daemons, self._restarted = daemons, restarted
        self.since = time.time()
        self._began = time.monotonic()

    async def carry_out(self, planned: list[Planned], minutes: float) -> None:
        """Do everything at its moment, and return when the time is over and the last fault has ended."""
        self.since, self._began = time.time(), time.monotonic()
        async with asyncio.TaskGroup() as faults:
            for fault in planned:
                await asyncio.sleep(max(0.0, self._began + fault.at_s - time.monotonic()))
                whom = self._whom(fault)
                if whom:
                    self.busy |= set(whom)
                    faults.create_task(self._one(fault, whom))
            await asyncio.sleep(max(0.0, self._began + 60 * minutes - time.monotonic()))

    def _whom(self, fault: Planned) -> tuple[str, ...]:
        """Return who has this fault: the target or the next free site, several for a split, nobody if nobody is free."""
        if fault.kind in (HUB_KILLED, HUB_PAUSED, HUB_STOPPED, HUB_FULL):
            return () if HUB in self.busy else (HUB,)
        names = self._daemons.names
        turned = names[fault.site :] + names[: fault.site]
        free = tuple(name for name in turned if name not in self.busy)
        return free[: len(names) // 3 + 1] if fault.kind == SPLIT else free[:1]

    async def _one(self, fault: Planned, whom: tuple[str, ...]) -> None:
        at_s = time.monotonic() - self._began
        try:
            for name in whom:
                await self._begin(fault.kind, name)
            await asyncio.sleep(fault.for_s)
            for name in whom:
                await self._end(fault.kind, name)
        finally:
            self.busy -= set(whom)
        self.done.append(Done(at_s, time.monotonic() - self._began, fault.kind, whom))

    async def _begin(self, kind: str, name: str) -> None:
        daemons = self._daemons
        match kind:
            case "node killed" | "coordinator killed":
                await daemons.kill(name)
            case "node restarted" | "coordinator restarted":
                await daemons.stop(name)
            case "node paused" | "coordinator paused":
                daemons.send(name, signal.SIGSTOP)
            case "node's disk full" | "coordinator's disk full":
                daemons.fill_disk(name)
            case "consortium split":
                daemons.relays[name].spoil("hole")
            case _:
                daemons.relays[name].spoil(kind.removeprefix("line "))

    async def _end(self, kind: str, name: str) -> None:
        daemons = self._daemons
        match kind:
            case "node paused" | "coordinator paused":
                daemons.send(name, signal.SIGCONT)
            case "node's disk full":
                daemons.empty_disk(name)
            case "coordinator's disk full":  # what an operator does once there is room
                daemons.empty_disk(name)
                await daemons.stop(name)
            case "consortium split":
                daemons.relays[name].mend()
            case _ if kind in LINES:
                daemons.relays[name].mend()
            case _:
                pass
        if not daemons.is_running(name):
            await daemons.start(name)
            if name == HUB:
                self._restarted()
