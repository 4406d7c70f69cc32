"""Conditions that every safe pattern meets, found by attacking a pattern that is not safe.

Let ``y`` be 1 for hidden cells. The attacker who maximises a small cell solves a linear program in which cell ``c`` lies between
``count - below * y`` and ``count + above * y``. By duality, multipliers ``u`` and ``l`` of its upper and lower ends bound what the
attacker can reach under *any* pattern::

    greatest(y) <= sum (u - l) count + sum (u above + l below) y

so where too little is reached, a safe pattern must satisfy ``sum (u above + l below) y >= needed - sum (u - l) count``. As ``y``
is 0 or 1, no coefficient has to exceed the right side; this also makes those finite whose end is not, because nothing bounds a
hidden count. The same sum over a maximising and a minimising attacker bounds the width.

Source: Fischetti and Salazar 2001, *Management Science* 47, 1008: "capacity constraints" and their strengthening.
"""

from dataclasses import dataclass

import numpy as np

from cohortsum.study.disclosure.rules import Rule
from cohortsum.study.disclosure.solver import SLACK, Floats, Mask, Matrix, minimise
from cohortsum.study.disclosure.tables import Membership, Tables

FAR = 1000.0
"""How many times what is needed a hidden count may grow where nothing bounds it; 1 for a cell that is hidden in part."""
FRACTIONS = 2520.0
"""Multipliers are fractions with small denominators; they are rounded to multiples of its inverse where these are as near as that."""
ELSEWHERE = (0.1, 0.01, 0.0)
"""Of many attacks that break a pattern alike, the one is taken that would also do best if all other cells were hidden to this part."""
CLEARLY = 1e-4
"""By how much a pattern misses a condition that is worth adding."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far an attacker gets: ``fixed`` plus the costs of the hidden cells, at most."""

    fixed: float
    costs: Floats


class Attacks:
    """The attackers of all small cells of some tables."""

    def __init__(self, tables: Tables, held: Membership, rule: Rule, always: Mask, may: Mask) -> None:
        """Prepare the attacks.

        Args:
            tables: with their differences.
            held: their membership.
            rule: what is small, and what is known.
            always: which cells every pattern hides.
            may: which others a pattern can hide.
        """
        self._held = held
        self._always, self._may = always, may
        self._printed = np.flatnonzero([cell.printed for cell in tables.cells])
        known = [rule.known(tables.cells[place]) for place in self._printed]
        self._counts = np.array([tables.cells[place].count for place in self._printed], np.float64)
        self._below = self._counts - [low for low, _ in known]
        self._above = np.array([np.inf if high is None else high for _, high in known]) - self._counts
        # unknowns of the dual: a multiplier of the upper and one of the lower end of every printed cell
        upper = held[self._printed].T
        self._multipliers = Matrix(np.hstack((upper, -upper)))

    def broken(self, pattern: Floats, place: int, highest: int, width: int) -> list[Floats]:
        """Return conditions ``coefficients @ y >= 1`` that a whole pattern does not meet, (cells,) float64 from 0 to 1.

        None of them is there if linear programming cannot tell that the small cell at ``place`` is not safe. The coefficients are
        all 0 if no pattern makes it safe.
        """
        for share in ELSEWHERE:
            attacked = np.maximum(pattern, share * self._may)
            up = self._reach(attacked, self._held[place], max(highest, width))
            down = self._reach(attacked, -self._held[place], max(highest, width))
            if up is None or down is None:
                return []
            found = (
                self._condition(up.costs, highest - up.fixed),
                self._condition(up.costs + down.costs, width - up.fixed - down.fixed),
            )
            missed = [one for one in found if one is not None and one @ pattern < 1.0 - CLEARLY]
            if missed:
                return missed
        return []

    def _reach(self, pattern: Floats, regions: Floats, needed: int) -> _Reach | None:
        """Return the greatest value of some regions; None where no printed count bounds it."""
        hidden = pattern[self._printed]
        most = np.minimum(self._above, needed * np.where(hidden < 1.0, 1.0, FAR))
        highest, lowest = self._counts + most * hidden, self._counts - self._below * hidden
        conditions = self._multipliers.between(regions, np.inf)
        found = minimise(np.concatenate((highest, -lowest)), (conditions,), 0.0, np.inf)
        if found is None:
            return None
        multipliers = np.round(FRACTIONS * found.point) / FRACTIONS
        if np.max(np.abs(multipliers - found.point)) > SLACK:
            multipliers = np.where(found.point > SLACK, found.point, 0.0)
        upper, lower = np.split(multipliers, 2)
        reached = upper > 0.0
        costs = lower * self._below
        costs[reached] += upper[reached] * self._above[reached]
        return _Reach(float((upper - lower) @ self._counts), costs)

    def _condition(self, costs: Floats, needed: float) -> Floats | None:
        """Return the condition that some costs reach what is needed; None where they do under every pattern."""
        coefficients = np.zeros(len(self._may))
        coefficients[self._printed] = costs
        needed -= float(coefficients[self._always].sum())
        if needed <= SLACK:
            return None
        return np.where(self._may, np.minimum(coefficients, needed) / needed, 0.0)
