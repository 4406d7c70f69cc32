"""Everything that a release counts about the same people, as cells over shared coordinates.

A coordinate parts everybody: by the levels of a factor and who has none; by the bands of a number, cut wherever some table of it
cuts, and who has no value; by whether somebody is in a subgroup. A printed count is a product of choices, one per coordinate, and
everybody along all others. What an attacker can compute from them then follows by itself (`tables`): a margin, a complement, a table of
another analysis and one of an earlier release are all sets of the same atoms.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.disclosure.tables import Atom, Cell, Standing, Tables

MOST_ATOMS = 20_000
"""Groups of people beyond which an exact search would not end."""
MISSING = ""
"""Who has no level or no value; no level of a study is called so."""
INSIDE, OUTSIDE = "inside", "outside"
"""Of a subgroup."""

Coordinate = Hashable
Choice = Mapping[Coordinate, Collection[str]]
"""Which parts of which coordinates a count is about."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The count of a set of people.

    Attributes:
        name: unique in the universe.
        choice: who they are; everybody along coordinates that it does not name.
        people: how many.
        standing: whether it is printed, and whether it may be hidden.
        less: who of them are not; None for nobody.
    """

    name: str
    choice: Choice
    people: int
    standing: Standing = Standing.ASKED
    less: Choice | None = None


_STRICTEST = (Standing.PUBLIC, Standing.WITHHELD, Standing.ASKED, Standing.UNASKED)


@dataclass
class Universe:
    """Counts over coordinates; two of the same people become one cell with two names.

    Attributes:
        coordinates: the parts of every coordinate, by its name.
    """

    coordinates: dict[Coordinate, tuple[str, ...]] = field(default_factory=dict[Coordinate, tuple[str, ...]])
    _counts: list[Counted] = field(default_factory=list[Counted])

    def add(self, *counted: Counted) -> None:
        """Add counts; coordinates that are added later part everybody in them alike."""
        self._counts += counted

    def tables(self) -> Tables:
        """Return the cells.

        Nobody who is withheld is left out: a cell is hidden because it holds somebody (`rules.Knowledge`), but what is hidden whole,
        as a row of a small group, hides its zeros too.

        Raises:
            RefusedError: the coordinates tell more than `MOST_ATOMS` groups apart.
            ValueError: two counts of the same people differ.
        """
        used = {name for one in self._counts for name in (*one.choice, *(one.less or ()))}
        parts = {name: self.coordinates[name] for name in self.coordinates if name in used}
        atoms = prod(map(len, parts.values()))
        if atoms > MOST_ATOMS:
            raise RefusedError(
                f"tables that together tell {atoms} groups of people apart, more than {MOST_ATOMS}, cannot be checked "
                "against each other; print fewer of them in one study, or merge levels"
            )
        cells: dict[frozenset[Atom], Cell] = {}
        for one in self._counts:
            held = _atoms(parts, one.choice)
            if one.less is not None:
                held -= _atoms(parts, one.less)
            if held and (one.people or one.standing is not Standing.WITHHELD):
                _add(cells, Cell(one.name, held, one.people, one.standing))
        return Tables(tuple(cells.values()))


def _atoms(parts: Mapping[Coordinate, tuple[str, ...]], choice: Choice) -> frozenset[Atom]:
    return frozenset(product(*(choice.get(coordinate, every) for coordinate, every in parts.items())))


def _add(cells: dict[frozenset[Atom], Cell], cell: Cell) -> None:
    """Add a cell, or its name and standing to the one that holds the same people.

    What is public stays so, and what was withheld is not printed because it is asked for again.
    """
    same = cells.get(cell.atoms)
    if same is None:
        cells[cell.atoms] = cell
        return
    if same.count != cell.count:
        raise ValueError(f"{same.name} and {cell.name} are the same people and not as many")
    standing = min(same.standing, cell.standing, key=_STRICTEST.index)
    cells[cell.atoms] = replace(same, standing=standing, also=(*same.also, cell.name))
