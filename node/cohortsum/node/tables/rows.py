"""Every row is checked before anything else reads it: one field per name in the header, quotes that close.

Values are never shifted: a row of another length is broken, and a broken row keeps the table out, unless the
site says ``broken_rows: reject``; then it is dropped and counted. What passes is written in one plain form:
the id untouched, the visit, and beside them the wanted cells (without blanks around them) in one text.
"""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Self

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.filter import CELL_SEPARATOR
from cohortsum.node.tables.numbers import MISSING, plain_numbers
from cohortsum.node.tables.sniff import BLANKS, Layout, split

_SHOWN = 5
"""How many line numbers an error names."""

_LINE_END_OR_CONTROL = re.compile("[\0\r\n" + CELL_SEPARATOR + "]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which fields of a row are kept, by place (from 0)."""

    id: int
    visit: int | None
    cells: Sequence[int]


@dataclass(slots=True)
class RowCount:
    """How many rows a table has, and what the reports about them need.

    Attributes:
        good: rows that were written.
        broken: rows that were not.
        first_broken: where the first broken ones stand: line numbers, with a file's name where there are several.
        longest: bytes of the longest row as written.
        one_too_many: every broken row has one field more than the header: the mark of row names without a
        header.
    """

    good: int = 0
    broken: int = 0
    first_broken: tuple[str, ...] = ()
    longest: int = 0
    one_too_many: bool = True

    def refuse(self, place: str, *, one_too_many: bool) -> None:
        """Count a broken row."""
        self.broken += 1
        self.one_too_many &= one_too_many
        if len(self.first_broken) < _SHOWN:
            self.first_broken += (place,)


class RowFile:
    """The private copy of a table: a line per row with id, visit and where its cells lie, and a file of the cells.

    The cells of a row are one text, so neither time nor memory of what is done with ids depends on how wide the
    table is.
    """

    __slots__ = ("_at", "_cells", "_handle", "_write")

    def __init__(self, target: Path) -> None:
        self._handle = target.open("x", encoding="utf-8", newline="\n")
        self._cells = cells_beside(target).open("xb")
        self._write = csv.writer(self._handle, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()
        self._cells.close()

    def add(self, person: str, visit: str, cells: str) -> int:
        """Write one row, and return an upper bound of the bytes of its line."""
        told = cells.encode("utf-8", "surrogatepass")
        length = int(self._write((person, visit, self._at, len(told))))
        self._cells.write(told)
        self._at += len(told)
        return length if person.isascii() and visit.isascii() else 4 * length


def cells_beside(target: Path) -> Path:
    """Return where the cells lie that belong to the rows in ``target``."""
    return target.with_suffix(".cells")


def fields_of(
    numbered: Iterable[tuple[int, str]], layout: Layout, codes: Collection[str] = ()
) -> Iterator[tuple[str, Sequence[str] | None]]:
    """Yield line number and fields of every row; no fields (None) where quotes do not close.

    A line with nothing but blanks and delimiters is no row. Where the layout is ``numeric``, there are no fields
    either if one after the first is neither a number nor a missing code (one of ``codes`` beside the built-in
    ones): text among numbers is the mark of a row whose values have shifted.
    """
    delimiter = layout.delimiter
    assert delimiter is not None, "a table of lines has a delimiter"  # noqa: S101 - databases have no lines
    empty = BLANKS + delimiter
    missing = MISSING | frozenset(codes)
    for number, line in numbered:
        if line.strip(empty):
            fields = split(line, delimiter)
            if fields is not None and layout.numeric and not _numbers(fields[1:], missing):
                fields = None
            yield str(number), fields


def write_rows(
    rows: Iterable[tuple[str, Sequence[str] | None]], columns: int, wanted: Wanted, target: Path
) -> RowCount:
    """Write the sound ones among ``rows`` (where, cells) to a `RowFile` at ``target`` and return the counts.

    A row is broken that has no cells (None), another number of cells than ``columns``, or a line end or
    control character in a cell that is wanted.
    """
    count = RowCount()
    choose, separators = _chooser(wanted.cells), max(0, len(wanted.cells) - 1)
    with RowFile(target) as out:
        for place, fields in rows:
            if fields is None or len(fields) != columns:
                count.refuse(place, one_too_many=fields is not None and len(fields) == columns + 1)
                continue
            person, text = fields[wanted.id], CELL_SEPARATOR.join(choose(fields))
            visit = "" if wanted.visit is None else fields[wanted.visit].strip(BLANKS)
            if text.count(CELL_SEPARATOR) != separators or _has_control(person, visit, text):
                count.refuse(place, one_too_many=False)
                continue
            if " " in text or "\t" in text:
                text = CELL_SEPARATOR.join([cell.strip(BLANKS) for cell in text.split(CELL_SEPARATOR)])
            count.good += 1
            count.longest = max(count.longest, out.add(person, visit, text))
    return count


def _chooser(places: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return what takes the cells at ``places`` out of a row."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda fields: [fields[place] for place in places]


def _has_control(person: str, visit: str, text: str) -> bool:
    """Return whether a line end or control character stands in an id, a visit, or joined cells."""
    if _LINE_END_OR_CONTROL.search(person) or _LINE_END_OR_CONTROL.search(visit):
        return True
    return "\n" in text or "\r" in text or "\0" in text


def _numbers(cells: Sequence[str], missing: Collection[str]) -> bool:
    """Return whether every cell is a number or a missing code."""
    texts = [cell for cell in cells if cell not in missing]
    return plain_numbers(texts) is not None


def require_sound(count: RowCount, layout: Layout, file: str, *, reject_broken: bool) -> None:
    """Raise DataError for broken rows (unless they are to be rejected) and for a table without rows."""
    if count.broken and not reject_broken:
        listed = ", ".join(count.first_broken)
        raise DataError(
            f"{file}: {count.broken} of {count.good + count.broken} rows are broken: expected"
            f" {_expected(layout)}, first at {'row' if layout.delimiter is None else 'line'} {listed};"
            f" {_cure(count, layout)}"
        )
    if not count.good:
        below = "rows below the header" if layout.header and layout.delimiter is not None else "rows"
        raise DataError(f"{file}: 0 {below}; expected one row per person, so supply the rows")


def _expected(layout: Layout) -> str:
    if layout.delimiter is None:
        return "cells without line ends and control characters"
    numbers = ", a number or a missing code in every field but the first" if layout.numeric else ""
    return f"{len(layout.names)} fields and quotes closed in the line{numbers}"


def _cure(count: RowCount, layout: Layout) -> str:
    if count.one_too_many and layout.header and layout.delimiter is not None:
        return "the header lacks a name for the first column: add it"
    return "repair them, or set broken_rows: reject for this table in node.yaml"
