"""One round with the real machines of every site and of the coordinator, in one thread, timed from inside.

Sites drop out after they have dealt their shares, the costliest moment: their mask seeds must be opened. Values are one
fixed pattern times the site's number. The sum that opens is compared, word by word, with the sum over the survivors.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Laps
from cohortsum.coordinator.spool import Spool
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol import codec, envelope, opening, seeds, site, site_checks
from cohortsum.protocol.approvals import ApprovalBook, approve
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import CoordinatorSetup, Opened
from cohortsum.protocol.effects import Combine, Contribute, CoordinatorEffect, Deliver, Send, SiteEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import words_digest, words_hasher
from cohortsum.protocol.messages import Advert, DataShares, GateShares, Kind, Regimen
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import Contributing, SiteSetup
from tests.protocol.consortium import identity_key, plan_of, protection, roster_of

PEOPLE = 20
BOUND = 2**40
UPLOAD_BYTES = 1024 * 1024

STEPS = {
    Kind.OPENING: "R0",
    Kind.ADVERTS: "R1",
    Kind.DELIVERY: "R2",
    Kind.MASKED: "mask",
    Kind.SURVIVORS: "R3",
    Kind.QUORUM: "R4a",
    Kind.GATE_OPENING: "R4b",
    Kind.CLOSING: "R5",
}
"""Names of a site's steps, by the packet that starts one; MASKED stands for the contribution itself."""

