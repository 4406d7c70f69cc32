"""Two-key rounds in memory with the product's own trustee: real machines, real encryption, no sockets.

Every site adds its index and 1 to each number, and 10 and its index to the people. A round is played once per process, under a key that
every desk of a test draws again: what was signed in it then fits whatever that desk offers.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.bfv import STANDARD, DecryptionKey, EncryptionKey, Parameters
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.signing import IdentityKey
from cohortsum.protocol.approvals import approve
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Combining, CoordinatorSetup
from cohortsum.protocol.denylist import Denied, DenyList, nobody_denied
from cohortsum.protocol.effects import Combine, CoordinatorEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import MaskKeys, add_over
from cohortsum.protocol.messages import Envelope, Kind, Packet, Regimen
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import ROSTER, Roster
from cohortsum.protocol.unlocking import UnlockRequest, offer_of
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.definition.signing import SignedStudy, sign_study
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.trustee.config import SETTINGS
from cohortsum.trustee.desk import Desk
from cohortsum.trustee.keys import Draw, KeyRing
from cohortsum.trustee.ledger import Ledger
from cohortsum.trustee.roll import Roll
from tests.edges.harness import HUB, STATISTICIAN, pinned_roster, roster_yaml
from tests.protocol.consortium import Consortium, identity_key, protection

SITES = 4
TRUSTEE = "keyholder"
STUDY = """
study: locked
title: Locked
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, case]}
  age: {unit: years, range: [0, 100]}
cohort: {epoch: 2026-11}
analyses:
  ages: {kind: summary, variables: [age], by: [dx]}
  bands: {kind: histogram, variables: [age], edges: [0, 25, 50, 75, 100]}
