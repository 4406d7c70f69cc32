"""What a site brings to a run, who it is in it, and what its machine asks its node to do."""

from dataclasses import dataclass, field

from cohortsum.protocol.committee.messages import Packet, Signed
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Roster, SiteId


@dataclass(frozen=True, slots=True)
class Part:
    """What one site brings to a run.

    Attributes:
        plan: as this site made it from the study.
        values: its numbers, where it is a dealer; else None.
        bound: dealers on whose inputs it has begun to compute this stage before; None for never.
    """

    plan: CommitteePlan
    values: tuple[int, ...] | None = field(repr=False)
    bound: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Send a packet to the coordinator."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class Bind:
    """Remember for good on whose inputs this member computes; comes before `Compute`."""

    stage: int
    dealers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """Start the worker.

    Attributes:
        plan: what to compute.
        member: this member's number.
        shares: of the sums over sites.
    """

    plan: CommitteePlan
    member: int
    shares: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Finished:
    """The run has answers that all members signed.

    Attributes:
        answers: per program.
        results: the signed results, for whoever checks them later.
    """

    answers: tuple[Answer, ...]
    results: tuple[Signed, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended without a result; the sentence is the coordinator's."""

    reason: str


Effect = Send | Bind | Compute | Finished | Ended


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a site is in its consortium, and for which study.

    Attributes:
        roster: pinned.
        signer: this site.
        study_digest: of the study.
        epoch: label of the data epoch.
    """

    roster: Roster
    signer: Signer
    study_digest: bytes
    epoch: str

    @property
    def index(self) -> int:
        """This site's roster index."""
        return self.roster.sites[SiteId(self.signer.identity.id)]
