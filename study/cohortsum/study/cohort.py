"""From raw values to the people and values that every statistic of a study sees.

The order is part of the meaning: who is in is judged on raw values, then values are clamped or excluded, then derived
variables are computed from those. A missing value never puts anyone in. Nothing here looks at more than one person at
a time, so a cohort may be prepared batch by batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import DataError
from cohortsum.study.batch import Batch
from cohortsum.study.definition.evaluation import evaluate, holds, names_in
from cohortsum.study.definition.frozen import FrozenStudy
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class Cohort:
    """The cohort of one study, at any site.

    Attributes:
        study: the study.
    """

    study: FrozenStudy

    @property
    def required(self) -> frozenset[str]:
        """Return the declared variables that a site must have to take part at all."""
        used: set[str] = set() if self.study.include is None else set(names_in(self.study.include))
        for spec in self.study.analyses.values():
            used |= set() if spec.where is None else names_in(spec.where)
            used |= spec.required
        return self.sources(used)

    @property
    def suppliable(self) -> frozenset[str]:
        """Return the outcomes and described variables, derived ones included, that a site may lack.

        A site supplies one of them if it has all its `sources`.
        """
        named = {name for spec in self.study.analyses.values() for name in spec.suppliable}
        required = self.required
        return frozenset(name for name in named if not self.sources([name]) <= required)

    @property
    def reads(self) -> frozenset[str]:
        """Return every declared variable that some analysis needs; the others need not be read."""
        return self.required | self.sources(self.suppliable)

    def sources(self, names: Iterable[str]) -> frozenset[str]:
        """Return the declared variables behind ``names``, through any chain of derived ones."""
        found: set[str] = set()
        for name in names:
            expression = self.study.derived.get(name)
            found |= {name} if expression is None else self.sources(names_in(expression))
        return frozenset(found)

    def prepare(self, raw: Batch) -> Batch:
        """Return the included people with values inside their public ranges and derived variables added.

        ``raw`` holds the declared variables this site has, in the study's units. A suppliable variable it lacks is
        absent from the result too, with what is derived from it. Raises DataError for a required one.
        """
        lacking = sorted(self.required - raw.numbers.keys() - raw.levels.keys())
        if lacking:
            raise DataError(f"no column for {', '.join(lacking)}; map it under variables in node.yaml")
        kept = self.included(raw)
        numbers = {
            name: _bounded(values[kept], variable)
            for name, values in raw.numbers.items()
            if isinstance(variable := self.study.variables.get(name), Number)
        }
        for name in self._derivation_order():
            parts = names_in(self.study.derived[name])
            variable = self.study.variables[name]
            if parts <= numbers.keys() and isinstance(variable, Number):
                values = evaluate(self.study.derived[name], {part: numbers[part] for part in parts})
                # The range holds every computed value; the clip makes a platform's rounding harmless.
                numbers[name] = np.clip(values, variable.lower, variable.upper)
        levels = {name: values[kept] for name, values in raw.levels.items() if name in self.study.factors}
        return Batch(int(np.count_nonzero(kept)), numbers, levels)

    def included(self, raw: Batch) -> NDArray[np.bool_]:
        """Return who of ``raw`` is in the cohort, (people,) bool: those whom `prepare` keeps, in the same order."""
        if self.study.include is None:
            return np.ones(raw.people, dtype=np.bool_)
        return holds(self.study.include, raw, self.study.factors)

    def _derivation_order(self) -> tuple[str, ...]:
        """Return the derived names, each after those it is made of."""
        order: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in self.study.derived and name not in order:
                for part in sorted(names_in(self.study.derived[name])):
                    visit(part)
                order[name] = None

        for name in self.study.derived:
            visit(name)
        return tuple(order)


def _bounded(values: NDArray[np.float64], variable: Number) -> NDArray[np.float64]:
    """Return the values clamped, or missing where outside, as the variable says; missing stays missing."""
    if variable.out_of_range == "clamp":
        return np.clip(values, variable.lower, variable.upper)
    return np.where((values < variable.lower) | (values > variable.upper), np.nan, values)
