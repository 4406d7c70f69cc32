r"""The first step of reading: any bytes to clean lines, in constant memory.

Files arrive with a byte-order mark, with LF, CRLF and bare CR (also mixed), now and then in another encoding.
The filter takes UTF-8 only and gives LF only. It guesses nothing: what is not UTF-8 is an error that names
file and line.
"""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from cohortsum.crypto.errors import DataError

CELL_SEPARATOR = "\x1f"
"""ASCII's unit separator: refused in files, so that it can separate cells inside one text without quoting."""

_CONTROL = re.compile("[\0" + CELL_SEPARATOR + "]")

LONGEST_LINE = 2**22
"""Most characters in one line, so that memory is constant: twice 100 000 columns of 20 characters."""


def normalise(chunks: Iterable[bytes], file: str) -> Iterator[str]:
    """Yield the text of ``chunks`` without byte-order mark and with LF as the only line end.

    Where the chunks are cut does not matter. ``file`` names the source in errors. Raises DataError for bytes
    that are not UTF-8, for NUL and for ``CELL_SEPARATOR``.
    """
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    line = 1
    for chunk in chain(chunks, (None,)):
        text, fault = _decode(utf8, chunk)
        control = _CONTROL.search(text)
        if control is not None:
            text, fault = text[: control.start()], "holds a NUL or separator character"
        text = line_ends.decode(text, final=chunk is None or fault is not None)
        line += text.count("\n")
        if fault is not None:
            raise DataError(f"{file}, line {line}: {fault}; save the table as plain UTF-8 text")
        yield text


def _decode(utf8: codecs.IncrementalDecoder, chunk: bytes | None) -> tuple[str, str | None]:
    """Return the text of ``chunk`` (None: the end) and its fault; with a fault, only the text before it."""
    try:
        return utf8.decode(chunk or b"", chunk is None), None
    except UnicodeDecodeError as error:  # it carries the bytes: it must not become the cause of another error
        return error.object[: error.start].decode(), "is not UTF-8"


def lines(texts: Iterable[str], file: str) -> Iterator[str]:
    """Yield the lines of normalised text without their LF; a missing last LF adds or loses nothing.

    Raises DataError for a line longer than ``LONGEST_LINE``.
    """
    held: list[str] = []
    length = number = 0
    for text in texts:
        *whole, last = text.split("\n")
        if whole:
            yield from chain(("".join([*held, whole[0]]),), whole[1:])
            held, length, number = [], 0, number + len(whole)
        held.append(last)
        length += len(last)
        if length > LONGEST_LINE:
            raise DataError(
                f"{file}, line {number + 1}: longer than {LONGEST_LINE} characters; supply a table of people"
            )
    if length:
        yield "".join(held)
