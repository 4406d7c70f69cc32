"""Evidence: signed messages that, put side by side, only a liar can have made.

Whoever follows the protocol signs one message of a kind in a context, relays only what it has checked, deals the shares that it
commits to and answers with the shares that it was dealt. Where a party does otherwise, its own signatures show it, and nobody needs to
believe whoever noticed. There are four cases.

==============  ===========  =================================================================================================
case            accused      what the file holds
==============  ===========  =================================================================================================
two messages    both         two signed messages of one kind, context and sender whose payloads differ (M5)
broken round    coordinator  a message that it would have refused itself, behind its own messages that say so (R1 to R5)
bad shares      site         a dealer's signed list; a ciphertext of it with the one-use key that opens it (R2.6, R2.7)
bad answer      site         the signed lists and masked inputs behind a survivor set, and an answer to it that does not fit (R4)
==============  ===========  =================================================================================================

Every case holds the opening as well: the context is derived from it again, so a finding names study, round and attempt. Signatures are
unforgeable and digests collision resistant; so no set of messages of somebody who followed the protocol makes evidence against them,
whoever collects them and whatever the others signed (`evidence_check`, `evidence_round`, `evidence_dealing` argue each case).

**What it gives away.** Nothing that is masked, sealed for an honest dealer, or a seed of data is ever in it. Three things are:

- The key of *bad shares* opens one ciphertext, of the accused. It is derived one way from what the two sites share: neither the other
  direction nor any other pair follows from it. A key that opens a ciphertext to something else than its dealer sealed cannot be found,
  so it needs no proof of its origin. A ciphertext that does *not* open (R2.5) would need the holder's channel key, which opens everything
  that was sealed for it and by it while others may still answer: of R2.5 there is no evidence.
- *Bad answers*, and two answers of one site, hold shares that the accused held, of one kind per owner or as it gave them away itself. At
  most c sites lie, c < t, and a coordinator keeps one such file per context.
- A *gate opening* holds what the coordinator showed to every survivor: masked counts and the seeds of the gate. The pair masks of honest
  sites stay on each; together they are the sum at the gate, the number of people over all survivors. Who may not see sums should not be
  given such a file (`sensitive`). No file is made of two gates that name different sites, of one with a seed that a site's place keeps shut
  (its mask seed though it survived), or of a closing with seeds: these could open more than that sum.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError
from cohortsum.protocol.codec import MAX_PAYLOAD_BYTES, MAX_SITES, packet_from_bytes, packet_to_bytes
from cohortsum.protocol.messages import Envelope, Kind, Packet

EVIDENCE = b"cohortsum/v1/evidence"
MAX_EVIDENCE_BYTES = 8 * MAX_PAYLOAD_BYTES
ANSWERS = frozenset({Kind.GATE_SHARES, Kind.DATA_SHARES})
_FIELDS = 8


class Case(StrEnum):
    """What kind of lie it is. Never change a word: files are kept for years."""

    TWO_MESSAGES = "two messages"
    BROKEN_ROUND = "broken round"
    BAD_SHARES = "bad shares"
    BAD_ANSWER = "bad answer"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Messages that accuse one of their senders.

    Attributes:
        case: how they are to be read.
        check: the check that they break, for example R2.7.
        opening: of the attempt, signed by the coordinator; its context follows from what it says.
        messages: in the order that the case asks for.
        holder: whom the ciphertext was sealed for, a roster index; 0 where there is none.
        ciphertext: of the accused; empty where there is none.
        key: key and nonce that open it, 44 bytes.
    """

    case: Case
    check: str
    opening: Envelope
    messages: tuple[Envelope, ...]
    holder: int = 0
    ciphertext: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    @property
    def context(self) -> bytes:
        """Of the attempt, 32 bytes."""
        return self.opening.context

    @property
    def holds_shares(self) -> bool:
        """Whether an answer is in it: shares that its sender held."""
        return any(message.kind in ANSWERS for message in self.messages)

    @property
    def holds_gate(self) -> bool:
        """Whether an opened gate is in it: its reader can add up how many people there were."""
        return any(message.kind is Kind.GATE_OPENING for message in self.messages)

    def to_bytes(self) -> bytes:
        """Return the one encoding of this evidence."""
        return encode(
            EVIDENCE,
            self.case.value.encode(),
            self.check.encode(),
            packet_to_bytes(Packet(self.opening)),
            encode(*(packet_to_bytes(Packet(message)) for message in self.messages)),
            number(self.holder),
            self.ciphertext,
            self.key,
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What evidence proves.

    Attributes:
        accused: id in the roster.
        case: how.
        check: the check that was broken.
        sentence: what the accused did; never a value, key or share.
        context: of the attempt.
        round_id: of the round, 16 bytes.
        iteration: of the study's rounds, from 1.
        attempt: at that round, from 1.
        sensitive: what a reader of the file can find out besides; empty for nothing.
    """

    accused: str
    case: Case
    check: str
    sentence: str
    context: bytes
    round_id: bytes
    iteration: int
    attempt: int
    sensitive: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why evidence proves nothing: the first thing that is wrong."""

    reason: str


def evidence_from_bytes(data: bytes) -> Evidence:
    """Return the evidence that these bytes are the one encoding of; no signature is verified. Raises AuthenticationError."""
    if len(data) > MAX_EVIDENCE_BYTES:
        raise AuthenticationError(f"{len(data)} bytes, at most {MAX_EVIDENCE_BYTES} are read as evidence")
    parts = split(data, _FIELDS)
    if len(parts) != _FIELDS or parts[0] != EVIDENCE:
        raise AuthenticationError("the bytes are no evidence of this version of cohortsum")
    _, case, check, opening, messages, holder, ciphertext, key = parts
    try:
        found = Evidence(
            Case(case.decode("ascii")),
            check.decode("ascii"),
            packet_from_bytes(opening).envelope,
            tuple(packet_from_bytes(held).envelope for held in split(messages, 2 * MAX_SITES)),
            int.from_bytes(holder, "big"),
            ciphertext,
            key,
        )
        same = found.holder < 2**64 and found.to_bytes() == data
    except (ValueError, RemoteProtocolError):
        raise AuthenticationError("a part of the evidence cannot be read") from None
    if not same:
        raise AuthenticationError("the bytes are not the one encoding of what they say")
    return found


def split(data: bytes, most: int) -> tuple[bytes, ...]:
    """Return the fields that `crypto.encoding.encode` joined, at most ``most``; raises AuthenticationError for other bytes."""
    fields: list[bytes] = []
    place = 0
    while place < len(data):
        start = place + 8
        end = start + int.from_bytes(data[place:start], "big")
        if start > len(data) or end > len(data) or len(fields) == most:
            raise AuthenticationError(f"the bytes are damaged, or hold more than {most} entries")
        fields.append(data[start:end])
        place = end
    return tuple(fields)
