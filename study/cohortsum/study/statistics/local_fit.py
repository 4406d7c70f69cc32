"""One site's own regression of one outcome: the effect it finds, and how uncertain that is.

The model has an intercept and the columns of the study; a column that does not vary at the site, or that the others determine
there, is left out. The effect enters last: where the other columns determine it, the site knows nothing of it. Cohen's d comes
from its t (`effect_size`); ``b`` is the coefficient of the normalised columns, within [-1, 1] each.

Bounds of the weight w = 1/v of an estimate e with variance v, for every site of n people:

- d: v >= (n1 + n2) / (n1 n2) + d^2 / (2 n), hence w <= n / 4, w |d| <= 0.36 n and w d^2 <= 2 n.
- b: v = s^2 / S, with s^2 the residual mean square and S <= n the sum of squares that is left of the column; b^2 S <= n. A site
  with s^2 below `LEAST_RESIDUAL` has no estimate, so that w, w |b| and w b^2 are at most n / `LEAST_RESIDUAL`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.effect_size import cohens_d
from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.opening import ROUNDING

Measure = Literal["cohens_d", "b"]
LEAST_RESIDUAL = 2.0**-28
"""A residual SD of 2**-14 of half the outcome's public range: closer than any measurement over a sensible range."""


@dataclass(frozen=True, slots=True)
class LocalEffect:
    """The effect of one column at one site.

    Attributes:
        value: d, or b of the normalised columns.
        variance: of ``value``; greater than 0.
    """

    value: float
    variance: float


@dataclass(frozen=True, slots=True)
class LocalFit:
    """The fit of one outcome at one site.

    Attributes:
        effects: per column of the effect, or None where the site has no estimate.
        kept: the columns in the model.
    """

    effects: tuple[LocalEffect | None, ...]
    kept: frozenset[int]


def local_fit(
    people: NDArray[np.int64],
    cross: NDArray[np.float64],
    effect: Sequence[int],
    measure: Measure,
) -> LocalFit:
    """Return the fit of one outcome at one site.

    Args:
        people: n; for d then the people at the reference and at the level behind each column of the effect.
        cross: (p + 1, p + 1) float64 products of the normalised columns about the site's means, outcome last.
        effect: the columns of the effect.
        measure: what is estimated; d only where both groups have people.
    """
    n, floor = int(people[0]), int(people[0]) * ROUNDING
    others = [column for column in range(len(cross) - 1) if column not in effect]
    fitted = fit(cross, [*others, *effect], floor)
    df = n - 1 - len(fitted.kept)
    nothing = LocalFit((None,) * len(effect), frozenset(fitted.kept))
    if df < 1 or fitted.exact or cross[-1, -1] <= floor:
        return nothing
    residual = fitted.rss / df
    effects: list[LocalEffect | None] = []
    for position, column in enumerate(effect):
        if column not in fitted.kept:
            effects.append(None)
            continue
        place = fitted.kept.index(column)
        b, variance = float(fitted.b[place]), residual * float(fitted.inverse[place, place])
        if measure == "b":
            effects.append(LocalEffect(b, variance) if residual >= LEAST_RESIDUAL else None)
            continue
        n1, n2 = int(people[1]), int(people[2 + position])
        if min(n1, n2) < 1 or n1 + n2 <= 2:
            effects.append(None)
            continue
        d, se = cohens_d(b / sqrt(variance), n1, n2, df)
        effects.append(LocalEffect(d, se * se))
    return LocalFit(tuple(effects), nothing.kept)
