"""The list of comparisons. A module per data set adds its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.truths.running import DataSet, Finished, play
from tests.truths.tally import Tally

LINEAR = 1e-6
ITERATIVE = 1e-6
MIXED = 1e-5
WITHIN_BOUND = 1.0
"""For what is read off a public grid: the error is divided by the bound that stands beside the value."""

Compare = Callable[[Finished, Tally], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of number against another library.

    Attributes:
        kind: of the analysis.
        statistic: what is compared.
        data: the data set.
        analysis: its name in the study, or several names.
        reference: key of the recorded truth, or the function of another library that sees all rows together.
        tolerance: the largest error that passes.
        compare: adds every number to a tally.
    """

    kind: str
    statistic: str
    data: DataSet
    analysis: str
    reference: str
    tolerance: float
    compare: Compare

    def error(self, run: Finished) -> Tally:
        """Return the largest error over all numbers of this comparison, of which there is at least one."""
        tally = Tally()
        self.compare(run, tally)
        if tally.count == 0:
            raise ValueError(f"{self.statistic}: nothing was compared")
        return tally

    def cost(self, run: Finished) -> tuple[int, int]:
        """Return rounds, and numbers from each site over all of them."""
        costs = [run.costs[name] for name in self.analysis.split()]
        return max(cost.rounds for cost in costs), sum(cost.numbers for cost in costs)

    def __str__(self) -> str:
        return f"{self.data.name}-{self.compare.__name__}"


COMPARISONS: list[Comparison] = []


def compared(
    data: DataSet, kind: str, analysis: str, statistic: str, reference: str, tolerance: float = LINEAR
) -> Callable[[Compare], Compare]:
    """Add the decorated function to the list."""

    def add(compare: Compare) -> Compare:
        COMPARISONS.append(Comparison(kind, statistic, data, analysis, reference, tolerance, compare))
        return compare

    return add


class Runs:
    """Every data set is played once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._done: dict[str, Finished] = {}

    def __getitem__(self, data: DataSet) -> Finished:
        if data.name not in self._done:
            place = self._folder / data.name
            place.mkdir()
            self._done[data.name] = play(data, place)
        return self._done[data.name]

    @property
    def done(self) -> Mapping[str, Finished]:
        """What has been played."""
        return self._done
