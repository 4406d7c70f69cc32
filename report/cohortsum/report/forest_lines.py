"""What a forest plot says: its lines from top to bottom, and their words."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from cohortsum.report.anatomy import OutcomeName, read_name
from cohortsum.report.effects import RATIOS, Effect, Effects
from cohortsum.study.results import Absent

Order = Literal["estimate", "name"]

FURTHEST: Final = 1e4
"""The greatest ratio on an axis."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the figure: an outcome with its words, or the head of a group (``effect`` is None)."""

    label: str
    effect: Effect | None = None
    estimate: str = ""
    p: str = ""
    reason: str = ""
    significant: bool = False


def axis_range(effects: Effects) -> tuple[float, float]:
    """Return the ends of the axis of estimates: all intervals and the null, with a little room.

    A ratio's axis ends at 1/10000 and 10000: a model that separates the people has limits of any size, and beside them
    nothing else could be told apart. Whoever draws marks what goes on beyond.
    """
    ends = [effects.null]
    for effect in effects.rows:
        if effect.interval is not None:
            ends += [effect.interval[0], effect.interval[2]]
    low, high = min(ends), max(ends)
    if effects.measure in RATIOS:
        low, high = max(low, 1 / FURTHEST), min(high, FURTHEST)
        factor = max(high / low, 1.5) ** 0.05
        return low / factor, high * factor
    room = 0.04 * (high - low) or 1.0  # 1.0: nothing to draw
    return low - room, high + room


def arrange(effects: Effects, order: Order, level: float) -> tuple[Line, ...]:
    """Return the lines from top to bottom: the hemispheres under their heads, then outcomes without one.

    Within a group: the greatest estimate first and absent ones last, or by anatomical name.
    """
    named = [(read_name(effect.outcome), effect) for effect in effects.rows]
    several = len({name.measure for name, _ in named if name.hemisphere}) > 1

    def key(item: tuple[OutcomeName, Effect]) -> tuple[float, str, str]:
        name, effect = item
        by_estimate = math.inf if isinstance(effect.estimate, Absent) else -effect.estimate
        return (by_estimate if order == "estimate" else 0.0, name.label, name.name)

    lines: list[Line] = []
    groups = (("left", "Left hemisphere"), ("right", "Right hemisphere"), (None, "Other outcomes"))
    for hemisphere, head in groups:
        group = sorted((item for item in named if item[0].hemisphere == hemisphere), key=key)
        if group and (hemisphere or len(group) < len(named)):
            lines.append(Line(head))
        for name, effect in group:
            label = f"{name.label}, {name.measure}" if several and name.measure else name.label
            lines.append(_line(label, effects, effect, level))
    return tuple(lines)


def span(values: Iterable[float]) -> str:
    """Return ``1,520``, or ``1,498 to 1,520`` where the counts differ; empty for none."""
    counts = sorted({round(value) for value in values})
    return " to ".join(f"{count:,}" for count in dict.fromkeys((*counts[:1], *counts[-1:])))


def _line(label: str, effects: Effects, effect: Effect, level: float) -> Line:
    interval = effect.interval
    if interval is None:
        return Line(label, effect, reason=effect.reason)
    low, estimate, high = _fixed(interval, effects)
    p = effects.p(effect)
    words = "" if isinstance(p, Absent) else "< 0.001" if p < 0.001 else f"{p:.3f}"
    return Line(label, effect, f"{estimate} [{low}, {high}]", words, "", effects.significant(effect, level))


def _fixed(interval: tuple[float, float, float], effects: Effects) -> list[str]:
    """Return the numbers with two decimals for d and ratios; else with as many as give the interval two digits."""
    low, _, high = interval
    decimals = 2
    if effects.measure in ("b", "estimate"):
        decimals = max(0, 1 - math.floor(math.log10(high - low))) if high > low else 3
    elif effects.measure in RATIOS and low < 0.095:
        decimals = min(7, 1 - math.floor(math.log10(low))) if low > 0 else 7
    style = f".{decimals}f" if decimals <= 6 and high < 1e6 else ".2e"
    texts = [format(value, style) for value in interval]
    # a true minus sign, and never a negative zero
    return [text.replace("-", "\N{MINUS SIGN}") if float(text) else text.removeprefix("-") for text in texts]
