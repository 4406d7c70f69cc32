"""Survival curves at the cohort gate: intervals joined until each holds enough people, then counts rounded.

A step of a Kaplan-Meier curve says how many of how many had the event between two times: a table of few people, if the grid is fine.
Intervals are joined from the left until, in every group, events and people last seen are none or enough; what is left over at the end
counts as still there, and if that are few, the last step goes as well. Counts at risk, events and those last seen are then each rounded
from the true number, and the curve is made of the rounded ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cohortsum.study.disclosure.rounding import Rounding
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.shown import Shown, all_hidden
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import Table
from cohortsum.study.statistics.followed import LifeTable
from cohortsum.study.statistics.interface import Sums
from cohortsum.study.statistics.kaplan_meier import KaplanMeier

SMALL_EVENTS = "small_events"
JOINED = "Intervals were joined, groups of few events hidden, and the curves are made of rounded counts."


@dataclass(frozen=True, slots=True)
class PrintedLife(LifeTable):
    """A life table whose people at risk are printed numbers of their own, and not what the other columns leave.

    Attributes:
        printed: people at risk at the start of every interval.
        everybody: people in the group.
    """

    printed: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    everybody: int

    @property
    def people(self) -> int:
        """Everybody in the group."""
        return self.everybody

    @property
    def at_risk(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """People at risk at the start of every interval, (intervals,) int64."""
        return self.printed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Printed(KaplanMeier):
    """Curves of given life tables."""

    given: tuple[LifeTable | None, ...]

    def life_tables(self, sums: Sums) -> Sequence[LifeTable | None]:
        """Return the given tables."""
        return self.given


def survival_rows(
    settings: Settings, statistic: KaplanMeier, sums: Sums, tables: Sequence[Table]
) -> tuple[Shown, ...]:
    """Return curves and medians as they may be shown.

    Args:
        settings: of the release.
        statistic: the analysis.
        sums: opened.
        tables: its curves and its medians, as finished.
    """
    held = list(statistic.life_tables(sums))
    least = settings.threshold
    rounding = settings.rounding
    if least > 1 and "small_events" in settings.rules.own:
        few = groups_of_few(held, least)
        ends = joined([None if place in few else table for place, table in enumerate(held)], least)
        if not ends or len(few) == len(held):
            what = f"no interval and group holds {least} events, or none"
            return tuple(
                Shown(all_hidden(table), (RuleResult(SMALL_EVENTS, table.analysis, Outcome.WITHHELD, what),))
                for table in tables
            )
        held = [None if table is None else _joined(table, ends) for table in held]
        times = tuple(statistic.times[end - 1] for end in ends)
        changed = bool(few) or len(ends) < len(statistic.times)
    else:
        times, changed, few = statistic.times, False, frozenset[int]()
    if settings.base > 1:
        held = [None if table is None else _rounded(table, rounding) for table in held]
    shown = _Printed(
        name=statistic.name,
        time=statistic.time,
        event=statistic.event,
        times=times,
        by=statistic.by,
        where=statistic.where,
        censored=statistic.censored,
        given=tuple(held),
    ).finish({})
    what = f"intervals hold {least} events and people last seen or more, or none; counts are multiples of {settings.base}"
    outcome = Outcome.CHANGED if changed or settings.base > 1 else Outcome.PASSED
    return tuple(
        Shown(
            replace(_without(new, few, len(held)), notes=(*new.notes, JOINED))
            if outcome is Outcome.CHANGED
            else new,
            (RuleResult(SMALL_EVENTS, old.analysis, outcome, what),),
        )
        for old, new in zip(tables, shown, strict=True)
    )


def groups_of_few(tables: Sequence[LifeTable | None], least: int) -> frozenset[int]:
    """Return the groups that cannot be shown: of few people or few events, and one more if that leaves a single one."""
    events = {place: int(table.events.sum()) for place, table in enumerate(tables) if table is not None}
    few = {
        place
        for place, table in enumerate(tables)
        if table is not None and (0 < table.people < least or 0 < events[place] < least)
    }
    others = sorted(events.keys() - few, key=lambda place: events[place])
    if len(few) == 1 and others:  # the events of all less those of the others would be its own
        few.add(others[0])
    return frozenset(few)


def _without(table: Table, groups: frozenset[int], number: int) -> Table:
    """Return a table, whose rows stand group after group, without some groups."""
    each = len(table.rows) // number
    hidden = all_hidden(table)
    rows = (hidden.rows[place] if place // each in groups else row for place, row in enumerate(table.rows))
    return replace(table, rows=tuple(rows))


def joined(tables: Sequence[LifeTable | None], least: int) -> tuple[int, ...]:
    """Return where joined intervals end, as numbers of intervals from the left; none where no curve can be shown.

    In every group each joined interval holds ``least`` events or none, and as many people last seen or none; so many are still there at the
    end, or nobody.
    """
    groups = [table for table in tables if table is not None and table.people]
    if not groups:
        return tuple(
            range(1, 1 + max((len(table.events) for table in tables if table is not None), default=0))
        )
    ends: list[int] = []
    start = 0
    for end in range(1, len(groups[0].events) + 1):
        counts = [int(part[start:end].sum()) for table in groups for part in (table.events, table.censored)]
        if all(count == 0 or count >= least for count in counts):
            ends.append(end)
            start = end
    while ends and any(0 < _beyond(table, ends[-1]) < least for table in groups):
        ends.pop()
    return tuple(ends)


def _beyond(table: LifeTable, end: int) -> int:
    return int(table.events[end:].sum() + table.censored[end:].sum()) + table.beyond


def _joined(table: LifeTable, ends: Sequence[int]) -> LifeTable:
    """Return a life table with joined intervals; whoever leaves after the last one is still there."""
    starts = [0, *ends[:-1]]
    spans = list(zip(starts, ends, strict=True))
    events = np.array([table.events[start:end].sum() for start, end in spans], np.int64)
    censored = np.array([table.censored[start:end].sum() for start, end in spans], np.int64)
    return LifeTable(events, censored, _beyond(table, ends[-1]))


def _rounded(table: LifeTable, rounding: Rounding) -> PrintedLife:
    """Return a life table of which every count is rounded from the true one; no more events than people at risk."""

    def printed(people: int) -> int:
        found = rounding.count(people)
        return found if isinstance(found, int) else people

    at_risk = np.array([printed(int(people)) for people in table.at_risk], np.int64)
    events = np.array([printed(int(people)) for people in table.events], np.int64)
    censored = np.array([printed(int(people)) for people in table.censored], np.int64)
    return PrintedLife(
        np.minimum(events, at_risk),
        np.minimum(censored, np.maximum(at_risk - events, 0)),
        printed(table.beyond),
        at_risk,
        printed(table.people),
    )
