"""One table as a text file: its name for messages, its layout, its hash, and the plain copy that DuckDB reads."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cohortsum.crypto.errors import DataError, cannot_be_read
from cohortsum.node.tables.filter import lines, normalise
from cohortsum.node.tables.rows import RowCount, Wanted, fields_of, write_rows
from cohortsum.node.tables.sniff import BLANKS, Layout, sniff

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CHUNK = 2**20

_NOT_TEXT = (  # first bytes, place, what it is, cure
    (b"PAR1", 0, "a Parquet file", "say format: parquet for this table in node.yaml"),
    (b"DUCK", 8, "a DuckDB database", "say format: duckdb for this table in node.yaml"),
    (b"SQLite format 3\0", 0, "an SQLite database", "say format: sql for this table in node.yaml"),
    (b"\x1f\x8b", 0, "compressed (gzip)", "unpack it"),
    (b"PK\x03\x04", 0, "a spreadsheet or archive (zip)", "save the table as plain UTF-8 text"),
)


class Hash(Protocol):
    """What takes bytes and gives their hash."""

    def update(self, data: "ReadableBuffer", /) -> None:
        """Take bytes."""
        ...

    def digest(self) -> bytes:
        """Return the hash of everything taken."""
        ...


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A text file of the site.

    Attributes:
        what: how messages call it, for example ``table covariates``.
        path: where it lies; messages name the last part only.
        layout_of: the layout that lines begin with; raises DataError.
        codes: missing codes of the site, for layouts that are ``numeric``.
    """

    what: str
    path: Path
    layout_of: Callable[[Iterable[str], str], Layout] = sniff
    codes: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """What and file name, as messages begin."""
        return f"{self.what} ({self.path.name})"

    def layout(self) -> Layout:
        """Return what the first line says; raises DataError."""
        return self.layout_of(self._lines(hashlib.sha256()), self.label)

    def digest(self) -> bytes:
        """Return the hash of the bytes as they lie on disk."""
        digest = hashlib.sha256()
        for _ in self._chunks(digest):
            pass
        return digest.digest()

    def has_rows(self) -> bool:
        """Return whether anything stands below the header; reads no further than that."""
        found = (line for line in self._lines(hashlib.sha256()) if line.strip(BLANKS))
        if self.layout().header:
            next(found, None)
        return next(found, None) is not None

    def texts(self) -> tuple[list[str], bytes]:
        """Return the lines with content, without blanks around them, and the hash: for a list of ids."""
        digest = hashlib.sha256()
        texts = [line.strip(BLANKS) for line in self._lines(digest)]
        return [text for text in texts if text], digest.digest()

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to ``target``; return row counts and the file's hash.

        Hash and rows come from one pass, so that they cannot belong to two states of the file. Raises
        DataError if the first line no longer says ``layout``.
        """
        digest = hashlib.sha256()
        count = write_rows(self.rows(layout, digest), len(layout.names), wanted, target)
        return count, digest.digest()

    def rows(self, layout: Layout, digest: Hash) -> Iterator[tuple[str, Sequence[str] | None]]:
        """Yield the rows, each with its line number; ``digest`` takes the bytes. See `copy`."""
        numbered = enumerate(self._lines(digest), start=1)
        passed: list[tuple[int, str]] = []
        if self.layout_of(_noted(numbered, passed), self.label) != layout:
            raise DataError(f"{self.label}: changed while it was read; try again when nothing writes to it")
        rows = numbered if layout.header else chain(passed, numbered)
        yield from fields_of(rows, layout, self.codes)

    def _lines(self, digest: Hash) -> Iterator[str]:
        return lines(normalise(self._chunks(digest), self.label), self.label)

    def _chunks(self, digest: Hash) -> Iterator[bytes]:
        first = True
        try:
            with self.path.open("rb") as handle:
                while chunk := handle.read(_CHUNK):
                    digest.update(chunk)
                    if first:
                        self._require_text(chunk)
                        first = False
                    yield chunk
        except OSError as error:
            raise DataError(cannot_be_read(self.label, error)) from None

    def _require_text(self, start: bytes) -> None:
        for mark, place, kind, cure in _NOT_TEXT:
            if start.startswith(mark, place):
                raise DataError(f"{self.label}: expected text, but it is {kind}; {cure}")


def combined_digest(digests: Mapping[str, bytes]) -> bytes:
    """Return one SHA-256 over named hashes in the order of their names; names are length-prefixed."""
    total = hashlib.sha256(b"cohortsum/tables/v1")
    for name in sorted(digests):
        encoded = name.encode()
        total.update(len(encoded).to_bytes(4, "big") + encoded + digests[name])
    return total.digest()


def _noted(numbered: Iterator[tuple[int, str]], passed: list[tuple[int, str]]) -> Iterator[str]:
    """Yield the lines of ``numbered``, and keep in ``passed`` what was yielded."""
    for item in numbered:
        passed.append(item)
        yield item[1]
