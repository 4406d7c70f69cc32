"""One table as a file: its name for messages, its layout, its hash, and the plain copy that DuckDB reads."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cohortsum.crypto.errors import DataError, cannot_be_read
from cohortsum.node.tables.filter import lines, normalise
from cohortsum.node.tables.rows import RowCount, Wanted, copy_rows
from cohortsum.node.tables.sniff import BLANKS, Layout, sniff

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CHUNK = 2**20


class _Hash(Protocol):
    def update(self, data: "ReadableBuffer", /) -> None: ...
    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file of the site.

    Attributes:
        what: how messages call it, for example ``table covariates``.
        path: where it lies; messages name the last part only.
    """

    what: str
    path: Path

    @property
    def label(self) -> str:
        """What and file name, as messages begin."""
        return f"{self.what} ({self.path.name})"

    def layout(self) -> Layout:
        """Return what the header line says; raises DataError."""
        return sniff(self._lines(hashlib.sha256()), self.label)

    def sha256(self) -> bytes:
        """Return the hash of the bytes as they lie on disk."""
        digest = hashlib.sha256()
        for _ in self._chunks(digest):
            pass
        return digest.digest()

    def texts(self) -> tuple[list[str], bytes]:
        """Return the lines with content, without blanks around them, and the hash: for a list of ids."""
        digest = hashlib.sha256()
        texts = [line.strip(BLANKS) for line in self._lines(digest)]
        return [text for text in texts if text], digest.digest()

    def copy(self, layout: Layout, wanted: Wanted, target: Path) -> tuple[RowCount, bytes]:
        """Write what is ``wanted`` of the sound rows to ``target``; return row counts and the file's hash.

        Hash and rows come from one pass, so that they cannot belong to two states of the file. Raises
        DataError if the header is no longer ``layout``.
        """
        digest = hashlib.sha256()
        numbered = enumerate(self._lines(digest), start=1)
        if sniff((line for _, line in numbered), self.label) != layout:
            raise DataError(f"{self.label}: changed while it was read; try again when nothing writes to it")
        with target.open("x", encoding="utf-8", newline="\n") as out:
            count = copy_rows(numbered, layout, wanted, out)
        return count, digest.digest()

    def _lines(self, digest: _Hash) -> Iterator[str]:
        return lines(normalise(self._chunks(digest), self.label), self.label)

    def _chunks(self, digest: _Hash) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as handle:
                while chunk := handle.read(_CHUNK):
                    digest.update(chunk)
                    yield chunk
        except OSError as error:
            raise DataError(cannot_be_read(self.label, error)) from None


def combined_digest(digests: Mapping[str, bytes]) -> bytes:
    """Return one SHA-256 over named hashes in the order of their names; names are length-prefixed."""
    total = hashlib.sha256(b"cohortsum/tables/v1")
    for name in sorted(digests):
        encoded = name.encode()
        total.update(len(encoded).to_bytes(4, "big") + encoded + digests[name])
    return total.digest()
