"""A hostile coordinator, step by step: a test plays its hand, and it may show every site something else.

Every step has the honest content as its default, so that a script says only where it lies: whom it tells, of whom, what
instead. Everything is signed with the coordinator's true key. What sites send is kept, by what it is; nothing is dropped,
replayed, doubled or reordered but by the script, which has all of it. At any time `loot` says what the coordinator could compute.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cohortsum.crypto.masks import Vector
from cohortsum.protocol import codec
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.context import RoundKey, context_hash, public_inputs
from cohortsum.protocol.masking import words_from_bytes, words_to_bytes
from cohortsum.protocol.messages import (
    Advert,
    Adverts,
    Closing,
    DataShares,
    Delivery,
    Envelope,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    Message,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Survivors,
)
from cohortsum.protocol.opening import result_digest
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import SiteId
from cohortsum.protocol.transcript import adverts_digest, shares_digest
from cohortsum.study.sums import Integers
from tests.attacks.loot import Loot, Seen
from tests.attacks.sites import Reply, Sites

Replies = dict[int, Reply]


@dataclass
class Shown:
    """What one site was shown."""

    adverts: tuple[Envelope, ...] = ()
    shares: tuple[Envelope, ...] = ()
    masked: tuple[Envelope, ...] = ()


@dataclass
class Hand:
    """One attempt in the hand of a hostile coordinator.

    Args:
        sites: whom it talks to.
        name: of the attempt; its round id follows from it.
        survivors: that the opening names.
        iteration: and attempt, as the opening says them.
        least: how many shares open a seed, by the number of sites.
        plan: of an iteration; None takes that of the first.
    """

    sites: Sites
    name: str = "round"
    survivors: tuple[int, ...] = ()
    iteration: int = 1
    attempt: int = 1
    least: Callable[[int], int] = threshold
    plan: RoundPlan | None = None
    replies: dict[int, list[Reply]] = field(default_factory=dict[int, list[Reply]])
    told: dict[int, list[Packet]] = field(default_factory=dict[int, list[Packet]])
    sent: dict[Kind, dict[int, Packet]] = field(default_factory=dict[Kind, dict[int, Packet]])
    words: dict[int, Vector] = field(default_factory=dict[int, Vector])
    shown: dict[int, Shown] = field(default_factory=dict[int, Shown])

    def __post_init__(self) -> None:
        plan = self.sites.plan if self.plan is None else self.plan
        self.key = RoundKey(hashlib.sha256(self.name.encode()).digest()[:16], self.iteration, self.attempt)
        self.everybody = tuple(sorted(self.sites.approvals))
        approvals = tuple(self.sites.approvals[index] for index in self.everybody)
        self.opening = Opening(
            self.key,
            plan.study_digest,
            plan.roster_digest,
            plan.epoch,
            approvals,
            self.survivors,
            plan=b"" if self.iteration == 1 else plan.digest,
        )
        inputs = public_inputs(plan.digest, [held.digest for held in approvals], self.survivors)
        self.context = context_hash(plan.roster_digest, plan.study_digest, self.key, plan.epoch, inputs)

    # ------------------------------------------------------------------ saying anything to anybody
    def say(
        self, index: int, message: Message, attached: tuple[bytes, ...] = (), context: bytes | None = None
    ) -> Reply:
        """Sign a message, tell one site, and keep what comes back."""
        return self.hand_over(index, Packet(self.sites.hub.sign(context or self.context, message), attached))

    def hand_over(self, index: int, packet: Packet) -> Reply:
        """Tell one site a packet as it is, and keep what comes back."""
        self.told.setdefault(index, []).append(packet)
        reply = self.sites.tell(index, packet)
        self.replies.setdefault(index, []).append(reply)
        for send in reply.sends:
            self.sent.setdefault(send.packet.envelope.kind, {}).setdefault(index, send.packet)
            if send.words is not None:
                self.words.setdefault(index, send.words)
        return reply

    def envelopes(self, kind: Kind, of: Iterable[int] | None = None) -> tuple[Envelope, ...]:
        """Return what sites sent of one kind, by index."""
        held = self.sent.get(kind, {})
        return tuple(held[index].envelope for index in sorted(held if of is None else of))

    def refusals(self) -> dict[int, str]:
        """Return the first check that every site refused something under."""
        return {
            index: first
            for index, replies in sorted(self.replies.items())
            if (first := next((reply.refused for reply in replies if reply.refused), ""))
        }

    # ------------------------------------------------------------------ the steps
    def open(self, to: Iterable[int] | None = None) -> Replies:
        """R0."""
        return {index: self.say(index, self.opening) for index in self._or_all(to)}

    def show_adverts(self, of: Iterable[int] | None = None, to: Iterable[int] | None = None) -> Replies:
        """R1: show L1."""
        shown = self.envelopes(Kind.ADVERT, of)
        replies: Replies = {}
        for index in self._or_senders(to, Kind.ADVERT):
            self.shown[index] = Shown(shown)
            replies[index] = self.say(index, Adverts(shown))
        return replies

    def deliver(self, of: Iterable[int] | None = None, to: Iterable[int] | None = None) -> Replies:
        """R2: show U2, with the ciphertexts."""
        replies: Replies = {}
        for index in self._or_senders(to, Kind.SHARES):
            mine = [self.index_of(envelope) for envelope in self.shown[index].adverts]
            dealers = sorted(self.sent[Kind.SHARES].keys() & set(mine) if of is None else of)
            self.shown[index].shares = self.envelopes(Kind.SHARES, dealers)
            place = mine.index(index)
            attached = tuple(self.sent[Kind.SHARES][dealer].attachments[place] for dealer in dealers)
            replies[index] = self.say(index, Delivery(self.shown[index].shares), attached)
        return replies

    def show_survivors(self, of: Iterable[int] | None = None, to: Iterable[int] | None = None) -> Replies:
        """R3: show U3."""
        shown = self.envelopes(Kind.MASKED, of)
        replies: Replies = {}
        for index in self._or_senders(to, Kind.MASKED):
            self.shown[index].masked = shown
            replies[index] = self.say(index, Survivors(shown))
        return replies

    def show_quorum(self, of: Iterable[int] | None = None, to: Iterable[int] | None = None) -> Replies:
        """R4a: show signatures, by default all of those who were shown what this site was shown."""
        replies: Replies = {}
        signers = self.sent.get(Kind.CONSISTENCY, {}).keys()
        for index in self._or_senders(to, Kind.CONSISTENCY):
            same = [peer for peer in signers if self.shown[peer] == self.shown[index]]
            quorum = Quorum(self.envelopes(Kind.CONSISTENCY, same if of is None else of))
            replies[index] = self.say(index, quorum)
        return replies

    def open_gate(self, to: Iterable[int] | None = None) -> Replies:
        """R4a: show the opened gate of what every site was shown as U3."""
        return {
            index: self.say(index, opening)
            for index in self._or_senders(to, Kind.GATE_SHARES)
            if (opening := self.gate_opening(index)) is not None
        }

    def gate_opening(self, index: int) -> GateOpening | None:
        """Return the opened gate as it follows from the answers, for one site's U3; None where they do not suffice."""
        survivors = self._indices(self.shown[index].masked)
        dropped = sorted(set(self._indices(self.shown[index].shares)) - set(survivors))
        loot = self.loot()
        seeds = {owner: loot.seed("gate", owner) for owner in survivors}
        mask = {owner: loot.seed("mask", owner) for owner in dropped}
        if None in (*seeds.values(), *mask.values()):
            return None
        return GateOpening(
            {
                owner: OpenedGate(self.sent[Kind.MASKED][owner].attachments[0], seed)
                for owner, seed in seeds.items()
                if seed is not None
            },
            {owner: seed for owner, seed in mask.items() if seed is not None},
        )

    def closing(self, seen: bool = False) -> tuple[Closing, tuple[bytes, ...]]:
        """Return the closing of an honest end over what all sites signed, and the words that go with it."""
        survivors = self._indices(next(iter(self.shown.values())).masked)
        (total,) = [
            values for members, values in self.loot().opened().items() if members == frozenset(survivors)
        ]
        words = np.ascontiguousarray(total).view(np.uint64)
        index = survivors[0]
        statement = self._answer(Kind.CONSISTENCY, index)
        closing = Closing(statement, result_digest(words))
        if not seen:
            return closing, ()
        opened = self.gate_opening(index)
        assert opened is not None
        loot = self.loot()
        data = {owner: seed for owner in survivors if (seed := loot.seed("data", owner)) is not None}
        return (
            Closing(statement, closing.result_digest, data, opened.dropped),
            tuple(words_to_bytes(self.words[owner]) for owner in survivors),
        )

    def play(self) -> None:
        """Play every step with its honest content, to the answers about the data."""
        for step in (
            self.open,
            self.show_adverts,
            self.deliver,
            self.show_survivors,
            self.show_quorum,
            self.open_gate,
        ):
            step()

    # ------------------------------------------------------------------ what it knows
    def loot(self) -> Loot:
        """Return everything from which the coordinator can compute in this context."""
        adverts: dict[int, Mapping[int, Advert]] = {}
        for index, shown in self.shown.items():
            opened = {self.index_of(held): codec.decode(Kind.ADVERT, held.payload) for held in shown.adverts}
            adverts[index] = {peer: held for peer, held in opened.items() if isinstance(held, Advert)}
        betrayed = {
            index: held for (context, index), held in self.sites.betrayed.items() if context == self.context
        }
        least = min((self.least(len(view)) for view in adverts.values()), default=1)
        loot = Loot(self.context, least, betrayed, adverts)
        for index, packet in self.sent.get(Kind.MASKED, {}).items():
            masked = codec.decode(Kind.MASKED, packet.envelope.payload)
            assert isinstance(masked, MaskedInput)
            words = {"gate": words_from_bytes(packet.attachments[0]), "data": self.words[index]}
            h1 = adverts_digest(self.context, self.shown[index].adverts)
            h2 = shares_digest(self.context, h1, self.shown[index].shares)
            loot.masked[index] = Seen(words, h1, h2, frozenset(self._indices(self.shown[index].shares)))
        for kind in ("mask", "gate", "data"):
            for owner in self.everybody:
                for holder, share in self._shares(kind, owner).items():
                    loot.add_share(kind, owner, holder, share)
        return loot

    def opened(self, part: str = "data") -> dict[frozenset[int], Integers]:
        """Return the sums that the coordinator can compute by now."""
        return self.loot().opened(part)

    def index_of(self, envelope: Envelope) -> int:
        return self.sites.roster.sites[SiteId(envelope.sender)]

    def _shares(self, kind: str, owner: int) -> dict[int, int]:
        """Return the shares of a seed that came in answers, by holder."""
        found: dict[int, int] = {}
        for of_kind in (Kind.GATE_SHARES, Kind.DATA_SHARES):
            for holder, packet in self.sent.get(of_kind, {}).items():
                message = codec.decode(of_kind, packet.envelope.payload)
                held: Mapping[int, int] = {}
                if isinstance(message, GateShares):
                    held = {"gate": message.gate, "mask": message.mask}.get(kind, held)
                elif isinstance(message, DataShares) and kind == "data":
                    held = message.data
                if owner in held:
                    found[holder] = held[owner]
        return found

    def _answer(self, kind: Kind, index: int) -> bytes:
        message = codec.decode(kind, self.sent[kind][index].envelope.payload)
        statement: bytes = getattr(message, "statement")  # noqa: B009
        return statement

    def _indices(self, envelopes: Iterable[Envelope]) -> list[int]:
        return [self.index_of(envelope) for envelope in envelopes]

    def _or_all(self, to: Iterable[int] | None) -> list[int]:
        return sorted(self.everybody if to is None else to)

    def _or_senders(self, to: Iterable[int] | None, kind: Kind) -> list[int]:
        return sorted(self.sent.get(kind, {}) if to is None else to)
