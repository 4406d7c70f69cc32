"""From a study in mode committee to the runs of its committee, and from their answers to tables.

====  =================================================  ==================================================================
run   what is computed                                   and then
====  =================================================  ==================================================================
1     whether there are min_participants people          the study ends if not: nothing else is opened, n neither
2     the counts of every table that are large           tables of counts are finished
3..   where the ranks of quantiles lie, in stages        quantiles are finished
====  =================================================  ==================================================================

Every run but the first follows from the answers before it, which all sites have with the signatures of all members; so each site makes
the plan of every run for itself. `Run` is one of them, pure; `Run.after` gives the next one.

**Complementary suppression** is decided before anything is opened, from the pattern of small counts alone (`protocol.committee.pattern`).
Where a study has one table, it does not tell how many people it is about: what is small stays closed, and beside a lone small count a
large one, since another study may tell the number. Where it has several, one may tell it for another: then each is opened as if it were
known, and every small count has a large one closed beside it. What two
tables could otherwise share, variables and conditions, the study file has apart (`definition.by_committee`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.committee import (
    SUPPRESSED,
    Answer,
    CommitteePlan,
    Complement,
    OpenCounts,
    OrderStatistics,
    Program,
    Threshold,
)
from cohortsum.protocol.committee.plain import answers_to_bytes
from cohortsum.protocol.committee.programs import Interval
from cohortsum.protocol.roster import Roster
from cohortsum.study.batch import Batch
from cohortsum.study.committee_members import members_of
from cohortsum.study.definition.by_committee import searches_of, width_of
from cohortsum.study.definition.grids import Grid
from cohortsum.study.planning import StudyPlan
from cohortsum.study.results import Table
from cohortsum.study.statistics.by_committee import CountTable, Found
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.exact_quantiles import ExactQuantiles
from cohortsum.study.statistics.histogram import Histogram

RESULT = "cohortsum/v1/committee/answers"
ENOUGH = "people"
"""The name of the first program."""

Integers = NDArray[np.int64]
Answered = Crosstab | Histogram | ExactQuantiles


@dataclass(frozen=True, slots=True)
class Stopped:
    """Nothing more may be opened; ``reason`` is public."""

    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study's committee.

    Attributes:
        study: the plan of the study.
        plan: what the committee computes.
        found: the counts that earlier runs opened, by table.
        ended: searches that came to an end, by name, with the level of every rank.
    """

    study: StudyPlan
    plan: CommitteePlan
    found: Found = field(default_factory=dict[str, tuple[int | None, ...]], repr=False)
    ended: Mapping[str, tuple[OrderStatistics, tuple[Interval, ...]]] = field(
        default_factory=dict[str, tuple[OrderStatistics, tuple[Interval, ...]]], repr=False
    )

    def values(self, batches: Iterable[Batch]) -> tuple[int, ...]:
        """Return what a site brings: its numbers for every program, from its raw values.

        Raises ConfigurationError where they do not keep to the bounds of the plan.
        """
        people, statistics = 0, answered(self.study)
        totals: dict[str, Integers] = {}
        searches = [program for program in self.plan.programs if isinstance(program, OrderStatistics)]
        for raw in batches:
            batch = self.study.cohort.prepare(raw)
            people += batch.people
            for statistic in statistics:
                parts = dict(statistic.contribute(statistic.accumulate(batch))) if not searches else {}
                if isinstance(statistic, ExactQuantiles):
                    parts |= statistic.counted(batch, searches)
                for name, counts in parts.items():
                    totals[name] = totals[name] + counts if name in totals else counts
        tables = tables_of(self.study)
        values: list[int] = []
        for program in self.plan.programs:
            match program:
                case Threshold():
                    values.append(people)
                case OpenCounts():
                    values += [
                        int(totals[name][place]) if name in totals else 0
                        for name, place in tables[program.name].places
                    ]
                case OrderStatistics():
                    held = totals.get(program.name)
                    values += [0] * program.length if held is None else [int(count) for count in held]
        self.plan.check_values(values)
        return tuple(values)

    def after(self, answers: Sequence[Answer]) -> "Run | Stopped | tuple[Table, ...]":
        """Return the next run, the reason why there is none, or the tables once everything is found.

        Raises ConfigurationError for answers that cannot be this plan's.
        """
        checked = self.plan.check_answers(answers)
        held = dict(zip(self.plan.programs, checked, strict=True))
        if self.plan.stage == 1:
            (enough,) = checked[0]
            if enough != 1:
                least = self.study.round.protection.min_participants
                return Stopped(f"the sites have fewer than min_participants {least} people together")
            return self._next(checked, _openings(self.study), self.found)
        found = {
            program.name: tuple(None if count == SUPPRESSED else count for count in answer[: program.cells])
            for program, answer in held.items()
            if isinstance(program, OpenCounts)
        }
        if found:
            return self._search(checked, found)
        ended = dict(self.ended)
        further: list[Program] = []
        for program, answer in held.items():
            if not isinstance(program, OrderStatistics):
                continue
            levels = program.found(answer)
            following = None if levels is None else program.narrowed(levels)
            if following is not None:
                further.append(following)
            elif levels is not None:
                ended[program.name] = program, levels
        return self._next(checked, further, self.found, ended)

    def _search(self, answers: Sequence[Answer], found: Found) -> "Run | tuple[Table, ...]":
        sought = sum(
            searches_of(spec, self.study.study.variables) for spec in self.study.study.analyses.values()
        )
        searches = [
            search
            for statistic in answered(self.study)
            if isinstance(statistic, ExactQuantiles)
            for search in statistic.searches(found, width_of(sought))
        ]
        return self._next(answers, searches, found)

    def _next(
        self,
        answers: Sequence[Answer],
        programs: Sequence[Program],
        found: Found,
        ended: Mapping[str, tuple[OrderStatistics, tuple[Interval, ...]]] | None = None,
    ) -> "Run | tuple[Table, ...]":
        """Return the run of ``programs``, or the tables where there are none."""
        before, levels = self.plan, ended or {}
        if not programs:
            return _tables(self.study, found, levels)
        earlier = digest(RESULT, before.digest, answers_to_bytes(tuple(answers)))
        plan = CommitteePlan(
            before.members,
            before.dealers,
            before.colluding,
            tuple(programs),
            before.stage + 1,
            earlier,
            before.honest,
        )
        return Run(self.study, plan, found, levels)


