"""A site in a round: a pure state machine from messages to effects.

The round is the malicious-secure variant of Bonawitz et al. 2017 on the complete graph, with masks bound to the transcript,
commitments to seeds and shares, and a gate that opens first. Check names (R1.4) are those of docs/protocol.md. A check
that fails raises and leaves the state as it was; the edge then stops the context. What a message says is compared with
what this site derives, never obeyed.

The machine does no I/O and knows no clock; randomness is handed in. A repeated message gets the same effects, a different
one of the same kind is refused (M5).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.sealing import seal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol import site_checks as checks
from cohortsum.protocol.ahead import Ahead, commitments_for
from cohortsum.protocol.context import context_hash, public_inputs, slot_context
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    Contribute,
    DealtAhead,
    PeersSeen,
    RoundOver,
    RoundSeen,
    Send,
    SetOpened,
    SiteEffect,
    SumSeen,
    SurvivorsNamed,
    SurvivorsSigned,
)
from cohortsum.protocol.envelope import open_any, open_envelope
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.evidence_making import of_coordinator, of_dealers
from cohortsum.protocol.evidence_record import Record, record_of
from cohortsum.protocol.masking import AddMasks, add_over, mask, site_keys, words_digest, words_to_bytes
from cohortsum.protocol.messages import (
    Abort,
    Adverts,
    Closing,
    Complaint,
    Consistency,
    DataShares,
    Delivery,
    Envelope,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    Opening,
    Packet,
    Quorum,
    ShareEntry,
    Shares,
    Survivors,
    Tombstone,
)
from cohortsum.protocol.roster import Role, Roster
from cohortsum.protocol.seeds import (
    Seeds,
    advertise,
    channel_key,
    channel_secret,
    ciphertext_digest,
    deal,
    mask_key,
    pack_shares,
    pair_mask_keys,
    sealing_data,
    sealing_key,
    self_mask_key,
)
from cohortsum.protocol.site_states import (
    Advertised,
    Agreed,
    Attempt,
    Contributing,
    DataAnswered,
    Dealt,
    GateAnswered,
    Idle,
    Masked,
    Over,
    Roll,
    Shared,
    SiteSetup,
    SiteState,
)
from cohortsum.protocol.transcript import statement
from cohortsum.protocol.unlocking import offered_key

Effects = tuple[SiteEffect, ...]


class SiteRound:
    """One site's part in one attempt.

    Args:
        setup: what the site brings.
        randomness: ``randomness(size) -> bytes`` from the system's generator.
        add: how masks are added; an edge may spread it over threads.
    """

    def __init__(
        self, setup: SiteSetup, randomness: Callable[[int], bytes], add: AddMasks = add_over
    ) -> None:
        self.setup = setup
        self._add = add
        self.state: SiteState = Idle()
        self._randomness = randomness
        self._answers: dict[Kind, tuple[bytes, Effects]] = {}
        self._told: dict[Kind, Envelope] = {}

    def receive(self, packet: Packet) -> Effects:
        """Return what to do about a packet of the coordinator.

        Raises:
            RemoteProtocolError: a check failed; the state is unchanged.
        """
        envelope = packet.envelope
        key = digest("cohortsum/v1/packet", envelope.digest, *packet.attachments)
        known = self._answers.get(envelope.kind)
        if known is not None:
            if known[0] == key:
                return known[1]
            attempt = _attempt(self.state)
            if attempt is not None:  # evidence only if the coordinator signed it for this very context
                open_any(envelope, attempt.context, self.setup.roster, Role.COORDINATOR)
            raise RemoteProtocolError("M5", f"a second {envelope.kind.name} with other bytes in one context")
        state, effects = self._step(packet)
        self.state = state
        self._answers[envelope.kind] = (key, effects)
        self._told[envelope.kind] = envelope
        if isinstance(state, Over):
            self._answers = {}
        return effects

    def contribute(self, people: int, values: NDArray[np.int64], gate_noise: int = 0) -> Effects:
        """Mask this site's values and return the records and the message to send.

        Args:
            people: people of the cohort at this site.
            values: (total size of the blocks,) int64, in the order of the `Contribute` effect.
            gate_noise: of the count at the gate, in units of its grid.

        Raises:
            LocalProtocolError: the values break the plan's bounds, or none are awaited.
        """
        state = self.state
        if not isinstance(state, Contributing):
            raise LocalProtocolError("R2", f"no contribution is awaited in state {type(state).__name__}")
        setup, attempt, roll, dealt = self.setup, state.attempt, state.roll, state.dealt
        checks.contribution(setup, attempt, people, values)
        capped = min(people, setup.plan.protection.gate_cap) * setup.plan.gate_levels
        gate = np.array([capped + gate_noise], dtype=np.int64)
        own = mask_key(roll.secrets, attempt.seeds.element("mask"))
        pairs = {
            peer: pair_mask_keys(
                own, setup.index, roll.adverts[peer].mask_key, peer, attempt.context, roll.h1, dealt.h2
            )
            for peer in dealt.shares
            if peer != setup.index
        }
        parts = {"gate": gate, "data": values}
        words = {
            part: mask(
                vector,
                site_keys(
                    part,
                    setup.index,
                    self_mask_key(attempt.context, part, setup.index, attempt.seeds.element(part)),
                    pairs,
                ),
                self._add,
                setup.plan.modulus if part == "data" else 0,
            )
            for part, vector in parts.items()
        }
        if attempt.key is not None:
            words["data"] = attempt.key.encrypt(words["data"])
        message = MaskedInput(roll.h1, dealt.h2, words_digest(words["gate"]), words_digest(words["data"]))
        envelope = setup.signer.sign(attempt.context, message)
        self.state = Masked(attempt, roll, dealt, envelope)
        return (
            ContextSpent(
                attempt.context,
                envelope.digest,
                roll.h1,
                dealt.h2,
                frozenset(roll.adverts),
                frozenset(dealt.shares),
            ),
            Send(Packet(envelope, (words_to_bytes(words["gate"]),)), words["data"]),
        )

    def prove(self, packet: Packet, roster: Roster) -> tuple[Evidence, ...]:
        """Return the evidence that a refused packet gives, behind what the coordinator told before; most give none.

        Args:
            packet: as it was refused.
            roster: the whole one that the study names, denied identities included.
        """
        setup, told, state = self.setup, self._told, self.state
        found = of_coordinator(told, packet, roster, setup.plan)
        if not isinstance(state, Shared):
            return found

        def key(dealer: int) -> SecretBytes | None:
            context, h1, channel = state.attempt.context, state.roll.h1, state.channels.get(dealer)
            return None if channel is None else sealing_key(channel, context, dealer, setup.index, h1)

        return (*found, *of_dealers(told, packet, setup.index, key, roster, setup.plan))

    @property
    def record(self) -> Record | None:
        """What the coordinator told this site of the attempt, for comparison with another site's; None where that is nothing yet."""
        return record_of(self._told)

    def complain(self, error: RemoteProtocolError) -> Effects:
        """Return the signed complaint about a dealer whose own message proves it wrong, if the error names one."""
        attempt = _attempt(self.state)
        if attempt is None or not error.accused:
            return ()
        return (Send(Packet(self.setup.signer.sign(attempt.context, Complaint(error.check, error.accused)))),)

    def abandon(self, reason: str) -> Effects:
        """Stop this context and wipe its secrets."""
        attempt = _attempt(self.state)
        if attempt is None:
            return ()
        attempt.seeds.wipe()
        self.state = Over(attempt.context)
        self._answers = {}
        return (RoundOver(attempt.context, reason),)

    def _step(self, packet: Packet) -> tuple[SiteState, Effects]:
        state = self.state
        if isinstance(state, Idle):
            return self._advertise(packet)
        attempt = _attempt(state)
        if attempt is None:
            raise RemoteProtocolError("M4", f"{packet.envelope.kind.name} for a round that is over")
        message = open_any(packet.envelope, attempt.context, self.setup.roster, Role.COORDINATOR)
        if isinstance(message, Abort):
            attempt.seeds.wipe()
            over = RoundOver(attempt.context, message.reason)
            if isinstance(
                state, GateAnswered | DataAnswered
            ):  # shares are out: no word of this site closes the attempt
                return Over(attempt.context), (over,)
            stone = self.setup.signer.sign(attempt.context, Tombstone())
            return Over(attempt.context), (Send(Packet(stone)), over)
        match state:
            case Advertised() if isinstance(message, Adverts):
                return self._share(state, message)
            case Shared() if isinstance(message, Delivery):
                return self._hold(state, message, packet)
            case Masked() if isinstance(message, Survivors):
                return self._agree(state, message)
            case Agreed() if isinstance(message, Quorum):
                return self._answer_gate(state, message)
            case GateAnswered() if isinstance(message, GateOpening):
                return self._answer_data(state.agreed, message)
            case DataAnswered() | GateAnswered() if isinstance(message, Closing):
                return self._close(state.agreed, message, packet.attachments)
            case Agreed() if isinstance(message, Closing):  # t others sufficed before this site could answer
                return self._close(state, message, packet.attachments)
            case _:
                raise RemoteProtocolError(
                    "M4", f"{packet.envelope.kind.name} is not expected in state {type(state).__name__}"
                )

    def _advertise(self, packet: Packet) -> tuple[SiteState, Effects]:
        setup, plan, envelope = self.setup, self.setup.plan, packet.envelope
        opening = open_envelope(envelope, Opening, envelope.context, setup.roster, Role.COORDINATOR)
        checks.opening(setup, opening)
        supplies = setup.approvals.read(opening.approvals)
        approvals = [held.digest for held in opening.approvals]
        batch = (opening.ahead, opening.dealt, opening.slot)
        inputs = public_inputs(plan.digest, approvals, opening.survivors, opening.earlier, *batch)
        context = context_hash(plan.roster_digest, plan.study_digest, opening.key, plan.epoch, inputs)
        if context != envelope.context:
            raise RemoteProtocolError("M3", "the opening's context is not the one this site derives from it")
        lock = offered_key(packet.attachments, context, plan.encryption, setup.roster)
        bound, within = setup.bound_survivors or opening.survivors or None, None
        if plan.iteration > 1:
            bound, within = setup.bound_survivors, opening.survivors
        unchanged = setup.earlier[opening.earlier].unchanged if opening.earlier else frozenset[str]()
        blocks = plan.travelling(supplies, unchanged)
        seen = RoundSeen(context, opening.key)
        if setup.ahead is not None and opening.dealt:
            seeds, adverts, shares = setup.ahead.spend(opening.slot)
            attempt = Attempt(context, bound, within, blocks, supplies, seeds)
            secrets = slot_context(opening.dealt, opening.slot)
            roll = Roll(setup.ahead.h1, setup.ahead.threshold, adverts, secrets)
            self._told = {held.kind: held for held in setup.ahead.told}
            contributing = Contributing(attempt, roll, Dealt(setup.ahead.h2, shares))
            return contributing, (seen, Contribute(context, blocks, len(adverts)))
        own = Seeds.draw(self._randomness, opening.ahead)
        attempt = Attempt(context, bound, within, blocks, supplies, own, lock)
        standing = (setup.counter, setup.protected, setup.used)
        advert = setup.signer.sign(context, advertise(context, setup.index, own, *standing))
        return Advertised(attempt, advert, own), (seen, Send(Packet(advert)))

    def _share(self, state: Advertised, message: Adverts) -> tuple[SiteState, Effects]:
        setup, attempt = self.setup, state.attempt
        roll = checks.roll(setup, state, message)
        own = channel_key(attempt.context, state.own)
        holders = sorted(roll.adverts)
        dealt = [
            deal(seeds, roll.threshold, holders, self._randomness) for seeds in (state.own, *state.own.ahead)
        ]
        entries: list[ShareEntry] = []
        ahead: list[bytes] = []
        ciphertexts: list[bytes] = []
        channels: dict[int, SecretBytes] = {}
        for holder in holders:
            shares, *slots = (one[holder] for one in dealt)
            peer = roll.adverts[holder].channel_key
            channels[holder] = channel_secret(own, peer, attempt.context)
            key = sealing_key(channels[holder], attempt.context, setup.index, holder, roll.h1)
            associated = sealing_data(attempt.context, roll.h1, setup.index, holder)
            plaintext = pack_shares((shares, *slots), setup.index, holder, roll.h1)
            ciphertext = seal(key, plaintext, associated)
            ciphertexts.append(ciphertext)
            commitments = shares.commitments(attempt.context, setup.index, holder)
            entries.append(ShareEntry(holder, ciphertext_digest(ciphertext), *commitments))
            ahead += commitments_for(attempt.context, slots, setup.index, holder)
        envelope = setup.signer.sign(attempt.context, Shares.of(roll.h1, entries, b"".join(ahead)))
        seen = PeersSeen(attempt.context, {index: advert.counter for index, advert in roll.adverts.items()})
        shared = Shared(attempt, roll, envelope, state.own, channels)
        return shared, (seen, Send(Packet(envelope, tuple(ciphertexts))))

    def _hold(self, state: Shared, message: Delivery, packet: Packet) -> tuple[SiteState, Effects]:
        attempt, roll, own = state.attempt, state.roll, state.own
        dealt, slots = checks.delivery(self.setup, state, message, packet.attachments)
        own.channel.wipe()
        attempt = replace(attempt, seeds=own.shared)
        contributing = Contributing(attempt, roll, dealt)
        effect = Contribute(attempt.context, attempt.blocks, len(roll.adverts))
        if not own.ahead:
            return contributing, (effect,)
        told = (self._told[Kind.ADVERTS], packet.envelope)
        held = Ahead(attempt.context, roll.h1, dealt.h2, roll.threshold, roll.adverts, own.ahead, slots, told)
        return contributing, (DealtAhead(held), effect)

    def _agree(self, state: Masked, message: Survivors) -> tuple[SiteState, Effects]:
        attempt, roll, dealt = state.attempt, state.roll, state.dealt
        survivors = checks.survivors(self.setup, state, message)
        stands_by = statement(attempt.context, roll.h1, dealt.h2, message.masked)
        envelope = self.setup.signer.sign(attempt.context, Consistency(stands_by))
        agreed = Agreed(attempt, roll, dealt, survivors, stands_by)
        record = SurvivorsSigned(attempt.context, tuple(sorted(survivors)), stands_by)
        made = {index: roll.adverts[index].counter + 1 for index in survivors}  # their masked inputs exist
        return agreed, (PeersSeen(attempt.context, made), record, Send(Packet(envelope)))

    def _answer_gate(self, state: Agreed, message: Quorum) -> tuple[SiteState, Effects]:
        signatures = checks.quorum(self.setup, state, message)
        named = SurvivorsNamed(state.attempt.context, tuple(sorted(state.survivors)), signatures)
        held = state.dealt.shares
        answer = GateShares(
            state.statement,
            {owner: held[owner].gate for owner in state.survivors},
            {owner: held[owner].mask for owner in state.dropped},
        )
        return GateAnswered(state), (named, *self._answer(state, "gate", answer))

    def _answer_data(self, agreed: Agreed, message: GateOpening) -> tuple[SiteState, Effects]:
        checks.gate(self.setup, agreed, message)
        held = agreed.dealt.shares
        answer = DataShares(agreed.statement, {owner: held[owner].data for owner in agreed.survivors})
        return DataAnswered(agreed), self._answer(agreed, "data", answer)

    def _answer(self, agreed: Agreed, part: str, answer: GateShares | DataShares) -> Effects:
        envelope = self.setup.signer.sign(agreed.attempt.context, answer)
        return Answered(agreed.attempt.context, part, envelope.digest), Send(Packet(envelope))

    def _close(self, agreed: Agreed, message: Closing, words: tuple[bytes, ...]) -> tuple[SiteState, Effects]:
        if message.statement != agreed.statement:
            raise RemoteProtocolError("R5.1", "the closing names another survivor set than this site signed")
        context, survivors = agreed.attempt.context, tuple(sorted(agreed.survivors))
        seen: Effects = ()
        if message.data or words:
            values = checks.recomputed(self.setup, agreed, message, words, self._add)
            seen = (SumSeen(context, survivors, agreed.attempt.blocks, values),)
        agreed.attempt.seeds.wipe()
        return Over(context), (SetOpened(context, message.result_digest), *seen, RoundOver(context, ""))


def _attempt(state: SiteState) -> Attempt | None:
    match state:
        case Idle() | Over():
            return None
        case GateAnswered() | DataAnswered():
            return state.agreed.attempt
        case _:
            return state.attempt
