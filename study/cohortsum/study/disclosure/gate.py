"""The cohort gate: what stands between finished tables and whoever may read them.

The rules in force are those of the strictest site in the sum (`waiving`). Under ``open_data`` there are none, and tables pass as they are
unless the study itself asks for rounding. Otherwise every table is judged by what it is made of: crosstabs first and together
(`crosstabs`), then all that is counted of one variable (`described`, `figures`), then models, tests and matrices (`models`) and survival
curves (`survival`). Sums under noise are not exact: nothing is hidden or rounded there for the sake of a count, but figures still need
their people, and matrices their form.

A table of a kind that has no rules here is withheld, so that a new kind cannot pass by being forgotten.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from cohortsum.study.definition import GlmSpec
from cohortsum.study.disclosure.counted_lines import FIRST_FIGURE, VariableLines, described_variables
from cohortsum.study.disclosure.crosstab_rows import crossed_rows
from cohortsum.study.disclosure.crosstabs import (
    NO_CROSSINGS,
    Crossings,
    Earlier,
    judge_crosstabs,
    level_total,
)
from cohortsum.study.disclosure.described import Judged, judge_variable, without_groups
from cohortsum.study.disclosure.figures import (
    histogram_rows,
    proportion_rows,
    quantile_rows,
    summary_rows,
)
from cohortsum.study.disclosure.models import Around, model_rows, nothing_of, too_few_events
from cohortsum.study.disclosure.printed_size import enclosing_of, of_printed_people, scales, small_groups
from cohortsum.study.disclosure.settings import Settings, settings_of
from cohortsum.study.disclosure.shown import Shown, all_hidden, count_results, gated
from cohortsum.study.disclosure.survival import survival_rows
from cohortsum.study.disclosure.verdict import Gated, Outcome, Regime, RuleResult
from cohortsum.study.planning import PEOPLE, StudyPlan, Sums
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.kaplan_meier import KaplanMeier

CROSSED = frozenset({"crosstab", "association"})
FOLLOWED = frozenset({"kaplan_meier", "median"})
MODELS = frozenset(
    {"regression", "contrast", "test", "glm", "fit", "mixed", "meta", "normative", "combat", "cox"}
    | {"proportionality", "logrank", "observed", "dp_sgd", "correlation", "covariance", "pca"}
)
WITHOUT_NUMBERS = frozenset({"unfinished"})
ROWS = {
    "summary": summary_rows,
    "histogram": histogram_rows,
    "proportion": proportion_rows,
    "quantiles": quantile_rows,
}
NO_RULES = Absent("no rules for this kind")


def cohort_gate(
    plan: StudyPlan,
    tables: Sequence[Table],
    sums: Sums,
    regime: Regime,
    earlier: Sequence[Earlier] = (),
) -> Gated:
    """Return what may be shown of ``tables``, and the result of every rule.

    Args:
        plan: of the last round.
        tables: as finished from the opened sums.
        sums: of that round, by block name; what a rule recomputes it recomputes from these.
        regime: of the sites in the sum.
        earlier: crosstabs that were released before, over the same people.
    """
    settings = settings_of(plan.study, regime)
    if settings.nothing:
        return Gated(tuple(tables))
    people = plan.round.people_of(int(sums[PEOPLE.name][0]))
    gate = _Gate(settings, plan, sums, tables, people, earlier)
    shown = {name: gate.shown(group) for name, group in by_analysis(tables).items()}
    return gated(settings, [one for group in shown.values() for one in group])


def by_analysis(tables: Sequence[Table]) -> Mapping[str, list[Table]]:
    """Return the tables by the analysis that they are of."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        found.setdefault(table.analysis.partition(".")[0], []).append(table)
    return found


