"""Linear regression under noise: the effect of one contrast of two levels on many outcomes, within sites.

============================  ==============================================================================================
protected, contrast alone     xx, the row of the contrast and the spread under noise (formulation E)
protected, covariates         outcomes less a public reference model; xx and the rows of all columns (formulation Dr)
``protect_diagnosis: false``  neighbours agree in the contrast: xx exact, a weight per site caps larger arms (formulation F)
============================  ==============================================================================================

Blocks; all are about the sites that have every outcome and term, the same ones for all of them, so that xx belongs to every row:

==============  =========  ====================================================================================
``people``      public     people of the cohort
``sites``       public     sites with at least one person
``arms``        public     F: people at the two levels
``design``      noised     n and the triangle of xx, the contrast first; F, public: xx by weight, xx by weight squared
``effect``      noised     the row of the contrast, one number per outcome
``covariates``  noised     Dr: the rows of the covariates
``spread``      noised     one number for all outcomes together
==============  =========  ====================================================================================

`noised_sums` proves how far one person moves each. Who lacks a term is not counted. Who lacks an outcome is, with what the reference
expects, or under ``missing: complete`` is not. `noised_fit` estimates; everything there happens after the noise and costs nothing.

Under noise the whole cohort is the one people set: whoever's record changes may change any number. Where the contrast is public, who
has a level and who is at each are sets too, because their numbers are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, merge, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.noised_design import NoisedDesign, design_under_noise
from cohortsum.study.statistics.noised_fit import NoisedTotals
from cohortsum.study.statistics.noised_sums import (
    SiteSums,
    design_l2,
    on_grid,
    people_sums,
    public_row_l2,
    rows_l2,
    spread_l2,
)
from cohortsum.study.statistics.noised_tables import noised_table
from cohortsum.study.statistics.products import symmetric
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.under_noise import UnderNoise

SHARES_E: Mapping[str, float] = {"design": 0.10, "effect": 0.82, "spread": 0.08}
SHARES_DR: Mapping[str, float] = {"design": 0.15, "effect": 0.70, "covariates": 0.07, "spread": 0.08}
SHARES_F: Mapping[str, float] = {"effect": 0.92, "spread": 0.08}
"""Of the analysis's budget; what simulations on real data found best."""

