"""Which cells to hide: those that are small, and the cheapest others that keep them from being computed.

What is lost is the sum of the counts that are hidden without being small; among patterns that lose as little, the one with fewest
cells is taken, then the one whose cells come first (least sum of places). The search is exact. A whole-number program over the cells
knows some conditions of safe patterns and proposes the cheapest pattern that meets them; the verifier (`audit`) attacks every small
cell under it; each attack that succeeds gives another condition (`cuts`). The first cheapest proposal that stands is optimal. Two
things make it fast: proposals may first cost a tenth too much, because most of them fail and teach as much; and no pattern hides a
cell that its line gives away ("bridgeless inequalities").

The verifier knows that people are whole, the conditions do not. Where only that gives a cell away, the condition is that one of the
cells that are not hidden must be: hiding less never protects more.

An exact search can be long where tables of three ways leave many patterns of nearly the same cost. It therefore ends after a number
of proposals with a pattern that is safe, and perhaps not the cheapest; ``at_least`` says how cheap one could be.

Source: Fischetti and Salazar 2001, *Management Science* 47, 1008; costs and conditions of small cells are ours (`rules`).
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.disclosure.audit import Audit, Verifier
from cohortsum.study.disclosure.cuts import CLEARLY, Attacks
from cohortsum.study.disclosure.rules import DEFAULT, Rule
from cohortsum.study.disclosure.solver import SLACK, Floats, Mask, Matrix, Optimum, Rows, minimise
from cohortsum.study.disclosure.tables import Standing, Tables

PROPOSALS = 60
"""Patterns that are proposed and attacked before a search ends without a proof."""
GAPS = (0.1, 0.0)
"""A pattern may first cost a tenth too much: most proposals fail, and the cheapest is not needed to learn why."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """A safe pattern.

    Attributes:
        primary: names of the cells that are hidden because they are small, in the order of the tables.
        secondary: names of those hidden to protect them.
        cost: people in the secondary cells.
        at_least: no safe pattern costs less; equal to ``cost`` where the search was finished.
    """

    primary: tuple[str, ...]
    secondary: tuple[str, ...]
    cost: int
    at_least: int

    @property
    def hidden(self) -> tuple[str, ...]:
        """Return the names of all cells that are hidden now."""
        return (*self.primary, *self.secondary)


@dataclass(frozen=True, slots=True)
class Held:
    """No pattern is safe, because of what is public already: these tables may not be printed at all.

    Attributes:
        audit: what would be known if everything were hidden that can be.
    """

    audit: Audit


def suppress(tables: Tables, rule: Rule = DEFAULT, proposals: int = PROPOSALS) -> Suppression | Held:
    """Return the cheapest safe pattern, or what stands against every pattern.

    The verifier has attacked what is returned; `audit_pattern` says what is still known of each hidden cell.
    Cells that are withheld already cost nothing, so that a pattern can be completed: ``tables.withholding(pattern)``.
    """
    return _Search(tables, rule, proposals).result()


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The cheapest pattern under what is known so far.

    Attributes:
        pattern: 1 for hidden cells, (cells,) float64.
        bound: no pattern costs less.
        stands: whether no attack succeeds.
    """

    pattern: Floats
    bound: float
    stands: bool


