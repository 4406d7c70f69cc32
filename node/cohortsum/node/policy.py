"""A study against this site's policy. A policy only tightens: the stricter of study, policy and the profile's rules holds."""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from cohortsum.crypto.errors import PolicyError
from cohortsum.node.budget import DEFAULT_DELTA, DEFAULT_EPSILON, Limit
from cohortsum.node.config import PolicyConfig, refuse_unbuilt_policy
from cohortsum.protocol.ledger import Limits, Status
from cohortsum.protocol.messages import Regimen, WaivedRule
from cohortsum.study.catalogue.controls import Of
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.demands import demands_of
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.disclosure.waiving import InForce, in_force


@dataclass(frozen=True, slots=True)
class Floors:
    """The bounds this site holds a study to: at least the study's own."""

    min_sites: int
    min_participants: int
    min_participants_per_site: int


def today() -> date:
    """Return the day by which waivers end: in UTC."""
    return datetime.now(UTC).date()


def regimen_of(policy: PolicyConfig) -> Regimen:
    """Return the rules of disclosure under which this site takes part today, as its approvals say them."""
    waivers = sorted(
        (waiver for waiver in policy.waivers if waiver.until >= today()), key=lambda waiver: waiver.rule
    )
    return Regimen(
        policy.profile,
        policy.thresholds.count or 0,
        tuple(WaivedRule(one.rule, one.value, one.reason, one.by, one.until.isoformat()) for one in waivers),
    )


def rules_of(policy: PolicyConfig) -> InForce:
    """Return the rules that this site holds to today: none under ``open_data``."""
    return in_force(regime_of_sites({"here": regimen_of(policy)}))


def limits_of(study: FrozenStudy, policy: PolicyConfig) -> Limits | None:
    """Return the numbers of the people rule for a study at this site; None where neither profile nor policy.yaml has one.

    Under ``dpuk`` k is the least group that the rules let anybody publish; ``set_difference`` may ask for more.
    """
    k = policy.thresholds.set_difference
    if policy.profile == "dpuk":
        k = max(k or 1, demands_of(study, rules_of(policy)).minimum(Of.GROUP))
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
    demands = demands_of(study, rules_of(policy))
    colluding = bounds.max_colluding_sites
    if colluding is not None and protection.max_colluding_sites < colluding:
        raise PolicyError(
            f"policy.yaml: a study must reckon with {colluding} colluding sites; "
            f"this one reckons with {protection.max_colluding_sites}"
        )
    return Floors(
        max(protection.min_sites, bounds.min_sites or 0),
        max(protection.min_participants, bounds.min_participants or 0, demands.minimum(Of.COHORT)),
        max(
            protection.min_participants_per_site,
            bounds.min_participants_per_site or 0,
            min(demands.minimum(Of.SITE, analysis) for analysis in study.analyses),
        ),
    )
