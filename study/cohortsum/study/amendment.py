"""What a new version of a study need not ask again: blocks that mean the same, over the same people.

A block of the new version is *unchanged* if the earlier version planned it too, with the same name, size, bound and
suppliers, and everything it is computed from is the same: the cohort (`same_cohort`), the entry of its analysis but for lists
of outcomes and what is only done with opened sums, and the declaration of every variable that enters. Where complete cases are
taken over all outcomes, the outcomes must be the same too. A study whose sums sites see before release asks everything anew: they
recompute whole rounds; so does one with noise, which is fresh at every opening, and what a committee answers is no block. Sites and coordinator derive this from the signed bytes alone.
"""

import json
from collections.abc import Mapping
from typing import cast

from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.difference import same_cohort
from cohortsum.study.definition.evaluation import names_in
from cohortsum.study.planning import StudyPlan


def unchanged_blocks(old: StudyPlan, new: StudyPlan) -> frozenset[str]:
    """Return the names of the blocks of ``new`` that a round of ``old`` opens just as well; none for another study."""
    before, after = old.study, new.study
    same_people = (
        before.study == after.study and before.version < after.version and same_cohort(before, after)
    )
    if "committee" in (before.protection.mode, after.protection.mode):
        return frozenset()  # a committee opens no blocks
    rounds = (old.round, new.round)
    if not same_people or old.round.epoch != new.round.epoch or any(one.seen or one.noise for one in rounds):
        return frozenset()
    known = {block.name: block for block in old.round.blocks}
    analyses = {
        name for name in before.analyses.keys() & after.analyses.keys() if _same_analysis(before, after, name)
    }
    owners = {block.name: statistic.name for statistic in new.statistics for block in statistic.layout()}
    return frozenset(
        block.name
        for block in new.round.blocks[1:]
        if known.get(block.name) == block
        and owners[block.name] in analyses
        and _same_variables(before, after, {item for group in block.supply for item in group})
    )


def _same_analysis(old: FrozenStudy, new: FrozenStudy, name: str) -> bool:
    before, after = _entry(old, name), _entry(new, name)
    free = old.analyses[name].lists | old.analyses[name].afterwards
    reduced = [{key: value for key, value in entry.items() if key not in free} for entry in (before, after)]
    if reduced[0] != reduced[1]:
        return False
    return _same_variables(old, new, _shared(old, name) | _shared(new, name))


def _shared(study: FrozenStudy, name: str) -> set[str]:
    """Return the variables that every block of an analysis depends on."""
    spec = study.analyses[name]
    return set(spec.required) | (set() if spec.where is None else names_in(spec.where))


def _same_variables(old: FrozenStudy, new: FrozenStudy, items: set[str]) -> bool:
    """Return whether all of ``items`` that are variables mean the same in both; levels and analyses are no variables."""
    pending, seen = set(items), set[str]()
    while pending:
        name = pending.pop()
        seen.add(name)
        if name not in old.variables and name not in new.variables:
            continue
        if old.variables.get(name) != new.variables.get(name) or old.derived.get(name) != new.derived.get(
            name
        ):
            return False
        expression = new.derived.get(name)
        pending |= (set() if expression is None else set(names_in(expression))) - seen
    return True


def _entry(study: FrozenStudy, name: str) -> Mapping[str, object]:
    tree = cast("dict[str, dict[str, dict[str, object]]]", json.loads(study.canonical))
    return tree["analyses"][name]