class _Search:
    """Cells by their place: some are ``always`` hidden, some ``may`` be, all others are printed."""

    def __init__(self, tables: Tables, rule: Rule, proposals: int) -> None:
        self._verifier, self._left = Verifier(tables, rule), proposals
        cells = self._verifier.tables.cells
        self._cells, self._counts = cells, np.array([cell.count for cell in cells], np.float64)
        self._asked = np.array([cell.standing is Standing.ASKED for cell in cells])
        self._small = np.array([rule.small(cell) for cell in cells])
        public = np.array([cell.standing is Standing.PUBLIC for cell in cells])
        self._always = (self._asked & self._small) | ~(self._asked | public)
        self._may = self._asked & ~self._small & (self._counts > 0.0)
        self._attacks = Attacks(self._verifier.tables, self._verifier.held, rule, self._always, self._may)
        self._conditions: list[Floats] = []
        self._bridgeless = self._demands_of_lines()

    def result(self) -> Suppression | Held:
        """Return the cheapest pattern that stands, and what one costs at least.

        A search that has gone on for too long ends with a pattern that stands and is not the cheapest.
        """
        if not self._verifier.guarded:
            return Suppression((), (), 0, 0)
        at_least, stands = 0, None
        for gap in GAPS:
            found = self._propose(self._counts, gap)
            if found is None:
                return self._held()
            at_least = max(at_least, ceil(found.bound - SLACK))
            if not found.stands:
                repaired = self._repaired(found.pattern if stands is None else stands)
                return self._held() if repaired is None else self._suppression(repaired, at_least)
            stands = found.pattern
            if at_least >= self._cost(stands):
                break
        return self._held() if stands is None else self._suppression(self._tied(stands), at_least)

    def _tied(self, pattern: Floats) -> Floats:
        """Return a pattern of the same cost with fewest cells, and of these the one whose cells come first."""
        # no sum of places reaches the price of a cell
        places = np.arange(len(self._counts), dtype=np.float64)
        tied = self._propose(len(places) ** 2 + places, 0.0, self._cost(pattern))
        return tied.pattern if tied is not None and tied.stands else pattern

    def _propose(self, weights: Floats, gap: float, most: int | None = None) -> _Proposal | None:
        """Return the pattern of least weight that costs at most so much and stands, or the last one that was tried."""
        while True:
            found = self._solve(weights, gap, most)
            if found is None:
                return None
            self._left -= 1
            pattern = np.round(found.point)
            broken = self._broken(pattern)
            if not broken or self._left <= 0:
                return _Proposal(pattern, found.bound, not broken)
            self._conditions.extend(broken)

    def _solve(self, weights: Floats, gap: float, most: int | None) -> Optimum | None:
        rows = [*self._bridgeless]
        if self._conditions:
            rows.append(Matrix(np.array(self._conditions)).between(1.0 - SLACK, np.inf))
        if most is not None:
            rows.append(Matrix(np.where(self._may, self._counts, 0.0)[np.newaxis]).between(0.0, most + 0.5))
        costs = np.where(self._may, weights, 0.0)
        least, greatest = self._always.astype(float), (self._always | self._may).astype(float)
        return minimise(costs, rows, least, greatest, True, gap)

    def _broken(self, pattern: Floats) -> list[Floats]:
        """Return conditions that a pattern does not meet; none if it is safe."""
        unsafe = self._verifier.unsafe(pattern > 0.0)
        found = [condition for target in unsafe for condition in self._attacks.broken(pattern, *target)]
        if unsafe and not found:
            # only whole counts give it away: whatever hides no other cell is not safe either
            return [np.where(self._may & (pattern < 1.0), 1.0, 0.0)]
        return found

    def _repaired(self, pattern: Floats) -> Floats | None:
        """Return a safe pattern near one: the cheapest cure of each attack is hidden, then what is not needed printed.

        None if there is no cure.
        """
        pattern = pattern.copy()
        while broken := self._broken(pattern):
            for condition in broken:
                if condition @ pattern > 1.0 - CLEARLY:
                    continue  # what was hidden for another attack stops this one
                cures = (condition > 0.0) & (pattern < 1.0)
                if not cures.any():
                    return None
                prices = np.where(cures, self._counts / np.where(cures, condition, 1.0), np.inf)
                pattern[np.argmin(prices)] = 1.0
        for place in np.argsort(-self._counts, kind="stable"):
            if self._may[place] and pattern[place]:
                pattern[place] = 0.0
                if self._verifier.unsafe(pattern > 0.0):
                    pattern[place] = 1.0
        return pattern

    def _demands_of_lines(self) -> list[Rows]:
        """Return what lines demand: that nobody hides a single cell of one, and a small one not alone."""
        demands: list[Floats] = []
        least: list[float] = []
        for line in self._verifier.tables.lines:
            places = self._verifier.tables.places(line)
            for place in places:
                if self._may[place] or (self._asked[place] and self._small[place]):
                    demand = np.zeros(len(self._cells))
                    demand[places] = 1.0
                    demand[place] = -1.0 if self._may[place] else 0.0
                    demands.append(demand)
                    least.append(0.0 if self._may[place] else 1.0)
        return [Matrix(np.array(demands)).between(np.array(least), np.inf)] if demands else []

    def _cost(self, pattern: Floats) -> int:
        return round(float(self._counts[self._may] @ pattern[self._may]))

    def _names(self, chosen: Mask) -> tuple[str, ...]:
        return tuple(
            name
            for cell, here in zip(self._cells, chosen & self._asked, strict=True)
            if here
            for name in (cell.name, *cell.also)
        )

    def _suppression(self, pattern: Floats, at_least: int) -> Suppression:
        hidden, cost = pattern > 0.0, self._cost(pattern)
        primary, secondary = self._names(hidden & self._small), self._names(hidden & self._may)
        return Suppression(primary, secondary, cost, min(at_least, cost))

    def _held(self) -> Held:
        audit = self._verifier.audit(self._always | self._may)
        if not audit.flagged:
            raise RefusedError(
                "no pattern was found, yet hiding every cell is safe; print fewer tables together"
            )
        return Held(audit)
