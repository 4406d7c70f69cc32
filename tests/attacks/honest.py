"""The product's own coordinator over hostile sites: the machine in memory, and the whole service over gRPC."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.node.joining import Site
from cohortsum.node.session import StudySession
from cohortsum.protocol import codec
from cohortsum.protocol.coordinator_states import CoordinatorState
from cohortsum.protocol.effects import Audit, Combine, CoordinatorEffect, Deliver, Send
from cohortsum.protocol.masking import add_words, words_digest
from cohortsum.protocol.messages import Kind, Message, Packet
from tests.attacks.sites import Machines
from tests.edges.harness import STUDY, Loopback

Bent = Mapping[tuple[int, Kind], Callable[[Message], Message]]


@dataclass
class Coordinated:
    """How a round under the honest coordinator ended."""

    state: CoordinatorState
    audits: list[Audit] = field(default_factory=list[Audit])
    uploads: dict[int, Vector] = field(default_factory=dict[int, Vector])
    refusals: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])

    @property
    def blamed(self) -> set[tuple[str, str]]:
        """The checks under which the coordinator refused messages, with their senders."""
        return {(audit.check, audit.sender) for audit in self.audits}


def coordinate(sites: Machines) -> Coordinated:
    """Play a whole round; deadlines pass whenever everything is quiet. ``refusals``: first check and accused, by site."""
    coordinator = sites.consortium.coordinator
    ended = Coordinated(coordinator.state)
    queue: deque[CoordinatorEffect] = deque(coordinator.open())
    while queue or coordinator.step is not None:
        if not queue:
            queue.extend(coordinator.deadline_passed(coordinator.step or ""))
            continue
        effect = queue.popleft()
        match effect:
            case Deliver():
                reply = sites.tell(effect.receiver, effect.packet)
                if reply.refused:
                    ended.refusals.setdefault(effect.receiver, (reply.refused, reply.accused))
                for send in reply.sends:
                    queue.extend(coordinator.receive(send.packet))
                    if send.words is not None:
                        ended.uploads[effect.receiver] = send.words
                        queue.extend(coordinator.uploaded(effect.receiver, words_digest(send.words)))
            case Combine():
                total = add_words((ended.uploads[site] for site in effect.survivors), coordinator.length)
                add_masks(total, effect.keys.plus, effect.keys.minus)
                queue.extend(coordinator.combined(total))
            case Audit():
                ended.audits.append(effect)
            case _:
                pass
    ended.state = coordinator.state
    return ended


class BentSession(StudySession):
    """A node whose owner signs other messages than the product made."""

    def __init__(self, site: Site, bent: Mapping[Kind, Callable[[Message], Message]]) -> None:
        super().__init__(site)
        self._signer, self._bent = site.signer, bent

    def handle(self, packet: Packet) -> tuple[Send, ...]:
        return tuple(self._changed(send) for send in super().handle(packet))

    def _changed(self, send: Send) -> Send:
        envelope = send.packet.envelope
        change = self._bent.get(envelope.kind)
        if change is None:
            return send
        message = change(codec.decode(envelope.kind, envelope.payload))
        return Send(Packet(self._signer.sign(envelope.context, message), send.packet.attachments), send.words)


class WithHostileNodes(Loopback):
    """The product's coordinator on loopback, and nodes some of which are bent, by index and kind."""

    def __init__(self, folder: Path, sites: int, bent: Bent, study: str = STUDY) -> None:
        super().__init__(folder, sites, study)
        self._bent = bent

    def make_session(self, site: Site) -> StudySession:
        mine = {
            kind: change
            for (index, kind), change in self._bent.items()
            if index == site.signer.identity.index
        }
        return BentSession(site, mine) if mine else super().make_session(site)
