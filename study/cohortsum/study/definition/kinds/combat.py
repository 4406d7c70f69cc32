"""``kind: combat``: harmonisation of outcomes over sites (ComBat), one site a batch."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from cohortsum.study.definition.evaluation import names_in
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.definition.fields import Formula, Name
from cohortsum.study.definition.kinds.interface import AnalysisSection, AnalysisSpec, path_of
from cohortsum.study.definition.reading import Reading
from cohortsum.study.definition.terms import Term, write_term


@dataclass(frozen=True, slots=True)
class CombatSpec(AnalysisSpec):
    """Harmonisation of outcomes over sites.

    Attributes:
        name: the analysis.
        outcomes: numeric variables, none of them in a term.
        keep: terms whose effects stay in the harmonised values; maybe none.
        fit_on: who the estimates rest on, judged on prepared values; None is everybody.
        empirical_bayes: whether a site's effects on its outcomes are drawn towards each other.
        mean_only: whether only the site's means are adjusted, and not its variances.
        min_per_site: least people of a site that is fitted or harmonised.
        where: the subgroup, judged on prepared values.
    """

    kind: ClassVar[str] = "combat"

    name: str
    outcomes: tuple[str, ...]
    keep: tuple[Term, ...]
    fit_on: Condition | None
    empirical_bayes: bool
    mean_only: bool
    min_per_site: int
    where: Condition | None

    @property
    def lists(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset({"outcomes"})

    @property
    def required(self) -> frozenset[str]:
        """The variables of the kept terms and of ``fit_on``."""
        kept = frozenset(name for term in self.keep for name in term)
        return kept if self.fit_on is None else kept | names_in(self.fit_on)

    @property
    def suppliable(self) -> frozenset[str]:
        """The outcomes."""
        return frozenset(self.outcomes)


class CombatEntry(AnalysisSection):
    """Harmonisation of outcomes over sites (ComBat), one site a batch."""

    kind: Literal["combat"]
    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    keep: Annotated[tuple[Formula, ...], Field(max_length=200)] = ()
    fit_on: Formula | None = None
    empirical_bayes: bool = True
    mean_only: bool = False
    min_per_site: Annotated[int, Field(ge=2, le=1_000_000)] = 10

    def read(self, name: str, where: Condition | None, reading: Reading) -> tuple[Self, CombatSpec]:
        """Return the entry with globs, terms and condition written out, and the spec."""
        outcomes = reading.numbers(self.outcomes, path_of(name, "outcomes"))
        keep = reading.terms(self.keep, path_of(name, "keep"))
        reading.no_outcome_in_terms(outcomes, keep, path_of(name, "outcomes"))
        fit_on = reading.condition(self.fit_on, path_of(name, "fit_on"))
        if self.empirical_bayes and len(outcomes) < 2:
            reading.problems.add(
                path_of(name, "outcomes"),
                "empirical Bayes draws a site's outcomes towards each other and needs two; "
                "add one or write empirical_bayes: false",
            )
        written = {
            "outcomes": outcomes,
            "keep": tuple(map(write_term, keep)),
            "fit_on": None if fit_on is None else render(fit_on),
        }
        return (
            self.model_copy(update=written),
            CombatSpec(
                name,
                outcomes,
                keep,
                fit_on,
                self.empirical_bayes,
                self.mean_only,
                self.min_per_site,
                where,
            ),
        )
