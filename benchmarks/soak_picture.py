"""The picture of a soak: rounds that opened and that were aborted, and every fault, over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OPENED, ABORTED, FAULT = "#1b6e53", "#b5482a", "#33415c"


@dataclass(frozen=True, slots=True)
class Moments:
    """Seconds from the beginning: of rounds that opened, of rounds that were aborted, and of faults by kind."""

    opened: Sequence[float]
    aborted: Sequence[float]
    faults: Mapping[str, Sequence[float]]


def draw(moments: Moments, path: Path) -> None:
    """Write the picture as PNG."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.2))
    for ends, label, colour in (
        (moments.opened, "rounds opened", OPENED),
        (moments.aborted, "rounds aborted", ABORTED),
    ):
        minutes = [0.0, *(end / 60 for end in ends)]
        above.step(minutes, range(len(minutes)), where="post", label=f"{label}: {len(ends)}", color=colour)
    above.set_ylabel("rounds so far")
    above.legend(loc="upper left", frameon=False)
    kinds = sorted(moments.faults, key=lambda kind: -len(moments.faults[kind]))
    below.eventplot(
        [[at / 60 for at in moments.faults[kind]] for kind in kinds] or [[]],
        lineoffsets=range(max(len(kinds), 1)),
        linelengths=0.7,
        linewidths=1.2,
        colors=FAULT,
    )
    below.set_yticks(range(len(kinds)), [f"{kind} ({len(moments.faults[kind])})" for kind in kinds])
    below.invert_yaxis()
    below.set_xlabel("minutes")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
