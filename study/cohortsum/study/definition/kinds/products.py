"""``kind: correlation``, ``covariance`` and ``pca``: what is made of the products of every two of some numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Count, Finite, Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading

SiteEffect = Literal["within", "none"]
Shrinkage = Annotated[Finite, Field(ge=0, lt=1)]
MOST_TOGETHER = 1000
"""Numbers in one set of products: half a million products travel."""
MOST_PAIRED = 100
"""Numbers of which every pair has its own people: 4950 sets of products travel."""


@dataclass(frozen=True, slots=True)
class CorrelationSpec(AnalysisSpec):
    """Correlations of every two of ``variables``, with ``given`` held fixed.

    Attributes:
        name: the analysis.
        variables: numbers, at least two.
        given: numbers and factors, none of them in ``variables``.
        site_effect: ``within`` holds the site fixed, ``none`` does not.
        missing: complete cases of all variables together, or of each pair.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "correlation"

    name: str
    variables: tuple[str, ...]
    given: tuple[str, ...]
    site_effect: SiteEffect
    missing: Literal["complete", "per_pair"]
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The variables, where each pair has its own people."""
        return frozenset({"variables"}) if self.missing == "per_pair" else frozenset()

    @property
    def required(self) -> frozenset[str]:
        """What is held fixed."""
        return frozenset(self.given)

    @property
    def suppliable(self) -> frozenset[str]:
        """The variables."""
        return frozenset(self.variables)


@dataclass(frozen=True, slots=True)
class CovarianceSpec(AnalysisSpec):
    """Covariances of every two of ``variables``, shrunk towards the diagonal by ``shrinkage`` (at least 0, below 1)."""

    kind: ClassVar[str] = "covariance"
    afterwards: ClassVar[frozenset[str]] = frozenset({"shrinkage"})

    name: str
    variables: tuple[str, ...]
    site_effect: SiteEffect
    shrinkage: float
    where: Condition | None

    @property
    def suppliable(self) -> frozenset[str]:
        """The variables."""
        return frozenset(self.variables)


@dataclass(frozen=True, slots=True)
class PcaSpec(AnalysisSpec):
    """The first ``components`` of the ``matrix`` of ``variables``, shrunk as a covariance is."""

    kind: ClassVar[str] = "pca"
    afterwards: ClassVar[frozenset[str]] = frozenset({"shrinkage", "components", "matrix"})

    name: str
    variables: tuple[str, ...]
    components: int
    matrix: Literal["correlation", "covariance"]
    site_effect: SiteEffect
    shrinkage: float
    where: Condition | None

    @property
    def suppliable(self) -> frozenset[str]:
        """The variables."""
        return frozenset(self.variables)


class CorrelationEntry(AnalysisSection):
    """Pearson correlations of every two numbers, or partial ones with other variables held fixed."""

    kind: Literal["correlation"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    given: Annotated[tuple[Name, ...], Field(max_length=200)] = ()
    site_effect: SiteEffect = "within"
    missing: Literal["complete", "per_pair"] = "complete"

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, CorrelationSpec]:
        """Return the entry with globs written out, and the spec."""
        most = MOST_TOGETHER if self.missing == "complete" else MOST_PAIRED
        variables = _several(self.variables, most, name, reading)
        for index, given in enumerate(self.given):
            here = path_of(name, "given", index)
            if given not in reading.variables:
                reading.unknown(here, given)
            elif given in self.given[:index]:
                reading.problems.add(here, f"{given!r} is listed twice; remove one")
            elif given in variables:
                reading.problems.add(here, f"{given!r} is among the variables; remove it from one of the two")
        return (
            self.model_copy(update={"variables": variables}),
            CorrelationSpec(name, variables, self.given, self.site_effect, self.missing, where),
        )


class CovarianceEntry(AnalysisSection):
    """Covariances of every two numbers over the people who have all of them."""

    kind: Literal["covariance"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    site_effect: SiteEffect = "within"
    shrinkage: Shrinkage = 0.0

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, CovarianceSpec]:
        """Return the entry with globs written out, and the spec."""
        variables = _several(self.variables, MOST_TOGETHER, name, reading)
        return (
            self.model_copy(update={"variables": variables}),
            CovarianceSpec(name, variables, self.site_effect, self.shrinkage, where),
        )


class PcaEntry(AnalysisSection):
    """The first principal components of numbers, over the people who have all of them."""

    kind: Literal["pca"]
    variables: Annotated[tuple[Name, ...], Field(min_length=1)]
    components: Count
    matrix: Literal["correlation", "covariance"] = "correlation"
    site_effect: SiteEffect = "within"
    shrinkage: Shrinkage = 0.0

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, PcaSpec]:
        """Return the entry with globs written out, and the spec."""
        variables = _several(self.variables, MOST_TOGETHER, name, reading)
        if len(variables) > 1 and self.components > len(variables):
            reading.problems.add(
                path_of(name, "components"),
                f"{len(variables)} variables have no more than {len(variables)} components; expected fewer",
            )
        return (
            self.model_copy(update={"variables": variables}),
            PcaSpec(name, variables, self.components, self.matrix, self.site_effect, self.shrinkage, where),
        )


def _several(names: Sequence[str], most: int, analysis: str, reading: Reading) -> tuple[str, ...]:
    """Return numbers with globs written out; note fewer than two, or more than ``most``."""
    path = path_of(analysis, "variables")
    variables = reading.numbers(names, path)
    if not 2 <= len(variables) <= most:
        reading.problems.add(path, f"expected 2 to {most} different numbers, there are {len(variables)}")
    return variables