ASSUMED_RESIDUAL = 0.9
"""Residual standard deviation within sites, in public ones, where a forecast has nothing better."""
ASSUMED_INFORMATION = 0.91
"""xx of the contrast per person: arms of one size, but not at every site."""
COVARIATES_COST = 1.2
"""The noise of a regression with covariates beside that of the row of the contrast alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedRegression(Statistic):
    """The effect of a contrast under noise.

    Attributes:
        name: name of the analysis.
        regression: as it would be without noise.
        under_noise: what the study says of noise.
        test_site: whether the study asks for a test of the site effect, which noise cannot cover.

    Raises:
        StudyFileError: the regression asks for what noise cannot cover, or lacks what noise needs.
    """

    name: str
    regression: Regression
    under_noise: UnderNoise | None
    test_site: bool = False
    design: NoisedDesign = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design, and refuse what noise cannot cover."""
        object.__setattr__(
            self, "design", design_under_noise(self.regression, self.under_noise, self.test_site)
        )

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the module's table."""
        columns, outcomes, radius = len(self.design.columns), len(self.design.outcomes), self.design.radius
        supply = (frozenset(outcome.name for outcome in self.design.outcomes),)
        everybody, bits = (self._set(),), self._bits
        known = (self._set(self._factor), *map(self._set, self._levels)) if self._arms_public else everybody
        sizes = {
            "design": (2 if self._arms_public else 1 + columns * (columns + 1) // 2, 1.0),
            "effect": (outcomes, radius),
            "covariates": ((columns - 1) * outcomes, radius),
            "spread": (1, radius * radius),
        }
        blocks = [
            Block(self._block("people"), "additive", 1, 1.0, "person", 0, supply, everybody),
            Block(self._block("sites"), "site", 1, 1.0, "site", 0, supply, everybody),
        ]
        if self._arms_public:
            blocks.append(Block(self._block("arms"), "additive", 2, 1.0, "person", 0, supply, known))
        blocks += [
            Block(self._block(part), "site", size, bound, "person", bits, supply, known)
            for part, (size, bound) in sizes.items()
            if size
        ]
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return people, then the sums of `people_sums`: int64, exact."""
        radius, bits = self.design.radius, self._bits
        slices = (people_sums(x, v, radius, bits) for x, v in self.design.people(batch))
        sums = reduce(lambda state, other: merge((state, other)), slices)
        return {"people": np.array([batch.people], np.int64), **sums}

    def members(self, batch: Batch) -> Members:
        """Return the cohort; where the contrast is public also who has a level, and who is at each."""
        masks: dict[str, NDArray[np.bool_]] = {self._set(): np.ones(batch.people, np.bool_)}
        if self._arms_public:
            masks[self._set(self._factor)] = self.design.known(batch)
            for place, level in enumerate(self._levels):
                masks[self._set(level)] = batch.levels[self._factor] == place
        return masks

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block: exact counts, and products about the means rounded once."""
        people, sums = state["people"].astype(np.int64), SiteSums(state, self._bits)
        sent = {"people": people, "sites": np.minimum(people, 1), "spread": sums.spread(self.design.radius)}
        cap = self.design.cap
        if cap is not None:
            arms = np.array(sums.arms, np.int64)
            sent |= {"arms": arms, "design": sums.capped_design(cap), "effect": sums.capped_row(cap)}
        else:
            rows = sums.rows()
            sent |= {"design": sums.design(), "effect": rows[0]}
            sent |= {"covariates": rows[1:].ravel()} if len(rows) > 1 else {}
        return {self._block(part): values for part, values in sent.items()}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Refuse: without noise the exact regression is there."""
        raise StudyFileError(f"analysis '{self.name}': these sums need noise; remove under_noise")

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return a part per block; `noised_sums` proves the sensitivities.

        Raises:
            StudyFileError: people may be added or removed: the number of people at a site would not be public.
        """
        if adjacency == "add_or_remove":
            raise StudyFileError(
                f"analysis '{self.name}': a regression under noise holds the people of every site fixed; remove "
                "privacy.adjacency, which protects one person's values"
            )
        columns, radius = len(self.design.columns), self.design.radius
        bounds = {"design": design_l2(columns), "effect": rows_l2(radius, 1), "spread": spread_l2(radius)}
        bounds |= {"covariates": rows_l2(radius, columns - 1)}
        if self.design.cap is not None:
            bounds["effect"] = public_row_l2(radius, self.design.cap)
        shares = self._shares
        parts: list[Part] = []
        for block in self.layout():
            part = block.name.removeprefix(self._block(""))
            if part in shares:
                l2 = on_grid(bounds[part], block.size, self._bits)
                parts.append(Part((block.name,), l2, block.size, shares[part]))
            else:
                parts.append(Part((block.name,), 0.0, block.size, 0.0))
        return tuple(parts)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, one row per outcome, with intervals from both errors."""
        parts = {block.name: noisy.of(block.name) for block in self.layout()}
        sums = {
            name.removeprefix(self._block("")): values for name, values in parts.items() if values is not None
        }
        correction = self.regression.correction
        if len(sums) < len(parts):
            return (noised_table(self.name, self.design, None, None, correction),)
        arms = (int(sums["arms"][0]), int(sums["arms"][1])) if self._arms_public else None
        return (noised_table(self.name, self.design, self._totals(noisy, sums), arms, correction),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of every effect, if arms are of one size and residuals like the public spread.

        Sites that the cap weighs down are not known before the run; where it weighs down many, the noise is larger.
        """
        information = ASSUMED_INFORMATION * people
        term, *covariates = (column.name for column in self.design.columns)
        noise = sd[self._block("effect")] / information * (COVARIATES_COST if covariates else 1.0)
        sampling, per = ASSUMED_RESIDUAL / sqrt(information), len(self.design.outcomes)
        return tuple(
            Forecast(
                f"{term} on {outcome.name}", outcome.unit, float(unit) * noise, float(unit) * sampling, per
            )
            for outcome, unit in zip(self.design.outcomes, self.design.units, strict=True)
        )

    @property
    def unprotected(self) -> frozenset[str]:
        """Variables whose values the study declares public, which the claim has to say."""
        return frozenset({self._factor}) if self._arms_public else frozenset()

    def _totals(self, noisy: Noisy, sums: Mapping[str, NDArray[np.float64]]) -> NoisedTotals:
        """Return the sums as the fit takes them; no more people are counted than there are."""
        columns, outcomes = len(self.design.columns), len(self.design.outcomes)
        sd = {part: noisy.sd[self._block(part)] for part in sums}
        if self._arms_public:
            people = float(sums["arms"].sum())
            xx, squares = sums["design"][:1].reshape(1, 1), float(sums["design"][1])
        else:
            people = min(float(sums["design"][0]), float(sums["people"][0]))
            xx, squares = symmetric(sums["design"][1:], columns), None
        covariates = sums.get("covariates", sums["effect"][:0]).reshape(columns - 1, outcomes)
        return NoisedTotals(
            people=people,
            people_sd=sd["design"],
            sites=round(float(sums["sites"][0])),
            xx=xx,
            xx_sd=sd["design"],
            rows=np.vstack((sums["effect"], covariates)),
            rows_sd=np.array([sd["effect"], *([sd.get("covariates", 0.0)] * (columns - 1))]),
            squares=squares,
            spread=float(sums["spread"][0]),
            spread_sd=sd["spread"],
        )

    @property
    def _arms_public(self) -> bool:
        return self.design.cap is not None

    @property
    def _shares(self) -> Mapping[str, float]:
        if self._arms_public:
            return SHARES_F
        return SHARES_E if len(self.design.columns) == 1 else SHARES_DR

    @property
    def _bits(self) -> int:
        return self.regression.fraction_bits

    @property
    def _factor(self) -> str:
        return self.design.contrast.name

    @property
    def _levels(self) -> tuple[str, ...]:
        return tuple(map(self.design.contrast.level_name, self.design.contrast.levels))

    def _set(self, *parts: str) -> str:
        return set_name(self.name, *(parts or ("cohort",)))

    def _block(self, part: str) -> str:
        return f"{self.name}/{part}"
