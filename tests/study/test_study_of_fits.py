"""A study of fits and curves, planned and played to its end: every analysis gives what it gives alone."""

from functools import partial

import numpy as np
import pytest

from cohortsum.study.batch import Batch
from cohortsum.study.planning import by_block, plan_study
from cohortsum.study.results import Absent
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen
from tests.study.pooled import federate_rounds, split

STUDY = """\
study: fits
title: Fits
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  seen: {levels: [alive, dead]}
  dx: {levels: [control, case]}
  age: {unit: years, range: [5, 65]}
  days: {unit: days, range: [0.5, 1000]}
  visits: {unit: "1", range: [0, 50]}
cohort: {epoch: 2026-11}
analyses:
  odds: {kind: glm, family: binomial, outcomes: [dx, seen], terms: [age]}
  rates: {kind: glm, family: poisson, outcomes: [visits], terms: [age, dx], exposure: days}
  curve: {kind: kaplan_meier, time: days, status: seen, grid: {step: 100, to: 900}, by: [dx]}
  same: {kind: logrank, time: days, status: seen, grid: {step: 100, to: 900}, by: [dx]}
  hazard: {kind: cox, time: days, status: seen, terms: [age, dx], proportionality: log_time}
protection: {min_sites: 4, min_participants: 30, max_participants: 100000, min_participants_per_site: 5}
privacy: {noise: none}
"""


def test_every_analysis_ends_with_what_it_gives_alone() -> None:
    rng, size = np.random.default_rng(1), 400
    age, dx = rng.uniform(5, 65, size), rng.integers(0, 2, size)
    days = np.ceil(rng.exponential(300 * np.exp(-0.3 * dx), size))
    numbers = {"age": age, "days": days, "visits": rng.poisson(3, size).astype(np.float64)}
    levels = {"dx": dx.astype(np.int16), "seen": rng.integers(0, 2, size).astype(np.int16)}
    sites = split(Batch(size, numbers, levels), rng.integers(0, 5, size))
    plan = plan_study(frozen(STUDY), roster_of(5))
    first, rounds = plan.statistics, 0
    assert plan.most_rounds == 26
    assert plan.seen_by_sites == ("hazard", "odds", "rates")
    while True:
        rounds += 1
        total = np.zeros(sum(block.size for block in plan.round.blocks), np.int64)
        for site in sites:
            people, items = plan.supply([site], 5)
            count, values = plan.contribution(partial(iter, [site]), plan.round.blocks, items)
            assert count == people == site.people
            total = total + values
        sums = by_block(plan.round.blocks, total)
        following = plan.advance(sums)
        if following is None:
            break
        plan = following
    tables = {table.analysis: table for table in plan.finish(sums)}
    assert rounds <= 6
    for statistic in first:
        alone, _ = federate_rounds(statistic, sites)
        for table in alone:
            found = tables[table.analysis]
            assert (found.columns, found.notes) == (table.columns, table.notes)
            for line, known in zip(found.rows, table.rows, strict=True):
                for cell, other in zip(line, known, strict=True):
                    if isinstance(other, Absent | str):
                        assert cell == other
                    else:
                        assert cell == pytest.approx(other, rel=1e-9, abs=1e-12)
    assert {row[-1] for row in tables["hazard.proportionality"].rows} == {"ok"}
