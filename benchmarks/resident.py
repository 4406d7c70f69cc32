"""The resident memory of this process, as Linux tells it (proc(5))."""

from pathlib import Path

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
KIB_PER_MIB = 1024


def reset_high_water_mib() -> float | None:
    """Make the high-water mark what is resident now, and return it in MiB; None where that is impossible."""
    try:
        RESET.write_text("5")
    except OSError:
        return None
    return _status_mib("VmRSS")


def high_water_mib() -> float | None:
    """Return the high-water mark in MiB; None where it is not told."""
    return _status_mib("VmHWM")


def _status_mib(name: str) -> float | None:
    if not STATUS.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / KIB_PER_MIB
