"""BIDS tables with their sidecars: ``participants.tsv``, ``phenotype/NAME.tsv``, ``sub-LABEL_sessions.tsv``.

A sidecar (BIDS specification, tabular files) is a JSON object with an entry per column; ``Units`` and ``Levels`` of an
entry say what numbers and codes mean. They belong to the table: both files make its hash, because a changed level
changes what a code counts for. node.yaml has the last word on both.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import cast

from cohortsum.crypto.errors import DataError, cannot_be_read
from cohortsum.node.tables.files import SiteFile, combined_digest
from cohortsum.node.tables.rows import RowCount, Wanted, write_rows
from cohortsum.node.tables.sniff import Facts, Layout
from cohortsum.node.tables.units import spelled

_UNKNOWN_UNITS = frozenset(("", "n/a", "arbitrary", "a.u.", "au"))


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The description of a table's columns.

    Attributes:
        what: how messages call the table it belongs to.
        path: the JSON file.
    """

    what: str
    path: Path

    @property
    def label(self) -> str:
        """What and file name, as messages begin."""
        return f"{self.what} ({self.path.name})"

    def read(self) -> bytes:
        """Return the bytes; raises DataError."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(cannot_be_read(self.label, error)) from None

    def describe(self, layout: Layout, content: bytes) -> Layout:
        """Return ``layout`` with what ``content`` says of its columns; raises DataError."""
        try:
            described = cast("object", json.loads(content.decode("utf-8-sig")))
        except (RecursionError, ValueError):  # also UnicodeDecodeError; its message would quote the file
            described = None
        if not isinstance(described, dict):
            raise DataError(f"{self.label}: expected a JSON object with one entry per column; repair it")
        entries = cast("dict[str, object]", described)
        facts = {
            place: self._facts(name, cast("dict[str, object]", entry))
            for place, name in enumerate(layout.names)
            if isinstance(entry := entries.get(name), dict)
        }
        return replace(layout, facts=dict(layout.facts) | facts)

    def _facts(self, column: str, entry: Mapping[str, object]) -> Facts:
        unit, levels = entry.get("Units"), entry.get("Levels")
        if unit is not None and not isinstance(unit, str):
            raise DataError(f"{self.label}, column {column}: Units is no text; repair it")
        if levels is not None and not isinstance(levels, dict):
            raise DataError(f"{self.label}, column {column}: Levels is no object of codes; repair it")
        meanings = {
            code: self._meaning(column, meaning)
            for code, meaning in cast("dict[str, object]", levels or {}).items()
        }
        known = None if unit is None or unit.strip().lower() in _UNKNOWN_UNITS else spelled(unit.strip())
        return Facts(f"the sidecar {self.path.name}", known, meanings or None)

    def _meaning(self, column: str, meaning: object) -> str:
        if isinstance(meaning, dict):  # newer versions: {"Description": ..., "TermURL": ...}
            meaning = cast("dict[str, object]", meaning).get("Description")
        if not isinstance(meaning, str):
            raise DataError(
                f"{self.label}, column {column}: a level without a text for its meaning; repair it"
            )
        return meaning.strip()


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """A table and its sidecar.

    Attributes:
        file: the table.
        sidecar: its description.
    """

    file: "SiteFile | SessionFiles"
    sidecar: Sidecar

    @property
    def label(self) -> str:
        """What and file name of the table, as messages begin."""
        return self.file.label

    def layout(self) -> Layout:
        """Return the header's layout with what the sidecar says; raises DataError."""
        return self.sidecar.describe(self.file.layout(), self.sidecar.read())

    def digest(self) -> bytes:
        """Return one hash over both files."""
        return _together(self.file.digest(), self.sidecar.read())

    def has_rows(self) -> bool:
        """Return whether anything stands below the header."""
        return self.file.has_rows()

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """As `SiteFile.copy`; the sidecar is read once, for hash and layout."""
        content, bare = self.sidecar.read(), replace(layout, facts={})
        if self.sidecar.describe(bare, content) != layout:
            raise DataError(f"{self.sidecar.label}: changed while it was read; try again")
        count, digest = self.file.copy(bare, wanted, target)
        return count, _together(digest, content)


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The sessions of everybody: ``sub-LABEL/sub-LABEL_sessions.tsv`` in a BIDS folder, as one table.

    The person's id is the name of the folder, in a first column ``participant_id``. Files may lack a column; it is
    then ``n/a`` for their people.

    Attributes:
        what: how messages call it.
        path: the folder of the data set.
    """

    what: str
    path: Path

    @property
    def label(self) -> str:
        """What and folder, as messages begin."""
        return f"{self.what} (sessions of {self.path.name})"

    def layout(self) -> Layout:
        """Return the names of all files together, in the order in which they first appear; raises DataError."""
        names = dict.fromkeys(chain.from_iterable(self._names(file) for file in self._files().values()))
        if "participant_id" in names:
            raise DataError(
                f"{self.label}: a column is called participant_id, expected the id in the folder's name alone;"
                " remove the column"
            )
        return Layout("\t", ("participant_id", *names))

    def digest(self) -> bytes:
        """Return one hash over all files and their names."""
        return combined_digest({name: file.digest() for name, file in self._files().items()})

    def has_rows(self) -> bool:
        """Return whether a file has a row."""
        return any(file.has_rows() for file in self._files().values())

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """As `SiteFile.copy`, over all files; places of broken rows name their file."""
        digests: dict[str, bytes] = {}
        count = write_rows(self._rows(layout, digests), len(layout.names), wanted, target)
        return count, combined_digest(digests)

    def _rows(self, layout: Layout, digests: dict[str, bytes]) -> Iterator[tuple[str, list[str] | None]]:
        for name, file in self._files().items():
            found = file.layout()
            places = {column: place for place, column in enumerate(found.names)}
            if not places.keys() <= set(layout.names):
                raise DataError(
                    f"{file.label}: changed while it was read; try again when nothing writes to it"
                )
            person, digest = file.path.parent.name, hashlib.sha256()
            for line, cells in file.rows(found, digest):
                whole: list[str] | None = None
                if cells is not None and len(cells) == len(found.names):
                    told = (places.get(column) for column in layout.names[1:])
                    whole = [person, *("n/a" if place is None else cells[place] for place in told)]
                yield f"{line} of {file.path.name}", whole
            digests[name] = digest.digest()

    def _names(self, file: SiteFile) -> tuple[str, ...]:
        names = file.layout().names
        if len(set(names)) < len(names):
            raise DataError(f"{file.label}: a column name stands twice in the header; rename or remove one")
        return names

    def _files(self) -> dict[str, SiteFile]:
        found = sorted(self.path.glob("sub-*/sub-*_sessions.tsv"))
        files = {
            path.name: SiteFile(self.what, path) for path in found if path.parent.name == path.name[:-13]
        }
        if not files:
            raise DataError(
                f"{self.label}: no file sub-LABEL/sub-LABEL_sessions.tsv; name the folder of the BIDS data set"
            )
        return files


def _together(table: bytes, sidecar: bytes) -> bytes:
    return combined_digest({"sidecar": hashlib.sha256(sidecar).digest(), "table": table})
