"""Looking for what was planted in everything that was written: files as bytes, and databases also cell by cell."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

from tests.leaks.planted import Needle, pattern

SQLITE = b"SQLite format 3\0"


def places_in(folder: Path, without: Iterable[Path] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield every file below a folder, and the cells of every table of a database, each with its name.

    Args:
        folder: where to look, hidden files too.
        without: files that hold what is planted because they are where it was planted.
    """
    left_out = set(without)
    for path in sorted(folder.rglob("*")):
        if path in left_out or not path.is_file():
            continue
        name, data = str(path.relative_to(folder)), path.read_bytes()
        yield f"the name of {name}", name.encode()
        yield name, data
        if data.startswith(SQLITE):
            yield from ((f"{name}, table {table}", cells) for table, cells in tables_in(path))


def tables_in(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and all cells of every table of a SQLite file, one cell per line."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            rows = database.execute(f'SELECT * FROM "{name}"')  # noqa: S608  a name from the file's own list
            yield name, b"\n".join(as_bytes(cell) for row in rows for cell in row)


def as_bytes(cell: object) -> bytes:
    """Return a cell as it is, or as text."""
    return cell if isinstance(cell, bytes) else str(cell).encode()


class Search:
    """Finds any of many needles: the first three bytes of all of them are looked up at every place at once."""

    def __init__(self, needles: Iterable[Needle]) -> None:
        self._begins: dict[bytes, list[tuple[Needle, re.Pattern[bytes] | None]]] = {}
        for needle in needles:
            alone = pattern(needle) if needle.alone else None
            self._begins.setdefault(needle.form[:3], []).append((needle, alone))
        self._table = np.zeros(2**24, dtype=np.bool_)
        self._table[[int.from_bytes(begin, "big") for begin in self._begins]] = True

    def labels(self, data: bytes) -> set[str]:
        """Return the labels of the needles that are in ``data``."""
        if len(data) < 3:
            return set()
        codes = np.frombuffer(data, np.uint8).astype(np.uint32)
        likely = np.flatnonzero(self._table[(codes[:-2] << 16) + (codes[1:-1] << 8) + codes[2:]])
        return {
            needle.label
            for place in likely.tolist()
            for needle, alone in self._begins[data[place : place + 3]]
            if data.startswith(needle.form, place) and (alone is None or alone.search(data))
        }


def found(places: Iterable[tuple[str, bytes]], needles: Iterable[Needle]) -> Mapping[str, set[str]]:
    """Return which needles are in which places; empty if none is anywhere."""
    search = Search(needles)
    return {name: labels for name, data in places if (labels := search.labels(data))}
