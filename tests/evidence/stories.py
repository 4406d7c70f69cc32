"""Rounds in memory in which somebody lies, and the evidence that the honest kept."""

from collections.abc import Callable
from dataclasses import fields, replace

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.effects import CoordinatorEffect, Proven
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.messages import (
    Adverts,
    Consistency,
    Delivery,
    Envelope,
    GateOpening,
    Kind,
    MaskedInput,
    Message,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Survivors,
)
from tests.protocol.consortium import Consortium
from tests.protocol.iterations import Attempted, after, first
from tests.protocol.lies import VICTIM, N, opened, resign

Lie = Callable[["Keeping", Packet], Packet]


class Keeping(Consortium):
    """Sites and a coordinator that keep evidence, as their edges do."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_sites: list[tuple[int, Evidence]] = []
        self.at_hub: list[Evidence] = []

    def at_site(self, index: int, packet: Packet) -> None:
        if index in self.down:
            return
        try:
            self.from_site(index, self.machines[index].receive(packet))
        except RemoteProtocolError as error:
            self.errors.append((index, error))
            self.at_sites += [(index, held) for held in self.machines[index].prove(packet, self.roster)]
            self.from_site(index, self.machines[index].complain(error))
            self.from_site(index, self.machines[index].abandon("stopped"))

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        self.at_hub += [effect.evidence for effect in effects if isinstance(effect, Proven)]
        super().from_coordinator(effects)

    def finding(self, evidence: Evidence) -> Finding:
        """Return what a stranger finds in evidence."""
        found = check_evidence(evidence.to_bytes(), self.roster, self.plan)
        assert isinstance(found, Finding), found
        return found

    @property
    def kept(self) -> list[Evidence]:
        return [*(held for _, held in self.at_sites), *self.at_hub]

    @property
    def found(self) -> set[tuple[str, str]]:
        """Who was shown to have broken which check."""
        return {(finding.accused, finding.check) for finding in map(self.finding, self.kept)}


class Watched(Keeping):
    """One round."""


class WatchedFit(Keeping, Attempted):
    """An iteration of a fit."""


def watched(attempt: Attempted) -> WatchedFit:
    """Return an iteration that was not played yet, with evidence kept."""
    return WatchedFit(**{one.name: getattr(attempt, one.name) for one in fields(attempt)})


def fit_with_slots() -> WatchedFit:
    """Return an iteration whose secrets were dealt ahead, not yet played."""
    attempt = first()
    attempt.run()
    attempt = after(attempt, ahead=2)
    attempt.run()
    return watched(after(attempt))


def told_to_victim(kind: Kind, lie: Lie, consortium: Keeping | None = None) -> Keeping:
    """Play a round in which the victim is told ``lie`` instead of one message."""
    played = Watched(N) if consortium is None else consortium

    def to_site(index: int, packet: Packet) -> Packet | None:
        return lie(played, packet) if index == VICTIM and packet.envelope.kind is kind else packet

    played.to_site = to_site
    played.run()
    return played


def then_also(kind: Kind, second: Lie) -> Keeping:
    """Play a round in which the victim is told something else after one message."""
    played = Watched(N)

    def to_site(index: int, packet: Packet) -> Packet | None:
        if index == VICTIM and packet.envelope.kind is kind:
            played.queue.append(("site", index, packet))
            played.queue.append(("site", index, second(played, packet)))
            return None
        return packet

    played.to_site = to_site
    played.run()
    return played


def says(change: Callable[[Message], Message]) -> Lie:
    """Return the lie that signs something else than the message."""
    return lambda played, packet: resign(played, packet, change(opened(packet)))


def _inner(message: Message) -> tuple[Envelope, ...]:
    match message:
        case Adverts(held) | Delivery(held) | Survivors(held) | Quorum(held):
            return held
        case _:
            raise AssertionError(message)


def passing_on(change: Callable[[tuple[Envelope, ...]], tuple[Envelope, ...]]) -> Lie:
    """Return the lie that passes on other messages than the sites sent."""

    def lie(message: Message) -> Message:
        return type(message)(change(_inner(message)))  # type: ignore[call-arg, arg-type]  # one field, of envelopes

    return says(lie)


def forged(envelope: Envelope) -> Envelope:
    return replace(envelope, signature=bytes(64))


def other_opening(message: Message) -> Message:
    assert isinstance(message, Opening)
    return replace(message, survivors=(0, 1, 2))


def wrong_statement(played: Keeping, packet: Packet) -> Packet:
    lied = played.signers[0].sign(packet.envelope.context, Consistency(bytes(32)))
    return resign(played, packet, Quorum((lied, *_inner(opened(packet))[1:])))


def two_signatures(played: Keeping, packet: Packet) -> Packet:
    """Site 0 signed two survivor sets, and one quorum holds both."""
    lied = played.signers[0].sign(packet.envelope.context, Consistency(bytes(32)))
    return resign(played, packet, Quorum((*_inner(opened(packet)), lied)))


def other_transcript(played: Keeping, packet: Packet) -> Packet:
    """Site 0 masked under another transcript, and the coordinator names it a survivor all the same."""
    lied = played.signers[0].sign(packet.envelope.context, MaskedInput(*4 * (bytes(32),)))
    return resign(played, packet, Survivors((lied, *_inner(opened(packet))[1:])))


def gate_with(what: str) -> Lie:
    def change(message: Message) -> Message:
        assert isinstance(message, GateOpening)
        survivors, first = dict(message.survivors), message.survivors[0]
        if what == "words":
            survivors[0] = OpenedGate(bytes(8), first.seed)
        elif what == "seed":
            survivors[0] = OpenedGate(first.words, first.seed ^ 1)
        else:
            del survivors[0]
        return GateOpening(survivors, message.dropped)

    return says(change)


COORDINATOR_LIES: dict[str, tuple[str, Callable[[], Keeping]]] = {
    "forged advert": (
        "M1",
        lambda: told_to_victim(Kind.ADVERTS, passing_on(lambda held: (forged(held[0]), *held[1:]))),
    ),
    "advert twice": ("R1.2", lambda: told_to_victim(Kind.ADVERTS, passing_on(lambda held: (held[0], *held)))),
    "too few adverts": (
        "R1.6",
        lambda: told_to_victim(Kind.ADVERTS, passing_on(lambda held: held[VICTIM : VICTIM + 2])),
    ),
    "dealers out of order": (
        "R2.1",
        lambda: told_to_victim(Kind.DELIVERY, passing_on(lambda held: held[::-1])),
    ),
    "survivor twice": (
        "R3.1",
        lambda: told_to_victim(Kind.SURVIVORS, passing_on(lambda held: (held[0], *held))),
    ),
    "too few survivors": (
        "R3.3",
        lambda: told_to_victim(Kind.SURVIVORS, passing_on(lambda held: held[VICTIM:])),
    ),
    "another transcript": ("R3.7", lambda: told_to_victim(Kind.SURVIVORS, other_transcript)),
    "small quorum": ("R4.3", lambda: told_to_victim(Kind.QUORUM, passing_on(lambda held: held[:3]))),
    "signer twice": ("R4.1", lambda: told_to_victim(Kind.QUORUM, passing_on(lambda held: 5 * held[:1]))),
    "another statement": ("R4.4", lambda: told_to_victim(Kind.QUORUM, wrong_statement)),
    "gate words": ("R4.5", lambda: told_to_victim(Kind.GATE_OPENING, gate_with("words"))),
    "gate survivors": ("R4.5", lambda: told_to_victim(Kind.GATE_OPENING, gate_with("survivors"))),
    "gate seed": ("R4.6", lambda: told_to_victim(Kind.GATE_OPENING, gate_with("seed"))),
    "opening": ("M5", lambda: then_also(Kind.OPENING, says(other_opening))),
    "adverts": ("M5", lambda: then_also(Kind.ADVERTS, passing_on(lambda held: held[:4]))),
    "delivery": ("M5", lambda: then_also(Kind.DELIVERY, passing_on(lambda held: held[:4]))),
    "survivors": ("M5", lambda: then_also(Kind.SURVIVORS, passing_on(lambda held: held[:4]))),
    "quorum": ("M5", lambda: then_also(Kind.QUORUM, passing_on(lambda held: held[:3]))),
    "gate opening": ("M5", lambda: then_also(Kind.GATE_OPENING, gate_with("words"))),
}
"""By name, the check that the evidence shows broken, and a round in which the coordinator lies so to one site."""


def answering(index: int, change: Callable[[Message], Message]) -> Watched:
    """Play a round in which a site sends something else than it should."""
    played = Watched(N)

    def to_coordinator(sender: int, packet: Packet) -> Packet:
        message = opened(packet)
        lied = change(message)
        if sender != index or lied == message:
            return packet
        return Packet(played.signers[index].sign(packet.envelope.context, lied), packet.attachments)

    played.to_coordinator = to_coordinator
    played.run()
    return played
