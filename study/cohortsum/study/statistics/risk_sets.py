"""Cox's partial likelihood of one site: its value, score and information at given coefficients.

At every event time the people under observation (start < time <= stop) form a risk set. With hazards r = exp(x b) and a weighted
mean m and covariance V of x over the risk set, an event of x adds log sum r - x b to minus the log-likelihood, x - m to the
score and V to the information. Events at one time are treated as

- ``breslow``: the full risk set for each of d events;
- ``efron``: for the l-th of them the hazards of those with the event count (1 - l / d), l = 0, ..., d - 1;
- ``exact``: the probability of just these d of the risk set, given that d had it: mean and covariance of the sum of x over
  all subsets of size d, weighted by the products of their hazards (`ties`).

Sums over risk sets are cumulative sums over people sorted by time, less those who came later. Columns are centred at the site
first, which changes nothing and costs no digits; a difference that cancels is added up anew.

Bounds, for columns in [-1, 1] before centring and hazards clipped to exp(-30)..exp(30): an event adds at most 2 to a score (a
value less a mean of values), at most 2 to an information (a covariance of values in [-1, 1] is at most 1; for a sum over d
people whose selections are negatively correlated it is at most 2 d, hence 2 per event), and between 0 and 60 + log n to minus
the log-likelihood (the set with the events is one of those summed over).

Source: Kalbfleisch and Prentice 2002, chapter 4; Efron 1977.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.statistics.ties import LARGEST_TIE, subsets

STEEPEST = 30.0
"""The clip of a linear predictor about the site's mean."""
CANCELLED = 1e-6
"""A share of a cumulative sum below which a difference of two is added up anew."""

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Ties = Literal["breslow", "efron", "exact"]


@dataclass(frozen=True, slots=True)
class Spells:
    """People under observation; start < stop for each.

    Attributes:
        start: (people,) float64; -inf from the beginning.
        stop: (people,) float64.
        event: (people,) bool, whether there was an event at ``stop``.
        x: (people, columns) float64 in [-1, 1].
    """

    start: Floats
    stop: Floats
    event: NDArray[np.bool_]
    x: Floats


@dataclass(frozen=True, slots=True)
class Partial:
    """The partial likelihood at one point; with powers of a function of time, one row per power.

    Attributes:
        objective: minus the log-likelihood.
        score: (powers, columns) float64.
        information: (powers, columns (columns + 1) / 2) float64, upper triangles by rows.
        clipped: people whose linear predictor is at the clip.
        untreated: events in ties too large for the exact likelihood.
    """

    objective: float
    score: Floats
    information: Floats
    clipped: int
    untreated: int


class RiskSets:
    """The risk sets of a site at its event times.

    Attributes:
        times: (times,) float64, the distinct event times, ascending.
        deaths: (times,) number of events at each.
        of_event: (events,) the place in ``times`` of every event, in the order of the people.
        total: (times,) float64, the sum of the hazards of each risk set.
    """

    def __init__(self, spells: Spells, hazards: Floats) -> None:
        self._spells = spells
        self.times, self.of_event = np.unique(spells.stop[spells.event], return_inverse=True)
        self.deaths = np.bincount(self.of_event, minlength=len(self.times))
        self._by_stop = np.argsort(-spells.stop, kind="stable")
        self._staying = np.searchsorted(-spells.stop[self._by_stop], -self.times, side="right")
        late = np.flatnonzero(np.isfinite(spells.start))
        self._by_start = late[np.argsort(-spells.start[late], kind="stable")]
        self._coming = np.searchsorted(-spells.start[self._by_start], -self.times, side="right")
        self._recounted: list[int] = []
        whole = _cumulative(hazards[self._by_stop])[self._staying]
        self._recounted = np.flatnonzero(self.sums(hazards) <= CANCELLED * whole).tolist()
        self.total = self.sums(hazards)

    def sums(self, values: Floats) -> Floats:
        """Return the sums of (people,) ``values`` over the risk set of every event time."""
        staying = _cumulative(values[self._by_stop])[self._staying]
        if len(self._by_start) == 0:
            return staying
        coming = _cumulative(values[self._by_start])[self._coming]
        found = staying - coming
        for place in self._recounted:
            found[place] = values[self.members(place)].sum()
        return found

    def deaths_of(self, values: Floats) -> Floats:
        """Return the sums of (people,) ``values`` over those with an event at every event time."""
        return np.bincount(
            self.of_event, weights=values[self._spells.event], minlength=len(self.times)
        ).astype(np.float64)

    def members(self, place: int) -> NDArray[np.bool_]:
        """Return who is in the risk set of one event time, (people,) bool."""
        time = self.times[place]
        inside: NDArray[np.bool_] = (self._spells.start < time) & (time <= self._spells.stop)
        return inside


