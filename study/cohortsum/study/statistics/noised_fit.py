"""From noised sums to the effect of the contrast, with both of its errors.

With A = xx, c the first row of A^-1 and r_k the row of xv of column k, the coefficient of an outcome is b = sum c_k r_k. Covariates get a
ridge of 3 standard deviations of the noise on their diagonal, which draws them to the reference model (outcomes are what it leaves),
and keeps A positive definite. Where A is not, nothing is estimated: a fit to some other matrix would be an answer to no question.

*Noise of b*, to first order in that of xx (E): b moves by sum c_k e(r_k) - c' E B, B being the coefficients of all columns.
*Sampling* variance of b: s^2 A^-1, or s^2 sum w^2 xx / (sum w xx)^2 where sites count by a weight; a ridge makes it a little smaller.

s^2 is one number for all outcomes, in public variances: the spread, less what the columns explain, over outcomes times degrees of
freedom. (Noise that is r times the sampling error seems to explain r^2 / n of it: nothing, where b is of use.) It has an error of its
own, as have n and xx behind it, so limits come from a t distribution whose degrees of freedom say how well the total variance is known
(Satterthwaite 1946): noise without error, sampling with the sum of those relative variances. d = b / s, and its error follows to
first order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import Status

Floats = NDArray[np.float64]

RIDGE_SDS = 3.0
LEAST_SDS = 3.0
"""What is not so many standard deviations of its noise above 0 carries no error, or no estimate."""


@dataclass(frozen=True, slots=True)
class NoisedTotals:
    """Opened sums, with the standard deviation of the noise in each.

    Attributes:
        people: counted people.
        people_sd: of its noise.
        sites: sites with people.
        xx: (columns, columns) float64, the contrast first.
        xx_sd: of the noise in an entry.
        rows: (columns, outcomes) float64, xv.
        rows_sd: (columns,) float64, of the noise in an entry.
        squares: xx of the contrast with the squares of the weights of sites, or None where there are none.
        spread: of all outcomes together.
        spread_sd: of its noise.
    """

    people: float
    people_sd: float
    sites: int
    xx: Floats
    xx_sd: float
    rows: Floats
    rows_sd: Floats
    squares: float | None
    spread: float
    spread_sd: float


@dataclass(frozen=True, slots=True)
class NoisedEffects:
    """The effects of all outcomes, in public standard deviations per unit of the normalised contrast.

    Attributes:
        status: of all of them.
        b: (outcomes,) float64; meaningful where there is any estimate.
        noise: (outcomes,) float64, standard error from the noise; likewise.
        sampling: standard error from sampling, which all share; meaningful where the status is ``ok``, as the rest.
        df: (outcomes,) float64, degrees of freedom of the total variance.
        residual_sd: s.
        residual_error: relative variance of s^2.
    """

    status: Status
    b: Floats
    noise: Floats
    sampling: float
    df: Floats
    residual_sd: float
    residual_error: float

    @property
    def estimated(self) -> bool:
        """Whether there are coefficients; their sampling error may still be unknown."""
        return self.status in (Status.OK, Status.VARIANCE_FLOORED)

    @property
    def se(self) -> Floats:
        """Standard errors from both, (outcomes,)."""
        return np.hypot(self.noise, self.sampling)


def noised_fit(totals: NoisedTotals) -> NoisedEffects:
    """Return the effects, or why there are none."""
    columns, outcomes = totals.rows.shape
    free = totals.people - totals.sites - columns
    penalised = totals.xx + np.diag([0.0, *([RIDGE_SDS * totals.xx_sd] * (columns - 1))])
    if not np.linalg.eigvalsh(penalised)[0] > 0.0 or free < 1.0:
        return _nothing(Status.NOT_ESTIMABLE, outcomes)
    inverse = np.linalg.inv(penalised)
    c, moved = inverse[0], _form_sd(inverse[0], inverse[0], totals.xx_sd) / inverse[0, 0]
    # 1 / c_0 is what xx tells of the contrast beyond the covariates; ``moved`` is the relative noise in it
    if moved * LEAST_SDS > 1.0 or free < LEAST_SDS * totals.people_sd:
        return _nothing(Status.NOISE_TOO_LARGE, outcomes)
    b_all = inverse @ totals.rows
    from_rows = float(np.sqrt(np.sum((c * totals.rows_sd) ** 2)))
    from_xx = np.array([_form_sd(c, b, totals.xx_sd) for b in b_all.T])
    noise = np.hypot(from_rows, from_xx)
    left = totals.spread - float(np.sum(b_all * totals.rows))
    if left <= LEAST_SDS * totals.spread_sd:
        nothing = np.zeros(outcomes)
        return NoisedEffects(Status.VARIANCE_FLOORED, b_all[0], noise, 0.0, nothing, 0.0, 0.0)
    variance = left / (outcomes * free)
    spared = 1.0 if totals.squares is None else totals.squares * float(inverse[0, 0])
    sampling = variance * spared * float(inverse[0, 0])
    relative = 2.0 / free + (totals.spread_sd / left) ** 2 + (totals.people_sd / free) ** 2
    total = sampling + noise**2
    df = 2.0 * total**2 / (sampling**2 * (relative + moved**2))
    return NoisedEffects(
        Status.OK, b_all[0], noise, float(np.sqrt(sampling)), df, float(np.sqrt(variance)), relative
    )


def _form_sd(first: Floats, second: Floats, sd: float) -> float:
    """Return the standard deviation of ``first' E second``, E symmetric with independent entries of deviation ``sd``."""
    moved = np.outer(first, second)
    triangle = np.triu(moved + moved.T, 1) + np.diag(np.diag(moved))
    return sd * float(np.sqrt(np.sum(triangle**2)))


def _nothing(status: Status, outcomes: int) -> NoisedEffects:
    nothing = np.zeros(outcomes)
    return NoisedEffects(status, nothing, nothing, 0.0, nothing, 0.0, 0.0)
