"""The coordinator in a round: a pure state machine that relays, adds and opens.

It is trusted for liveness only; everything it tells a site is checked there. A step ends when everybody expected has
answered or when its deadline passes, and goes on while the thresholds are met. A message that fails a check changes
nothing but the audit log. The machine does no I/O: uploads are spooled and added by the edge, which reports digests.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from cohortsum.crypto.bfv import EncryptionKey
from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import CryptoError, LocalProtocolError, ProtocolError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.shamir import combine
from cohortsum.protocol import coordinator_checks as checks
from cohortsum.protocol.approvals import ApprovalBook
from cohortsum.protocol.bounds import broken_bound, threshold
from cohortsum.protocol.context import RoundKey, context_hash, public_inputs
from cohortsum.protocol.coordinator_states import (
    U1,
    U2,
    U3,
    Aborted,
    Advertising,
    Agreeing,
    Combining,
    CoordinatorSetup,
    CoordinatorState,
    DealtAhead,
    Fixed,
    Input,
    Masking,
    Opened,
    OpeningData,
    OpeningGate,
    Sharing,
)
from cohortsum.protocol.effects import (
    Audit,
    AwaitStep,
    Combine,
    CoordinatorEffect,
    Deliver,
    DiscardUploads,
    MessageTaken,
    Proven,
)
from cohortsum.protocol.envelope import authenticate, open_any
from cohortsum.protocol.evidence import ANSWERS, Evidence
from cohortsum.protocol.evidence_making import of_answer, of_two
from cohortsum.protocol.ledger.tombstones import tombstone_quorum
from cohortsum.protocol.masking import removal_keys, signed
from cohortsum.protocol.messages import (
    Abort,
    Adverts,
    Burial,
    Closing,
    Complaint,
    Consistency,
    DataShares,
    Delivery,
    Envelope,
    GateOpening,
    GateShares,
    Kind,
    Message,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Survivors,
    Tombstone,
)
from cohortsum.protocol.opening import (
    check_gate,
    check_mask_seed,
    check_result,
    check_self_seed,
    dropouts_of,
    gate_sum,
    result_digest,
)
from cohortsum.protocol.plan import Suppliers
from cohortsum.protocol.protected import protected_rule, together
from cohortsum.protocol.roster import Role, SiteId
from cohortsum.protocol.transcript import adverts_digest, shares_digest, statement
from cohortsum.protocol.unlocking import check_offer, offer_attachments

Effects = tuple[CoordinatorEffect, ...]
Disclosure = Callable[[Opened], Mapping[int, bytes]]
"""What is disclosed of an opened sum: the survivors' masked words by index, or nothing."""

STEPS: dict[type, str] = {
    Advertising: "R0 advertise",
    Sharing: "R1 share keys",
    Masking: "R2 masked input",
    Agreeing: "R3 consistency",
    OpeningGate: "R4a open gate",
    OpeningData: "R4b open data",
}
"""Steps that wait for sites, by state; a deadline names the step it was set for."""


def keep_closed(_opened: Opened) -> Mapping[int, bytes]:
    """Disclose nothing."""
    return {}


