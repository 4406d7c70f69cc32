"""Whose total may stand alone: derivable and protected sites, and what every site checks of them.

Between rounds the coordinator can subtract sums over different survivor sets, which gives totals of single sites. A
*derivable* site does not mind (its people rule guards its people). A *protected* site's data are opened once, together with
at least h_min + c protected sites, and afterwards only with the same people and exactly the same protected sites, or under
noise. Give a coordinator everything about derivable and corrupt sites: the protected sites of one round still appear
together in all that is opened, at least h_min of them honest.

A protected site advertises that it is new, or names the round it was opened in with its proof: t signatures of that
round's survivors. Every site of U3, derivable ones too, checks the claims before it signs; at least t - c honest ones do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.ledger.rules import ALL, Limits, Reason, Rules


class Status(StrEnum):
    """Whether a site's total may be found by subtracting; one for its whole data set, fixed at its first masked input."""

    DERIVABLE = "derivable"
    PROTECTED = "protected"


@dataclass(frozen=True, slots=True)
class Step:
    """Where a round stands in its study.

    Attributes:
        study: digest of the signed study.
        iteration: 1 for the first round.
        attempt: 1 for the first.
    """

    study: bytes
    iteration: int
    attempt: int

    def continues(self, earlier: "Step") -> bool:
        """Whether this is a retry or an iteration of ``earlier``."""
        later = (self.iteration, self.attempt) > (earlier.iteration, earlier.attempt)
        return self.study == earlier.study and later


@dataclass(frozen=True, slots=True)
class NamedRound:
    """A round whose survivor set t signatures name: the only one of its L1 that can be open.

    Attributes:
        context: its context hash.
        step: where it stands in its study.
        h1: hash of its adverts (L1).
        h2: hash of its U2.
        advertisers: U1, roster indices.
        protected: those of U1 whose signed adverts say so.
        survivors: U3.
        signatures: R3 signatures by roster index.
    """

    context: bytes
    step: Step
    h1: bytes
    h2: bytes
    advertisers: frozenset[int]
    protected: frozenset[int]
    survivors: frozenset[int]
    signatures: tuple[tuple[int, bytes], ...] = field(compare=False)

    @property
    def opened_protected(self) -> frozenset[int]:
        """The protected sites that were opened together."""
        return self.protected & self.survivors


SignatureCheck = Callable[[NamedRound, int, bytes], bool]
"""Whether a signature is that site's, over the R3 statement of this very round: its context (made from its step), h1 (made
from adverts that show these advertisers and protected sites), h2 and survivors."""


def proven(named: NamedRound, check: SignatureCheck, rules: Rules = ALL) -> bool:
    """Whether at least t distinct survivors validly signed ``named``."""
    if not (named.survivors | named.protected <= named.advertisers):
        return False
    signers = {site for site, signature in named.signatures if check(named, site, signature)}
    return not rules.proof or len(signers & named.survivors) >= threshold(len(named.advertisers))


@dataclass(frozen=True, slots=True)
class Claim:
    """What the ledger needs of a survivor's signed advert and approval.

    Attributes:
        status: as advertised.
        used: the round a protected site was opened in; None for a new or a derivable one.
        supplies: what it supplies, as signed at approval.
    """

    status: Status
    used: NamedRound | None
    supplies: frozenset[str]


def broken_site_rule(
    claims: Mapping[int, Claim], step: Step, limits: Limits, check: SignatureCheck, rules: Rules = ALL
) -> Reason | None:
    """Return why a round without noise may not open over the survivors ``claims``, or None.

    Args:
        claims: by roster index, one per survivor (U3).
        step: of this round.
        limits: c and h_min.
        check: of the signatures in proofs.
        rules: all of them, but in tests.
    """
    protected = {site: claim for site, claim in claims.items() if claim.status is Status.PROTECTED}
    if not protected:
        return None
    if rules.enough_protected and len(protected) < limits.protected_minimum:
        return Reason.PROTECTED_TOO_FEW
    if rules.shared_supplies and len({claim.supplies for claim in protected.values()}) > 1:
        return Reason.PROTECTED_SUPPLIES
    named_rounds = {claim.used for claim in protected.values() if claim.used is not None}
    some_new = any(claim.used is None for claim in protected.values())
    if rules.same_protected and len(named_rounds) + some_new > 1:
        return Reason.PROTECTED_MIXED
    for named in named_rounds:
        if rules.opened_once and not step.continues(named.step):
            return Reason.NOT_A_CONTINUATION
        if rules.same_protected and named.opened_protected != protected.keys():
            return Reason.PROTECTED_OTHERS
    if not all(claim.used is None or proven(claim.used, check, rules) for claim in protected.values()):
        return Reason.NO_PROOF
    return None
