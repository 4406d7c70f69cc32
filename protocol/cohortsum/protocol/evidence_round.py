"""A round as its coordinator told it, read again by somebody who was not there.

A coordinator that follows the protocol refuses what does not fit before it signs anything about it (`coordinator`), so none of these
checks can fail on its messages, whatever sites send. They are those of a site (`site_checks`) without what only that site knows: its own
messages, its stricter policy, its ledger, and the ciphertexts, which the coordinator does not sign. Numbers come from the signed study.
What a lying site can bring about, equal public keys (R1.5) or a lower counter (R1.9), is not among them.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError
from cohortsum.protocol.ahead import SLOT_BYTES, advert_of
from cohortsum.protocol.approvals import ApprovalBook
from cohortsum.protocol.bounds import broken_bound, threshold
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.masking import words_digest, words_from_bytes
from cohortsum.protocol.messages import (
    Advert,
    Adverts,
    Closing,
    Consistency,
    Delivery,
    Envelope,
    GateOpening,
    Kind,
    MaskedInput,
    Message,
    Opening,
    Quorum,
    Shares,
    Survivors,
)
from cohortsum.protocol.opening import check_gate, check_mask_seed, check_self_seed, dropouts_of, gate_sum
from cohortsum.protocol.plan import RoundPlan, Suppliers
from cohortsum.protocol.protected import protected_rule
from cohortsum.protocol.roster import Role, Roster, SiteId
from cohortsum.protocol.transcript import adverts_digest, shares_digest, statement

M = TypeVar("M")
BEFORE: Mapping[Kind, tuple[Kind, ...]] = {
    Kind.ADVERTS: (),
    Kind.DELIVERY: (Kind.ADVERTS,),
    Kind.SURVIVORS: (Kind.ADVERTS, Kind.DELIVERY),
    Kind.QUORUM: (Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS),
    Kind.GATE_OPENING: (Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS),
    Kind.CLOSING: (Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS),
}
"""What a message of the coordinator is read behind."""
DEALING = frozenset({Kind.ADVERTS, Kind.DELIVERY})
"""Messages that an attempt whose secrets were dealt ahead has from the attempt that dealt them."""


@dataclass(frozen=True, slots=True)
class About:
    """The attempt that evidence is about.

    Attributes:
        opening: what opened it.
        context: of the attempt.
        dealing: context of the adverts and share lists; another one where secrets were dealt ahead.
        secrets: the context that keys, commitments and shares are bound to.
    """

    opening: Opening
    context: bytes
    dealing: bytes
    secrets: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """A check that the accused broke."""

    check: str
    accused: str
    sentence: str


def broken_round(evidence: Evidence, about: About, roster: Roster, plan: RoundPlan) -> Broken:
    """Return what the last message of a round breaks; raises AuthenticationError where it, or one before it, breaks nothing or more."""
    if not evidence.messages or evidence.ciphertext or evidence.key or evidence.holder:
        raise AuthenticationError("messages of the coordinator are expected, and nothing else")
    kind = evidence.messages[-1].kind
    if tuple(held.kind for held in evidence.messages) != (*BEFORE.get(kind, (kind,)), kind):
        raise AuthenticationError("the messages are not those that a message of this kind is read behind")
    told: list[Message] = []
    for envelope in evidence.messages:
        context = about.dealing if envelope.kind in DEALING else about.context
        told.append(_own(envelope, context, roster))
    reading = _Reading(about, roster, plan)
    for place, message in enumerate(told):
        try:
            reading.read(message)
        except RemoteProtocolError as error:
            if place < len(told) - 1:
                raise AuthenticationError("a message before the last one is broken by itself") from None
            sentence = f"signed a {kind.name} that breaks {error.check} ({error.message.partition(': ')[2]})"
            return Broken(error.check, roster.coordinator.id, sentence)
    raise AuthenticationError(f"the {kind.name} breaks nothing")


def _own(envelope: Envelope, context: bytes, roster: Roster) -> Message:
    """Return a message of the coordinator in ``context``; raises AuthenticationError for any other."""
    expected = _CLASSES[envelope.kind]
    try:
        return open_envelope(envelope, expected, context, roster, Role.COORDINATOR)
    except RemoteProtocolError as error:
        raise AuthenticationError(error.message) from None


class _Reading:
    """Reads a coordinator's messages in their order; raises RemoteProtocolError under the name of the check that one breaks."""

    def __init__(self, about: About, roster: Roster, plan: RoundPlan) -> None:
        self._about, self._roster, self._plan = about, roster, plan
        self._adverts: dict[int, Advert] = {}
        self._delivered: frozenset[int] = frozenset()
        self._survivors: dict[int, MaskedInput] = {}
        self._h1 = self._h2 = self._statement = b""

    def read(self, message: Message) -> None:
        """Check one message behind those that were read."""
        match message:
            case Adverts():
                self._read_adverts(message)
            case Delivery():
                self._read_delivery(message)
            case Survivors():
                self._read_survivors(message)
            case Quorum():
                self._read_quorum(message)
            case GateOpening():
                self._read_gate(message)
            case Closing():
                self._read_closing(message)
            case _:
                raise AuthenticationError("a kind that no round is read from")

    @property
    def _least(self) -> int:
        return max(threshold(len(self._adverts)), self._plan.protection.min_sites)

    def _opened(self, envelope: Envelope, expected: type[M], context: bytes) -> tuple[int, M]:
        """Return sender and content of a message that the coordinator passed on; it had checked both."""
        message = open_envelope(envelope, expected, context, self._roster, Role.SITE)
        return self._roster.sites[SiteId(envelope.sender)], message

    def _all(self, members: Mapping[int, object], check: str) -> None:
        """An attempt of a first round that is bound to survivors holds exactly these."""
        opening = self._about.opening
        if opening.key.iteration == 1 and opening.survivors and tuple(members) != opening.survivors:
            raise RemoteProtocolError(check, "a retry must hold exactly the survivors that its opening names")

    def _read_adverts(self, message: Adverts) -> None:
        about, own = self._about, self._about.dealing == self._about.context
        approving = {approval.sender for approval in about.opening.approvals}
        for envelope in message.adverts:
            index, advert = self._opened(envelope, Advert, about.dealing)
            if self._adverts and index <= max(self._adverts):
                raise RemoteProtocolError("R1.2", "adverts must come by roster index, once each")
            if own and envelope.sender not in approving:
                raise RemoteProtocolError("R1.3", f"{envelope.sender} advertised without an approval")
            if own and len(advert.ahead) != SLOT_BYTES * about.opening.ahead:
                raise RemoteProtocolError("R1.10", f"{envelope.sender} deals ahead for other iterations")
            if not own and len(advert.ahead) < SLOT_BYTES * about.opening.slot:
                raise AuthenticationError("the slot of the opening is not in the adverts")
            self._adverts[index] = advert
        if len(self._adverts) < self._least:
            raise RemoteProtocolError(
                "R1.6", f"{len(self._adverts)} sites advertised, {self._least} are required"
            )
        if own:
            self._all(self._adverts, "R1.6")
        if (broken := broken_bound(len(self._adverts), self._plan.protection)) is not None:
            raise RemoteProtocolError("R1.7", broken)
        self._h1 = adverts_digest(about.dealing, message.adverts)

    def _read_delivery(self, message: Delivery) -> None:
        about, dealers, members = self._about, list[int](), sorted(self._adverts)
        for envelope in message.shares:
            dealer, listed = self._opened(envelope, Shares, about.dealing)
            if dealer not in self._adverts or (dealers and dealer <= dealers[-1]):
                raise RemoteProtocolError("R2.1", "dealers must have advertised and come by index, once each")
            if listed.adverts_digest != self._h1:
                raise RemoteProtocolError(
                    "R2.4", f"{envelope.sender} dealt under other adverts than those shown"
                )
            if list(listed.holders) != members:
                raise RemoteProtocolError("R2.7", f"{envelope.sender} did not deal to every advertiser")
            dealers.append(dealer)
        if len(dealers) < self._least:
            raise RemoteProtocolError("R2.3", f"{len(dealers)} sites dealt, {self._least} are required")
        self._delivered = frozenset(dealers)
        self._h2 = shares_digest(about.dealing, self._h1, message.shares)

    def _read_survivors(self, message: Survivors) -> None:
        about, plan, members = self._about, self._plan, self._survivors
        for envelope in message.masked:
            index, masked = self._opened(envelope, MaskedInput, about.context)
            if index not in self._delivered or (members and index <= max(members)):
                raise RemoteProtocolError("R3.1", "survivors must have dealt and come by index, once each")
            if (masked.adverts_digest, masked.shares_digest) != (self._h1, self._h2):
                raise RemoteProtocolError("R3.7", f"{envelope.sender} masked under another transcript")
            members[index] = masked
        if len(members) < self._least:
            raise RemoteProtocolError("R3.3", f"{len(members)} survivors, {self._least} are required")
        self._all(members, "R3.3")
        self._supplies(plan)
        self._statement = statement(about.context, self._h1, self._h2, message.masked)

    def _supplies(self, plan: RoundPlan) -> None:
        """R3.6, R3.8: what the survivors supply suffices, and protected sites are there together or not at all."""
        opening, protection = self._about.opening, plan.protection
        try:
            supplies = ApprovalBook(plan, self._roster).read(opening.approvals)
        except RemoteProtocolError as error:  # of the opening, and not what this message breaks
            raise AuthenticationError(error.message) from None
        if not self._survivors.keys() <= supplies.keys():
            raise RemoteProtocolError("R1.3", "a survivor without an approval")
        if opening.key.iteration == 1 and not opening.earlier:
            suppliers = Suppliers({index: supplies[index] for index in self._survivors})
            for block in plan.kept(supplies):
                if suppliers.least(block) - protection.max_colluding_sites < protection.min_honest_inputs:
                    raise RemoteProtocolError("R3.6", f"too few suppliers of block {block.name} survive")
        broken = protected_rule(
            {index: self._advert(index) for index in self._survivors},
            {index: supplies[index] for index in self._survivors},
            protection.suppliers_least,
        )
        if broken is not None:
            raise RemoteProtocolError("R3.8", broken)

    def _read_quorum(self, message: Quorum) -> None:
        signers: list[int] = []
        for envelope in message.signatures:
            index, signed = self._opened(envelope, Consistency, self._about.context)
            if signed.statement != self._statement:
                raise RemoteProtocolError("R4.4", f"{envelope.sender} signed another survivor set")
            signers.append(index)
        if len(set(signers)) != len(signers):
            raise RemoteProtocolError("R4.1", "a signer is counted twice")
        if not set(signers) <= self._survivors.keys():
            raise RemoteProtocolError("R4.2", "a signer is no survivor")
        if len(signers) < (least := threshold(len(self._adverts))):
            raise RemoteProtocolError("R4.3", f"{len(signers)} signatures, {least} are required")

    def _read_gate(self, message: GateOpening) -> None:
        about = self._about
        if (
            message.survivors.keys() != self._survivors.keys()
            or frozenset(message.dropped) != self._delivered - self._survivors.keys()
        ):
            raise RemoteProtocolError("R4.5", "the opened gate names other survivors or dropouts")
        for owner, opened in message.survivors.items():
            words = words_digest(words_from_bytes(opened.words))
            if not hmac.compare_digest(words, self._survivors[owner].gate_digest):
                raise RemoteProtocolError(
                    "R4.5", f"the gate words of site index {owner} are not those it signed"
                )
            check_self_seed(about.secrets, "gate", owner, opened.seed, self._advert(owner), "R4.6")
        for owner, seed in message.dropped.items():
            check_mask_seed(about.secrets, owner, seed, self._advert(owner), "R4.7")
        if about.opening.key.iteration > 1:
            return  # the noise at the gate, and with it the unit, is in a plan that follows from sums
        adverts = {index: self._advert(index) for index in self._adverts}
        dropouts = dropouts_of(about.secrets, message.dropped, message.survivors, adverts)
        total = gate_sum(about.context, self._h1, self._h2, message, dropouts)
        check_gate(total, self._plan, 0, "R4.8")

    def _read_closing(self, message: Closing) -> None:
        if message.statement != self._statement:
            raise RemoteProtocolError("R5.1", "the closing names another survivor set")

    def _advert(self, index: int) -> Advert:
        """Return an advert with the keys and commitments that this attempt uses."""
        opening = self._about.opening
        return advert_of(self._adverts[index], opening.slot) if opening.dealt else self._adverts[index]


_CLASSES: Mapping[Kind, type[Message]] = {
    Kind.ADVERTS: Adverts,
    Kind.DELIVERY: Delivery,
    Kind.SURVIVORS: Survivors,
    Kind.QUORUM: Quorum,
    Kind.GATE_OPENING: GateOpening,
    Kind.CLOSING: Closing,
}
