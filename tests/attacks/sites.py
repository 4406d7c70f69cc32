"""Honest and hostile sites as a hostile coordinator meets them: it tells one something and gets whatever that site sends back.

Three kinds of sites answer to the same `Sites`: bare state machines (here), whole sessions with ledger and tables (`sessions`),
and nodes behind real gRPC (`served`). Hostile sites exist among the machines: they run the product's machine, hand every secret
to the coordinator, and sign with their own key whatever the script makes of their messages.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol import codec
from cohortsum.protocol.effects import Contribute, Send, SiteEffect, SumSeen
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import words_digest, words_from_bytes, words_to_bytes
from cohortsum.protocol.messages import Envelope, Kind, MaskedInput, Message, Packet
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.seeds import HeldShares
from cohortsum.protocol.site import SiteRound
from cohortsum.protocol.site_states import Advertised, Contributing, Masked, Shared
from cohortsum.study.sums import Integers
from tests.protocol.consortium import Consortium


@dataclass(frozen=True)
class Reply:
    """What one site made of one packet.

    ``refused`` is the check that failed, empty if none did; ``accused`` whom the site blames for it; ``stopped`` why a node left the
    attempt, as only its own log has it.
    """

    sends: tuple[Send, ...] = ()
    refused: str = ""
    accused: str = ""
    stopped: str = ""

    def of(self, kind: Kind) -> Send | None:
        """Return what it sent of one kind."""
        return next((send for send in self.sends if send.packet.envelope.kind is kind), None)


@dataclass
class Betrayed:
    """The secrets of a hostile site in one context: its own seeds by kind, and the shares that it holds, by dealer."""

    seeds: Mapping[str, int]
    held: Mapping[int, HeldShares] = field(default_factory=dict[int, HeldShares])


class Sites(Protocol):
    """Sites that approved a study, from the coordinator's side."""

    @property
    def roster(self) -> Roster: ...

    @property
    def plan(self) -> RoundPlan: ...

    @property
    def hub(self) -> Signer: ...

    @property
    def approvals(self) -> Mapping[int, Envelope]: ...

    @property
    def betrayed(self) -> Mapping[tuple[bytes, int], Betrayed]:
        """Secrets of hostile sites, by context and index."""
        ...

    def people(self, index: int) -> int:
        """Return how many people a site truly has: the first number of its vector."""
        ...

    def tell(self, index: int, packet: Packet) -> Reply:
        """Hand a packet to a site and return its reply."""
        ...


class Machines:
    """The sites of a `Consortium` without its coordinator.

    Args:
        consortium: whose machines, values and keys these are.
        hostile: sites that hand over their secrets.
        bent: what hostile sites make of a message before they sign it, by index and kind.
        poisoned: what hostile sites add to their gate word and to their first data word behind the people, past all checks.
    """

    def __init__(
        self,
        consortium: Consortium,
        hostile: frozenset[int] = frozenset(),
        bent: Mapping[tuple[int, Kind], Callable[[Message], Message]] | None = None,
        poisoned: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.consortium, self.hostile = consortium, hostile
        self.bent, self.poisoned = bent or {}, poisoned or {}
        self.betrayed: dict[tuple[bytes, int], Betrayed] = {}
        self.effects: dict[int, list[SiteEffect]] = {index: [] for index in consortium.machines}
        self.seen: dict[int, Integers] = {}

    @property
    def roster(self) -> Roster:
        return self.consortium.roster

    @property
    def plan(self) -> RoundPlan:
        return self.consortium.coordinator.setup.plan

    @property
    def hub(self) -> Signer:
        return self.consortium.coordinator.setup.signer

    @property
    def approvals(self) -> Mapping[int, Envelope]:
        return self.consortium.approvals

    def people(self, index: int) -> int:
        return self.consortium.people(index)

    def machine(self, index: int) -> SiteRound:
        return self.consortium.machines[index]

    def tell(self, index: int, packet: Packet) -> Reply:
        """As a session does: M1 to M5 cost the message, any other failure ends the attempt with a complaint."""
        machine = self.machine(index)
        try:
            return Reply(self._carry_out(index, machine.receive(packet)))
        except RemoteProtocolError as error:
            if error.check.startswith("M"):
                return Reply((), error.check, error.accused)
            sends = self._carry_out(index, (*machine.complain(error), *machine.abandon(error.message)))
            return Reply(sends, error.check, error.accused)

    def _carry_out(self, index: int, effects: tuple[SiteEffect, ...]) -> tuple[Send, ...]:
        if index in self.hostile:
            self._betray(index)
        sends: list[Send] = []
        for effect in effects:
            self.effects[index].append(effect)
            match effect:
                case Send():
                    sends.append(self._bend(index, effect))
                case Contribute():
                    length = sum(block.size for block in effect.blocks)
                    values = self.consortium.values(index, length)
                    people = self.consortium.people(index)
                    effects = self.machine(index).contribute(people, values)
                    sends += self._carry_out(index, effects)
                case SumSeen():
                    self.seen[index] = effect.values
                case _:
                    pass
        return tuple(sends)

    def _bend(self, index: int, send: Send) -> Send:
        """Let a hostile site sign something else; it then stands by what it signed."""
        envelope = send.packet.envelope
        if send.words is not None and index in self.poisoned:
            return self._poison(index, send, send.words)
        change = self.bent.get((index, envelope.kind))
        if change is None:
            return send
        message = change(codec.decode(envelope.kind, envelope.payload))
        signed = self.consortium.signers[index].sign(envelope.context, message)
        return Send(Packet(signed, send.packet.attachments), send.words)

    def _poison(self, index: int, send: Send, words: Vector) -> Send:
        envelope, machine = send.packet.envelope, self.machine(index)
        at_gate, in_data = self.poisoned[index]
        gate = words_from_bytes(send.packet.attachments[0])
        gate += np.uint64(at_gate % 2**64)
        words[1:2] += np.uint64(in_data % 2**64)
        message = codec.decode(envelope.kind, envelope.payload)
        assert isinstance(message, MaskedInput)
        message = replace(message, gate_digest=words_digest(gate), data_digest=words_digest(words))
        signed = self.consortium.signers[index].sign(envelope.context, message)
        assert isinstance(machine.state, Masked)
        machine.state = replace(machine.state, masked=signed)
        return Send(Packet(signed, (words_to_bytes(gate),)), words)

    def _betray(self, index: int) -> None:
        match self.machine(index).state:
            case Advertised(attempt=attempt) | Shared(attempt=attempt):
                held: Mapping[int, HeldShares] = {}
            case Contributing(attempt=attempt, dealt=dealt) | Masked(attempt=attempt, dealt=dealt):
                held = dealt.shares
            case _:
                return
        seeds = {kind: attempt.seeds.element(kind) for kind in ("mask", "gate", "data")}
        self.betrayed[attempt.context, index] = Betrayed(seeds, held)
