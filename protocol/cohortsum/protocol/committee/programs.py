"""What a committee may be asked to compute: three programs over sums that nobody sees.

Every site brings one vector of whole numbers per program, each in [0, ``most``]; the members hold shares of the sums over sites. A
program opens exactly what its docstring says. Its answer is a vector of whole numbers whose length is public; `SUPPRESSED` stands
where a number is not opened.

- `Threshold` opens one bit: whether the people of all sites together are at least ``least``.
- `OpenCounts` opens the counts that may be seen, and of the others only that they may not.
- `OrderStatistics` opens where given ranks lie on a public grid of levels. A rank belongs to a number of people, so n is public here:
  it comes from a count that was opened before, or from a masked round with its gate, and the members open one bit, whether their
  shares hold as many. Keeping n on shares would hide nothing: a table with a percentile prints its n, and the weight between two ranks tells n modulo 20 anyway.

Grid: levels are numbered from 0; what a level means (unit, step, lowest value) is the study's. Few levels are searched at once. Many
are searched in stages: a stage cuts the bracket of every rank into at most ``width`` intervals, and `OrderStatistics.narrowed` makes
the next stage from what was found, which is a run of its own with vectors of its own.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from cohortsum.crypto.encoding import digest, encode, number
from cohortsum.crypto.errors import ConfigurationError

PROGRAM = "cohortsum/v1/committee/program"
SUPPRESSED = -1
SUM_BITS = 40
"""Sums over all sites stay below 2**40, which the committee's field is proven for (`plan`)."""
LONGEST = 4096
"""Numbers of one program at one site: what is computed on shares is small."""
WIDTH = 64

Interval = tuple[int, int]
"""Levels from the first up to, and without, the second."""


class Complement(StrEnum):
    """What keeps a small cell from being computed as a total minus its other parts (`pattern`)."""

    TOTALS = "totals"
    """A total is opened only if each of its parts is: all that is opened follows from the answer."""
    COMPANY = "company"
    """No totals. A small number is never the only one that is suppressed: the first large one is with it, if there is one."""
    CELLS = "cells"
    """Totals are opened where they can be, and further cells suppressed by the pattern, which members see."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One bit: whether the sites' people together are at least ``least``.

    The vector of a site is one number, its people. The answer is one number, 1 or 0.

    Attributes:
        name: unique in the plan.
        least: of people, at least 1.
        most: greatest number of people of one site.
    """

    name: str
    least: int
    most: int

    def __post_init__(self) -> None:
        """Refuse numbers for which the bit would not be right."""
        _check_bounds(self.name, self.most)
        _check(self.name, self.least >= 1, "least must be 1 or more")

    @property
    def length(self) -> int:
        """How many numbers a site brings."""
        return 1

    @property
    def answers(self) -> int:
        """How many numbers are answered."""
        return 1

    @property
    def digest(self) -> bytes:
        """SHA-256 over everything that the members must see alike."""
        return digest(PROGRAM, b"threshold", self.name.encode(), number(self.least), number(self.most))


