"""ComBat over sites: one round of sums, one site a batch, and no sum that shows a site.

Each site's people who are in the fit add, per outcome, to what every site standardises by (`standards`); a site's own
location and scale never leave it (`harmonised`). The coefficients are those of a model with one dummy per site, from
products centred inside each site as in `regression` with ``within``; one more block holds plain sums, for the grand mean.
Per outcome:

==============  =====================================================================================
``people``      n
``sites``       1 if the site is in the fit
``totals``      the sums of the kept columns, then of the outcome
``covariates``  the centred products of the kept columns, where there are any
``products``    kept columns times outcome, then outcome squared, centred
==============  =====================================================================================

All are `site` blocks: a site with fewer than ``min_per_site`` people in the fit of an outcome adds zeros. People sets are
those who count for an outcome in the fit, by level as in `regression`.

Johnson, Li and Rabinovic 2007; Fortin et al. 2018; from sums: Chen et al. 2022, who send a residual variance in a second
round, which is the residual sum of squares of this one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Design, Group
from cohortsum.study.statistics.harmonised import Harmonised, Method, harmonise
from cohortsum.study.statistics.interface import (
    Block,
    Members,
    State,
    Statistic,
    Sums,
    set_name,
    to_grid,
)
from cohortsum.study.statistics.products import Slice, centred, floating_sums, slices, who_counts
from cohortsum.study.statistics.standards import Standard, absent, standard
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Number

COMBAT_COLUMNS = ("outcome", "grand_mean", "pooled_sd", "term", "b", "status", "n")
NO_TERM = "none"
"""Stands in the column ``term`` where nothing is kept."""
PARTS = ("people", "sites", "totals", "covariates", "products")

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combat(Statistic):
    """Harmonisation of outcomes over sites.

    Attributes:
        name: name of the analysis.
        outcomes: what is harmonised.
        design: the columns whose effects are kept; maybe none.
        fit_on: who the estimates rest on, or everybody.
        empirical_bayes: whether a site's effects are drawn towards each other.
        mean_only: whether variances are left alone.
        min_per_site: least people of a site that is in the fit, or harmonised.
        fraction_bits: grid of the sums.
        where: the subgroup, or everybody.
    """

    name: str
    outcomes: tuple[Number, ...]
    design: Design
    fit_on: Where | None
    empirical_bayes: bool
    mean_only: bool
    min_per_site: int
    fraction_bits: int
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of every outcome."""
        blocks: list[Block] = []
        columns, bits = len(self.design.columns), self.fraction_bits
        single, pairs = self.design.groups(1), self.design.groups(2)
        for outcome in self.outcomes:
            supply = self._supply(outcome)
            asked = {
                "people": (1, "person", 0, single[:1]),
                "sites": (1, "site", 0, single[:1]),
                "totals": (columns + 1, "person", bits, single),
                "covariates": (columns * (columns + 1) // 2, "person", bits, pairs),
                "products": (columns + 1, "person", bits, single),
            }
            for part, (size, per, grid, groups) in asked.items():
                if size:
                    sets, name = self._sets(outcome, groups), f"{self.name}/{outcome.name}/{part}"
                    blocks.append(
                        Block(
                            name,
                            "site",
                            size,
                            1.0,
                            "person" if per == "person" else "site",
                            grid,
                            supply,
                            sets,
                        )
                    )
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return people, x, xx, y, xy and yy of the people in the fit, as `regression` with ``within``."""
        return floating_sums(self._slices(batch), 0)

    def members(self, batch: Batch) -> Members:
        """Return who is in the fit of each outcome: everybody, then by level."""
        counted = who_counts(self._slices(batch), len(self.outcomes), batch.people)
        groups = self.design.groups(2)
        held = [group.holds(batch) for group in groups]
        return {
            name: cases & at_levels
            for outcome, cases in zip(self.outcomes, counted, strict=True)
            for name, at_levels in zip(self._sets(outcome, groups), held, strict=True)
        }

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block, zeros where the site has too few people in the fit."""
        people = state["people"][:, 0].astype(np.int64)
        sums = {name: state[name].astype(np.float64) for name in ("x", "xx", "y", "xy", "yy")}
        about_means = centred(people, sums)
        limit = people[:, np.newaxis].astype(np.float64)
        plain = np.clip(np.hstack((sums["x"], sums["y"][:, np.newaxis])), -limit, limit)
        values = {
            "people": people[:, np.newaxis],
            "sites": np.ones((len(people), 1), np.int64),
            "totals": to_grid(plain, self.fraction_bits),
            "covariates": to_grid(about_means["xx"], self.fraction_bits),
            "products": to_grid(np.hstack((about_means["xy"], about_means["yy"])), self.fraction_bits),
        }
        fits = (people >= self.min_per_site).astype(np.int64)
        return {
            f"{self.name}/{outcome.name}/{part}": rows[place] * fits[place]
            for place, outcome in enumerate(self.outcomes)
            for part, rows in values.items()
            if rows.shape[1]
        }

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one row per outcome and kept column."""
        rows: list[tuple[Cell, ...]] = []
        standards = self.standards(sums)
        for one in standards:
            grand, spread, b = one.natural(self.design.columns)
            terms = [
                *zip((column.name for column in self.design.columns), one.statuses, b.tolist(), strict=True)
            ]
            for term, status, effect in terms or [(NO_TERM, one.status, 0.0)]:
                why = Absent(one.status.value) if one.status is Status.TOO_FEW_SITES else NO_DATA
                if one.status is not Status.OK:
                    rows.append((one.outcome.name, why, why, term, why, status.value, why))
                    continue
                kept: Cell = effect if terms and status is Status.OK else NO_DATA
                rows.append((one.outcome.name, grand, spread, term, kept, status.value, one.people))
        return (Table(self.name, "combat", COMBAT_COLUMNS, tuple(rows), self._notes(standards)),)

    @property
    def keeps_local(self) -> bool:
        """Every site writes harmonised values."""
        return True

    def locally(self, sums: Sums, people: Callable[[], Iterable[Batch]]) -> Harmonised:
        """Return the harmonised values of this site's people, and its effects as a table."""
        return self.harmonised(self.standards(sums), people)

    def standards(self, sums: Sums) -> tuple[Standard, ...]:
        """Return what every site standardises by, per outcome, from the opened sums of the round."""
        columns = len(self.design.columns)
        expected = [part for part in PARTS if columns or part != "covariates"]
        found: list[Standard] = []
        for outcome in self.outcomes:
            parts = {part: sums.get(f"{self.name}/{outcome.name}/{part}") for part in expected}
            known = {part: values for part, values in parts.items() if values is not None}
            if len(known) < len(expected):
                found.append(absent(outcome, Status.TOO_FEW_SITES, columns))
            else:
                found.append(standard(outcome, columns, known, self.fraction_bits))
        return tuple(found)

    def harmonised(
        self, standards: tuple[Standard, ...], people: Callable[[], Iterable[Batch]]
    ) -> Harmonised:
        """Return a site's own effects under these standards."""
        return harmonise(self.name, self.method, standards, people)

    @property
    def method(self) -> Method:
        """How a site adjusts."""
        return Method(
            design=self.design,
            fit_on=self.fit_on,
            empirical_bayes=self.empirical_bayes,
            mean_only=self.mean_only,
            min_per_site=self.min_per_site,
            where=self.where,
        )

    def _slices(self, batch: Batch) -> Iterator[Slice]:
        return slices(batch, self.design, self.outcomes, None, False, self._in_fit)

    def _in_fit(self, batch: Batch) -> NDArray[np.bool_]:
        held = np.ones(batch.people, np.bool_)
        for condition in (self.where, self.fit_on):
            held = held if condition is None else held & condition(batch)
        return held

    def _supply(self, outcome: Number) -> tuple[frozenset[str], ...]:
        """Return the supply groups: the outcome, then the outcome together with each level of each factor."""
        levels = [factor.level_name(level) for factor in self.design.factors for level in factor.levels]
        return (frozenset({outcome.name}), *(frozenset({outcome.name, level}) for level in levels))

    def _sets(self, outcome: Number, groups: Sequence[Group]) -> tuple[str, ...]:
        return tuple(set_name(self.name, outcome.name, *group.names) for group in groups)

    def _notes(self, standards: Sequence[Standard]) -> tuple[str, ...]:
        """Return what the reader must know: who was in the fit, what was lost and why."""
        fitted = [one for one in standards if one.status is Status.OK]
        notes: list[str] = []
        if fitted:
            few, many = min(one.sites for one in fitted), max(one.sites for one in fitted)
            span = str(few) if few == many else f"{few} to {many}, by outcome"
            notes.append(
                f"Sites in the fit, each with at least {self.min_per_site} people: {span}; grand means are at kept terms of 0."
            )
        for place, column in enumerate(self.design.columns):
            aliased = sum(one.statuses[place] is Status.ALIASED for one in standards)
            if aliased:
                notes.append(
                    f"{column.name}: the sites (and the terms before it) determine it, so its effect cannot be kept; "
                    f"{aliased} of {len(standards)} outcomes are not harmonised."
                )
            constant = sum(
                one.statuses[place] is Status.CONSTANT for one in standards if one.status is Status.OK
            )
            if constant:
                notes.append(
                    f"{column.name}: the same for everybody in the fit of {constant} of {len(standards)} outcomes; people "
                    "who differ are harmonised without an effect of it."
                )
        notes.append("Sites' own effects and harmonised values stay at the sites.")
        return tuple(notes)
