"""How the programs are computed from two operations on shares: compare with public bounds, and open.

`Arithmetic` is what computes on shares; the node's worker gives one over MPyC, tests give one over plain numbers. Sums and differences
of shares are taken here, by every member on its own. Everything that is opened is opened by these two operations, so this module is
the whole of what a run reveals; each program says in `programs` why that is no more than its answer.

All members make the same calls in the same order, because everything they branch on has been opened.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from cohortsum.protocol.committee.pattern import Size, closed
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.committee.programs import (
    SUPPRESSED,
    Complement,
    OpenCounts,
    OrderStatistics,
    Threshold,
)

PROBES = 3
"""Cuts of a bracket that are asked about at once: three quarter it, which halves the number of exchanges."""


class Arithmetic(Protocol):
    """What the members can do with shares together. Shares are integers; sums of shares are shares of sums."""

    async def at_least(self, shares: Sequence[int], bounds: Sequence[int], greatest: int) -> list[bool]:
        """Open, per share, whether its value is ``bound`` or more, and nothing else.

        Args:
            shares: of values from 0 to ``greatest``.
            bounds: one per share, from 1 to ``greatest``.
            greatest: public.
        """
        ...

    async def reveal(self, shares: Sequence[int]) -> list[int]:
        """Open the values."""
        ...


async def evaluate(plan: CommitteePlan, shares: Sequence[int], arithmetic: Arithmetic) -> tuple[Answer, ...]:
    """Return the answers of all programs, from this member's shares of the sums over sites.

    Args:
        plan: what is computed.
        shares: one per number of the plan.
        arithmetic: how this member computes with the others.
    """
    answers: list[Answer] = []
    for program, own in zip(plan.programs, plan.cut(shares), strict=True):
        sites = len(plan.dealers)
        if isinstance(program, Threshold):
            answers.append(await _threshold(program, own, sites, arithmetic))
        elif isinstance(program, OpenCounts):
            answers.append(await _open_counts(program, own, sites, arithmetic))
        else:
            answers.append(await _order_statistics(program, own, sites, arithmetic))
    return tuple(answers)


async def _threshold(program: Threshold, own: Sequence[int], sites: int, arithmetic: Arithmetic) -> Answer:
    enough = await _at_least(arithmetic, own, [program.least], sites * program.most)
    return (int(enough[0]),)


async def _open_counts(program: OpenCounts, own: Sequence[int], sites: int, arithmetic: Arithmetic) -> Answer:
    """Open the pattern, decide in the open what it leaves to be seen, open that.

    Totals that are opened only with all their parts need no bit of their own, and get none: it would tell of two small parts
    whether they are small together.
    """
    cells = program.cells_of_totals
    totals = [sum(own[cell] for cell in total) for total in cells]
    if program.complement is Complement.TOTALS:
        sizes = await _sizes(program, own, sites * program.most, arithmetic)
        values = await _revealed(own, sizes, frozenset(), arithmetic)
        known = [all(values[cell] != SUPPRESSED for cell in total) for total in cells]
        sums = [sum(values[cell] for cell in total) for total in cells]
        return (
            *values,
            *(value if all_known else SUPPRESSED for value, all_known in zip(sums, known, strict=True)),
        )
    numbers = [*own, *totals]
    greatest = sites * program.most * max(len(total) for total in (*cells, (0,)))
    sizes = await _sizes(program, numbers, greatest, arithmetic)
    return tuple(await _revealed(numbers, sizes, closed(program, sizes), arithmetic))


async def _sizes(
    program: OpenCounts, numbers: Sequence[int], greatest: int, arithmetic: Arithmetic
) -> list[Size]:
    """Open of every number whether it is small, large or, where zeros may be seen, zero."""
    twice = 2 if program.zeros else 1
    bounds = [program.least] * len(numbers) + [1] * (len(numbers) * (twice - 1))
    bits = await _at_least(arithmetic, [*numbers] * twice, bounds, greatest)
    there = bits[len(numbers) :] or [True] * len(numbers)
    return [
        Size.LARGE if reaches else Size.SMALL if some else Size.ZERO
        for reaches, some in zip(bits[: len(numbers)], there, strict=True)
    ]


async def _revealed(
    numbers: Sequence[int], sizes: Sequence[Size], hidden: frozenset[int], arithmetic: Arithmetic
) -> list[int]:
    """Open the large numbers that are not hidden; zeros are known, all else is suppressed."""
    shown = [place for place, size in enumerate(sizes) if size is Size.LARGE and place not in hidden]
    opened = dict(zip(shown, await arithmetic.reveal([numbers[place] for place in shown]), strict=True))
    zeros = {place: 0 for place, size in enumerate(sizes) if size is Size.ZERO and place not in hidden}
    return [(opened | zeros).get(place, SUPPRESSED) for place in range(len(numbers))]


async def _order_statistics(
    program: OrderStatistics, own: Sequence[int], sites: int, arithmetic: Arithmetic
) -> Answer:
    """Check n, then search for all ranks at once; see `OrderStatistics` why the bits tell no more than the answer."""
    below = list(accumulate(own, initial=0))
    people, greatest = program.people, sites * program.length * program.most
    right = await _at_least(arithmetic, [below[-1]] * 2, [people, people + 1], greatest)
    if right != [True, False]:
        return (0, *(SUPPRESSED for _ in program.ranks))
    starts = {low: place for place, (low, _) in enumerate(program.intervals)} | {
        program.levels: program.length
    }
    spans = [(starts[low], starts[high]) for low, high in program.brackets]
    while any(high - low > 1 for low, high in spans):
        asked = [
            (cut, rank)
            for (low, high), rank in zip(spans, program.ranks, strict=True)
            for cut in sorted(
                {low + (high - low) * probe // (PROBES + 1) for probe in range(1, PROBES + 1)} - {low}
            )
        ]
        bits = await _at_least(
            arithmetic, [below[cut] for cut, _ in asked], [rank for _, rank in asked], people
        )
        reached = dict(zip(asked, bits, strict=True))
        spans = [
            (
                max((cut for (cut, one), yes in reached.items() if one == rank and not yes), default=low),
                min((cut for (cut, one), yes in reached.items() if one == rank and yes), default=high),
            )
            for (low, high), rank in zip(spans, program.ranks, strict=True)
        ]
    return (1, *(low for low, _ in spans))


async def _at_least(
    arithmetic: Arithmetic, shares: Sequence[int], bounds: Sequence[int], greatest: int
) -> list[bool]:
    """Ask only what can be either: no value reaches a bound above the greatest."""
    asked = [place for place, bound in enumerate(bounds) if bound <= greatest]
    bits = (
        await arithmetic.at_least(
            [shares[place] for place in asked], [bounds[place] for place in asked], greatest
        )
        if asked
        else []
    )
    answered = dict(zip(asked, bits, strict=True))
    return [answered.get(place, False) for place in range(len(bounds))]
