"""What a log must not show is taken out before it is written: ids of people, e-mail addresses, values, long hex.

Nothing in cohortsum logs such a thing on purpose. They get in through others: a path with a subject's folder in an error of the
operating system, a cell in an error of a database, a key in a traceback. `scrub` is the last step before an event is rendered,
`ScrubbedText` stands before standard error, `scrub_text` before the sentences of a command.

Values are allowed by type, not forbidden: text, whole numbers, floats, truth values, times, paths, and mappings and sequences of
them pass, scrubbed; bytes, arrays and anything else become the name of their kind, because a repr may hold everything. Text loses
what matches `PATTERNS`. The ids of a site's own tables are not known here: one that looks like an ordinary word or a short number
passes, which is why no caller may log one. Long hex passes under the keys of `PUBLIC_HEX` only, whole, and with a letter in it.
"""

import re
from collections.abc import Mapping, Sequence, Set
from datetime import date
from io import TextIOBase
from pathlib import PurePath
from typing import TextIO, cast

import numpy as np

from cohortsum.crypto.secret import SecretBytes

PUBLIC_HEX = frozenset({"context", "digest", "head"})
"""Keys under which a digest that everybody of the study knows may stand."""
PUBLIC_NUMBERS = frozenset({"numbers", "bytes"})
"""Keys under which a whole number of any size counts what travels."""
DIGEST = re.compile(r"(?=[0-9]*[a-f])[0-9a-f]{16,64}")
DIGITS = 7
"""A number with so many digits may be a person's: seven are UK Biobank's and ABIDE's, ten the NHS's."""
DEEPEST = 20

ID, HEX = "[id]", "[hex]"

PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "[e-mail]"),
        (
            r"sub-(?!(?-i:LABEL)(?![a-z0-9]))\w[^\s'\",;:)\]}>]*",
            ID,
        ),  # a BIDS subject, and the rest of its path
        (r"subj?[-_ ]?\d\w*", ID),
        (r"(?:subject|participant|patient|person|mrn)(?:[-_ :#=]{1,2}\w{0,32})?\d\w*", ID),
        (r"[0-9a-f]{16,}", HEX),
        (r"(?<!\d)\d{3}_S_\d{4}(?!\d)", ID),  # ADNI
        (r"(?<!\d)\d{3}[ -]\d{3}[ -]\d{4}(?!\d)", ID),  # the NHS
        (r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)", ID),  # social security
        (rf"(?<![^\W_])[^\W_]*\d{{{DIGITS},}}[^\W_]*", ID),
    )
)
"""What is looked for, and what takes its place.

Where in a word it begins does not matter: behind an escaped line end, as errors quote text, stands a letter. No pattern looks back over
a long word again and again, so that the time grows with the length of a text alone.
"""


def scrub(_logger: object, _method: str, event: Mapping[str, object]) -> dict[str, object]:
    """Return an event without what must not be written: a processor of structlog, the last one before the renderer."""
    return {scrub_text(key): scrubbed(value, key) for key, value in event.items()}


def scrub_text(text: str) -> str:
    """Return a text without what looks like an id of a person, an e-mail address or a long hex number."""
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def scrubbed(value: object, key: str = "", depth: int = 0) -> object:
    """Return what may be written of a value that stands under ``key``."""
    if depth > DEEPEST:
        return "[nested]"
    match value:
        case None | bool():
            return value
        case np.generic() | np.ndarray():
            return "[array]"
        case bytes() | bytearray() | memoryview():
            return "[bytes]"
        case int():
            return value if key in PUBLIC_NUMBERS or abs(value) < 10 ** (DIGITS - 1) else ID
        case float():
            return value if abs(value) < 10 ** (DIGITS - 1) else ID
        case str():
            return str(value) if key in PUBLIC_HEX and DIGEST.fullmatch(value) else scrub_text(value)
        case SecretBytes():
            return repr(value)
        case date() | PurePath():
            return scrub_text(str(value))
        case BaseException():
            return scrub_text(f"{type(value).__name__}: {value}")
        case Mapping():
            held = cast("Mapping[object, object]", value)
            return {
                scrub_text(str(scrubbed(name, "", depth + 1))): scrubbed(one, str(name), depth + 1)
                for name, one in held.items()
            }
        case Sequence() | Set():
            return [scrubbed(one, key, depth + 1) for one in cast("Sequence[object] | Set[object]", value)]
        case _:
            return f"[{type(value).__name__}]"


class ScrubbedText(TextIOBase):
    """A stream that scrubs what is written to it, piece by piece: for tracebacks and warnings of libraries.

    Args:
        stream: where the rest goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a piece; a pattern that two pieces share is not found, but libraries write whole lines."""
        self._stream.write(scrub_text(text))
        return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        self._stream.flush()

    def writable(self) -> bool:
        """Return whether the stream takes text."""
        return True

    def isatty(self) -> bool:
        """Return whether a person looks at it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of the file behind it."""
        return self._stream.fileno()
