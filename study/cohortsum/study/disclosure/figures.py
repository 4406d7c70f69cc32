"""Rows that describe variables, as they may be shown: figures recomputed from the counts that are.

n and missing are the rounded counts. A share and its interval are made of them. A mean is the total, in whole steps of the variable,
over the printed n: the exact mean of whole numbers is a fraction whose denominator names the true n. A standard deviation keeps four
significant digits for the same reason, and stands only with enough degrees of freedom. A quantile stands if enough people lie on either
side of it, and if the rules allow that percentile.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor, log10

from cohortsum.study.catalogue.controls import MinimumN, Of
from cohortsum.study.disclosure.counted_lines import Place, whole
from cohortsum.study.disclosure.described import Judged
from cohortsum.study.disclosure.rounding import mean_of_parts
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.shown import Shown
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import HIDDEN, NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.binomial import wilson
from cohortsum.study.variables import Number

SPREAD_DIGITS = 4
STEPS = 20
"""A variable is held to come in steps of a power of ten, so many of them in its range or more."""
FEW_DF = Absent("residual_df")
BELOW = Absent(Status.BELOW_THRESHOLD)


def significant(value: float, digits: int) -> float:
    """Return a number with so many significant digits."""
    if value == 0.0:
        return 0.0
    return round(value, digits - 1 - floor(log10(abs(value))))


def step_of(variable: Number) -> Fraction:
    """Return the step in which the values of a variable are held to come."""
    return Fraction(10) ** floor(log10((variable.upper - variable.lower) / STEPS))


def summary_rows(settings: Settings, table: Table, judged: Mapping[str, Judged]) -> Shown:
    """Return a summary as it may be shown."""
    at = {name: place for place, name in enumerate(table.columns)}
    spreads, too_small, few_df = False, False, False
    rows: list[tuple[Cell, ...]] = []
    for place, row in enumerate(table.rows):
        name = str(row[0])
        cells, n = list(row), row[at["n"]]
        if not settings.noised:
            for column in ("n", "missing"):
                cells[at[column]] = judged[name].figures.get(
                    Place(table.analysis, place, column), row[at[column]]
                )
        if row[at["status"]] == Status.OK.value and isinstance(n, int | float):
            figures = [column for column in table.columns[at["mean"] :] if column != "status"]
            if n < settings.figure(table.analysis, name):
                for column in figures:
                    cells[at[column]] = BELOW
                cells[at["status"]] = Status.BELOW_THRESHOLD.value
                too_small = True
            elif not settings.noised:
                few_df |= _spread(settings, cells, at, int(n))
                spreads = True
                _mean(settings, cells, at, settings.study.numbers[name], n)
            _digits(settings, table.analysis, name, cells, at, figures)
        rows.append(tuple(cells))
    found = _least(settings, table, too_small)
    if spreads and "residual_df" in settings.rules.own:
        outcome = Outcome.CHANGED if few_df else Outcome.PASSED
        found += (
            RuleResult("residual_df", table.analysis, outcome, "standard deviations of 11 people or more"),
        )
    return Shown(replace(table, rows=tuple(rows)), found)


def _spread(settings: Settings, cells: list[Cell], at: Mapping[str, int], n: int) -> bool:
    """Hide or round what tells the spread; return whether it was hidden."""
    spread = [column for column in ("sd", "variance", "skewness", "kurtosis") if column in at]
    if not settings.rounding.has_spread(n):
        for column in spread:
            cells[at[column]] = FEW_DF
        return True
    if settings.base > 1:
        for column in spread:
            value = cells[at[column]]
            if isinstance(value, float):
                cells[at[column]] = significant(value, SPREAD_DIGITS)
        sd = cells[at["sd"]]
        if isinstance(sd, float):
            cells[at["variance"]] = significant(sd * sd, SPREAD_DIGITS)
    return False


def _mean(settings: Settings, cells: list[Cell], at: Mapping[str, int], variable: Number, n: float) -> None:
    """Round a mean to whole steps of the variable over the printed n; over the true one rounded, where n is hidden."""
    mean = cells[at["mean"]]
    if settings.base == 1 or not isinstance(mean, float):
        return
    printed = cells[at["n"]]
    people = settings.rounding.count(int(n)) if isinstance(printed, Absent | str) else printed
    if isinstance(people, int) and people > 0:
        cells[at["mean"]] = float(mean_of_parts(Fraction(mean), people, step_of(variable)))


def _digits(
    settings: Settings, analysis: str, name: str, cells: list[Cell], at: Mapping[str, int], figures: list[str]
) -> None:
    digits = settings.digits(analysis, name)
    for column in figures if digits is not None else ():
        value = cells[at[column]]
        if isinstance(value, float) and digits is not None:
            cells[at[column]] = significant(value, digits)


def histogram_rows(settings: Settings, table: Table, judged: Mapping[str, Judged]) -> Shown:
    """Return a histogram as it may be shown; none of a variable of which only some percentiles may be."""
    at = {name: place for place, name in enumerate(table.columns)}
    rows: list[tuple[Cell, ...]] = []
    barred, too_small = set[str](), False
    for place, row in enumerate(table.rows):
        name, cells = str(row[0]), list(row)
        if settings.percentiles(table.analysis, name) is not None:
            barred.add(name)
            cells[at["count"]] = cells[at["missing"]] = Absent("wmh_percentiles_only")
            cells[at["status"]] = Status.HIDDEN.value
        elif not settings.noised:
            for column in ("count", "missing"):
                cells[at[column]] = judged[name].figures.get(
                    Place(table.analysis, place, column), row[at[column]]
                )
            if isinstance(cells[at["count"]], Absent) and row[at["status"]] == Status.OK.value:
                cells[at["status"]] = Status.HIDDEN.value
        rows.append(tuple(cells))
    total: dict[str, int] = {}
    for row in table.rows:
        total[str(row[0])] = total.get(str(row[0]), 0) + (whole(row[at["count"]]) or 0)
    for name, people in total.items():
        if people and people < settings.figure(table.analysis, name) and name not in barred:
            too_small = True
            rows = [
                (*row[: at["count"]], BELOW, Status.BELOW_THRESHOLD.value, BELOW, *row[at["missing"] + 1 :])
                if row[0] == name
                else row
                for row in rows
            ]
    found = _least(settings, table, too_small)
    if barred:
        what = f"{', '.join(sorted(barred))}: a histogram shows other percentiles than those allowed"
        found += (RuleResult("wmh_percentiles_only", table.analysis, Outcome.CHANGED, what),)
    return Shown(replace(table, rows=tuple(rows)), found)


def proportion_rows(settings: Settings, table: Table, judged: Mapping[str, Judged]) -> Shown:
    """Return shares as they may be shown: of printed counts."""
    if settings.noised:
        return Shown(table)
    at = {name: place for place, name in enumerate(table.columns)}
    rows: list[tuple[Cell, ...]] = []
    for place, row in enumerate(table.rows):
        cells = list(row)
        for column in ("count", "n", "missing"):
            cells[at[column]] = judged[str(row[0])].figures.get(
                Place(table.analysis, place, column), row[at[column]]
            )
        count, n = cells[at["count"]], cells[at["n"]]
        if row[at["status"]] == Status.OK.value:
            if isinstance(count, int) and isinstance(n, int):
                part = min(count, n)
                share: tuple[Cell, ...] = (part / n, *wilson(part, n)) if n else (NO_DATA,) * 3
            else:
                share = (HIDDEN,) * 3
                cells[at["status"]] = Status.HIDDEN.value
            cells[at["proportion"]], cells[at["low"]], cells[at["high"]] = share
        rows.append(tuple(cells))
    return Shown(replace(table, rows=tuple(rows)))


def quantile_rows(settings: Settings, table: Table, judged: Mapping[str, Judged]) -> Shown:
    """Return quantiles as they may be shown."""
    at = {name: place for place, name in enumerate(table.columns)}
    rows: list[tuple[Cell, ...]] = []
    barred = tails = too_small = False
    for place, row in enumerate(table.rows):
        name, cells, n = str(row[0]), list(row), row[at["n"]]
        probability = float(str(row[at["probability"]]))
        if not settings.noised:
            for column in ("n", "missing"):
                cells[at[column]] = judged[name].figures.get(
                    Place(table.analysis, place, column), row[at[column]]
                )
        if row[at["status"]] == Status.OK.value and isinstance(n, int | float):
            only, least = settings.percentiles(table.analysis, name), settings.figure(table.analysis, name)
            reason: Absent | None = None
            if only is not None and not any(abs(100 * probability - one) < 1e-9 for one in only):
                reason, barred = Absent("wmh_percentiles_only"), True
            elif n < least:
                reason, too_small = BELOW, True
            elif (
                "quantile_tails" in settings.rules.own
                and n * min(probability, 1 - probability) < settings.threshold
            ):
                reason, tails = Absent("quantile_tails"), True
            if reason is not None:
                cells[at["value"]] = cells[at["error_bound"]] = reason
                cells[at["status"]] = Status.BELOW_THRESHOLD.value if reason is BELOW else Status.HIDDEN.value
        rows.append(tuple(cells))
    found = _least(settings, table, too_small)
    if "quantile_tails" in settings.rules.own and not settings.noised:
        what = f"{settings.threshold} people or more on either side of a quantile"
        found += (
            RuleResult("quantile_tails", table.analysis, Outcome.CHANGED if tails else Outcome.PASSED, what),
        )
    if barred:
        found += (
            RuleResult(
                "wmh_percentiles_only", table.analysis, Outcome.CHANGED, "other percentiles are hidden"
            ),
        )
    return Shown(replace(table, rows=tuple(rows)), found)


def _least(settings: Settings, table: Table, too_small: bool) -> tuple[RuleResult, ...]:
    """Return what the rule about people behind a figure did."""
    least = settings.figure(table.analysis.partition(".")[0])
    if least <= 1:
        return ()
    rule = strictest_size(settings, table.analysis.partition(".")[0])
    outcome = Outcome.CHANGED if too_small else Outcome.PASSED
    return (RuleResult(rule, table.analysis, outcome, f"figures of {least} people or more"),)


def strictest_size(settings: Settings, analysis: str) -> str:
    """Return the id of the rule that asks for most people behind a figure."""
    sizes = [
        (rule.control.n, rule.id)
        for rule in settings.demands.rules(analysis)
        if isinstance(rule.control, MinimumN) and rule.control.of is Of.GROUP
    ]
    return max(sizes)[1] if sizes else "group_10"
