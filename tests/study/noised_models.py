"""Regressions under noise that several tests ask for, and what a federation opens with noise of a given law."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.interface import Sums
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.statistics.noised_regression import NoisedRegression
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.under_noise import UnderNoise
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.pooled import Floats, federate

DX = Factor("dx", ("control", "autism"))
SEX = Factor("sex", ("female", "male"))
AGE = Number("age", "years", 5.0, 65.0)
OUTCOMES = (Number("y0", "mm", 0.0, 4.0), Number("y1", "mm3", 0.0, 8000.0), Number("y2", "1", -1.0, 1.0))
VARIABLES: Mapping[str, Variable] = {"dx": DX, "sex": SEX, "age": AGE}
REFERENCE = {
    "y0": {"age": -0.01, "sex[male]": 0.05},
    "y1": {"age": -5.0, "sex[male]": 300.0, "intercept": 4000.0},
    "y2": {"age": 0.0, "sex[male]": 0.0},
}


def noised(under_noise: UnderNoise | None, test_site: bool = False, **changes: Any) -> NoisedRegression:
    """Return the regression of three outcomes on dx, with ``changes`` to what is asked without noise."""
    asked: dict[str, Any] = {
        "name": "r",
        "outcomes": OUTCOMES,
        "terms": ("dx",),
        "variables": VARIABLES,
        "site_effect": "within",
        "missing": "per_outcome",
        "fraction_bits": 24,
        "effect": "dx",
    }
    regression = Regression(**(asked | changes))
    return NoisedRegression(
        name=regression.name, regression=regression, under_noise=under_noise, test_site=test_site
    )


def formulation(letter: str, clip: float = 3.0, **changes: Any) -> NoisedRegression:
    """Return E, F or Dr of `noised_regression`."""
    match letter:
        case "E":
            return noised(UnderNoise(clip), **changes)
        case "F":
            return noised(UnderNoise(clip, protect_diagnosis=False), **changes)
        case _:
            changes.setdefault("terms", ("dx", "age", "sex"))
            return noised(UnderNoise(clip, reference=REFERENCE), **changes)


def natural(statistic: NoisedRegression, sums: Sums) -> dict[str, Floats]:
    """Return integers of every block in the blocks' own units."""
    bits = {block.name: block.fraction_bits for block in statistic.layout()}
    return {name: values.astype(np.float64) * 2.0 ** -bits[name] for name, values in sums.items()}


def standard_deviations(statistic: NoisedRegression, multiplier: float) -> dict[str, float]:
    """Return the noise by block where a share of 1 needs ``multiplier`` times the sensitivity."""
    return {
        name: multiplier * part.l2 / sqrt(part.share) if part.l2 else 0.0
        for part in statistic.parts("replace_one")
        for name in part.blocks
    }


def noisy(
    values: Mapping[str, Floats], sd: Mapping[str, float], rng: np.random.Generator | None, sites: int
) -> Noisy:
    """Return opened sums with normal noise, or without where there is no generator."""
    drawn = {
        name: one if rng is None or sd[name] == 0.0 else one + sd[name] * rng.standard_normal(len(one))
        for name, one in values.items()
    }
    return Noisy(drawn, sd, int(values["r/people"][0]), sites)


def table_of(statistic: NoisedRegression, sites: Sequence[Batch], multiplier: float = 0.0) -> Table:
    """Return the table of exact sums that are said to carry noise."""
    values = natural(statistic, federate(statistic, sites))
    opened = noisy(values, standard_deviations(statistic, multiplier), None, len(sites))
    (table,) = statistic.finish_noised(opened)
    return table


def column(table: Table, name: str) -> Floats:
    """Return a column of numbers."""
    place = table.columns.index(name)
    return np.array([cells[place] for cells in table.rows], np.float64)


def cohort(seed: int, sites: int, people: int, holes: float = 0.0) -> list[Batch]:
    """Return sites of ``people`` each, with effects of site, dx, age and sex on outcomes, and holes in all of them."""
    rng = np.random.default_rng(seed)
    batches: list[Batch] = []
    for site in range(sites):
        dx, sex = (rng.random((2, people)) < (0.35 + 0.05 * site)).astype(np.int16)
        age = rng.uniform(5.0, 65.0, people)
        numbers = {"age": age}
        for place, outcome in enumerate(OUTCOMES):
            v = 0.4 * np.sin(site + place) + (0.3 + 0.2 * place) * dx - 0.01 * age + 0.2 * sex
            v += 0.9 * rng.standard_normal(people)
            values = outcome.middle + outcome.half_width / 4 * np.clip(v, -4.0, 4.0)
            values[rng.random(people) < holes] = np.nan
            numbers[outcome.name] = values
        age[rng.random(people) < holes] = np.nan
        dx[rng.random(people) < holes] = -1
        batches.append(Batch(people, numbers, {"dx": dx, "sex": sex}))
    return batches


def known(batch: Batch) -> NDArray[np.bool_]:
    """Return who has every term of Dr."""
    mask: NDArray[np.bool_] = (batch.levels["dx"] >= 0) & (batch.levels["sex"] >= 0)
    return mask & ~np.isnan(batch.numbers["age"])


def public_outcomes(batch: Batch, statistic: NoisedRegression) -> Floats:
    """Return v (people, outcomes) made independently: in public deviations, the reference taken off, shortened."""
    asked = statistic.under_noise
    assert asked is not None
    v = np.empty((batch.people, len(OUTCOMES)))
    for place, outcome in enumerate(OUTCOMES):
        values = batch.numbers[outcome.name] - outcome.middle
        slopes = asked.reference.get(outcome.name, {})
        age, sex = batch.numbers["age"] - 35.0, batch.levels["sex"] - 0.5
        if "intercept" in slopes:
            values = values + outcome.middle - slopes["intercept"]
            age, sex = age + 35.0, sex + 0.5
        values = values - slopes.get("age", 0.0) * (age if slopes else 0.0)
        values = values - slopes.get("sex[male]", 0.0) * sex
        v[:, place] = 4.0 * values / outcome.half_width
    v[np.isnan(v)] = 0.0
    norm = np.linalg.norm(v, axis=1)
    shortened: Floats = v * np.minimum(1.0, asked.clip / np.maximum(norm, 1e-300))[:, np.newaxis]
    return shortened
