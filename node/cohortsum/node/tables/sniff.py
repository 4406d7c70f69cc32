"""Delimiter and column names, from the header line alone.

A tab decides at once, for no column name holds one; then the commoner of comma and semicolon; then runs of
blanks. Names are opaque text: only the blanks around them go, and a column without a name is called by its
place (``column_1``).
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.numbers import MISSING, NUMBER

Delimiter = Literal["\t", ",", ";", " "]
"""A blank stands for runs of blanks and tabs."""

BLANKS = " \t"
_RUN = re.compile("[ \t]+")
_QUOTED = re.compile('"[^"]*"')


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header line says.

    Attributes:
        delimiter: what stands between two fields.
        names: one name per column, blanks stripped, never empty; may repeat.
    """

    delimiter: Delimiter
    names: tuple[str, ...]


def sniff(rows: Iterable[str], file: str) -> Layout:
    """Return the layout, taking the header line (the first with content) from ``rows``; raises DataError."""
    header = next((line for line in rows if line.strip(BLANKS)), None)
    if header is None:
        raise DataError(f"{file}: the table is empty; expected a header line and one row per person")
    delimiter = _delimiter(header)
    names = split(header, delimiter)
    if names is None:
        raise DataError(f"{file}: the quotes in the header line do not close; repair the header")
    names = [name.strip(BLANKS) for name in names]
    if len(names) > 1 and all(NUMBER.fullmatch(name) or name in MISSING for name in names[1:]):
        raise DataError(
            f"{file}: the first line holds numbers, not names; add a header line"
            " (headerless tables: not in this version)"
        )
    return Layout(delimiter, tuple(name or f"column_{place}" for place, name in enumerate(names, start=1)))


def split(line: str, delimiter: Delimiter) -> list[str] | None:
    """Return the fields of ``line`` without their double quotes, or None where a quote does not close in it.

    A field spanning lines is not accepted: one stray quote would swallow rows without a trace.
    """
    if delimiter == " ":
        line = _RUN.sub(" ", line.strip(BLANKS))
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(_strict_csv(line, delimiter))
    except csv.Error:
        return None


def _strict_csv(line: str, delimiter: Delimiter) -> Iterator[list[str]]:
    return csv.reader([line], delimiter=delimiter, strict=True)


def _delimiter(header: str) -> Delimiter:
    bare = _QUOTED.sub("", header)
    if "\t" in bare:
        return "\t"
    if "," in bare or ";" in bare:
        return ";" if bare.count(";") > bare.count(",") else ","
    return " " if " " in bare.strip() else ","
