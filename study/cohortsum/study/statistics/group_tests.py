"""Tests of means between the levels of a factor, for many outcomes at once.

What is opened is a summary of every outcome by the factor (`summary`): blocks and people sets are those. `comparisons`
finishes: t tests compare every two levels, the later one less the earlier, and the analysis of variance all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Cell, Status, Table
from cohortsum.study.statistics.comparisons import TEST_COLUMNS, Comparison, anova, student, welch, withheld
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums
from cohortsum.study.statistics.moments import Moments
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Factor, Number

TestName = Literal["student", "welch", "anova"]


@dataclass(frozen=True, slots=True)
class GroupTests(Statistic):
    """Student's and Welch's t test and one-way analysis of variance.

    Attributes:
        name: name of the analysis.
        outcomes: whose means are compared, each for itself.
        factor: whose levels are the groups.
        tests: which tests, in order.
        fraction_bits: grid of the sums.
        where: the subgroup, or everybody.
    """

    name: str
    outcomes: tuple[Number, ...]
    factor: Factor
    tests: tuple[TestName, ...]
    fraction_bits: int
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of a summary by the factor."""
        return self._summary.layout()

    def accumulate(self, batch: Batch) -> State:
        """Return the state of a summary by the factor."""
        return self._summary.accumulate(batch)

    def members(self, batch: Batch) -> Members:
        """Return who has a value and who has none, by level."""
        return self._summary.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block."""
        return self._summary.contribute(state)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per outcome, test and comparison."""
        rows: list[tuple[Cell, ...]] = []
        for outcome in self.outcomes:
            groups = [self._summary.opened(sums, outcome, (level,)) for level in self.factor.levels]
            for test in self.tests:
                rows += [
                    (outcome.name, test, comparison, *made.cells)
                    for comparison, made in self._made(test, groups)
                ]
        notes = (f"People without a value of {self.factor.name} are in no test.",)
        return (Table(self.name, "test", TEST_COLUMNS, tuple(rows), notes),)

    def _made(self, test: TestName, groups: list[Moments | None]) -> Iterator[tuple[str, Comparison]]:
        """Yield what is compared, and its test."""
        if test == "anova":
            yield self.factor.name, _tested(test, groups)
            return
        names = [self.factor.level_name(level) for level in self.factor.levels]
        for (name, group), (other_name, other) in combinations(zip(names, groups, strict=True), 2):
            yield f"{other_name} - {name}", _tested(test, [group, other])

    @property
    def _summary(self) -> Summary:
        return Summary(self.name, self.outcomes, (self.factor,), self.fraction_bits, self.where)


def _tested(test: TestName, groups: list[Moments | None]) -> Comparison:
    """Return one test over groups; None is a group with too few suppliers, without which there is none."""
    held = [group for group in groups if group is not None]
    if len(held) < len(groups):
        return withheld(Status.TOO_FEW_SITES, Absent(Status.TOO_FEW_SITES))
    match test:
        case "student":
            return student(*held)
        case "welch":
            return welch(*held)
        case "anova":
            return anova(held)