def first_run(plan: StudyPlan, roster: Roster, dealers: Sequence[int]) -> Run:
    """Return the first run of a study.

    Args:
        plan: of the study.
        roster: that it names.
        dealers: roster indices of the sites that take part, ascending.

    Raises:
        StudyFileError: a member of the committee is no site of the roster.
        ConfigurationError: these sites are too few, or not of the roster.
    """
    protection = plan.round.protection
    if not set(dealers) <= set(roster.sites.values()) or len(dealers) < protection.suppliers_minimum:
        raise ConfigurationError(
            f"study {plan.study.study}: {len(dealers)} sites take part, {protection.suppliers_minimum} are required"
        )
    enough = Threshold(ENOUGH, protection.min_participants, protection.max_participants)
    members = members_of(plan.study, roster)
    colluding, honest = protection.max_colluding_sites, protection.min_honest_inputs
    return Run(plan, CommitteePlan(members, tuple(dealers), colluding, (enough,), honest=honest))


def runs_at_most(plan: StudyPlan, roster: Roster) -> tuple[CommitteePlan, ...]:
    """Return plans as large as those of a study can become, over all sites of the roster: for what they cost, and nothing else."""
    first = first_run(plan, roster, sorted(roster.sites.values())).plan
    specs = plan.study.analyses.values()
    programs: list[tuple[Program, ...]] = [first.programs, _openings(plan)]
    searched = [one for one in answered(plan) if isinstance(one, ExactQuantiles)]
    width = width_of(sum(searches_of(spec, plan.study.variables) for spec in specs)) if searched else 1
    spans = {
        f"{one.name}/{variable.name}/{group}": (Grid(variable, one.step).levels, 2 * len(one.probabilities))
        for one in searched
        for variable in one.variables
        for group in range(len(one.groups.cells))
    }
    people, sizes = (
        plan.round.protection.max_participants,
        {name: levels for name, (levels, _) in spans.items()},
    )
    while sizes:
        stage: list[Program] = []
        for name, size in sizes.items():
            levels, asked = spans[name]
            ranks = tuple(range(1, min(asked, people) + 1))
            apart = max(1, levels // size)
            brackets = tuple(
                (at * size, (at + 1) * size) for at in (min(rank - 1, apart - 1) for rank in ranks)
            )
            stage.append(OrderStatistics(name, levels, people, ranks, brackets, width))
        programs.append(tuple(stage))
        sizes = {name: -(-size // width) for name, size in sizes.items() if size > width}
    return tuple(
        CommitteePlan(first.members, first.dealers, first.colluding, here, stage, honest=first.honest)
        for stage, here in enumerate(programs, start=1)
    )


def answered(plan: StudyPlan) -> tuple[Answered, ...]:
    """Return the statistics of a study in mode committee; the study file has no others."""
    return tuple(one for one in plan.statistics if isinstance(one, Crosstab | Histogram | ExactQuantiles))


def tables_of(plan: StudyPlan) -> Mapping[str, CountTable]:
    """Return the tables of counts that the committee opens, by name, in the order of the study."""
    return {table.name: table for statistic in answered(plan) for table in statistic.count_tables()}


def _openings(plan: StudyPlan) -> tuple[OpenCounts, ...]:
    """Return the programs that open the counts of all tables."""
    tables = tables_of(plan)
    least = plan.study.protection.min_cell
    assert least is not None, "a frozen study in mode committee has one"  # noqa: S101
    alone = len(tables) == 1
    return tuple(
        OpenCounts(
            name,
            len(table.places),
            least,
            plan.round.protection.max_participants,
            totals=() if alone or len(table.places) == 1 else (tuple(range(len(table.places))),),
            complement=Complement.COMPANY if alone else Complement.CELLS,
        )
        for name, table in tables.items()
    )


def _tables(
    plan: StudyPlan, found: Found, levels: Mapping[str, tuple[OrderStatistics, tuple[Interval, ...]]]
) -> tuple[Table, ...]:
    by_name = {
        statistic.name: statistic.finish_levels(found, levels)
        if isinstance(statistic, ExactQuantiles)
        else statistic.finish_counts(found)
        for statistic in answered(plan)
    }
    return tuple(table for name in plan.study.analyses for table in by_name[name])
