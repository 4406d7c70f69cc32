# ruff: noqa: S608  identifiers in SQL are made here (c0), or quoted names from node.yaml; no value is spliced in
"""What Parquet files and DuckDB databases have in common: DuckDB reads them, and every cell becomes text.

The file is copied into the private folder while it is hashed, and read there: rows and hash belong to one state of it,
and nothing that happens to the original meanwhile is seen. Columns are addressed by place, so no name that stands in a
file becomes part of a query. Numbers come as the shortest decimal text that gives the same double back; a missing
value is the empty text.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import duckdb

from cohortsum.crypto.errors import DataError, cannot_be_read
from cohortsum.node.tables.parts import Rows, in_parts, store_part, together
from cohortsum.node.tables.rows import RowCount, Wanted, write_rows
from cohortsum.node.tables.sniff import BLANKS, Layout

_CHUNK = 2**20
_CELLS = 2**18
"""Most cells in memory at once."""

_FLOATS = frozenset(("FLOAT", "DOUBLE"))
_WHOLE = frozenset(
    (
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "HUGEINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "UHUGEINT",
    )
)
_PLAIN = _WHOLE | {
    "VARCHAR",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "UUID",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """The columns of a table.

    Attributes:
        names: one per column, as the file spells them.
        types: DuckDB's name of the type of each.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DuckFile(ABC):
    """A binary file of the site.

    Attributes:
        what: how messages call it.
        path: where it lies; messages name the last part only.
    """

    what: str
    path: Path

    @property
    def label(self) -> str:
        """What and file name, as messages begin."""
        return f"{self.what} ({self.path.name})"

    def layout(self) -> Layout:
        """Return the names of the columns; raises DataError."""
        with self._opened(self.path) as connection:
            return _layout(self._columns(connection, self.path))

    def digest(self) -> bytes:
        """Return the hash of the bytes as they lie on disk."""
        return self._hashed(None)

    def has_rows(self) -> bool:
        """Return whether the table has a row."""
        with self._opened(self.path) as connection:
            width = len(self._columns(connection, self.path).names)
            relation, values = self._relation(width, self.path)
            return bool(fetched(self.label, connection, f"SELECT 1 FROM {relation} LIMIT 1", values))

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to ``target``; return row counts and the file's hash."""
        private = target.with_suffix(".copy")
        with self._opened(self.path):  # a database that is open here is not open for writing elsewhere
            digest = self._hashed(private)
        key = [wanted.id] if wanted.visit is None else [wanted.id, wanted.visit]
        parts = [target.with_suffix(f".part{n}") for n, _ in enumerate(in_parts(wanted.cells))]
        try:
            with self._opened(private) as connection:
                columns = self._columns(connection, private)
                if _layout(columns) != layout:
                    raise DataError(f"{self.label}: changed while it was read; try again")
                for part, places in zip(parts, in_parts(wanted.cells), strict=True):
                    store_part(self._rows(connection, columns, [*key, *places], private), part)
            private.unlink()
            width = len(key) + len(wanted.cells)
            moved = Wanted(0, None if wanted.visit is None else 1, range(len(key), width))
            with together(parts, len(key), self.label) as rows:
                return write_rows(rows, width, moved, target), digest
        finally:
            for path in (private, *parts):
                path.unlink(missing_ok=True)

    @abstractmethod
    def _opened(self, path: Path) -> duckdb.DuckDBPyConnection:
        """Return a connection that can read the file at ``path`` and nothing else is done with."""

    @abstractmethod
    def _columns(self, connection: duckdb.DuckDBPyConnection, path: Path) -> Typed:
        """Return the columns of the table; raises DataError."""

    @abstractmethod
    def _relation(self, width: int, path: Path) -> tuple[str, list[object]]:
        """Return what stands after FROM, with columns called c0, c1, ..., and the values of its parameters."""

    def _rows(
        self, connection: duckdb.DuckDBPyConnection, columns: Typed, places: Sequence[int], path: Path
    ) -> Rows:
        """Yield number and cells of every row: the columns at ``places``, the first of them the id."""
        cells = [self._text(columns, place, is_id=place == places[0]) for place in places]
        relation, values = self._relation(len(columns.names), path)
        sql = f"SELECT {', '.join(cells)} FROM {relation}"
        cursor = _executed(self.label, connection, sql, values)
        number = 0
        while rows := _next_rows(self.label, cursor, max(1, _CELLS // len(places))):
            for row in rows:
                number += 1
                yield str(number), row

    def _text(self, columns: Typed, place: int, *, is_id: bool) -> str:
        kind, name = columns.types[place], columns.names[place]
        if kind in _FLOATS and is_id:
            raise DataError(
                f"{self.label}, column {name}: floating-point numbers, expected ids as text or whole numbers: 7 would"
                " be 7.0; store them as text"
            )
        if kind in _FLOATS:  # a single is widened first: its exact value counts, not its shortest spelling
            return f"coalesce(CAST(CAST(c{place} AS DOUBLE) AS VARCHAR), '')"
        nested = kind.endswith("]")
        if kind in _PLAIN or (kind.startswith(("DECIMAL(", "ENUM(", "TIMESTAMP WITH")) and not nested):
            return f"coalesce(CAST(c{place} AS VARCHAR), '')"
        raise DataError(
            f"{self.label}, column {name}: holds values of type {kind.split('(')[0]}, expected numbers or text;"
            " store it as such"
        )

    def _hashed(self, copy: Path | None) -> bytes:
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as handle:
                out = None if copy is None else copy.open("xb")
                try:
                    while chunk := handle.read(_CHUNK):
                        digest.update(chunk)
                        if out is not None:
                            out.write(chunk)
                finally:
                    if out is not None:
                        out.close()
        except OSError as error:
            raise DataError(cannot_be_read(self.label, error)) from None
        return digest.digest()


def _layout(columns: Typed) -> Layout:
    names = (name.strip(BLANKS) for name in columns.names)
    return Layout(None, tuple(name or f"column_{place}" for place, name in enumerate(names, start=1)))


def places_of(width: int) -> str:
    """Return the names c0, c1, ... of so many columns."""
    return ", ".join(f"c{place}" for place in range(width))


def connected(label: str, path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database file, or to nothing (``:memory:``); raises DataError."""
    try:
        return duckdb.connect(
            path,
            read_only=read_only,
            config={
                "memory_limit": "512MB",
                "threads": 1,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "enable_external_access": not read_only,  # a view could reach out of a database file
            },
        )
    except duckdb.Error as error:  # its message quotes paths and processes
        kind = type(error).__name__
    raise DataError(
        f"{label}: not a DuckDB database that can be opened ({kind}); close programs that write to it, and check that"
        " a version of DuckDB wrote it that is not newer than this one"
    )


def _executed(
    label: str, connection: duckdb.DuckDBPyConnection, sql: str, values: list[object]
) -> duckdb.DuckDBPyConnection:
    try:
        return connection.execute(sql, values)
    except duckdb.Error as error:  # its message may quote a value
        kind = type(error).__name__
    raise DataError(f"{label}: DuckDB cannot read it ({kind}); {_anew(kind)}")


def _next_rows(label: str, cursor: duckdb.DuckDBPyConnection, most: int) -> list[tuple[str, ...]]:
    try:
        return cast("list[tuple[str, ...]]", cursor.fetchmany(most))
    except duckdb.Error as error:
        kind = type(error).__name__
    raise DataError(f"{label}: DuckDB cannot read it to its end ({kind}); {_anew(kind)}")


def _anew(kind: str) -> str:
    return f"write the file anew{', with smaller row groups' if kind == 'OutOfMemoryException' else ''}"


def fetched(
    label: str, connection: duckdb.DuckDBPyConnection, sql: str, values: list[object]
) -> list[tuple[object, ...]]:
    """Return all rows of a query; raises DataError, which quotes nothing."""
    cursor = _executed(label, connection, sql, values)
    return cast("list[tuple[object, ...]]", cursor.fetchall())