class _Gate:
    """One release at the gate."""

    def __init__(
        self,
        settings: Settings,
        plan: StudyPlan,
        sums: Sums,
        tables: Sequence[Table],
        people: int,
        earlier: Sequence[Earlier],
    ) -> None:
        self._settings = settings
        self._statistics: dict[str, tuple[Statistic, Sums]] = {
            one.statistic.name: (one.statistic, one.sums) for one in plan.ended
        } | {statistic.name: (statistic, sums) for statistic in plan.statistics}
        self._people = people
        self._crossings: Crossings = NO_CROSSINGS
        self._judged: dict[str, Judged] = {}
        if settings.noised:
            return
        described = [table for table in tables if table.kind in FIRST_FIGURE]
        lines = [
            VariableLines(settings.study, name, described, people) for name in described_variables(described)
        ]
        crosstabs = [table for table in tables if table.kind == "crosstab"]
        self._crossings = judge_crosstabs(settings, crosstabs, people, earlier, lines)
        self._judged = {one.variable: judge_variable(settings, one, people, self._crossings) for one in lines}

    def shown(self, tables: Sequence[Table]) -> tuple[Shown, ...]:
        """Return the tables of one analysis as they may be shown."""
        kind = tables[0].kind
        if kind in CROSSED:
            return crossed_rows(self._settings, tables, self._crossings)
        if kind in FIRST_FIGURE:
            return tuple(map(self._described, tables))
        if kind in FOLLOWED:
            return self._followed(tables)
        if all(table.kind in MODELS for table in tables):
            return self._models(tables)
        return tuple(map(_unknown, tables))

    def _described(self, table: Table) -> Shown:
        found = ROWS[table.kind](self._settings, table, self._judged)
        if self._settings.noised:
            return found
        names = {str(row[0]) for row in table.rows}
        judged = [self._judged[name] for name in names]
        groups = frozenset(
            row for one in judged for analysis, row in one.groups if analysis == table.analysis
        )
        counts = count_results(
            self._settings,
            table.analysis,
            any(one.small for one in judged),
            any(one.further for one in judged),
        )
        return Shown(without_groups(found.table, groups), (*counts, *found.results))

    def _followed(self, tables: Sequence[Table]) -> tuple[Shown, ...]:
        statistic, sums = self._statistics[tables[0].analysis]
        assert isinstance(statistic, KaplanMeier)  # noqa: S101 - the kind of the table says so
        return survival_rows(self._settings, statistic, sums, tables)

    def _models(self, tables: Sequence[Table]) -> tuple[Shown, ...]:
        settings = self._settings
        statistic, sums = self._statistics[tables[0].analysis.partition(".")[0]]
        scaled: dict[str, Table] = {}
        if not settings.noised and scales(statistic):
            enclosing = enclosing_of(self._people, partial(level_total, self._crossings))
            printed = of_printed_people(statistic, sums, settings.rounding, enclosing)
            scaled = {table.analysis: table for table in statistic.finish(printed)}
        barred = frozenset[str]()
        if not settings.noised:
            barred = too_few_events(settings, tables) | small_groups(statistic, sums, settings.threshold)
        found: list[Shown] = []
        around = self._around(statistic.name)
        for table in tables:
            found.append(model_rows(settings, table, scaled.get(table.analysis), barred, around))
            barred |= nothing_of(table, found[-1].table)
        return tuple(found)

    def _around(self, analysis: str) -> Around:
        """Return of how many people those of a model's column are a part: of the cohort, or of a level that is the event."""
        spec = self._settings.study.analyses[analysis]
        events: Mapping[str, tuple[str, str]] = {}
        if isinstance(spec, GlmSpec) and spec.events:
            pairs = zip(spec.outcomes, spec.events, strict=True)
            events = {f"{name}[{level}]": (name, level) for name, level in pairs}

        def around(column: str, outcome: str) -> int | None:
            if spec.where is not None:
                return None
            if column == "events" and outcome in events:
                return level_total(self._crossings, *events[outcome])
            return self._people if column == "n" else None

        return around


def _unknown(table: Table) -> Shown:
    if table.kind in WITHOUT_NUMBERS:
        return Shown(table)
    what = "this kind of table has no rules of disclosure"
    return Shown(
        all_hidden(table, NO_RULES), (RuleResult("automated_check", table.analysis, Outcome.WITHHELD, what),)
    )
