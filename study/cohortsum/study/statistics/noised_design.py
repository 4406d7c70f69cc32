"""What a person adds to a regression under noise: the terms, and outcomes in public standard deviations, shortened to a public norm.

An outcome's public range spans four public standard deviations each way of the public mean. With covariates the public reference
model is taken off first, so that the noise is on what it leaves. Columns are normalised to [-1, 1] as everywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import INTERCEPT
from cohortsum.study.statistics.design import Column, Design
from cohortsum.study.statistics.products import CELLS
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.under_noise import UnderNoise
from cohortsum.study.statistics.units import clipped, normalised
from cohortsum.study.variables import Factor, Number

Floats = NDArray[np.float64]

PUBLIC_SDS = 4.0
"""Public standard deviations from the middle of a public range to its ends."""
FARTHEST = 1e6
"""Public standard deviations beyond which a reference model is a mistake; no square of them overflows."""


@dataclass(frozen=True, slots=True)
class NoisedDesign:
    """The contrast, the covariates and the outcomes of a regression under noise.

    Attributes:
        contrast: the factor of two levels whose effect is asked for.
        outcomes: one model each.
        design: the columns in the order of the study.
        order: places of its columns here, the contrast first.
        complete: whether who lacks an outcome is left out; otherwise the outcome is 0 there.
        radius: greatest norm of a person's outcomes.
        cap: where the contrast is public, the share of a site's larger arm beyond which the site counts less; None where it is
            protected.
        expected: (1 + covariates, outcomes) what the reference expects, in public standard deviations: a constant, then the slope
            of every normalised covariate.
    """

    contrast: Factor
    outcomes: tuple[Number, ...]
    design: Design
    order: tuple[int, ...]
    complete: bool
    radius: float
    cap: float | None
    expected: Floats

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, the contrast first."""
        return tuple(self.design.columns[place] for place in self.order)

    @property
    def units(self) -> Floats:
        """What a coefficient of 1 of the normalised contrast is in each outcome's unit, (outcomes,)."""
        units: Floats = self.public_sds / self.columns[0].half_width
        return units

    @property
    def public_sds(self) -> Floats:
        """The public standard deviation of each outcome, in its unit, (outcomes,)."""
        return np.array([outcome.half_width / PUBLIC_SDS for outcome in self.outcomes])

    def people(self, batch: Batch) -> Iterator[tuple[Floats, Floats]]:
        """Yield x (columns, people) and v (outcomes, people) of who is counted, in slices of bounded size; at least one.

        All operations are elementwise: nobody's numbers depend on who else is there, not even in their last digit.
        """
        step = max(1, CELLS // len(self.outcomes))
        for start in range(0, max(batch.people, 1), step):
            here = np.arange(start, min(start + step, batch.people))
            x = self.design.values(batch, here).T[list(self.order)]
            v = np.array([self._outcome(batch, here, x, place) for place in range(len(self.outcomes))])
            counted = ~np.isnan(x).any(axis=0)
            if self.complete:
                counted &= ~np.isnan(v).any(axis=0)
            yield x[:, counted], self._shortened(np.nan_to_num(v[:, counted], nan=0.0))

    def known(self, batch: Batch) -> NDArray[np.bool_]:
        """Return whose level of the contrast is known, (people,) bool."""
        known: NDArray[np.bool_] = batch.levels[self.contrast.name] >= 0
        return known

    def _outcome(self, batch: Batch, people: NDArray[np.intp], x: Floats, place: int) -> Floats:
        """Return one outcome less what the reference expects, (people,); NaN where a value is missing."""
        outcome = self.outcomes[place]
        values = PUBLIC_SDS * normalised(clipped(batch, outcome, people), outcome.middle, outcome.half_width)
        values = values - self.expected[0, place]
        for slope, column in zip(self.expected[1:, place], x[1:], strict=True):
            values = values - slope * column
        less: Floats = values
        return less

    def _shortened(self, v: Floats) -> Floats:
        squares = np.zeros(v.shape[1])
        for row in v:
            squares += row * row
        shortened: Floats = v * (self.radius / np.maximum(np.sqrt(squares), self.radius))
        return shortened


def design_under_noise(regression: Regression, asked: UnderNoise | None, test_site: bool) -> NoisedDesign:
    """Return the design of a regression that noise can cover.

    Raises:
        StudyFileError: it asks for what noise cannot cover, or does not say what noise needs; names the field and the cure.
    """
    contrast = _contrast(regression)
    _refuse_unknown(regression, test_site)
    where = f"analysis '{regression.name}', field 'under_noise"
    if asked is None or not asked.clip > 0.0:
        raise StudyFileError(
            f"{where}.clip': noise needs the greatest norm of a person's outcomes, in public standard deviations; write it, from "
            "public data"
        )
    terms, complete = regression.design.columns, regression.missing == "complete"
    if not asked.protect_diagnosis and len(terms) > 1:
        raise StudyFileError(
            f"{where}.protect_diagnosis': false needs {contrast.name} as the only term; remove the covariates or this key"
        )
    if not asked.protect_diagnosis and complete:
        raise StudyFileError(
            f"{where}.protect_diagnosis': false needs people who do not depend on outcomes; write missing: per_outcome or remove it"
        )
    if not 0.5 < asked.arm_cap <= 1.0:
        raise StudyFileError(
            f"{where}.arm_cap': found {asked.arm_cap:g}; expected more than 0.5 and at most 1"
        )
    first = next(place for place, column in enumerate(terms) if column.term == contrast.name)
    order = (first, *(place for place in range(len(terms)) if place != first))
    expected = _expected(regression, asked, [terms[place] for place in order[1:]])
    radius = min(asked.clip, PUBLIC_SDS * sqrt(len(regression.outcomes)))
    if len(regression.outcomes) * radius**2 >= 2.0 ** (50 - regression.fraction_bits):  # see `noised_sums`
        raise StudyFileError(
            f"analysis '{regression.name}', field 'outcomes': too many for exact sums under noise; split them"
        )
    cap = None if asked.protect_diagnosis else asked.arm_cap
    return NoisedDesign(
        contrast, regression.outcomes, regression.design, order, complete, radius, cap, expected
    )


def _contrast(regression: Regression) -> Factor:
    """Return the factor whose effect is asked for, by name or as the only term."""
    where = f"analysis '{regression.name}', field "
    alone = regression.terms[0] if len(regression.terms) == 1 else None
    effect = regression.effect or alone
    if effect is None:
        raise StudyFileError(f"{where}'report.effect': under noise one effect is estimated; name it")
    factor = regression.variables.get(effect)
    if not isinstance(factor, Factor) or len(factor.levels) != 2:
        raise StudyFileError(
            f"{where}'report.effect': under noise the effect is a factor of two levels, which '{effect}' is not; name another"
        )
    for term in regression.terms:
        if term != effect and effect in term.split(":"):
            raise StudyFileError(
                f"{where}'terms': '{term}' makes more than one effect of '{effect}'; remove it, or run without noise"
            )
    return factor


def _refuse_unknown(regression: Regression, test_site: bool) -> None:
    """Refuse what no sensitivity is known for, or what would cost a share of the budget without being the effect."""
    asked = {
        "site_effect": regression.site_effect == "none",
        "where": regression.where is not None,
        "weights": regression.weights is not None,
        "ridge": regression.ridge is not None,
        "vif": regression.vif,
        "covariance": regression.covariance is not None,
        "contrasts": bool(regression.contrasts),
        "tests": bool(regression.tests),
        "multivariate": bool(regression.multivariate),
        "curves": bool(regression.curves),
        "test_site": test_site,
    }
    cures = {"site_effect": "write within", "where": "put the condition under cohort.include"}
    for key, wanted in asked.items():
        if wanted:
            raise StudyFileError(
                f"analysis '{regression.name}', field '{key}': not under noise; {cures.get(key, 'remove it')}, or run in a study "
                "without noise"
            )


def _expected(regression: Regression, asked: UnderNoise, covariates: list[Column]) -> Floats:
    """Return the reference model in public standard deviations of normalised columns."""
    where = f"analysis '{regression.name}', field 'under_noise.reference"
    names = {column.name for column in covariates}
    outcomes = {outcome.name for outcome in regression.outcomes}
    unknown = sorted(asked.reference.keys() - (outcomes if covariates else frozenset[str]()))
    if unknown:
        cure = "name outcomes" if covariates else "remove it: there are no covariates to take off"
        raise StudyFileError(f"{where}': '{unknown[0]}' is not needed; {cure}")
    expected = np.zeros((1 + len(covariates), len(outcomes)))
    for place, outcome in enumerate(regression.outcomes if covariates else ()):
        slopes = asked.reference.get(outcome.name, {})
        if slopes.keys() - {INTERCEPT} != names:
            raise StudyFileError(
                f"{where}.{outcome.name}': expected a public slope for each of {', '.join(sorted(names))}; write 0 where the "
                "reference knows no effect"
            )
        public_sd = outcome.half_width / PUBLIC_SDS
        if INTERCEPT in slopes:
            middle = sum(slopes[column.name] * column.middle for column in covariates)
            expected[0, place] = (slopes[INTERCEPT] + middle - outcome.middle) / public_sd
        expected[1:, place] = [slopes[column.name] * column.half_width / public_sd for column in covariates]
        if not np.all(np.abs(expected[:, place]) <= FARTHEST):
            raise StudyFileError(
                f"{where}.{outcome.name}': expects values {FARTHEST:g} public standard deviations from the range or farther; "
                "correct the slopes or the range"
            )
    return expected
