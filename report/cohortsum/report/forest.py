"""A forest plot of one effect over all outcomes: estimate, 95 % interval and the same numbers as text, row by row.

Outcomes with FreeSurfer names are grouped by hemisphere and carry their anatomical names. Filled squares are those that
stay significant after correction over the outcomes: shape and fill say so as well as the colour, which is from a palette
that colour-blind readers tell apart. An outcome without a number keeps its row and shows the reason instead of a marker.

The figure is drawn without pyplot; matplotlib's settings are fixed while it is drawn and restored afterwards, and the
files carry no date: equal input gives equal bytes with one version of matplotlib.
"""

# pyright: reportUnknownMemberType=false
# matplotlib's stubs leave **kwargs untyped.

import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator, StrMethodFormatter

from cohortsum.report.effects import RATIOS, Effects
from cohortsum.report.forest_layout import (
    FONT,
    FOOTNOTE_SIZE,
    INDENT,
    MARGIN,
    PLOT_WIDTH,
    ROW,
    SIZE,
    SUBTITLE_SIZE,
    TITLE_SIZE,
    Layout,
    place,
)
from cohortsum.report.forest_lines import Line, Order, arrange, axis_range, span
from cohortsum.study.results import Absent

SIGNIFICANT: Final = "#0072B2"  # blue of the Okabe-Ito palette
OTHER: Final = "#6E6E6E"
INK: Final = "#222222"
BAND: Final = "#F4F6F8"
GRID: Final = "#DDE1E5"
PNG_DPI: Final = 200
TALL: Final = 20  # rows from which the scale is printed above the axis too


@dataclass(frozen=True, slots=True)
class Caption:
    """The words around the plot.

    Attributes:
        title: what is shown, for example ``Cortical thickness in autism``.
        effect: the comparison, for example ``autism against control``.
        sites: number of sites whose people are in the sums (K).
        footnote: profile, noise, study: what a reader must know before quoting a number.
        unit: unit of the coefficient b; not used for Cohen's d.
    """

    title: str
    effect: str
    sites: int
    footnote: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Forest:
    """One figure in two formats."""

    svg: bytes
    png: bytes


def draw_forest(
    effects: Effects, caption: Caption, *, order: Order = "estimate", level: float = 0.05
) -> Forest:
    """Return the forest plot of ``effects``.

    Args:
        effects: from `read_effects`.
        caption: the words around the plot.
        order: rows by estimate, greatest first and absent ones last, or by anatomical name; within a hemisphere.
        level: significance level of the p-value that counts.
    """
    with fixed_settings():
        figure = compose(effects, caption, order, level)
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(
            svg, format="svg", metadata={"Date": None, "Creator": "cohortsum", "Title": caption.title}
        )
        figure.savefig(
            png, format="png", dpi=PNG_DPI, metadata={"Software": "cohortsum", "Title": caption.title}
        )
    return Forest(svg.getvalue(), png.getvalue())


