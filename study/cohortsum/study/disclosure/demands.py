"""What the rules in force demand of a study's analyses, variable by variable, before any person is looked at.

Every analysis releases outputs (`catalogue.outputs`) about variables, numbers of people among them whatever it computes, and every variable belongs to a family, by what the study says or
by its name. The strictest rules for each output of each family hold (`catalogue.strictest`). A variable derived from others falls
under the rules of all of them; a number that the catalogue does not know may be an imaging measure and falls under the rules for
all of those; a factor tells groups apart and falls under the rules for clinical variables.

From that follow what a site must have to supply a variable, and what the study itself must bring: noise, a top code.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from cohortsum.study.catalogue.controls import (
    AlwaysNoise,
    MinimumN,
    NoiseBelow,
    Of,
    Prohibited,
    PublicTopCode,
    say,
)
from cohortsum.study.catalogue.families import ALL_FAMILIES
from cohortsum.study.catalogue.family import Family
from cohortsum.study.catalogue.names import family_of, row_of
from cohortsum.study.catalogue.outputs import OUTPUTS_OF_KIND, Output
from cohortsum.study.catalogue.rule import Rule
from cohortsum.study.catalogue.strictest import Decision, strictest
from cohortsum.study.definition import AnalysisSpec, FrozenStudy
from cohortsum.study.definition.evaluation import names_in
from cohortsum.study.disclosure.waiving import InForce
from cohortsum.study.variables import Number

CLINICAL = ALL_FAMILIES["clinical"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a rule demands and what is not met.

    Attributes:
        analysis: name of the analysis.
        variable: the variable that the rule is about.
        rule: the rule.
        sentence: what is missing, and the cure; no value of the data.
    """

    analysis: str
    variable: str
    rule: Rule
    sentence: str


@dataclass(frozen=True, slots=True)
class Demands:
    """What the rules demand of one study.

    Attributes:
        study: the study.
        decisions: the strictest rules per analysis and variable.
    """

    study: FrozenStudy
    decisions: Mapping[tuple[str, str], tuple[Decision, ...]]

    def minimum(self, of: Of, analysis: str | None = None, variable: str | None = None) -> int:
        """Return the least number of people that any rule asks for, of one analysis or variable where one is named."""
        return max((rule.n for rule in self._sizes(of, analysis, variable)), default=1)

    def _sizes(self, of: Of, analysis: str | None, variable: str | None) -> Iterator[MinimumN]:
        for (here, name), decisions in self.decisions.items():
            if analysis in (None, here) and variable in (None, name):
                for decision in decisions:
                    for held in decision.held:
                        if isinstance(held.rule.control, MinimumN) and held.rule.control.of is of:
                            yield held.rule.control

    @property
    def noise_below(self) -> int:
        """The greatest number of people below which some rule asks a site for noise; 1 where none does."""
        controls = (
            held.rule.control for found in self.decisions.values() for one in found for held in one.held
        )
        return max((control.n for control in controls if isinstance(control, NoiseBelow)), default=1)

    def rules(self, analysis: str, variable: str | None = None) -> tuple[Rule, ...]:
        """Return the rules that hold for an analysis, each once."""
        if variable is not None:
            places = [(analysis, variable)]
        else:
            places = [place for place in self.decisions if place[0] == analysis]
        found: dict[str, Rule] = {}
        for place in places:
            for decision in self.decisions.get(place, ()):
                found |= {held.rule.id: held.rule for held in decision.held}
        return tuple(found.values())

    def of_study(self) -> tuple[Demand, ...]:
        """Return what the study itself does not bring: these variables no site under these rules supplies."""
        return tuple(
            Demand(analysis, variable, rule, sentence)
            for (analysis, variable), rule in self._each()
            if (sentence := self._lacks(analysis, variable, rule)) is not None
        )

    def of_site(self, people: int, having: Mapping[str, int] | None) -> tuple[Demand, ...]:
        """Return what a site does not have.

        Args:
            people: of the cohort at the site.
            having: how many of them have a value, by variable; None where that may not be told (under noise).
        """
        found: list[Demand] = []
        for (analysis, variable), rule in self._each():
            here = people if having is None else min(people, having.get(variable, people))
            match rule.control:
                case MinimumN(n=n, of=Of.SITE) if here < n:
                    found.append(Demand(analysis, variable, rule, f"fewer than {n} people here"))
                case NoiseBelow(n=n) if here < n and self.study.privacy.noise == "none":
                    found.append(
                        Demand(
                            analysis,
                            variable,
                            rule,
                            f"fewer than {n} people here, and the study has no noise",
                        )
                    )
                case _:
                    pass
        return tuple(found)

    def _each(self) -> Iterator[tuple[tuple[str, str], Rule]]:
        for place, decisions in self.decisions.items():
            for rule in {held.rule.id: held.rule for one in decisions for held in one.held}.values():
                yield place, rule

    def _lacks(self, analysis: str, variable: str, rule: Rule) -> str | None:
        match rule.control:
            case Prohibited(reason=reason):
                return f"never released: {reason}"
            case AlwaysNoise(epsilon=most) if self._epsilon > most:
                return f"needs {_noise(most)}; write it under privacy"
            case PublicTopCode() if not self._top_coded(variable):
                return f"needs a {say(rule.control)}: write its range, with out_of_range: clamp"
            case _:
                return None

    @property
    def _epsilon(self) -> float:
        """The study's total; infinite without noise."""
        return inf if self.study.privacy.epsilon is None else self.study.privacy.epsilon

    def _top_coded(self, variable: str) -> bool:
        """Whether the study itself says where the variable ends: the catalogue's own clamp is wide and no top code."""
        entry, row = self.study.variables.get(variable), row_of(variable)
        if not isinstance(entry, Number) or entry.out_of_range != "clamp":
            return False
        return row is None or (entry.unit == row.unit and entry.upper < row.upper)


def demands_of(study: FrozenStudy, rules: InForce) -> Demands:
    """Return what the rules in force demand of a study."""
    beside = {
        name: [family.name for family in families_of(study, name) if family] for name in study.variables
    }
    together = {
        family for spec in study.analyses.values() for name in variables_of(spec) for family in beside[name]
    }
    return Demands(
        study,
        {
            (spec.name, name): tuple(
                strictest(family, output, together, rules.rules)
                for family in families_of(study, name)
                for output in sorted(OUTPUTS_OF_KIND[spec.kind] | {Output.COUNT})
            )
            for spec in study.analyses.values()
            for name in sorted(variables_of(spec))
        },
    )


def _noise(epsilon: float) -> str:
    return f"noise with epsilon of at most {epsilon:g} in all"


def variables_of(spec: AnalysisSpec) -> frozenset[str]:
    """Return the variables whose values enter an analysis; those of its subgroup only say who does."""
    return spec.required | spec.suppliable


def families_of(study: FrozenStudy, variable: str) -> tuple[Family | None, ...]:
    """Return the families whose rules hold for a variable; None for a number that the catalogue does not know."""
    if variable in study.derived:
        parts: Collection[str] = names_in(study.derived[variable])
        found = {family for part in sorted(parts) for family in families_of(study, part)}
        return tuple(sorted(found, key=lambda family: "" if family is None else family.name))
    if variable in study.families:
        return (ALL_FAMILIES[study.families[variable]],)
    known = family_of(variable)
    if known is None and variable in study.factors:
        return (CLINICAL,)
    return (known,)
