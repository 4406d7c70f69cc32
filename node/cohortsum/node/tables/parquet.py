"""A Parquet file, whatever its compression; names are those of its schema, not those that DuckDB would make of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import duckdb

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.duck import DuckFile, Typed, connected, fetched, places_of


@dataclass(frozen=True, slots=True)
class ParquetFile(DuckFile):
    """A Parquet file."""

    def _opened(self, path: Path) -> duckdb.DuckDBPyConnection:
        if not path.is_file():
            raise DataError(f"{self.label}: cannot be read (no such file); check path in node.yaml")
        return connected(self.label, ":memory:")

    def _columns(self, connection: duckdb.DuckDBPyConnection, path: Path) -> Typed:
        described = fetched(self.label, connection, "DESCRIBE SELECT * FROM read_parquet(?)", [str(path)])
        schema = fetched(
            self.label, connection, "SELECT name, num_children FROM parquet_schema(?)", [str(path)]
        )
        names = _outermost([(str(name), int(cast("int", children or 0))) for name, children in schema])
        return Typed(names, tuple(str(row[1]) for row in described))

    def _relation(self, width: int, path: Path) -> tuple[str, list[object]]:
        return f"read_parquet(?) AS t({places_of(width)})", [str(path)]


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
