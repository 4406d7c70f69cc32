"""The opened sums of one outcome of a generalised linear model, and the model of an intercept alone.

That model has a closed form. Binomial: p = events / n. Poisson with offset s: mean = m exp(s), m = sum y / sum exp(s). Its score
and information come from unweighted sums, because its weights are p (1 - p), or m exp(s):

    binomial   score = sum y x - p sum x                information = p (1 - p) sum x x'
    Poisson    score = sum y x - m sum exp(s) x         information = m sum exp(s) x x'

and so does the null deviance: -2 (events log p + (n - events) log(1 - p)), or 2 (sum (y log y - y s) - log m sum y).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.families import Family
from cohortsum.study.statistics.newton import Evaluation, Failure
from cohortsum.study.statistics.opening import ROUNDING
from cohortsum.study.statistics.products import symmetric
from cohortsum.study.statistics.targets import Count, Shift, Target

SEPARATED = "separation"
PERFECT = 1e-6
"""A deviance per person below which 0/1 outcomes are fitted perfectly, so that there is no maximum."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Opened:
    """The sums of one outcome.

    Attributes:
        people: n.
        constant: whether all have the event, or none, or all count 0, so that there is nothing to explain.
        events: people with the event; None for counts.
        score: (coefficients,) float64, in units of the likelihood; in the first round of y x.
        information: (coefficients, coefficients) float64, likewise; in the first round unweighted.
        floor: greatest error of an entry of ``information`` by rounding.
        deviance: at the point of this round; None in the first.
        clipped: people whose linear predictor is at the clip.
        multiple: the mean of the null model: p, or m.
        null_deviance: of the model of an intercept alone.
        saturated: log-likelihood of the saturated model.
        unit: what an outcome of 1 stands for.
    """

    people: int
    constant: bool
    events: int | None
    score: Floats
    information: Floats
    floor: float
    deviance: float | None
    clipped: int
    multiple: float
    null_deviance: float
    saturated: float
    unit: float

    @property
    def separated(self) -> bool:
        """Whether 0/1 outcomes are fitted perfectly at the point of this round."""
        if self.events is None or self.deviance is None:
            return False
        return self.deviance < PERFECT * self.people

    @property
    def null_point(self) -> tuple[float, ...]:
        """The coefficients of the model of an intercept alone."""
        p = self.multiple
        intercept = log(p) if self.events is None else log(p / (1.0 - p))
        return (intercept, *(0.0 for _ in self.score[1:]))

    @property
    def evaluation(self) -> Evaluation:
        """What Newton's method needs of a further round."""
        deviance = self.null_deviance if self.deviance is None else self.deviance
        return Evaluation(self.people, deviance, self.score, self.information, self.floor)


def null_model(here: Opened) -> Evaluation | Failure:
    """Return the evaluation at the model of an intercept alone, from the sums of the first round."""
    if not here.multiple > 0.0:
        return Failure("no information", 1)
    weight = here.multiple if here.events is None else here.multiple * (1.0 - here.multiple)
    score = here.score - here.multiple * here.information[0]
    return Evaluation(here.people, here.null_deviance, score, weight * here.information, weight * here.floor)


def opened(
    target: Target,
    family: Family,
    sums: Mapping[str, NDArray[np.int64]],
    fraction_bits: int,
    shift: Shift | None,
) -> Opened:
    """Return the opened sums of an outcome; ``sums`` by part, without ``fit`` in the first round."""
    grid, unit, n = 2.0**-fraction_bits, target.unit, int(sums["people"][0])
    fit = sums.get("fit")
    weight, residual = (1.0, 1.0) if fit is None else (family.weight, family.residual)
    score = sums["score"].astype(np.float64) * (grid * unit * residual)
    triangle = sums["information"].astype(np.float64) * (grid * unit * weight)
    multiple, null_deviance, saturated = 0.0, 0.0, 0.0
    events: int | None = None
    if isinstance(target, Count):
        counts, exposures, of_null, least = (int(total) * grid for total in sums["totals"])
        width = 0.0 if shift is None else shift.width
        constant = counts <= 0.0
        saturated = least * target.least_saturated
        if counts > 0.0 and exposures > 0.0:
            multiple = counts / exposures
            null_deviance = 2.0 * unit * max(0.0, of_null * max(1.0, width) - counts * log(multiple))
    else:
        events = int(sums["people"][1])
        constant = events in (0, n)
        if not constant:
            multiple = events / n
            null_deviance = -2.0 * (events * log(multiple) + (n - events) * log((n - events) / n))
    return Opened(
        people=n,
        constant=constant,
        events=events,
        score=score,
        information=symmetric(triangle, len(score)),
        floor=n * unit * weight * (1.5 * grid + ROUNDING),
        deviance=None if fit is None else int(fit[0]) * grid * unit * family.deviance,
        clipped=0 if fit is None else round(int(fit[1]) * grid),
        multiple=multiple,
        null_deviance=null_deviance,
        saturated=saturated,
        unit=unit,
    )
