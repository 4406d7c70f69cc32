"""Names of what is kept or handed on, ``cohortsum.KIND/MAJOR``: another major is refused by its name.

A major changes where an older program would misread. Such data fails today's checks anyway, at whatever field differs first; this
says why. The name comes from outside, so only what has the form of one is ever shown.
"""

import json
import re
from typing import cast

FORM = re.compile(r"cohortsum\.[a-z]{1,20}/[0-9]{1,4}")


def other_major(held: object, key: str, known: str) -> str:
    """Return the name of another major of the kind of ``known`` that a JSON object has under ``key``; empty for anything else."""
    name = cast("dict[str, object]", held).get(key) if isinstance(held, dict) else None
    if not isinstance(name, str) or not FORM.fullmatch(name) or name == known:
        return ""
    return name if name.partition("/")[0] == known.partition("/")[0] else ""


def other_major_in(data: bytes, key: str, known: str) -> str:
    """Return the same for JSON text, which need not be any."""
    try:
        return other_major(json.loads(data), key, known)
    except (ValueError, RecursionError):
        return ""
