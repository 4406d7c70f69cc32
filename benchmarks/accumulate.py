"""What a site's own sums cost: ``python benchmarks/accumulate.py [--quick] [--json FILE]``.

A regression with many outcomes is accumulated and, interleaved with it in the same run, the same products are formed by
plain numpy: from the ready, stacked arrays, and from the columns as a reader hands them over (stacked, missing values set
to 0). Every figure is the least of several runs, because neighbours on the machine only ever add time; the number of
threads of the linear algebra is left as it is. Peaks are of what Python and numpy allocate in `accumulate`.

The last table plays one round of sums over all sites, without cryptography, and compares coefficients with a pooled fit.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tracemalloc import get_traced_memory, start, stop
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row, cpu_ms, verdict, wall_ms
from cohortsum.study.batch import Batch
from cohortsum.study.building import fraction_bits
from cohortsum.study.statistics.interface import Statistic, Sums
from cohortsum.study.statistics.products import pairs
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.variables import Number

GOAL = 2.0
MIB = 1024 * 1024
MOST_PEOPLE = 100_000
TOLERANCE = 1e-8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """People of the batch, outcomes, terms, sites of the round, and how often things are timed."""

    people: int
    outcomes: int
    terms: int
    sites: int
    runs: int


FULL, QUICK = Size(10_000, 1_000, 10, 34, 9), Size(500, 20, 3, 5, 2)


def table_of(size: Size, people: int, missing: float) -> Batch:
    """Return a batch; above ``size.people`` outcomes share arrays, so that the table itself stays small."""
    rng = np.random.default_rng(20_261_130)
    numbers = {f"x{place}": rng.uniform(-1.0, 1.0, people) for place in range(size.terms)}
    different = size.outcomes if people <= size.people else 20
    made: list[Floats] = []
    for _ in range(different):
        values = rng.uniform(0.0, 5.0, people) + 0.1 * numbers["x0"]
        values[rng.random(people) < missing] = np.nan
        made.append(np.clip(values, 0.0, 5.0))
    numbers |= {f"y{place}": made[place % different] for place in range(size.outcomes)}
    return Batch(people, numbers, {})


def regression(
    size: Size, missing: Literal["per_outcome", "complete"], site_effect: Literal["within", "none"]
) -> Regression:
    """Return the statistic that is timed."""
    terms = tuple(f"x{place}" for place in range(size.terms))
    return Regression(
        name="r",
        outcomes=tuple(Number(f"y{place}", "mm", 0.0, 5.0) for place in range(size.outcomes)),
        terms=terms,
        variables={term: Number(term, "1", -1.0, 1.0) for term in terms},
        site_effect=site_effect,
        missing=missing,
        fraction_bits=fraction_bits(MOST_PEOPLE),
    )


def products(x: Floats, y: Floats, counted: Floats) -> tuple[Floats, ...]:
    """Return the sums of x, xx', y, xy and yy by plain numpy; y is (outcomes, people)."""
    squares: Floats = np.einsum("ij,ij->i", y, y)
    return counted @ x, counted @ pairs(x), y.sum(axis=1), y @ x, squares


def from_columns(batch: Batch, x: Floats, outcomes: int, complete: bool) -> tuple[Floats, ...]:
    """Return the same from the columns of a batch: stacked, the missing set to 0."""
    y = np.vstack([batch.numbers[f"y{place}"] for place in range(outcomes)])
    known = ~np.isnan(y)
    if complete:
        known = np.logical_and.reduce(known, axis=0, keepdims=True)
    return products(x, np.where(known, y, 0.0), known.astype(np.float64))


def least(work: dict[str, Callable[[], Any]], runs: int) -> dict[str, tuple[float, float]]:
    """Return the least wall and processor time of each, taken in turns, in milliseconds."""
    best = dict.fromkeys(work, (float("inf"), float("inf")))
    for _ in range(runs):
        for name, one in work.items():
            cpu, (wall, _) = cpu_ms(partial(wall_ms, one))
            best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    return best


