# ruff: noqa: S608  identifiers in SQL are made here (c0), or quoted names from node.yaml; no value is spliced in
"""A Parquet file, or a table of a DuckDB database: DuckDB reads it, and every cell becomes text.

The file is copied into the private folder while it is hashed, and read there: rows and hash belong to one state of it,
and nothing that happens to the original meanwhile is seen. Columns are addressed by place, so no name that stands in a
file becomes part of a query. Numbers come as the shortest decimal text that gives the same double back; a missing
value is the empty text.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import duckdb

from cohortsum.crypto.errors import DataError, cannot_be_read
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
            return bool(_fetched(self.label, connection, f"SELECT 1 FROM {relation} LIMIT 1", values))

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to ``target``; return row counts and the file's hash."""
        private = target.with_suffix(".copy")
        with self._opened(
            self.path
        ):  # a DuckDB file that is open here cannot be opened for writing elsewhere
            digest = self._hashed(private)
        try:
            with self._opened(private) as connection:
                columns = self._columns(connection, private)
                if _layout(columns) != layout:
                    raise DataError(f"{self.label}: changed while it was read; try again")
                places = [wanted.id, *(() if wanted.visit is None else (wanted.visit,)), *wanted.cells]
                cells = [self._text(columns, place, is_id=place == wanted.id) for place in places]
                relation, values = self._relation(len(columns.names), private)
                rows = self._rows(
                    connection, f"SELECT {', '.join(cells)} FROM {relation}", values, len(cells)
                )
                moved = Wanted(
                    0,
                    None if wanted.visit is None else 1,
                    range(len(places) - len(wanted.cells), len(places)),
                )
                return write_rows(rows, len(cells), moved, target), digest
        finally:
            private.unlink(missing_ok=True)

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
        self, connection: duckdb.DuckDBPyConnection, sql: str, values: list[object], width: int
    ) -> Iterator[tuple[str, Sequence[str]]]:
        cursor = _executed(self.label, connection, sql, values)
        number = 0
        while rows := _next_rows(self.label, cursor, max(1, _CELLS // width)):
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
        if kind in _PLAIN or kind.startswith(("DECIMAL(", "ENUM(", "TIMESTAMP WITH")):
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


@dataclass(frozen=True, slots=True)
class ParquetFile(DuckFile):
    """A Parquet file, whatever its compression."""

    def _opened(self, path: Path) -> duckdb.DuckDBPyConnection:
        if not path.is_file():
            raise DataError(f"{self.label}: cannot be read (no such file); check path in node.yaml")
        return _connected(self.label, ":memory:")

    def _columns(self, connection: duckdb.DuckDBPyConnection, path: Path) -> Typed:
        described = _fetched(self.label, connection, "DESCRIBE SELECT * FROM read_parquet(?)", [str(path)])
        schema = _fetched(
            self.label, connection, "SELECT name, num_children FROM parquet_schema(?)", [str(path)]
        )
        names = _outermost([(str(name), int(cast("int", children or 0))) for name, children in schema])
        return Typed(names, tuple(str(row[1]) for row in described))

    def _relation(self, width: int, path: Path) -> tuple[str, list[object]]:
        return f"read_parquet(?) AS t({_places(width)})", [str(path)]


@dataclass(frozen=True, slots=True)
class DuckTable(DuckFile):
    """A table or view of a DuckDB database file, which must not be open for writing elsewhere.

    Attributes:
        table: its name.
        schema: its schema.
        chosen: the columns that may be read; None: all.
    """

    table: str
    schema: str = "main"
    chosen: tuple[str, ...] | None = None

    def _opened(self, path: Path) -> duckdb.DuckDBPyConnection:
        if not path.is_file():
            raise DataError(f"{self.label}: cannot be read (no such file); check path in node.yaml")
        if self.path.with_name(self.path.name + ".wal").exists():
            raise DataError(
                f"{self.label}: a .wal file lies beside it, so changes are not in it yet; close the program that"
                " writes to it, or run CHECKPOINT there"
            )
        return _connected(self.label, str(path), read_only=True)

    def _columns(self, connection: duckdb.DuckDBPyConnection, path: Path) -> Typed:
        held = self._all_columns(connection)
        names = tuple(held) if self.chosen is None else self.chosen
        absent = [name for name in names if name not in held]
        if absent:
            raise DataError(
                f"{self.label}: no column {', '.join(absent)} in table {self.table}; correct columns in node.yaml"
            )
        return Typed(names, tuple(held[name] for name in names))

    def _relation(self, width: int, path: Path) -> tuple[str, list[object]]:
        table = f"{quoted(self.schema)}.{quoted(self.table)}"
        if self.chosen is None:
            return f"{table} AS t({_places(width)})", []
        chosen = ", ".join(f"{quoted(name)} AS c{place}" for place, name in enumerate(self.chosen))
        return f"(SELECT {chosen} FROM {table}) AS t", []

    def _all_columns(self, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        held = _fetched(
            self.label,
            connection,
            "SELECT column_name, data_type FROM duckdb_columns()"
            " WHERE schema_name = ? AND table_name = ? AND database_name = current_database()"
            " ORDER BY column_index",
            [self.schema, self.table],
        )
        if not held:
            raise DataError(
                f"{self.label}: no table {self.table} in schema {self.schema}; correct table and schema in node.yaml"
            )
        return {str(name): str(kind) for name, kind in held}


def quoted(name: str) -> str:
    """Return ``name`` as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _layout(columns: Typed) -> Layout:
    names = (name.strip(BLANKS) for name in columns.names)
    return Layout(None, tuple(name or f"column_{place}" for place, name in enumerate(names, start=1)))


def _places(width: int) -> str:
    return ", ".join(f"c{place}" for place in range(width))


def _outermost(schema: list[tuple[str, int]]) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns, given its schema as a walk over a tree: node, then children."""
    names: list[str] = []
    place = 1  # the root is no column
    while place < len(schema):
        names.append(schema[place][0])
        open_nodes = 1
        while open_nodes:
            open_nodes += schema[place][1] - 1
            place += 1
    return tuple(names)


def _connected(label: str, path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
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
    raise DataError(f"{label}: DuckDB cannot read it ({kind}); write the file anew")


def _next_rows(label: str, cursor: duckdb.DuckDBPyConnection, most: int) -> list[tuple[str, ...]]:
    try:
        return cast("list[tuple[str, ...]]", cursor.fetchmany(most))
    except duckdb.Error as error:
        kind = type(error).__name__
    raise DataError(f"{label}: DuckDB cannot read it to its end ({kind}); write the file anew")


def _fetched(
    label: str, connection: duckdb.DuckDBPyConnection, sql: str, values: list[object]
) -> list[tuple[object, ...]]:
    cursor = _executed(label, connection, sql, values)
    return cast("list[tuple[object, ...]]", cursor.fetchall())
