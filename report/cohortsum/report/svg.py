"""Figures as small SVG text: elements, panels, and a whole file that opens alone.

A figure is one or more panels. A page sets the panels inline, side by side where there is room, so that each stays
readable on a narrow screen; a file holds them in rows. Shapes carry class names, and one style sheet gives every class
its colours for light and for dark surroundings: the same in a page and in a file. Text stays text, numbers are written
with two decimals at most, and nothing depends on time or machine, so equal figures are equal bytes.

All text is escaped here, and nowhere else: what a study calls its levels is data.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
SIZE: Final = 11.0
CHARACTER: Final = 0.56
"""Mean width of a character in this font, as a share of its size; no measured font is at hand where a page is read."""

SERIES: Final = (
    ("#0072B2", "#62B5EE", ""),
    ("#C2500A", "#F0935A", "6 3"),
    ("#00805C", "#35C79A", "2 3"),
    ("#9A4A86", "#DF9BCB", "8 3 2 3"),
    ("#6B5B00", "#D9C64A", "4 2"),
    ("#4A5560", "#B4BEC8", "1 2"),
)
"""Colour on light, on dark, and dashes: series differ in both, so that no reader depends on colour."""

_ILLEGAL: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HATCH: Final = (
    '<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="f-paper" width="5" height="5"/><path class="f-hatching" d="M0 0V5"/></pattern>'
)
_HATCH_MAP: Final = _HATCH.replace('id="hatch"', 'id="hatch-map"').replace(
    "rotate(45)", "rotate(45) scale(2.2)"
)
DEFINITIONS: Final = f"<defs>{_HATCH}{_HATCH_MAP}</defs>"
"""What shapes of class ``f-hatch`` refer to; once per page or file."""


def _rules(ink: str, muted: str, rule: str, grid: str, paper: str, dark: bool) -> str:
    series = "".join(
        f".f-line{place}{{stroke:{pair[dark]}}}.f-fill{place}{{fill:{pair[dark]}}}"
        for place, pair in enumerate([(light, night) for light, night, _ in SERIES])
    )
    return (
        f".f-text,.f-head,.f-small{{fill:{ink}}}.f-muted{{fill:{muted}}}.f-axis{{stroke:{ink}}}"
        f".f-outline{{stroke:{'#ffcf33' if dark else ink}}}"
        f".f-thin{{stroke:{rule}}}.f-grid{{stroke:{grid}}}.f-paper{{fill:{paper}}}.f-hatching{{stroke:{muted}}}"
        f".f-quiet{{fill:{grid}}}{series}"
    )


LIGHT: Final = _rules("#1b1f24", "#57606a", "#aab3bc", "#e3e7eb", "#ffffff", False)
DARK: Final = _rules("#e6e9ec", "#a3adb8", "#5b6672", "#323a43", "#16191d", True)
STYLE: Final = (
    f"svg text{{font-family:{FONT}}}.f-text{{font-size:11px}}.f-small{{font-size:10px}}"
    ".f-muted{font-size:10px}.f-head{font-size:12px;font-weight:600}"
    ".f-axis{fill:none;stroke-width:1}.f-grid{fill:none;stroke-width:.7}.f-hatching{stroke-width:1.6}"
    ".f-outline{stroke-width:.9}.f-line{fill:none;stroke-width:1.8}.f-band{stroke:none;opacity:.17}"
    ".f-heavy{stroke-width:2.8}.f-thin{stroke-width:1}.f-hatch{fill:url(#hatch)}.f-map .f-hatch{fill:url(#hatch-map)}"
    f"{LIGHT}@media (prefers-color-scheme:dark){{{DARK}}}@media print{{{LIGHT}}}"
)
"""The style sheet of all figures; on paper they are light whatever the screen is."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing.

    Attributes:
        width: in pixels, as are all lengths.
        height: below which nothing is drawn.
        body: SVG elements.
        label: what a screen reader says.
    """

    width: float
    height: float
    body: str
    label: str


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels that belong together.

    Attributes:
        title: what is shown.
        caption: sentences a reader of the figure must know; may be empty.
        panels: at least one.
        suffix: what tells its file from other figures of the same table; empty for the only one.
    """

    title: str
    caption: str
    panels: tuple[Panel, ...]
    suffix: str = ""