def times(size: Size) -> Iterator[Row]:
    """Yield one row per kind of sums."""
    for missing, site_effect, share in (
        ("per_outcome", "within", 0.02),
        ("per_outcome", "within", 0.0),
        ("complete", "within", 0.0),
        ("complete", "none", 0.0),
    ):
        complete = missing == "complete"
        batch = table_of(size, size.people, share)
        statistic = regression(
            size, "complete" if complete else "per_outcome", "within" if site_effect == "within" else "none"
        )
        x = statistic.design.values(batch, np.arange(batch.people))
        y = np.vstack([batch.numbers[f"y{place}"] for place in range(size.outcomes)])
        counted = (~np.isnan(y)).astype(np.float64)
        if complete:
            counted = counted.min(axis=0, keepdims=True)
        y = np.nan_to_num(y)
        best = least(
            {
                "accumulate": lambda: statistic.accumulate(batch),  # noqa: B023
                "products": lambda: products(x, y, counted),  # noqa: B023
                "columns": lambda: from_columns(batch, x, size.outcomes, complete),  # noqa: B023
            },
            size.runs,
        )
        ratio = best["accumulate"][0] / best["columns"][0]
        judged = size == FULL and site_effect == "within"
        yield {
            "missing": missing,
            "site_effect": site_effect,
            "% missing": 100 * share,
            "accumulate": best["accumulate"][0],
            "products": best["products"][0],
            "from columns": best["columns"][0],
            "to products": best["accumulate"][0] / best["products"][0],
            "to columns": ratio,
            "same, cpu": best["accumulate"][1] / best["columns"][1],
            "goal": verdict(ratio <= GOAL if judged else None),
        }


def memory(size: Size) -> Iterator[Row]:
    """Yield the peak of `accumulate` for the batch and for one ten times as large."""
    statistic = regression(size, "per_outcome", "within")
    for people in (size.people, 10 * size.people):
        batch = table_of(size, people, 0.02)
        start()
        statistic.accumulate(batch)
        peak = get_traced_memory()[1]
        stop()
        yield {
            "people": people,
            "table MiB": people * (size.outcomes + size.terms) * 8 / MIB,
            "peak MiB": peak / MIB,
            "columns MiB": people * size.terms * 8 / MIB,
        }


def one_round(size: Size) -> Iterator[Row]:
    """Yield what all sites send in one round, after comparing coefficients with a pooled fit."""
    statistic = regression(size, "per_outcome", "within")
    batch = table_of(size, size.people, 0.0)
    site = np.arange(size.people) % size.sites
    parts = [_part(batch, site == label) for label in range(size.sites)]
    sites_ms, sent = wall_ms(lambda: [_sent(statistic, part) for part in parts])
    opened = {block.name: np.sum([one[block.name] for one in sent], axis=0) for block in statistic.layout()}
    finish_ms, estimates = wall_ms(lambda: statistic.estimates(opened))
    worst = 0.0
    x = np.column_stack([batch.numbers[f"x{place}"] for place in range(size.terms)])
    dummies = np.equal.outer(site, np.arange(size.sites)).astype(np.float64)
    for place in (0, size.outcomes - 1):
        pooled = np.linalg.lstsq(np.hstack((x, dummies)), batch.numbers[f"y{place}"], rcond=None)[0]
        found = estimates[place].b
        worst = max(worst, float(np.max(np.abs(found / pooled[: size.terms] - 1.0))))
    assert worst < TOLERANCE, "the round's coefficients are not those of a pooled fit"
    yield {
        "sites": size.sites,
        "outcomes": size.outcomes,
        "terms": size.terms,
        "numbers": sum(block.size for block in statistic.layout()),
        "ms per site": sites_ms / size.sites,
        "estimates ms": finish_ms,
        "relative error": f"{worst:.0e}",
    }


def _part(batch: Batch, chosen: NDArray[np.bool_]) -> Batch:
    return Batch(int(chosen.sum()), {name: values[chosen] for name, values in batch.numbers.items()}, {})


def _sent(statistic: Statistic, part: Batch) -> Sums:
    return statistic.contribute(statistic.accumulate(part))


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure the sums of a regression at a site.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    size = QUICK if asked.quick else FULL
    report = Report()
    report.table(
        f"Accumulate: {size.people} people, {size.outcomes} outcomes, {size.terms} terms; milliseconds of wall time",
        times(size),
        f"the least of {size.runs} runs, in turns; products = numpy on ready arrays, from columns = with stacking and\n"
        f"missing values; same, cpu = the ratio of processor times, which neighbours disturb less; goal: within {GOAL:g} times of\n"
        "the products from the columns. site_effect none rounds every person's product",
    )
    report.table(
        "Memory of accumulate",
        memory(size),
        "peak of allocations beside the table; columns = the design of all people",
    )
    report.table("One round, all sites in one process", one_round(size), "numbers = what every site sends")
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