SEAMS: Mapping[str, tuple[tuple[object, str], ...]] = {
    "masks": ((site, "mask_key"), (site, "pair_mask_keys"), (site, "mask"), (site, "words_digest")),
    "signatures": ((envelope, "verify"), (IdentityKey, "sign")),
    "codec": ((codec, "encode"), (codec, "decode")),
    "shares": ((site, "deal"),),
    "commitments": ((seeds, "commit_share"), (seeds, "commit_seed"), (opening, "commit_seed")),
    "sealing": (
        (site, "channel_secret"),
        (site, "sealing_key"),
        (site, "seal"),
        (site_checks, "sealing_key"),
        (site_checks, "unseal"),
    ),
    "gate": (
        (opening, "gate_sum"),
        (opening, "dropouts_of"),
        (opening, "check_mask_seed"),
    ),
}
"""Where the machines call out, by what the call is for; no seam lies inside another."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """A site at the moment it is to mask."""

    setup: SiteSetup
    state: Contributing
    values: NDArray[np.int64]


@dataclass
class Played:
    """What a round leaves behind.

    Attributes:
        sites: number of sites.
        length: data words per site.
        dropped: indices without a masked vector.
        expected: the survivors' true sum.
        context: the round's context hash.
        h1: digest of L1.
        h2: digest of U2.
        threshold: shares that open a seed.
        adverts: by index.
        gate_shares: the sites' answers of R4a.
        data_shares: the sites' answers of R4b.
        uploads: masked vectors of the survivors.
        opened: the sum the coordinator opened.
        steps: processor time by step, of every surviving site.
        parts: processor time by seam, of the sites that were metered.
        coordinator: processor time of the coordinator's machine, by kind of message.
    """

    sites: int
    length: int
    dropped: tuple[int, ...]
    expected: NDArray[np.int64]
    context: bytes = b""
    h1: bytes = b""
    h2: bytes = b""
    threshold: int = 0
    adverts: Mapping[int, Advert] = field(default_factory=dict[int, Advert])
    gate_shares: dict[int, GateShares] = field(default_factory=dict[int, GateShares])
    data_shares: dict[int, DataShares] = field(default_factory=dict[int, DataShares])
    uploads: dict[int, Vector] = field(default_factory=dict[int, Vector])
    opened: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    steps: dict[int, Laps] = field(default_factory=dict[int, Laps])
    parts: dict[int, Laps] = field(default_factory=dict[int, Laps])
    coordinator: Laps = field(default_factory=Laps)

    @property
    def sampled_digest(self) -> bytes:
        """The digest of what the sampled site really sent."""
        return words_digest(self.uploads[sampled_site(self.sites)])

    @property
    def exact(self) -> bool:
        """Whether every opened word is the true sum."""
        return np.array_equal(self.opened, self.expected)


def sampled_site(sites: int) -> int:
    """Return the site whose mask step is measured apart: it adds about half of its masks and subtracts the rest."""
    return sites // 2


class Player:
    """Plays one round.

    Args:
        sites: number of sites.
        length: data words per site, people included; at least 2.
        dropouts: how many of the last sites vanish after R1.
        spool: where survivors' uploads go as well, or None.
        at_mask: called for the sampled site when it is to mask, before it does.
    """

    def __init__(
        self,
        sites: int,
        length: int,
        dropouts: int,
        spool: Spool | None,
        at_mask: Callable[[Contribution], None],
    ) -> None:
        limits = protection()
        roster = roster_of(sites)
        plan = plan_of(sites, limits, (PlannedBlock("numbers", length - 1, BOUND, "person", ()),))
        signers = {
            index: Signer(roster.identities[name], identity_key(name)) for name, index in roster.sites.items()
        }
        approvals = {
            index: approve(signer, plan, Regimen("open_data"), frozenset())
            for index, signer in signers.items()
        }
        self._machines = {
            index: SiteRound(
                SiteSetup(
                    signer,
                    roster,
                    plan,
                    approvals[index],
                    limits.min_sites,
                    limits.min_participants,
                    limits.min_participants_per_site,
                    None,
                    frozenset(),
                    ApprovalBook(plan, roster),
                ),
                secrets.token_bytes,
            )
            for index, signer in signers.items()
        }
        hub = Signer(roster.coordinator, identity_key("hub"))
        self._coordinator = CoordinatorRound(
            CoordinatorSetup(hub, roster, plan, approvals), RoundKey(secrets.token_bytes(16), 1, 1)
        )
        self._spool, self._at_mask = spool, at_mask
        self._pattern = np.arange(length, dtype=np.int64) * 2_654_435_761 % BOUND - BOUND // 2
        self.played = Played(
            sites,
            length,
            dropped=tuple(range(sites - dropouts, sites)),
            expected=np.zeros(length, dtype=np.int64),
        )
        for index in range(sites - dropouts):
            self.played.expected += self.values(index)
        self._queue: deque[CoordinatorEffect] = deque()

    def values(self, index: int) -> NDArray[np.int64]:
        """Return what a site adds: its people, then the pattern times its number."""
        values = self._pattern * (index % 16 + 1)
        values[0] = PEOPLE
        return values

    def play(self) -> Played:
        """Run the round to its end; raises AssertionError unless it opens."""
        self._queue.extend(self._coordinator.open())
        while True:
            while self._queue:
                effect = self._queue.popleft()
                match effect:
                    case Deliver():
                        self._deliver(effect)
                    case Combine():
                        self._combine(effect)
                    case _:
                        pass
            step = self._coordinator.step
            if step is None:
                break
            self._queue.extend(self._coordinator.deadline_passed(step))
        assert isinstance(self._coordinator.state, Opened), self._coordinator.state
        self.played.opened = self._coordinator.state.values
        return self.played

    def _deliver(self, effect: Deliver) -> None:
        index, kind = effect.receiver, effect.packet.envelope.kind
        if index in self.played.dropped and kind not in (Kind.OPENING, Kind.ADVERTS):
            return
        machine = self._machines[index]
        effects = self._timed(index, STEPS[kind], lambda: machine.receive(effect.packet))
        for asked in effects:
            if isinstance(asked, Contribute):
                effects = self._contribute(index, machine)
        for sent in effects:
            if isinstance(sent, Send):
                self._sent(index, sent)

    def _contribute(self, index: int, machine: SiteRound) -> tuple[SiteEffect, ...]:
        values, state = self.values(index), machine.state
        if index == sampled_site(self.played.sites) and isinstance(state, Contributing):
            played = self.played
            played.context, played.h1, played.h2 = state.attempt.context, state.roll.h1, state.dealt.h2
            played.threshold, played.adverts = state.roll.threshold, state.roll.adverts
            self._at_mask(Contribution(machine.setup, state, values))
        return self._timed(index, "mask", lambda: machine.contribute(PEOPLE, values))

    def _timed(
        self, index: int, step: str, work: Callable[[], tuple[SiteEffect, ...]]
    ) -> tuple[SiteEffect, ...]:
        """Run a site's step; every fourth site is metered by seam, which costs it about 1 %."""
        metering = metered(self.played.parts.setdefault(index, Laps())) if index % 4 == 1 else nullcontext()
        with metering, self.played.steps.setdefault(index, Laps()).lap(step):
            return work()

    def _sent(self, index: int, sent: Send) -> None:
        packet, words = sent.packet, sent.words
        held = codec.decode(packet.envelope.kind, packet.envelope.payload)
        if isinstance(held, GateShares):
            self.played.gate_shares[index] = held
        if isinstance(held, DataShares):
            self.played.data_shares[index] = held
        with self.played.coordinator.lap(packet.envelope.kind.name):
            effects = self._coordinator.receive(packet)
        self._queue.extend(effects)
        if words is not None:
            self.played.uploads[index] = words
            self._queue.extend(self._coordinator.uploaded(index, upload(self._spool, index, words)))

    def _combine(self, effect: Combine) -> None:
        total = np.zeros(self.played.length, dtype=np.uint64)
        for survivor in effect.survivors:
            total += self.played.uploads[survivor]
        add_masks(total, effect.keys.plus, effect.keys.minus)
        self._queue.extend(self._coordinator.combined(total))


def upload(spool: Spool | None, index: int, words: Vector) -> bytes:
    """Hand a masked vector to the spool as the service does, chunk by chunk, and return its digest."""
    data = words.astype("<u8", copy=False).data.cast("B")
    hasher = words_hasher(len(data))
    coming = None if spool is None else spool.receive(index)
    for start in range(0, len(data), UPLOAD_BYTES):
        chunk = bytes(data[start : start + UPLOAD_BYTES])
        hasher.update(chunk)
        if coming is not None:
            coming.add(chunk, hasher.digest())
    if coming is not None and spool is not None:
        spool.keep(index, coming, coming.finish())
    return hasher.digest()


@contextmanager
def metered(laps: Laps) -> Generator[None]:
    """Add the processor time behind every seam to ``laps`` while the block runs."""
    with ExitStack() as stack:
        for part, seams in SEAMS.items():
            for owner, name in seams:
                stack.enter_context(patch.object(owner, name, _metered(getattr(owner, name), part, laps)))
        yield


def _metered(function: Callable[..., Any], part: str, laps: Laps) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            laps.add(part, start)

    return timed