@dataclass(frozen=True, slots=True)
class OpenCounts:
    """Counts of cells, and totals of them, each opened only where it may be seen.

    A number is *small* if it is less than ``least``; a zero is not, where the study lets zeros be seen. Of a small number the answer
    is `SUPPRESSED` and nothing else is opened but that it is small. Totals are sums of parts; they are added on shares, sites do not
    bring them.

    With `Complement.TOTALS` whoever knows the answer can write down every bit that is opened: a number of ``least`` or more was
    large, a 0 zero, and a suppressed cell small. With the other two large numbers may be suppressed too, and the members (not
    the coordinator, nor other sites) learn which of the suppressed ones are small.

    The vector of a site holds one count per cell. The answer holds cells, then totals.

    Attributes:
        name: unique in the plan.
        cells: how many.
        least: the least count that may be seen, at least 2.
        most: greatest count of one cell at one site.
        zeros: whether a sum of 0 is shown as 0.
        totals: parts of every total, as places; a part may be an earlier total (cells + its place).
        complement: what keeps small numbers from being computed.
    """

    name: str
    cells: int
    least: int
    most: int
    zeros: bool = False
    totals: tuple[tuple[int, ...], ...] = ()
    complement: Complement = Complement.TOTALS

    def __post_init__(self) -> None:
        """Refuse tables that are empty, too long, or whose totals are no sums of distinct earlier numbers."""
        _check_bounds(self.name, self.most)
        _check(self.name, self.cells >= 1 and self.answers <= LONGEST, f"expected 1 to {LONGEST} numbers")
        _check(self.name, self.least >= 2, "least must be 2 or more: with 1 nothing is small")
        for place, parts in enumerate(self.totals, start=self.cells):
            known = all(0 <= part < place for part in parts)
            _check(
                self.name,
                known and len(set(parts)) == len(parts) >= 2,
                "a total needs two or more parts before it",
            )
        alone = self.complement is not Complement.COMPANY or not self.totals
        _check(self.name, alone, "numbers that keep each other company have no totals")
        counted = [1] * self.cells
        for parts in self.totals:
            counted.append(sum(counted[part] for part in parts))
        _check(self.name, max(counted) <= LONGEST, "a total must not count a cell again and again")

    @property
    def length(self) -> int:
        """How many numbers a site brings."""
        return self.cells

    @property
    def answers(self) -> int:
        """How many numbers are answered: cells, then totals."""
        return self.cells + len(self.totals)

    @property
    def cells_of_totals(self) -> tuple[tuple[int, ...], ...]:
        """Return, per total, the cells it adds up; a cell that two of its parts hold stands there twice."""
        known: list[tuple[int, ...]] = [(cell,) for cell in range(self.cells)]
        for parts in self.totals:
            known.append(tuple(cell for part in parts for cell in known[part]))
        return tuple(known[self.cells :])

    @property
    def digest(self) -> bytes:
        """SHA-256 over everything that the members must see alike."""
        numbers = (self.cells, self.least, self.most, int(self.zeros))
        totals = encode(*(encode(*(number(part) for part in parts)) for parts in self.totals))
        described = (
            self.name.encode(),
            *(number(value) for value in numbers),
            totals,
            self.complement.encode(),
        )
        return digest(PROGRAM, b"open counts", *described)


