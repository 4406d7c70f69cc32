"""One table in ``node.yaml``: where it lies, what wrote it, how its rows and columns are taken."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from cohortsum.node.database_settings import anchored_url

Name = Annotated[str, StringConstraints(min_length=1)]


def _anchored(path: Path, info: ValidationInfo) -> Path:
    """Paths in a file are relative to the folder of that file."""
    context = cast("Mapping[str, Path] | None", info.context)
    return path if context is None else context["folder"] / path


LocalPath = Annotated[Path, AfterValidator(_anchored)]


def _anchored_url(url: str, info: ValidationInfo) -> str:
    """The file of an SQLite URL, too, is relative to the folder of the settings."""
    context = cast("Mapping[str, Path] | None", info.context)
    return anchored_url(url, None if context is None else context["folder"])


DatabaseUrl = Annotated[str, StringConstraints(min_length=1), AfterValidator(_anchored_url)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
TableFormat = Literal[
    "text", "brc", "freesurfer", "enigma", "bids", "bids_sessions", "parquet", "duckdb", "sql"
]

_IDS = {"brc": "SubjectID", "enigma": "SubjID", "bids": "participant_id", "bids_sessions": "participant_id"}
"""The id column of the formats that fix it."""

_KEYS: dict[str, frozenset[TableFormat]] = {
    "path": frozenset(("text", "brc", "freesurfer", "enigma", "bids", "bids_sessions", "parquet", "duckdb")),
    "sidecar": frozenset(("bids", "bids_sessions")),
    "columns": frozenset(("duckdb", "sql")),
    "table": frozenset(("duckdb", "sql")),
    "schema": frozenset(("duckdb", "sql")),
    "database": frozenset(("sql",)),
}
"""The formats that each of these keys is for."""


class Model(BaseModel):
    """Settings that refuse unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(Model):
    """The row of one named visit."""

    named: Name


class RowChoice(Model):
    """Which row of a person counts: first or last by the column ``order``, or the one with a label there."""

    order: Name
    choose: Literal["first", "last"] | Named


class Rename(Model):
    """A regular expression on whole column names, and the name it gives (groups as in ``re.sub``)."""

    match: str
    to: str

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.compile(self.match).sub(self.to, "")
        except (re.error, IndexError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"expected a regular expression and a replacement that fits it ({error})"
            ) from None
        return self

    def apply(self, name: str) -> str | None:
        """Return the new name, or None where ``name`` does not match."""
        found = re.fullmatch(self.match, name)
        return None if found is None else found.expand(self.to)


class DatabaseConfig(Model):
    """Where a table lies that a database serves.

    Attributes:
        url: SQLAlchemy URL without a password.
        password_env: environment variable that holds the password.
        password_file: file that holds the password alone, readable by the node's account only.
    """

    url: DatabaseUrl
    password_env: VariableName | None = None
    password_file: LocalPath | None = None

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_env is not None and self.password_file is not None:
            raise ValueError("expected password_env or password_file, not both")
        return self


class TableConfig(Model):
    """One table of the site.

    Attributes:
        format: what wrote the table; it says what stands where, and which of the keys below are meant.
        path: the file (``bids_sessions``: the folder of the data set); only a node file shared by simulated
            sites may leave it out.
        sidecar: JSON file that describes the columns; without it the one beside ``path``, if there is one.
        database: the server or SQLite file.
        table: the table or view there.
        schema: its schema; without it the default one.
        columns: the columns that may be read; without it all.
        id: the column with the person's id, always text; formats that fix it need no entry.
        missing: codes for "no value" beside the built-in ones, compared as text.
        rows: which row counts where a person has several; without it several are an error.
        rename: rules for column names; the first match wins.
        broken_rows: ``refuse`` the table, or ``reject`` (drop and count) the rows.
    """

    format: TableFormat = "text"
    path: LocalPath | None = None
    sidecar: LocalPath | None = None
    database: DatabaseConfig | None = None
    table: Name | None = None
    schema_name: Name | None = Field(default=None, alias="schema")
    columns: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    id: Name
    missing: frozenset[str] = frozenset()
    rows: RowChoice | None = None
    rename: tuple[Rename, ...] = ()
    broken_rows: Literal["refuse", "reject"] = "refuse"

    @model_validator(mode="before")
    @classmethod
    def _id_of_the_format(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        given = cast("dict[str, object]", data)
        fixed = _IDS.get(str(given.get("format")))
        return given if fixed is None else {"id": fixed} | given

    @model_validator(mode="after")
    def _keys_fit_the_format(self) -> Self:
        given: dict[str, object] = {
            "path": self.path,
            "sidecar": self.sidecar,
            "columns": self.columns,
            "table": self.table,
            "schema": self.schema_name,
            "database": self.database,
        }
        for key, formats in _KEYS.items():
            if given[key] is not None and self.format not in formats:
                raise ValueError(
                    f"expected {key} only with format {', '.join(sorted(formats))}; it is {self.format}"
                )
        for key in ("table", "database"):
            if given[key] is None and self.format in _KEYS[key]:
                raise ValueError(f"expected {key} with format {self.format}")
        if self.columns is not None and self.id not in map(self.renamed, self.columns):
            raise ValueError(f"expected the id column {self.id} among columns")
        return self

    @property
    def is_file(self) -> bool:
        """Whether the table lies under ``path``."""
        return self.format in _KEYS["path"]

    def renamed(self, name: str) -> str:
        """Return the name of a column after the rename rules."""
        new_names = (rule.apply(name) for rule in self.rename)
        return next((new for new in new_names if new is not None), name)
