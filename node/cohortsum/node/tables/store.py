# ruff: noqa: S608  identifiers in SQL are made by our code (t0, place); nothing read from a file becomes SQL
"""DuckDB as the reader and joiner of text: no type detection, no guesses, no network.

A table comes in as four columns: the person's ``id``, the ``visit`` that orders a person's rows, and ``start`` and
``length`` of the row's cells in a file beside (``rows``). So time and memory do not depend on how wide a table is.
The database is a file in a private folder that the caller removes; memory is bounded, what does not fit is
spilled there.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, cast

import duckdb
import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import DataError

_LEAST_LINE_BYTES = 2**20
_BUFFER_LINES = 8


class Store:
    """Tables of text by short names of our own making."""

    __slots__ = ("_connection",)

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect(
            str(folder / "tables.duckdb"),
            config={
                "memory_limit": "256MB",
                "temp_directory": str(folder),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def load(self, table: str, rows: Path, longest: int) -> None:
        """Make ``table`` from rows as a `RowFile` holds them, of at most ``longest`` bytes each."""
        line_bytes = max(_LEAST_LINE_BYTES, longest + 1)
        self._execute(
            f"CREATE TABLE {table} AS SELECT coalesce(id, '') AS id, coalesce(visit, '') AS visit, start, length"
            " FROM read_csv(?, columns = {id: 'VARCHAR', visit: 'VARCHAR', start: 'BIGINT', length: 'BIGINT'},"
            " delim = ',', header = false,"
            " quote = '\"', escape = '\"', auto_detect = false, max_line_size = ?, buffer_size = ?)",
            [str(rows), line_bytes, line_bytes * _BUFFER_LINES],
        )

    def run(self, sql: str, values: Sequence[object] = ()) -> None:
        """Execute one statement."""
        self._execute(sql, values)

    def count(self, sql: str, values: Sequence[object] = ()) -> int:
        """Return the first cell of the first row of a query that counts."""
        row = self._execute(sql, values).fetchone()
        assert row is not None, "a count has one row"  # noqa: S101 - an invariant of SQL
        return int(row[0])

    def ids(self, table: str, rows: int, step: int) -> Iterator[list[str]]:
        """Yield the column ``id`` of ``table`` in slices; see `numbers`."""
        for arrays in self._slices(table, ["id"], rows, step):
            yield arrays["id"].tolist()

    def numbers(self, table: str, columns: Sequence[str], rows: int, step: int) -> Iterator[list[list[int]]]:
        """Yield whole numbers in slices of ``step`` rows, in the order of the column ``place``; none is NULL.

        ``place`` numbers the ``rows`` rows of ``table`` from 0.
        """
        for arrays in self._slices(table, columns, rows, step):
            yield [arrays[column].tolist() for column in columns]

    def _slices(
        self, table: str, columns: Sequence[str], rows: int, step: int
    ) -> "Iterator[dict[str, NDArray[np.object_]]]":
        for start in range(0, rows, step):
            result = self._execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE place >= ? AND place < ? ORDER BY place",
                [start, start + step],
            )
            yield cast("dict[str, NDArray[np.object_]]", result.fetchnumpy())

    def _execute(self, sql: str, values: Sequence[object]) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(sql, list(values))
        except duckdb.Error as error:  # its message may quote a row: only its kind is said
            kind = type(error).__name__
        raise DataError(f"tables: the join stopped ({kind}); check free memory and disk space at the site")
