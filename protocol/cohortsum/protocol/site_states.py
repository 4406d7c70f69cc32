"""The states of a site in a round. Each holds exactly what exists in it; secrets live in `Attempt.seeds` alone.

::

    Idle -> Advertised -> Shared -> Contributing -> Masked -> Agreed -> GateAnswered -> DataAnswered -> Over
              R0            R1          R2            R2        R3          R4a              R4b         R5

Where secrets were dealt ahead, Idle goes to Contributing at once.
Any state may go to Over when the round is aborted or this site stops the context.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cohortsum.crypto.bfv import EncryptionKey
from cohortsum.crypto.errors import LocalProtocolError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.ahead import Ahead
from cohortsum.protocol.approvals import ApprovalBook
from cohortsum.protocol.effects import Supplies
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Advert, Envelope, MaskedInput
from cohortsum.protocol.plan import PlannedBlock, RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.seeds import HeldShares, Seeds, SharedSeeds


@dataclass(frozen=True, slots=True)
class EarlierRound:
    """An opened round of an earlier version of the study, as this site recorded it.

    Attributes:
        survivors: the survivor set this site signed in it, roster indices.
        unchanged: names of this plan's blocks that were in it and mean the same; they do not travel again.
    """

    survivors: tuple[int, ...]
    unchanged: frozenset[str]


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """What a site brings into a round.

    Attributes:
        signer: its identity.
        roster: the roster it pinned.
        plan: the plan it built from the study it approved.
        approval: its own signed approval.
        min_sites: the stricter of study and policy.
        min_participants: the stricter of study and policy.
        min_participants_per_site: the stricter of study and policy.
        bound_survivors: the survivor set it signed in an earlier attempt at this iteration, or None.
        seen_rounds: (round id, iteration, attempt) of every round it took part in.
        approvals: what it has read of the study's approvals.
        earlier: opened rounds of earlier versions that a round may build on, by context.
        counter: masked inputs this site has ever made.
        peers: highest counter that this site has seen of every other, by roster index.
        protected: whether this site's own total is never to be found by subtracting.
        used: if protected, the attempt of this study in which t sites named it a survivor; empty: none yet.
        named: survivors that t sites named in attempts of this study, as this site recorded them, by context.
        previous: survivors of the iteration before; an iteration holds them or some of them. None in the first.
        ahead: secrets that were dealt for iterations, or None.
    """

    signer: Signer
    roster: Roster
    plan: RoundPlan
    approval: Envelope
    min_sites: int
    min_participants: int
    min_participants_per_site: int
    bound_survivors: tuple[int, ...] | None
    seen_rounds: frozenset[tuple[bytes, int, int]]
    approvals: ApprovalBook = field(repr=False)
    earlier: Mapping[bytes, EarlierRound] = field(default_factory=dict[bytes, EarlierRound])
    counter: int = 0
    peers: Mapping[int, int] = field(default_factory=dict[int, int])
    protected: bool = False
    used: bytes = b""
    named: Mapping[bytes, tuple[int, ...]] = field(default_factory=dict[bytes, tuple[int, ...]])
    previous: tuple[int, ...] | None = None
    ahead: Ahead | None = field(default=None, repr=False)

    @property
    def index(self) -> int:
        """This site's roster index."""
        index = self.signer.identity.index
        if index is None:
            raise LocalProtocolError("M1", f"{self.signer.identity.id} is no site of the roster")
        return index


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as its opening fixed it.

    Attributes:
        context: of the attempt.
        bound: who exactly has to be in it, or None.
        within: who may be in it, or None for everybody who approved: an iteration is over the people of the one before, or fewer.
        blocks: what travels.
        supplies: who supplies what.
        seeds: this site's own.
        key: under which this site encrypts what it has masked (two-key mode), or None.
    """

    context: bytes
    bound: tuple[int, ...] | None
    within: tuple[int, ...] | None
    blocks: tuple[PlannedBlock, ...]
    supplies: Supplies
    seeds: SharedSeeds
    key: EncryptionKey | None = None


@dataclass(frozen=True, slots=True)
class Roll:
    """L1 as this site accepted it.

    Attributes:
        h1: of the attempt that dealt.
        threshold: as this site derived it.
        adverts: of U1 by index; where secrets were dealt ahead, with the keys and commitments of the slot.
        secrets: the context that keys, commitments and shares are bound to: the attempt's own, or that of the slot.
    """

    h1: bytes
    threshold: int
    adverts: Mapping[int, Advert]
    secrets: bytes


@dataclass(frozen=True, slots=True)
class Dealt:
    """U2 as this site accepted it: h2 and the shares every dealer sealed for it, by dealer."""

    h2: bytes
    shares: Mapping[int, HeldShares] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Idle:
    """No round yet."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """Keys and commitments are out; L1 is awaited. ``own`` holds the seeds of ``attempt`` with the channel and the slots."""

    attempt: Attempt
    advert: Envelope
    own: Seeds


@dataclass(frozen=True, slots=True)
class Shared:
    """Shares are dealt; the others' are awaited. One channel secret per peer seals in both directions."""

    attempt: Attempt
    roll: Roll
    shares: Envelope
    own: Seeds
    channels: Mapping[int, SecretBytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Contributing:
    """Every share for this site decrypts; its values are awaited."""

    attempt: Attempt
    roll: Roll
    dealt: Dealt


@dataclass(frozen=True, slots=True)
class Masked:
    """The masked vector is out; U3 is awaited."""

    attempt: Attempt
    roll: Roll
    dealt: Dealt
    masked: Envelope


@dataclass(frozen=True, slots=True)
class Agreed:
    """One survivor set is signed; t signatures are awaited."""

    attempt: Attempt
    roll: Roll
    dealt: Dealt
    survivors: Mapping[int, MaskedInput]
    statement: bytes

    @property
    def dropped(self) -> tuple[int, ...]:
        """U2 without U3, computed here and never taken from a message."""
        return tuple(sorted(self.dealt.shares.keys() - self.survivors.keys()))


@dataclass(frozen=True, slots=True)
class GateAnswered:
    """Shares of the gate seeds are out; the opened gate is awaited."""

    agreed: Agreed


@dataclass(frozen=True, slots=True)
class DataAnswered:
    """The gate sufficed and shares of the data seeds are out; the end is awaited."""

    agreed: Agreed


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing more happens in this context."""

    context: bytes


SiteState = Idle | Advertised | Shared | Contributing | Masked | Agreed | GateAnswered | DataAnswered | Over
