"""What a run looks like while it runs: a live table on a terminal, plain lines elsewhere, JSON lines on request.

Progress is made of ids, steps and counts of sites; no data-dependent number is in it.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

Event = Mapping[str, object]

STEP_OF_MESSAGE = {
    "ADVERT": "R0 advertise",
    "SHARES": "R1 share keys",
    "MASKED": "R2 masked input",
    "CONSISTENCY": "R3 consistency",
    "GATE_SHARES": "R4a open gate",
    "DATA_SHARES": "R4b open data",
}
STEPS = tuple(STEP_OF_MESSAGE.values())


@dataclass
class Picture:
    """The state of a run as its events tell it."""

    sites: int
    answered: int = 0
    taking_part: int = 0
    attempt: int = 0
    numbers: int = 0
    step: str = ""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    refused: int = 0
    last: str = "the sites start and read their tables"

    def take(self, event: Event) -> str | None:
        """Note an event; return the sentence it is worth, if any."""
        match event.get("event"):
            case "study.answer":
                self.answered += 1
                self.taking_part += bool(event["taking_part"])
                if not event["taking_part"]:
                    return f"site {event['site']}: not taking part"
                return None
            case "round.open":
                self.attempt, self.numbers = int(str(event["attempt"])), int(str(event["numbers"]))
                self.counts = {}
                return f"{which(event)}: {event['sites']} sites, {self.numbers} numbers from each"
            case "round.step":
                self.step = str(event["step"])
                return f"step {self.step}"
            case "round.message":
                step = STEP_OF_MESSAGE.get(str(event["kind"]))
                if step is not None:
                    self.counts[step] = self.counts.get(step, 0) + 1
                return None
            case "round.deadline":
                return f"step {event['step']}: the deadline has passed"
            case "round.refused":
                self.refused += 1
                return f"refused: {event['sentence']}"
            case "round.aborted":
                return f"{which(event)} ended without a result: {event['reason']}"
            case "round.opened":
                return f"the sum over {event['sites']} sites is open"
            case _:
                return None


def which(event: Event) -> str:
    """Return which attempt an event is about; the first round of a study is not told from the only one."""
    iteration = int(str(event.get("iteration", 1)))
    attempt = f"attempt {event['attempt']}"
    return attempt if iteration == 1 else f"iteration {iteration}, {attempt}"


class Progress(Protocol):
    """Shows events as they come."""

    def __enter__(self) -> "Progress":
        """Begin to show."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop showing."""
        ...

    def take(self, event: Event) -> None:
        """Show one event."""
        ...


class LiveProgress:
    """A table that is redrawn in place.

    Args:
        console: where to draw.
        sites: how many there are.
    """

    def __init__(self, console: Console, sites: int) -> None:
        self._picture = Picture(sites)
        self._began = time.monotonic()
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw, transient=True)

    def __enter__(self) -> "LiveProgress":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def take(self, event: Event) -> None:
        """Show one event."""
        sentence = self._picture.take(event)
        if sentence is not None:
            self._picture.last = sentence

    def _draw(self) -> Group:
        picture = self._picture
        table = Table.grid(padding=(0, 2))
        table.add_row("answers", *self._bar(picture.answered, picture.sites))
        for step in STEPS if picture.attempt else ():
            style = "bold" if step == picture.step else "dim"
            table.add_row(
                Text(step, style=style), *self._bar(picture.counts.get(step, 0), picture.taking_part)
            )
        seconds = int(time.monotonic() - self._began)
        return Group(table, Text(f"{seconds} s  {picture.last}", style="dim"))

    @staticmethod
    def _bar(done: int, of: int) -> tuple[ProgressBar, Text]:
        return ProgressBar(total=max(of, 1), completed=done, width=30), Text(f"{done} of {of} sites")


class PlainProgress:
    """One line per step.

    Args:
        write: takes a line.
        sites: how many there are.
    """

    def __init__(self, write: Callable[[str], None], sites: int) -> None:
        self._picture, self._write = Picture(sites), write

    def __enter__(self) -> "PlainProgress":
        self._write(f"starting {self._picture.sites} sites")
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def take(self, event: Event) -> None:
        """Show one event."""
        sentence = self._picture.take(event)
        if sentence is not None:
            self._write(sentence)


class JsonProgress:
    """Every event as one JSON line on standard output."""

    def __enter__(self) -> "JsonProgress":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def take(self, event: Event) -> None:
        """Show one event."""
        sys.stdout.write(json.dumps(dict(event)) + "\n")
        sys.stdout.flush()
