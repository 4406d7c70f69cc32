r"""read.R: every table of a release as a data frame of base R, each column with its type.

R guesses the types of a CSV file from what happens to be in it: a factor level ``007`` becomes 7, and a column in which
all was withheld becomes logical. The script names every file and every column instead. Numbers are ``numeric`` (doubles),
for R's integers end at 2^31. Names are opaque text, so they are written with ``\u`` escapes where they are not plain ASCII,
and `check.names = FALSE` keeps them as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cohortsum.report.tables import NUMBER_COLUMNS
from cohortsum.study.results import Table

_HEAD: Final = """\
# Reads every table of this release into the list `tables`, for example tables[[{example}]].
# Base R only. An empty cell becomes NA; the column `status` says why it is empty.
# Run it in the folder that holds it, or set `folder` first.

if (!exists("folder")) folder <- "."

read_one <- function(file, classes) {{
  utils::read.csv(file.path(folder, "results", file), col.names = names(classes), colClasses = unname(classes),
                  na.strings = "", check.names = FALSE, stringsAsFactors = FALSE, encoding = "UTF-8",
                  strip.white = FALSE, comment.char = "", quote = "\\"")
}}

tables <- list()
"""


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file of a release.

    Attributes:
        name: as in the folder ``results``.
        columns: in order, each with whether it holds numbers.
    """

    name: str
    columns: tuple[tuple[str, bool], ...]


def csv_of(table: Table) -> CsvFile:
    """Return the file of a table; a column of which every cell is absent has the type that its kind gives it."""
    known = NUMBER_COLUMNS.get(table.kind, frozenset[str]())
    columns: list[tuple[str, bool]] = []
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        texts = any(isinstance(cell, str) for cell in cells)
        numbers = any(isinstance(cell, int | float) for cell in cells)
        columns.append((name, not texts and (numbers or name in known)))
    return CsvFile(f"{table.analysis}.csv", tuple(columns))


def csv_named(name: str, columns: Sequence[str], numbers: Iterable[str]) -> CsvFile:
    """Return a file whose columns of numbers are known by name."""
    held = frozenset(numbers)
    return CsvFile(name, tuple((column, column in held) for column in columns))


def read_script(files: Sequence[CsvFile]) -> str:
    """Return the script."""
    example = files[0].name.removesuffix(".csv") if files else "demographics"
    parts = [_HEAD.format(example=_text(example))]
    for file in files:
        classes = ",\n".join(
            f"  {_text(name)} = {_text('numeric' if is_number else 'character')}"
            for name, is_number in file.columns
        )
        name = file.name.removesuffix(".csv")
        parts.append(f"tables[[{_text(name)}]] <- read_one({_text(file.name)}, c(\n{classes}\n))\n")
    return "\n".join(parts)


_ESCAPES: Final[Mapping[str, str]] = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _text(text: str) -> str:
    """Return a string of R in plain ASCII."""
    escaped = "".join(
        _ESCAPES.get(character) or (character if " " <= character <= "~" else f"\\U{{{ord(character):x}}}")
        for character in text
    )
    return f'"{escaped}"'
