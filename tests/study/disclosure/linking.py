"""Crossed tables of one to three factors, any of their margins printed, joined over the same people.

Tables that share a factor share its margin, and all of them share the total. The atoms of a join are the combinations of the
levels of all its factors; nobody has to know how many people are in them. Who lacks a level of a table's factors is in none
of its cells: such a factor has one more level, `missing`, unless another table counts everybody by it.

A table whose crossing is not printed, only margins, still has its cells protected: margins can fix them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.disclosure.tables import Atom, Cell, Standing, Tables
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.variables import Factor

MOST_ATOMS = 20_000
"""Combinations of levels beyond which a join is refused; an exact search over as many unknowns would not end."""
PEOPLE = "people"
MISSING = ""
"""The level of whoever has none; no level of a study is called so."""
Margin = tuple[str, ...]
"""Names of the factors that a margin keeps, in the table's order; none of them for the total."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One table, with the counts of its full crossing.

    Attributes:
        name: of the analysis.
        factors: one per axis of the counts.
        counts: of the people with a level of every factor, whole numbers.
        margins: which are printed, the crossing among them; None for all.
        missing: people without a level of some factor, where there can be any; printed.
        standing: ``ASKED``, or ``PUBLIC`` for a table that was released before.
        withheld: names of the cells that an earlier release hid.
    """

    name: str
    factors: tuple[Factor, ...]
    counts: NDArray[np.int64]
    margins: Collection[Margin] | None = None
    missing: int | None = None
    standing: Standing = Standing.ASKED
    withheld: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse counts of another shape."""
        if self.counts.shape != tuple(len(factor.levels) for factor in self.factors):
            raise ValueError(f"table {self.name}: the counts do not have one axis per factor")

    @property
    def printed(self) -> tuple[tuple[int, ...], ...]:
        """Return the axes that each printed margin keeps, finest first."""
        names = [factor.name for factor in self.factors]
        every = [axes for size in range(len(names), -1, -1) for axes in combinations(range(len(names)), size)]
        if self.margins is None:
            return tuple(every)
        return tuple(axes for axes in every if tuple(names[axis] for axis in axes) in self.margins)


def linked(tables: Sequence[Counted], people: int | None = None) -> Tables:
    """Return the cells of all tables over the same people.

    Args:
        tables: at least one; earlier releases among them.
        people: how many there are in all, where that is public; else nothing is said of it.

    Raises:
        StudyFileError: the factors have too many combinations of levels.
        ValueError: two tables count the same people differently.
    """
    factors = {factor.name: factor for table in tables for factor in table.factors}
    levels = {
        name: (*factor.levels, MISSING) if _incomplete(name, tables) else factor.levels
        for name, factor in factors.items()
    }
    combinations_of_levels = prod(len(one) for one in levels.values())
    if combinations_of_levels > MOST_ATOMS:
        raise StudyFileError(
            f"tables over {', '.join(factors)} together tell {combinations_of_levels} groups of people apart, more than "
            f"{MOST_ATOMS}; print fewer of them together, or merge levels"
        )
    cells: dict[frozenset[Atom], Cell] = {}
    lines: list[tuple[str, ...]] = []
    if people is not None:
        _add(cells, Cell(PEOPLE, frozenset(product(*levels.values())), people, Standing.PUBLIC))
    for table in tables:
        for cell in _cells(table, levels):
            _add(cells, cell)
        lines.extend(_lines(table))
    return Tables(tuple(cells.values()), tuple(lines))


def _cells(table: Counted, levels: Mapping[str, tuple[str, ...]]) -> Iterator[Cell]:
    """Return the printed cells, then who is in none, then the crossing where it is not printed."""
    axes_of = {factor.name: axis for axis, factor in enumerate(table.factors)}
    everything = tuple(range(len(table.factors)))

    def cell(kept: Sequence[int], at: tuple[int, ...], standing: Standing) -> Cell:
        where = dict(zip(kept, at, strict=True))
        chosen: list[tuple[str, ...]] = []
        for name, names in levels.items():
            axis = axes_of.get(name)
            if axis is None:
                chosen.append(names)
            elif axis in where:
                chosen.append((table.factors[axis].levels[where[axis]],))
            else:
                chosen.append(table.factors[axis].levels)
        index = tuple(where.get(axis, slice(None)) for axis in everything)
        count = int(table.counts[index].sum())
        return Cell(_name(table, kept, at), frozenset(product(*chosen)), count, standing)

    for kept in table.printed:
        for at in np.ndindex(*(len(table.factors[axis].levels) for axis in kept)):
            found = cell(kept, at, table.standing)
            hidden = found.name in table.withheld
            yield replace(found, standing=Standing.WITHHELD) if hidden else found
    if table.missing is not None and any(MISSING in levels[name] for name in axes_of):
        inside = cell((), (), table.standing).atoms
        name = set_name(table.name, "missing")
        standing = Standing.WITHHELD if name in table.withheld else table.standing
        yield Cell(name, frozenset(product(*levels.values())) - inside, table.missing, standing)
    if everything not in table.printed:
        for at in np.ndindex(*table.counts.shape):
            yield cell(everything, at, Standing.UNASKED)


def _lines(table: Counted) -> Iterator[tuple[str, ...]]:
    """Return every printed sum over one axis whose parts are printed."""
    printed = set(table.printed)
    for kept in table.printed:
        for place, axis in enumerate(kept):
            over = kept[:place] + kept[place + 1 :]
            if over not in printed:
                continue
            for at in np.ndindex(*(len(table.factors[other].levels) for other in over)):
                parts = (
                    _name(table, kept, (*at[:place], level, *at[place:]))
                    for level in range(len(table.factors[axis].levels))
                )
                yield (_name(table, over, at), *parts)


def _name(table: Counted, kept: Sequence[int], at: tuple[int, ...]) -> str:
    """Return the name that the block of a crosstab's cell has; a margin is named after the factors that it keeps."""
    factors = [table.factors[axis] for axis in kept]
    return set_name(
        table.name,
        *(factor.level_name(factor.levels[level]) for factor, level in zip(factors, at, strict=True)),
    )


def _add(cells: dict[frozenset[Atom], Cell], cell: Cell) -> None:
    """Add a cell, or its name and standing to the one that holds the same people."""
    same = cells.get(cell.atoms)
    if same is None:
        cells[cell.atoms] = cell
        return
    if same.count != cell.count:
        raise ValueError(f"{same.name} and {cell.name} are the same people and not as many")
    # what is public stays so, and what was withheld is not printed because it is asked for again
    strictest = (Standing.PUBLIC, Standing.WITHHELD, Standing.ASKED, Standing.UNASKED)
    standing = min(same.standing, cell.standing, key=strictest.index)
    cells[cell.atoms] = replace(same, standing=standing, also=(*same.also, cell.name))


def _incomplete(factor: str, tables: Sequence[Counted]) -> bool:
    """Whether some people may lack a level: no table counts everybody by it."""
    return all(table.missing for table in tables if any(one.name == factor for one in table.factors))
