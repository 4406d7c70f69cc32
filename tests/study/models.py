"""A cohort with site effects and holes, and the regressions that several test modules ask of it."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.pooled import (
    BITS,
    Floats,
    federate,
    split,
)

TIGHT = 1e-9
DX = Factor("dx", ("control", "autism", "other"))
SEX = Factor("sex", ("female", "male"))
AGE = Number("age", "years", 5.0, 65.0)
VARIABLES: dict[str, Variable] = {"dx": DX, "sex": SEX, "age": AGE}
OUTCOMES = (Number("y0", "mm", 0.0, 5.0), Number("y1", "mm3", 0.0, 9000.0), Number("y2", "1", -1.0, 1.0))
TERMS = ("dx", "age", "sex", "dx:age")

seeds = st.integers(0, 2**32 - 1)


def cohort(seed: int, sites: int = 4, people: int = 120) -> tuple[Batch, NDArray[Any]]:
    """Return people with site effects, group effects and holes, and the site of each."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, sites, people)
    age = rng.uniform(5, 65, people)
    dx = rng.integers(0, 3, people).astype(np.int16)
    sex = rng.integers(0, 2, people).astype(np.int16)
    numbers = {"age": age}
    for outcome in OUTCOMES:
        u = 0.2 * np.sin(site) + 0.1 * (dx == 1) - 0.002 * age + 0.05 * sex + 0.1 * rng.normal(size=people)
        values = outcome.middle + outcome.half_width * np.clip(u, -1, 1)
        values[rng.random(people) < 0.1] = np.nan
        numbers[outcome.name] = values
    age[rng.random(people) < 0.05] = np.nan
    dx[rng.random(people) < 0.05] = -1
    return Batch(people, numbers, {"dx": dx, "sex": sex}), site


def dummies(batch: Batch) -> dict[str, Floats]:
    """Return the columns of TERMS in natural units, made independently of the design."""
    dx, sex, age = batch.levels["dx"], batch.levels["sex"], batch.numbers["age"]
    known = np.where(dx < 0, np.nan, 1.0)
    columns = {"dx[autism]": known * (dx == 1), "dx[other]": known * (dx == 2), "age": age}
    columns["sex[male]"] = (sex == 1).astype(np.float64)
    columns["dx[autism]:age"] = columns["dx[autism]"] * age
    columns["dx[other]:age"] = columns["dx[other]"] * age
    return columns


def regression(**changes: Any) -> Regression:
    asked: dict[str, Any] = {
        "name": "r",
        "outcomes": OUTCOMES,
        "terms": TERMS,
        "variables": VARIABLES,
        "site_effect": "within",
        "missing": "per_outcome",
        "fraction_bits": BITS,
    }
    return Regression(**(asked | changes))


def fitted(
    statistic: Regression, batch: Batch, site: NDArray[Any] | list[str], batch_size: int = 17
) -> Table:
    return statistic.finish(federate(statistic, split(batch, site), batch_size))[0]
