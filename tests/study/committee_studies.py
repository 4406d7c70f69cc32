"""Studies in mode committee, played over plain numbers: the runs of a study without sharing, sealing and workers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cohortsum.protocol.committee.evaluation import evaluate
from cohortsum.study.batch import Batch
from cohortsum.study.committee import Run, Stopped, first_run
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.results import Table
from tests.protocol.committee.played import Plain, roster_of
from tests.study.definitions import frozen

STUDY = """\
study: closed
title: A study over a committee
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {{levels: [control, autism, other, none]}}
  sex: {{levels: [female, male]}}
  hand: {{levels: [left, right]}}
  age: {{unit: years, range: [0, 100]}}
  iq: {{unit: points, range: [40, 160], out_of_range: exclude}}
  size: {{unit: mm, range: [-1, 5]}}
cohort: {{epoch: 2026-11}}
analyses:
{analyses}
protection: {{{protection}}}
privacy: {{noise: none}}
"""
PROTECTION = (
    "mode: committee, committee: [site0, site1, site2], min_sites: 3, min_participants: 20, max_participants: 10000, "
    "min_participants_per_site: 1, min_honest_inputs: 3, max_colluding_sites: 1"
)


def study_of(analyses: Sequence[str], protection: str = PROTECTION) -> str:
    """Return a study file with these entries under ``analyses``."""
    lines = "\n".join(f"  a{place}: {{{entry}}}" for place, entry in enumerate(analyses))
    return STUDY.format(analyses=lines, protection=protection)


def planned(*analyses: str, sites: int = 5, protection: str = PROTECTION) -> StudyPlan:
    """Return the plan of such a study."""
    return plan_study(frozen(study_of(analyses, protection)), roster_of(sites))


@dataclass
class Play:
    """What came of a study.

    Attributes:
        runs: in their order.
        revealed: all numbers that were opened as numbers.
        ended: tables, or why there are none.
    """

    runs: list[Run] = field(default_factory=list[Run])
    revealed: list[int] = field(default_factory=list[int])
    ended: tuple[Table, ...] | Stopped = ()

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table by column."""
        assert not isinstance(self.ended, Stopped), self.ended.reason
        (found,) = (table for table in self.ended if table.analysis == name)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def play(plan: StudyPlan, sites: Sequence[Batch]) -> Play:
    """Play all runs of a study over the people of all its sites."""
    played = Play()
    here: Run | Stopped | tuple[Table, ...] = first_run(plan, roster_of(len(sites)), range(len(sites)))
    while isinstance(here, Run):
        played.runs.append(here)
        vectors = [here.values(halves(site)) for site in sites]
        plain = Opened(played.revealed)
        sums = [sum(column) for column in zip(*vectors, strict=True)]
        here = here.after(asyncio.run(evaluate(here.plan, sums, plain)))
    played.ended = here
    return played


class Opened(Plain):
    """Writes down what is opened as a number."""

    def __init__(self, revealed: list[int]) -> None:
        self.revealed = revealed

    async def reveal(self, shares: Sequence[int]) -> list[int]:
        """Open and write down."""
        self.revealed += shares
        return await super().reveal(shares)


def halves(site: Batch) -> list[Batch]:
    """Return a site's people in two batches."""
    cut = site.people // 2
    return [
        Batch(
            stop - start,
            {name: values[start:stop] for name, values in site.numbers.items()},
            {name: levels[start:stop] for name, levels in site.levels.items()},
        )
        for start, stop in ((0, cut), (cut, site.people))
    ]


def site_of(people: int, seed: int = 0, **columns: Any) -> Batch:
    """Return a site with these columns, and others of no interest."""
    draw = np.random.default_rng(seed)
    numbers = {
        "age": draw.uniform(0, 100, people),
        "iq": draw.uniform(40, 160, people),
        "size": draw.uniform(-1, 5, people),
    }
    levels = {name: draw.integers(0, 2, people).astype(np.int16) for name in ("dx", "sex", "hand")}
    for name, values in columns.items():
        if name in levels:
            levels[name] = np.asarray(values, np.int16)
        else:
            numbers[name] = np.asarray(values, np.float64)
    return Batch(people, numbers, levels)
