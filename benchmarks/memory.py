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
from cohortsum.coordinator.spool import Spool

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")  # Linux, proc(5)
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
        before = _reset_high_water_kib()
        took, total = cpu_ms(lambda: spool.sum(range(sites)))
        after = _status_kib("VmHWM")
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
        "resident growth MiB": None if before is None or after is None else (after - before) / 1024,
        "exact": "yes",
    }


def _reset_high_water_kib() -> int | None:
    """Make the high-water mark of resident memory what is resident now, and return it; None where that is impossible."""
    try:
        RESET.write_text("5")
    except OSError:
        return None
    return _status_kib("VmRSS")


def _status_kib(name: str) -> int | None:
    if not STATUS.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])
