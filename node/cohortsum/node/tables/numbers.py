"""Text to numbers, by one strict grammar, and the codes that stand for a missing value.

Neither Python's nor a library's grammar is used as it is: they take ``1_000``, ``inf`` and hexadecimal
numbers, and differ in what they call missing. ``.0412`` and ``1.5e-3`` are numbers; infinities and anything
else are errors.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "."})
"""Texts that mean "no value" in every table; a site declares more (-9999) in node.yaml."""

PATTERN = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""The grammar of a number, also for regular expressions outside Python."""

_CHARACTERS = b"0123456789+-.eE"
NUMBER = re.compile(PATTERN)
_COMMA_NUMBER = re.compile(PATTERN.replace(r"\.", ","))
_POINT = re.compile(r"[0-9]\.|\.[0-9]")
_FAULT = float("inf")  # no valid number is infinite, so infinity can mark a text that is none


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of one column, in the study's unit, and what was wrong with it.

    Attributes:
        values: (rows,) float64; NaN is missing, and also stands where a text was refused.
        faults: rows that hold neither a finite number nor a missing code.
        disguised: rows that hold a declared missing code in another spelling (``-9999.0`` for ``-9999``).
    """

    values: NDArray[np.float64]
    faults: int
    disguised: int


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """How one column's text becomes numbers.

    Attributes:
        factor: the study's unit per unit of the column.
        declared: missing codes of the site, compared as text.
        codes: texts that stand for a number, for example ``89+``.
    """

    factor: float = 1.0
    declared: frozenset[str] = frozenset()
    codes: Mapping[str, str] | None = None

    def parse(self, texts: Iterable[str], *, decimal_comma: bool = False) -> Numbers:
        """Return the values of ``texts``; each is stripped of blanks already."""
        codes = self.codes or {}
        known = dict.fromkeys(MISSING | self.declared, np.nan) | {
            code: _plain_number(number) for code, number in codes.items()
        }
        texts = list(texts)
        told = [text for text in texts if text not in known]
        numbers = None if decimal_comma else plain_numbers(told)
        if numbers is None:  # somebody's text is none, or might be none
            numbers = list(map(_comma_number if decimal_comma else _plain_number, told))
        raw = np.array(numbers)
        if len(told) < len(texts):
            given = iter(numbers)
            raw = np.array([known[text] if text in known else next(given) for text in texts], np.float64)
        sentinels = self._sentinels()
        disguised = int(np.isin(raw, sentinels).sum()) if sentinels else 0
        with np.errstate(over="ignore"):
            values = raw * self.factor
        faulty = np.isinf(values)
        values[faulty] = np.nan
        return Numbers(values, int(faulty.sum()), disguised)

    def decimal_signs(self, texts: Iterable[str]) -> tuple[int, int]:
        """Return how many of ``texts``, codes aside, hold a comma and how many a decimal point."""
        known = self.declared | (self.codes or {}).keys()
        commas = points = 0
        for text in texts:
            if text not in known:
                commas += "," in text
                points += _POINT.search(text) is not None
        return commas, points

    def _sentinels(self) -> list[float]:
        return [float(code) for code in self.declared if NUMBER.fullmatch(code)]


def plain_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers that ``texts`` spell, or None where one of them spells none.

    Made of these characters alone, a text is a number to Python exactly where it is one by ``PATTERN``; so a whole
    column costs a few passes of compiled code. A number beyond the range of a double is infinite.
    """
    if "".join(texts).encode("utf-8", "surrogatepass").translate(None, _CHARACTERS):
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None


def parse_number(text: str) -> float | None:
    """Return the finite number that ``text`` spells, or None."""
    value = _plain_number(text)
    return None if np.isinf(value) else value


def _plain_number(text: str) -> float:
    return float(text) if NUMBER.fullmatch(text) else _FAULT


def _comma_number(text: str) -> float:
    return float(text.replace(",", ".")) if _COMMA_NUMBER.fullmatch(text) else _FAULT
