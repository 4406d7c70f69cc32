"""Where everything in a forest plot goes, in inches.

Widths are measured with the font's own metrics, so that no label meets the axis however long the names of a study are;
heights follow from the number of lines, so that 5 rows and 68 rows are spaced alike.
"""

# pyright: reportUnknownMemberType=false
# matplotlib's stubs leave **kwargs and some results untyped.

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from cohortsum.report.forest_lines import Line

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
