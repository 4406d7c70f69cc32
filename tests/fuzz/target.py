"""What a fuzz target is: bytes in, and nothing out but errors of the one tree.

A target decodes its input. Where that raises one of our errors the input is refused, and all is well. Where it decodes, the target
looks at what came out: it must encode to the same bytes, or to bytes that decode to the same value. Anything else that is raised,
by the decoder or by that look, is a finding.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from cohortsum.crypto.errors import CohortsumError

CORPUS = Path(__file__).parent / "corpus"
SPARE_BYTES = 64 * 1024 * 1024
"""What any input may cost in memory, however small it is."""
PER_BYTE = 256
"""And what each of its bytes may cost beyond that: a parsed tree is larger than its text."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder.

    Attributes:
        name: of the target and of its folder in the corpus.
        run: takes an input; raises for a finding.
        size: longest input in bytes that the fuzzer makes.
        examples: how many inputs a run of the tests makes.
    """

    name: str
    run: Callable[[bytes], None]
    size: int = 4096
    examples: int = 60

    def corpus(self) -> tuple[Path, ...]:
        """Return the kept inputs, by name."""
        return tuple(sorted((CORPUS / self.name).glob("*")))


def decoder(
    decode: Callable[[bytes], T],
    look: Callable[[bytes, T], None] = lambda _data, _value: None,
    errors: type[CohortsumError] | tuple[type[CohortsumError], ...] = CohortsumError,
) -> Callable[[bytes], None]:
    """Return what a target runs.

    Args:
        decode: the decoder.
        look: given an input that decodes and its value, raises unless the value is sound.
        errors: what the decoder may raise.
    """

    def run(data: bytes) -> None:
        try:
            value = decode(data)
        except errors:
            return
        look(data, value)

    return run


def same(encode: Callable[[T], bytes]) -> Callable[[bytes, T], None]:
    """Return the look at a decoder of which every value has one encoding: the input itself."""

    def look(data: bytes, value: T) -> None:
        assert encode(value) == data, "decoded, and encodes to other bytes"

    return look


def again(encode: Callable[[T], bytes], decode: Callable[[bytes], T]) -> Callable[[bytes, T], None]:
    """Return the look at a decoder that takes several spellings: what is encoded decodes to the same value."""

    def look(_data: bytes, value: T) -> None:
        assert decode(encode(value)) == value, "decoded, encoded, and decodes to another value"

    return look


@cache
def scratch() -> Path:
    """Return an empty folder for decoders that read files, in memory where the machine has such a place."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    home = Path(tempfile.mkdtemp(prefix="cohortsum-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def in_file(name: str, read: Callable[[Path], T]) -> Callable[[bytes], T]:
    """Return a decoder of bytes from a decoder of files: they are put into a file of this name first."""

    def decode(data: bytes) -> T:
        path = scratch() / name
        path.write_bytes(data)
        return read(path)

    return decode


class Reader:
    """Choices out of the bytes of a case; where they are used up, every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def byte(self) -> int:
        """Return the next byte, or 0."""
        place = self._place
        self._place += 1
        return self._data[place] if place < len(self._data) else 0

    def number(self) -> int:
        """Return a whole number of two bytes."""
        return self.byte() << 8 | self.byte()

    def pick(self, among: "list[T] | tuple[T, ...]") -> T:
        """Return one of these."""
        return among[self.byte() % len(among)]

    def take(self, most: int = 64) -> bytes:
        """Return up to so many bytes, behind a byte that says how many."""
        size = self.byte() % (most + 1)
        start = self._place
        self._place += size
        return self._data[start : start + size]

    def rest(self) -> bytes:
        """Return whatever is left."""
        start, self._place = self._place, len(self._data)
        return self._data[start:]

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self._place >= len(self._data)
