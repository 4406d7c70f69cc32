"""One diverging colour scale for effects and correlations: blue below 0, red above, white at 0.

The colours are those of ColorBrewer's RdBu (Harrower and Brewer 2003, *The Cartographic Journal* 40, 27-37), which
readers with any common colour vision tell apart. The scale is symmetric about 0, so that equal sizes look equally strong
and white always means none.
"""

from typing import Final

from cohortsum.report.scales import MINUS
from cohortsum.report.svg import element, words

_STOPS: Final = (
    (0x21, 0x66, 0xAC),
    (0x67, 0xA9, 0xCF),
    (0xD1, 0xE5, 0xF0),
    (0xF7, 0xF7, 0xF7),
    (0xFD, 0xDB, 0xC7),
    (0xEF, 0x8A, 0x62),
    (0xB2, 0x18, 0x2B),
)


def diverging(value: float, end: float) -> str:
    """Return the colour of ``value`` on a scale from ``-end`` to ``end`` (greater than 0); outside, that of the nearer end."""
    place = (max(-1.0, min(1.0, value / end)) + 1.0) / 2.0 * (len(_STOPS) - 1)
    lower = min(int(place), len(_STOPS) - 2)
    share = place - lower
    mixed = (round(a + (b - a) * share) for a, b in zip(_STOPS[lower], _STOPS[lower + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def readable_on(value: float, end: float) -> str:
    """Return black or white, whichever is read better on the colour of ``value``."""
    return "#ffffff" if abs(value) > 0.82 * end else "#1b1f24"


def legend(x: float, y: float, width: float, end: float, name: str) -> str:
    """Return the scale as a strip with its ends, its middle and what it shows; 30 high."""
    steps = 41
    each = width / steps
    parts = [
        element(
            "rect",
            "",
            x=x + each * step,
            y=y,
            width=each + 0.3,
            height=9,
            fill=diverging(2 * end * (step / (steps - 1)) - end, end),
        )
        for step in range(steps)
    ]
    text = f"{end:.3g}"
    for place, label, anchor in ((0.0, MINUS + text, "start"), (0.5, "0", "middle"), (1.0, text, "end")):
        parts.append(words(x + width * place, y + 20, label, "f-small", anchor))
    parts.append(words(x + width / 2, y - 5, name, "f-small", "middle"))
    return "".join(parts)
