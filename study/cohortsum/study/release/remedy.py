"""A returned table in another form, from the sums that were opened: no site is asked again.

A table with fewer levels or bins is computed from sums of the old blocks, by the statistic that would have computed it: digit by digit
what a study written that way would have opened, as long as every part had enough suppliers. Where a part is absent so is the sum,
though a study written that way might have had it: the people of some sites alone are never shown as those of all.

Rows that are left out leave the finished table; a level that is in totals is taken out before they are formed.

Under noise the variances of the parts add up. Only a summary reads the noise of every number by itself; the other kinds assume noise
of one size in all numbers of a table, which merged ones do not have, and are refused: no table shows a wrong error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition.names import nearest
from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.release.actions import (
    Action,
    Drop,
    DropTable,
    Merge,
    MergeBins,
    Remedy,
    describe,
    remedy_from_json,
    remedy_to_json,
)
from cohortsum.study.release.fewer_bins import with_fewer_bins
from cohortsum.study.release.moves import Move, Regrouped, added, added_noise, merged, without
from cohortsum.study.release.regrouping import factor_of, in_totals, regrouped
from cohortsum.study.release.rows import left_out
from cohortsum.study.results import Table
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.statistics.summary import Summary

__all__ = [
    "Action",
    "Drop",
    "DropTable",
    "Merge",
    "MergeBins",
    "Remedy",
    "apply_remedy",
    "describe",
    "remedy_from_json",
    "remedy_to_json",
]

Opened = Mapping[str, NDArray[np.int64]] | Noisy
"""Opened sums by block name, or those of a round under noise."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis on its way from the study's form to the one asked for.

    Attributes:
        parts: statistics whose tables follow each other; more than one where variables have bins of their own.
        opened: the sums of their blocks.
        notes: what became of the groups, for the readers of every table.
    """

    parts: tuple[Statistic, ...]
    opened: Opened
    notes: tuple[str, ...] = ()

    def tables(self) -> tuple[Table, ...]:
        """Return the tables, as the statistics finish them."""
        finished = [
            part.finish_noised(self.opened) if isinstance(self.opened, Noisy) else part.finish(self.opened)
            for part in self.parts
        ]
        joined = (_joined(alike) for alike in zip(*finished, strict=True))
        return tuple(replace(table, notes=(*table.notes, *self.notes)) for table in joined)

    def after(self, parts: tuple[Statistic, ...], moves: Sequence[Move], note: str) -> "Analysis":
        """Return the analysis with other statistics and the sums moved."""
        moved = (
            added_noise(self.opened, moves) if isinstance(self.opened, Noisy) else added(self.opened, moves)
        )
        return Analysis(parts, moved, (*self.notes, note))


def apply_remedy(
    plan: StudyPlan,
    sums: Mapping[str, NDArray[np.int64]],
    sites: Sites | None,
    item: str,
    remedy: Remedy,
) -> tuple[Table, ...]:
    """Return the tables of an item's analysis as a remedy wants them, all of them, under their names; none where all are left out.

    Args:
        plan: of the last round that was opened.
        sums: of that round, by block name; an analysis that was waiting for a further one gives what `StudyPlan.finish` gives.
        sites: of that round; needed under noise.
        item: name of a table: an analysis, or a table that follows from one (``sexes.association``).
        remedy: what is asked for; actions are carried out in order, but tables are left out after all sums are formed, and rows last.

    Raises:
        RefusedError: the study has no such item, the item cannot be had in this form, or a name is unknown; says what can.
    """
    analysis = _analysis(plan, sums, sites, item)
    _refuse_unknown(plan, remedy)
    for action in remedy.actions:
        match action:
            case Merge():
                analysis = _with_merged(analysis, action)
            case MergeBins():
                _refuse_noise(analysis, kinds=())
                parts, moves = with_fewer_bins(analysis.parts, action.variable, action.keep_edges)
                note = f"Bins of {action.variable} are coarser than in the study: those between kept edges are added up."
                analysis = analysis.after(parts, moves, note)
            case Drop() if _is_level_of_totals(analysis, action):
                analysis = _without_levels(analysis, action)
            case Drop() | DropTable():
                pass
    tables = analysis.tables()
    for action in remedy.actions:
        tables = _without_table(tables, action, item)
    for action in remedy.actions:
        tables = _without_rows(tables, action, analysis)
    return tables


def _analysis(
    plan: StudyPlan, sums: Mapping[str, NDArray[np.int64]], sites: Sites | None, item: str
) -> Analysis:
    """Return the analysis behind an item, with its sums: of the last round, or of the earlier one with which it ended."""
    name, known = item.partition(".")[0], list(plan.study.analyses)
    if name not in known:
        cure = nearest(name, known, f"there are {', '.join(known)}")
        raise RefusedError(f"study {plan.study.study}: has no analysis {name!r}; {cure}")
    for last in plan.ended:
        if last.statistic.name == name:
            return Analysis((last.statistic,), last.sums)
    (statistic,) = (one for one in plan.statistics if one.name == name)
    if plan.round.noise is None:
        return Analysis((statistic,), sums)
    if sites is None:
        raise ValueError("under noise the number of sites is needed")
    return Analysis((statistic,), plan.noisy(sums, sites))


def _refuse_unknown(plan: StudyPlan, remedy: Remedy) -> None:
    """Refuse levels of what is no variable: other columns hold no levels."""
    known = plan.study.variables
    for action in remedy.actions:
        for name in action.levels if isinstance(action, Drop) else ():
            if name not in known:
                cure = nearest(name, known, "name a factor that makes its groups")
                raise RefusedError(f"study {plan.study.study}: has no factor {name!r}; {cure}")


def _with_merged(analysis: Analysis, action: Merge) -> Analysis:
    factor = factor_of(analysis.parts[0], action.factor, action.levels, remaining=1)
    if action.name in factor.levels:
        raise RefusedError(
            f"analysis {analysis.parts[0].name}: {factor.name} has a level {action.name!r}; give the merged level a name of its own"
        )
    _refuse_noise(analysis, kinds=(Summary,))
    parts = " and ".join(factor.level_name(level) for level in action.levels)
    note = f"{factor.level_name(action.name)} adds up {parts}, each over the sites that supplied it; without one of them there is no sum."
    return _changed(analysis, merged(factor, action.levels, action.name), note)


def _without_levels(analysis: Analysis, action: Drop) -> Analysis:
    ((name, levels),) = action.levels.items()
    factor = factor_of(analysis.parts[0], name, levels, remaining=0)
    named = " and ".join(factor.level_name(level) for level in levels)
    note = f"Left out when the release was checked: {named}. Those people are in no row, total or test."
    return _changed(analysis, without(factor, levels), note)


def _changed(analysis: Analysis, change: Regrouped, note: str) -> Analysis:
    """Return the analysis with a factor changed in all its parts."""
    pieces = [regrouped(part, change) for part in analysis.parts]
    moves = [move for _, found in pieces for move in found]
    return analysis.after(tuple(statistic for statistic, _ in pieces), moves, note)


def _is_level_of_totals(analysis: Analysis, action: Drop) -> bool:
    """Return whether an action names levels of one factor that is in totals, and nothing else."""
    others = (action.variables, action.thresholds, action.probabilities, action.terms)
    factors = list(action.levels)
    return len(factors) == 1 and not any(others) and factors[0] in in_totals(analysis.parts[0])


def _refuse_noise(analysis: Analysis, kinds: tuple[type[Statistic], ...]) -> None:
    """Refuse to add up noised sums for all but some kinds."""
    statistic = analysis.parts[0]
    if isinstance(analysis.opened, Noisy) and not isinstance(statistic, kinds):
        raise RefusedError(
            f"analysis {statistic.name}: its numbers carry noise of one size, and merged ones would carry more than the table says; "
            "leave out rows or the table, or ask for a new version of the study with the coarser groups"
        )


def _without_table(tables: tuple[Table, ...], action: Action, item: str) -> tuple[Table, ...]:
    """Return the tables without the one that an action leaves out."""
    if not isinstance(action, DropTable):
        return tables
    name, known = action.table or item, [table.analysis for table in tables]
    if name not in known:
        cure = nearest(name, known, f"there are {', '.join(known)}") if known else "none is left"
        raise RefusedError(f"item {item}: the analysis has no table {name!r}; {cure}")
    return tuple(table for table in tables if table.analysis != name)


def _without_rows(tables: tuple[Table, ...], action: Action, analysis: Analysis) -> tuple[Table, ...]:
    """Return the tables without the rows that an action leaves out of finished ones."""
    if isinstance(action, Drop) and tables and not _is_level_of_totals(analysis, action):
        return left_out(tables, action, in_totals(analysis.parts[0]))
    return tables


def _joined(alike: Sequence[Table]) -> Table:
    """Return the tables of several parts as one: their rows, and each of their notes once."""
    notes = tuple(dict.fromkeys(note for table in alike for note in table.notes))
    return replace(alike[0], rows=tuple(row for table in alike for row in table.rows), notes=notes)