class CoordinatorRound:
    """The coordinator's part in one attempt.

    Args:
        setup: what the coordinator brings.
        key: identifiers of this attempt; the round id is random.
    """

    def __init__(self, setup: CoordinatorSetup, key: RoundKey) -> None:
        self.setup = setup
        self.state: CoordinatorState = Advertising({})
        if setup.dealt is not None:
            self.state = Masking(*setup.dealt.of_slot(setup.slot), {}, {})
        self._dealt: tuple[U1, U2] | None = None
        plan = setup.plan
        approvals = tuple(envelope for _, envelope in sorted(setup.approvals.items()))
        supplies = ApprovalBook(plan, setup.roster).read(approvals)
        digests = [held.digest for held in approvals]
        dealt = b"" if setup.dealt is None else setup.dealt.context
        batch = (setup.ahead, dealt, setup.slot)
        inputs = public_inputs(plan.digest, digests, setup.bound_survivors, setup.earlier, *batch)
        context = context_hash(plan.roster_digest, plan.study_digest, key, plan.epoch, inputs)
        self.fixed = Fixed(context, plan.travelling(supplies, setup.unchanged), supplies)
        opening = Opening(
            key,
            plan.study_digest,
            plan.roster_digest,
            plan.epoch,
            approvals,
            setup.bound_survivors,
            setup.earlier,
            b"" if plan.iteration == 1 else plan.digest,
            *batch,
        )
        self.opening = setup.signer.sign(context, opening)
        self.encryption_key: EncryptionKey | None = None
        self._offer: tuple[bytes, ...] = ()
        self._received: dict[tuple[Kind, str], bytes] = {}
        self._taken: dict[tuple[Kind, str], Envelope] = {}
        self._shares_kept = False
        self._late: str | None = None

    @property
    def step(self) -> str | None:
        """The step that waits for sites, or None."""
        return STEPS.get(type(self.state))

    @property
    def length(self) -> int:
        """Number of words every site uploads."""
        return self.setup.plan.upload_words(self.fixed.blocks)

    def lock(self, offer: Packet) -> None:
        """Take the key that the trustee offered for this context (two-key mode); it travels with the opening.

        Raises RemoteProtocolError (K0) for any other.
        """
        encryption = self.setup.plan.encryption
        if encryption is None:
            raise LocalProtocolError("K0", "a key for a round whose study does not encrypt")
        self.encryption_key = check_offer(offer, self.fixed.context, encryption, self.setup.roster)
        self._offer = offer_attachments(offer)

    def open(self) -> Effects:
        """Invite every approving site; raises LocalProtocolError (K0) in two-key mode without a key."""
        if self.setup.plan.encryption is not None and not self._offer:
            raise LocalProtocolError("K0", "a round whose study encrypts opens with the key of the trustee")
        packet = Packet(self.opening, self._offer)
        invited = (Deliver(receiver, packet) for receiver in sorted(self.setup.approvals))
        return (*invited, AwaitStep(STEPS[type(self.state)]))

    def receive(self, packet: Packet) -> Effects:
        """Return what to do about a site's packet; refused ones give an audit line, evidence before it, and change nothing."""
        envelope = packet.envelope
        try:
            identity = authenticate(envelope, self.setup.roster, Role.SITE)
            received = digest("cohortsum/v1/packet", envelope.digest, *packet.attachments)
            known = self._received.get((envelope.kind, identity.id))
            if known == received:
                return ()
            message = open_any(envelope, self.fixed.context, self.setup.roster, Role.SITE)
            if known is not None:
                raise RemoteProtocolError("M5", f"a second {envelope.kind.name} with other bytes")
            state, effects = self._step(self.setup.roster.sites[SiteId(identity.id)], message, packet)
        except ProtocolError as error:
            return (*self.prove(envelope), Audit(error.check, envelope.sender, error.message))
        self._received[envelope.kind, identity.id] = received
        self._taken[envelope.kind, identity.id] = envelope
        self.state = state
        return (MessageTaken(packet), *effects, *self._advance())

    def awaits_upload(self, site: int) -> bool:
        """Whether the data words of a site are still to come, or came with another digest than it signed."""
        state = self.state
        return isinstance(state, Masking) and site in state.u2.dealings and site not in state.complete

    def has_upload(self, site: int, data_digest: bytes | None = None) -> bool:
        """Whether the data words of a site are in this round's sum or on their way into it (with this digest)."""
        state = self.state
        if isinstance(state, Masking):
            held = state.inputs[site].masked.data_digest if site in state.complete else None
        elif isinstance(state, Agreeing | OpeningGate | OpeningData | Combining) and site in state.u3.inputs:
            held = state.u3.inputs[site].masked.data_digest
        else:
            held = None
        return held is not None and data_digest in (None, held)

    def uploaded(self, site: int, data_digest: bytes) -> Effects:
        """Note that the edge has spooled the data words of a site, ``length`` of them with this digest."""
        if not isinstance(self.state, Masking) or site not in self.state.u2.dealings:
            return (Audit("R2", str(site), "an upload that is not awaited"),)
        self.state = replace(self.state, uploads={**self.state.uploads, site: data_digest})
        return self._advance()

    def deadline_passed(self, step: str, final: bool = True) -> Effects:
        """Go on with who is there, or abort; a deadline of an earlier step changes nothing.

        A deadline that is not final aborts nothing once a survivor set is named, because the sites still hold the
        secrets that could open it: the step then goes on as soon as enough sites have answered.
        """
        if step != self.step:
            return ()
        self._late = step
        return self._advance(final or not isinstance(self.state, Agreeing | OpeningGate | OpeningData))

    @property
    def dealt_ahead(self) -> DealtAhead | None:
        """What this attempt dealt for iterations after it, once everybody's shares are there; None for nothing."""
        return (
            DealtAhead(self.fixed.context, *self._dealt, self.setup.ahead)
            if self._dealt is not None and self.setup.ahead
            else None
        )

    @property
    def protected(self) -> bool:
        """Whether a site that advertised is protected."""
        return self._dealt is not None and any(advert.protected for advert in self._dealt[0].adverts.values())

    def combined(self, words: Vector, disclosed: Disclosure = keep_closed) -> Effects:
        """Check and close the opened words that the edge computed.

        Args:
            words: the opened sum; residues, where the plan has a modulus.
            disclosed: given the opened sum, returns the survivors' masked words by index where sites are to recompute it,
                or nothing where they are not. While it raises, the sum waits to be opened: whoever keeps it comes first.
        """
        state = self.state
        if not isinstance(state, Combining):
            raise LocalProtocolError("R5", "no opened words are awaited")
        values = signed(words, self.setup.plan.modulus)
        try:
            survivors = len(state.u3.inputs)
            people = check_result(self.setup.plan, self.fixed.blocks, values, survivors, state.gate_total)
        except RemoteProtocolError as error:
            return self._abort(error.message)
        opened = Opened(
            tuple(sorted(state.u1.adverts)), tuple(sorted(state.u3.inputs)), people, self.fixed.blocks, values
        )
        disclosure = disclosed(opened)
        self.state = opened
        closing = Closing(state.u3.statement, result_digest(words))
        inputs = disclosure if self.setup.plan.seen else keep_closed(opened)
        if inputs:
            closing = replace(closing, data=state.data_seeds, mask=state.mask_seeds)
        attached = tuple(words for _, words in sorted(inputs.items()))
        return self._to_all(state.u3.inputs, closing, attached)

    def abort(self, reason: str) -> Effects:
        """End the round without a result."""
        return self._abort(reason)

    def prove(self, envelope: Envelope) -> tuple[Proven, ...]:
        """Return the evidence that a refused message gives; of those that hold shares, one in a context."""
        roster, plan = self.setup.roster, self.setup.plan
        first, state = self._taken.get((envelope.kind, envelope.sender)), self.state
        found: tuple[Evidence, ...] = ()
        if first is not None:
            found = of_two(self.opening, first, envelope, roster, plan)
        elif envelope.kind in ANSWERS and isinstance(state, OpeningGate | OpeningData):
            lists = [held.envelope for _, held in sorted(state.u2.dealings.items())]
            masked = [held.envelope for _, held in sorted(state.u3.inputs.items())]
            found = of_answer(self.opening, lists, masked, envelope, roster, plan)
        if found and found[0].holds_shares:
            found, self._shares_kept = () if self._shares_kept else found, True
        return tuple(map(Proven, found))

    def _step(self, site: int, message: Message, packet: Packet) -> tuple[CoordinatorState, Effects]:
        envelope, state = packet.envelope, self.state
        if isinstance(message, Complaint):
            sentence = f"{envelope.sender} complains about {message.accused} ({message.check})"
            return state, (Audit(message.check, envelope.sender, sentence),)
        match state:
            case Aborted() if isinstance(message, Tombstone):
                if site not in state.advertised:
                    raise RemoteProtocolError("B4", "a tombstone of a site that did not advertise")
                return replace(state, tombstones={**state.tombstones, site: envelope}), ()
            case Advertising() if envelope.kind is Kind.ADVERT:
                if site not in self.setup.approvals:
                    raise RemoteProtocolError("R0.10", "an advert without an approval")
                checks.slots(message, self.setup.ahead)
                return Advertising({**state.adverts, site: envelope}), ()
            case Sharing():
                checks.slots(message, self.setup.ahead)
                dealing = checks.dealing(state.u1, site, envelope, message, packet.attachments)
                return Sharing(state.u1, {**state.dealings, site: dealing}), ()
            case Masking():
                held = checks.masked(state, site, envelope, message, packet.attachments)
                return replace(state, inputs={**state.inputs, site: held}), ()
            case Agreeing():
                checks.consistency(state.u3, site, message)
                return replace(state, signatures={**state.signatures, site: envelope}), ()
            case OpeningGate() if isinstance(message, GateShares):
                checks.gate_shares(state, site, message)
                return replace(state, answers={**state.answers, site: message}), ()
            case OpeningData() if isinstance(message, DataShares):
                checks.data_shares(state, site, message)
                return replace(state, answers={**state.answers, site: message}), ()
            case OpeningGate() if isinstance(message, DataShares):
                # an answer to what this process has not opened yet, after a restart: it comes again
                raise RemoteProtocolError("M4", "data shares before the gate is open")
            case OpeningGate() | OpeningData() | Combining() | Opened() if isinstance(
                message, Consistency | GateShares | DataShares
            ):
                return state, ()  # t answers were enough; later ones are honest but no longer needed
            case _:
                raise RemoteProtocolError("M4", f"{envelope.kind.name} is not expected now")

    def _advance(self, may_abort: bool = False) -> Effects:
        state, deadline = self.state, self._late is not None and self._late == self.step
        match state:
            case Advertising():
                ready = state.adverts.keys() == self.setup.approvals.keys()
                return self._to_sharing(state) if ready or deadline else ()
            case Sharing():
                ready = state.dealings.keys() == state.u1.adverts.keys()
                return self._to_masking(state) if ready or deadline else ()
            case Masking():
                ready = state.complete == tuple(sorted(state.u2.dealings))
                return self._to_agreeing(state) if ready or deadline else ()
            case Agreeing():
                if len(state.signatures) >= state.u1.threshold:
                    signatures = [envelope for _, envelope in sorted(state.signatures.items())]
                    quorum = Quorum(tuple(signatures[: state.u1.threshold]))
                    self.state = OpeningGate(state.u1, state.u2, state.u3, {})
                    return (*self._to_all(state.u3.inputs, quorum), AwaitStep(STEPS[OpeningGate]))
            case OpeningGate():
                if len(state.answers) >= state.u1.threshold:
                    return self._to_data(state)
            case OpeningData():
                if len(state.answers) >= state.u1.threshold:
                    return self._to_combining(state)
            case Aborted():
                return self._bury(state)
            case Combining() | Opened():
                return ()
        return self._abort(f"{self.step}: too few sites answered in time") if may_abort else ()

    def _to_sharing(self, state: Advertising) -> Effects:
        protection = self.setup.plan.protection
        everybody = checks.adverts(
            self.fixed.context,
            tuple(envelope for _, envelope in sorted(state.adverts.items())),
            self.setup.roster,
        )
        members = together(everybody, self.fixed.supplies, protection.suppliers_least)
        state = Advertising({index: held for index, held in state.adverts.items() if index in members})
        n = len(state.adverts)
        broken = broken_bound(n, self.setup.plan.protection)
        if broken is not None:
            return self._abort(broken)
        if self._lacks_one(tuple(sorted(state.adverts))):
            return self._abort("a retry needs every survivor of the earlier attempt")
        envelopes = tuple(envelope for _, envelope in sorted(state.adverts.items()))
        adverts = {index: everybody[index] for index in sorted(members)}
        u1 = U1(adverts_digest(self.fixed.context, envelopes), threshold(n), adverts, self.fixed.context)
        self.state = Sharing(u1, {})
        return (*self._to_all(adverts, Adverts(envelopes)), AwaitStep(STEPS[Sharing]))

    def _to_masking(self, state: Sharing) -> Effects:
        least = max(state.u1.threshold, self.setup.plan.protection.min_sites)
        if len(state.dealings) < least:
            return self._abort(f"{len(state.dealings)} sites dealt shares, {least} are required")
        envelopes = tuple(held.envelope for _, held in sorted(state.dealings.items()))
        u2 = U2(shares_digest(self.fixed.context, state.u1.h1, envelopes), state.dealings)
        self.state = Masking(state.u1, u2, {}, {})
        self._dealt = (state.u1, u2)
        envelope = self.setup.signer.sign(self.fixed.context, Delivery(envelopes))
        deliveries = (
            Deliver(
                receiver,
                Packet(
                    envelope, tuple(held.ciphertexts[receiver] for _, held in sorted(state.dealings.items()))
                ),
            )
            for receiver in sorted(state.dealings)
        )
        return (*deliveries, AwaitStep(STEPS[Masking]))

    def _to_agreeing(self, state: Masking) -> Effects:
        members = state.complete
        protection = self.setup.plan.protection
        least = max(state.u1.threshold, protection.min_sites)
        if len(members) < least:
            return self._abort(f"{len(members)} sites sent their masked vectors, {least} are required")
        if self._lacks_one(members):
            return self._abort("a retry needs every survivor of the earlier attempt")
        suppliers = Suppliers({index: self.fixed.supplies[index] for index in members})
        for block in self.fixed.blocks:
            if suppliers.least(block) - protection.max_colluding_sites < protection.min_honest_inputs:
                return self._abort(f"too few sites with block {block.name} survive")
        broken = protected_rule(
            {index: state.u1.adverts[index] for index in members},
            {index: self.fixed.supplies[index] for index in members},
            protection.suppliers_least,
        )
        if broken is not None:
            return self._abort(broken)
        inputs = {index: state.inputs[index] for index in members}
        envelopes = tuple(held.envelope for held in inputs.values())
        stands_by = statement(self.fixed.context, state.u1.h1, state.u2.h2, envelopes)
        self.state = Agreeing(state.u1, state.u2, U3(inputs, stands_by), {})
        survivors = self._to_all(inputs, Survivors(envelopes))
        return (DiscardUploads(members), *survivors, AwaitStep(STEPS[Agreeing]))

    def _to_data(self, state: OpeningGate) -> Effects:
        secrets, adverts = state.u1.secrets, state.u1.adverts
        dropped = sorted(state.u2.dealings.keys() - state.u3.inputs.keys())
        try:
            gate = self._combine(
                state.u1, {site: answer.gate for site, answer in state.answers.items()}, state.u3.inputs
            )
            mask = self._combine(
                state.u1, {site: answer.mask for site, answer in state.answers.items()}, dropped
            )
            for owner, seed in gate.items():
                check_self_seed(secrets, "gate", owner, seed, adverts[owner], "R4.6")
            for owner, seed in mask.items():
                check_mask_seed(secrets, owner, seed, adverts[owner], "R4.7")
            opening = GateOpening(
                {owner: OpenedGate(state.u3.inputs[owner].gate_words, seed) for owner, seed in gate.items()},
                mask,
            )
            dropouts = dropouts_of(secrets, mask, state.u3.inputs, adverts)
            total = gate_sum(self.fixed.context, state.u1.h1, state.u2.h2, opening, dropouts)
            check_gate(total, self.setup.plan, 0, "R4.8")
        except (RemoteProtocolError, CryptoError) as error:
            return self._abort(error.message)
        packet = Packet(self.setup.signer.sign(self.fixed.context, opening))
        told = tuple(Deliver(receiver, packet) for receiver in sorted(state.u3.inputs))
        self.state = OpeningData(state.u1, state.u2, state.u3, total, mask, dropouts, {}, packet.envelope)
        return (*told, AwaitStep(STEPS[OpeningData]))

    def _to_combining(self, state: OpeningData) -> Effects:
        context, adverts = self.fixed.context, state.u1.adverts
        try:
            seeds = self._combine(
                state.u1, {site: answer.data for site, answer in state.answers.items()}, state.u3.inputs
            )
            for owner, seed in seeds.items():
                check_self_seed(state.u1.secrets, "data", owner, seed, adverts[owner], "R4.6")
        except (RemoteProtocolError, CryptoError) as error:
            return self._abort(error.message)
        keys = removal_keys("data", context, state.u1.h1, state.u2.h2, seeds, state.dropouts)
        self.state = Combining(
            state.u1, state.u2, state.u3, state.gate_total, state.mask_seeds, seeds, state.gate
        )
        return (Combine(tuple(sorted(state.u3.inputs)), keys),)

    def _lacks_one(self, members: tuple[int, ...]) -> bool:
        """Return whether a site is missing without which the attempt may not go on."""
        return bool(self.setup.bound_survivors) and self.setup.exact and members != self.setup.bound_survivors

    @staticmethod
    def _combine(
        u1: U1, answers: Mapping[int, Mapping[int, int]], owners: Mapping[int, Input] | list[int]
    ) -> dict[int, int]:
        """Return the seed of every owner from the answering sites' shares, by owner."""
        return {
            owner: combine({site + 1: shares[owner] for site, shares in answers.items()}, u1.threshold)
            for owner in sorted(owners)
        }

    def _bury(self, state: Aborted) -> Effects:
        """Tell everybody once enough tombstones show that nobody can open the attempt any more."""
        quorum = tombstone_quorum(len(state.advertised), self.setup.plan.protection.max_colluding_sites)
        if state.closed or not state.advertised or len(state.tombstones) < quorum:
            return ()
        self.state = replace(state, closed=True)
        stones = tuple(envelope for _, envelope in sorted(state.tombstones.items()))
        return self._to_all(self.setup.approvals, Burial(stones))

    def _abort(self, reason: str) -> Effects:
        state = self.state
        survivors: tuple[int, ...] = ()
        if isinstance(state, Agreeing | OpeningGate | OpeningData | Combining):
            survivors = tuple(sorted(state.u3.inputs))
        advertised = (
            () if isinstance(state, Advertising | Opened | Aborted) else tuple(sorted(state.u1.adverts))
        )
        bound = self.setup.bound_survivors if self.setup.exact else ()
        self.state = Aborted(reason, survivors or bound, advertised)
        return (*self._to_all(self.setup.approvals, Abort(reason)), DiscardUploads(()))

    def _to_all(
        self, receivers: Mapping[int, object], message: Message, attached: tuple[bytes, ...] = ()
    ) -> tuple[Deliver, ...]:
        packet = Packet(self.setup.signer.sign(self.fixed.context, message), attached)
        return tuple(Deliver(receiver, packet) for receiver in sorted(receivers))
