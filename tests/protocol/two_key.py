"""A consortium in memory whose rounds are encrypted: the machines of `consortium`, and a trustee as its checks make it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from cohortsum.crypto.bfv import STANDARD, DecryptionKey, EncryptionKey
from cohortsum.crypto.errors import CryptoError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.approvals import approve
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Combining, CoordinatorSetup
from cohortsum.protocol.effects import Combine, CoordinatorEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import add_over, words_digest
from cohortsum.protocol.messages import EncryptionKeyOffer, Envelope, Kind, Packet, Regimen, Unlocked
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import Identity, Role, Roster
from cohortsum.protocol.unlocking import UnlockRequest, key_digest, parameters_digest, permit
from tests.protocol.consortium import Consortium, identity_key, plan_of, roster_of


def locked_roster(sites: int) -> Roster:
    """Return a roster with a trustee."""
    held = roster_of(sites)
    trustee = Identity("keyholder", Role.TRUSTEE, None, identity_key("keyholder").public)
    return replace(held, identities={**held.identities, "keyholder": trustee})


def offer_of(context: bytes, roster: Roster, key: DecryptionKey) -> Packet:
    """Return a key as the trustee offers it."""
    signer = Signer(roster.identities["keyholder"], identity_key("keyholder"))
    said = EncryptionKeyOffer(parameters_digest(key.parameters), key_digest(key.public))
    return Packet(signer.sign(context, said), (key.public,))


@dataclass
class LockedConsortium(Consortium):
    """Sites, a coordinator and a trustee.

    ``trusted`` is false for a trustee that has died: the masked sum never comes. ``asked`` and ``decrypted`` hold what was asked of it
    and over which survivors it decrypted.
    """

    trusted: bool = True
    asked: list[UnlockRequest] = field(default_factory=list[UnlockRequest])
    decrypted: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.roster = locked_roster(self.sites)
        self.plan: RoundPlan = replace(
            plan_of(self.sites, self.protection, self.blocks, self.items), encryption=STANDARD
        )
        self.approvals = {
            index: approve(signer, self.plan, Regimen("open_data"), self.supplies(index))
            for index, signer in self.signers.items()
        }
        self.machines = {index: self.site(index) for index in self.signers}
        hub = Signer(self.roster.coordinator, identity_key("hub"))
        setup = CoordinatorSetup(hub, self.roster, self.plan, self.approvals, self.coordinator_bound)
        self.coordinator = CoordinatorRound(setup, self.coordinator_key)
        self.key = DecryptionKey.draw(STANDARD)
        self.offer = offer_of(self.context, self.roster, self.key)
        self.coordinator.lock(self.offer)
        self.log.append(("site", -1, self.offer))
        self.masked_sum: Vector | None = None
        self.unlocked: Envelope | None = None

    @property
    def context(self) -> bytes:
        """Of the attempt."""
        return self.coordinator.fixed.context

    @property
    def numbers(self) -> int:
        """How many numbers travel."""
        return sum(block.size for block in self.coordinator.fixed.blocks)

    def expected(self, survivors: Iterable[int]) -> list[int]:
        total = np.zeros(self.numbers, dtype=np.int64)
        for index in survivors:
            total += self.values(index, self.numbers)
        return [int(word) for word in total]

    def transcript(self) -> Transcript:
        """Return the signed messages of the round, from what has passed."""
        kept: dict[Kind, dict[int, Envelope]] = {}
        for where, index, packet in self.log:
            if where == "coordinator":
                kept.setdefault(packet.envelope.kind, {})[index] = packet.envelope
        state = self.coordinator.state
        survivors = tuple(sorted(state.u3.inputs)) if isinstance(state, Combining) else ()

        def of(kind: Kind) -> tuple[Envelope, ...]:
            return tuple(envelope for _, envelope in sorted(kept.get(kind, {}).items()))

        return Transcript(
            self.coordinator.opening,
            of(Kind.ADVERT),
            of(Kind.SHARES),
            of(Kind.MASKED),
            survivors,
            of(Kind.CONSISTENCY),
        )

    def ciphertexts(self, sites: tuple[int, ...]) -> Vector:
        """Return the sum of uploads, as the coordinator forms it."""
        key = EncryptionKey.from_bytes(self.key.public, STANDARD)
        total = key.sum(self.numbers)
        for index in sites:
            total.add(STANDARD.frames(self.uploads[index]))
        return np.concatenate(list(total.framed()))

    def unlock(self, request: UnlockRequest, ciphertexts: Vector) -> Vector:
        """Return what the trustee decrypts, once it has found everything in order."""
        self.asked.append(request)
        proven = permit(request, self.plan, self.roster, self.decrypted)
        self.decrypted.append(proven.survivors)
        words = self.key.decrypt(ciphertexts, self.numbers)
        signer = Signer(self.roster.identities["keyholder"], identity_key("keyholder"))
        said = Unlocked(proven.statement, words_digest(ciphertexts), words_digest(words))
        self.unlocked = signer.sign(proven.context, said)
        self.log.append(("site", -1, Packet(self.unlocked)))
        return words

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            if not isinstance(effect, Combine):
                super().from_coordinator((effect,))
                continue
            state = self.coordinator.state
            if not (self.trusted and isinstance(state, Combining)):
                self.from_coordinator(self.coordinator.abort("the trustee did not decrypt"))
                return
            request = UnlockRequest(self.transcript(), state.gate)
            try:
                self.masked_sum = self.unlock(request, self.ciphertexts(effect.survivors))
            except CryptoError as error:
                self.from_coordinator(self.coordinator.abort(error.message))
                return
            total = self.masked_sum.copy()
            add_over(total, effect.keys.plus, effect.keys.minus, modulus=STANDARD.modulus)
            self.from_coordinator(self.coordinator.combined(total))


def gate_told(consortium: Consortium) -> Envelope:
    """Return the opened gate as the coordinator told it."""
    return next(
        packet.envelope
        for where, _, packet in consortium.log
        if where == "site" and packet.envelope.kind is Kind.GATE_OPENING
    )