def partial_likelihood(
    spells: Spells, beta: tuple[float, ...], ties: Ties, weights: Floats | None = None
) -> Partial:
    """Return the partial likelihood of a site.

    Args:
        spells: its people; without an event everything is 0.
        beta: one coefficient per column.
        ties: how events at one time are treated.
        weights: (powers, people) float64, functions of ``stop``, by which event times are weighted in score and information;
            by default each counts once.
    """
    columns = spells.x.shape[1]
    x = spells.x - spells.x.mean(axis=0) if len(spells.x) else spells.x
    raw = np.zeros(len(x))
    for column, coefficient in zip(x.T, beta, strict=True):
        raw = raw + column * coefficient
    predictor = np.clip(raw, -STEEPEST, STEEPEST)
    hazards = np.exp(predictor)
    at = RiskSets(spells, hazards)
    powers = np.ones((1, len(x))) if weights is None else weights
    counts = np.maximum(at.deaths, 1)
    by_time = np.array([at.deaths_of(power) / counts for power in powers])
    score, information = (
        np.zeros((len(powers), columns)),
        np.zeros((len(powers), columns * (columns + 1) // 2)),
    )
    exact = ties == "exact"
    single = (at.deaths == 1) if exact else np.ones(len(at.times), np.bool_)
    # one entry per event: its time, and how much the hazards of its ties are discounted
    group = np.repeat(np.arange(len(at.times)), at.deaths)
    group = group[single[group]]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    discount = rank / at.deaths[group] if ties == "efron" else np.zeros(len(group))

    def over(values: Floats) -> Floats:
        found: Floats = at.sums(values)[group] - discount * at.deaths_of(values)[group]
        return found

    total = at.total[group] - discount * at.deaths_of(hazards)[group]
    objective = float(np.log(total).sum() - predictor[spells.event][single[at.of_event]].sum())
    means = [over(hazards * column) / total for column in x.T]
    each = by_time[:, group]
    for place, (first, second) in enumerate(zip(*np.triu_indices(columns), strict=True)):
        spread = over(hazards * x[:, first] * x[:, second]) / total - means[first] * means[second]
        information[:, place] = each @ spread
    for place, column in enumerate(x.T):
        deaths = at.deaths_of(column)
        score[:, place] = by_time[:, single] @ deaths[single] - each @ means[place]
    untreated = 0
    for place in np.flatnonzero(~single).tolist():
        inside, d = at.members(place), int(at.deaths[place])
        found = subsets(hazards[inside], x[inside], d) if d <= LARGEST_TIE else None
        if found is None:
            untreated += d
            continue
        dead = spells.event & (spells.stop == at.times[place])
        objective += found.log_total - float(predictor[dead].sum())
        score += np.multiply.outer(by_time[:, place], x[dead].sum(axis=0) - found.mean)
        information += np.multiply.outer(by_time[:, place], found.covariance)
    return Partial(objective, score, information, int(np.count_nonzero(raw != predictor)), untreated)


def shares(spells: Spells, beta: tuple[float, ...]) -> Floats:
    """Return each person's expected number of events, (people,) float64: the hazard times the time at risk of it."""
    x = spells.x - spells.x.mean(axis=0) if len(spells.x) else spells.x
    hazards = np.exp(np.clip((x * np.array(beta)).sum(axis=1), -STEEPEST, STEEPEST))
    at = RiskSets(spells, hazards)
    cumulative = _cumulative(at.deaths / at.total)
    ended = cumulative[np.searchsorted(at.times, spells.stop, side="right")]
    begun = cumulative[np.searchsorted(at.times, spells.start, side="right")]
    expected: Floats = hazards * (ended - begun)
    return expected


def _cumulative(values: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate((np.zeros(1), np.cumsum(values)))
