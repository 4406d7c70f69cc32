"""What a state machine asks its edge to do, in order. Records come before sends: the edge syncs each to disk first."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.masks import Vector
from cohortsum.protocol.ahead import Ahead
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.masking import MaskKeys
from cohortsum.protocol.messages import Envelope, Packet
from cohortsum.protocol.plan import PlannedBlock


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """Record: this site takes part in a round; it never does so again under the same key."""

    context: bytes
    key: RoundKey


@dataclass(frozen=True, slots=True)
class PeersSeen:
    """Record: how many masked inputs other sites have made at least, by roster index; a later, lower word shows a restored site."""

    context: bytes
    counters: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ContextSpent:
    """Record: the masked vector of this context exists; another is never made.

    Attributes:
        context: of the attempt.
        masked: digest of the signed message.
        h1: hash of L1 as this site was shown it.
        h2: hash of U2 as this site was shown it.
        advertisers: U1, roster indices.
        delivered: U2, roster indices.
    """

    context: bytes
    masked: bytes
    h1: bytes
    h2: bytes
    advertisers: frozenset[int]
    delivered: frozenset[int]


@dataclass(frozen=True, slots=True)
class SurvivorsSigned:
    """Record: this site stands by one survivor set for this context, and for every retry."""

    context: bytes
    survivors: tuple[int, ...]
    statement: bytes


@dataclass(frozen=True, slots=True)
class SurvivorsNamed:
    """Record: t sites signed one survivor set: the only one of this context that can open.

    ``signatures`` are the R3 signatures by roster index.
    """

    context: bytes
    survivors: tuple[int, ...]
    signatures: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """Record: shares of one part leave; only the digest of the answer is kept."""

    context: bytes
    part: str
    answer: bytes


@dataclass(frozen=True, slots=True)
class SetOpened:
    """Record: the sum over a survivor set was opened."""

    context: bytes
    result: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """A site's packet for the coordinator; ``words`` follow as a stream where the packet announces them."""

    packet: Packet
    words: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Contribute:
    """The site is to compute the values of ``blocks`` and hand them to the machine; ``advertised`` sites take part."""

    context: bytes
    blocks: tuple[PlannedBlock, ...]
    advertised: int


@dataclass(frozen=True, slots=True)
class SumSeen:
    """Record: the sum that this site recomputed from the survivors' masked inputs and the opened seeds (R5.0).

    Attributes:
        context: of the attempt.
        survivors: whose sum it is, roster indices.
        blocks: what travelled.
        values: (total size of the blocks,) int64.
    """

    context: bytes
    survivors: tuple[int, ...]
    blocks: tuple[PlannedBlock, ...]
    values: NDArray[np.int64] = field(repr=False)


Record = (
    RoundSeen | PeersSeen | ContextSpent | SurvivorsSigned | SurvivorsNamed | Answered | SetOpened | SumSeen
)


@dataclass(frozen=True, slots=True)
class DealtAhead:
    """The attempt dealt secrets for later iterations; the edge keeps them in memory and wipes them if it does not open."""

    secrets: Ahead = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoundOver:
    """The round has ended for this site; its secrets are wiped. ``reason`` is empty after a result."""

    context: bytes
    reason: str


SiteEffect = Record | Send | Contribute | DealtAhead | RoundOver


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """Record: a site's packet had its effect; it is stored before anything that follows from it."""

    packet: Packet = field(repr=False)

    @property
    def envelope(self) -> Envelope:
        """The signed message."""
        return self.packet.envelope


@dataclass(frozen=True, slots=True)
class Deliver:
    """A coordinator's packet for one site, by roster index."""

    receiver: int
    packet: Packet


@dataclass(frozen=True, slots=True)
class AwaitStep:
    """A step begins; its deadline runs from now."""

    step: str


@dataclass(frozen=True, slots=True)
class Combine:
    """The edge adds the survivors' uploads, removes the masks and hands the opened words to the machine."""

    survivors: tuple[int, ...]
    keys: MaskKeys = field(repr=False)


@dataclass(frozen=True, slots=True)
class DiscardUploads:
    """The edge wipes the uploads of everyone but these survivors."""

    survivors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """A line for the audit log: which check refused what; never a value."""

    check: str
    sender: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Proven:
    """A site lied and its own signatures show it: the edge keeps the evidence."""

    evidence: Evidence


CoordinatorEffect = MessageTaken | Deliver | AwaitStep | Combine | DiscardUploads | Audit | Proven

Supplies = Mapping[int, frozenset[str]]
"""What every approving site supplies, by roster index."""
