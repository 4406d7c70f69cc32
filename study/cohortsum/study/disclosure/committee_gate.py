"""The cohort gate of a study in mode committee: small counts stayed closed before anything was opened, so what is left is to print.

The committee hid what the study calls small (``protection.min_cell``), with what would tell it. The rules of the sites may ask for more
than the study: no site under such rules takes part then (`refused_here`), and the gate withholds every table if one did all the same.
Otherwise counts are rounded and figures kept from too few people as in any other release; everything is computed from what is printed.
"""

from collections.abc import Iterable, Mapping, Sequence

from cohortsum.study.definition import FrozenStudy, QuantilesSpec
from cohortsum.study.disclosure.counted_lines import Place, whole
from cohortsum.study.disclosure.crosstab_rows import printed
from cohortsum.study.disclosure.crosstabs import cell_name
from cohortsum.study.disclosure.described import Judged
from cohortsum.study.disclosure.figures import histogram_rows, quantile_rows
from cohortsum.study.disclosure.gate import by_analysis
from cohortsum.study.disclosure.rounding import Figure
from cohortsum.study.disclosure.settings import Settings, settings_of
from cohortsum.study.disclosure.shown import Shown, all_hidden, count_results, gated
from cohortsum.study.disclosure.verdict import Gated, Outcome, Regime, RuleResult
from cohortsum.study.results import HIDDEN, Absent, Cell, Table

COUNTED = ("count", "n", "missing")
"""Columns that hold numbers of people."""


def committee_gate(study: FrozenStudy, tables: Sequence[Table], regime: Regime) -> Gated:
    """Return what may be shown of the tables of a study in mode committee, and the result of every rule.

    Args:
        study: the study.
        tables: as finished from the answers of its committee.
        regime: of the sites that took part.
    """
    settings = settings_of(study, regime)
    if settings.nothing:
        return Gated(tuple(tables))
    groups = by_analysis(tables)
    found = [one for group in groups.values() for one in _shown(settings, group)]
    return gated(settings, found)


def refused_here(study: FrozenStudy, regime: Regime) -> str | None:
    """Return why a site under these rules does not let a committee answer a study, or None."""
    settings = settings_of(study, regime)
    least = _least(study)
    if least < settings.threshold:
        return (
            f"the committee opens counts from {least} on, the rules here ask for {settings.threshold}; ask for a version with min_cell: "
            f"{settings.threshold}"
        )
    for spec in study.analyses.values():
        extremes = isinstance(spec, QuantilesSpec) and {0.0, 1.0}.intersection(spec.probabilities)
        if extremes and regime.profile != "open_data":
            return (
                f"analysis {spec.name} asks for a minimum or a maximum, the value of one person, which {regime.profile} does not "
                "release; ask for a version without the probabilities 0 and 1"
            )
    return None


def _least(study: FrozenStudy) -> int:
    least = study.protection.min_cell
    assert least is not None, "a frozen study in mode committee has one"  # noqa: S101
    return least


def _shown(settings: Settings, tables: Sequence[Table]) -> tuple[Shown, ...]:
    """Return the tables of one analysis as they may be shown."""
    if _least(settings.study) < settings.threshold:
        what = "the committee opened smaller counts than the rules let anybody publish"
        return tuple(
            Shown(
                all_hidden(table),
                (RuleResult("primary_suppression", table.analysis, Outcome.WITHHELD, what),),
            )
            for table in tables
        )
    first = tables[0]
    if first.kind == "crosstab":
        place = first.columns.index("count")
        figures = {cell_name(first, row): _figure(settings, row[place]) for row in first.rows}
        return tuple(
            Shown(table, tuple(_counted(settings, table.analysis, figures.values())))
            for table in printed(tables, figures)
        )
    judged = _judged(settings, first)
    rows = histogram_rows if first.kind == "histogram" else quantile_rows
    found = rows(settings, first, judged)
    counts = [figure for one in judged.values() for figure in one.figures.values()]
    return (Shown(found.table, (*_counted(settings, first.analysis, counts), *found.results)),)


def _judged(settings: Settings, table: Table) -> Mapping[str, Judged]:
    """Return the counts of a table about single numbers as they are printed, by variable."""
    counted = [(name, table.columns.index(name)) for name in COUNTED if name in table.columns]
    figures: dict[str, dict[Place, Figure]] = {}
    for at, row in enumerate(table.rows):
        held = figures.setdefault(str(row[0]), {})
        held |= {Place(table.analysis, at, name): _figure(settings, row[place]) for name, place in counted}
    return {name: Judged(held, frozenset(), False, False) for name, held in figures.items()}


def _figure(settings: Settings, cell: Cell) -> Figure:
    """Return a count as it is printed; what stayed closed stays so."""
    count = whole(cell)
    if count is None:
        assert isinstance(cell, Absent), "a count is a number or absent"  # noqa: S101
        return cell
    return settings.rounding.count(count)


def _counted(settings: Settings, table: str, figures: Iterable[Figure]) -> list[RuleResult]:
    """Return what the rules about counts of people did; which closed counts are small ones nobody knows."""
    closed = any(figure == HIDDEN for figure in figures)
    return count_results(settings, table, closed, closed)
