"""What a release under noise promises, in numbers and in plain words, with what it rests on and what it does not cover.

The claim is the accountant's: zCDP of a sum of discrete Gaussians, turned into epsilon and delta; for training on samples, Renyi
divergence. The result names the bound. It counts on ``honest`` sites whose noise is in the sum. Should the masks of a site be lost to all others, its own noise
alone stands before its people: ``honest`` times the rho.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.privacy import accountant
from cohortsum.study.privacy.accountant import Claim
from cohortsum.study.privacy.events import DiscreteGaussian, Event, Release, SampledGaussian
from cohortsum.study.privacy.lifetime import Cost, multiplier_of
from cohortsum.study.privacy.zcdp import NANO
from cohortsum.study.spending import spending_of


@dataclass(frozen=True, slots=True)
class PrivacyClaim:
    """The promise of a release.

    Attributes:
        placement: whose noise it rests on.
        adjacency: what neighbours are.
        delta: of the study.
        epsilon: of everything this study has opened.
        study_epsilon: the study's total.
        honest: how many sites' noise the claim counts on; 1 for local noise.
        fallback_epsilon: of one opening, before whoever sees one site's numbers unmasked; equal to ``epsilon`` for local noise.
        nano_rho: spent, in billionths of rho, as if everybody were in every round.
        sampling_rate: probability of being in a round; 1 without sampling.
        openings: rounds that opened.
        unprotected: variables that the study declares public.
        method: the bound that gave ``epsilon``, as the accountant names it.
    """

    placement: Literal["distributed", "local"]
    adjacency: Literal["replace_one", "add_or_remove"]
    delta: float
    epsilon: float
    study_epsilon: float
    honest: int
    fallback_epsilon: float
    nano_rho: int
    sampling_rate: float
    openings: int
    unprotected: tuple[str, ...]
    method: str


def claim_of(plan: StudyPlan, sites: Sites, openings: int) -> PrivacyClaim | None:
    """Return the promise of a study whose ``openings`` rounds opened over ``sites``; None without noise.

    Attempts that were charged and did not open are not in it: nothing of them was seen. The ledgers of the sites count them.
    """
    noise, spending, study = plan.round.noise, spending_of(plan), plan.study
    if noise is None or spending is None or study.privacy.epsilon is None:
        return None
    honest = noise.honest(sites.advertised, plan.round.protection)
    alone = Cost(noise.nano_rho * honest, spending.cost.rate, noise.adjacency)
    claimed = _claim(spending.cost, openings, spending.delta)
    return PrivacyClaim(
        placement=noise.placement,
        adjacency=noise.adjacency,
        delta=spending.delta,
        epsilon=claimed.epsilon,
        study_epsilon=study.privacy.epsilon,
        honest=honest,
        fallback_epsilon=_claim(alone, openings, spending.delta).epsilon,
        nano_rho=noise.nano_rho * openings,
        sampling_rate=spending.cost.rate,
        openings=openings,
        unprotected=tuple(sorted(frozenset[str]().union(*(one.unprotected for one in plan.statistics)))),
        method=claimed.method,
    )


def sentences(claim: PrivacyClaim) -> tuple[str, ...]:
    """Return the claim in plain words."""
    about = "replacing one person's values" if claim.adjacency == "replace_one" else "one person more or less"
    promise = f"The released numbers are differentially private (epsilon {claim.epsilon:.3g}, delta {claim.delta:g}) for {about}"
    if claim.placement == "local":
        proviso = ": every site's noise protects its own people by itself."
    else:
        proviso = (
            f", provided that at least {claim.honest} of the sites in the sum follow the protocol. If the masks of a site failed, its "
            f"own noise would protect its people with epsilon {claim.fallback_epsilon:.3g}."
        )
    public = (
        "Who is in the cohort, the number of people and which sites and columns took part are public and not protected."
        if claim.adjacency == "replace_one"
        else "Which sites and columns took part is public and not protected."
    )
    if claim.unprotected:
        public += f" The study declares public, and does not protect: {', '.join(claim.unprotected)}."
    spent = (
        f"Spent by this study: rho {claim.nano_rho / NANO:.5g} in {claim.openings} opened "
        f"{'round' if claim.openings == 1 else 'rounds'}"
    )
    if claim.sampling_rate < 1.0:
        spent += f" that each took every person with probability {claim.sampling_rate:g}"
    return (
        promise + proviso,
        public,
        f"{spent} (epsilon {claim.epsilon:.3g} of the study's {claim.study_epsilon:g}, by {claim.method}).",
    )


def _claim(cost: Cost, openings: int, delta: float) -> Claim:
    """Return what openings are worth for the study's own neighbours."""
    event: Event = DiscreteGaussian(Fraction(cost.nano_rho * openings, NANO))
    if cost.rate < 1.0:
        event = SampledGaussian(cost.rate, multiplier_of(cost.nano_rho), openings)
    return accountant.epsilon([Release("opened rounds", event, cost.adjacency)], delta)
