"""Logistic and Poisson regression: maximum likelihood over all people, one round per iteration.

The first round adds unweighted sums, from which everybody forms the model of an intercept alone exactly, its score and its
information, and takes the first step (`null`); every further round adds score, information and deviance at the point that
follows (`newton`). Each outcome converges for itself; one that is finished leaves the rounds. All blocks are additive: every
person's value, bounded as `families` says, is rounded to the grid.

Per outcome, over the people who have it, every covariate and the offset; x starts with a 1 for the intercept:

===============  ==============================================  ====================================================
block            first round                                     further rounds
===============  ==============================================  ====================================================
``people``       n; binomial: events                             the same
``information``  exp(offset) x x', upper triangle by rows        weight x x'
``score``        y x                                             (y - mean) x
``totals``       Poisson: y, exp(offset), v log v - v offset,    the same
                 saturated log-likelihood
``fit``          -                                               deviance, people at the clip of the predictor
===============  ==============================================  ====================================================

People sets are those who count for an outcome, at the levels of the factors and at each crossing whose columns meet, and those
with the event among them; the later rounds are about no others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.design import Design, Group, build_design
from cohortsum.study.statistics.families import Family
from cohortsum.study.statistics.glm_sums import Adding, Rows, rows_of, stacked
from cohortsum.study.statistics.glm_tables import Fitted, Request, tables
from cohortsum.study.statistics.glm_totals import SEPARATED, Opened, null_model, opened
from cohortsum.study.statistics.interface import (
    Block,
    Members,
    State,
    Statistic,
    Sums,
    merge,
    set_name,
)
from cohortsum.study.statistics.newton import Failure, Point, advance, first_point
from cohortsum.study.statistics.targets import Count, Event, Shift, Target
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Variable

Standing = Point | Fitted | None
"""Where an outcome stands: at the next point, finished, or, in the first round, nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glm(Statistic):
    """A generalised linear model per outcome on shared terms.

    Attributes:
        name: name of the analysis.
        family: binomial or Poisson.
        targets: one model each.
        terms: variables and interactions ``a:b``.
        variables: the study's variables by name; those of ``terms`` are used.
        fraction_bits: grid of the sums.
        shift: the offset, if there is one.
        max_iterations: most evaluations of an outcome.
        where: the subgroup, or everybody.
        standings: per outcome; empty in the first round.

    Raises:
        StudyFileError: a term names something the study does not have.
    """

    name: str
    family: Family
    targets: tuple[Target, ...]
    terms: tuple[str, ...]
    variables: Mapping[str, Variable]
    fraction_bits: int
    shift: Shift | None = None
    max_iterations: int = 25
    where: Where | None = None
    standings: tuple[Standing, ...] = ()
    _design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design and refuse what it does not have."""
        object.__setattr__(self, "_design", build_design(self.name, self.terms, self.variables))
        if not self.targets:
            raise StudyFileError(f"analysis '{self.name}', field 'outcomes': expected at least one; name it")

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the outcomes that are not finished, in their order."""
        blocks: list[Block] = []
        size, bits = 1 + len(self._design.columns), self.fraction_bits
        single, pairwise = self._design.groups(1), self._design.groups(2)
        for target, _ in self._active:
            supply, first = self._supply(target), not self.standings
            everybody, events = self._sets(target, single[:1]), self._event_sets(target, single[:1])
            whom = (*everybody, *events)
            blocks.append(self._block(target, "people", len(whom), 0, supply, whom))
            sets = self._sets(target, pairwise)
            blocks.append(self._block(target, "information", size * (size + 1) // 2, bits, supply, sets))
            at_levels = self._event_sets(target, single)
            if not (first and at_levels):
                at_levels = (*self._sets(target, single), *at_levels)
            blocks.append(self._block(target, "score", size, bits, supply, at_levels))
            if isinstance(target, Count):
                blocks.append(self._block(target, "totals", 4, bits, supply, everybody))
            if not first:
                blocks.append(self._block(target, "fit", 2, bits, supply, whom))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return the integers of all blocks by part, one row per outcome, and the moments of its weights."""
        return reduce(
            lambda state, other: merge((state, other)), (self._sums(batch, r) for r in self._rows(batch))
        )

    def members(self, batch: Batch) -> Members:
        """Return who counts for each outcome, by levels and their crossings, and who of them has the event."""
        groups, single = self._design.groups(2), self._design.groups(1)
        held = {group: group.holds(batch) for group in groups}
        known = np.zeros(batch.people, np.bool_)
        for rows in self._rows(batch):
            known[rows.people] = True
        everyone = np.arange(batch.people)
        masks: dict[str, NDArray[np.bool_]] = {}
        for target, _ in self._active:
            values = target.values(batch, everyone)
            cases = known & ~np.isnan(values)
            for name, group in zip(self._sets(target, groups), groups, strict=True):
                masks[name] = cases & held[group]
            if isinstance(target, Event):
                for name, group in zip(self._event_sets(target, single), single, strict=True):
                    masks[name] = cases & (values == 1.0) & held[group]
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block; they are the state itself."""
        sent: dict[str, NDArray[np.int64]] = {}
        for row, (target, _) in enumerate(self._active):
            for part in self._parts(target):
                sent[set_name(self.name, target.name, part)] = state[part][row].astype(np.int64)
            if isinstance(target, Count):  # a count has no event
                people = set_name(self.name, target.name, "people")
                sent[people] = sent[people][:1]
        return sent

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of coefficients and the table of fits."""
        request = Request(self.name, self.family, self.targets, self._design.columns, self.shift)
        standings = zip(self.targets, self._after(sums), strict=True)
        return tables(request, [self._settled(target, standing, sums) for target, standing in standings])

    @property
    def most_rounds(self) -> int:
        """One round per evaluation."""
        return self.max_iterations

    @property
    def parameters(self) -> tuple[float, ...]:
        """The points at which the outcomes that are not finished are evaluated."""
        return tuple(value for _, point in self._active if point is not None for value in point.beta)

    def further(self, sums: Sums) -> "Glm | None":
        """Return the round at the next points, or None where every outcome is finished."""
        after = self._after(sums)
        return replace(self, standings=after) if any(isinstance(one, Point) for one in after) else None

    def effective_people(self, state: State) -> float:
        """Return the least effective number of people over the outcomes that anybody has here."""
        moments = np.asarray(state["weights"], np.float64)
        held = moments[moments[:, 1] > 0.0]
        return float(np.min(held[:, 0] ** 2 / held[:, 1])) if len(held) else inf

    @property
    def _active(self) -> tuple[tuple[Target, Point | None], ...]:
        """The outcomes in this round, each with the point at which it is evaluated."""
        standings = self.standings or (None,) * len(self.targets)
        return tuple(
            (target, standing)
            for target, standing in zip(self.targets, standings, strict=True)
            if not isinstance(standing, Fitted)
        )

    def _parts(self, target: Target) -> Iterator[str]:
        yield from ("people", "information", "score")
        if isinstance(target, Count):
            yield "totals"
        if self.standings:
            yield "fit"

    def _block(
        self,
        target: Target,
        part: str,
        size: int,
        bits: int,
        supply: tuple[frozenset[str], ...],
        sets: tuple[str, ...],
    ) -> Block:
        return Block(
            set_name(self.name, target.name, part), "additive", size, 1.0, "person", bits, supply, sets
        )

    def _supply(self, target: Target) -> tuple[frozenset[str], ...]:
        """Return the supply groups: the outcome, then the outcome together with each level of each factor."""
        levels = [factor.level_name(level) for factor in self._design.factors for level in factor.levels]
        return (target.items, *(target.items | {level} for level in (*target.levels, *levels)))

    def _sets(self, target: Target, groups: Sequence[Group]) -> tuple[str, ...]:
        """Return the names of the people sets: who counts for an outcome, by group."""
        return tuple(set_name(self.name, target.name, *group.names) for group in groups)

    def _event_sets(self, target: Target, groups: Sequence[Group]) -> tuple[str, ...]:
        """Return the names of the sets of those with the event, by group; a count has none."""
        if isinstance(target, Count):
            return ()
        return tuple(set_name(self.name, target.name, "event", *group.names) for group in groups)

    def _rows(self, batch: Batch) -> Iterator[Rows]:
        return rows_of(batch, self._design, self.shift, self.where)

    def _sums(self, batch: Batch, rows: Rows) -> State:
        """Return the state of some people."""
        return stacked(
            [
                Adding(
                    target, self.family, self.shift, None if point is None else point.beta, self.fraction_bits
                ).sums(batch, rows)
                for target, point in self._active
            ]
        )

    def _after(self, sums: Sums) -> tuple[Standing, ...]:
        """Return where every outcome stands once the sums of this round are opened."""
        standings = self.standings or (None,) * len(self.targets)
        return tuple(
            standing if isinstance(standing, Fitted) else self._next(target, standing, sums)
            for target, standing in zip(self.targets, standings, strict=True)
        )

    def _next(self, target: Target, point: Point | None, sums: Sums) -> Point | Fitted:
        """Return where one outcome goes from the sums of this round."""
        here = self._opened(target, sums)
        if here is None:
            return Fitted(Status.TOO_FEW_SITES, None)
        if here.people == 0:
            return Fitted(Status.ALL_MISSING, here)
        if here.constant:
            return Fitted(Status.CONSTANT, here)
        evaluation = null_model(here) if point is None else here.evaluation
        if isinstance(evaluation, Failure):
            return Fitted(evaluation, here)
        at = first_point(here.null_point) if point is None else point
        reached = advance(at, evaluation, self.max_iterations, True, Status.CONSTANT)
        if isinstance(reached, Point):
            return Fitted(Failure(SEPARATED, reached.iterations), here) if here.separated else reached
        if here.clipped or here.separated:
            return Fitted(Failure(SEPARATED, reached.iterations), here)
        return Fitted(reached, here)

    def _opened(self, target: Target, sums: Sums) -> Opened | None:
        """Return the opened sums of one outcome, or None where too few sites supply it."""
        parts = {part: sums.get(set_name(self.name, target.name, part)) for part in self._parts(target)}
        known = {part: values for part, values in parts.items() if values is not None}
        return (
            opened(target, self.family, known, self.fraction_bits, self.shift)
            if len(known) == len(parts)
            else None
        )

    def _settled(self, target: Target, standing: Standing, sums: Sums) -> Fitted:
        """Return a finished outcome; one that is not was cut short, as rounds may be."""
        return (
            standing
            if isinstance(standing, Fitted)
            else Fitted(Status.NOT_FINISHED, self._opened(target, sums))
        )
