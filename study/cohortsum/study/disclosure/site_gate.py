"""The site gate: which items of a study a site does not supply, by the rules that hold there, before anything is masked.

An item is a variable that a site may lack, or an analysis as a whole. Where a rule is about a variable that the analysis can do
without, the variable is left out, of every analysis of the study; where it needs it, the analysis is. What is left out is public, as
what is lacking is; why, stays at the site.

Counts of people with a value are looked at only without noise: under noise they are what the noise protects, and the number of people
of the cohort, which is public there, stands for them.
"""

from collections.abc import Iterable, Mapping

from cohortsum.study.disclosure.demands import Demand, Demands
from cohortsum.study.planning import StudyPlan, analysis_item


def not_supplied(plan: StudyPlan, demands: Demands, people: int, having: Mapping[str, int]) -> dict[str, str]:
    """Return the items that the rules keep back at a site, each with its reason.

    Args:
        plan: of the study.
        demands: of the rules in force at the site.
        people: of the cohort at the site.
        having: how many of them have a value, by variable.
    """
    told = having if plan.round.noise is None else None
    return items_of(plan, (*demands.of_study(), *demands.of_site(people, told)))


def items_of(plan: StudyPlan, demands: Iterable[Demand]) -> dict[str, str]:
    """Return the items that unmet demands keep back, with the first reason of each."""
    found: dict[str, str] = {}
    for demand in demands:
        spec = plan.study.analyses[demand.analysis]
        spared = demand.variable in plan.study.numbers and demand.variable in spec.suppliable - spec.required
        item = demand.variable if spared else analysis_item(demand.analysis)
        found.setdefault(item, f"{demand.variable}: {demand.sentence} [{demand.rule.id}]")
    return {item: found[item] for item in plan.round.items if item in found}
