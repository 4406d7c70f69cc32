"""A whole consortium in memory: real machines, no sockets, and a seam through which a test may interfere.

Values are distinct powers of two per site, so that a missing, doubled or foreign contribution shows in the
sum.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.approvals import ApprovalBook, approve
from cohortsum.protocol.bounds import Protection
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import CoordinatorSetup
from cohortsum.protocol.effects import (
    Audit,
    Combine,
    Contribute,
    CoordinatorEffect,
    Deliver,
    RoundSeen,
    Send,
    SiteEffect,
    SurvivorsSigned,
)
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import add_words, words_digest
from cohortsum.protocol.messages import Envelope, Packet, Regimen
from cohortsum.protocol.plan import PlannedBlock, RoundPlan
from cohortsum.protocol.roster import Identity, Role, Roster, SiteId
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import SiteSetup

PEOPLE = PlannedBlock("people", 1, 1, "person", ())


def stream(seed: str) -> Callable[[int], bytes]:
    """Return a deterministic stand-in for the system's generator."""
    counter = 0

    def draw(size: int) -> bytes:
        nonlocal counter
        counter += 1
        return hashlib.shake_256(f"{seed}/{counter}".encode()).digest(size)

    return draw


def identity_key(name: str) -> IdentityKey:
    return IdentityKey(SecretBytes(hashlib.sha256(name.encode()).digest(), "identity seed"))


def protection(**changes: int) -> Protection:
    fields = {
        "min_sites": 3,
        "min_participants": 3,
        "max_participants": 10_000,
        "min_participants_per_site": 1,
        "max_colluding_sites": 0,
        "min_honest_inputs": 3,
        "max_attempts": 2,
    }
    return Protection(**{**fields, **changes})


def roster_of(sites: int) -> Roster:
    identities = {
        name: Identity(name, Role.SITE, index, identity_key(name).public)
        for index, name in ((index, f"site{index}") for index in range(sites))
    }
    identities["hub"] = Identity("hub", Role.COORDINATOR, None, identity_key("hub").public)
    return Roster("test", 1, identities, hashlib.sha256(b"roster").digest())


def plan_of(
    sites: int, protection: Protection, blocks: Iterable[PlannedBlock] = (), items: tuple[str, ...] = ()
) -> RoundPlan:
    held = tuple(blocks) or (PlannedBlock("powers", 2, 2**40, "person", ()),)
    return RoundPlan(
        hashlib.sha256(b"study").digest(),
        hashlib.sha256(b"roster").digest(),
        "2026-11",
        sites,
        protection,
        (PEOPLE, *held),
        items,
    )


