"""What committees cost: ``python benchmarks/committee.py [--quick] [--json FILE]``.

Every member is a process of its own, as in earnest, joined in this one by queues: neither network nor sealing is in the times. Every
answer is compared with the pooled numbers. Bytes and exchanges are exact; times are wall times on whatever else the machine does. What
a network adds is `exchanges` times the time from one member over the coordinator to another.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row, median
from cohortsum.protocol.committee import (
    SUPPRESSED,
    OpenCounts,
    OrderStatistics,
    Program,
    Threshold,
    percentile,
)
from tests.committee.ring import Tape, computed, dealt, plan_of

LEAST = 10
PERCENTS = (5, 25, 50, 75, 95)


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured.

    Attributes:
        sites: that bring numbers.
        cells: of the tables.
        people: behind the percentiles.
        repeats: of each run, of which the median counts.
        members: sizes of the committee.
    """

    sites: int = 200
    cells: tuple[int, ...] = (4, 50, 300)
    people: int = 20_000
    repeats: int = 5
    members: tuple[int, ...] = (3, 5, 7)


QUICK = Grid(5, (4,), 200, 1, (3,))

Task = tuple[str, Program, list[list[int]], list[int]]
"""What is computed, on which vectors, and the answer."""


def tasks(grid: Grid) -> Iterator[Task]:
    """Yield every program with numbers of all sites and the pooled answer."""
    generator = np.random.default_rng(1)
    people = [[int(count)] for count in generator.integers(0, 200, grid.sites)]
    total = sum(count for (count,) in people)
    yield "threshold", Threshold("n", total, 200), people, [1]
    for cells in grid.cells:
        counts = generator.poisson(generator.uniform(0, 20, cells) / grid.sites, (grid.sites, cells))
        pooled = counts.sum(axis=0)
        shown = [int(count) if count >= LEAST else SUPPRESSED for count in pooled]
        yield f"{cells} cells", OpenCounts("counts", cells, LEAST, 1000), counts.tolist(), shown
    levels = generator.integers(0, 64, grid.people)
    ranks = {rank for p in PERCENTS for rank in _ranks(grid.people, p)}
    program = OrderStatistics("order", 64, grid.people, tuple(sorted(ranks)))
    where = generator.integers(0, grid.sites, grid.people)
    vectors = [np.bincount(levels[where == site], minlength=64).tolist() for site in range(grid.sites)]
    ordered = np.sort(levels)
    yield f"{len(PERCENTS)} percentiles", program, vectors, [1, *(int(ordered[r - 1]) for r in program.ranks)]


def _ranks(people: int, percent: int) -> tuple[int, int]:
    place = percentile(people, percent)
    return place.lower, place.upper


def cost_rows(grid: Grid) -> Iterator[Row]:
    """Yield time and traffic of every program and committee; raises AssertionError for a wrong answer."""
    for name, program, vectors, expected in tasks(grid):
        for members in grid.members:
            took: list[float] = []
            tape = Tape()
            for _ in range(grid.repeats):
                tape = Tape()
                plan = plan_of(members, program, sites=grid.sites)
                began = time.perf_counter()
                answers = asyncio.run(computed(plan, vectors, tape))
                took.append(time.perf_counter() - began)
                assert all(list(answer[0]) == expected for answer in answers), f"{name}: a wrong answer"
            pairs = Counter((sender, receiver) for sender, receiver, _ in tape.messages)
            size = sum(len(message) for _, _, message in tape.messages)
            yield {
                "program": name,
                "members": members,
                "seconds": median(took),
                "exchanges": max(pairs.values()),
                "KB/member": size / members / 1000,
            }


def dealing_rows(grid: Grid) -> Iterator[Row]:
    """Yield what cutting one site's numbers into shares costs, and how many bytes it sends."""
    for cells in grid.cells:
        for members in grid.members:
            plan = plan_of(members, OpenCounts("counts", cells, LEAST, 1000))
            vectors: Sequence[Sequence[int]] = [[1] * cells]
            began = time.perf_counter()
            dealt(plan, vectors)
            yield {
                "numbers": cells,
                "members": members,
                "ms": (time.perf_counter() - began) * 1000,
                "bytes": members * (2 * 8 + 16 * cells + 16),
            }


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure committees of 3, 5 and 7 members.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    grid = QUICK if asked.quick else Grid()
    print(
        f"cohortsum committee, {os.cpu_count()} cores, {grid.sites} sites; wall time, start of workers included"
    )
    report = Report()
    report.table("Committee: time and traffic of one run", cost_rows(grid), "all members on this machine")
    report.table("Dealing: one site", dealing_rows(grid))
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
