"""What the fields of the study file are made of: names, ranges, durations, and the section they stand in.

Validation is strict and runs on JSON, so that a YAML file and the canonical bytes take the same path and nothing is guessed:
``"5"`` is text and never a number.
"""

import datetime
import re
from fractions import Fraction
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"^[0-9]{1,9}(ms|s|m|h|d)$"
_LONGEST_DAYS = 3660
"""Of a wait; the end of a longer one might have no date."""


def _read_duration(value: object) -> int:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError("expected a duration above 0 such as 100ms, 10m, 72h or 8d")
    milliseconds = int(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds > _LONGEST_DAYS * _MILLISECONDS["d"]:
        raise ValueError(f"expected a duration of at most {_LONGEST_DAYS}d")
    return milliseconds


def _write_duration(milliseconds: int) -> str:
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % _MILLISECONDS[unit] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def _checked_name(name: str) -> str:
    """Accept any text that expressions, term names and result tables can carry unambiguously."""
    if name != name.strip() or not name.isprintable() or re.search(r"[:/\[\]`\"]", name):
        raise ValueError(
            'a name has no blanks at its ends and none of : / [ ] ` "; rename the column in node.yaml'
        )
    return name


def _checked_text(text: str) -> str:
    if text != text.strip() or not text.isprintable() or '"' in text:
        raise ValueError("expected one printable line without blanks at its ends and without double quotes")
    return text


def _ordered_range(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] < ends[1]:
        raise ValueError("expected [lower, upper] with lower below upper")
    return ends


def utc(moment: datetime.datetime) -> datetime.datetime:
    """Return the same moment in UTC; raises ValueError for one so far off that some place on earth has no date for it."""
    if not 1970 <= moment.year <= 9998:
        raise ValueError("expected a moment in the years 1970 to 9998")
    return moment.astimezone(datetime.UTC)


def _without_negative_zero(value: float) -> float:
    return value + 0.0  # equal studies have equal bytes, and -0.0 == 0.0


def as_written(value: float) -> Fraction:
    """Return the decimal that a number of a study file stands for, exactly; ``value`` is finite.

    Steps are counted in these: 0.1 added up in floating point passes by 1.8, and somebody recorded as 1.8 would be in the
    bin below.
    """
    return Fraction(repr(value))


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(_write_duration, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": _DURATION, "description": "for example 100ms, 10m, 72h or 8d"}
    ),
]
"""Milliseconds; written with a unit."""
Finite = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_without_negative_zero)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_checked_name)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_checked_text)]
Slug = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""An id that is also a file name."""
Formula = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Range = Annotated[tuple[Finite, Finite], AfterValidator(_ordered_range)]


class Section(BaseModel):
    """Base of every section: no unknown keys, no coercion, no change after loading, no values in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
