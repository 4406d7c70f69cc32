"""What a forest plot says and where: the lines of the figure, their words, and positions in inches.

Widths are measured with the font's own metrics, so that no label meets the axis however long the names of a study are;
heights follow from the number of lines, so that 5 rows and 68 rows are spaced alike.
"""

# pyright: reportUnknownMemberType=false
# matplotlib's stubs leave **kwargs and some results untyped.

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from cohortsum.report.anatomy import OutcomeName, read_name
from cohortsum.report.effects import Effect, Effects
from cohortsum.study.results import Absent

Order = Literal["estimate", "name"]

FONT: Final = "DejaVu Sans"  # ships with matplotlib: the same glyphs and widths everywhere
SIZE: Final = 8.0  # points
TITLE_SIZE: Final = 12.5
SUBTITLE_SIZE: Final = 8.5
FOOTNOTE_SIZE: Final = 7.0

ROW: Final = 0.2  # inches, as are all lengths below
MARGIN: Final = 0.3
INDENT: Final = 0.12
GAP: Final = 0.25
PLOT_WIDTH: Final = 2.9
MIN_LABELS: Final = 2.2


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the figure: an outcome with its words, or the head of a group (``effect`` is None)."""

    label: str
    effect: Effect | None = None
    estimate: str = ""
    p: str = ""
    reason: str = ""
    significant: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in inches from the lower left corner of the page, and the wrapped texts above and below the rows."""

    width: float
    height: float
    top: float
    bottom: float
    plot_left: float
    estimate_right: float
    p_right: float
    title: tuple[str, ...]
    subtitle: tuple[str, ...]
    footnote: tuple[str, ...]


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


def place(lines: Sequence[Line], heads: tuple[str, str], title: str, subtitle: str, footnote: str) -> Layout:
    """Return where everything goes; ``heads`` are those of the columns of estimates and of p-values."""
    labels = max(MIN_LABELS, _widest(line.label for line in lines) + INDENT)
    estimates = _widest([heads[0], *(line.estimate for line in lines)])
    p_values = _widest([heads[1], *(line.p for line in lines)])
    estimates = max(estimates, _widest(line.reason for line in lines) - GAP - p_values)
    plot_left = MARGIN + labels + GAP
    estimate_right = plot_left + PLOT_WIDTH + GAP + estimates
    p_right = estimate_right + GAP + p_values
    room = p_right - MARGIN
    titles = _wrap(title, TITLE_SIZE, room)
    subtitles = _wrap(subtitle, SUBTITLE_SIZE, room)
    footnotes = _wrap(footnote, FOOTNOTE_SIZE, room)
    bottom = 0.95 + 0.14 * len(footnotes)
    top = bottom + ROW * len(lines)
    height = top + 0.68 + 0.22 * len(titles) + 0.16 * len(subtitles)
    return Layout(
        p_right + MARGIN,
        height,
        top,
        bottom,
        plot_left,
        estimate_right,
        p_right,
        titles,
        subtitles,
        footnotes,
    )


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
    """Return the numbers with two decimals for d; for b with as many as give the interval's width two digits."""
    low, _, high = interval
    decimals = 2
    if effects.measure == "b":
        decimals = max(0, 1 - math.floor(math.log10(high - low))) if high > low else 3
    style = f".{decimals}f" if decimals <= 6 else ".2e"
    texts = [format(value, style) for value in interval]
    # a true minus sign, and never a negative zero
    return [text.replace("-", "\N{MINUS SIGN}") if float(text) else text.removeprefix("-") for text in texts]


def _widest(texts: Iterable[str]) -> float:
    """Return the greatest width in inches; bold, the wider face."""
    return max((_width(text, SIZE) for text in texts), default=0.0)


def _width(text: str, size: float) -> float:
    if not text:
        return 0.0
    font = FontProperties(family=FONT, size=size, weight="bold")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def _wrap(text: str, size: float, room: float) -> tuple[str, ...]:
    """Return the text in lines no wider than ``room``."""
    columns = len(text)
    wrapped = [text] if text else []
    while columns > 10 and any(_width(line, size) > room for line in wrapped):
        columns = math.floor(columns * 0.97)
        wrapped = textwrap.wrap(text, columns)
    return tuple(wrapped)
