"""A study against this site's policy. A policy only tightens: the stricter of study and policy holds."""

from dataclasses import dataclass

from cohortsum.crypto.errors import PolicyError
from cohortsum.node.budget import DEFAULT_DELTA, DEFAULT_EPSILON, Limit
from cohortsum.node.config import PolicyConfig, refuse_unbuilt_policy
from cohortsum.protocol.ledger import Limits, Status
from cohortsum.study.definition import FrozenStudy


@dataclass(frozen=True, slots=True)
class Floors:
    """The bounds this site holds a study to: at least the study's own."""

    min_sites: int
    min_participants: int
    min_participants_per_site: int


def limits_of(study: FrozenStudy, policy: PolicyConfig) -> Limits | None:
    """Return the numbers of the people rule for a study at this site; None where policy.yaml sets no ``set_difference``."""
    k = policy.thresholds.set_difference
    if k is None:
        return None
    protection = study.protection
    return Limits(k, protection.max_colluding_sites, protection.min_honest_inputs)


def status_of(policy: PolicyConfig) -> Status:
    """Return whether this site's total may be found by subtracting."""
    return Status.PROTECTED if policy.thresholds.site_totals == "protected" else Status.DERIVABLE


def budget_of(policy: PolicyConfig) -> Limit:
    """Return the budget of this site's data over all studies: epsilon 3 at delta 1e-5 where policy.yaml says nothing."""
    written = policy.budget
    return Limit(DEFAULT_EPSILON, DEFAULT_DELTA) if written is None else Limit(written.epsilon, written.delta)


def floors_for(study: FrozenStudy, policy: PolicyConfig) -> Floors:
    """Return the bounds in force for a study at this site.

    Raises:
        NotInThisVersionError: the policy asks for something that is not built; nothing runs without it.
        PolicyError: the policy does not allow an analysis or the noise, or wants the study to reckon with more colluding
            sites than it does.
    """
    refuse_unbuilt_policy(policy)
    for spec in study.analyses.values():
        if policy.statistics is not None and spec.kind not in policy.statistics:
            raise PolicyError(
                f"policy.yaml: statistics does not list {spec.kind}, which analysis {spec.name} needs"
            )
    if policy.noise is not None and study.privacy.noise not in policy.noise:
        raise PolicyError(f"policy.yaml: noise does not list {study.privacy.noise}, which the study asks for")
    bounds, protection = policy.thresholds, study.protection
    colluding = bounds.max_colluding_sites
    if colluding is not None and protection.max_colluding_sites < colluding:
        raise PolicyError(
            f"policy.yaml: a study must reckon with {colluding} colluding sites; "
            f"this one reckons with {protection.max_colluding_sites}"
        )
    return Floors(
        max(protection.min_sites, bounds.min_sites or 0),
        max(protection.min_participants, bounds.min_participants or 0),
        max(protection.min_participants_per_site, bounds.min_participants_per_site or 0),
    )
