"""Text to levels. The study owns the levels and their order; a site's codes are mapped, never guessed.

Without codes a text must equal a level letter by letter: ``1.0`` is not ``1``, and ``Male`` is not ``male``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.node.tables.numbers import MISSING

_FAULT = -2


@dataclass(frozen=True, slots=True)
class Levels:
    """The values of one column and how many texts were unknown.

    Attributes:
        values: (rows,) int16, the index of the level; -1 is missing, or a text that was refused.
        faults: rows whose text is neither a known code nor a missing code.
    """

    values: NDArray[np.int16]
    faults: int


@dataclass(frozen=True, slots=True)
class LevelColumn:
    """How one column's text becomes levels.

    Attributes:
        levels: the study's levels in order.
        declared: missing codes of the site, compared as text.
        codes: the site's codes and the levels they mean; None: the levels themselves.
    """

    levels: tuple[str, ...]
    declared: frozenset[str] = frozenset()
    codes: Mapping[str, str] | None = None

    def parse(self, texts: Iterable[str]) -> Levels:
        """Return the level indices of ``texts``; each is stripped of blanks already."""
        index = self._index()
        values = np.fromiter((index.get(text, _FAULT) for text in texts), np.int16)
        faulty = values == _FAULT
        values[faulty] = -1
        return Levels(values, int(faulty.sum()))

    def _index(self) -> dict[str, int]:
        """Return the level index by text: codes win over missing codes, declared ones over level names."""
        place = {level: index for index, level in enumerate(self.levels)}
        built_in, declared = dict.fromkeys(MISSING, -1), dict.fromkeys(self.declared, -1)
        if self.codes is None:
            return built_in | place | declared
        return built_in | declared | {code: place.get(level, _FAULT) for code, level in self.codes.items()}
