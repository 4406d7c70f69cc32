"""The restricted likelihood of a random site intercept as a function of one ratio, from its values at a few.

With t = tau2 / sigma2 and V = I + t 11' inside a site, the sums A = X'V^-1 X, c = X'V^-1 y, q = y'V^-1 y and L = log det V over
sites give b = A^-1 c, s2 = (q - b'c) / (N - p) and, up to constants, minus twice the restricted log-likelihood

    (N - p) log s2 + L + log det A

(Harville 1977, Journal of the American Statistical Association 72). A site of n people depends on t through t / (1 + n t) and
log (1 + n t) alone. With v = m t / (1 + m t), which takes all ratios from 0 to infinity into [0, 1), these are

    t / (1 + n t) = v / (m (1 - v) + n v)        log (1 + n t) = log (1 - v + n v / m) - log (1 - v)

with poles at v = 1 / (1 - n / m), away from [0, 1] for sites of about m people. So every sum (the last logarithm apart, which
sites need not send) is analytic in v, and the polynomial through its values at Chebyshev points converges geometrically to it
between them (Trefethen 2013, Approximation Theory and Approximation Practice, theorem 8.2): from one round, the likelihood is
known at every ratio. Every other point is a coarser set of Chebyshev points, whose relative error is about the square root of
that of all: where both criteria agree to `AGREEMENT` all over the region that matters, that of all points is right to rounding.
Where they do not, the maximum lies between the neighbours of the best point, and the next round puts its points there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.parameters import rounded

Floats = NDArray[np.float64]

AGREEMENT = 0.01
"""Greatest difference between the criteria of all and of every other point; of N log s2, that is a share of 0.01 / N."""
NEAR = 20.0
"""How far above its least a criterion is looked at; there the likelihood is e^-10 of its greatest."""
SCAN = 257
"""Places of an interval at which the likelihood is looked at, the ends included."""
STAGES = 5
"""Times the neighbourhood of the best place is looked at anew, each time 16 times finer."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Where the restricted likelihood is greatest.

    Attributes:
        v: the place, in [0, 1).
        b: (columns,) float64.
        inverse: (columns, columns) float64, A^-1.
        s2: the residual variance.
    """

    v: float
    b: Floats
    inverse: Floats
    s2: float


def points(low: float, high: float, number: int) -> Floats:
    """Return ``number`` Chebyshev points of the second kind from ``low`` to ``high``, the ends included, ascending."""
    shares = (1.0 - np.cos(np.pi * np.arange(number) / (number - 1))) / 2.0
    places = rounded(low + (high - low) * shares)
    places[0], places[-1] = low, high
    return places


def ratio(v: float, site_size: float) -> float:
    """Return the ratio tau2 / sigma2 behind ``v``."""
    return v / (site_size * (1.0 - v))


def place(theta: float, site_size: float) -> float:
    """Return v of the ratio ``theta``."""
    return site_size * theta / (1.0 + site_size * theta)


@dataclass(frozen=True, slots=True)
class Profile:
    """Opened sums at Chebyshev points.

    Attributes:
        at: (points,) float64, the values of v.
        crosses: (points, p + 1, p + 1) float64, [[A, c], [c', q]].
        logs: (points,) float64, L + K log (1 - v).
        sites: K.
        df: N - p.
    """

    at: Floats
    crosses: Floats
    logs: Floats
    sites: int
    df: int

    @property
    def resolved(self) -> bool:
        """Whether every other point tells the same wherever the likelihood is not far below its greatest."""
        coarser = Profile(self.at[::2], self.crosses[::2], self.logs[::2], self.sites, self.df)
        places = _evenly(float(self.at[0]), float(self.at[-1]), SCAN)
        fine, coarse = self.criterion(places), coarser.criterion(places)
        lower = np.minimum(fine, coarse)
        if not np.any(np.isfinite(lower)):
            return False
        near = lower <= lower.min() + NEAR
        both = np.isfinite(fine[near]) & np.isfinite(coarse[near])
        return bool(np.all(both) and np.all(np.abs(fine[near] - coarse[near]) <= AGREEMENT))

    def around_best(self) -> tuple[float, float]:
        """Return the points to either side of the best one, where the criterion is known without interpolation."""
        best = int(np.argmin(self.criterion(self.at)))
        return float(self.at[max(best - 1, 0)]), float(self.at[min(best + 1, len(self.at) - 1)])

    def peak(self) -> Peak | None:
        """Return where the likelihood is greatest, or None where it is nowhere defined."""
        places = _evenly(float(self.at[0]), float(self.at[-1]), SCAN)
        best = int(np.argmin(self.criterion(places)))
        for _ in range(STAGES):
            low, high = float(places[max(best - 1, 0)]), float(places[min(best + 1, len(places) - 1)])
            places = _evenly(low, high, 33)
            best = int(np.argmin(self.criterion(places)))
        v = places[best : best + 1]
        swept, pivots = _swept(self._between(v)[0])
        if not np.all(pivots > 0.0) or swept[0, -1, -1] <= 0.0:
            return None
        return Peak(float(v[0]), swept[0, :-1, -1], swept[0, :-1, :-1], float(swept[0, -1, -1]) / self.df)

    def criterion(self, v: Floats) -> Floats:
        """Return minus twice the restricted log-likelihood up to a constant, (places,); inf where it is not defined."""
        crosses, logs = self._between(v)
        swept, pivots = _swept(crosses)
        rest = swept[:, -1, -1]
        defined = np.all(pivots > 0.0, axis=1) & (rest > 0.0)
        safe = np.where(defined[:, np.newaxis], pivots, 1.0)
        found = self.df * np.log(np.where(defined, rest, 1.0)) + logs - self.sites * np.log1p(-v)
        return np.where(defined, found + np.log(safe).sum(axis=1), np.inf)

    def _between(self, v: Floats) -> tuple[Floats, Floats]:
        """Return crosses and logs at ``v`` by the barycentric formula (Berrut and Trefethen 2004, SIAM Review 46)."""
        signs = np.where(np.arange(len(self.at)) % 2 == 0, 1.0, -1.0)
        signs[[0, -1]] /= 2.0
        apart = v[:, np.newaxis] - self.at
        met = apart == 0.0
        weights = signs / np.where(met, 1.0, apart)
        on = met.any(axis=1)
        weights[on] = met[on]
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("vg,gij->vij", weights, self.crosses), np.einsum("vg,g->v", weights, self.logs)


def _evenly(low: float, high: float, number: int) -> Floats:
    """Return ``number`` places from ``low`` to ``high`` at equal distances."""
    places: Floats = np.linspace(low, high, number)
    return places


def _swept(crosses: Floats) -> tuple[Floats, Floats]:
    """Return (places, p + 1, p + 1) matrices swept on all but the last column, and the pivots (places, p).

    What is swept holds A^-1, b and the residual sum of squares; a matrix whose pivot is not positive is left meaningless.
    """
    swept = crosses.copy()
    size = swept.shape[1] - 1
    pivots = np.empty((len(swept), size))
    for k in range(size):
        pivots[:, k] = swept[:, k, k]
        pivot = np.where(pivots[:, k] > 0.0, pivots[:, k], 1.0)[:, np.newaxis]
        row, column = swept[:, k] / pivot, swept[:, :, k].copy()
        swept -= column[:, :, np.newaxis] * row[:, np.newaxis, :]
        swept[:, k] = row
        swept[:, :, k] = -column / pivot
        swept[:, k, k] = 1.0 / pivot[:, 0]
    return swept, pivots
