"""Noise against OpenDP's: ``python benchmarks/noise.py [--quick] [--json FILE]``.

Both samplers are exact. Everything a ratio compares is measured in this run, in turns. See README.md beside this file.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import MILLI, Report, Row, cpu_ms, verdict
from cohortsum.crypto.noise import NoiseStream, discrete_gaussian

RATE_GOAL = 600_000
RATIO_GOAL = 10
MOST_DEVIATION = 7

Sampler = Callable[[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured.

    Attributes:
        sigmas: standard deviations, in units of the grid.
        ours: values per call of our sampler; a Gram matrix of 1000 IDPs has 500,000.
        theirs: values per call of OpenDP's sampler; its rate does not depend on it.
        repeats: calls of each, of which the fastest counts.
    """

    sigmas: tuple[int, ...] = (1, 300, 1000, 2048)
    ours: int = 1_000_000
    theirs: int = 50_000
    repeats: int = 7


QUICK = Grid((1, 300), 20_000, 2_000, 2)


def opendp_sampler(sigma: int) -> Sampler | None:
    """Return OpenDP's discrete Gaussian over vectors of i64, or None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T=int))
    measurement = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=float(sigma))
    return lambda count: measurement([0] * count)


def noise_rows(grid: Grid) -> Iterator[Row]:
    """Yield samples per second of both at every sigma; raises AssertionError for a spread that is not sigma's."""
    for sigma in grid.sigmas:
        ours, theirs = _best_ms(sigma, grid)
        rate = grid.ours / ours * MILLI
        other = None if theirs is None else grid.theirs / theirs * MILLI
        ratio = None if other is None else rate / other
        yield {
            "sigma": sigma,
            "ours/s": rate,
            "goal/s": RATE_GOAL,
            "OpenDP/s": other,
            "ratio": ratio,
            "goal": RATIO_GOAL,
            "verdict": verdict(None if ratio is None else rate >= RATE_GOAL and ratio >= RATIO_GOAL),
        }


def _best_ms(sigma: int, grid: Grid) -> tuple[float, float | None]:
    """Return the least times of one call of ours and of one of OpenDP's, called in turns."""
    opendp = opendp_sampler(sigma)
    took: list[float] = []
    took_theirs: list[float] = []
    for _ in range(grid.repeats):
        ms, drawn = cpu_ms(lambda: discrete_gaussian(sigma, grid.ours, NoiseStream.fresh()))
        _check_spread(drawn, sigma)
        took.append(ms)
        if opendp is not None:
            ms, values = cpu_ms(lambda: opendp(grid.theirs))
            _check_spread(np.array(values), sigma)
            took_theirs.append(ms)
    return min(took), min(took_theirs, default=None)


def _check_spread(drawn: NDArray[np.int64], sigma: int) -> None:
    """Compare the mean square with sigma's: it has a relative deviation of sqrt(2 / count)."""
    square = float(np.mean((drawn / sigma) ** 2))
    assert abs(square - 1) < MOST_DEVIATION * (2 / len(drawn)) ** 0.5, (
        f"values at sigma {sigma} have another spread"
    )


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure noise against OpenDP's.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    print(f"cohortsum noise, {os.cpu_count()} cores; processor time, the least of several repeats")
    report = Report()
    rows = report.table(
        "Discrete Gaussian: values per second",
        noise_rows(QUICK if asked.quick else Grid()),
        "both exact, on arrays; OpenDP takes and gives lists",
    )
    if any(row["OpenDP/s"] is None for row in rows):
        print("opendp is not installed: nothing to compare with; pip install opendp")
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