@contextmanager
def fixed_settings() -> Generator[None]:
    """Draw with settings that do not depend on this machine's matplotlibrc; they are as before afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", family=[FONT], size=SIZE)
        mpl.rc("text", color=INK, parse_math=False)  # a name may hold a dollar sign
        mpl.rc(
            "svg", fonttype="none", hashsalt="cohortsum"
        )  # text stays text: searchable, editable, read aloud
        yield


def compose(effects: Effects, caption: Caption, order: Order, level: float) -> Figure:
    """Return the figure behind `draw_forest`, not yet written; call it under `fixed_settings`."""
    lines = arrange(effects, order, level)
    p_head = "p (FDR)" if effects.corrected else "p"
    heads = (f"{effects.measure} [95 % CI]", p_head)
    things = "terms" if effects.of_terms else "outcomes"
    people = span(effect.n for effect in effects.rows if not isinstance(effect.n, Absent))
    subtitle = f"{caption.effect}; n = {people or 'not available'}, K = {caption.sites} sites, "
    subtitle += f"{len(effects.rows)} {things}"
    at = place(lines, heads, caption.title, subtitle, caption.footnote)

    figure = Figure(figsize=(at.width, at.height), facecolor="white")
    FigureCanvasAgg(figure)
    page = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # text, rules and bands; its unit is the inch
    page.set(xlim=(0.0, at.width), ylim=(0.0, at.height))
    page.axis("off")
    box = (at.plot_left, at.bottom, PLOT_WIDTH, at.top - at.bottom)
    size = (at.width, at.height, at.width, at.height)
    left, bottom, width, height = (length / whole for length, whole in zip(box, size, strict=True))
    plot = figure.add_axes((left, bottom, width, height), facecolor="none")

    _frame(page, at, heads, f"{p_head} {{}} {level:g}")
    _rows(page, at, lines)
    _markers(plot, lines, effects)
    unit = f" ({caption.unit})" if caption.unit else ""
    measure = {"d": "Cohen's d", "b": f"b{unit}"}.get(effects.measure, effects.measure)
    plot.set_xlabel(f"{measure}, {caption.effect}", fontsize=SUBTITLE_SIZE, labelpad=4)
    return figure


def _frame(page: Axes, at: Layout, heads: tuple[str, str], legend: str) -> None:
    """Draw title, subtitle, column heads, rules, legend and footnote."""
    y = at.height - 0.3
    for text in at.title:
        page.text(MARGIN, y, text, fontsize=TITLE_SIZE, fontweight="bold", va="center")
        y -= 0.22
    for text in at.subtitle:
        page.text(MARGIN, y, text, fontsize=SUBTITLE_SIZE, color=OTHER, va="center")
        y -= 0.16
    for x, text in zip((at.estimate_right, at.p_right), heads, strict=True):
        page.text(x, at.top + 0.12, text, ha="right", va="center", fontweight="bold")
    for y in (at.top, at.bottom):
        page.plot([MARGIN, at.p_right], [y, y], color=INK, linewidth=0.8)
    y = at.bottom - 0.62
    for x, significant, sign in ((MARGIN + 0.06, True, "<"), (MARGIN + 1.6, False, "≥")):
        _marker(page, x, y, significant)
        page.text(x + 0.12, y, legend.format(sign), va="center_baseline")
    for position, text in enumerate(reversed(at.footnote)):
        page.text(MARGIN, 0.18 + 0.14 * position, text, fontsize=FOOTNOTE_SIZE, color=OTHER, va="center")


def _rows(page: Axes, at: Layout, lines: Sequence[Line]) -> None:
    """Write labels and numbers, and band every second outcome of a group."""
    banded = False
    for position, line in enumerate(lines):
        y = at.top - ROW * (position + 0.5)
        if line.effect is None:
            page.text(MARGIN, y, line.label, va="center_baseline", fontweight="bold")
            banded = False
            continue
        banded = not banded
        if banded:
            ends = (MARGIN / at.width, at.p_right / at.width)
            page.axhspan(y - ROW / 2, y + ROW / 2, *ends, color=BAND, linewidth=0)
        page.text(MARGIN + INDENT, y, line.label, va="center_baseline")
        weight = "bold" if line.significant else "normal"
        for x, text in ((at.estimate_right, line.estimate), (at.p_right, line.p)):
            page.text(x, y, text, ha="right", va="center_baseline", fontweight=weight)
        page.text(
            at.p_right, y, line.reason, ha="right", va="center_baseline", color=OTHER, fontstyle="italic"
        )


def _markers(plot: Axes, lines: Sequence[Line], effects: Effects) -> None:
    """Draw intervals and estimates on an axis whose unit is one line, the first on top; ratios on a log axis."""
    low_end, high_end = axis_range(effects)
    for y, line in enumerate(lines):
        interval = line.effect.interval if line.effect else None
        if interval is None:
            continue
        low, estimate, high = interval
        colour = SIGNIFICANT if line.significant else OTHER
        plot.plot([low, high], [y, y], color=colour, linewidth=1.3, solid_capstyle="butt", zorder=2)
        for beyond, x, arrow in ((low < low_end, low_end, "<"), (high > high_end, high_end, ">")):
            if beyond:
                plot.plot([x], [y], marker=arrow, markersize=4, color=colour, clip_on=False, zorder=3)
        _marker(plot, estimate, y, line.significant)
    _scale(plot, effects, low_end, high_end)
    plot.set(ylim=(len(lines) - 0.5, -0.5), yticks=[])
    plot.axvline(effects.null, color=INK, linewidth=0.8, zorder=1)
    plot.grid(axis="x", color=GRID, linewidth=0.5, zorder=0)
    tall = len(lines) > TALL
    plot.tick_params(axis="x", length=3, width=0.8, color=INK, top=tall, labeltop=tall)
    plot.set_axisbelow(True)
    for side in plot.spines.values():
        side.set_visible(False)


def _scale(plot: Axes, effects: Effects, low: float, high: float) -> None:
    """Set the range and the ticks of the axis of estimates."""
    plot.set_xlim(low, high)
    if effects.measure not in RATIOS:
        plot.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        return
    plot.set_xscale("log")
    wide = high / low > 50.0
    plot.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=7))
    plot.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    plot.xaxis.set_minor_locator(NullLocator())
    plot.xaxis.set_minor_formatter(NullFormatter())


def _marker(axes: Axes, x: float, y: float, significant: bool) -> None:
    colour = SIGNIFICANT if significant else OTHER
    face = colour if significant else "white"
    shape = "s" if significant else "o"
    axes.plot([x], [y], marker=shape, markersize=4.6, color=colour, markerfacecolor=face, zorder=3)
