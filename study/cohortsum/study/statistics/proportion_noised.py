"""Shares of people under noise: how far one person moves their counts, and intervals that hold the noise.

Per number a person adds to one group at most: with a value, 1 to n and to each threshold that she is above, of T; without one, 1 to
the missing; nothing outside the groups and the subgroup. Squared L2 norms: 1 to 1 + T, and 1. Replacing one person's values

* inside one group, with a value before and after: 1 for each threshold between the two, at most T;
* inside one group, from a value to none: at most 1 + T + 1 = T + 2;
* from one group to another: at most 2 (1 + T), which is more than T + 2 wherever there is a threshold.

Per factor she is at one level of one group, or at none: one number, and two when she moves. Numbers and factors add up; all this is
attained, by whoever is above every threshold first and missing or elsewhere afterwards.

The 95 % interval of a share p is Wilson's, widened by the noise: with w the distance from p to one of Wilson's limits and s the noise
of p (`counts_noised`), that limit is at sqrt(w^2 + (1.96 s)^2) from p, and within 0 and 1 (the limits of two errors that are
independent add up so: Zou and Donner 2008). Without noise it is Wilson's; with much it is p -+ 1.96 sqrt(p (1 - p) / n + s^2).
"""

from dataclasses import dataclass
from math import hypot, sqrt

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.results import NO_DATA, Absent, Cell, Status
from cohortsum.study.statistics.binomial import wilson
from cohortsum.study.statistics.counts_noised import share_noise, share_of, too_small, whole
from cohortsum.study.statistics.noised import Forecast, Part
from cohortsum.study.statistics.summary_noised import NORMAL_95

PROPORTION_NOISE_COLUMNS = ("count_noise_sd", "n_noise_sd", "proportion_noise_se")
LIMITS_NOTE = "low and high are 95 % limits from the sampling error (Wilson) and the noise together."


def proportion_part(
    blocks: tuple[str, ...], numbers: int, thresholds: int, factors: int, groups: int, adjacency: Adjacency
) -> Part:
    """Return the part of the shares of ``numbers`` numbers and ``factors`` factors in ``groups`` groups; the module says why."""
    if adjacency == "add_or_remove":
        moved = numbers * (1 + thresholds) + factors
    else:
        moved = numbers * (thresholds + 2 if groups == 1 else 2 * (1 + thresholds)) + 2 * factors
    return Part(blocks, sqrt(moved), moved)


@dataclass(frozen=True, slots=True)
class NoisedShare:
    """A noised count and what it is a share of; None had too few suppliers.

    Attributes:
        count: people above a threshold, or at a level.
        n: people who have a value: a number that was opened, or the sum of those at every level.
        missing: people without one.
        numbers: how many opened numbers n is the sum of.
        among: whether the count is one of them.
        sd: of the noise in each opened number.
    """

    count: float | None
    n: float | None
    missing: float | None
    numbers: int
    among: bool
    sd: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return count, n, proportion, low, high, status and missing, then the noise of count, n and proportion."""
        unknown = Absent(Status.TOO_FEW_SITES)
        without: Cell = unknown if self.missing is None else whole(self.missing)
        if self.count is None or self.n is None:
            shown: Cell = unknown if self.count is None else whole(self.count)
            noise: Cell = unknown if self.count is None else self.sd
            status = Status.TOO_FEW_SITES.value
            return (shown, unknown, unknown, unknown, unknown, status, without, noise, unknown, unknown)
        counts, noise_n = (whole(self.count), whole(self.n)), self.sd * sqrt(self.numbers)
        why = too_small(self.n, noise_n)
        if why is not None:
            drowned = Status.ALL_MISSING if why == NO_DATA else Status.NOISE_TOO_LARGE
            return (*counts, why, why, why, drowned.value, without, self.sd, noise_n, why)
        share = share_of(self.count, self.n)
        noise_p = share_noise(share, self.n, self.numbers, self.among, self.sd)
        low, high = _limits(counts, share, noise_p)
        return (*counts, share, low, high, Status.OK.value, without, self.sd, noise_n, noise_p)


def _limits(counts: tuple[int, int], share: float, noise: float) -> tuple[float, float]:
    """Return the ends of the 95 % interval; Wilson's is that of count and n as they are shown."""
    n = counts[1]
    count = min(counts[0], n)
    low, high = (abs(limit - count / n) for limit in wilson(count, n))
    return max(share - hypot(low, NORMAL_95 * noise), 0.0), min(share + hypot(high, NORMAL_95 * noise), 1.0)


def forecast_share(what: str, numbers: int, among: bool, noise: float, people: float, per: int) -> Forecast:
    """Return the errors of a share of one half of ``people`` people."""
    return Forecast(what, "1", share_noise(0.5, people, numbers, among, noise), 0.5 / sqrt(people), per)
