"""Approval without asking, where the admin described the studies beforehand in ``policy.yaml``.

Two ways, both off unless written: ``auto_approve`` describes studies by who signed them, what they compute on which
variables and how much of the budget they spend; ``carry_over`` lets the approval of a version hold for the next one where
nothing but wording and dates changed. A study without noise spends without bound, so only a description that sets no
``max_epsilon`` fits it.
"""

from datetime import datetime
from fnmatch import fnmatchcase

from cohortsum.node.config import AutoApproval, PolicyConfig
from cohortsum.node.decisions import Asked, Decision
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.difference import could_carry_over, difference


def decide_by_policy(
    asked: Asked, policy: PolicyConfig, earlier: tuple[Asked, Decision] | None, now: datetime
) -> Decision | None:
    """Return the approval that the policy gives to a study, or None where the admin has to decide.

    Args:
        asked: the study.
        policy: of this site.
        earlier: the newest earlier version that was decided about, with the decision.
        now: the time, UTC.
    """
    study = asked.plan.study
    for number, entry in enumerate(policy.auto_approve, start=1):
        if describes(entry, study, asked.statistician, now):
            return Decision(
                study.digest,
                study.study,
                study.version,
                True,
                None,
                entry.until,
                f"auto_approve {number}",
                now,
            )
    if policy.carry_over and earlier is not None:
        before, decision = earlier
        in_force = decision.approved and (decision.until is None or decision.until >= now.date())
        if in_force and could_carry_over(difference(before.plan.study, study)):
            by = f"carried over from version {decision.version}"
            return Decision(
                study.digest, study.study, study.version, True, decision.analyses, decision.until, by, now
            )
    return None


def describes(entry: AutoApproval, study: FrozenStudy, statistician: str, now: datetime) -> bool:
    """Return whether an entry of the policy describes a study in every respect."""
    if study.protection.mode == "committee":
        return False  # exact quantiles, and trust in its members: neither is described here
    kinds = {spec.kind for spec in study.analyses.values()}
    epsilon = study.privacy.epsilon
    if entry.max_epsilon is not None and (epsilon is None or epsilon > entry.max_epsilon):
        return False
    return (
        statistician in entry.statisticians
        and now.date() <= entry.until
        and kinds <= set(entry.statistics)
        and all(any(fnmatchcase(name, pattern) for pattern in entry.outcomes) for name in outcomes_of(study))
    )


def outcomes_of(study: FrozenStudy) -> frozenset[str]:
    """Return the variables whose values a study sums: outcomes, variables, or the factors that are counted."""
    return frozenset(name for spec in study.analyses.values() for name in spec.about)
