"""Axes: from values to places in a drawing, with ticks at numbers that people read easily."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cohortsum.report.svg import element, words

MINUS: Final = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic map.

    Attributes:
        low: value at ``start``; greater than 0 where ``log``.
        high: value at ``end``; not below ``low``.
        start: place of ``low``.
        end: place of ``high``; smaller than ``start`` for an axis that points up.
        log: whether equal factors are equally long.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of ``value``; the middle where the range has no width that a double holds."""
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        if not 0.0 < high - low < math.inf:
            return (self.start + self.end) / 2
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Return at most about ``most`` round values within the range."""
        return log_ticks(self.low, self.high, most) if self.log else ticks(self.low, self.high, most)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``, at most ``most`` of them.

    A range that no double holds has none.
    """
    if not 0.0 < high - low < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1.0, 2.0, 5.0, 10.0, 20.0):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            # through the decimal: 3 * 0.1 is not 0.3
            return [float(f"{place * step:.12g}") for place in range(first, last + 1)]
    return [low, high]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between ``low`` and ``high``; powers alone where those are too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,)):
        found = [
            float(f"{factor * 10.0**power:.12g}")
            for power in powers
            for factor in factors
            if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
        ]
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


def labels(values: Sequence[float]) -> list[str]:
    """Return ticks as text, each with as few digits as tell them all apart."""
    return [format(value, ".6g").replace("-", MINUS) if abs(value) > 1e-300 else "0" for value in values]


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Return a range of some width that holds ``low`` and ``high`` with a little room."""
    width = (high - low) or abs(high) or 1.0
    return low - 0.05 * width, high + 0.05 * width


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a plot with its two scales."""

    x: Scale
    y: Scale

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return where the values lie."""
        return self.x.at(x), self.y.at(y)

    def axes(self, x_name: str, y_name: str, x_ticks: Sequence[float] | None = None) -> str:
        """Return grid, ticks and the names of both axes; the vertical one is named above its upper end."""
        left, right = self.x.start, self.x.end
        bottom, top = self.y.start, self.y.end
        parts: list[str] = []
        y_ticks = self.y.ticks()
        for value, label in zip(y_ticks, labels(y_ticks), strict=True):
            y = self.y.at(value)
            parts.append(element("path", "f-grid", d=f"M{left:.2f} {y:.2f}H{right:.2f}"))
            parts.append(words(left - 5, y + 3.5, label, "f-small", "end"))
        shown = self.x.ticks() if x_ticks is None else list(x_ticks)
        for value, label in zip(shown, labels(shown), strict=True):
            x = self.x.at(value)
            parts.append(element("path", "f-axis", d=f"M{x:.2f} {bottom:.2f}v4"))
            parts.append(words(x, bottom + 15, label, "f-small", "middle"))
        parts.append(element("path", "f-axis", d=f"M{left:.2f} {bottom:.2f}H{right:.2f}"))
        parts.append(words((left + right) / 2, bottom + 30, x_name, "f-text", "middle"))
        parts.append(words(left - 5, top - 9, y_name, "f-text"))
        return "".join(parts)
