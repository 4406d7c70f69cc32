"""Normative models: the mean of outcomes over age and other columns, their spread, centiles; z-scores stay at the site.

The first round is a regression on the columns of a curve and further terms. With ``site_effect: within`` each site centres
its own people, and plain sums beside it give the level of all (`site_test`). The spread is the residual standard deviation,
or, where it is modelled, comes from a second round: the magnitudes of the residuals are regressed on the same columns with one
intercept, and times sqrt(pi / 2) they are the standard deviation of a normal variable (Altman 1993, Statistics in Medicine 12).
Magnitudes lie between 0 and the width of the outcome's public range; a residual beyond that is moved there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.estimates import Estimate
from cohortsum.study.statistics.interface import Block, Local, Members, State, Statistic, Sums
from cohortsum.study.statistics.norms import Grid, Norms, absolute_factor, centile_table, intercept_of
from cohortsum.study.statistics.parameters import rounded
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.site_test import SiteTest
from cohortsum.study.statistics.units import clipped, selected
from cohortsum.study.variables import Number

SCALE = "/scale"
"""What the names of the blocks of the second round end with."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Normative(Statistic):
    """The first round: the mean.

    Attributes:
        name: name of the analysis.
        regression: the model of the mean, with the curve among its columns.
        grid: where mean and centiles are given.
        centiles: in percent, 1 to 99.
        modelled: whether the spread depends on the columns.
    """

    name: str
    regression: Regression
    grid: Grid
    centiles: tuple[int, ...]
    modelled: bool
    _sums: Regression | SiteTest = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive what is summed."""
        within = self.regression.site_effect == "within"
        object.__setattr__(self, "_sums", SiteTest(self.name, self.regression) if within else self.regression)

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the regression."""
        return self._sums.layout()

    def accumulate(self, batch: Batch) -> State:
        """Return the state of the regression."""
        return self._sums.accumulate(batch)

    def members(self, batch: Batch) -> Members:
        """Return the people sets of the regression."""
        return self._sums.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of the regression."""
        return self._sums.contribute(state)

    @property
    def most_rounds(self) -> int:
        """Two where the spread is modelled."""
        return 2 if self.modelled else 1

    def further(self, sums: Sums) -> Statistic | None:
        """Return the round of the spread, where it is asked for and there is a mean to take residuals from."""
        if not self.modelled:
            return None
        norms = self.norms(sums)
        return _Scale.of(self, sums, norms) if Status.OK in norms.statuses else None

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of centiles."""
        return (self.table(self.norms(sums), sums),)

    @property
    def keeps_local(self) -> bool:
        """Z-scores stay at the site."""
        return True

    def locally(self, sums: Sums, people: Callable[[], Iterable[Batch]]) -> Local | None:
        """Return what gives the z-scores of this site's people."""
        return self.of_site(self.norms(sums), people)

    def norms(self, sums: Sums) -> Norms:
        """Return the model with the residual standard deviation everywhere."""
        estimates, columns = self.regression.estimates(sums), len(self.regression.design.columns)
        slopes = np.vstack([found.slopes[:columns] for found in estimates])
        levels = [
            intercept_of(found, means) for found, means in zip(estimates, self._means(sums), strict=True)
        ]
        return Norms(
            design=self.regression.design,
            outcomes=self.regression.outcomes,
            slopes=rounded(slopes),
            levels=rounded(np.array(levels)),
            spread_slopes=np.zeros_like(slopes),
            spread_levels=np.sqrt(np.array([found.residual for found in estimates])),
            statuses=tuple(found.failure or Status.OK for found in estimates),
        )

    def of_site(self, norms: Norms, people: Callable[[], Iterable[Batch]]) -> Norms:
        """Return ``norms`` with the site's own level, where each site centres its own people."""
        if self.regression.site_effect == "none":
            return norms
        state = self.regression.merge([self.regression.accumulate(batch) for batch in people()])
        n = np.maximum(state["people"][:, :1], 1)
        y = state["y"] / np.broadcast_to(n, (len(norms.outcomes), 1))[:, 0]
        return replace(
            norms,
            levels=y
            - np.einsum("ij,ij->i", norms.slopes, np.broadcast_to(state["x"] / n, norms.slopes.shape)),
        )

    def table(self, norms: Norms, sums: Sums) -> Table:
        """Return the table of centiles of ``norms``; n comes from the sums of the first round."""
        totals = [self.regression.totals(outcome, sums) for outcome in self.regression.outcomes]
        notes = ["Centiles are of a normal law with this mean and standard deviation."]
        if self.regression.site_effect == "within":
            notes.append("Levels are those of all people together; differences between sites are taken out.")
        if self.modelled:
            notes.append(
                "The standard deviation is modelled on the same columns, by magnitudes of residuals."
            )
        people = [None if total is None else total.people for total in totals]
        return centile_table(self.name, norms, self.grid, self.centiles, people, tuple(notes))

    def _means(self, sums: Sums) -> list[Floats | None]:
        """Return the means of the normalised columns of all people, outcome last, per outcome."""
        plain: tuple[Estimate, ...] = (
            self._sums.plain_estimates(sums)
            if isinstance(self._sums, SiteTest)
            else self._sums.estimates(sums)
        )
        return [None if found.totals is None else found.totals.means for found in plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale(Statistic):
    """The second round: the spread.

    Attributes:
        name: name of the analysis.
        first: the first round.
        sums: what it opened.
        norms: its mean; at a site with the site's own level.
        magnitudes: the regression of the magnitudes of the residuals.
    """

    name: str
    first: Normative
    sums: Sums
    norms: Norms
    magnitudes: Regression

    @classmethod
    def of(cls, first: Normative, sums: Sums, norms: Norms) -> _Scale:
        """Return the round that follows ``first``."""
        outcomes = tuple(
            Number(outcome.name, outcome.unit, 0.0, outcome.upper - outcome.lower)
            for outcome in first.regression.outcomes
        )
        magnitudes = replace(first.regression, outcomes=outcomes, site_effect="none", where=None)
        return cls(name=first.name, first=first, sums=sums, norms=norms, magnitudes=magnitudes)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Slopes and levels of the mean."""
        return tuple(float(value) for value in (*self.norms.slopes.flat, *self.norms.levels))

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the regression, about the people sets of the first round.

        With levels of the site's own, which are formed in floating point, its products are no additive block.
        """
        own = self.first.regression.site_effect == "within"
        return tuple(
            replace(
                block,
                name=block.name + SCALE,
                kind="site" if own and block.name.endswith("/products") else block.kind,
            )
            for block in self.magnitudes.layout()
        )

    def at_site(self, people: Callable[[], Iterable[Batch]]) -> _Scale:
        """Return the round with the site's own levels."""
        return replace(self, norms=self.first.of_site(self.norms, people))

    def accumulate(self, batch: Batch) -> State:
        """Return the state of the regression of magnitudes."""
        people = selected(batch, self.first.regression.where)
        chosen = Batch(
            len(people),
            {name: values[people] for name, values in batch.numbers.items()},
            {name: levels[people] for name, levels in batch.levels.items()},
        )
        expected, everybody = self.norms.mean(chosen), np.arange(chosen.people)
        numbers = dict(chosen.numbers)
        for place, outcome in enumerate(self.norms.outcomes):
            mean = outcome.middle + outcome.half_width * expected[:, place]
            numbers[outcome.name] = np.abs(clipped(chosen, outcome, everybody) - mean)
        return self.magnitudes.accumulate(Batch(chosen.people, numbers, chosen.levels))

    def members(self, batch: Batch) -> Members:
        """Return the people sets of the first round."""
        return self.first.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of the regression."""
        return {name + SCALE: values for name, values in self.magnitudes.contribute(state).items()}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of centiles."""
        return (self.first.table(self._with_spread(self.first.norms(self.sums), sums), self.sums),)

    @property
    def keeps_local(self) -> bool:
        """Z-scores stay at the site."""
        return True

    def locally(self, sums: Sums, people: Callable[[], Iterable[Batch]]) -> Local | None:
        """Return what gives the z-scores of this site's people."""
        return self.first.of_site(self._with_spread(self.norms, sums), people)

    def _with_spread(self, norms: Norms, sums: Sums) -> Norms:
        """Return ``norms`` with the modelled spread; an outcome without one has the status of its magnitudes."""
        found = self.magnitudes.estimates({name.removesuffix(SCALE): values for name, values in sums.items()})
        columns = len(self.magnitudes.design.columns)
        levels = [intercept_of(one, None if one.totals is None else one.totals.means) for one in found]
        factor = absolute_factor()  # a magnitude is half widths times 1 + u
        return replace(
            norms,
            spread_slopes=factor * np.vstack([one.slopes[:columns] for one in found]),
            spread_levels=factor * (1.0 + np.array(levels)),
            statuses=tuple(
                status if status is not Status.OK else one.failure or Status.OK
                for status, one in zip(norms.statuses, found, strict=True)
            ),
        )
