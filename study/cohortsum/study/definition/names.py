"""Names of variables as people write them: with a ``*``, or with a slip of the pen."""

import difflib
import fnmatch
import re
from collections.abc import Collection
from itertools import islice

_COMPARED = 1000
"""Names that one with a slip is compared with: each takes microseconds, and a hint is no promise."""


def is_glob(name: str) -> bool:
    """Return whether ``name`` stands for several names; ``*`` is the only wildcard."""
    return "*" in name


def matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return the names that a glob matches, sorted; only ``*`` is special, and case matters."""
    literal = pattern.replace("[", "[[]").replace("?", "[?]")
    fits = re.compile(fnmatch.translate(literal)).match
    return sorted(filter(fits, names))


def nearest(name: str, known: Collection[str], otherwise: str) -> str:
    """Return the cure for an unknown name."""
    near = difflib.get_close_matches(name, list(islice(known, _COMPARED)), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise
