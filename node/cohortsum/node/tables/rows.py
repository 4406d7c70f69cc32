"""Every row is checked before anything else reads it: one field per name in the header, quotes that close.

Values are never shifted: a row of another length is broken, and a broken row keeps the table out, unless the
site says ``broken_rows: reject``; then it is dropped and counted. What passes is written in one plain form:
the id untouched, the visit, and the wanted cells (without blanks around them) in one text.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.filter import CELL_SEPARATOR
from cohortsum.node.tables.sniff import BLANKS, Layout, split

_SHOWN = 5
"""How many line numbers an error names."""


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
        first_broken: line numbers of the first broken ones.
        longest: bytes of the longest row as written.
        one_too_many: every broken row has one field more than the header: the mark of row names without a
        header.
    """

    good: int = 0
    broken: int = 0
    first_broken: tuple[int, ...] = ()
    longest: int = 0
    one_too_many: bool = True


def copy_rows(numbered: Iterable[tuple[int, str]], layout: Layout, wanted: Wanted, out: TextIO) -> RowCount:
    """Write the sound rows among ``numbered`` (line number, line) to ``out`` and return the counts.

    A line with nothing but blanks and delimiters is no row.
    """
    count = RowCount()
    columns, delimiter = len(layout.names), layout.delimiter
    empty = BLANKS + delimiter
    write = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    for number, line in numbered:
        if not line.strip(empty):
            continue
        fields = split(line, delimiter)
        if fields is None or len(fields) != columns:
            count.broken += 1
            count.one_too_many &= fields is not None and len(fields) == columns + 1
            if len(count.first_broken) < _SHOWN:
                count.first_broken += (number,)
            continue
        count.good += 1
        visit = "" if wanted.visit is None else fields[wanted.visit].strip(BLANKS)
        cells = CELL_SEPARATOR.join([fields[place].strip(BLANKS) for place in wanted.cells])
        length = write((fields[wanted.id], visit, cells))
        count.longest = max(count.longest, length if line.isascii() else 4 * length)
    return count


def require_sound(count: RowCount, layout: Layout, file: str, *, reject_broken: bool) -> None:
    """Raise DataError for broken rows (unless they are to be rejected) and for a table without rows."""
    if count.broken and not reject_broken:
        cure = (
            "the header lacks a name for the first column: add it"
            if count.one_too_many
            else "repair them, or set broken_rows: reject for this table in node.yaml"
        )
        raise DataError(
            f"{file}: {count.broken} of {count.good + count.broken} rows are broken: expected"
            f" {len(layout.names)} fields and quotes closed in the line, first at line"
            f" {', '.join(map(str, count.first_broken))}; {cure}"
        )
    if not count.good:
        raise DataError(f"{file}: 0 rows below the header; expected one row per person, so supply the rows")
