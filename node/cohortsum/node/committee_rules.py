"""Whether this site takes part in a study in mode committee: what is checked beyond every other study.

The study's numbers hold for all sites alike, since nobody looks at single sites' numbers: what this site's own rules ask beyond them keeps
it out. Which sites a count comes from is not looked at either, so a site whose total must not be told takes no part, and every site
supplies all that the study asks for.
"""

from importlib.util import find_spec

from cohortsum.crypto.errors import PolicyError
from cohortsum.node.config import PolicyConfig
from cohortsum.node.policy import Floors, regimen_of
from cohortsum.protocol.roster import Roster
from cohortsum.study.committee_members import members_of
from cohortsum.study.disclosure.committee_gate import refused_here
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.planning import StudyPlan, analysis_item


def check_by_committee(
    plan: StudyPlan, pinned: Roster, own: int | None, policy: PolicyConfig, floors: Floors, protected: bool
) -> None:
    """Raise PolicyError where this site stays out of a study in mode committee, before it looks at its data.

    Args:
        plan: of the study.
        pinned: the roster that it names.
        own: this site's roster index.
        policy: of this site.
        floors: the bounds in force here.
        protected: whether this site's totals may not be told.
    """
    study = plan.study
    if protected:
        raise PolicyError(
            "policy.yaml: thresholds.site_totals: protected, and nobody looks from how many sites a committee's count comes; "
            "decline it, or ask for a version with mode: masking"
        )
    least = study.protection.min_participants
    if floors.min_participants > least:
        raise PolicyError(
            f"a committee tells one bit, whether there are min_participants {least}; this site asks for {floors.min_participants}; "
            f"ask for a version with min_participants: {floors.min_participants}"
        )
    reason = refused_here(study, regime_of_sites({"here": regimen_of(policy)}))
    if reason is not None:
        raise PolicyError(reason)
    if own in members_of(study, pinned) and find_spec("mpyc") is None:
        raise PolicyError(
            "this site is of the study's committee, and the engine is not installed: pip install 'cohortsum[committee]'"
        )


def check_supplied(plan: StudyPlan, supplied: frozenset[str]) -> None:
    """Raise PolicyError unless a site supplies all that the study asks for, levels that nobody here has apart."""
    wanted = {analysis_item(statistic.name) for statistic in plan.statistics}
    wanted |= plan.study.numbers.keys() & set(plan.round.items)
    lacking = sorted(wanted - supplied)
    if lacking:
        raise PolicyError(
            f"a committee answers a study as a whole, and this site does not supply {', '.join(lacking)}; map or approve what is missing, or "
            "ask for a version without it"
        )
