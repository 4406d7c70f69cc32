"""Tables of models, tests and matrices at the cohort gate.

A row stands if enough people are behind it, enough degrees of freedom are left, and the model has few parameters for its people; a level
with few people takes its row with it, and few events take the model. Covariance matrices and components are released in the forms that
the rules allow. Numbers of people are rounded, and what contains them is made of the rounded ones: by scaled sums where they can be
(`printed_size`), else row by row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cohortsum.study.definition import CovarianceSpec, PcaSpec
from cohortsum.study.disclosure.counted_lines import whole
from cohortsum.study.disclosure.figures import BELOW, FEW_DF, significant, strictest_size
from cohortsum.study.disclosure.own_rules import LEAST_DF, MOST_PARAMETERS
from cohortsum.study.disclosure.printed_size import printed_people
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.shown import Shown, all_hidden
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import HIDDEN, Absent, Cell, Status, Table
from cohortsum.study.statistics.distributions import t_two_sided

COUNTS = frozenset({"n", "events", "people", "n_reference", "n_level", "observed"})
"""Columns of whole people."""
LIKELIHOODS = frozenset({"deviance", "null_deviance", "log_likelihood", "null_log_likelihood", "aic"})
"""Columns that are sums over people: with all digits they give n."""
LIKELIHOOD_DIGITS = 4
MOST_COMPONENTS = 0.1
"""Components per person: "far fewer than people"."""
SATURATED = Absent("saturation")
Around = Callable[[str, str], int | None]


@dataclass
class _Found:
    """Which rules hid something in a table."""

    below: bool = False
    few_df: bool = False
    saturated: bool = False
    small_level: bool = False
    barred: bool = False


def model_rows(
    settings: Settings, table: Table, scaled: Table | None, barred: frozenset[str], around: Around
) -> Shown:
    """Return a table of a model as it may be shown.

    Args:
        settings: of the release.
        table: as finished from the opened sums.
        scaled: as finished from sums of the printed people; None where there are none.
        around: how many people are known to be around those of a column and an outcome, if that is known.
        barred: outcomes with few events or few without, or of which another table of the analysis may show nothing.
    """
    form = _form(settings, table)
    if form is not None:
        return Shown(all_hidden(table, Absent(form.rule)), (form,))
    at = {name: place for place, name in enumerate(table.columns)}
    found, parameters = _Found(), _parameters(table)
    rows: list[tuple[Cell, ...]] = []
    for place, row in enumerate(table.rows):
        reason = _why_not(settings, table, row, at, parameters, barred, found)
        if reason is not None:
            status = Status.BELOW_THRESHOLD if reason is BELOW else Status.HIDDEN
            rows.append(_without(table, row, reason, status))
        elif settings.noised or (settings.base == 1 and settings.threshold <= 1):
            rows.append(row)
        elif scaled is not None:
            rows.append(scaled.rows[place])
        else:
            rows.append(_rounded(settings, table, row, at, around))
    return Shown(replace(table, rows=tuple(rows)), _results(settings, table, found))


def too_few_events(settings: Settings, tables: Sequence[Table]) -> frozenset[str]:
    """Return the outcomes of an analysis of which fewer people have, or do not have, the event than may be shown."""
    found: set[str] = set()
    for table in tables:
        if table.kind == "fit" and "events" in table.columns:
            events, n, outcome = (table.columns.index(name) for name in ("events", "n", "outcome"))
            for row in table.rows:
                having, people = whole(row[events]), whole(row[n])
                if having is not None and people is not None:
                    least = min(having, people - having)
                    if 0 < least < settings.threshold or 0 < having < settings.threshold:
                        found.add(str(row[outcome]))
    return frozenset(found)


def nothing_of(before: Table, after: Table) -> frozenset[str]:
    """Return the outcomes of which a table had rows and may show none."""
    if "outcome" not in before.columns:
        return frozenset()
    outcome, end = before.columns.index("outcome"), before.columns.index("status")
    had = {str(row[outcome]) for row in before.rows if row[end] == Status.OK.value}
    return frozenset(had - {str(row[outcome]) for row in after.rows if row[end] == Status.OK.value})


def _form(settings: Settings, table: Table) -> RuleResult | None:
    """Return why a matrix or components may not be released in this form, or None."""
    analysis = table.analysis.partition(".")[0]
    spec = settings.study.analyses[analysis]
    if table.kind in ("covariance", "correlation") and not settings.noised:
        shrunk = isinstance(spec, CovarianceSpec) and spec.shrinkage > 0
        if settings.has("covariance_regularised", analysis) and not shrunk:
            what = "released as a regularised matrix only: write shrinkage, or noise"
            return RuleResult("covariance_regularised", table.analysis, Outcome.WITHHELD, what)
        if settings.has("covariance_low_rank", analysis):
            what = "released as an approximation of low rank only: ask for components (pca), or for noise"
            return RuleResult("covariance_low_rank", table.analysis, Outcome.WITHHELD, what)
    if isinstance(spec, PcaSpec) and settings.has("components_few", analysis):
        n = table.columns.index("n")
        people = [float(str(row[n])) for row in table.rows if not isinstance(row[n], Absent)]
        if people and spec.components > MOST_COMPONENTS * min(people):
            what = "released as the first components only, a tenth of the people at most: ask for fewer"
            return RuleResult("components_few", table.analysis, Outcome.WITHHELD, what)
    return None


def _parameters(table: Table) -> Mapping[str, int]:
    """Return how many parameters, or variables of a matrix, there are per outcome; the table's own under an empty name."""
    if "term" in table.columns and "outcome" in table.columns:
        outcome, term = table.columns.index("outcome"), table.columns.index("term")
        terms: dict[str, set[str]] = {}
        for row in table.rows:
            terms.setdefault(str(row[outcome]), set()).add(str(row[term]))
        return {name: len(held) for name, held in terms.items()}
    if table.kind in ("covariance", "correlation", "pca"):
        names = [
            table.columns.index(name)
            for name in ("variable", "variable_1", "variable_2")
            if name in table.columns
        ]
        return {"": len({str(row[place]) for row in table.rows for place in names})}
    return {}


