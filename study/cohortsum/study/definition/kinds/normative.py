"""``kind: normative``: centiles of outcomes over a number such as age, and other columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Formula, Name, Text
from cohortsum.study.definition.kinds.interface import AnalysisSection, OutcomesOnTerms, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term
from cohortsum.study.results import NORMATIVE_COLUMNS
from cohortsum.study.variables import Factor

MAX_POINTS = 10_000
"""Grid points of one analysis; nobody reads more."""

Values = tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NormativeSpec(OutcomesOnTerms):
    """Mean, spread and centiles of outcomes on a grid.

    Attributes:
        name: the analysis.
        outcomes: numeric variables, none of them in a term.
        over: the number the curve runs over; it is the first term.
        basis: of the curve.
        knots: interior knots of a spline.
        terms: all terms, ``over`` first.
        site_effect: ``none`` has one level, ``within`` takes differences between sites out.
        missing: complete cases per outcome, or of all outcomes together.
        scale: whether the spread is one number or depends on the terms.
        grid: the values at which centiles are given, by variable, in the order of the terms.
        centiles: in percent.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "normative"
    afterwards: ClassVar[frozenset[str]] = frozenset({"grid", "centiles"})

    name: str
    outcomes: tuple[str, ...]
    over: str
    basis: Literal["linear", "quadratic", "spline"]
    knots: tuple[float, ...]
    terms: tuple[Term, ...]
    site_effect: Literal["within", "none"]
    missing: Literal["per_outcome", "complete"]
    scale: Literal["constant", "modelled"]
    grid: Mapping[str, Values]
    centiles: tuple[int, ...]
    where: Condition | None

    @property
    def by_outcome(self) -> bool:
        """As ``missing`` says."""
        return self.missing == "per_outcome"


class NormativeEntry(AnalysisSection):
    """Centiles of outcomes over a number and other columns."""

    kind: Literal["normative"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    over: Name
    basis: Literal["linear", "quadratic", "spline"] = "spline"
    knots: Annotated[tuple[Finite, ...], Field(max_length=50)] = ()
    terms: Annotated[tuple[Formula, ...], Field(max_length=200)] = ()
    site_effect: Literal["within", "none"] = "none"
    missing: Literal["per_outcome", "complete"] = "per_outcome"
    scale: Literal["constant", "modelled"] = "constant"
    grid: dict[Name, tuple[Finite, ...] | tuple[Text, ...]]
    centiles: Annotated[tuple[Annotated[int, Field(ge=1, le=99)], ...], Field(min_length=1, max_length=99)] = (
        5, 25, 50, 75, 95,
    )  # fmt: skip

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, NormativeSpec]:
        """Return the entry with globs, terms and the grid written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        over = reading.number(self.over, path_of(name, "over"))
        terms = self._terms(name, reading)
        reading.no_outcome_in_terms(outcomes, terms, path_of(name, "outcomes"))
        self._check_knots(name, reading)
        grid = self._grid(name, terms, reading)
        if any(first >= second for first, second in pairwise(self.centiles)):
            reading.problems.add(path_of(name, "centiles"), "expected percentages that increase")
        written = {
            "outcomes": outcomes,
            "terms": tuple(write_term(term) for term in terms[1:]),
            "grid": dict(grid),
        }
        spec = NormativeSpec(
            name=name,
            outcomes=outcomes,
            over=over,
            basis=self.basis,
            knots=self.knots,
            terms=terms,
            site_effect=self.site_effect,
            missing=self.missing,
            scale=self.scale,
            grid=MappingProxyType(grid),
            centiles=self.centiles,
            where=where,
        )
        return self.model_copy(update=written), spec

    def _terms(self, name: str, reading: Reading) -> tuple[Term, ...]:
        """Return all terms, that of the curve first."""
        if self.over not in reading.variables:
            return ()
        path = path_of(name, "terms")
        terms = reading.terms(self.terms, path)
        if (self.over,) in terms:
            reading.problems.add(path, f"{self.over!r} is the curve's; remove it here")
        return ((self.over,), *terms)

    def _check_knots(self, name: str, reading: Reading) -> None:
        """Note knots that make no spline."""
        path, variable = path_of(name, "knots"), reading.variables.get(self.over)
        if self.knots and self.basis != "spline":
            reading.problems.add(path, f"knots belong to basis: spline; remove them or basis: {self.basis}")
        if any(first >= second for first, second in pairwise(self.knots)):
            reading.problems.add(path, "expected knots that increase")
        if variable is None or isinstance(variable, Factor):
            return
        if any(not variable.lower < knot < variable.upper for knot in self.knots):
            reading.problems.add(
                path,
                f"expected knots inside the range of {self.over!r}, {variable.lower:g} to {variable.upper:g}",
            )

    def _grid(self, name: str, terms: tuple[Term, ...], reading: Reading) -> dict[str, Values]:
        """Return the values of every variable of the terms; a factor without any has all its levels."""
        path = path_of(name, "grid")
        used = list(dict.fromkeys(part for term in terms for part in term))
        for unknown in (key for key in self.grid if key not in used):
            reading.problems.add(
                (*path, unknown), f"{unknown!r} is in no term; expected values of {', '.join(used)}"
            )
        found: dict[str, Values] = {}
        for key in used:
            variable, values = reading.variables[key], self.grid.get(key)
            here = (*path, key)
            if key in NORMATIVE_COLUMNS or key in {f"p{centile:02d}" for centile in self.centiles}:
                reading.problems.add(here, f"the result table has a column {key!r}; rename the variable")
            if isinstance(variable, Factor):
                levels = tuple(str(value) for value in values or variable.levels)
                for level in levels:
                    if level not in variable.levels:
                        reading.problems.add(
                            here, f"{level!r} is no level; expected {', '.join(variable.levels)}"
                        )
                found[key] = levels
            elif not values:
                reading.problems.add(here, "is missing; add the values at which centiles are given")
            else:
                numbers = tuple(value for value in values if isinstance(value, float))
                if len(numbers) < len(values) or not all(
                    variable.lower <= value <= variable.upper for value in numbers
                ):
                    reading.problems.add(
                        here, f"expected numbers inside the range, {variable.lower:g} to {variable.upper:g}"
                    )
                found[key] = numbers
        if prod(len(values) for values in found.values()) > MAX_POINTS:
            reading.problems.add(path, f"more than {MAX_POINTS} points; give fewer values")
        return found
