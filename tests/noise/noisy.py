"""A study under noise without its round: plans, people, and what the sum over sites holds after their noise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cohortsum.cli.study import invented_roster
from cohortsum.crypto.noise import NoiseStream
from cohortsum.protocol.noise import draw_noise
from cohortsum.study.batch import Batch
from cohortsum.study.definition import FrozenStudy, freeze, load_study
from cohortsum.study.planning import Sites, StudyPlan, by_block, plan_study
from cohortsum.study.results import Cell, Table

Integers = NDArray[np.int64]

STUDY = """
study: noised
title: Noised
version: 1
roster: 1
expires: 2037-12-31
person: person_id
variables:
{variables}
cohort: {{epoch: first}}
analyses:
{analyses}
protection: {{min_sites: {sites}, min_participants: 300, max_participants: 2000, max_colluding_sites: 1, max_attempts: {attempts}}}
privacy: {{{privacy}}}
release: {{checkers: {{consortium: 0}}}}
"""
HIPPOCAMPUS = "  hippocampus: {unit: mm3, range: [1500, 5000]}"
MEANS = "  means: {kind: summary, variables: [hippocampus], moments: 1}"
DISTRIBUTED = "noise: distributed, epsilon: 1, delta: 1.0e-6"


def study_of(
    variables: str = HIPPOCAMPUS,
    analyses: str = MEANS,
    privacy: str = DISTRIBUTED,
    sites: int = 9,
    attempts: int = 1,
) -> FrozenStudy:
    """Return a study of these lines."""
    text = STUDY.format(
        variables=variables, analyses=analyses, privacy=privacy, sites=min(sites, 7), attempts=attempts
    )
    return freeze(load_study(text.encode(), "noised.yaml"))


def plan_of(study: FrozenStudy, sites: int = 9) -> StudyPlan:
    """Return its plan for so many invited sites."""
    return plan_study(study, invented_roster(study, sites))


def contributions(plan: StudyPlan, batches: Sequence[Batch]) -> list[Integers]:
    """Return what each site would add, before its noise."""
    supplied = frozenset(plan.round.items)
    return [
        plan.contribution(lambda held=batch: [held], plan.round.blocks, supplied)[1]  # type: ignore[misc]
        for batch in batches
    ]


def noise_of(plan: StudyPlan, advertised: int) -> Integers:
    """Return one site's noise in a round of so many sites."""
    noise = plan.round.noise
    assert noise is not None
    blocks = [(block.name, block.size) for block in plan.round.blocks]
    return draw_noise(noise, blocks, noise.honest(advertised, plan.round.protection), NoiseStream.fresh())


def released(plan: StudyPlan, exact: Integers, sites: int) -> tuple[Table, ...]:
    """Return the tables of a round over ``sites`` sites whose exact sum is ``exact``."""
    total = exact.copy()
    for _ in range(sites):
        total += noise_of(plan, sites)
    return plan.finish(by_block(plan.round.blocks, total), Sites(sites, sites))


def column(table: Table, name: str) -> list[Cell]:
    """Return the cells of a column."""
    return [row[table.columns.index(name)] for row in table.rows]
