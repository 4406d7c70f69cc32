"""Linear models with a random intercept per site, by restricted maximum likelihood.

y = X b + u + e, where u is the same for all people of a site and drawn with variance tau2, and e has variance sigma2. Per
outcome, beside n and the number of sites, a site adds for every ratio on an agreed grid of Chebyshev points (`profile`) the
sums A = X'V^-1 X (upper triangle, the intercept first), c = X'V^-1 y, q = y'V^-1 y and log (1 - v + n v / m). They are
`site` blocks: with k = v / (m (1 - v) + n v) and row sums sx and sy, A = X'X - k sx sx', and so on; what is sent depends on
the site's n through k alone.

One round gives the likelihood at every ratio, if the grid resolves it. An outcome for which it does not (sites far smaller and
larger than m) goes through another round between the neighbours of the best ratio, at most `MOST_ROUNDS` in all.

Bound. 0 <= V^-1 <= I, so an entry of A, c and q is at most n. The logarithm lies between log (1 - v), and -log (1 + m t) is
that at the greatest ratio t, and log n; it is divided by log (1 + m t) or 1, whichever is more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import log1p

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.fit import fit
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, to_grid
from cohortsum.study.statistics.mixed_tables import Answer, mixed_table
from cohortsum.study.statistics.opening import ROUNDING
from cohortsum.study.statistics.products import symmetric
from cohortsum.study.statistics.profile import Profile, place, points
from cohortsum.study.statistics.regression import Regression

MOST_ROUNDS = 3

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed(Statistic):
    """One round of mixed models.

    Attributes:
        name: name of the analysis.
        regression: the models without their random intercept; its sums are those of ``within`` before they are centred.
        ratios: points of the grid; odd, at least 5.
        site_size: m, about how many people a site has; above 0.
        max_ratio: the greatest tau2 / sigma2 looked at; above 0.
        intervals: (low, high) of v that the grid spans, by the outcomes' positions; of those this round is about.
        answers: what became of the others.
        kept: columns of each outcome that are not aliased, the intercept first as 0; from the first round.
        rounds: rounds that went before.
    """

    name: str
    regression: Regression
    ratios: int
    site_size: float
    max_ratio: float
    intervals: Mapping[int, Interval] = field(default_factory=dict[int, Interval])
    answers: Mapping[int, Answer] = field(default_factory=dict[int, Answer])
    kept: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    rounds: int = 0

    @property
    def most_rounds(self) -> int:
        """Three."""
        return MOST_ROUNDS - self.rounds

    @property
    def parameters(self) -> tuple[float, ...]:
        """The intervals of all outcomes of this round, by position; empty in the first."""
        if not self.rounds:
            return ()
        return tuple(value for where, ends in sorted(self.intervals.items()) for value in (where, *ends))

    def layout(self) -> tuple[Block, ...]:
        """Return people, sites and the sums at every ratio of each outcome."""
        about = {block.name: block for block in self.regression.layout()}
        blocks: dict[str, Block] = {}
        for position in self._running:
            outcome = self.regression.outcomes[position]
            people, sites, covariates = (about[name] for name in self.regression.shared_blocks(outcome))
            blocks |= {people.name: people, sites.name: sites}
            name, size = self._block(position), self.ratios * (_triangle(self._columns + 1) + 1)
            blocks[name] = replace(covariates, name=name, size=size)
        return tuple(blocks.values())

    def accumulate(self, batch: Batch) -> State:
        """Return people, x, xx, y, xy and yy, as the regression does."""
        return self.regression.accumulate(batch)

    def members(self, batch: Batch) -> Members:
        """Return the people sets of the blocks, as the regression does."""
        named = {name for block in self.layout() for name in block.sets}
        return {name: mask for name, mask in self.regression.members(batch).items() if name in named}

    def contribute(self, state: State) -> Sums:
        """Return the counts, and the sums at every ratio."""
        asked = {block.name for block in self.layout()}
        sent = {name: sums for name, sums in self.regression.contribute(state).items() if name in asked}
        for position in self._running:
            values = self._at_ratios(position, state)
            sent[self._block(position)] = to_grid(values, self.regression.fraction_bits)
        return sent

    def further(self, sums: Sums) -> Statistic | None:
        """Return the round that looks closer at what the grid did not resolve, or None."""
        following = self._judged(sums)
        return following if following.intervals and following.rounds < MOST_ROUNDS else None

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of coefficients and variances."""
        judged = self._judged(sums)
        answers = [
            judged.answers.get(position, Answer(Status.NOT_ESTIMABLE, note="its likelihood was not resolved"))
            for position in range(len(self.regression.outcomes))
        ]
        columns, outcomes = self.regression.design.columns, self.regression.outcomes
        return (mixed_table(self.name, outcomes, columns, answers, self.site_size, self.max_ratio),)

    @property
    def _columns(self) -> int:
        """Columns of the models, the intercept included."""
        return len(self.regression.design.columns) + 1

    @property
    def _running(self) -> tuple[int, ...]:
        """Positions of the outcomes of this round."""
        return tuple(
            position for position in range(len(self.regression.outcomes)) if position not in self.answers
        )

    def _interval(self, position: int) -> Interval:
        return self.intervals.get(position, (0.0, place(self.max_ratio, self.site_size)))

    def _inside(self, position: int, v: float) -> bool:
        """Return whether the maximum is not at an end that an earlier round drew."""
        low, high = self._interval(position)
        greatest = place(self.max_ratio, self.site_size)
        return (low < v or low == 0.0) and (v < high or high == greatest)

    @property
    def _log_bound(self) -> float:
        return max(1.0, log1p(self.max_ratio * self.site_size))

    def _block(self, position: int) -> str:
        return f"{self.name}/{self.regression.outcomes[position].name}/ratios"

    def _at_ratios(self, position: int, state: State) -> Floats:
        """Return [[A, c], [c', q]] (upper triangle) and the logarithm at every ratio, one after the other, flat."""
        group = min(position, len(state["people"]) - 1)
        n = float(state["people"][group, 0])
        columns = self._columns
        total = np.concatenate(([n], state["x"][group], state["y"][position : position + 1]))
        cross = np.empty((columns + 1, columns + 1))
        cross[0] = cross[:, 0] = total
        cross[1:columns, 1:columns] = symmetric(state["xx"][group].astype(np.float64), columns - 1)
        cross[1:columns, columns] = cross[columns, 1:columns] = state["xy"][position]
        cross[columns, columns] = state["yy"][position]
        upper = np.triu_indices(columns + 1)
        v = points(*self._interval(position), self.ratios)[:, np.newaxis]
        shrinking = v / (self.site_size * (1.0 - v) + n * v)
        sums = cross[upper] - shrinking * np.outer(total, total)[upper]
        logs = np.log(1.0 - v + n * v / self.site_size) if n else np.zeros_like(v)
        values: Floats = np.clip(np.hstack((sums, logs / self._log_bound)), -n, n)
        return values.ravel()

    def _judged(self, sums: Sums) -> "Mixed":
        """Return the round that follows: answers for what the grid resolved, an interval for every other outcome."""
        answers, kept = dict(self.answers), dict(self.kept)
        intervals: dict[int, Interval] = {}
        for position in self._running:
            people, sites, _ = self.regression.shared_blocks(self.regression.outcomes[position])
            opened = [sums.get(name) for name in (people, sites, self._block(position))]
            if opened[0] is None or opened[1] is None or opened[2] is None:
                answers[position] = Answer(Status.TOO_FEW_SITES)
                continue
            n, places = int(opened[0][0]), int(opened[1][0])
            values = np.ldexp(opened[2].astype(np.float64), -self.regression.fraction_bits)
            found = values.reshape(self.ratios, -1)
            crosses = np.array([symmetric(one[:-1], self._columns + 1) for one in found])
            if position not in kept:
                failure, kept[position] = _judge(n, places, crosses[0], self.regression.fraction_bits)
                if failure is not None:
                    answers[position] = Answer(failure, n)
                    continue
            chosen = [*kept[position], self._columns]
            at = points(*self._interval(position), self.ratios)
            profile = Profile(
                at,
                crosses[:, chosen][:, :, chosen],
                found[:, -1] * self._log_bound,
                places,
                n - len(chosen) + 1,
            )
            peak = profile.peak() if profile.resolved else None
            if peak is not None and self._inside(position, peak.v):
                answers[position] = Answer(Status.OK, n, kept[position], peak, places)
            else:
                intervals[position] = profile.around_best()
        return replace(self, answers=answers, kept=kept, intervals=intervals, rounds=self.rounds + 1)


def _triangle(size: int) -> int:
    return size * (size + 1) // 2


def _judge(n: int, sites: int, plain: Floats, fraction_bits: int) -> tuple[Status | None, tuple[int, ...]]:
    """Return why there is no model, or None, and the columns it keeps, from the plain products of the ratio 0."""
    if n == 0:
        return Status.ALL_MISSING, ()
    centred = plain[1:, 1:] - np.outer(plain[0, 1:], plain[0, 1:]) / n
    floor = 4.0 * (n * ROUNDING + sites * 2.0**-fraction_bits)
    fitted = fit(centred, range(len(centred) - 1), floor)
    kept = (0, *(sorted(column + 1 for column in fitted.kept)))
    if centred[-1, -1] <= floor:
        return Status.CONSTANT, kept
    if sites < 2 or n - len(kept) < 1 or fitted.exact:
        return Status.NOT_ESTIMABLE, kept
    return None, kept
