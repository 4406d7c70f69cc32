"""What the store holds of an open attempt, so that another process can go on with it.

The coordinator's machine is a function of what came in and in which order. So its inputs are kept, each before anything follows from
it: messages, digests of uploads, and deadlines that passed. Played again over the same opening they give the same state and the same
packets, byte for byte, because signatures are deterministic. What they do not give is what was only in memory: uploads, and the
answers that open seeds. Sites hold both until the attempt ends and send them again, the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from cohortsum.coordinator.store import EventRow, MessageRow, RoundRow
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.messages import Envelope, Kind, Packet

REPLAYED = frozenset({Kind.ADVERT, Kind.SHARES, Kind.MASKED, Kind.CONSISTENCY})
"""Messages that are kept whole while their attempt is open."""


class EventKind(StrEnum):
    """What can move an attempt on."""

    MESSAGE = "message"
    UPLOAD = "upload"
    LATE = "late"
    """The deadline of a step has passed, and the attempt went on with who was there."""
    OFFER = "offer"
    """The key that the trustee offered, before anybody was invited."""


@dataclass(frozen=True, slots=True)
class Event:
    """One input of the machine.

    Attributes:
        kind: what it is.
        sender: the site's id; empty for a deadline.
        content: the packet, the digest of the upload, or the name of the step in UTF-8.
    """

    kind: EventKind
    sender: str = ""
    content: bytes = field(default=b"", repr=False)

    @property
    def packet(self) -> Packet:
        """The packet of a message or an offer."""
        return packet_from_bytes(self.content)

    @classmethod
    def of(cls, packet: Packet) -> "Event":
        """Return the event of a message or an offer."""
        kind = EventKind.OFFER if packet.envelope.kind is Kind.KEY_OFFER else EventKind.MESSAGE
        return cls(kind, packet.envelope.sender, packet_to_bytes(packet))


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt that was open when the coordinator stopped.

    Attributes:
        opening: the coordinator's message that opened it.
        exact: whether none of its bound survivors may be missing.
        named: whether a survivor set was named.
        events: in their order.
        answered: digest of every message that had its effect, by sender and kind.
    """

    opening: Envelope
    exact: bool
    named: bool
    events: tuple[Event, ...] = field(repr=False)
    answered: dict[tuple[str, str], bytes] = field(repr=False)

    @property
    def offer(self) -> Packet | None:
        """The key that the trustee offered, in two-key mode."""
        return next((event.packet for event in self.events if event.kind is EventKind.OFFER), None)

    @property
    def is_whole(self) -> bool:
        """Whether all that had its effect can be played again; version 0.1 kept no events, so not in a store that it left."""
        kept = {
            (event.sender, event.packet.envelope.kind.name)
            for event in self.events
            if event.kind is EventKind.MESSAGE
        }
        names = {kind.name for kind in REPLAYED}
        return {about for about in self.answered if about[1] in names} <= kept


def add_event(session: Session, context: bytes, event: Event) -> None:
    """Keep an input of an open attempt."""
    session.add(
        EventRow(context=context.hex(), kind=event.kind.value, sender=event.sender, content=event.content)
    )


def open_attempt(session: Session, row: RoundRow) -> OpenAttempt:
    """Return what is held of an attempt that is open."""
    events = session.scalars(select(EventRow).where(EventRow.context == row.context).order_by(EventRow.id))
    messages = session.scalars(select(MessageRow).where(MessageRow.context == row.context))
    return OpenAttempt(
        packet_from_bytes(row.opening).envelope,
        row.exact,
        bool(row.survivors),
        tuple(Event(EventKind(held.kind), held.sender, held.content) for held in events),
        {(held.sender, held.kind): bytes.fromhex(held.digest) for held in messages},
    )


def to_replay(held: OpenAttempt, masking_step: str) -> tuple[Event, ...]:
    """Return the events to play again.

    Until a survivor set is named an upload counts only where its words are at hand, and they were lost: sites upload again. The
    deadline of that step begins anew with them.
    """
    if held.named:
        return held.events
    lost = (EventKind.UPLOAD, EventKind.LATE)
    step = masking_step.encode()
    return tuple(
        event
        for event in held.events
        if event.kind not in lost or (event.kind is EventKind.LATE and event.content != step)
    )


def dealing_of(session: Session, context: bytes) -> tuple[Sequence[Envelope], Sequence[Envelope]]:
    """Return adverts and share messages of the sites that dealt in an attempt, by their ids' order."""
    rows = session.scalars(
        select(MessageRow)
        .where(MessageRow.context == context.hex(), MessageRow.packet != b"")
        .order_by(MessageRow.sender)
    )
    held = [packet_from_bytes(row.packet).envelope for row in rows]
    shares = [one for one in held if one.kind is Kind.SHARES]
    dealers = {one.sender for one in shares}
    return [one for one in held if one.kind is Kind.ADVERT and one.sender in dealers], shares


def forget_events(session: Session, context: bytes) -> None:
    """Wipe the inputs of an attempt that has ended."""
    session.execute(delete(EventRow).where(EventRow.context == context.hex()))
