"""What a study may cost each of its people: one attempt, and all that may be charged for it."""

from dataclasses import dataclass

from cohortsum.study.planning import StudyPlan
from cohortsum.study.privacy.lifetime import Cost, lifetime_epsilon


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of a study with noise.

    Attributes:
        cost: of one attempt at one round.
        attempts: how many may be charged: every round as often as the study allows.
        delta: of the study.
        epsilon: what ``attempts`` of them are worth at ``delta``; at most the study's own.
    """

    cost: Cost
    attempts: int
    delta: float
    epsilon: float


def spending_of(plan: StudyPlan) -> Spending | None:
    """Return what a study may cost its people; None where it has no noise, which no budget covers."""
    noise, delta = plan.round.noise, plan.study.privacy.delta
    if noise is None or delta is None:
        return None
    cost = Cost(noise.nano_rho, plan.rate, noise.adjacency)
    attempts = plan.most_rounds * plan.round.protection.max_attempts
    return Spending(cost, attempts, delta, lifetime_epsilon(({cost: attempts},), delta))
