"""Masking against its limits: ``python benchmarks/masking.py [--quick] [--json FILE] [--flower PYTHON]``.

Everything a ratio compares is measured in this run. See README.md beside this file for what each table says.
"""

import argparse
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import memory
from benchmarks.bounds import free_cores, masking_bound_ms, verifications_ms
from benchmarks.measure import Report, Row, cpu_ms, median, repeats, verdict, wall_ms
from benchmarks.peer import flower_rows
from benchmarks.played import SEAMS, STEPS, Contribution, Played, Player
from benchmarks.steps import mask_site, unmask
from cohortsum.coordinator.spool import Spool
from cohortsum.crypto.masks import add_masks
from cohortsum.crypto.parallel import add_masks_parallel
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.masking import signed

GOALS = {1_000_000: 0.7, 100_000: 0.5}
THREADS_GOAL = 1.7
VERIFICATIONS = 5


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured.

    Attributes:
        sites: numbers of sites.
        lengths: numbers per site.
        dropouts: shares of sites that vanish after R1.
        memory_sites: numbers of sites whose uploads are added in the memory table.
    """

    sites: tuple[int, ...] = (10, 50, 100)
    lengths: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    dropouts: tuple[float, ...] = (0.0, 0.1)
    memory_sites: tuple[int, ...] = (10, 40)

    def cells(self) -> Iterator[tuple[int, int, int]]:
        """Yield sites, length and number of dropouts of every cell."""
        for sites in self.sites:
            for length in self.lengths:
                for share in self.dropouts:
                    yield sites, length, round(share * sites)


QUICK = Grid((10,), (1_000, 20_000), (0.0, 0.1), (4, 16))


@dataclass(frozen=True, slots=True)
class Cell:
    """Both masking rows and the whole step of one cell of the grid."""

    site: Row
    coordinator: Row
    whole: Row
    steps: Row


def measure_cell(sites: int, length: int, dropouts: int) -> Cell:
    """Play one round and measure what the tables show; raises AssertionError for a sum that is not exact."""
    site_row: Row = {}
    masked: list[bytes] = []

    def at_mask(contribution: Contribution) -> None:
        took: dict[str, list[float]] = {"keys": [], "mask": [], "digest": []}
        bound: list[float] = []
        for _ in range(repeats(8.0 * sites * length)):
            done = mask_site(contribution)
            for part, ms in done.laps.ms.items():
                took[part].append(ms)
            bound.append(masking_bound_ms(length, sites))
            masked.append(done.digest)
        site_row.update(_against("site", took, bound, sites, length, dropouts))

    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "uploads", length)
        played = Player(sites, length, dropouts, spool, at_mask).play()
        assert played.exact, "the opened sum is not the survivors' sum"
        coordinator = _unmask_row(played, spool)
        spool.wipe()
    assert set(masked) == {played.sampled_digest}, "the measured step made other words than the site sent"
    return Cell(site_row, coordinator, _whole_row(played, site_row), _steps_row(played))


def _unmask_row(played: Played, spool: Spool) -> Row:
    sites, length, survivors = played.sites, played.length, len(played.uploads)
    keys = survivors * (1 + len(played.dropped))
    took: dict[str, list[float]] = {"sum": [], "seeds": [], "keys": [], "expand": []}
    bound: list[float] = []
    spooled: list[float] = []
    for _ in range(repeats(8.0 * keys * length)):
        done = unmask(played)
        assert np.array_equal(signed(done.words), played.expected), "the measured step opened another sum"
        for part, ms in done.laps.ms.items():
            took[part].append(ms)
        bound.append(masking_bound_ms(length, keys))
        spooled.append(cpu_ms(lambda: spool.sum(sorted(played.uploads)))[0])
    return _against("coordinator", took, bound, sites, length, len(played.dropped)) | {
        "spooled sum": median(spooled)
    }


def _against(
    who: str, took: dict[str, list[float]], bound: list[float], sites: int, length: int, dropouts: int
) -> Row:
    total = median([sum(parts) for parts in zip(*took.values(), strict=True)])
    ratio, goal = median(bound) / total, GOALS.get(length)
    parts: Row = {part: median(values) for part, values in took.items()}
    row: Row = {"who": who, "sites": sites, "numbers": length, "dropped": dropouts}
    reached = None if goal is None else ratio >= goal
    return (
        row
        | parts
        | {
            "total": total,
            "bound": median(bound),
            "of bound": ratio,
            "goal": goal,
            "verdict": verdict(reached),
            "exact": "yes",
        }
    )


def _whole_row(played: Played, site_row: Row) -> Row:
    """Return the whole step of a surviving site: unmetered sites give the total, metered ones its parts."""
    alive = {index: laps for index, laps in played.steps.items() if index not in played.dropped}
    whole = [sum(laps.ms.values()) for index, laps in alive.items() if index not in played.parts]
    metered = [laps for index, laps in played.parts.items() if index in alive]
    parts = {part: median([laps.ms.get(part, 0.0) for laps in metered]) for part in SEAMS}
    checks = median([float(laps.calls["signatures"]) for laps in metered])
    verifications = median([verifications_ms(VERIFICATIONS * played.sites) for _ in range(5)])
    mask_row = site_row["total"]
    assert isinstance(mask_row, float)
    total, allowed = median(whole), mask_row + verifications
    row: Row = {"sites": played.sites, "numbers": played.length, "dropped": len(played.dropped)}
    return (
        row
        | parts
        | {
            "rest": max(0.0, total - sum(parts.values())),
            "whole": total,
            "mask row": mask_row,
            "5n verify": verifications,
            "allowed": allowed,
            "signed/n": checks / played.sites,
            "verdict": verdict(total <= allowed),
        }
    )


def _steps_row(played: Played) -> Row:
    row: Row = {"sites": played.sites, "numbers": played.length, "dropped": len(played.dropped)}
    alive = [laps for index, laps in played.steps.items() if index not in played.dropped]
    steps: Row = {step: median([laps.ms.get(step, 0.0) for laps in alive]) for step in STEPS.values()}
    return row | steps | {"coordinator, all": sum(played.coordinator.ms.values())}


def thread_rows(grid: Grid) -> Iterator[Row]:
    """Yield wall times of the mask expansion with one and with two threads, at the greatest length."""
    length = max(grid.lengths)
    for sites in grid.sites:
        took_one, took_two, free = _threads_ms(sites, length)
        speedup = median(took_one) / median(took_two)
        judged = length == 1_000_000 and (os.cpu_count() or 1) >= 2
        yield {
            "sites": sites,
            "numbers": length,
            "1 thread": median(took_one),
            "2 threads": median(took_two),
            "speedup": speedup,
            "free cores": median(free),
            "goal": THREADS_GOAL if judged else None,
            "verdict": verdict(speedup >= THREADS_GOAL if judged else None),
        }


def _threads_ms(sites: int, length: int) -> tuple[list[float], list[float], list[float]]:
    """Return wall times with one and two threads, in turns with the cores that were free; raises AssertionError if the masks differ."""
    keys = [SecretBytes(secrets.token_bytes(32), "mask key") for _ in range(sites)]
    plus, minus = keys[: sites // 2], keys[sites // 2 :]
    one, two = np.zeros(length, dtype=np.uint64), np.zeros(length, dtype=np.uint64)
    took_one: list[float] = []
    took_two: list[float] = []
    free: list[float] = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(repeats(8.0 * sites * length)):
            took_one.append(wall_ms(lambda: add_masks(one, plus, minus))[0])
            took_two.append(wall_ms(lambda: add_masks_parallel(two, plus, minus, pool, 2))[0])
            free.append(free_cores(length, sites, pool))
    assert np.array_equal(one, two), "two threads made another mask"
    return took_one, took_two, free


def memory_rows(grid: Grid) -> Iterator[Row]:
    """Yield the memory of adding uploads, with a verdict once a second number of sites is there."""
    first: float | None = None
    for sites in grid.memory_sites:
        row = memory.measure(sites, max(grid.lengths))
        peak = row["peak MiB"]
        assert isinstance(peak, float)
        yield row | {"verdict": verdict(None if first is None else peak <= 1.02 * first)}
        first = first or peak


def run(grid: Grid, flower: Path, flower_most: int, report: Report) -> None:
    """Measure everything and print it."""
    cells: list[Cell] = []

    def measured() -> Iterator[Cell]:
        for cell in grid.cells():
            cells.append(measure_cell(*cell))
            yield cells[-1]

    print(f"cohortsum masking, {os.cpu_count()} cores; milliseconds of processor time unless it says wall")
    sites = report.table(
        "Site: mask step against the masking bound",
        (cell.site for cell in measured()),
        "keys = agreement and derivation, mask = expansion and addition, digest = of what is sent",
    )
    report.table(
        "Coordinator: unmask step against the masking bound",
        (cell.coordinator for cell in cells),
        "spooled sum = the same uploads read, decrypted and added from disk; not in the total",
    )
    report.table(
        "Two threads, wall time",
        thread_rows(grid),
        "free cores = what the bare primitives gain from two threads; below 2 the machine is shared",
    )
    report.table(
        "Site: whole step with signatures, shares, commitments, sealing and consistency, by part",
        (cell.whole for cell in cells),
        "allowed = mask row + 5 n Ed25519 verifications; signed/n = signatures made and verified, over n",
    )
    report.table("Site: whole step, by step of the round", (cell.steps for cell in cells))
    report.table("Coordinator: memory of adding uploads", memory_rows(grid))
    flower_rows(
        report,
        flower,
        sites,
        [cell.coordinator for cell in cells],
        [cell.whole for cell in cells],
        flower_most,
    )


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure masking against its limits.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    parser.add_argument(
        "--flower", type=Path, metavar="PYTHON", default=Path(sys.executable), help="interpreter with flwr"
    )
    parser.add_argument(
        "--flower-most", type=int, default=50, metavar="N", help="most sites of Flower's server"
    )
    asked = parser.parse_args(arguments)
    report = Report()
    run(QUICK if asked.quick else Grid(), asked.flower, asked.flower_most, report)
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
