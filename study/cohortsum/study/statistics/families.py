"""The two families of generalised linear models, in scaled units in which every person's part of a sum has a public bound.

An outcome is a number y in [0, 1]: an event or none (binomial, logit link), or a count over its public upper end U (Poisson,
log link; then mu is the expected count over U, too). With the linear predictor e clipped to ``lowest``..``highest``:

=========  ==============================  ==================  =================  ====================================
family     mu                              weight, at most     |y - mu|, at most  deviance of a person, at most
=========  ==============================  ==================  =================  ====================================
binomial   1 / (1 + exp(-e)), |e| <= 30    mu (1 - mu) <= 1/4  1                  2 log(1 + exp(30)) < 61
poisson    exp(e), -30 <= e <= log 16      mu <= 16            16                 2 max(16, 29 + exp(-30)) < 59
=========  ==============================  ==================  =================  ====================================

The Poisson deviance 2 (y log y - y e - y + mu) is convex in y and in e, so it is greatest in a corner: 2 mu <= 32 for y = 0;
for y = 1, 2 (16 - 1 - log 16) at the upper end and 2 (29 + exp(-30)) at the lower one. A probability beyond exp(-30), or an
expected count above 16 times the highest possible one, is no fit of anything: a model that ends with a person at the clip is
not estimable.
"""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEEPEST = 30.0
"""The clip of a linear predictor: e**-30 is 1e-13."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family and its bounds.

    Attributes:
        name: ``binomial`` or ``poisson``.
        ratio: what the exponential of a coefficient is called.
        lowest: least linear predictor.
        highest: greatest linear predictor.
        weight: greatest weight of a person.
        residual: greatest difference of an outcome and its mean.
        deviance: greatest deviance of a person.
    """

    name: Literal["binomial", "poisson"]
    ratio: str
    lowest: float
    highest: float
    weight: float
    residual: float
    deviance: float

    @property
    def counts(self) -> bool:
        """Whether outcomes are counts."""
        return self.name == "poisson"

    def means(self, predictor: Floats) -> Floats:
        """Return the means at clipped linear predictors."""
        if self.counts:
            return np.minimum(np.exp(predictor), self.weight)
        grown = np.exp(-np.abs(predictor))
        return np.where(predictor >= 0, 1.0, grown) / (1.0 + grown)

    def weights(self, predictor: Floats, means: Floats) -> Floats:
        """Return the weights, which are the variances of the outcomes."""
        if self.counts:
            return means
        grown = np.exp(-np.abs(predictor))
        return np.minimum(grown / (1.0 + grown) ** 2, self.weight)

    def deviances(self, outcomes: Floats, predictor: Floats, means: Floats) -> Floats:
        """Return each person's deviance in scaled units, within [0, ``deviance``]."""
        if self.counts:
            deviances = 2.0 * (entropy(outcomes) - outcomes * predictor - outcomes + means)
        else:
            against = np.where(outcomes > 0.5, -predictor, predictor)
            deviances = 2.0 * (np.maximum(against, 0.0) + np.log1p(np.exp(-np.abs(against))))
        return np.clip(deviances, 0.0, self.deviance)


BINOMIAL = Family("binomial", "odds", -STEEPEST, STEEPEST, 0.25, 1.0, 61.0)
POISSON = Family("poisson", "rate", -STEEPEST, log(16.0), 16.0, 16.0, 59.0)
FAMILIES: dict[str, Family] = {family.name: family for family in (BINOMIAL, POISSON)}


def entropy(values: Floats) -> Floats:
    """Return v log v, 0 for v = 0; within [-1/e, 0] for v in [0, 1]."""
    return values * np.log(np.where(values > 0.0, values, 1.0))
