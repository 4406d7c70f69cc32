"""Standard errors that stand without equal variances: HC0 and HC1, in a second round.

With e the residuals of the pooled model, the covariance of b is Cxx^-1 M Cxx^-1, M = sum of (w e)^2 (x - c)(x - c)' (White 1980,
Econometrica 48; w = 1 without weights). HC1 multiplies it by n / df (MacKinnon and White 1985, Journal of Econometrics 29).
Where sites centre their own people, c is the site's mean of x and e = (y - mean y) - (x - c)'b: by Frisch, Waugh and Lovell
the columns of a model with site dummies, projected on them, are x - c, and Cxx^-1 M Cxx^-1 is exactly the block of the
covariance that belongs to b. So the second round needs b, and nothing of another site.

Its block per outcome is a `site` block of the squared residuals times the products of two columns: for ``within`` about the
site's means, halved to lie in [-1, 1]; for ``none`` about the public centres, with the sums of the squares alone and with one
column before them, and moved to the means of all people when it is opened.

Bound. |y - mean y| and |x - c| are at most 2, so |e| is at most 2 + 2 sum |b|; and e^2 is at most the residual sum of squares.
Residuals are divided by the smaller of the two, which only people outside the pooled fit could pass, and clipped there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.estimates import Estimate
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, to_grid
from cohortsum.study.statistics.parameters import rounded
from cohortsum.study.statistics.products import pairs, symmetric

if TYPE_CHECKING:  # a regression makes its own second round
    from cohortsum.study.statistics.regression import Regression

Floats = NDArray[np.float64]

NOTHING = 1e-12
"""A robust variance below this share of the classical one is rounding: the people at the column have no residuals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandwich(Statistic):
    """The second round of a regression with robust standard errors.

    Attributes:
        name: name of the analysis.
        regression: the first round.
        first: what the first round opened.
        estimates: the models of the first round; those of an outcome that failed stay as they are.
        slopes: (outcomes, columns) float64 of the normalised columns; 0 where an outcome failed.
        levels: (outcomes,) float64, mean of the normalised outcome less slopes times means; 0 for ``within``.
        reach: (outcomes,) float64, greatest magnitude of a residual.
        means: (outcomes, columns) and (outcomes,) float64, the site's own means; None until the site has looked.
    """

    name: str
    regression: Regression
    first: Sums
    estimates: tuple[Estimate, ...]
    slopes: Floats
    levels: Floats
    reach: Floats
    means: tuple[Floats, Floats] | None = None

    @classmethod
    def of(cls, regression: Regression, first: Sums, estimates: tuple[Estimate, ...]) -> Sandwich:
        """Return the round that follows the models of ``regression``."""
        slopes = rounded(np.vstack([found.slopes[: len(regression.design.columns)] for found in estimates]))
        levels = np.array([_level(found) for found in estimates])
        spread = [1.0 if found.failure else sqrt(found.residual * found.df) for found in estimates]
        slack = 1.0 + 2.0**-20  # b and the sums are rounded
        bound = np.minimum(2.0 + 2.0 * np.abs(slopes).sum(axis=1), slack * np.array(spread))
        return cls(
            name=regression.name,
            regression=regression,
            first=first,
            estimates=estimates,
            slopes=slopes,
            levels=rounded(levels),
            reach=rounded(bound),
        )

    @property
    def parameters(self) -> tuple[float, ...]:
        """Slopes, level and reach of every outcome."""
        return tuple(float(value) for value in (*self.slopes.flat, *self.levels, *self.reach))

    def layout(self) -> tuple[Block, ...]:
        """Return one block per outcome that has a model."""
        columns = len(self.regression.design.columns)
        size = columns * (columns + 1) // 2 + (0 if self._within else 1 + columns)
        about = {block.name: block for block in self.regression.layout()}
        blocks: list[Block] = []
        for place in self._running:
            outcome = self.regression.outcomes[place]
            covariates = about[self.regression.shared_blocks(outcome)[2]]
            blocks.append(replace(covariates, name=self._block(place), kind="site", size=size))
        return tuple(blocks)

    def members(self, batch: Batch) -> Members:
        """Return the people sets of the blocks: those of the first round's products of columns."""
        named = {name for block in self.layout() for name in block.sets}
        return {name: mask for name, mask in self.regression.members(batch).items() if name in named}

    def at_site(self, people: Callable[[], Iterable[Batch]]) -> Sandwich:
        """Return the round with the site's own means, where each site centres its own people."""
        if not self._within:
            return self
        state = self.regression.merge([self.regression.accumulate(batch) for batch in people()])
        mass = state["w"] if "w" in state else state["people"][:, 0]
        divisor = np.where(mass > 0, mass, 1)[:, np.newaxis]
        shape = self.slopes.shape
        x = np.broadcast_to(state["x"] / divisor, shape)
        return replace(self, means=(x, state["y"] / np.broadcast_to(divisor, (shape[0], 1))[:, 0]))

    def accumulate(self, batch: Batch) -> State:
        """Return people; e2, ex and exx, the squared residuals alone, with one column and with two, float64."""
        columns = len(self.regression.design.columns)
        outcomes = len(self.regression.outcomes)
        people = np.zeros(outcomes, np.int64)
        sums = {"e2": np.zeros(outcomes), "ex": np.zeros((outcomes, columns))}
        sums["exx"] = np.zeros((outcomes, columns * (columns + 1) // 2))
        levels = self.levels
        if self.means is not None:
            x, y = self.means
            levels = y - np.einsum("ij,ij->i", x, self.slopes)
        for part in self.regression.slices(batch):
            residuals = part.y - self.slopes @ part.x.T - levels[:, np.newaxis]
            residuals = part.counted * np.clip(residuals / self.reach[:, np.newaxis], -1.0, 1.0)
            squared = part.weighted(residuals.T).T ** 2
            people += np.broadcast_to(part.counted.sum(axis=1).astype(np.int64), people.shape)
            sums["e2"] += squared.sum(axis=1)
            sums["ex"] += squared @ part.x
            sums["exx"] += squared @ pairs(part.x)
        return {"people": people, **sums}

    def contribute(self, state: State) -> Sums:
        """Return the products of every outcome that has a model: about the site's means, or as they are."""
        e2, ex, exx = (state[name].astype(np.float64) for name in ("e2", "ex", "exx"))
        sent: dict[str, NDArray[np.int64]] = {}
        for place in self._running:
            limit = float(state["people"][place])
            if self._within:
                assert self.means is not None, "a site looks at its people first"  # noqa: S101
                about = _moved(e2[place], ex[place], exx[place], self.means[0][place])
                values = about[np.triu_indices(len(about))] / 4.0
            else:
                values = np.concatenate((e2[place : place + 1], ex[place], exx[place]))
            sent[self._block(place)] = to_grid(np.clip(values, -limit, limit), self.regression.fraction_bits)
        return sent

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the tables of the regression with robust standard errors."""
        finished = [
            self._with_errors(place, sums) if place in self._running else found
            for place, found in enumerate(self.estimates)
        ]
        return self.regression.tables(finished, self.first)

    @property
    def _within(self) -> bool:
        return self.regression.site_effect == "within"

    @property
    def _running(self) -> tuple[int, ...]:
        """Positions of the outcomes that have a model."""
        return tuple(place for place, found in enumerate(self.estimates) if found.failure is None)

    def _block(self, place: int) -> str:
        return f"{self.name}/{self.regression.outcomes[place].name}/residuals"

    def _with_errors(self, place: int, sums: Sums) -> Estimate:
        """Return the model of one outcome with its robust covariance; without one where too few sites supply the block."""
        found, opened = self.estimates[place], sums.get(self._block(place))
        if opened is None or found.totals is None:
            return replace(found, statuses=(Status.TOO_FEW_SITES,) * len(found.statuses))
        columns, outcome = self.regression.design.columns, self.regression.outcomes[place]
        values = opened * 2.0**-self.regression.fraction_bits * self.reach[place] ** 2
        scale = outcome.half_width / np.array([column.half_width for column in columns])
        bread = found.inverse * np.outer(scale, np.ones(len(columns)))
        if found.totals.means is None:
            robust = bread @ symmetric(values * 4.0, len(columns)) @ bread.T
        else:
            ones, once, twice = float(values[0]), values[1 : 1 + len(columns)], values[1 + len(columns) :]
            means = found.totals.means[:-1]
            meat = np.zeros((len(columns) + 1,) * 2)
            meat[0, 0] = ones
            meat[0, 1:] = meat[1:, 0] = once - ones * means
            meat[1:, 1:] = _moved(ones, once, twice, means)
            middles = np.array([column.middle for column in columns])
            natural = middles + np.array([column.half_width for column in columns]) * means
            top = np.concatenate(([outcome.half_width / found.totals.mass], -natural @ bread))
            bread = np.vstack((top, np.column_stack((np.zeros(len(columns)), bread))))
            robust = bread @ meat @ bread.T
        if self.regression.covariance == "HC1":
            robust *= found.totals.people / found.df
        statuses = tuple(
            Status.NOT_ESTIMABLE if status is Status.OK and variance <= NOTHING * classical else status
            for status, variance, classical in zip(
                found.statuses, np.diag(robust), np.diag(found.covariance), strict=True
            )
        )
        return replace(found, robust=robust, statuses=statuses)


def _level(found: Estimate) -> float:
    """Return what a normalised outcome is where all normalised columns are 0; 0 where sites centre their own people."""
    if found.failure is not None or found.totals is None or found.totals.means is None:
        return 0.0
    return float(found.totals.means[-1] - np.sum(found.slopes * found.totals.means[:-1]))


def _moved(ones: float, once: Floats, twice: Floats, centre: Floats) -> Floats:
    """Return the (columns, columns) products of columns about ``centre`` from sums of 1, x and xx'."""
    cross = np.outer(centre, once)
    return symmetric(twice, len(centre)) - cross - cross.T + ones * np.outer(centre, centre)
