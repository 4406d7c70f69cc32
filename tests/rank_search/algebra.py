"""Sparse linear algebra over a prime field, as far as the rank search needs it.

A row is one equation the adversary holds: a combination of inputs plus a combination of masks equals a number
it knows. A combination of rows in which every mask cancels determines the same combination of inputs. If none
exists, the masks, uniform and independent, hide the inputs perfectly.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

PRIME = 2**61 - 1

Unknown = TypeVar("Unknown", bound=Hashable)
Input = tuple[str, int]
"""(part, site): what one honest site put into one part of the round."""
Total = dict[Input, int]
"""A combination of inputs, coefficients modulo ``PRIME``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One equation; no coefficient is zero."""

    inputs: Mapping[Input, int]
    masks: Mapping[Hashable, int]


def _plus(left: Mapping[Unknown, int], factor: int, right: Mapping[Unknown, int]) -> dict[Unknown, int]:
    """Return ``left + factor * right`` without zero coefficients."""
    result = dict(left)
    for unknown, coefficient in right.items():
        value = (result.get(unknown, 0) + factor * coefficient) % PRIME
        if value:
            result[unknown] = value
        else:
            result.pop(unknown, None)
    return result


def basis(vectors: Iterable[Mapping[Unknown, int]]) -> list[dict[Unknown, int]]:
    """Return an independent set of vectors with the same span."""
    pivots: list[tuple[Unknown, dict[Unknown, int]]] = []
    for vector in vectors:
        rest = dict(vector)
        for unknown, pivot in pivots:
            if unknown in rest:
                rest = _plus(rest, -rest[unknown], pivot)
        if rest:
            unknown, coefficient = next(iter(rest.items()))
            pivots.append((unknown, _plus({}, pow(coefficient, -1, PRIME), rest)))
    return [pivot for _, pivot in pivots]


def _without_lonely_masks(rows: list[Row]) -> list[Row]:
    """Drop rows with a mask that no other row holds: no combination can use them."""
    while True:
        holders = Counter(mask for row in rows for mask in row.masks)
        kept = [row for row in rows if all(holders[mask] > 1 for mask in row.masks)]
        if len(kept) == len(rows):
            return kept
        rows = kept


def determined(rows: Iterable[Row]) -> list[Total]:
    """Return a basis of the combinations of inputs that the rows give away: no mask is left in them."""
    todo = _without_lonely_masks(list(rows))
    found: list[Total] = []
    while todo:
        row = todo.pop()
        if not row.masks:
            found.append(dict(row.inputs))
            continue
        mask, coefficient = next(iter(row.masks.items()))
        scale = -pow(coefficient, -1, PRIME)
        for at, other in enumerate(todo):
            if mask in other.masks:
                factor = scale * other.masks[mask] % PRIME
                todo[at] = Row(_plus(other.inputs, factor, row.inputs), _plus(other.masks, factor, row.masks))
    return basis(found)


def spans(totals: Sequence[Total], others: Sequence[Total]) -> bool:
    """Return whether every one of ``others`` is a combination of ``totals``."""
    return len(basis([*totals, *others])) == len(basis(totals))


def isolates(totals: Sequence[Total], fewer_than: int) -> bool:
    """Return whether some combination that is not zero is about fewer than ``fewer_than`` sites.

    There is one about a set of sites exactly if leaving the set out of every total lowers their rank.
    """
    independent = basis(totals)
    sites = sorted({site for total in independent for _, site in total})
    return any(
        len(
            basis(
                {unknown: x for unknown, x in total.items() if unknown[1] not in few} for total in independent
            )
        )
        < len(independent)
        for few in combinations(sites, min(fewer_than - 1, len(sites)))
    )
