"""The verifier: what anybody can learn about every hidden count, whatever chose the pattern.

Attacks are solved and not estimated: the unknowns are the people of every region (`tables`), the conditions are the printed counts
and what the rule says an attacker knows (`rules`), and each hidden cell is minimised and maximised. The unknowns are whole, so
that the interval is exact: linear programming alone would find a wider one where margins of three ways leave no whole table at
its end. The formulation shares nothing with the cuts by which a pattern is searched (`cuts`) except the list of cells.

Source: Fischetti and Salazar 2001, *Management Science* 47, 1008, "attacker subproblem"; whole unknowns are ours.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from cohortsum.study.disclosure.rules import DEFAULT, Knowledge, Rule
from cohortsum.study.disclosure.solver import SLACK, Floats, Mask, Matrix, Rows, minimise
from cohortsum.study.disclosure.tables import Cell, Standing, Tables, with_differences

BEYOND = 1000
"""A region that could hold as many times the greatest count is not bounded by anything printed."""


class Problem(StrEnum):
    """What is wrong with a small cell, worst first."""

    SHOWN = "printed"
    EXACT = "known exactly"
    PROVEN = "known to be below the threshold"
    NARROW = "known too closely"


@dataclass(frozen=True, slots=True)
class Interval:
    """The least and the greatest count that fit; ``high`` is None where nothing printed bounds it."""

    low: int
    high: int | None

    def __str__(self) -> str:
        return f"[{self.low},{'...' if self.high is None else self.high}]"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one hidden cell, or of a small one that is not hidden.

    Attributes:
        cell: the set of people.
        sums: what fits the printed counts.
        known: what fits them and the rule's further knowledge.
        problem: why a small cell is not safe; None for any other.
    """

    cell: Cell
    sums: Interval
    known: Interval
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class Audit:
    """What is known of every hidden cell, and of the small sets that nobody prints."""

    findings: tuple[Finding, ...]

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """Return the small cells that are not safe."""
        return tuple(finding for finding in self.findings if finding.problem is not None)

    def of(self, name: str) -> Finding:
        """Return the finding of a cell, by its first or another name."""
        (found,) = (one for one in self.findings if name in (one.cell.name, *one.cell.also))
        return found


def audit_pattern(tables: Tables, hidden: Collection[str], rule: Rule = DEFAULT) -> Audit:
    """Return what the printed counts and the rule give away when these cells are hidden.

    Cells that are withheld are hidden as well, whether named or not; small differences of printed sets are looked at as well.

    Raises:
        ValueError: a cell is public and cannot be hidden, or the counts contradict each other.
    """
    verifier = Verifier(tables, rule)
    for place in tables.places(hidden):
        if tables.cells[place].standing is Standing.PUBLIC:
            raise ValueError(f"{tables.cells[place].name} is public; hiding it now hides nothing")
    named = np.zeros(len(verifier.tables.cells), np.bool_)
    named[tables.places(hidden)] = True
    return verifier.audit(named)


