"""How much memory the coordinator needs to add the uploads of a round, measured in a process of its own.

`Spool.sum` holds one accumulator and one chunk. Two figures must not grow with the number of sites: the peak of what
Python and numpy allocate, and the growth of the process's resident high-water mark.
"""

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tracemalloc import get_traced_memory, start, stop

import numpy as np

from benchmarks.measure import Row, cpu_ms
from benchmarks.played import upload
from benchmarks.resident import high_water_mib, reset_high_water_mib
from cohortsum.coordinator.spool import Spool

MIB = 1024 * 1024


def measure(sites: int, length: int) -> Row:
    """Return peak and time of adding ``sites`` uploads of ``length`` words; raises AssertionError for a wrong sum."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(_measure, sites, length).result()


def _measure(sites: int, length: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "uploads", length)
        words = np.arange(length, dtype=np.uint64)
        for site in range(sites):
            upload(spool, site, words)
            words += np.uint64(2**40)
        del words
        before = reset_high_water_mib()
        took, total = cpu_ms(lambda: spool.sum(range(sites)))
        after = high_water_mib()
        exact = bool(
            np.all(total == np.arange(length, dtype=np.uint64) * sites + sites * (sites - 1) // 2 * 2**40)
        )
        assert exact, "the spool's sum is wrong"
        del total
        start()
        spool.sum(range(sites))
        peak = get_traced_memory()[1]
        stop()
        spool.wipe()
    return {
        "sites": sites,
        "numbers": length,
        "sum ms": took,
        "accumulator MiB": length * 8 / MIB,
        "peak MiB": peak / MIB,
        "resident growth MiB": None if before is None or after is None else after - before,
        "exact": "yes",
    }