protection:
  mode: two_key
  min_sites: 3
  min_participants: 3
  max_participants: 10000
  min_participants_per_site: 1
  max_colluding_sites: 0
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
"""


def settled(folder: Path) -> Path:
    """Make the folder of a trustee of these rounds."""
    folder.mkdir()
    operator, text = identity_key("operator"), roster_yaml(SITES, [guest(TRUSTEE, "trustee")])
    (folder / "rosters").mkdir()
    (folder / "rosters" / "1.yaml").write_bytes(text)
    (folder / "rosters" / "1.sig").write_text(operator.sign(ROSTER, text).hex())
    (folder / "identity.key").write_text(hashlib.sha256(TRUSTEE.encode()).hexdigest())
    settings = SETTINGS.format(identity=TRUSTEE, operator=f'"{operator.public.hex()}"', listen="127.0.0.1:0")
    (folder / "trustee.yaml").write_text(settings)
    return folder


def guest(name: str, role: str) -> str:
    """Return the line of a roster for a further identity."""
    key = identity_key(name).public.hex()
    return f'  - {{id: {name}, role: {role}, name: {name}, organisation: test, key: "ed25519:{key}"}}'


@cache
def roster(*trustees: str) -> Roster:
    """Return a roster with these trustees; without any, with the usual one."""
    return pinned_roster(SITES, [guest(name, "trustee") for name in trustees or (TRUSTEE,)])


def roll(*denied: str, serial: int = 1) -> Roll:
    """Return a roll with some keys denied."""
    held = roster()
    if not denied:
        return Roll({1: held}, nobody_denied(held.consortium))
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    entries = tuple(Denied(name, held.identities[name].key, moment, "test") for name in denied)
    return Roll({1: held}, DenyList(held.consortium, serial, entries))


@cache
def signed_study(*changes: tuple[str, str]) -> tuple[StudyPlan, SignedStudy]:
    """Return the study with some texts replaced, planned and signed."""
    text = STUDY
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    study = freeze(load_study(text.encode(), "study.yaml"))
    return plan_study(study, roster()), sign_study(study, STATISTICIAN, identity_key(STATISTICIAN))


@cache
def key_of(seed: str) -> DecryptionKey:
    """Return the key of a played round, never wiped."""
    assert seed
    return DecryptionKey.draw(STANDARD)


def drawing(seed: str) -> Draw:
    """Return what draws the key of a played round again."""

    def draw(parameters: Parameters) -> DecryptionKey:
        held = key_of(seed)
        assert parameters == held.parameters
        return DecryptionKey(held._context, held.parameters, held.public)  # type: ignore[arg-type]  # pyright: ignore[reportPrivateUsage, reportArgumentType]  # the test's own key, not wiped

    return draw


@dataclass
class Played(Consortium):
    """A two-key round, played by `round_of` until its sum is to be decrypted.

    ``lost`` are sites that send no masked input.
    """

    study: tuple[StudyPlan, SignedStudy] = field(default_factory=signed_study)
    lost: tuple[int, ...] = ()
    keys: MaskKeys | None = None
    public: bytes = b""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.roster, self.plan = roster(), self.study[0].round
        items = frozenset(self.plan.items)
        self.approvals = {
            index: approve(signer, self.plan, Regimen("open_data"), items)
            for index, signer in self.signers.items()
        }
        self.machines = {index: self.site(index) for index in self.signers}
        hub = Signer(self.roster.coordinator, identity_key(HUB))
        setup = CoordinatorSetup(hub, self.roster, self.plan, self.approvals, self.coordinator_bound)
        self.coordinator = CoordinatorRound(setup, self.coordinator_key)
        self.before_send = self._sends

    def _sends(self, index: int, packet: Packet) -> bool:
        return not (index in self.lost and packet.envelope.kind is Kind.MASKED)

    @property
    def by_statistician(self) -> SignedStudy:
        return self.study[1]

    @property
    def context(self) -> bytes:
        return self.coordinator.fixed.context

    @property
    def opening(self) -> Envelope:
        return self.coordinator.opening

    @property
    def length(self) -> int:
        """How many numbers travel."""
        return sum(block.size for block in self.coordinator.fixed.blocks)

    @property
    def survivors(self) -> tuple[int, ...]:
        return tuple(index for index in range(self.sites) if index not in self.lost)

    def values(self, index: int, length: int) -> NDArray[np.int64]:
        values = np.full(length, index + 1, dtype=np.int64)
        values[0] = self.people(index)
        return values

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Combine):
                self.keys = effect.keys
            else:
                super().from_coordinator((effect,))

    def play(self, offer: Packet) -> None:
        """Play the round under an offered key, as far as its decryption."""
        self.public = offer.attachments[0]
        self.coordinator.lock(offer)
        self.from_coordinator(self.coordinator.open())
        while self.keys is None:
            self.drain()
            step = self.coordinator.step
            if self.keys is None:
                assert step is not None, (self.coordinator.state, self.errors)
                self.from_coordinator(self.coordinator.deadline_passed(step))

    @property
    def request(self) -> UnlockRequest:
        """What an honest coordinator shows."""
        kept: dict[Kind, dict[int, Envelope]] = {}
        for where, index, packet in self.log:
            if where == "coordinator":
                kept.setdefault(packet.envelope.kind, {})[index] = packet.envelope

        def of(kind: Kind) -> tuple[Envelope, ...]:
            return tuple(envelope for _, envelope in sorted(kept[kind].items()))

        kinds = (of(Kind.ADVERT), of(Kind.SHARES), of(Kind.MASKED))
        transcript = Transcript(self.opening, *kinds, self.survivors, of(Kind.CONSISTENCY))
        state = self.coordinator.state
        assert isinstance(state, Combining)
        return UnlockRequest(transcript, state.gate)

    def ciphertexts(self, *sites: int) -> Vector:
        """Return the sum of the uploads of these sites, of all survivors without any."""
        total = EncryptionKey.from_bytes(self.public, STANDARD).sum(self.length)
        for index in sites or self.survivors:
            total.add(STANDARD.frames(self.uploads[index]))
        return np.concatenate(list(total.framed()))

    def opened(self, words: Vector) -> list[int]:
        """Return what the coordinator gets out of a masked sum."""
        assert self.keys is not None
        total = words.copy()
        add_over(total, self.keys.plus, self.keys.minus, modulus=STANDARD.modulus)
        return [int(word) for word in total]

    def expected_sum(self) -> list[int]:
        total = np.sum([self.values(index, self.length) for index in self.survivors], axis=0)
        return [int(word) for word in total]


@cache
def round_of(
    seed: str = "round", lost: tuple[int, ...] = (), *changes: tuple[str, str], attempt: int = 1
) -> Played:
    """Return a round that has come as far as its decryption."""
    played = Played(SITES, protection(), seed=seed, attempt=attempt, lost=lost, study=signed_study(*changes))
    key = key_of(seed)
    signer = Signer(roster().identities[TRUSTEE], identity_key(TRUSTEE))
    said = offer_of(STANDARD, key.public)
    played.play(Packet(signer.sign(played.context, said), (key.public,)))
    return played


@dataclass
class Office:
    """A trustee's desk over a folder, with a roll that a test changes."""

    folder: Path
    seed: str = "round"
    most: int = 64
    keep_s: float = 3600.0
    numbers: int = 1_000_000
    clock: Callable[[], float] = time.monotonic
    name: str = TRUSTEE
    key: IdentityKey = field(default_factory=lambda: identity_key(TRUSTEE))

    def __post_init__(self) -> None:
        self.roll = roll()
        self.ledger = Ledger(self.folder / "ledger.db")
        self.ring = KeyRing(self.most, self.keep_s, self.clock)
        self.drawn = 0
        self.today = datetime(2026, 12, 1, tzinfo=UTC)
        self.desk = Desk(
            self.name,
            self.key,
            lambda: self.roll,
            self.ring,
            self.ledger,
            self.numbers,
            self.draw,
            lambda: self.today,
        )

    def draw(self, parameters: Parameters) -> DecryptionKey:
        self.drawn += 1
        return drawing(self.seed)(parameters)

    def offer(self, played: Played) -> Packet:
        self.seed = played.seed
        return self.desk.offer(played.by_statistician, played.opening)

    def unlock(
        self, played: Played, words: Vector | None = None, **changes: object
    ) -> tuple[Envelope, Vector]:
        """Hand a sum in with the round's request, some parts of it replaced; return the answer."""
        request = played.request
        if changes:
            request = replace(request, transcript=replace(request.transcript, **changes))  # type: ignore[arg-type]
        permitted = self.desk.permitted(played.by_statistician, request, played.length)
        answer = self.desk.unlock(permitted, played.ciphertexts() if words is None else words)
        return answer.envelope, answer.words

    def restarted(self) -> "Office":
        """Return the trustee after its process ended and another one began over the same folder."""
        self.ledger.close()
        return Office(self.folder, self.seed)
