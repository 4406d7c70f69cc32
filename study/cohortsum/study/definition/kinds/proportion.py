"""``kind: proportion``: the share of people above a threshold, or at each level of a factor, by groups."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Finite, Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.results import PROPORTION_COLUMNS
from cohortsum.study.statistics.proportion_noised import PROPORTION_NOISE_COLUMNS
from cohortsum.study.variables import Number


@dataclass(frozen=True, slots=True)
class ProportionSpec(AnalysisSpec):
    """Shares of people above each of ``thresholds`` of ``variables``, and at each level of ``factors``.

    Attributes:
        name: the analysis.
        variables: numbers, compared with every threshold.
        thresholds: ascending, in the variables' unit; a person counts who is above one.
        factors: whose levels are counted.
        by: factors whose levels, crossed, are the groups.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "proportion"

    name: str
    variables: tuple[str, ...]
    thresholds: tuple[float, ...]
    factors: tuple[str, ...]
    by: tuple[str, ...]
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The variables and the factors."""
        return frozenset({"variables", "factors"})

    @property
    def required(self) -> frozenset[str]:
        """The factors that are counted, and those that make the groups."""
        return frozenset({*self.factors, *self.by})

    @property
    def suppliable(self) -> frozenset[str]:
        """The numbers."""
        return frozenset(self.variables)

    @property
    def about(self) -> frozenset[str]:
        """Whatever is counted."""
        return frozenset({*self.variables, *self.factors})

    def partings(self, variable: str) -> AbstractSet[float]:
        """Return the thresholds, for what is compared with them."""
        return frozenset(self.thresholds) if variable in self.variables else frozenset()


class ProportionEntry(AnalysisSection):
    """The share of people above thresholds of numbers, at each level of factors, or both."""

    kind: Literal["proportion"]
    variables: tuple[Name, ...] = ()
    thresholds: Annotated[tuple[Finite, ...], Field(max_length=1000)] = ()
    factors: tuple[Name, ...] = ()
    by: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _something_is_counted(self) -> Self:
        if bool(self.variables) != bool(self.thresholds):
            raise ValueError("variables and thresholds belong together; write both, or neither")
        if not self.variables and not self.factors:
            raise ValueError("expected variables with thresholds, or factors, or both")
        if len(set(self.thresholds)) < len(self.thresholds):
            raise ValueError("a threshold is listed twice; list each once")
        return self

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, ProportionSpec]:
        """Return the entry with globs written out and thresholds in order, and the spec."""
        taken = {"variable", "level", *PROPORTION_COLUMNS, *PROPORTION_NOISE_COLUMNS}
        variables = reading.numbers(self.variables, path_of(name, "variables"))
        thresholds = tuple(sorted(self.thresholds))
        for index, threshold in enumerate(self.thresholds):
            for variable in variables:
                known = reading.variables.get(variable)
                if isinstance(known, Number) and not known.lower <= threshold < known.upper:
                    reading.problems.add(
                        path_of(name, "thresholds", index),
                        f"{threshold} does not part the range of {variable!r}; expected at least {known.lower} and "
                        f"less than {known.upper}",
                    )
        factors = reading.factors(self.factors, path_of(name, "factors"), frozenset())
        by = reading.factors(self.by, path_of(name, "by"), taken)
        for index, factor in enumerate(factors):
            if factor in by:
                reading.problems.add(
                    path_of(name, "factors", index),
                    f"{factor!r} makes the groups; remove it from one of the two",
                )
        written = {"variables": variables, "thresholds": thresholds, "factors": factors, "by": by}
        return (
            self.model_copy(update=written),
            ProportionSpec(name, variables, thresholds, factors, by, where),
        )
