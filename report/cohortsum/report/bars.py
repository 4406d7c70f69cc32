"""Bars: histograms, and the shares of variance of principal components (scree plot).

A histogram's bars stand for counts where all bins are equally wide, else for counts per unit: people are areas then, as
in any histogram. A bin whose count was withheld is a hatched strip: no height is invented for it.
"""

from collections.abc import Sequence
from typing import Final

from cohortsum.report.records import Record, grouped, records, value
from cohortsum.report.scales import Frame, Scale
from cohortsum.report.svg import Figure, Panel, element, path, shortened, tip
from cohortsum.study.results import Table

MOST_VARIABLES: Final = 24
MOST_COMPONENTS: Final = 20
HATCHED: Final = " Hatched: withheld."

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 360.0, 46.0, 348.0, 26.0, 170.0


def histogram_figures(table: Table) -> tuple[Figure, ...]:
    """Return one figure with a panel per variable, at most `MOST_VARIABLES`; none without a count."""
    panels: list[Panel] = []
    withheld = False
    for (variable,), rows in grouped(records(table), ["variable"]).items():
        bins = [row for row in rows if None not in (value(row, "low"), value(row, "high"))]
        if any(value(row, "count") is not None for row in bins) and len(panels) < MOST_VARIABLES:
            panels.append(_histogram(variable, bins))
            withheld |= any(value(row, "count") is None for row in bins)
    if not panels:
        return ()
    return (Figure("Distribution", "People per bin." + (HATCHED if withheld else ""), tuple(panels)),)


def scree_figures(table: Table) -> tuple[Figure, ...]:
    """Return the share of variance per component and the sum so far, of the first `MOST_COMPONENTS`."""
    shares: dict[float, float] = {}
    for row in records(table):
        component, share = value(row, "component"), value(row, "variance_share")
        if component is not None and share is not None:
            shares.setdefault(component, share)
    if not shares:
        return ()
    shown = sorted(shares.items())[:MOST_COMPONENTS]
    frame = Frame(Scale(0.4, len(shown) + 0.6, _LEFT, _RIGHT), Scale(0.0, 1.0, _TOP + _HEIGHT, _TOP))
    every = 1 if len(shown) <= 10 else 2
    parts = [frame.axes("component", "share of variance", list(range(1, len(shown) + 1, every)))]
    total = 0.0
    line: list[tuple[float, float]] = []
    for place, (component, share) in enumerate(shown, start=1):
        total += share
        line.append((place, total))
        said = f"component {component:g}: {share:.1%} of the variance, {total:.1%} so far"
        parts.append(_bar(frame, place - 0.36, place + 0.36, share, said))
    points = [frame.point(*point) for point in line]
    parts.append(path("f-line f-line1", points, dash="4 3"))
    parts += [element("circle", "f-fill1", cx=x, cy=y, r=2.6) for x, y in points]
    panel = Panel(
        _WIDTH, _TOP + _HEIGHT + 38, "".join(parts), "shares of variance of the principal components"
    )
    caption = "Bars: share of variance of each component; dashed: sum so far."
    return (Figure("Principal components", caption, (panel,)),)


def _histogram(variable: str, rows: Sequence[Record]) -> Panel:
    bins = [(value(row, "low") or 0.0, value(row, "high") or 0.0, value(row, "count")) for row in rows]
    widths = [high - low for low, high, _ in bins]
    equal = max(widths) - min(widths) <= 1e-9 * max(widths)
    heights = [
        None if count is None else count if equal or width <= 0 else count / width
        for (_, _, count), width in zip(bins, widths, strict=True)
    ]
    top = max((height for height in heights if height is not None), default=0.0) or 1.0
    left, right = min(low for low, _, _ in bins), max(high for _, high, _ in bins)
    frame = Frame(
        Scale(left, right if right > left else left + 1.0, _LEFT, _RIGHT),
        Scale(0.0, 1.05 * top, _TOP + _HEIGHT, _TOP),
    )
    parts = [frame.axes(shortened(variable, 290), "people" if equal else "people per unit")]
    for (low, high, count), height in zip(bins, heights, strict=True):
        said = f"{low:g} to {high:g}: {'withheld' if count is None else f'{count:.0f} people'}"
        parts.append(_bar(frame, low, high, height, said))
    return Panel(_WIDTH, _TOP + _HEIGHT + 38, "".join(parts), f"histogram of {variable}")


def _bar(frame: Frame, low: float, high: float, height: float | None, said: str) -> str:
    x, right = frame.x.at(low) + 0.4, frame.x.at(high) - 0.4
    top = frame.y.end if height is None else frame.y.at(height)
    kind = "f-hatch" if height is None else "f-fill0"
    return element(
        "rect", kind, tip(said), x=x, y=top, width=max(right - x, 0.3), height=max(frame.y.start - top, 0.0)
    )
