"""How the people sets of a study overlap where everything is there: the cells that every protected site must have, and no others.

Two sums over nearly the same people can be subtracted. If the sets of a round overlap at one protected site in another way than
at the others (nobody at a level, somebody without a value), a difference is about that site alone. So every protected site
compares the cells of its own people with those that follow from the public study: every combination of levels, and of the
places where an edge or a threshold of the study parts a number, with nobody missing.

The combinations are played through as invented people. Where that needs more than `MOST` of them, nobody can be protected.
"""

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import PolicyError
from cohortsum.study.batch import Batch
from cohortsum.study.definition import Condition, FrozenStudy, constants_in, names_in
from cohortsum.study.planning import PEOPLE, StudyPlan
from cohortsum.study.variables import Number

Cells = frozenset[frozenset[str]]
MOST = 200_000


def expected_cells(plan: StudyPlan, supplied: frozenset[str]) -> Cells:
    """Return the cells of the people sets that a site with these items sends numbers about.

    Raises PolicyError where the study has too many combinations.
    """
    names = plan.people_sets(supplied)
    cells: set[frozenset[str]] = set()
    for masks in plan.members([_everybody(plan.study)]):
        wanted = [name for name in masks if name in names]
        rows: NDArray[np.bool_] = np.array([masks[name] for name in wanted]).T
        cells |= {
            frozenset(name for name, inside in zip(wanted, row, strict=True) if inside)
            for row in np.unique(rows, axis=0)
        }
    return frozenset(cell for cell in cells if PEOPLE.name in cell)


def _everybody(study: FrozenStudy) -> Batch:
    """Return one invented person for every combination that the study can tell apart."""
    declared = {name: entry for name, entry in study.variables.items() if name not in study.derived}
    levels = {name: range(len(study.factors[name].levels)) for name in declared if name in study.factors}
    points = {
        name: sorted(_points(study, entry)) for name, entry in declared.items() if isinstance(entry, Number)
    }
    number = 1
    for values in (*levels.values(), *points.values()):
        number *= len(values)
    if number > MOST:
        raise PolicyError(
            f"study {study.study} tells {number} kinds of people apart; a protected site would need all of them"
        )
    combinations = list(product(*levels.values(), *points.values()))
    columns = np.array(combinations, dtype=np.float64).T.reshape(len(levels) + len(points), number)
    return Batch(
        number,
        dict(zip(points, columns[len(levels) :], strict=True)),
        {name: columns[place].astype(np.int16) for place, name in enumerate(levels)},
    )


def _points(study: FrozenStudy, variable: Number) -> set[float]:
    """Return values on both sides of everything that parts this variable, and the partings themselves."""
    partings = {variable.lower, variable.upper}
    for spec in study.analyses.values():
        partings |= spec.partings(variable.name)
    for condition in _conditions(study):
        if variable.name in _read_by(study, condition):
            partings |= constants_in(condition)
    ordered = sorted(partings)
    if len(ordered) == 2:
        return {(variable.lower + variable.upper) / 2}
    return set(ordered) | {(low + high) / 2 for low, high in pairwise(ordered)}


def _conditions(study: FrozenStudy) -> Iterator[Condition]:
    if study.include is not None:
        yield study.include
    for spec in study.analyses.values():
        if spec.where is not None:
            yield spec.where


def _read_by(study: FrozenStudy, condition: Condition) -> frozenset[str]:
    """Return the declared variables behind a condition, derived ones followed."""
    found, pending = set[str](), set(names_in(condition))
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        expression = study.derived.get(name)
        if expression is not None:
            pending |= names_in(expression)
    return frozenset(found)
