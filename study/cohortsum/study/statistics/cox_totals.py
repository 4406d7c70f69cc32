"""The opened sums of a proportional hazards model, and the test of proportional hazards.

The test asks whether effects change with a function g of time, that is whether coefficients of x g(time) beside those of x are 0.
With score s and information V of every event time at the maximum, it is the score test

    u = sum g s,  A = sum V,  B = sum g V,  C = sum g^2 V        chi2 = w' (C - B A^-1 B)^-1 w,  w = u - B A^-1 sum s

for all columns together, and for each alone with its own row of B and entry of C. The sum of s is 0 but for rounding.

Source: Grambsch and Therneau 1994, with the information at every event time in place of its average.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.interface import Sums
from cohortsum.study.statistics.newton import Evaluation
from cohortsum.study.statistics.opening import ROUNDING
from cohortsum.study.statistics.products import symmetric

DIVISORS = np.array((128.0, 128.0, 1.0, 1.0, 1.0))
"""What the numbers of ``fit`` are divided by: an event adds at most 60 + log n <= 103 to minus a log-likelihood."""
SPREAD = 64.0
"""How much more than a product a mean over a risk set may be off, in units of `ROUNDING`."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Opens(Protocol):
    """What the sums belong to."""

    @property
    def fraction_bits(self) -> int:
        """The grid."""
        ...

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        ...

    def block(self, part: str, sums: Sums) -> Integers | None:
        """Return the opened numbers of a block."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """The sums of one round.

    Attributes:
        people: n.
        events: people with the event.
        sites: sites in the likelihood.
        used: events in the likelihood.
        clipped: people whose linear predictor is at the clip.
        untreated: events in ties too large for the exact likelihood.
        objective: minus twice the log-likelihood.
        null_objective: the same without covariates.
        score: (powers, columns) float64, weighted by 1 and, in the round of the test, g.
        information: by power (1; then g and g^2), (columns, columns) float64.
        floor: greatest error of an entry of ``information`` by rounding.
    """

    people: int
    events: int
    sites: int
    used: int
    clipped: int
    untreated: int
    objective: float
    null_objective: float
    score: Floats
    information: tuple[Floats, ...]
    floor: float

    @property
    def evaluation(self) -> Evaluation:
        """What Newton's method needs."""
        return Evaluation(self.people, self.objective, self.score[0], self.information[0], self.floor)


def opened(statistic: Opens, sums: Sums) -> Opened | None:
    """Return the opened sums of a round, or None where too few sites supply them."""
    blocks = [statistic.block(part, sums) for part in ("people", "sites", "score", "information", "fit")]
    known = [block for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    people, sites, score, information, fitted = known
    grid, size = 2.0**-statistic.fraction_bits, statistic.size
    objective, null, used, clipped, untreated = (fitted * grid * DIVISORS).tolist()
    triangles = (information.astype(np.float64) * (2.0 * grid)).reshape(-1, size * (size + 1) // 2)
    return Opened(
        people=int(people[0]),
        events=int(people[1]),
        sites=int(sites[0]),
        used=round(used),
        clipped=round(clipped),
        untreated=round(untreated),
        objective=2.0 * objective,
        null_objective=2.0 * null,
        score=(score.astype(np.float64) * (2.0 * grid)).reshape(-1, size),
        information=tuple(symmetric(triangle, size) for triangle in triangles),
        floor=used * SPREAD * ROUNDING + 2.0 * int(sites[0]) * grid,
    )


def proportionality(here: Opened, columns: list[int]) -> tuple[float, int]:
    """Return chi2 and degrees of freedom of the test of ``columns``, from the sums of its round; 0 where nothing is left.

    Other columns keep their proportional effects: their rows of A and B are there, those of C are not.
    """
    size = len(here.score[0])
    a, b, c = here.information
    kept = fit(_bordered(a, here.score[0]), range(size), here.floor).kept
    first, second = list(kept), [column for column in columns if column in kept]
    joint = np.block(
        [
            [a[np.ix_(first, first)], b[np.ix_(first, second)]],
            [b[np.ix_(second, first)], c[np.ix_(second, second)]],
        ]
    )
    score = np.concatenate((here.score[0][first], here.score[1][second]))
    main = range(len(first))
    swept = fit(_bordered(joint, score), range(len(score)), here.floor)
    further = [gain for place, gain in zip(swept.kept, swept.gains, strict=True) if place not in main]
    return sum(further), len(further)


def _bordered(matrix: Floats, last: Floats) -> Floats:
    """Return ``matrix`` with ``last`` as a further row and column, and 0 in the corner."""
    bordered = np.zeros((len(last) + 1,) * 2)
    bordered[:-1, :-1] = matrix
    bordered[-1, :-1] = bordered[:-1, -1] = last
    return bordered
