"""Runs played by hand: real machines, real keys, and members that open the sums to each other instead of computing on shares."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto.errors import CohortsumError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.shamir import combine
from cohortsum.protocol.committee import Answer, CommitteePlan, OpenCounts
from cohortsum.protocol.committee.coordinator import CoordinatorRun, Failed, Opened, Tell
from cohortsum.protocol.committee.effects import Bind, Compute, Ended, Finished, Identity, Part, Send
from cohortsum.protocol.committee.evaluation import evaluate
from cohortsum.protocol.committee.messages import Opening, Packet, RunKey, Sealed
from cohortsum.protocol.committee.plain import answers_to_bytes
from cohortsum.protocol.committee.site import SiteRun
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Identity as Entry
from cohortsum.protocol.roster import Role, Roster
from tests.protocol.consortium import identity_key, stream

EPOCH = "2026-11"
STUDY = bytes(range(32))
RUN = RunKey(b"r" * 16, 1, 1)
SITES = 5
HUB = "hub"


def roster_of(sites: int) -> Roster:
    entries = [Entry(HUB, Role.COORDINATOR, None, identity_key(HUB).public)]
    entries += [Entry(f"site{i}", Role.SITE, i, identity_key(f"site{i}").public) for i in range(sites)]
    return Roster("played", 1, {entry.id: entry for entry in entries}, b"\x07" * 32)


def signer_of(roster: Roster, name: str) -> Signer:
    return Signer(roster.identities[name], identity_key(name))


class Plain:
    """Computes on the sums themselves."""

    async def at_least(self, shares: Sequence[int], bounds: Sequence[int], greatest: int) -> list[bool]:
        return [share >= bound for share, bound in zip(shares, bounds, strict=True)]

    async def reveal(self, shares: Sequence[int]) -> list[int]:
        return list(shares)


def table_plan(members: Sequence[int] = (0, 2, 3), dealers: Sequence[int] = range(SITES)) -> CommitteePlan:
    return CommitteePlan(tuple(members), tuple(dealers), 1, (OpenCounts("x", 4, 10, 40),), honest=2)


VALUES = {0: (7, 3, 0, 10), 1: (0, 3, 0, 10), 2: (0, 6, 0, 20), 3: (0, 0, 0, 0), 4: (0, 0, 0, 0)}
ANSWERS: tuple[Answer, ...] = ((-1, 12, -1, 40),)

Meddle = Callable[["Played", int, Packet | Sealed], list[Packet | Sealed]]
"""(run, roster index, what the coordinator tells that site) to what arrives instead."""


@dataclass
class Member:
    """What a toy worker holds."""

    compute: Compute
    shares: dict[int, list[int]] = field(default_factory=dict[int, list[int]])


class Played:
    """One run over in-memory boxes.

    Args:
        plan: what the coordinator and all sites believe.
        bound: by site, the dealers it has computed on before.
        meddle: what a hostile coordinator does to what it tells.
        key: of the run.
        values: of every site.
    """

    def __init__(
        self,
        plan: CommitteePlan | None = None,
        bound: dict[int, tuple[int, ...]] | None = None,
        meddle: Meddle | None = None,
        key: RunKey = RUN,
        values: Mapping[int, Sequence[int]] = VALUES,
    ) -> None:
        self.plan, self.meddle, self.values = plan or table_plan(), meddle, values
        sites = len(values)
        self.roster, self.bound = roster_of(sites), bound or {}
        self.hub = CoordinatorRun(self.roster, signer_of(self.roster, HUB), self.plan, key, STUDY, EPOCH)
        self.sites = {index: self.site(index, key) for index in self.hub.sites}
        self.members: dict[int, Member] = {}
        self.finished: dict[int, Finished] = {}
        self.ended: dict[int, str] = {}
        self.lies: dict[int, bytes] = {}
        self.left: set[int] = set()
        self.bindings: dict[int, tuple[int, ...]] = {}
        self.errors: list[tuple[int, CohortsumError]] = []
        self.opened: Opened | None = None
        self.failed: Failed | None = None
        self.told: list[tuple[int, Packet | Sealed]] = []
        self.handed: list[Packet] = []
        self.queue: deque[tuple[int, Packet | Sealed]] = deque()

    def site(self, index: int, key: RunKey) -> SiteRun:
        identity = Identity(self.roster, signer_of(self.roster, f"site{index}"), STUDY, EPOCH)
        return SiteRun(identity, lambda opening: self.part(index, opening), stream(f"{index}/{key}"))

    def part(self, index: int, _: Opening) -> Part:
        values = tuple(self.values[index]) if index in self.plan.dealers else None
        return Part(self.plan, values, self.bound.get(index))

    def play(self) -> "Played":
        """Run until nothing is left to hand over."""
        self.take(self.hub.open())
        while self.queue:
            self.hand(*self.queue.popleft())
        return self

    def take(self, effects: Sequence[Tell | Opened | Failed]) -> None:
        for effect in effects:
            match effect:
                case Tell():
                    for site in effect.sites:
                        arriving = (
                            [effect.item] if self.meddle is None else self.meddle(self, site, effect.item)
                        )
                        self.queue.extend((site, item) for item in arriving)
                case Opened():
                    self.opened = effect
                case Failed():
                    self.failed = effect

    def hand(self, site: int, item: Packet | Sealed) -> None:
        self.told.append((site, item))
        if site in self.left:
            return
        run = self.sites[site]
        try:
            if isinstance(item, Sealed):
                self.frame(site, run.unseal(item), item.sender)
                return
            for effect in run.handle(item):
                match effect:
                    case Send():
                        self.submit(effect.packet)
                    case Bind():
                        self.bindings[site] = effect.dealers
                    case Compute():
                        self.begin(site, effect)
                    case Finished():
                        self.finished[site] = effect
                    case Ended():
                        self.ended[site] = effect.reason
        except CohortsumError as error:
            self.errors.append((site, error))
            self.left.add(site)
            if run.is_open:
                self.take(self.hub.submit(run.give_up("something is wrong").packet))

    def submit(self, packet: Packet) -> None:
        self.handed.append(packet)
        self.take(self.hub.submit(packet))

    def begin(self, site: int, compute: Compute) -> None:
        self.members[site] = Member(compute, {compute.member: list(compute.shares)})
        message = b"".join(map(COMMITTEE.to_bytes, compute.shares))
        for peer in range(len(self.plan.members)):
            if peer != compute.member:
                self.take(self.hub.carry(site, self.sites[site].seal(peer, message)))

    def frame(self, site: int, message: bytes, sender: int) -> None:
        size, member = COMMITTEE.size, self.members[site]
        parts = (message[at : at + size] for at in range(0, len(message), size))
        member.shares[sender] = [COMMITTEE.from_bytes(part) for part in parts]
        if len(member.shares) < len(self.plan.members):
            return
        sums = [
            combine(
                {peer + 1: share[at] for peer, share in member.shares.items()},
                self.plan.degree + 1,
                COMMITTEE.prime,
            )
            for at in range(self.plan.length)
        ]
        answers = asyncio.run(evaluate(self.plan, sums, Plain()))
        said = self.lies.get(site, answers_to_bytes(answers))
        self.submit(self.sites[site].answered(said).packet)
