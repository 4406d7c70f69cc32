"""Canonical bytes and digest: what is signed, pinned and hashed into every mask.

JSON in UTF-8 with sorted keys and no blanks; real-valued fields are written by their shortest decimal that reads back
as the same double, whole-valued ones always with ``.0``, so equal studies have equal bytes.
"""

import hashlib
import json

from cohortsum.study.definition.models import StudyFile

_DOMAIN = b"cohortsum/v1/study\0"


def canonical_bytes(expanded: StudyFile) -> bytes:
    """Return the canonical bytes of a file whose globs and defaults are written out."""
    values = expanded.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest_of(canonical: bytes) -> bytes:
    """Return SHA-256 over the domain label and the canonical bytes, 32 bytes."""
    return hashlib.sha256(_DOMAIN + canonical).digest()
