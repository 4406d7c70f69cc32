"""Rows of a wide table, put together from readings of some columns at a time.

A store of columns gives rows in blocks: every column of a block is decoded before its first row is whole, so thousands of
columns need gigabytes. Read in parts of some columns, each part row by row into a file of its own, they need none of it:
the files are then read side by side. Every part repeats the cells that a row is known by, and a row whose parts disagree on
them ends the reading, because values of two people would have met.
"""

import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.filter import CELL_SEPARATOR

COLUMNS = 64
"""Most columns in one reading."""

_LENGTH = struct.Struct("<q")
_BROKEN = -1

Rows = Iterator[tuple[str, Sequence[str] | None]]


def in_parts(places: Sequence[int]) -> list[Sequence[int]]:
    """Return ``places`` in groups of at most ``COLUMNS``; at least one group."""
    return [places[start : start + COLUMNS] for start in range(0, len(places), COLUMNS)] or [places]


def store_part(rows: Rows, path: Path) -> None:
    """Write rows to a new file; a row with a separator in a cell becomes a broken one."""
    with path.open("xb") as out:
        for _, cells in rows:
            text = None if cells is None else CELL_SEPARATOR.join(cells)
            if cells is None or text is None or text.count(CELL_SEPARATOR) != len(cells) - 1:
                out.write(_LENGTH.pack(_BROKEN))
                continue
            told = text.encode("utf-8", "surrogatepass")
            out.write(_LENGTH.pack(len(told)) + told)


@contextmanager
def together(paths: Sequence[Path], key: int, label: str) -> Generator[Rows]:
    """Give the rows that the parts in ``paths`` make: the first ``key`` cells once, and then the others of every part.

    Raises DataError where parts have other rows than each other.
    """
    with ExitStack() as stack:
        yield _joined([stack.enter_context(path.open("rb")) for path in paths], key, label)


def _joined(handles: Sequence[BinaryIO], key: int, label: str) -> Rows:
    rows = [_stored(handle) for handle in handles]
    number = 0
    while True:
        number += 1
        parts = [next(part, ()) for part in rows]
        if all(part == () for part in parts):
            return
        whole = [part for part in parts if part is not None]
        if any(part[:key] != whole[0][:key] for part in whole):
            raise DataError(
                f"{label}: its rows came in another order when it was read again; make the view a table, or order it"
            )
        if len(whole) < len(parts):
            yield str(number), None
        else:
            yield str(number), [*whole[0][:key], *(cell for part in whole for cell in part[key:])]


def _stored(handle: BinaryIO) -> Iterator[Sequence[str] | None]:
    while head := handle.read(_LENGTH.size):
        (length,) = _LENGTH.unpack(head)
        yield (
            None
            if length == _BROKEN
            else handle.read(length).decode("utf-8", "surrogatepass").split(CELL_SEPARATOR)
        )
