"""Published tables as sets of people: every equation between counts that an attacker could use follows from them.

A cell, a margin, a total and a cell of another table over the same people are alike: each is a count of a set of atoms, the
smallest groups that the tables together tell apart. Whoever sees the counts of some sets knows one equation per set, and that no
atom holds fewer than nobody. So nothing has to be declared about margins, hierarchies and links: a margin is the union of its
cells because it holds the same atoms. Atoms that lie in the same sets are one region, the unknown of every attack.

A set also matters that nobody prints: what remains when one printed set is taken from another that contains it, for example the
people without a value. It is protected like a cell where it is small.
"""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Atom = Hashable
Membership = NDArray[np.float64]
"""(cells, regions): 1 where the cell holds the region, else 0."""


class Standing(StrEnum):
    """What has been decided about a cell before anybody chooses what to hide."""

    ASKED = "asked"
    """It would be printed now, and may be hidden."""
    PUBLIC = "public"
    """It was printed, or is known anyway: nothing hides it any more."""
    WITHHELD = "withheld"
    """An earlier release hid it, and it stays hidden."""
    UNASKED = "unasked"
    """Nobody prints it, but nobody may learn it either."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The count of a set of people.

    Attributes:
        name: unique among the tables.
        atoms: what it adds up.
        count: how many people, not negative.
        standing: whether it is printed, and whether it may be hidden.
        also: other names of the same set, in linked tables.
    """

    name: str
    atoms: frozenset[Atom]
    count: int
    standing: Standing = Standing.ASKED
    also: tuple[str, ...] = ()

    @property
    def printed(self) -> bool:
        """Whether readers see its place, filled or hidden."""
        return self.standing is not Standing.UNASKED


@dataclass(frozen=True, slots=True)
class Tables:
    """Cells of one or more tables over the same people.

    Attributes:
        cells: no two with the same atoms; what is asked and what earlier releases hold. Their order settles ties.
        lines: names of a sum and of its parts, for some equations of the tables. They speed a search up and say nothing new.
    """

    cells: tuple[Cell, ...]
    lines: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        """Refuse cells that are not sets of people with names of their own."""
        names = [name for cell in self.cells for name in (cell.name, *cell.also)]
        if len(set(names)) < len(names):
            raise ValueError("two cells have the same name")
        if len({cell.atoms for cell in self.cells}) < len(self.cells):
            raise ValueError("two cells hold the same atoms; make them one with two names")
        if any(cell.count < 0 or not cell.atoms for cell in self.cells):
            raise ValueError("a cell holds no atoms or fewer than no people")

    def places(self, names: Iterable[str]) -> list[int]:
        """Return where the cells of these names, first or other, stand among the cells."""
        place = {name: place for place, cell in enumerate(self.cells) for name in (cell.name, *cell.also)}
        return [place[name] for name in names]

    def withholding(self, names: Collection[str]) -> "Tables":
        """Return the same tables with these cells hidden for good."""
        places = set(self.places(names))
        return replace(
            self,
            cells=tuple(
                replace(cell, standing=Standing.WITHHELD) if place in places else cell
                for place, cell in enumerate(self.cells)
            ),
        )

    def released(self, hidden: Collection[str]) -> "Tables":
        """Return the same tables after a release that hid these cells and printed all others."""
        places = set(self.places(hidden))
        return replace(
            self,
            cells=tuple(
                replace(cell, standing=Standing.WITHHELD if place in places else Standing.PUBLIC)
                if cell.standing is Standing.ASKED
                else cell
                for place, cell in enumerate(self.cells)
            ),
        )

    def membership(self) -> Membership:
        """Return which regions each cell holds."""
        signatures: dict[Atom, list[int]] = {}
        for place, cell in enumerate(self.cells):
            for atom in cell.atoms:
                signatures.setdefault(atom, []).append(place)
        regions = sorted({tuple(signature) for signature in signatures.values()})
        held = np.zeros((len(self.cells), len(regions)))
        for region, signature in enumerate(regions):
            held[list(signature), region] = 1.0
        return held


def with_differences(tables: Tables, threshold: int) -> Tables:
    """Return the tables with what two printed sets leave between them, where that is 1 to ``threshold - 1`` people.

    Only differences of two sets are looked at: what a longer combination leaves between others is protected where it is a cell.
    What two public sets leave between them is public as well, and beyond help.
    """
    sets = [_mask(row) for row in tables.membership()]
    known = set(sets)
    found: list[Cell] = []
    printed = [place for place, cell in enumerate(tables.cells) if cell.printed]
    for outer in printed:
        for inner in printed:
            people = tables.cells[outer].count - tables.cells[inner].count
            if not 1 <= people < threshold or sets[inner] & ~sets[outer]:
                continue
            public = {tables.cells[place].standing for place in (outer, inner)} == {Standing.PUBLIC}
            rest = sets[outer] & ~sets[inner]
            if rest not in known and not public:
                known.add(rest)
                found.append(_difference(tables.cells[outer], tables.cells[inner], people))
    return replace(tables, cells=(*tables.cells, *found))


def _difference(outer: Cell, inner: Cell, people: int) -> Cell:
    name = f"{outer.name} less {inner.name}"
    return Cell(name, outer.atoms - inner.atoms, people, Standing.UNASKED)


def _mask(row: NDArray[np.float64]) -> int:
    """Return a row of the membership as the bits of one integer."""
    return int.from_bytes(np.packbits(row > 0).tobytes(), "big")
