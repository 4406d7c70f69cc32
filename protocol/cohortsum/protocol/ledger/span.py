"""Does a linear combination of totals rest on few people only?

A total over a people set is its indicator, one coordinate per atom (people who are in exactly the same sets). What can be
computed from several totals is their rational span. It *leaves* the people on whom a vector of the span is not zero. So the
question is whether the span holds a vector other than zero whose support weighs less than k: the least weight of a linear
code, over the rationals and with weighted coordinates (compare Chin and Ozsoyoglu 1982 on audits of sums).

The search is exact. Atoms of k people or more must be zero: that leaves a subspace of dimension d over light atoms. It then
branches on one light atom at a time: zero there (d falls by one), or people of it used up (the budget falls by its weight).
A branch ends when only zero is left, or when the support of what is left is paid for. With m the greatest number of light
atoms that together weigh less than k there are at most binomial(d + m, m) leaves, m < k, each step costing d times the number of
atoms. Mostly d is 0, because big atoms pin everything; the worst case is exponential, hence a bound on the steps.

Integers only, never floats: a vector is scaled by what it is eliminated with and divided by its greatest common divisor.
"""

from collections.abc import Sequence
from enum import StrEnum
from math import gcd

Vector = tuple[int, ...]


class Finding(StrEnum):
    """What the search found."""

    CLEAR = "every combination leaves none, or at least k"
    FEW = "some combination leaves 1 to k-1"
    TOO_LONG = "not settled within the allowed steps"


def least_support(totals: Sequence[Vector], weights: Sequence[int], k: int, steps: int) -> Finding:
    """Return whether a combination of ``totals`` rests on 1 to k-1 people.

    Args:
        totals: (sets, atoms) integers, an indicator each.
        weights: (atoms,) people per atom, at least 1.
        k: as in `Limits`.
        steps: after so many branches the search gives up.
    """
    space = independent(totals)
    for column, weight in enumerate(weights):
        if weight >= k:
            space = vanishing(space, column)
    open_branches: list[tuple[list[Vector], int, frozenset[int]]] = [(space, k - 1, frozenset())]
    while open_branches:
        space, budget, paid = open_branches.pop()
        if not space:
            continue
        if steps == 0:
            return Finding.TOO_LONG
        steps -= 1
        support = {column for row in space for column, value in enumerate(row) if value} - paid
        if not support:
            return Finding.FEW
        heaviest = max(support, key=lambda column: (weights[column], column))
        open_branches.append((vanishing(space, heaviest), budget, paid))
        if weights[heaviest] <= budget:
            open_branches.append((space, budget - weights[heaviest], paid | {heaviest}))
    return Finding.CLEAR


def independent(rows: Sequence[Vector]) -> list[Vector]:
    """Return a basis of the span of ``rows``."""
    basis: list[tuple[int, Vector]] = []
    for row in rows:
        for column, pivot in basis:
            row = _cleared(row, pivot, column)
        first = next((column for column, value in enumerate(row) if value), None)
        if first is not None:
            basis.append((first, row))
    return [row for _, row in basis]


def vanishing(basis: list[Vector], column: int) -> list[Vector]:
    """Return a basis of those vectors of the span of ``basis`` that are zero at ``column``."""
    pivot = next((row for row in basis if row[column]), None)
    if pivot is None:
        return basis
    return [_cleared(row, pivot, column) for row in basis if row is not pivot]


def _cleared(row: Vector, pivot: Vector, column: int) -> Vector:
    """Return a multiple of ``row`` plus one of ``pivot`` that is zero at ``column``."""
    if not row[column]:
        return row
    left, right = pivot[column], row[column]
    result = [left * value - right * other for value, other in zip(row, pivot, strict=True)]
    divisor = gcd(*result)
    return tuple(value // divisor for value in result) if divisor > 1 else tuple(result)
