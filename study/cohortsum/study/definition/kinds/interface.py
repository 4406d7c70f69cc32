"""What every kind of analysis has: an entry as the file writes it, and a spec as the other rooms see it.

A kind is one module here. Its entry checks its own fields and reads itself against the variables of the study (`Reading`);
its spec says what the analysis is about, so that nothing else needs to know the kinds one by one.
"""

from abc import abstractmethod
from collections.abc import Set as AbstractSet
from typing import ClassVar, Self

from cohortsum.study.definition.expressions import Condition
from cohortsum.study.definition.fields import Formula, Section
from cohortsum.study.definition.problems import Path
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term


class AnalysisSpec:
    """One analysis, complete and immutable. A kind overrides what applies to it."""

    kind: ClassVar[str]
    """The word behind ``kind:`` in the file."""
    afterwards: ClassVar[frozenset[str]] = frozenset()
    """Keys of the entry about what becomes of opened sums."""

    name: str
    """The name of the analysis."""
    where: Condition | None
    """The subgroup, judged on prepared values."""
    needs: str | None = None
    """The analysis whose harmonised values this one takes; a kind that has the key overrides it."""

    @property
    def lists(self) -> frozenset[str]:
        """Keys of the entry that name, one by one, what blocks are about: a longer list leaves the other blocks alone."""
        return frozenset()

    @property
    def required(self) -> frozenset[str]:
        """The variables that every number of the analysis depends on, the subgroup's apart; a site must have them."""
        return frozenset()

    @property
    def suppliable(self) -> frozenset[str]:
        """The variables that a site may lack, and then does not supply."""
        return frozenset()

    @property
    def about(self) -> frozenset[str]:
        """The variables whose values are summed or counted, by which a site's policy knows the analysis."""
        return self.suppliable

    @property
    def tells_sites(self) -> bool:
        """Whether its sums together determine single sites' totals, though not whose they are; not for protected sites."""
        return False

    def partings(self, variable: str) -> AbstractSet[float]:
        """Return the values at which the analysis tells people apart by this number."""
        return frozenset()


class OutcomesOnTerms(AnalysisSpec):
    """Models of numeric outcomes, one each, on shared terms."""

    outcomes: tuple[str, ...]
    """Numbers, none of them in a term."""
    terms: tuple[Term, ...]
    """Main effects and interactions, in the order of the file."""

    @property
    def by_outcome(self) -> bool:
        """Whether an outcome's sums are about its own complete cases, and not about those of all outcomes."""
        return True

    @property
    def lists(self) -> frozenset[str]:
        """The outcomes, where each stands for itself."""
        return frozenset({"outcomes"}) if self.by_outcome else frozenset()

    @property
    def required(self) -> frozenset[str]:
        """The variables of the terms."""
        return frozenset(name for term in self.terms for name in term)

    @property
    def suppliable(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset(self.outcomes)


class AnalysisSection(Section):
    """Base of every entry under ``analyses``."""

    where: Formula | None = None

    @abstractmethod
    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, AnalysisSpec]:
        """Return the entry with everything but ``where`` written out, and its spec; meaningless once a problem was noted."""


def path_of(name: str, *keys: str | int) -> Path:
    """Return the path of a field of an analysis."""
    return ("analyses", name, *keys)
