# ruff: noqa: S608  identifiers in SQL are made here (c0), or quoted names from node.yaml; no value is spliced in
"""A table or view of a DuckDB database file, opened for reading only and without access to anything outside it."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.duck import DuckFile, Typed, connected, fetched, places_of


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
        return connected(self.label, str(path), read_only=True)

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
            return f"{table} AS t({places_of(width)})", []
        chosen = ", ".join(f"{quoted(name)} AS c{place}" for place, name in enumerate(self.chosen))
        return f"(SELECT {chosen} FROM {table}) AS t", []

    def _all_columns(self, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        held = fetched(
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
