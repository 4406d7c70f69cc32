"""What one site was told of an attempt, kept so that two sites can compare.

A coordinator with two faces tells each site a story that holds together; only side by side do the stories contradict each other. A record
is the coordinator's own signed messages: opening, adverts, share lists, survivors, quorum. It accuses nobody. Two records of one attempt
are evidence where two messages of one kind differ, or where two messages of one site were passed on. What was opened, gate and closing,
is not in it: a record holds what a proof bundle shows of a round anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.evidence import Evidence, split
from cohortsum.protocol.evidence_making import doubled, of_two, passed_on
from cohortsum.protocol.messages import Envelope, Kind, Packet
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Roster

RECORD = b"cohortsum/v1/round-record"
KINDS = (Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS, Kind.QUORUM)


@dataclass(frozen=True, slots=True)
class Record:
    """What the coordinator told one site.

    Attributes:
        opening: of the attempt.
        messages: of the kinds of a record, in their order, each at most once.
    """

    opening: Envelope
    messages: tuple[Envelope, ...]

    def to_bytes(self) -> bytes:
        """Return the one encoding of this record."""
        held = [packet_to_bytes(Packet(envelope)) for envelope in (self.opening, *self.messages)]
        return encode(RECORD, *held)


def record_of(told: Mapping[Kind, Envelope]) -> Record | None:
    """Return the record of an attempt, or None where nothing followed its opening."""
    messages = tuple(told[kind] for kind in KINDS if kind in told)
    opening = told.get(Kind.OPENING)
    return Record(opening, messages) if opening is not None and messages else None


def is_record(data: bytes) -> bool:
    """Return whether bytes begin as a record does."""
    return data.startswith(encode(RECORD))


def record_from_bytes(data: bytes) -> Record:
    """Return the record that these bytes are the one encoding of; no signature is verified. Raises AuthenticationError."""
    parts = split(data, 2 + len(KINDS))
    try:
        opening, *messages = (packet_from_bytes(part).envelope for part in parts[1:])
    except (ValueError, RemoteProtocolError):
        raise AuthenticationError("a message of the record cannot be read") from None
    record = Record(opening, tuple(messages))
    kinds = [message.kind for message in messages]
    if kinds != [kind for kind in KINDS if kind in kinds] or record.to_bytes() != data:
        raise AuthenticationError("the bytes are no record of a round")
    return record


def compared(first: Record, second: Record, roster: Roster, plan: RoundPlan) -> tuple[Evidence, ...]:
    """Return what two records prove together; nothing where they fit each other.

    Args:
        first: of one site.
        second: of another.
        roster: the whole one that the study names.
        plan: of the first round of the study.
    """
    found: list[Evidence] = []
    other = {message.kind: message for message in (second.opening, *second.messages)}
    for message in (first.opening, *first.messages):
        if message.kind in other:
            found += of_two(first.opening, message, other[message.kind], roster, plan)
    relayed = [inner for held in (*first.messages, *second.messages) for inner in passed_on(held)]
    return (*found, *doubled(first.opening, relayed, roster, plan))
