"""The exact differencing oracle: what follows from all opened totals by linear algebra over the rationals.

Every (site, person) is an unknown and every opened block is one equation: the sum over the people of the sites that supply it
in U3. All blocks are taken to hold the same numbers, which gives the adversary the most. A functional on few unknowns
follows from the totals exactly if taking the few columns away lowers the rank. Written apart from the product: Bareiss
elimination and plain enumeration of subsets.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

Total = Mapping[int, frozenset[bytes]]
"""One opened block: the people of each site in it."""


def rank(columns: Iterable[Sequence[int]]) -> int:
    """Return the rank over the rationals (fraction-free elimination, Bareiss 1968)."""
    rows = [list(column) for column in columns]
    done, previous = 0, 1
    for at in range(len(rows[0]) if rows else 0):
        pivot = next((index for index in range(done, len(rows)) if rows[index][at]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        top = rows[done]
        for index in range(done + 1, len(rows)):
            row = rows[index]
            rows[index] = [
                (top[at] * value - row[at] * other) // previous for value, other in zip(row, top, strict=True)
            ]
        previous, done = top[at], done + 1
    return done


def _cells(totals: Sequence[Total], site: int) -> Counter[tuple[int, ...]]:
    """Return how many people of a site are in exactly the same totals."""
    people = {code for total in totals for code in total.get(site, frozenset[bytes]())}
    return Counter(
        tuple(int(code in total.get(site, frozenset[bytes]())) for total in totals) for code in people
    )


def fewest_sites(totals: Sequence[Total], protected: Iterable[int], bound: int) -> int | None:
    """Return the least number below ``bound`` of ``protected`` sites about which something follows; None if there is none.

    All other sites' people are taken as known. Sites with the same columns are one class; taking some of a class away
    leaves its columns, so only whole classes need a test.
    """
    columns = {site: frozenset(_cells(totals, site)) for site in protected}
    classes = Counter(held for held in columns.values() if held)
    full = rank(sorted({column for held in classes for column in held}))
    for size in range(1, len(classes) + 1):
        for few in combinations([held for held, sites in classes.items() if sites < bound], size):
            if sum(classes[held] for held in few) >= bound:
                continue
            rest = sorted({column for held in classes if held not in few for column in held})
            if rank(rest) < full:
                return sum(classes[held] for held in few)
    return None


def fewest_people(totals: Sequence[Total], site: int, k: int) -> int | None:
    """Return the least number below ``k`` of one site's people about whom something follows, all other sites known."""
    cells = _cells([total for total in totals if site in total], site)
    full = rank(sorted(cells))
    light = [cell for cell, people in cells.items() if people < k]
    found = [
        people
        for size in range(1, k)
        for few in combinations(light, size)
        if (people := sum(cells[cell] for cell in few)) < k and rank(sorted(cells.keys() - set(few))) < full
    ]
    return min(found, default=None)
