"""All problems of a study file at once, each with its line, field, expectation and cure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cohortsum.crypto.errors import ExpressionError, StudyFileError

MOST = 100
"""Problems that are listed: a person corrects some and reads on, and a hostile file costs no more than these."""
Path = tuple[str | int, ...]
"""Keys and positions from the top of a file to a field."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and the line of every field in it; canonical bytes have no lines."""

    source: str
    lines: Mapping[Path, int]

    def of(self, path: Path) -> str:
        """Return ``file:line: field``, with the line of the nearest enclosing field that exists."""
        known = next((path[:size] for size in range(len(path), -1, -1) if path[:size] in self.lines), None)
        where = self.source if known is None else f"{self.source}:{self.lines[known]}"
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        return f"{where}: {dotted}" if dotted else where


@dataclass(slots=True)
class Problems:
    """Collects what is wrong, so that one run shows everything."""

    place: Place
    found: list[str] = field(default_factory=list[str])
    only_expressions: bool = True

    def add(self, path: Path, message: str, *, expression: bool = False) -> None:
        """Note that the field at ``path`` is wrong; ``message`` ends with the cure. Raises as `raise_if_any` after `MOST`."""
        self.found.append(f"{self.place.of(path)}: {message}")
        self.only_expressions &= expression
        if len(self.found) == MOST:
            self.found.append(f"{self.place.source}: and perhaps more; correct these first")
            self.raise_if_any()

    def add_expression(self, path: Path, error: ExpressionError) -> None:
        """Note that the expression at ``path`` lies outside the grammar."""
        self.add(path, error.message, expression=True)

    def raise_if_any(self) -> None:
        """Raise StudyFileError listing every problem, or ExpressionError where all of them are expressions."""
        if self.found:
            raise (ExpressionError if self.only_expressions else StudyFileError)("\n".join(self.found))
