"""What the rules in force come to, for the cohort gate: how small is small, what is rounded, how many people a figure needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from cohortsum.study.catalogue.controls import Control, MinimumN, Of, OnlyPercentiles, RoundTo, SuppressCells
from cohortsum.study.catalogue.outputs import Output
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.demands import Demands, demands_of, families_of
from cohortsum.study.disclosure.rounding import Rounding
from cohortsum.study.disclosure.rules import Rule
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.disclosure.waiving import InForce, in_force

NOTHING_HIDDEN = 1
"""A threshold below which no count is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules of one release.

    Attributes:
        study: the study.
        regime: of the sites in the sum.
        rules: in force.
        demands: what they ask of the study.
        noised: whether the sums carry noise: then counts are not exact, and neither hidden nor rounded.
        threshold: the least count that is shown, one for all tables of a study, which are judged together; a multiple of the base.
        base: of which printed counts are multiples; 1 leaves them.
        figures: how many people a figure needs, by analysis and variable, and by analysis.
    """

    study: FrozenStudy
    regime: Regime
    rules: InForce
    demands: Demands
    noised: bool
    threshold: int
    base: int
    figures: Mapping[tuple[str, str | None], int]

    @property
    def nothing(self) -> bool:
        """Whether tables pass as they are."""
        return self.threshold <= 1 and self.base == 1 and not self.rules.rules and not self.rules.own

    @property
    def rounding(self) -> Rounding:
        """How counts are printed."""
        df = 10 if "residual_df" in self.rules.own else None
        return Rounding(Rule(threshold=self.threshold), self.base, df)

    def figure(self, analysis: str, variable: str | None = None) -> int:
        """Return how many people a figure of an analysis needs."""
        return self.figures.get((analysis, variable), 1)

    def digits(self, analysis: str, variable: str) -> int | None:
        """Return to how many significant digits figures of a variable are rounded, None where no rule asks for it."""
        asked = [
            rule.control.digits
            for rule in self.demands.rules(analysis, variable)
            if isinstance(rule.control, RoundTo) and rule.control.digits is not None
        ]
        return min(asked, default=None)

    def percentiles(self, analysis: str, variable: str) -> frozenset[int] | None:
        """Return the only percentiles that may be shown of a variable; None where every one may."""
        only = [
            frozenset(rule.control.percentiles)
            for rule in self.demands.rules(analysis, variable)
            if isinstance(rule.control, OnlyPercentiles)
        ]
        return reduce(frozenset[int].intersection, only) if only else None

    def has(self, rule_id: str, analysis: str) -> bool:
        """Whether a rule of the catalogue holds for an analysis."""
        return any(rule.id == rule_id for rule in self.demands.rules(analysis))

    def imaging(self, variable: str) -> bool:
        """Whether a variable is an imaging measure, or may be one."""
        return any(family is None or family.imaging for family in families_of(self.study, variable))


def settings_of(study: FrozenStudy, regime: Regime) -> Settings:
    """Return the settings of a release of a study."""
    rules = in_force(regime)
    demands = demands_of(study, rules)
    noised = study.privacy.noise != "none"
    counts = {
        held.rule.id: held.rule.control
        for decisions in demands.decisions.values()
        for decision in decisions
        if decision.output is Output.COUNT
        for held in decision.held
    }.values()
    threshold, base = NOTHING_HIDDEN, 1
    if not noised:
        rounded = (control.base or 1 for control in counts if isinstance(control, RoundTo))
        base = max((study.release.round_to or 1, *rounded))
        threshold = max((regime.count, NOTHING_HIDDEN, *map(_least, counts)))
        threshold = threshold if threshold == NOTHING_HIDDEN else -(-threshold // base) * base
    figures: dict[tuple[str, str | None], int] = {}
    for (analysis, variable), decisions in demands.decisions.items():
        least = max((decision.minimum(Of.GROUP) for decision in decisions), default=1)
        figures[analysis, variable] = least
        figures[analysis, None] = max(least, figures.get((analysis, None), 1))
    return Settings(study, regime, rules, demands, noised, threshold, base, figures)


def _least(control: Control) -> int:
    match control:
        case SuppressCells(below=below):
            return below
        case MinimumN(n=n, of=Of.GROUP):
            return n
        case _:
            return NOTHING_HIDDEN
