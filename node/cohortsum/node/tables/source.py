"""What every table is to the reader, whatever its format: names, a hash, and a copy as text."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.table_config import TableConfig
from cohortsum.node.tables import brc, enigma, freesurfer
from cohortsum.node.tables.bids import DescribedFile, SessionFiles, Sidecar
from cohortsum.node.tables.duck_table import DuckTable
from cohortsum.node.tables.files import SiteFile
from cohortsum.node.tables.parquet import ParquetFile
from cohortsum.node.tables.rows import RowCount, Wanted
from cohortsum.node.tables.sniff import Layout

_LAYOUTS: dict[str, Callable[[Iterable[str], str], Layout]] = {
    "text": freesurfer.any_layout,
    "bids": freesurfer.any_layout,
    "brc": brc.layout,
    "freesurfer": freesurfer.layout,
    "enigma": enigma.layout,
}


class Source(Protocol):
    """A table of the site."""

    @property
    def label(self) -> str:
        """How messages call it."""
        ...

    def layout(self) -> Layout:
        """Return its columns; raises DataError."""
        ...

    def digest(self) -> bytes:
        """Return a hash of what it holds; raises DataError."""
        ...

    def has_rows(self) -> bool:
        """Return whether it has a row, reading no further than that; raises DataError."""
        ...

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to a new `RowFile` at ``target``.

        Returns row counts, and the hash of exactly what was read. Raises DataError, also where the columns are
        no longer ``layout``.
        """
        ...


def source_of(name: str, table: TableConfig) -> Source:
    """Return the table called ``name`` in node.yaml; raises ConfigurationError where its path is missing."""
    what = f"table {name}"
    if table.format == "sql":
        from cohortsum.node.tables.database import DatabaseTable  # loads SQLAlchemy

        assert table.database is not None, "checked on loading"  # noqa: S101
        assert table.table is not None, "checked on loading"  # noqa: S101
        return DatabaseTable(what, table.database, table.table, table.schema_name, table.columns)
    if table.path is None:
        raise ConfigurationError(f"node.yaml: tables.{name}.path: required here; say where the table lies")
    return _file(what, table.path, table)


def _file(what: str, path: Path, table: TableConfig) -> Source:
    match table.format:
        case "parquet":
            return ParquetFile(what, path)
        case "duckdb":
            assert table.table is not None, "checked on loading"  # noqa: S101
            return DuckTable(what, path, table.table, table.schema_name or "main", table.columns)
        case "bids_sessions":
            return _described(SessionFiles(what, path), table.sidecar)
        case "bids":
            beside = path.with_suffix(".json")
            sidecar = table.sidecar or (beside if beside.is_file() else None)
            return _described(SiteFile(what, path, _LAYOUTS[table.format]), sidecar)
        case _:
            return SiteFile(what, path, _LAYOUTS[table.format], table.missing)


def _described(file: SiteFile | SessionFiles, sidecar: Path | None) -> Source:
    return file if sidecar is None else DescribedFile(file, Sidecar(file.what, sidecar))
