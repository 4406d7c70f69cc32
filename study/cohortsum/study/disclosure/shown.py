"""A table as it may be shown, with what the rules did to it, and what every kind of table has in common there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.verdict import Gated, Outcome, RuleResult
from cohortsum.study.results import HIDDEN, Cell, Status, Table


@dataclass(frozen=True, slots=True)
class Shown:
    """A table as it may be shown, and what rules did to it."""

    table: Table
    results: tuple[RuleResult, ...] = ()


def all_hidden(table: Table, reason: Cell = HIDDEN, status: Status = Status.HIDDEN) -> Table:
    """Return a table without a number; what names its rows stays."""
    end = table.columns.index("status")
    rows = tuple(
        tuple(
            status.value if place == end else cell if isinstance(cell, str) else reason
            for place, cell in enumerate(row)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def count_results(settings: Settings, table: str, small: bool, further: bool) -> list[RuleResult]:
    """Return the results of the rules about counts of people for one table."""
    if settings.noised:
        return [RuleResult("primary_suppression", table, Outcome.PASSED, "counts carry noise; none is exact")]
    if settings.threshold <= 1 and settings.base == 1:
        return []
    least, base = settings.threshold, settings.base
    primary = f"counts below {least} are hidden" if small else f"no count below {least}"
    complement = "further counts are hidden with them" if further else "no other count had to be hidden"
    rounded = f"counts are multiples of {base}" if base > 1 else "counts are as they are"
    return [
        RuleResult("primary_suppression", table, Outcome.CHANGED if small else Outcome.PASSED, primary),
        RuleResult(
            "complement_suppression", table, Outcome.CHANGED if further else Outcome.PASSED, complement
        ),
        RuleResult("count_rounding", table, Outcome.CHANGED if base > 1 else Outcome.WAIVED, rounded),
    ]


def gated(settings: Settings, found: Sequence[Shown]) -> Gated:
    """Return a release of these tables: what every rule did to each, and which were set aside."""
    waived = (
        RuleResult(
            rule,
            one.table.analysis,
            Outcome.WAIVED,
            "set aside by every site that holds to it; see the waivers",
        )
        for one in found
        for rule in sorted(settings.rules.waived)
    )
    results = (result for one in found for result in one.results)
    return Gated(tuple(one.table for one in found), (*results, *waived))
