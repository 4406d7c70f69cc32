"""A table that a database serves: one SELECT of named columns, in a transaction that may only read.

The text of the query comes from SQLAlchemy, with the names of node.yaml as quoted identifiers; nobody writes SQL. What
the driver gives becomes text here, one way for all databases. A database has no bytes to hash: the table's hash is over
the text of its rows in any order, all columns that may be read, so it changes when, and only when, one of them does.

The password comes from an environment variable or a private file at the moment of connecting. It stands in no message:
errors of drivers, which quote addresses and queries, are replaced by their kind.
"""

import datetime
import hashlib
import os
import stat
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import numpy as np
from sqlalchemy import Select, column, create_engine, inspect, literal_column, select, table
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import TableClause, quoted_name
from sqlalchemy.sql.expression import ColumnClause, ColumnElement

from cohortsum.crypto.errors import DataError, cannot_be_read
from cohortsum.node.table_config import DatabaseConfig
from cohortsum.node.tables.rows import RowCount, Wanted, write_rows
from cohortsum.node.tables.sniff import BLANKS, Layout

_CELLS = 2**18
"""Most cells in memory at once."""

CONNECT_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table or view of a database.

    Attributes:
        what: how messages call it.
        database: where it is served.
        table: its name.
        schema: its schema; None takes the default one.
        chosen: the columns that may be read; None: all.
    """

    what: str
    database: DatabaseConfig
    table: str
    schema: str | None = None
    chosen: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        """What and name, as messages begin."""
        return f"{self.what} (database table {self.table})"

    def layout(self) -> Layout:
        """Return the names of the columns; raises DataError."""
        with self.connected() as connection:
            return _layout(self._names(connection))

    def digest(self) -> bytes:
        """Return the hash of the rows' text."""
        with self.connected() as connection:
            names = self._names(connection)
            rows = _Rows(self.label, names)
            with connection.execute(self._select(names)) as result:
                for _ in rows.read(result):
                    pass
            return rows.digest()

    def has_rows(self) -> bool:
        """Return whether the table has a row."""
        with self.connected() as connection:
            one: ColumnElement[object] = literal_column("1")
            return connection.execute(select(one).select_from(self._from(())).limit(1)).first() is not None

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to ``target``; return row counts and the table's hash."""
        with self.connected() as connection:
            names = self._names(connection)
            if _layout(names) != layout:
                raise DataError(f"{self.label}: changed while it was read; try again")
            rows = _Rows(self.label, names, wanted.id)
            with connection.execute(self._select(names)) as result:
                count = write_rows(rows.read(result), len(names), wanted, target)
            return count, rows.digest()

    def _names(self, connection: Connection) -> tuple[str, ...]:
        try:
            held = [str(one["name"]) for one in inspect(connection).get_columns(self.table, self.schema)]
        except NoSuchTableError:
            held = []
        if not held:
            where = "the default schema" if self.schema is None else f"schema {self.schema}"
            raise DataError(
                f"{self.label}: no such table or view in {where}, or no right to read it; correct table and schema in"
                " node.yaml, or ask for the right"
            )
        absent = [name for name in self.chosen or () if name not in held]
        if absent:
            raise DataError(f"{self.label}: no column {', '.join(absent)}; correct columns in node.yaml")
        return tuple(held) if self.chosen is None else self.chosen

    def _select(self, names: Sequence[str]) -> "Select[tuple[object, ...]]":
        return select(*self._from(names).c).execution_options(yield_per=max(1, _CELLS // len(names)))

    def _from(self, names: Sequence[str]) -> TableClause:
        columns: list[ColumnClause[object]] = [column(quoted_name(name, quote=True)) for name in names]
        schema = None if self.schema is None else quoted_name(self.schema, quote=True)
        return table(quoted_name(self.table, quote=True), *columns, schema=schema)

    @contextmanager
    def connected(self) -> Generator[Connection]:
        """Connect in a transaction that may only read and is rolled back; raises DataError."""
        url = self._url()
        kind = ""
        try:
            engine = create_engine(
                url, poolclass=NullPool, hide_parameters=True, connect_args=_connect_args(url)
            )
            with engine.connect() as connection:
                _read_only(connection)
                yield connection
                connection.rollback()
        except ImportError:
            raise DataError(
                f"{self.label}: the driver for {url.drivername} is not installed; install it where the node runs"
                " (PostgreSQL: pip install 'cohortsum[postgres]')"
            ) from None
        except SQLAlchemyError as error:  # its message quotes address, query and perhaps a value
            kind = type(getattr(error, "orig", None) or error).__name__
        if kind:
            raise DataError(
                f"{self.label}: the database refuses or does not answer ({kind}); check url, password and rights, and"
                " that the server is reachable from the node"
            )

    def _url(self) -> URL:
        url = make_url(self.database.url)
        if url.get_backend_name() == "sqlite":
            if not Path(str(url.database)).is_file():
                raise DataError(f"{self.label}: no SQLite file at url; check url in node.yaml")
            return url.set(database=f"file:{quote(str(url.database))}", query={"mode": "ro", "uri": "true"})
        password = self._password()
        return url if password is None else url.set(password=password)

    def _password(self) -> str | None:
        variable, path = self.database.password_env, self.database.password_file
        if variable is not None:
            password = os.environ.get(variable)
            if not password:
                raise DataError(
                    f"{self.label}: the environment variable {variable} is not set; set it to the password where the"
                    " node is started"
                )
            return password
        return None if path is None else self._password_in(path)

    def _password_in(self, path: Path) -> str:
        what = f"{self.label}, password file {path.name}"
        try:
            mode = path.stat().st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise DataError(
                    f"{what}: others than its owner may use it, expected mode 0600; run chmod 600"
                )
            text = path.read_text("utf-8")
        except OSError as error:
            raise DataError(cannot_be_read(what, error)) from None
        except UnicodeDecodeError:
            text = ""
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or "\n" in password:
            raise DataError(f"{what}: expected the password alone, in one line of UTF-8; write it so")
        return password


class _Rows:
    """Rows as text, and the hash over all that were read."""

    def __init__(self, label: str, names: Sequence[str], id_place: int | None = None) -> None:
        self._label, self._names, self._id = label, names, id_place
        self._hashes = bytearray()

    def read(self, rows: "Iterator[Sequence[object]]") -> Iterator[tuple[str, Sequence[str]]]:
        """Yield number and cells of every row; raises DataError for a value that has no text of ours."""
        for number, row in enumerate(rows, start=1):
            cells = [self._text(place, value) for place, value in enumerate(row)]
            told = "".join([f"{len(cell)}:{cell}" for cell in cells])
            self._hashes += hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()
            yield str(number), cells

    def digest(self) -> bytes:
        """Return the hash over names and rows; the order of rows does not matter."""
        total = hashlib.sha256(b"cohortsum/rows/v1")
        total.update("".join([f"{len(name)}:{name}" for name in self._names]).encode())
        total.update(np.sort(np.frombuffer(bytes(self._hashes), "S32")).tobytes())
        return total.digest()

    def _text(self, place: int, value: object) -> str:
        match value:
            case None:
                return ""
            case str():
                return value
            case bool():
                return "true" if value else "false"
            case float():
                if place == self._id:
                    raise DataError(
                        f"{self._label}, column {self._names[place]}: floating-point numbers, expected ids as text or"
                        " whole numbers: 7 would be 7.0; choose a column of another type, or a view that casts it"
                    )
                return repr(value)
            case datetime.datetime():
                return value.isoformat(" ")
            case int() | Decimal() | datetime.date() | uuid.UUID():
                return str(value)
            case _:
                raise DataError(
                    f"{self._label}, column {self._names[place]}: holds values of type {type(value).__name__}, expected"
                    " numbers, text or dates; leave it out with columns in node.yaml"
                )


def _layout(names: Sequence[str]) -> Layout:
    stripped = (name.strip(BLANKS) for name in names)
    return Layout(None, tuple(name or f"column_{place}" for place, name in enumerate(stripped, start=1)))


def _connect_args(url: URL) -> dict[str, object]:
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        return {"connect_timeout": CONNECT_TIMEOUT_S}
    return {}


def _read_only(connection: Connection) -> None:
    """Let the database itself refuse writes, where it can; SQLite's file is opened for reading already."""
    match connection.dialect.name:
        case "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        case "mysql" | "mariadb":
            connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
            connection.rollback()
        case _:
            pass