def clean(text: str) -> str:
    """Return ``text`` escaped for XML and HTML, quotes included, without the characters that XML forbids."""
    return escape(_ILLEGAL.sub("\ufffd", text), quote=True)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, never as minus zero."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(tag: str, kind: str, content: str = "", **attributes: float | str) -> str:
    """Return one element of class ``kind``; ``content`` is SVG, ``stroke_width`` becomes ``stroke-width``."""
    said = "".join(
        f' {name.replace("_", "-")}="{number(value) if isinstance(value, int | float) else clean(value)}"'
        for name, value in attributes.items()
    )
    style = f' class="{kind}"' if kind else ""
    return f"<{tag}{style}{said}>{content}</{tag}>" if content else f"<{tag}{style}{said}/>"


def tip(text: str) -> str:
    """Return the words that appear over a shape."""
    return f"<title>{clean(text)}</title>"


def words(
    x: float, y: float, text: str, kind: str = "f-text", anchor: str = "start", **more: float | str
) -> str:
    """Return text with its base line at ``y``."""
    place = {"text_anchor": anchor} if anchor != "start" else {}
    return element("text", kind, clean(text), x=x, y=y, **place, **more)


def path(kind: str, points: Sequence[tuple[float, float]], *, close: bool = False, dash: str = "") -> str:
    """Return a line through ``points``."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    dashes = {"stroke_dasharray": dash} if dash else {}
    return element("path", kind, d=f"M{steps}{'Z' if close else ''}", **dashes)


def width_of(text: str, size: float = SIZE) -> float:
    """Return about how wide ``text`` is."""
    return CHARACTER * size * len(text)


def shortened(text: str, room: float, size: float = SIZE) -> str:
    """Return ``text``, or its beginning and an ellipsis where it is wider than ``room``."""
    most = max(1, math.floor(room / (CHARACTER * size)))
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(x: float, y: float, text: str, room: float, kind: str, size: float) -> str:
    """Return text that is shortened to ``room``, and then says the whole of it on being pointed at."""
    shown = shortened(text, room, size)
    return element("text", kind, clean(shown) + (tip(text) if shown != text else ""), x=x, y=y)


def inline(panel: Panel) -> str:
    """Return the panel for a page; it shrinks with its surroundings and grows by half at most."""
    box = f"0 0 {number(panel.width)} {number(panel.height)}"
    style = f"max-width:{number(panel.width * 1.35)}px"
    return element("svg", "figure", f"{tip(panel.label)}{panel.body}", viewBox=box, role="img", style=style)


def standalone(figure: Figure, footnote: str, row: int = 2) -> str:
    """Return the figure as a whole SVG file, ``row`` panels beside each other, with ``footnote`` below them."""
    margin, gap = 16.0, 18.0
    rows = [figure.panels[start : start + row] for start in range(0, len(figure.panels), row)]
    width = max(
        2 * margin + max(sum(panel.width for panel in each) + gap * (len(each) - 1) for each in rows), 360.0
    )
    room = width - 2 * margin
    y = margin
    parts: list[str] = []
    for text, kind, size in ((figure.title, "f-head", 12.0), (figure.caption, "f-small", 10.0)):
        for line in wrapped(text, room, size):
            y += size + 3
            parts.append(words(margin, y, line, kind))
    y += 8
    for each in rows:
        x = margin
        for panel in each:
            parts.append(f'<g transform="translate({number(x)} {number(y)})">{panel.body}</g>')
            x += panel.width + gap
        y += max(panel.height for panel in each) + gap
    for line in wrapped(footnote, room, 9.0):
        parts.append(words(margin, y, line, "f-muted", font_size=9))
        y += 12
    height = y + margin - 8
    paper = element("rect", "f-paper", width=width, height=height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img">{tip(figure.title)}'
        f"<style>{STYLE}</style>{DEFINITIONS}{paper}{''.join(parts)}</svg>\n"
    )


def wrapped(text: str, room: float, size: float) -> list[str]:
    """Return ``text`` in lines of about ``room``; a word that is wider alone is cut."""
    most = max(8, math.floor(room / (CHARACTER * size)))
    lines: list[str] = []
    for word in text.split():
        pieces = [word[start : start + most] for start in range(0, len(word), most)]
        for piece in pieces:
            if lines and len(lines[-1]) + 1 + len(piece) <= most and piece is pieces[0]:
                lines[-1] += f" {piece}"
            else:
                lines.append(piece)
    return lines
