"""The site gate on this site's tables: what it could supply, less what the rules of its policy keep back.

In this order: the rules that a study or the number of people does not meet; then, without noise, patterns of missing values are pooled,
because two outcomes whose people differ by a few tell about those few; then the people themselves are looked at. Under ``open_data``
nothing is asked. Used when a study is considered and when it is previewed, so that both say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.node.config import PolicyConfig
from cohortsum.node.policy import limits_of, rules_of, status_of
from cohortsum.node.tables.reader import Tables
from cohortsum.protocol.ledger import Status
from cohortsum.study.disclosure.demands import demands_of
from cohortsum.study.disclosure.site.pooling import DEFAULT_K, pool_patterns
from cohortsum.study.disclosure.site_gate import not_supplied
from cohortsum.study.disclosure.site_people import missing_patterns, people_findings
from cohortsum.study.planning import StudyPlan

MOST_LEAVE = 0.2
"""Share of the cohort that may leave a study for the sake of pooled patterns; beyond it outcomes are left out instead."""
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Screened:
    """What the gate leaves.

    Attributes:
        tables: with pooled patterns; whoever closes them closes the ones that were given.
        people: of the cohort.
        supplied: items that may be supplied.
        left_out: why others are not, by item; stays at the site.
        dropped: people who left the study here so that patterns pool, and values that count as missing for the same reason.
    """

    tables: Tables = field(repr=False)
    people: int = field(repr=False)
    supplied: frozenset[str]
    left_out: Mapping[str, str] = field(repr=False)
    dropped: tuple[int, int] = field(default=(0, 0), repr=False)


def screen(plan: StudyPlan, policy: PolicyConfig, tables: Tables, floor: int) -> Screened:
    """Return what of a study this site's rules let it supply.

    Args:
        plan: of the study.
        policy: of the site.
        tables: its people.
        floor: least people with a value that an outcome is supplied for.
    """
    rules = rules_of(policy)
    demands = demands_of(plan.study, rules)
    people, having = plan.having(tables.batches())
    supplied = plan.suppliable(having, floor)
    left_out = not_supplied(plan, demands, people, having)
    supplied -= left_out.keys()
    if policy.profile == "open_data" or plan.round.noise is not None:
        return Screened(tables, people, supplied, left_out)
    limits = limits_of(plan.study, policy)
    ruled = limits is not None and status_of(policy) is Status.DERIVABLE
    k = policy.thresholds.pattern_difference or (limits.k if ruled and limits is not None else DEFAULT_K)
    dropped = (0, 0)
    if "pattern_difference" in rules.own:
        tables, dropped, lost = pooled(plan, tables, supplied, k)
        people, having = plan.having(tables.batches())
        left_out |= lost | not_supplied(plan, demands, people, having)
        supplied = plan.suppliable(having, floor) - left_out.keys()
    least = limits.k if limits is not None else 1
    left_out |= people_findings(plan, supplied, rules.own, tables.batches, least)
    return Screened(tables, people, supplied - left_out.keys(), left_out, dropped)


def pooled(
    plan: StudyPlan, tables: Tables, supplied: frozenset[str], k: int
) -> tuple[Tables, tuple[int, int], dict[str, str]]:
    """Return tables in which two outcomes are about the same people, or about sets at least k people apart.

    The cohort is pooled with them, so that nobody is told by lacking a value: whoever must leave it takes part nowhere in the study. If
    that were more than `MOST_LEAVE` of it, it stays as it is, and the people rule leaves out what it must.

    Returns:
        The tables; how many people and how many values left; the outcomes of which nobody is left, with the reason.
    """
    inside, having, outcomes = missing_patterns(plan, supplied, tables.batches)
    cohort = len(having)
    if not outcomes or not cohort:
        return tables, (0, 0), {}
    everybody = np.ones((cohort, 1), np.bool_)
    found = pool_patterns(np.hstack((having, everybody)), k)
    stay: Bools = found.has_value[:, -1]
    if np.count_nonzero(~stay) > MOST_LEAVE * cohort:
        found, stay = pool_patterns(having, k), everybody[:, 0]
    after = found.has_value[:, : len(outcomes)]
    lost = having & ~after & stay[:, np.newaxis]
    kept = np.ones(len(inside), np.bool_)
    kept[inside] = stay
    blank: dict[str, Bools] = {}
    for place, name in enumerate(outcomes):
        if lost[:, place].any():
            blank[name] = np.zeros(len(inside), np.bool_)
            blank[name][inside] = lost[:, place]
    names = (*outcomes, "")[: found.left_out.size]
    reasons = {
        finding.item: f"{finding.item}: {finding.what} [{finding.rule.value}]"
        for finding in found.findings(names)
        if finding.item
    }
    number = int(np.count_nonzero(~stay)), int(np.count_nonzero(lost))
    return (tables.without(kept, blank) if any(number) else tables), number, reasons
