"""Which further numbers of a table stay closed so that no small one follows from what is opened: from the pattern alone.

Known when this is decided, to every member and the coordinator, is only which numbers are small, zero or large. Values are not: so the
cheapest pattern cannot be chosen, and how near a value could be guessed cannot be judged.

`Complement.TOTALS`: a total is opened only if all its parts are. What is opened then consists of large cells and zeros, and totals of
those; no equation holds a closed number. Of a closed number nothing is known but whether it is small.

`Complement.COMPANY`: there are no totals, and the number of people is not opened; whoever knows it from elsewhere could compute one
number that is suppressed alone. So the first large one, if there is one, keeps it company. Of two small ones he learns their sum.

`Complement.CELLS`: totals are opened where they are large, and large numbers closed until

1. no small number, and no sum that is itself a single closed number, follows from the opened ones by adding and subtracting
   (exactly: its unit vector is no combination of the equations that the closed numbers obey), and
2. every opened total with a small part has a large closed part too: small ones alone do not hide each other, since two that add
   up to 2 are 1 and 1.

What this cannot give: bounds. Counts are not negative, so a small number s closed beside one large number c under an opened sum
s + c = R is known to be R - k or less by whoever knows the pattern. Whoever needs the attacker's interval judged takes `TOTALS`, or
opens nothing of the table but what `Complement.TOTALS` gives and lets a checker decide about the rest.
"""

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from cohortsum.protocol.committee.programs import Complement, OpenCounts


class Size(Enum):
    """What the comparison bits say of a number."""

    SMALL = "small"
    ZERO = "zero"
    LARGE = "large"


def closed(program: OpenCounts, sizes: Sequence[Size]) -> frozenset[int]:
    """Return the places of the numbers that are not opened: the small ones, and those that keep them hidden.

    Args:
        program: the table.
        sizes: of every number, cells first, then totals.
    """
    small = frozenset(place for place, size in enumerate(sizes) if size is Size.SMALL)
    lines = tuple((place, parts) for place, parts in enumerate(program.totals, start=program.cells))
    if program.complement is Complement.TOTALS:
        return _upwards(small, lines)
    if program.complement is Complement.COMPANY:
        return _together(small, sizes)
    return _sideways(small, sizes, lines)


Lines = tuple[tuple[int, tuple[int, ...]], ...]
"""Totals with their parts, as places."""


def _upwards(small: frozenset[int], lines: Lines) -> frozenset[int]:
    """Return the small numbers and every total that holds one, directly or through other totals."""
    held = set(small)
    for total, parts in lines:  # parts come before their total
        if held.intersection(parts):
            held.add(total)
    return frozenset(held)


def _together(small: frozenset[int], sizes: Sequence[Size]) -> frozenset[int]:
    """Return the small numbers and, beside a lone one, the first large one."""
    if len(small) != 1:
        return small
    return small | frozenset([place for place, size in enumerate(sizes) if size is Size.LARGE][:1])


def _sideways(small: frozenset[int], sizes: Sequence[Size], lines: Lines) -> frozenset[int]:
    """Return the small numbers and, line by line, the first large numbers that hide them; a total where no part is left."""
    held = set(small)

    def spare(where: Lines) -> list[int]:
        parts = [part for _, parts in where for part in parts]
        candidates = [*parts, *(total for total, _ in where)]
        return [one for one in candidates if one not in held and sizes[one] is Size.LARGE]

    while broken := _broken(held, small, lines):
        held.add(next(iter(spare(broken) or spare(lines))))
    return frozenset(held)


def _broken(held: set[int], small: frozenset[int], lines: Lines) -> Lines:
    """Return the lines of which one must close one more number; none if both rules hold."""
    for total, parts in lines:
        inside = held.intersection(parts)
        if total not in held and inside and inside <= small:
            return ((total, parts),)
    exposed = _exposed(held, lines)
    return tuple((total, parts) for total, parts in lines if exposed.intersection((total, *parts)))


def _exposed(held: set[int], lines: Lines) -> frozenset[int]:
    """Return the closed numbers that the equations give away."""
    places = sorted(held)
    column = {place: at for at, place in enumerate(places)}
    rows: list[list[Fraction]] = []
    for total, parts in lines:
        row = [Fraction(0)] * len(places)
        for place, factor in ((total, -1), *((part, 1) for part in parts)):
            if place in column:
                row[column[place]] += factor
        rows.append(row)
    alone = [row for row in _reduced(rows, len(places)) if sum(1 for value in row if value) == 1]
    return frozenset(places[next(at for at, value in enumerate(row) if value)] for row in alone)


def _reduced(rows: list[list[Fraction]], width: int) -> list[list[Fraction]]:
    """Return the reduced row echelon form: a unit vector lies in the row space exactly if it is one of these rows."""
    done = 0
    for at in range(width):
        pivot = next((row for row in range(done, len(rows)) if rows[row][at]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        scale = rows[done][at]
        rows[done] = [value / scale for value in rows[done]]
        for other in range(len(rows)):
            if other != done and rows[other][at]:
                factor = rows[other][at]
                rows[other] = [
                    value - factor * base for value, base in zip(rows[other], rows[done], strict=True)
                ]
        done += 1
    return rows[:done]