@dataclass(frozen=True, slots=True)
class OrderStatistics:
    """The levels at which given ranks lie, as the intervals of one stage.

    The vector of a site says how many of its people lie in each of `intervals`. The answer is 1 (the shares hold ``people`` people),
    then, per rank, the place of the interval that holds it; or 0 and `SUPPRESSED` for every rank, and the members know whether there were
    fewer or more people. With every interval one level long
    (``exact``) these are the order statistics.

    **Nothing else is opened.** The search asks for cuts u whether at least r people lie below u. With the answer v, the level of
    rank r, that is so exactly if v < u: the bit follows from the answer, whichever cut is asked. All bits of a search are therefore a
    function of what is opened in the end, and whoever knows the answer can write them down himself. The same holds for stages: the
    interval of an early stage is the one that holds the final level.

    Attributes:
        name: unique in the plan.
        levels: of the grid.
        people: n over all sites, public.
        ranks: from 1 (the minimum) to n (the maximum), ascending.
        brackets: per rank, the interval that holds it; empty in the first stage, where it is the whole grid.
        width: most intervals that one bracket is cut into.
        intervals: the partition of the grid in this stage, in ascending order; made from what is above.
    """

    name: str
    levels: int
    people: int
    ranks: tuple[int, ...]
    brackets: tuple[Interval, ...] = ()
    width: int = WIDTH
    intervals: tuple[Interval, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse ranks that n people do not have, and make the partition."""
        _check_bounds(self.name, self.people)
        distinct = tuple(sorted(set(self.ranks)))
        _check(self.name, self.ranks == distinct and bool(distinct), "ranks must be ascending and distinct")
        _check(
            self.name,
            distinct[0] >= 1 and distinct[-1] <= self.people,
            "ranks go from 1 to the number of people",
        )
        _check(
            self.name,
            1 <= self.levels < 2**SUM_BITS and self.width >= 2,
            "a grid needs levels, a stage 2 intervals",
        )
        brackets = self.brackets or ((0, self.levels),) * len(self.ranks)
        sound = all(0 <= low < high <= self.levels for low, high in brackets)
        _check(
            self.name, sound and len(brackets) == len(self.ranks), "every rank needs its bracket of levels"
        )
        apart = all(first == second or first[1] <= second[0] for first, second in pairwise(brackets))
        _check(self.name, apart, "brackets must ascend with the ranks and not overlap")
        object.__setattr__(self, "brackets", brackets)
        cuts = {0, self.levels}
        for low, high in set(brackets):
            parts = min(self.width, high - low)
            cuts |= {low + (high - low) * part // parts for part in range(parts + 1)}
        object.__setattr__(self, "intervals", tuple(pairwise(sorted(cuts))))
        _check(self.name, self.length <= LONGEST, f"more than {LONGEST} intervals; ask for fewer ranks")

    @property
    def most(self) -> int:
        """Greatest number of people of one site in an interval."""
        return self.people

    @property
    def length(self) -> int:
        """How many numbers a site brings."""
        return len(self.intervals)

    @property
    def answers(self) -> int:
        """How many numbers are answered: whether n is right, then one per rank."""
        return 1 + len(self.ranks)

    @property
    def exact(self) -> bool:
        """Whether this stage finds single levels."""
        return all(high - low <= self.width for low, high in self.brackets)

    def vector(self, levels: Iterable[int]) -> tuple[int, ...]:
        """Return what a site brings, from the levels of its people; raises ConfigurationError for a level outside the grid."""
        starts = [low for low, _ in self.intervals]
        counts = [0] * self.length
        for level in levels:
            _check(self.name, 0 <= level < self.levels, "a level outside the grid")
            counts[bisect_right(starts, level) - 1] += 1
        return tuple(counts)

    def found(self, answer: Sequence[int]) -> tuple[Interval, ...] | None:
        """Return, per rank, the interval that an answer names; None where the shares hold other than ``people`` people.

        Raises:
            ConfigurationError: the answer names an interval outside a rank's bracket.
        """
        if answer[0] != 1:
            return None
        _check(self.name, all(0 <= place < self.length for place in answer[1:]), "an answer outside the grid")
        found = tuple(self.intervals[place] for place in answer[1:])
        inside = all(
            low <= at and to <= high for (at, to), (low, high) in zip(found, self.brackets, strict=True)
        )
        _check(self.name, inside, "an answer outside its bracket")
        return found

    def narrowed(self, found: tuple[Interval, ...]) -> "OrderStatistics | None":
        """Return the next stage, or None where every rank has its level."""
        if all(high - low == 1 for low, high in found):
            return None
        return OrderStatistics(self.name, self.levels, self.people, self.ranks, found, self.width)

    @property
    def digest(self) -> bytes:
        """SHA-256 over everything that the members must see alike."""
        brackets = encode(*(number(low) + number(high) for low, high in self.brackets))
        ranks = encode(*(number(rank) for rank in self.ranks))
        numbers = (number(self.levels), number(self.people), number(self.width))
        return digest(PROGRAM, b"order statistics", self.name.encode(), *numbers, ranks, brackets)


Program = Threshold | OpenCounts | OrderStatistics


def _check(name: str, holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigurationError(f"committee program {name}: {otherwise}")


def _check_bounds(name: str, most: int) -> None:
    _check(
        name,
        bool(name) and 1 <= most < 2**SUM_BITS,
        f"a name, and a bound from 1 to 2**{SUM_BITS}, are needed",
    )