def _why_not(
    settings: Settings,
    table: Table,
    row: Sequence[Cell],
    at: Mapping[str, int],
    parameters: Mapping[str, int],
    barred: frozenset[str],
    found: _Found,
) -> Absent | None:
    """Return why a row may not be shown, or None."""
    if row[at["status"]] not in (Status.OK.value, Status.VARIANCE_FLOORED.value):
        return None
    analysis, outcome = table.analysis.partition(".")[0], str(row[at["outcome"]]) if "outcome" in at else ""
    n, df = (_number(row[at[name]]) if name in at else None for name in ("n", "df"))
    if outcome in barred:
        found.barred = True
        return HIDDEN
    if n is not None and n < settings.figure(analysis):
        found.below = True
        return BELOW
    if "residual_df" in settings.rules.own and _residual(table) and df is not None and df < LEAST_DF:
        found.few_df = True
        return FEW_DF
    most = parameters.get(outcome, parameters.get("", 0))
    if "saturation" in settings.rules.own and n is not None and most > MOST_PARAMETERS * n:
        found.saturated = True
        return SATURATED
    if not settings.noised:
        for column in ("n_reference", "n_level"):
            people = whole(row[at[column]]) if column in at else None
            if people is not None and 0 < people < settings.threshold:
                found.small_level = True
                return HIDDEN
    return None


def _residual(table: Table) -> bool:
    """Whether ``df`` of a table are residual degrees of freedom, not those of a hypothesis."""
    return table.kind in ("regression", "glm", "mixed", "fit", "contrast", "correlation")


def _number(cell: Cell) -> float | None:
    return None if isinstance(cell, Absent | str) else float(cell)


def _without(table: Table, row: Sequence[Cell], reason: Absent, status: Status) -> tuple[Cell, ...]:
    """Return a row with its names and no number."""
    end = table.columns.index("status")
    return tuple(
        status.value if place == end else cell if isinstance(cell, str) else reason
        for place, cell in enumerate(row)
    )


def _rounded(
    settings: Settings, table: Table, row: Sequence[Cell], at: Mapping[str, int], around: Around
) -> tuple[Cell, ...]:
    """Return a row with rounded numbers of people, and nothing in it that gives them back."""
    cells = list(row)
    for column in COUNTS & at.keys():
        people = whole(row[at[column]])
        if people is not None:
            outcome = str(row[at["outcome"]]) if "outcome" in at else ""
            cells[at[column]] = printed_people(people, around(column, outcome), settings.rounding)
    if "expected" in at:
        expected = _number(row[at["expected"]])
        if expected is not None:
            cells[at["expected"]] = float(settings.base * round(expected / settings.base))
    for column in LIKELIHOODS & at.keys():
        value = row[at[column]]
        if isinstance(value, float):
            cells[at[column]] = significant(value, LIKELIHOOD_DIGITS)
    n, df = (whole(row[at[name]]) if name in at else None for name in ("n", "df"))
    printed = cells[at["n"]] if "n" in at else None
    if n is not None and df is not None and _residual(table) and isinstance(printed, int):
        fewer = max(1, df - n + printed)
        cells[at["df"]] = fewer
        statistic = _number(row[at["statistic"]]) if "statistic" in at else None
        if statistic is not None and "p" in at and isinstance(row[at["p"]], float) and table.kind != "fit":
            cells[at["p"]] = t_two_sided(statistic, fewer)
    return tuple(cells)


def _results(settings: Settings, table: Table, found: _Found) -> tuple[RuleResult, ...]:
    analysis = table.analysis.partition(".")[0]
    results: list[RuleResult] = []
    least = settings.figure(analysis)
    if least > 1 and "n" in table.columns:
        what = f"figures of {least} people or more"
        results.append(
            RuleResult(strictest_size(settings, analysis), table.analysis, _changed(found.below), what)
        )
    if "residual_df" in settings.rules.own and _residual(table) and "df" in table.columns:
        what = f"at least {LEAST_DF} residual degrees of freedom"
        results.append(RuleResult("residual_df", table.analysis, _changed(found.few_df), what))
    if "saturation" in settings.rules.own and _parameters(table) and "n" in table.columns:
        what = f"at most {MOST_PARAMETERS:g} parameters per person"
        results.append(RuleResult("saturation", table.analysis, _changed(found.saturated), what))
    if settings.threshold > 1 and ("n_level" in table.columns or found.barred):
        what = f"levels and events of {settings.threshold} people or more"
        hidden = _changed(found.small_level or found.barred)
        results.append(RuleResult("primary_suppression", table.analysis, hidden, what))
    if settings.base > 1 and COUNTS & set(table.columns):
        what = f"numbers of people are multiples of {settings.base}, and what contains them is made of these"
        results.append(RuleResult("gives_n_back", table.analysis, Outcome.CHANGED, what))
    return tuple(results)


def _changed(hidden: bool) -> Outcome:
    return Outcome.CHANGED if hidden else Outcome.PASSED
