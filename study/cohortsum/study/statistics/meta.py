"""Two-stage meta-analysis: every site fits its own regression, and the estimates are pooled without anybody seeing one.

A site with at least ``min_per_arm`` people at the reference and at a level of the effect (for a number: with twice as many
people) fits each outcome by itself (`local_fit`) and weighs its estimate b by w = 1 / (v + t). Sums over sites give the fixed
effect in the first round, where t = 0; random effects ask again at t = tau2, REML until its tau2 stands still
(`random_effects`). Per outcome and column of the effect:

============  =====  ==================================================================================================
``included``  round  n, and for a factor the people at reference and level, of the sites that have an estimate
``sites``     one    1 with an estimate; 1 with the people but no estimate; per other column, 1 with an estimate without it
``sums``      each   w, wb, wb^2; with a random model also w^2, with REML w^2 b and w^2 b^2
``rests``     each   for ``b`` only: what rounding to the grid took from the sums (`words`)
============  =====  ==================================================================================================

All blocks are `site` blocks. A site of n people adds at most n to each scaled sum, by the bounds of `local_fit`; nothing is
clipped that a study could reach. People sets are those of `regression`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.design import Design, Group, build_design
from cohortsum.study.statistics.interface import (
    Block,
    Members,
    State,
    Statistic,
    Sums,
    set_name,
)
from cohortsum.study.statistics.local_fit import LEAST_RESIDUAL, LocalEffect, Measure, local_fit
from cohortsum.study.statistics.meta_tables import Request, meta_table
from cohortsum.study.statistics.pooling import Course, Model, Pair, next_trial
from cohortsum.study.statistics.products import centred, floating_sums, slices, symmetric, who_counts
from cohortsum.study.statistics.random_effects import Trial
from cohortsum.study.statistics.units import Where
from cohortsum.study.statistics.words import REST_BOUND, from_words, in_words
from cohortsum.study.variables import Factor, Number, Variable

MOST_ROUNDS = 30
"""Rounds that REML may take; it needs 5 to 8 as a rule."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta(Statistic):
    """Pooled effects of one term on many outcomes.

    Attributes:
        name: name of the analysis.
        outcomes: one meta-analysis each, per level of the effect.
        terms: the model that each site fits, with an intercept.
        variables: the study's variables by name.
        effect: one of ``terms``, a variable; for d a factor.
        measure: Cohen's d, or the coefficient.
        models: which poolings are reported.
        min_per_arm: least people of each arm; at least 2.
        min_sites: with fewer estimates nothing is reported.
        correction: adjustment of the p-values over the outcomes.
        fraction_bits: grid of the sums.
        where: the subgroup, or everybody.
        courses: what earlier rounds found, in the order of outcomes and levels; empty in the first round.
    """

    name: str
    outcomes: tuple[Number, ...]
    terms: tuple[str, ...]
    variables: Mapping[str, Variable]
    effect: str
    measure: Measure
    models: tuple[Model, ...]
    min_per_arm: int
    min_sites: int
    fraction_bits: int
    correction: Literal["fdr_bh", "none"] = "none"
    where: Where | None = None
    courses: tuple[Course, ...] = ()
    _design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design."""
        object.__setattr__(self, "_design", build_design(self.name, self.terms, self.variables))

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of every outcome and column of the effect that this round asks about."""
        blocks: list[Block] = []
        bits, groups = self.fraction_bits, self._design.groups(2)
        for pair in self._asked:
            outcome, sets = self._outcome(pair), self._sets(pair.outcome, groups)
            supply = self._supply(outcome, pair)
            prefix, size = self._prefix(pair), self._sums_size
            if not self.courses:
                counted = self._sets(pair.outcome, self._arms(pair))
                others = len(self._design.columns) - len(self._effect_columns)
                blocks.append(
                    Block(f"{prefix}/included", "site", len(counted), 1.0, "person", 0, supply, counted)
                )
                blocks.append(Block(f"{prefix}/sites", "site", 2 + others, 1.0, "site", 0, supply, sets))
            blocks.append(Block(f"{prefix}/sums", "site", size, 1.0, "person", bits, supply, sets))
            if self.measure == "b":
                blocks.append(Block(f"{prefix}/rests", "site", size, REST_BOUND, "site", bits, supply, sets))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return people, x, xx, y, xy and yy, as `regression` with ``within``."""
        effect, levels = self._factor, self._levels
        parts = slices(
            batch, self._design, self.outcomes, None if effect is None else effect.name, False, self.where
        )
        return floating_sums(parts, levels)

    def members(self, batch: Batch) -> Members:
        """Return who counts for each outcome that is asked about: everybody, then by level."""
        asked = [
            outcome for outcome in self.outcomes if any(pair.outcome == outcome.name for pair in self._asked)
        ]
        groups = self._design.groups(2)
        held = [group.holds(batch) for group in groups]
        parts = slices(batch, self._design, self.outcomes, None, False, self.where)
        counted = who_counts(parts, len(self.outcomes), batch.people)
        return {
            name: counted[self.outcomes.index(outcome)] & at_levels
            for outcome in asked
            for name, at_levels in zip(self._sets(outcome.name, groups), held, strict=True)
        }

    def contribute(self, state: State) -> Sums:
        """Return the integers of this site: its weighted estimates, or zeros where it has none."""
        people = state["people"].astype(np.int64)
        sums = {name: state[name].astype(np.float64) for name in ("x", "xx", "y", "xy", "yy")}
        about_means = centred(people[:, 0], sums)
        columns, effects = len(self._design.columns), self._effect_columns
        others = [column for column in range(columns) if column not in effects]
        trials = dict(zip(self._asked, self._trial_values, strict=True))
        contribution: dict[str, Integers] = {}
        for row, outcome in enumerate(self.outcomes):
            cross = np.empty((columns + 1, columns + 1))
            cross[:columns, :columns] = symmetric(about_means["xx"][row], columns)
            cross[columns, :columns] = cross[:columns, columns] = about_means["xy"][row]
            cross[columns, columns] = about_means["yy"][row, 0]
            fitted = local_fit(people[row], cross, effects, self.measure)
            for position, column in enumerate(effects):
                pair = Pair(outcome.name, self._design.columns[column].name)
                if pair not in trials:
                    continue
                included, enough = self._included(people[row], position)
                found = fitted.effects[position] if enough else None
                prefix, has = self._prefix(pair), int(found is not None)
                if not self.courses:
                    dropped = [has * int(other not in fitted.kept) for other in others]
                    counts = [has, int(enough) - has, *dropped]
                    contribution[f"{prefix}/included"] = np.array(included, np.int64) * has
                    contribution[f"{prefix}/sites"] = np.array(counts, np.int64)
                n = float(people[row, 0])
                scaled = np.clip(self._scales * self._powers(found, trials[pair]), -n, n)
                first, rest = in_words(scaled, self.fraction_bits)
                contribution[f"{prefix}/sums"] = first
                if self.measure == "b":
                    contribution[f"{prefix}/rests"] = rest
        return contribution

    @property
    def most_rounds(self) -> int:
        """One for the fixed effect, two for DerSimonian-Laird, up to `MOST_ROUNDS` for REML."""
        if self._wants("reml"):
            return MOST_ROUNDS
        return 2 if self._wants("dl") else 1

    @property
    def parameters(self) -> tuple[float, ...]:
        """The trial values of this round, in the order of its blocks."""
        return self._trial_values if self.courses else ()

    def further(self, sums: Sums) -> "Statistic | None":
        """Return the round at the next trial values, or None once every model has what it needs."""
        courses = tuple(
            replace(course, asks=next_trial(course, self.models, MOST_ROUNDS, self.min_sites))
            for course in self._after(sums)
        )
        return None if all(course.asks is None for course in courses) else replace(self, courses=courses)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one row per outcome, column of the effect and model."""
        others = [
            column for place, column in enumerate(self._design.columns) if place not in self._effect_columns
        ]
        request = Request(
            analysis=self.name,
            models=self.models,
            min_sites=self.min_sites,
            min_per_arm=self.min_per_arm,
            correction=self.correction,
            factor=self._factor,
            others=tuple(column.name for column in others),
            sums_per_trial=self._sums_size,
        )
        return (meta_table(request, self._after(sums), self._units()),)

    def _after(self, sums: Sums) -> tuple[Course, ...]:
        """Return every course with what this round adds; those that were not asked about stay as they are."""
        courses = self.courses or tuple(Course(pair, 0.0) for pair in self._pairs)
        return tuple(self._opened(course, sums) for course in courses)

    def _opened(self, course: Course, sums: Sums) -> Course:
        prefix, asks = self._prefix(course.pair), course.asks
        if asks is None or f"{prefix}/sums" not in sums:
            return course
        if f"{prefix}/sites" in sums:
            counts = tuple(int(count) for count in sums[f"{prefix}/sites"])
            included = tuple(int(count) for count in sums[f"{prefix}/included"])
            course = replace(course, sites=counts, included=included)
        rests = sums.get(f"{prefix}/rests")
        opened = from_words(
            sums[f"{prefix}/sums"].tolist(), None if rests is None else rests.tolist(), self.fraction_bits
        )
        values = [value / Fraction(scale) for value, scale in zip(opened, self._scales.tolist(), strict=True)]
        values += [Fraction(0)] * (6 - len(values))  # not asked for, and not used
        if values[0] <= 0:  # no site has an estimate
            return course
        return replace(course, trials=(*course.trials, Trial(asks, *values)))

    @property
    def _factor(self) -> Factor | None:
        """The effect, if it is a factor."""
        variable = self.variables[self.effect]
        return variable if isinstance(variable, Factor) else None

    @property
    def _levels(self) -> int:
        return 0 if self._factor is None else len(self._factor.levels)

    @property
    def _effect_columns(self) -> tuple[int, ...]:
        return tuple(place for place, column in enumerate(self._design.columns) if column.term == self.effect)

    @property
    def _pairs(self) -> tuple[Pair, ...]:
        names = [self._design.columns[place].name for place in self._effect_columns]
        return tuple(Pair(outcome.name, name) for outcome in self.outcomes for name in names)

    @property
    def _asked(self) -> tuple[Pair, ...]:
        """The outcomes and columns that this round is about."""
        if not self.courses:
            return self._pairs
        return tuple(course.pair for course in self.courses if course.asks is not None)

    @property
    def _trial_values(self) -> tuple[float, ...]:
        if not self.courses:
            return (0.0,) * len(self._pairs)
        return tuple(course.asks for course in self.courses if course.asks is not None)

    @property
    def _sums_size(self) -> int:
        return 6 if self._wants("reml") else 4 if self._wants("dl") else 3

    @property
    def _scales(self) -> Floats:
        """Powers of two that bring w, wb, wb^2, w^2, w^2 b and w^2 b^2 of a site of n people within n."""
        weight = LEAST_RESIDUAL if self.measure == "b" else 1.0
        square = weight if self.measure == "b" else 0.5
        most_people = 2.0 ** (self.fraction_bits - 62)  # the inverse of a bound on any site's people
        scales = [weight, weight, square, weight**2 * most_people]
        scales += [weight**2 * most_people, weight * square * most_people]
        return np.array(scales[: self._sums_size])

    def _powers(self, found: LocalEffect | None, trial: float) -> Floats:
        if found is None:
            return np.zeros(self._sums_size)
        b, w = found.value, 1.0 / (found.variance + trial)
        return np.array([w, w * b, w * b * b, w * w, w * w * b, w * w * b * b][: self._sums_size])

    def _wants(self, model: Literal["dl", "reml"]) -> bool:
        return any(asked.startswith(model) for asked in self.models)

    def _included(self, people: Integers, position: int) -> tuple[list[int], bool]:
        """Return n (and the people of both arms) at this site, and whether they suffice."""
        if self._factor is None:
            return [int(people[0])], int(people[0]) >= 2 * self.min_per_arm
        arms = [int(people[1]), int(people[2 + position])]
        return [int(people[0]), *arms], min(arms) >= self.min_per_arm

    def _arms(self, pair: Pair) -> tuple[Group, ...]:
        """Return everybody, and for a factor the groups at the reference and at the level."""
        groups = [Group((), ())]
        if self._factor is not None:
            names = [self._factor.level_name(level) for level in self._factor.levels]
            groups += [Group((self._factor,), (level,)) for level in (0, names.index(pair.term))]
        return tuple(groups)

    def _supply(self, outcome: Number, pair: Pair) -> tuple[frozenset[str], ...]:
        """Return the one supply group: the outcome, with both arms where there are any."""
        return (frozenset({outcome.name, *(name for group in self._arms(pair) for name in group.names)}),)

    def _sets(self, outcome: str, groups: Sequence[Group]) -> tuple[str, ...]:
        return tuple(set_name(self.name, outcome, *group.names) for group in groups)

    def _prefix(self, pair: Pair) -> str:
        return f"{self.name}/{pair.outcome}/{pair.term}"

    def _outcome(self, pair: Pair) -> Number:
        return next(outcome for outcome in self.outcomes if outcome.name == pair.outcome)

    def _units(self) -> dict[Pair, float]:
        """Return by how much an estimate grows from normalised to natural units."""
        if self.measure == "cohens_d":
            return dict.fromkeys(self._pairs, 1.0)
        widths = {column.name: column.half_width for column in self._design.columns}
        return {pair: self._outcome(pair).half_width / widths[pair.term] for pair in self._pairs}
