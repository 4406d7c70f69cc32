"""The file of a trustee's audit log, ``audit.jsonl`` beside its settings. What stands in it, and why, is in `cohortsum.protocol.audit`.

One process at a time writes: it holds a lock on the file for as long as it is open, so that no second trustee runs over the same ledger. It is
opened anew where its name leads to another file by now, so that one that was moved away is missed at once. The calls are those of a node's and
the coordinator's logs; the rooms share no module with files in it.
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.audit import Deed, Head, follow, settle

AUDIT = "audit.jsonl"
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditLog:
    """The open file.

    Args:
        path: made with its first line, mode 0600.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def append(self, head: Head, deeds: Sequence[Deed]) -> Head:
        """Put lines on disk and return the head after them; raises StoreError if they cannot be, or do not fit what is there."""
        try:
            handle = self._open()
            size = os.fstat(handle).st_size
            settled = settle(head, size, lambda start, length: os.pread(handle, length, start))
            if size > settled.head.size:
                os.ftruncate(handle, settled.head.size)
            data, after = follow(settled.head, (*settled.notes, *deeds), datetime.now(UTC))
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except OSError as error:
            raise StoreError(
                f"the audit log refuses a write ({error.strerror}); nothing is sent; check disk space and rights of {AUDIT}, and "
                "that no other trustee runs here"
            ) from error
        return after

    def read(self) -> bytes:
        """Return the whole file; nothing where there is none. Raises StoreError."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(f"{AUDIT}: cannot be read ({error.strerror}); check path and rights") from error

    def set_aside(self, name: str) -> None:
        """Give the file another name, where there is one; the next line begins a new file. Raises StoreError."""
        try:
            with suppress(FileNotFoundError):
                self._path.rename(self._path.with_name(name))
        except OSError as error:
            raise StoreError(f"{AUDIT}: cannot be renamed ({error.strerror}); check rights") from error

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int:
        """Return the open and locked file; its name is durable if it is new."""
        with suppress(FileNotFoundError):
            if self._handle is not None and os.path.samestat(os.fstat(self._handle), self._path.lstat()):
                return self._handle
        self.close()
        self._handle = os.open(self._path, FLAGS, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(self._handle, 0o600)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return self._handle
