"""The resident memory of this process and of others, as Linux tells it (proc(5))."""

from contextlib import suppress
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


def process_mib(process: int, name: str = "VmRSS") -> float | None:
    """Return what another process has resident now, in MiB, or with ``VmHWM`` had at most; None where that is not told."""
    return _mib(Path(f"/proc/{process}/status"), name)


def reset_process(process: int) -> None:
    """Make the high-water mark of another process what it has resident now, where that is possible."""
    with suppress(OSError):
        Path(f"/proc/{process}/clear_refs").write_text("5")


def _status_mib(name: str) -> float | None:
    return _mib(STATUS, name)


def _mib(status: Path, name: str) -> float | None:
    try:
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
    except (OSError, StopIteration):  # no such file here, or a process that has ended
        return None
    return int(line.split()[1]) / KIB_PER_MIB
