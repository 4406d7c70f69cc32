"""Secret bytes that do not show themselves.

A repr, a log line, a traceback with locals or a pickled object is how keys escape in practice. `SecretBytes` shows its
kind and length only, compares in constant time, refuses to be pickled or hashed, and can be wiped. Wiping clears this
object's own buffer; copies that a library made of it are beyond Python's reach.
"""

import hmac
from typing import NoReturn


class SecretBytes:
    """Bytes whose content leaves only through `reveal`.

    Args:
        data: the secret; copied.
        kind: what it is, in words, for the repr ("mask seed").
    """

    __slots__ = ("_data", "_kind")

    def __init__(self, data: bytes | bytearray, kind: str) -> None:
        self._data = bytearray(data)
        self._kind = kind

    def reveal(self) -> bytes:
        """Return the content, for the one call that needs it. Raises ValueError once wiped."""
        if not self._data:
            raise ValueError(f"this {self._kind} has been wiped")
        return bytes(self._data)

    def wipe(self) -> None:
        """Overwrite the content with zeros and forget it."""
        self._data[:] = bytes(len(self._data))
        self._data.clear()

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretBytes):
            return NotImplemented
        return hmac.compare_digest(self._data, other._data)

    __hash__ = None  # type: ignore[assignment]  # a hash table would compare by timing

    def __repr__(self) -> str:
        return f"<{self._kind}, {len(self._data)} secret bytes>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {self._kind} is never pickled or copied")
