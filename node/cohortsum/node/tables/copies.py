"""Copies of one column in several tables: FreeSurfer's and ENIGMA's tables repeat whole-head measures.

One of them is used. The others must agree with it, because two that differ come from two runs, and then the tables of the
site do not belong together.
"""

from collections.abc import Mapping

import numpy as np

from cohortsum.node.tables.mapping import Column
from cohortsum.node.tables.numbers import NumberColumn
from cohortsum.node.tables.values import Cells

TOLERANCE = 1e-5
"""Greatest relative difference of copies that agree: programs print them with six digits or more."""


def disagreements(
    cells: Cells, copies: Mapping[str, tuple[str, Column]], columns: Mapping[str, Column]
) -> dict[str, int]:
    """Return how many people have another value in a copy, for the copies where somebody has.

    A copy without a value contradicts nothing. Texts that are no numbers are left to the parsing of the column.

    Args:
        cells: the joined text.
        copies: variable and column of every copy, by its name in ``cells``.
        columns: the column of every variable.
    """
    counts = dict.fromkeys(copies, 0)
    asked = copies.keys() | {variable for variable, _ in copies.values()}
    for _, texts in cells.slices(asked) if copies else ():
        for key, (variable, copy) in copies.items():
            ours, theirs = columns[variable].reading, copy.reading
            if isinstance(ours, NumberColumn) and isinstance(theirs, NumberColumn):
                one, other = ours.parse(texts[variable]).values, theirs.parse(texts[key]).values
                apart = np.abs(one - other) > TOLERANCE * np.maximum(np.abs(one), np.abs(other))
                counts[key] += int(apart.sum())
            else:
                counts[key] += sum(
                    a != b for a, b in zip(texts[variable], texts[key], strict=True) if a and b
                )
    return {key: people for key, people in counts.items() if people}
