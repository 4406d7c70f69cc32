"""Does an audit log hold together? Pure: bytes and the owner's head in, the first wrong line out.

If one line was altered, dropped, moved or cut off, `Fault.number` is that line's. Where two lines in a row were altered, it may be the second: the
first then fits everything but a line that is wrong itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from cohortsum.protocol.audit import ZERO, DeedKind, Head, Line, line_digest


class Wrong(StrEnum):
    """What is wrong with a line."""

    ALTERED = "altered"
    MISSING = "missing"
    OUT_OF_ORDER = "out of order"
    CUT = "cut off at the end"


@dataclass(frozen=True, slots=True)
class Fault:
    """The first line that is not as it was written."""

    number: int
    wrong: Wrong

    def __str__(self) -> str:
        return f"line {self.number}: {self.wrong}"


@dataclass(frozen=True, slots=True)
class Examined:
    """What a log's examination found.

    Attributes:
        lines: every line that could be read, in the order of the file.
        digests: their hashes.
        fault: the first wrong line; None where everything holds together.
        unconfirmed: lines at the end that the owner's database does not know: what a crash leaves, or what somebody added.
        torn: bytes of an unfinished line at the end.
    """

    lines: tuple[Line, ...]
    digests: tuple[bytes, ...]
    fault: Fault | None
    unconfirmed: int
    torn: int

    def holds(self, digest: bytes) -> bool:
        """Return whether a line with this hash, noted elsewhere earlier, is in the log."""
        return digest in self.digests


def examine(data: bytes, head: Head) -> Examined:
    """Return whether a log holds together and ends as its owner remembers.

    Args:
        data: the whole file.
        head: as the owner's database remembers it; ``Head()`` where it remembers nothing.
    """
    *texts, torn = data.split(b"\n")
    raw = [text + b"\n" for text in texts]
    read = [Line.from_bytes(line) for line in raw]
    digests = [line_digest(line) for line in raw]
    last = read[-1].number if read and read[-1] is not None else 0
    fault = _in_chain(read, digests, head) or _at_ends(raw, read, digests, head, torn)
    behind = 0 if fault is not None else max(0, last - head.number)
    held = [(line, digest) for line, digest in zip(read, digests, strict=True) if line is not None]
    return Examined(
        tuple(line for line, _ in held), tuple(digest for _, digest in held), fault, behind, len(torn)
    )


def _in_chain(read: Sequence[Line | None], digests: Sequence[bytes], head: Head) -> Fault | None:
    """Return the first line that does not follow the one before it."""
    expected, previous = 1, ZERO
    for place, line in enumerate(read):
        if place == 0 and line is not None and line.deed.kind is DeedKind.LOG_RENEWED:
            expected, previous = line.number, line.previous
        if line is None:
            return Fault(expected, Wrong.ALTERED)
        linked = line.previous == previous
        if line.number != expected and linked:
            return Fault(expected, Wrong.ALTERED)
        if line.number > expected:
            moved = any(later is not None and later.number == expected for later in read[place + 1 :])
            return Fault(expected, Wrong.OUT_OF_ORDER if moved else Wrong.MISSING)
        if line.number < expected:
            return Fault(expected, Wrong.OUT_OF_ORDER)
        if not linked:  # one of the two was altered: whoever comes next knows whether it was this one
            known = place > 0 and digests[place] == _named_by(read, place + 1, head, expected)
            return Fault(expected - 1 if known else expected, Wrong.ALTERED)
        expected, previous = expected + 1, digests[place]
    return None


def _named_by(read: Sequence[Line | None], place: int, head: Head, number: int) -> bytes | None:
    """Return the hash by which the line at ``place``, or the head, names line ``number``."""
    if place < len(read):
        after = read[place]
        return None if after is None else after.previous
    return head.digest if head.number == number else None


def _at_ends(
    raw: Sequence[bytes], read: Sequence[Line | None], digests: Sequence[bytes], head: Head, torn: bytes
) -> Fault | None:
    """Return what a log that holds together lacks at its ends, by its owner's memory."""
    numbers = [line.number for line in read if line is not None]
    last = numbers[-1] if numbers else 0
    if head.size == 0:  # nothing is remembered of this file
        return None
    if last < head.number:
        whole = sum(map(len, raw)) + len(torn) >= head.size
        return Fault(max(last + 1, head.first), Wrong.ALTERED if whole else Wrong.CUT)
    if numbers[0] != head.first:
        return Fault(head.first, Wrong.MISSING if numbers[0] > head.first else Wrong.OUT_OF_ORDER)
    place = head.number - head.first
    if digests[place] != head.digest or list(accumulate(map(len, raw)))[place] != head.size:
        return Fault(head.number, Wrong.ALTERED)
    return None
