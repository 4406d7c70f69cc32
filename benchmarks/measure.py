"""What both benchmarks share: processor time, medians, and tables that are printed and kept.

Times of one thread are processor time of the process, so that a neighbour on the machine costs little; several threads
are compared by wall time. Figures move between machines: only ratios taken in one run mean anything.
"""

import json
import statistics
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

R = TypeVar("R")
Cell = str | int | float | None
Row = dict[str, Cell]

MILLI = 1000.0


def cpu_ms(work: Callable[[], R]) -> tuple[float, R]:
    """Return the processor time of one call, in milliseconds, and what it returned."""
    start = time.process_time()
    result = work()
    return (time.process_time() - start) * MILLI, result


def wall_ms(work: Callable[[], R]) -> tuple[float, R]:
    """Return the wall time of one call, in milliseconds, and what it returned."""
    start = time.perf_counter()
    result = work()
    return (time.perf_counter() - start) * MILLI, result


def median(values: list[float]) -> float:
    """Return the median; of nothing, 0."""
    return statistics.median(values) if values else 0.0


def repeats(moved_bytes: float) -> int:
    """Return how often to repeat work that moves so many bytes: small work is the noisier."""
    return 9 if moved_bytes < 1e8 else 5 if moved_bytes < 2e9 else 3


def verdict(reached: bool | None) -> str:
    """Return PASS or miss against a goal, or a dash where there is none."""
    return "-" if reached is None else "PASS" if reached else "miss"


@dataclass
class Laps:
    """Processor time by part, in milliseconds, added up over a run."""

    ms: dict[str, float] = field(default_factory=dict[str, float])
    calls: dict[str, int] = field(default_factory=dict[str, int])

    @contextmanager
    def lap(self, part: str) -> Generator[None]:
        """Add the processor time of the block to ``part``."""
        start = time.process_time()
        try:
            yield
        finally:
            self.add(part, start)

    def add(self, part: str, start: float) -> None:
        """Add what has passed since ``start``, a reading of the process clock, to ``part``."""
        self.ms[part] = self.ms.get(part, 0.0) + (time.process_time() - start) * MILLI
        self.calls[part] = self.calls.get(part, 0) + 1


@dataclass
class Report:
    """Tables in the order they were printed, by title."""

    tables: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])

    def table(self, title: str, rows: Iterator[Row], note: str = "") -> list[Row]:
        """Print rows as they come, under one heading, and keep them."""
        print(f"\n{title}" + (f"\n{note}" if note else ""))
        held = self.tables.setdefault(title, [])
        for row in rows:
            if not held:
                print("  ".join(name.rjust(_width(name)) for name in row))
            held.append(row)
            print("  ".join(_shown(cell).rjust(_width(name)) for name, cell in row.items()), flush=True)
        return held

    def write(self, path: Path | None) -> None:
        """Write every table as JSON, unrounded."""
        if path is not None:
            path.write_text(json.dumps(self.tables, indent=1) + "\n", encoding="utf-8")


def _width(name: str) -> int:
    return max(len(name), 7)


def _shown(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case float():
            return f"{cell:.2f}" if abs(cell) < 100 else f"{cell:.0f}"
        case _:
            return str(cell)
