"""Proportional hazards: Cox's partial likelihood, every site a stratum of its own, one round per iteration.

Hazards may differ between sites in any way; the effects of the covariates are shared. The log-likelihood is then a sum over
sites, each from its own risk sets, so no event time leaves a site. A site gathers its people, forms likelihood, score and
information at the round's point (`risk_sets`) and rounds them once. A site with fewer than ``min_events`` events adds nothing to
them. The first point is 0. Where a test of proportional hazards is asked for, one more round at the maximum adds score and
information weighted by a function of time (`proportionality`).

==================  =========  ===============================================================================
``people``          additive   n, events
``sites``           site       1 if the site's events are in the likelihood
``score``           site       columns; then, with the test, columns times g(time)
``information``     site       upper triangle by rows; then, with the test, times g(time) and times g(time)^2
``fit``             site       minus the log-likelihood, that without covariates, events in it, people at the clip of the
                               predictor, events in ties too large for ``exact``
==================  =========  ===============================================================================

A person counts with a time, a status, every covariate and, where people come under observation later, a start before the time.
Everybody has one spell: people who are seen twice, or whose covariates change, need one row of the table each, and that a table
of people does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.cox_tables import Fitted, Request, tables
from cohortsum.study.statistics.cox_totals import DIVISORS, Opened, opened
from cohortsum.study.statistics.design import Design, Group, build_design
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, set_name, to_grid
from cohortsum.study.statistics.newton import Failure, Maximum, Point, advance, first_point
from cohortsum.study.statistics.parameters import rounded
from cohortsum.study.statistics.risk_sets import Spells, Ties, partial_likelihood, shares
from cohortsum.study.statistics.targets import Event
from cohortsum.study.statistics.units import Where, clipped, normalised, selected
from cohortsum.study.variables import Factor, Number, Variable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cox(Statistic):
    """A proportional hazards model.

    Attributes:
        name: name of the analysis.
        time: from the origin to the event or the last time seen.
        event: the level of a factor that is the event.
        terms: variables and interactions ``a:b``.
        variables: the study's variables by name; those of ``terms`` are used.
        fraction_bits: grid of the sums.
        start: from the origin to when a person came under observation; None for everybody from the start.
        ties: how events at one time of a site are treated.
        min_events: least events of a site in the likelihood.
        proportionality: the function of time of the test, if one is asked for.
        max_iterations: most evaluations.
        where: the subgroup, or everybody.
        point: where this round is evaluated; None in the first round, which is at 0.
        fitted: the model, in the round of the test.

    Raises:
        StudyFileError: a term names something the study does not have.
    """

    name: str
    time: Number
    event: Event
    terms: tuple[str, ...]
    variables: Mapping[str, Variable]
    fraction_bits: int
    start: Number | None = None
    ties: Ties = "efron"
    min_events: int = 1
    proportionality: Literal["time", "log_time"] | None = None
    max_iterations: int = 25
    where: Where | None = None
    point: Point | None = None
    fitted: Fitted | None = None
    _design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design and refuse what it does not have."""
        object.__setattr__(self, "_design", build_design(self.name, self.terms, self.variables))

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks people, sites, score, information and fit."""
        columns, bits, tested = len(self._design.columns), self.fraction_bits, self.fitted is not None
        triangle = columns * (columns + 1) // 2
        whom = self._sets(self._design.groups(1)[:1])
        single, pairs = self._sets(self._design.groups(1)), self._sets(self._design.groups(2))
        return (
            self._block("people", "additive", 2, "person", 0, whom),
            self._block("sites", "site", 1, "site", 0, whom),
            self._block("score", "site", columns * (1 + tested), "person", bits, single),
            self._block("information", "site", triangle * (1 + 2 * tested), "person", bits, pairs),
            self._block("fit", "site", len(DIVISORS), "person", bits, whom),
        )

    def accumulate(self, batch: Batch) -> State:
        """Return the people of the batch: ``start``, ``stop``, ``event`` and ``x``, one row each."""
        _, spells = self._spells(batch)
        gathered = (spells.start, spells.stop, spells.event.astype(np.float64), spells.x)
        return dict(zip(("start", "stop", "event", "x"), gathered, strict=True))

    def merge(self, states: Sequence[State]) -> State:
        """Return all people behind ``states``."""
        return {
            name: np.concatenate([np.asarray(state[name], np.float64) for state in states])
            for name in states[0]
        }

    def members(self, batch: Batch) -> Members:
        """Return who counts, by levels and their crossings, and who of them has the event."""
        people, spells = self._spells(batch)
        known, events = np.zeros(batch.people, np.bool_), np.zeros(batch.people, np.bool_)
        known[people] = True
        events[people[spells.event]] = True
        groups = self._design.groups(2)
        held = [group.holds(batch) for group in groups]
        names = self._sets(groups)
        masks = [known & inside for inside in held] + [events & inside for inside in held]
        return dict(zip(names, masks, strict=True))

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block, from all people of the site."""
        spells = self._gathered(state)
        people, events = len(spells.stop), int(np.count_nonzero(spells.event))
        taken = events >= max(1, self.min_events)
        if not taken:
            spells = Spells(spells.start[:0], spells.stop[:0], spells.event[:0], spells.x[:0])
        found = partial_likelihood(spells, self._beta, self.ties, self._powers(spells.stop))
        null = replace(spells, x=spells.x[:, :0])
        without = partial_likelihood(null, (), self.ties)
        fit = np.array((found.objective, without.objective, events * taken, found.clipped, found.untreated))
        powers = 2 if self.fitted is not None else 1
        return {
            self._called("people"): np.array((people, events), np.int64),
            self._called("sites"): np.array((int(taken),), np.int64),
            self._called("score"): self._grid(found.score[:powers].ravel() / 2, people),
            self._called("information"): self._grid(found.information.ravel() / 2, people),
            self._called("fit"): self._grid(fit / DIVISORS, people),
        }

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the coefficients, the fit and, where it is asked for, the test of proportional hazards."""
        here = opened(self, sums)
        after = self.fitted if self.fitted is not None else self._after(here)
        if isinstance(after, Point):
            after = Fitted(Status.NOT_FINISHED, here)
        tested = here if self.fitted is not None else None
        request = Request(self.name, self.event.name, self._design.columns, self.proportionality, self.ties)
        return tables(request, after, tested)

    @property
    def most_rounds(self) -> int:
        """One round per evaluation, and one for the test of proportional hazards."""
        return self.max_iterations + (self.proportionality is not None)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The point at which this round is evaluated; empty in the first round."""
        return () if self.point is None and self.fitted is None else self._beta

    def further(self, sums: Sums) -> "Cox | None":
        """Return the round at the next point or of the test, or None where everything is done."""
        if self.fitted is not None:
            return None
        after = self._after(opened(self, sums))
        if isinstance(after, Point):
            return replace(self, point=after)
        wanted = self.proportionality is not None and after.status is Status.OK
        return replace(self, fitted=after) if wanted else None

    def effective_people(self, state: State) -> float:
        """Return on how many people the events of this site rest, by each person's expected number of them."""
        spells = self._gathered(state)
        if not spells.event.any():
            return inf
        weights = shares(spells, self._beta)
        return float(weights.sum() ** 2 / (weights * weights).sum())

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return len(self._design.columns)

    def block(self, part: str, sums: Sums) -> NDArray[np.int64] | None:
        """Return the opened numbers of a block, or None where too few sites supply it."""
        return sums.get(self._called(part))

    @property
    def _beta(self) -> tuple[float, ...]:
        """The point of this round: of the fit, of the maximum where hazards are tested, or 0."""
        if self.fitted is not None and isinstance(self.fitted.outcome, Maximum):
            return tuple(float(value) for value in rounded(self.fitted.outcome.beta))
        return (0.0,) * self.size if self.point is None else self.point.beta

    def _after(self, here: Opened | None) -> Point | Fitted:
        """Return where the fit goes from the opened sums."""
        if here is None:
            return Fitted(Status.TOO_FEW_SITES, None)
        if here.people == 0:
            return Fitted(Status.ALL_MISSING, here)
        at = first_point((0.0,) * self.size) if self.point is None else self.point
        if here.used == 0:
            return Fitted(Failure("no events", at.iterations + 1), here)
        if here.untreated:
            return Fitted(Failure("ties too large for exact", at.iterations + 1), here)
        reached = advance(at, here.evaluation, self.max_iterations, False, Status.ALIASED)
        if isinstance(reached, Point):
            return reached
        if here.clipped and isinstance(reached, Maximum):
            return Fitted(Failure("separation", reached.iterations), here)
        return Fitted(reached, here)

    def _spells(self, batch: Batch) -> tuple[NDArray[np.intp], Spells]:
        """Return the people of a batch who count, and their spells."""
        people = selected(batch, self.where)
        stop, events = clipped(batch, self.time, people), self.event.values(batch, people)
        begin = np.full(len(people), -inf) if self.start is None else clipped(batch, self.start, people)
        x = self._design.values(batch, people)
        known = ~np.isnan(stop) & ~np.isnan(events) & ~np.isnan(x).any(axis=1) & (begin < stop)
        return people[known], Spells(begin[known], stop[known], events[known] == 1.0, x[known])

    def _gathered(self, state: State) -> Spells:
        begin, stop, event, x = (
            np.asarray(state[name], np.float64) for name in ("start", "stop", "event", "x")
        )
        return Spells(begin, stop, event > 0.0, x)

    def _powers(self, stop: Floats) -> Floats | None:
        """Return 1, g and g^2 of the times in the round of the test; g lies in [-1, 1] over the public range."""
        if self.fitted is None:
            return None
        low, high, values = self.time.lower, self.time.upper, stop
        if self.proportionality == "log_time":
            low, high, values = log(low), log(high), np.log(stop)
        g = normalised(values, (low + high) / 2, (high - low) / 2)
        return np.stack((np.ones(len(g)), g, g * g))

    def _grid(self, values: Floats, people: int) -> NDArray[np.int64]:
        """Return values within the bound of one unit per person, rounded to the grid once."""
        return to_grid(np.clip(values, -float(people), float(people)), self.fraction_bits)

    def _block(
        self,
        part: str,
        kind: Literal["additive", "site"],
        size: int,
        per: Literal["person", "site"],
        bits: int,
        sets: tuple[str, ...],
    ) -> Block:
        return Block(self._called(part), kind, size, 1.0, per, bits, self._supply, sets)

    @property
    def _supply(self) -> tuple[frozenset[str], ...]:
        """Return the supply groups: the time, then the time together with each level of each factor."""
        factors: tuple[Factor, ...] = self._design.factors
        levels = [factor.level_name(level) for factor in factors for level in factor.levels]
        base = frozenset({self.time.name})
        return (base, *(base | {level} for level in (*self.event.levels, *levels)))

    def _called(self, part: str) -> str:
        return set_name(self.name, self.time.name, part)

    def _sets(self, groups: Sequence[Group]) -> tuple[str, ...]:
        """Return the names of the people sets: who counts, by group, then those with the event, by group."""
        everybody = [set_name(self.name, self.time.name, *group.names) for group in groups]
        events = [set_name(self.name, self.time.name, "event", *group.names) for group in groups]
        return (*everybody, *events)
