"""A study over one made-up cohort, written with any levels and edges, and played over the pure plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from cohortsum.study.results import Table
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen

SITES = 8
REGIONS = ("north", "east", "south", "west", "islands")
DX = ("control", "autism", "other")
EDGES = (10.0, 20.0, 25.0, 40.0, 60.0)
CUTS = (15.0, 30.0, 45.0)
TIMES = (1.0, 2.0, 3.5, 5.0, 8.0)

Sums = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Form:
    """How the study is written: the levels of ``region`` and ``dx``, and the edges of everything that has some."""

    region: tuple[str, ...] = REGIONS
    dx: tuple[str, ...] = DX
    edges: tuple[float, ...] = EDGES
    cuts: tuple[float, ...] = CUTS
    times: tuple[float, ...] = TIMES

    def text(self) -> str:
        return f"""\
study: coarse
title: Counts and means
version: 1
roster: 1
expires: 2027-06-30
person: id
variables:
  region: {{levels: [{", ".join(self.region)}]}}
  dx: {{levels: [{", ".join(self.dx)}]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [5, 65]}}
  iq: {{unit: points, range: [40, 160], out_of_range: exclude}}
  years: {{unit: years, range: [0, 9]}}
cohort: {{epoch: 2026-11}}
analyses:
  regions: {{kind: crosstab, factors: [region]}}
  sexes: {{kind: crosstab, factors: [sex, region]}}
  layers: {{kind: crosstab, factors: [dx, region, sex], where: 'age > 9'}}
  means: {{kind: summary, variables: [age, iq], by: [region, dx]}}
  shapes: {{kind: summary, variables: [iq, age], by: [sex, region], moments: 4}}
  ages: {{kind: histogram, variables: [age, iq], edges: {list(self.edges)}}}
  shares: {{kind: proportion, variables: [age, iq], thresholds: [50, 60], factors: [dx, region], by: [sex]}}
  grouped: {{kind: proportion, variables: [age], thresholds: [20], factors: [sex], by: [region, dx]}}
  middle:
    kind: quantiles
    variables: [iq, age]
    probabilities: [0.25, 0.5]
    edges: {list(self.edges)}
    by: [region]
  banded:
    kind: quantiles
    variables: [iq]
    probabilities: [0.5]
    edges: [40, 80, 100, 120, 160]
    by: [sex, region]
    bands: {{age: {list(self.cuts)}}}
  compared: {{kind: test, outcomes: [age, iq], factor: region, tests: [student, welch, anova]}}
  curves: {{kind: kaplan_meier, time: years, status: dx, event: autism, times: {list(self.times)}, by: [region]}}
  groups: {{kind: logrank, time: years, status: sex, event: male, times: {list(self.times)}, by: [region]}}
  model: {{kind: regression, outcomes: [age, iq], terms: [dx, sex], site_effect: within, report: {{effect: dx, correction: fdr_bh}}}}
  together: {{kind: correlation, variables: [age, iq, years]}}
protection: {{min_participants: 50, max_participants: 1000}}
privacy: {{noise: none}}
"""

    @property
    def plan(self) -> StudyPlan:
        return planned(self.text())


def planned(text: str) -> StudyPlan:
    """Return the plan of a study file for `SITES` sites."""
    return plan_study(frozen(text), roster_of(SITES))


def cohort(seed: int, people: int = 400) -> list[Batch]:
    """Return one batch per site, with holes everywhere and many people exactly at edges; codes are those of `Form`."""
    rng = np.random.default_rng(seed)
    age = np.where(
        rng.random(people) < 0.4, rng.choice([5, 10, 20, 25, 40, 60, 65], people), rng.uniform(5, 65, people)
    )
    iq = rng.normal(100, 25, people)
    years = np.where(rng.random(people) < 0.5, rng.choice(TIMES, people), rng.uniform(0, 9, people))
    for values in (age, iq, years):
        values[rng.random(people) < 0.05] = np.nan
    levels = {"region": len(REGIONS), "dx": len(DX), "sex": 2}
    codes = {name: rng.integers(0, size, people).astype(np.int16) for name, size in levels.items()}
    for values in codes.values():
        values[rng.random(people) < 0.05] = -1
    site = rng.integers(0, SITES, people)
    return [
        Batch(
            int((site == here).sum()),
            {"age": age[site == here], "iq": iq[site == here], "years": years[site == here]},
            {name: values[site == here] for name, values in codes.items()},
        )
        for here in range(SITES)
    ]


def recoded(batches: Sequence[Batch], factor: str, places: Sequence[int]) -> list[Batch]:
    """Return the same people where level ``i`` of a factor is ``places[i]``; -1 is missing."""
    table = np.array([*places, -1], np.int16)
    return [
        Batch(one.people, one.numbers, {**one.levels, factor: table[one.levels[factor]]}) for one in batches
    ]


def play(plan: StudyPlan, batches: Sequence[Batch]) -> Sums:
    """Return the opened sums of a round: every site signs what it supplies, blocks with too few suppliers leave."""
    supplied = [plan.supply([batch], 1)[1] for batch in batches]
    blocks = plan.round.kept(dict(enumerate(supplied)))
    total = np.zeros(sum(block.size for block in blocks), np.int64)
    for batch, items in zip(batches, supplied, strict=True):
        total = total + plan.contribution(partial(iter, [batch]), blocks, items)[1]
    return by_block(blocks, total)


def tables_of(plan: StudyPlan, sums: Sums, analysis: str) -> list[Table]:
    """Return the tables of an analysis as the study has them."""
    return [table for table in plan.finish(sums) if table.analysis.partition(".")[0] == analysis]


def numbers_of(tables: Sequence[Table]) -> list[tuple[object, ...]]:
    """Return everything of tables but their notes."""
    return [(table.analysis, table.kind, table.columns, table.rows) for table in tables]
