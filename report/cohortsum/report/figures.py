"""Which figures a result table gets.

Tables of coefficients and meta-analyses get forest plots, which a page sets as tables and `forest` draws as files, and
maps of the brain; the other kinds get the figure that their readers expect. A kind that is not here has its table alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cohortsum.report.bars import histogram_figures, scree_figures
from cohortsum.report.brain import brain_figures
from cohortsum.report.centiles import centile_figures
from cohortsum.report.effects import (
    COEFFICIENTS,
    RATIOS,
    Effects,
    effect_terms,
    measure_of,
    meta_plots,
    read_effects,
    read_terms,
)
from cohortsum.report.heatmap import heatmap_figures
from cohortsum.report.survival import survival_figures
from cohortsum.report.svg import Figure
from cohortsum.study.results import Status, Table

MOST_OUTCOMES_BY_TERM: Final = 12
"""Outcomes of a ratio model up to which each has its own plot, of all its terms."""

MOST_PLOTS: Final = 24
"""Forest plots per table."""

_FIGURES: Final[dict[str, Callable[[Table], tuple[Figure, ...]]]] = {
    "histogram": histogram_figures,
    "kaplan_meier": survival_figures,
    "normative": centile_figures,
    "pca": scree_figures,
    "correlation": heatmap_figures,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and the name of its file without the ending."""

    name: str
    figure: Figure


def figures_of(table: Table) -> tuple[Drawn, ...]:
    """Return the figures of a table, forest plots apart."""
    draw = _FIGURES.get(table.kind)
    if draw is not None:
        return tuple(Drawn(_join(table.analysis, figure.suffix), figure) for figure in draw(table))
    found: list[Drawn] = []
    for number, effects in enumerate(forests_of(table)):
        name = numbered(table.analysis, number)
        found += [Drawn(f"{name}.{figure.suffix}", figure) for figure in brain_figures(effects)]
    return tuple(found)


def forests_of(table: Table) -> tuple[Effects, ...]:
    """Return what the forest plots of a table show, one per plot; plots without any estimate are left out.

    Ratios of several terms share one axis, so a model of few outcomes has one plot per outcome; coefficients in different
    units do not, and have one per term.
    """
    if table.kind == "meta":
        plots = list(meta_plots(table))
    elif table.kind in COEFFICIENTS:
        outcomes = dict.fromkeys(str(row[table.columns.index("outcome")]) for row in table.rows)
        terms = effect_terms(table)
        if measure_of(table) in RATIOS and len(outcomes) <= MOST_OUTCOMES_BY_TERM and terms:
            plots = [read_terms(table, outcome) for outcome in outcomes]
        else:
            plots = [read_effects(table, term) for term in terms]
    else:
        plots = []
    return tuple(
        plot for plot in plots if any(row.status == Status.OK and row.interval for row in plot.rows)
    )[:MOST_PLOTS]


def numbered(name: str, number: int) -> str:
    """Return the name of the plot that has ``number`` before it: ``x``, ``x.2``, ``x.3``."""
    return name if number == 0 else f"{name}.{number + 1}"


def _join(name: str, suffix: str) -> str:
    return f"{name}.{suffix}" if suffix else name