@dataclass
class Consortium:
    """Sites, coordinator and the queue of packets between them.

    ``to_site`` and ``to_coordinator`` may replace or drop (None) a packet; ``down`` holds sites that are
    dead; ``queue`` holds what is on its way.
    """

    sites: int
    protection: Protection = field(default_factory=protection)
    blocks: tuple[PlannedBlock, ...] = ()
    items: tuple[str, ...] = ()
    supplies: Callable[[int], frozenset[str]] = lambda _: frozenset()
    people: Callable[[int], int] = lambda index: 10 + index
    attempt: int = 1
    bound: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    coordinator_bound: tuple[int, ...] = ()
    members: tuple[int, ...] | None = None
    to_site: Callable[[int, Packet], Packet | None] = lambda _, packet: packet
    to_coordinator: Callable[[int, Packet], Packet | None] = lambda _, packet: packet
    before_send: Callable[[int, Packet], bool] = lambda _index, _packet: True
    seed: str = "round"

    def __post_init__(self) -> None:
        self.roster = roster_of(self.sites)
        self.plan = plan_of(self.sites, self.protection, self.blocks, self.items)
        self.signers = {
            index: Signer(self.roster.identities[f"site{index}"], identity_key(f"site{index}"))
            for index in (self.members if self.members is not None else range(self.sites))
        }
        self.approvals = {
            index: approve(signer, self.plan, Regimen("open_data"), self.supplies(index))
            for index, signer in self.signers.items()
        }
        self.machines = {index: self.site(index) for index in self.signers}
        setup = CoordinatorSetup(
            Signer(self.roster.coordinator, identity_key("hub")),
            self.roster,
            self.plan,
            self.approvals,
            self.coordinator_bound,
        )
        self.coordinator_key = RoundKey(hashlib.sha256(self.seed.encode()).digest()[:16], 1, self.attempt)
        self.coordinator = CoordinatorRound(setup, self.coordinator_key)
        self.uploads: dict[int, Vector] = {}
        self.made: dict[int, Vector] = {}
        self.down: set[int] = set()
        self.errors: list[tuple[int, RemoteProtocolError]] = []
        self.audits: list[Audit] = []
        self.signed: dict[int, tuple[int, ...]] = {}
        self.seen: dict[int, RoundKey] = {}
        self.log: list[tuple[str, int, Packet]] = []
        self.queue: deque[tuple[str, int, Packet]] = deque()

    def site(self, index: int, **changes: object) -> SiteRound:
        fields: dict[str, object] = {
            "signer": self.signers[index],
            "roster": self.roster,
            "plan": self.plan,
            "approval": self.approvals[index],
            "min_sites": self.protection.min_sites,
            "min_participants": self.protection.min_participants,
            "min_participants_per_site": self.protection.min_participants_per_site,
            "bound_survivors": self.bound.get(index),
            "approvals": ApprovalBook(self.plan, self.roster),
            "seen_rounds": frozenset[tuple[bytes, int, int]](),
        }
        setup = SiteSetup(**{**fields, **changes})  # type: ignore[arg-type]
        return SiteRound(setup, stream(f"{self.seed}/{index}/{self.attempt}"))

    def values(self, index: int, length: int) -> NDArray[np.int64]:
        """Site ``index`` adds 2**index and -2**index in every pair of data words, behind its people."""
        values = np.full(length, 2**index, dtype=np.int64)
        values[2::2] *= -1
        values[0] = self.people(index)
        return values

    def expected(self, survivors: Iterable[int]) -> list[int]:
        length = self.coordinator.length
        total = np.zeros(length, dtype=np.int64)
        for index in survivors:
            total += self.values(index, length)
        return [int(word) for word in total]

    def run(self) -> None:
        """Play until nothing moves, firing deadlines whenever everything is quiet."""
        self.from_coordinator(self.coordinator.open())
        while True:
            self.drain()
            step = self.coordinator.step
            if step is None:
                return
            self.from_coordinator(self.coordinator.deadline_passed(step))

    def drain(self) -> None:
        while self.queue:
            where, index, packet = self.queue.popleft()
            if where == "site":
                self.at_site(index, packet)
            else:
                self.at_coordinator(index, packet)

    def at_site(self, index: int, packet: Packet) -> None:
        if index in self.down:
            return
        try:
            self.from_site(index, self.machines[index].receive(packet))
        except RemoteProtocolError as error:
            self.errors.append((index, error))
            self.from_site(index, self.machines[index].complain(error))
            self.from_site(index, self.machines[index].abandon("stopped"))

    def at_coordinator(self, index: int, packet: Packet) -> None:
        self.from_coordinator(self.coordinator.receive(packet))

    def from_site(self, index: int, effects: tuple[SiteEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if index in self.down or not self.before_send(index, effect.packet):
                        return
                    if effect.words is not None:
                        self.made[index] = effect.words
                    sent = self.to_coordinator(index, effect.packet)
                    if sent is None:
                        continue
                    self.log.append(("coordinator", index, sent))
                    self.queue.append(("coordinator", index, sent))
                    self.at_upload(index, effect)
                case Contribute():
                    length = sum(block.size for block in effect.blocks)
                    machine = self.machines[index]
                    self.from_site(index, machine.contribute(self.people(index), self.values(index, length)))
                case SurvivorsSigned():
                    self.signed[index] = effect.survivors
                case RoundSeen():
                    self.seen[index] = effect.key
                case _:
                    pass

    def at_upload(self, index: int, effect: Send) -> None:
        if effect.words is not None:
            self.uploads[index] = effect.words
            self.drain_uploads(index)

    def drain_uploads(self, index: int) -> None:
        self.from_coordinator(self.coordinator.uploaded(index, words_digest(self.uploads[index])))

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    packet = self.to_site(effect.receiver, effect.packet)
                    if packet is not None:
                        self.log.append(("site", effect.receiver, packet))
                        self.queue.append(("site", effect.receiver, packet))
                case Combine():
                    total = add_words((self.uploads[s] for s in effect.survivors), self.coordinator.length)
                    add_masks(total, effect.keys.plus, effect.keys.minus)
                    self.from_coordinator(self.coordinator.combined(total))
                case Audit():
                    self.audits.append(effect)
                case _:
                    pass

    def index_of(self, envelope: Envelope) -> int:
        return self.roster.sites[SiteId(envelope.sender)]
