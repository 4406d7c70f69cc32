"""The columns of a linear model, from terms and public ranges alone.

A term is a variable or an interaction ``a:b`` of variables. A factor gives one column of 0 and 1 per level against its
first level, an interaction the products of its variables' columns. Each column has a public range, by interval
arithmetic on the ranges of its parts, and is normalised to [-1, 1] with it. Levels come from the study, so a site that
lacks one has a column of zeros and the columns of all sites line up.

An interaction needs every smaller term that it contains: without them 0/1 columns against a reference mean something
else than in R or Python, which then switch to other columns without a word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.units import clipped, normalised
from cohortsum.study.variables import Factor, Number, Ranged, Variable


@dataclass(frozen=True, slots=True)
class Part:
    """One variable inside a column; ``level`` is the index of a factor's level, or None for a number."""

    variable: Variable
    level: int | None

    @property
    def name(self) -> str:
        """The name of the part in result tables."""
        if isinstance(self.variable, Number) or self.level is None:
            return self.variable.name
        return self.variable.level_name(self.variable.levels[self.level])

    @property
    def interval(self) -> tuple[float, float]:
        """The public range of the part's values."""
        return (0.0, 1.0) if isinstance(self.variable, Factor) else (self.variable.lower, self.variable.upper)

    def values(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the part's values for ``people`` in natural units, float64; NaN is missing."""
        if isinstance(self.variable, Number):
            return clipped(batch, self.variable, people)
        levels = batch.levels[self.variable.name][people]
        return np.where(levels < 0, np.nan, levels == self.level)


@dataclass(frozen=True, slots=True)
class CurvePart(Part):
    """One column of a curve over a number; ``column`` counts from 0."""

    curve: Curve
    column: int

    @property
    def name(self) -> str:
        """The name of the part; no table shows it."""
        return f"{self.variable.name}.{self.column + 1}"

    @property
    def interval(self) -> tuple[float, float]:
        """The public range of the column."""
        return self.curve.interval(self.column)

    def values(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the column for ``people``, float64; NaN is missing."""
        return self.curve.column(batch, people, self.column)


@dataclass(frozen=True, slots=True)
class Column(Ranged):
    """One column of the design.

    Attributes:
        term: the term of the study file it belongs to.
        parts: its variables; the column is the product of their values.
        lower: least possible value, natural units.
        upper: greatest possible value, natural units.
    """

    term: str
    parts: tuple[Part, ...]
    lower: float
    upper: float

    @property
    def name(self) -> str:
        """The term name of result tables, for example ``dx[autism]:age``."""
        return ":".join(part.name for part in self.parts)


@dataclass(frozen=True, slots=True)
class Group:
    """The people at one level of each of some factors; of no factor: everybody.

    Attributes:
        factors: in the order of the design.
        levels: the index of a level of each.
    """

    factors: tuple[Factor, ...]
    levels: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels."""
        return tuple(
            factor.level_name(factor.levels[level])
            for factor, level in zip(self.factors, self.levels, strict=True)
        )

    def holds(self, batch: Batch) -> NDArray[np.bool_]:
        """Return who of a batch is in the group, (people,) bool."""
        held = np.ones(batch.people, np.bool_)
        for factor, level in zip(self.factors, self.levels, strict=True):
            held &= batch.levels[factor.name] == level
        return held


@dataclass(frozen=True, slots=True)
class Design:
    """The columns of a model in the order of its terms, and the factors among its variables."""

    columns: tuple[Column, ...]
    factors: tuple[Factor, ...]

    def values(self, batch: Batch, people: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the normalised columns, (people, columns) float64 in [-1, 1]; NaN where a variable is missing."""
        design = np.empty((len(people), len(self.columns)))
        for position, column in enumerate(self.columns):
            natural = np.ones(len(people))
            for part in column.parts:
                natural = natural * part.values(batch, people)
            design[:, position] = normalised(natural, column.middle, column.half_width)
        return design

    def groups(self, columns: Literal[1, 2]) -> tuple[Group, ...]:
        """Return the groups that sums of single columns, or of products of two ``columns``, are about; everybody first.

        A column with parts of factors is 0 outside their levels, so its sum is about the people at them. With the
        smaller terms, which are always there, sums at the further levels give those at the reference too: where
        factors meet, every crossing of their levels is a group.
        """
        alone = {frozenset[int]()} | {
            frozenset(
                self.factors.index(part.variable)
                for part in column.parts
                if isinstance(part.variable, Factor)
            )
            for column in self.columns
        }
        met = alone if columns == 1 else {first | second for first in alone for second in alone}
        found: list[Group] = []
        for places in sorted(map(sorted, met), key=lambda places: (len(places), places)):
            factors = tuple(self.factors[place] for place in places)
            crossings = product(*(range(len(factor.levels)) for factor in factors))
            found += [Group(factors, levels) for levels in crossings]
        return tuple(found)


NOTHING = Design((), ())
"""A design without columns."""


def build_design(
    analysis: str,
    terms: Sequence[str],
    variables: Mapping[str, Variable],
    curves: Mapping[str, Curve] | None = None,
) -> Design:
    """Return the design of ``terms``; a variable of ``curves`` has the columns of its curve.

    Raises:
        StudyFileError: there is no term, a variable is unknown, a term repeats itself or another one, or an interaction
            lacks a smaller term it contains.
    """
    where = f"analysis '{analysis}', field 'terms'"
    if not terms:
        raise StudyFileError(f"{where}: expected at least one term; name a variable")
    seen: set[frozenset[str]] = set()
    for term in terms:
        names = term.split(":")
        for name in names:
            if name not in variables:
                raise StudyFileError(
                    f"{where}: '{term}' names '{name}', which is no variable of the study; declare it or correct it"
                )
        if len(set(names)) < len(names):
            raise StudyFileError(f"{where}: '{term}' repeats a variable; declare the power under 'derive'")
        if frozenset(names) in seen:
            raise StudyFileError(f"{where}: '{term}' is there twice; remove one")
        seen.add(frozenset(names))
    for term in terms:
        names = term.split(":")
        for smaller in (part for size in range(1, len(names)) for part in combinations(names, size)):
            if frozenset(smaller) not in seen:
                raise StudyFileError(
                    f"{where}: '{term}' needs '{':'.join(smaller)}' beside it; add that term"
                )
    used = dict.fromkeys(name for term in terms for name in term.split(":"))
    factors = tuple(variable for name in used if isinstance(variable := variables[name], Factor))
    columns = (column for term in terms for column in _columns(term, variables, curves or {}))
    return Design(tuple(columns), factors)


def _columns(term: str, variables: Mapping[str, Variable], curves: Mapping[str, Curve]) -> list[Column]:
    """Return the columns of one term, the last variable's levels running fastest."""
    choices: list[list[Part]] = []
    for name in term.split(":"):
        variable = variables[name]
        curve = curves.get(name)
        if curve is not None:
            choices.append([CurvePart(variable, None, curve, place) for place in range(curve.columns)])
            continue
        levels = range(1, len(variable.levels)) if isinstance(variable, Factor) else (None,)
        choices.append([Part(variable, level) for level in levels])
    return [Column(term, parts, *_interval(parts)) for parts in product(*choices)]


def _interval(parts: tuple[Part, ...]) -> tuple[float, float]:
    """Return the range of the product of ``parts``; its extremes lie in the corners of their box."""
    corners = [float(np.prod(corner)) for corner in product(*(part.interval for part in parts))]
    return min(corners), max(corners)
