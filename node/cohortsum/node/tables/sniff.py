"""Delimiter and column names, from the header line alone.

A tab decides at once, for no column name holds one; then the commoner of comma and semicolon; then runs of
blanks. Names are opaque text: only the blanks around them go, and a column without a name is called by its
place (``column_1``).
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.numbers import MISSING, NUMBER

Delimiter = Literal["\t", ",", ";", " "]
"""A blank stands for runs of blanks and tabs."""

BLANKS = " \t"
_RUN = re.compile("[ \t]+")
_QUOTED = re.compile('"[^"]*"')


@dataclass(frozen=True, slots=True)
class Facts:
    """What a table says about one of its columns by itself; node.yaml has the last word.

    Attributes:
        origin: who says so, for messages: ``the format``, or a sidecar's name.
        unit: the unit of the values; None where nothing is known.
        levels: the meaning of every code; None where nothing is known.
    """

    origin: str
    unit: str | None = None
    levels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header line says, or whatever stands in its place.

    Attributes:
        delimiter: what stands between two fields; None where a database gives the cells.
        names: one name per column, blanks stripped, never empty; may repeat.
        header: whether the first line with content holds the names.
        numeric: whether every cell but the first must be a number or a missing code.
        facts: what is known of columns, by place (from 0).
    """

    delimiter: Delimiter | None
    names: tuple[str, ...]
    header: bool = True
    numeric: bool = False
    facts: Mapping[int, Facts] = field(default_factory=dict[int, Facts])


def sniff(rows: Iterable[str], file: str) -> Layout:
    """Return the layout, taking the header line (the first with content) from ``rows``; raises DataError."""
    header = first_line(rows, file)
    delimiter = delimiter_of(header)
    names = split(header, delimiter)
    if names is None:
        raise DataError(f"{file}: the quotes in the header line do not close; repair the header")
    names = [name.strip(BLANKS) for name in names]
    if len(names) > 1 and all(NUMBER.fullmatch(name) or name in MISSING for name in names[1:]):
        raise DataError(
            f"{file}: the first line holds numbers, not names; add a header line (only an IDPs.txt of the BRC"
            " pipeline is read without one: format: brc)"
        )
    return Layout(delimiter, tuple(name or f"column_{place}" for place, name in enumerate(names, start=1)))


def first_line(rows: Iterable[str], file: str) -> str:
    """Return the first line with content; raises DataError where there is none."""
    line = next((line for line in rows if line.strip(BLANKS)), None)
    if line is None:
        raise DataError(f"{file}: the table is empty; expected a header line and one row per person")
    return line


def split(line: str, delimiter: Delimiter) -> list[str] | None:
    """Return the fields of ``line`` without their double quotes, or None where a quote does not close in it.

    A field spanning lines is not accepted: one stray quote would swallow rows without a trace.
    """
    if delimiter == " ":
        line = line.strip(BLANKS)
        if "\t" in line or "  " in line:
            line = _RUN.sub(" ", line)
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(_strict_csv(line, delimiter))
    except csv.Error:
        return None


def _strict_csv(line: str, delimiter: Delimiter) -> Iterator[list[str]]:
    return csv.reader([line], delimiter=delimiter, strict=True)


def delimiter_of(header: str) -> Delimiter:
    """Return what stands between the fields of ``header``."""
    bare = _QUOTED.sub("", header)
    if "\t" in bare:
        return "\t"
    if "," in bare or ";" in bare:
        return ";" if bare.count(";") > bare.count(",") else ","
    return " " if " " in bare.strip() else ","