class Verifier:
    """Attacks patterns of some tables.

    Attributes:
        tables: with their differences; a pattern is true where a cell of them is hidden, (cells,) bool.
        held: their membership.
        guarded: places of the cells that must be safe.
        needed: of each of these, how great it must be possible to be, and how wide its range.
    """

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self.tables = with_differences(tables, rule.threshold)
        self.held = self.tables.membership()
        self._rule = rule
        cells = self.tables.cells
        self._gone = np.array([cell.standing in (Standing.WITHHELD, Standing.UNASKED) for cell in cells])
        self._printed = [place for place, cell in enumerate(cells) if cell.printed]
        self._matrix = Matrix(self.held[self._printed])
        self._beyond = BEYOND * (1.0 + max(cell.count for cell in cells))
        self.guarded = [place for place, cell in enumerate(cells) if rule.guards(cell)]
        self.needed = [rule.needed(*self._told(place)) for place in self.guarded]

    def _told(self, place: int) -> tuple[int, int | None]:
        """Return which counts of a small cell the marks of cells alone allow; empty cells are printed, whatever the pattern."""
        if self._rule.knowledge is not Knowledge.MARKS:
            return 0, None
        covered = np.array([cell.count >= self._rule.least for cell in self.tables.cells])
        told = self._interval(self._seen(covered, self._rule), self.held[place])
        return told.low, told.high

    def audit(self, pattern: Mask) -> Audit:
        """Return what is known of every hidden cell, and of every small one."""
        covered = pattern | self._gone
        sums = self._seen(covered, replace(self._rule, knowledge=Knowledge.SUMS))
        known = self._seen(covered, self._rule)
        needed = dict(zip(self.guarded, self.needed, strict=True))
        findings: list[Finding] = []
        for place, cell in enumerate(self.tables.cells):
            if place in needed and not covered[place]:
                exactly = Interval(cell.count, cell.count)
                findings.append(Finding(cell, exactly, exactly, Problem.SHOWN))
            elif place in needed or (covered[place] and cell.printed):
                fits = self._interval(known, self.held[place])
                problem = _problem(fits, *needed[place]) if place in needed else None
                findings.append(Finding(cell, self._interval(sums, self.held[place]), fits, problem))
        return Audit(tuple(findings))

    def unsafe(self, pattern: Mask) -> list[tuple[int, int, int]]:
        """Return place and needs of the small cells that are not safe; quicker than an audit.

        A whole table that fits, found in the attack on one cell, shows how far others can be from their counts as well.
        """
        covered = pattern | self._gone
        known = self._seen(covered, self._rule)
        low = np.array([self.tables.cells[place].count for place in self.guarded], np.float64)
        high = low.copy()
        regions = self.held[self.guarded]
        found: list[tuple[int, int, int]] = []
        for number, (place, (highest, width)) in enumerate(zip(self.guarded, self.needed, strict=True)):
            for sign in (-1.0, 1.0):
                if high[number] < highest or high[number] - low[number] < width:
                    reached = np.round(regions @ self._fitting(known, sign * regions[number]))
                    low, high = np.minimum(low, reached), np.maximum(high, reached)
            if not covered[place] or high[number] < highest or high[number] - low[number] < width:
                found.append((place, highest, width))
        return found

    def _seen(self, covered: Mask, rule: Rule) -> Rows:
        """Return what an attacker knows who sees the cells that are not covered, and what the rule says of the others."""
        cells = self.tables.cells
        ends = [
            rule.known(cells[place]) if covered[place] else (cells[place].count,) * 2
            for place in self._printed
        ]
        lowest = np.array([low for low, _ in ends], np.float64)
        highest = np.array([np.inf if high is None else high for _, high in ends], np.float64)
        return self._matrix.between(lowest, highest)

    def _interval(self, known: Rows, regions: Floats) -> Interval:
        """Return the least and the greatest number of people in some regions."""
        low, high = (round(float(regions @ self._fitting(known, sign * regions))) for sign in (1.0, -1.0))
        return Interval(low, None if high > self._beyond / 2 else high)

    def _fitting(self, known: Rows, costs: Floats) -> Floats:
        """Return the whole table of least cost that fits; the quick search suffices where it ends at one.

        Where a search is cut short, a table that fits is returned all the same: an interval is then too narrow, never too wide.
        """
        for whole in (False, True):
            found = minimise(costs, (known,), 0.0, self._beyond, whole)
            if found is None:
                raise ValueError("the counts contradict each other, or what the rule says of hidden ones")
            table = np.round(found.point)
            if whole or np.max(np.abs(table - found.point)) < SLACK:
                return table
        raise AssertionError("unreachable")


def _problem(known: Interval, highest: int, width: int) -> Problem | None:
    if known.low == known.high and width:
        return Problem.EXACT
    if known.high is None:
        return None
    if known.high < highest:
        return Problem.PROVEN
    return Problem.NARROW if known.high - known.low < width else None
