"""A study played without cryptography: every site contributes, integers are added, tables are finished and go through the gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cohortsum.cli.study import invented_roster
from cohortsum.study.batch import Batch
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Gated, Regime, RuleResult
from cohortsum.study.planning import Integers, Sites, StudyPlan, by_block, plan_study
from cohortsum.study.results import Cell, Table
from tests.study.definitions import frozen

DPUK = Regime("dpuk", held=frozenset({"site-0"}))


@dataclass(frozen=True, slots=True)
class Played:
    """A study after its last round."""

    plan: StudyPlan
    sums: dict[str, Integers]
    tables: tuple[Table, ...]

    def gated(self, regime: Regime = DPUK, earlier: Sequence[Earlier] = ()) -> Gated:
        return cohort_gate(self.plan, self.tables, self.sums, regime, earlier)


def played(text: str, sites: Sequence[Batch]) -> Played:
    """Return a study over some sites."""
    study = frozen(text)
    plan: StudyPlan | None = plan_study(study, invented_roster(study, max(5, len(sites))))
    sums: dict[str, Integers] = {}
    last = plan
    while plan is not None:
        last = plan
        everything = frozenset(plan.round.items)
        blocks = plan.round.blocks
        total = np.zeros(plan.round.length, np.int64)
        for site in sites:
            total = total + plan.contribution(partial(_alone, site), blocks, everything)[1]
        sums = by_block(blocks, total)
        plan = plan.advance(sums)
    assert last is not None
    return Played(last, sums, last.finish(sums, Sites(len(sites), len(sites))))


def _alone(site: Batch) -> list[Batch]:
    return [site]


def column(table: Table, name: str) -> list[Cell]:
    return [row[table.columns.index(name)] for row in table.rows]


def of(gated: Gated, name: str) -> Table:
    (table,) = (one for one in gated.tables if one.analysis == name)
    return table


def ruled(gated: Gated, rule: str) -> list[RuleResult]:
    return [result for result in gated.results if result.rule == rule]
