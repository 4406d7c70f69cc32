"""A statistic with fewer bins, bands or times, and where the numbers of the old one go.

A bin is closed on the left, but the last one given on both sides, and what lies above it is open on the left. Whoever stands exactly
at an edge thus changes bins where the last edge goes: such a choice is refused, because the opened counts do not say how many they are.
Whether every old bin lies in one new bin is found out with invented values: both ends of every bin, and one between.

Bins of one variable may go while another's stay: the statistic is then parted into one per variable, whose tables follow each other.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition.names import nearest
from cohortsum.study.release.moves import Axis, Move, Places, moved, unchanged
from cohortsum.study.release.regrouping import refuse_refined
from cohortsum.study.statistics.bins import Bins
from cohortsum.study.statistics.crossing import NOWHERE
from cohortsum.study.statistics.followed import Followed
from cohortsum.study.statistics.groups import Banded
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.quantiles import Quantiles
from cohortsum.study.statistics.texts import plain

Edges = tuple[float, ...]
Parted = tuple[tuple[Statistic, ...], tuple[Move, ...]]
"""The statistics whose tables follow each other, and where the blocks go."""


def with_fewer_bins(statistics: Sequence[Statistic], variable: str, kept: Edges) -> Parted:
    """Return the statistics of an analysis with the kept edges of a variable alone.

    Args:
        statistics: one, or one per variable.
        variable: whose bins, bands or times become fewer.
        kept: edges, ascending.

    Raises:
        RefusedError: the kind has no bins that add up, no bins of this variable, or not these edges.
    """
    analysis = f"analysis {statistics[0].name}"
    refuse_refined(statistics[0])
    known = list(dict.fromkeys(name for one in statistics for name in _binned(one)))
    if not known:
        raise RefusedError(
            f"{analysis}: has no bins, bands or times that could be merged afterwards; histograms, quantiles of one round and survival "
            "curves have"
        )
    if variable not in known:
        cure = nearest(variable, known, f"it has bins of {', '.join(known)}")
        raise RefusedError(f"{analysis}: has no bins of {variable!r}; {cure}")
    parts: list[Statistic] = []
    moves: list[Move] = []
    for statistic in statistics:
        found, steps = _fewer(statistic, variable, kept)
        parts += found
        moves += steps
    return tuple(parts), tuple(moves)


def _fewer(statistic: Statistic, variable: str, kept: Edges) -> Parted:
    if variable not in _binned(statistic):
        return (statistic,), tuple(Move(block.name, block) for block in statistic.layout())
    match statistic:
        case Followed():
            return _fewer_times(statistic, kept)
        case Quantiles() if variable in (one.variable.name for one in statistic.request.groups.banded):
            return _fewer_bands(statistic, variable, kept)
        case Histogram() | Quantiles():
            return _fewer_edges(statistic, variable, kept)
        case _:
            raise TypeError(f"analysis {statistic.name}: has no bins")


def _binned(statistic: Statistic) -> tuple[str, ...]:
    """Return the numbers that a statistic counts in bins, parts into bands or follows in time."""
    match statistic:
        case Histogram(variables=variables):
            return tuple(one.name for one in variables)
        case Quantiles(request=request) if request.refine is None:
            banded = tuple(one.variable.name for one in request.groups.banded)
            return (*banded, *(one.name for one in request.variables))
        case Followed(time=time):
            return (time.name,)
        case _:
            return ()


def _fewer_edges(statistic: Histogram | Quantiles, variable: str, kept: Edges) -> Parted:
    parts: list[Statistic] = []
    moves: list[Move] = []
    numbers = statistic.variables if isinstance(statistic, Histogram) else statistic.request.variables
    edges = statistic.edges if isinstance(statistic, Histogram) else statistic.request.edges
    for number in numbers:
        alone = _of_one(statistic, number.name, edges)
        if number.name != variable:
            parts.append(alone)
            moves += (Move(block.name, block) for block in alone.layout())
            continue
        old = Bins(number, edges)
        _refuse_unknown(statistic.name, variable, kept, {end for bin_ in old.intervals for end in bin_})
        if len(kept) < 2:
            raise RefusedError(
                f"analysis {statistic.name}: keep at least two edges of {variable}, or leave it out"
            )
        new = Bins(number, kept)
        places = (*_places(statistic.name, old, new), len(new.intervals))
        coarser = _of_one(statistic, variable, kept)
        parts.append(coarser)
        pairs = zip(alone.layout(), coarser.layout(), strict=True)
        moves += (Move(before.name, after, places) for before, after in pairs)
    return tuple(parts), tuple(moves)


def _of_one(statistic: Histogram | Quantiles, variable: str, edges: Edges) -> Statistic:
    """Return the statistic of one variable alone, with these edges."""
    if isinstance(statistic, Histogram):
        alone = tuple(one for one in statistic.variables if one.name == variable)
        return replace(statistic, variables=alone, edges=edges)
    alone = tuple(one for one in statistic.request.variables if one.name == variable)
    return replace(statistic, request=replace(statistic.request, variables=alone, edges=edges))


def _places(analysis: str, old: Bins, new: Bins) -> Places:
    """Return the new bin of every old one; NOWHERE for a bin outside the range, in which nobody can be."""
    lower, upper = old.variable.lower, old.variable.upper
    ends = sorted({min(max(end, lower), upper) for bin_ in old.intervals for end in bin_} | {lower, upper})
    values = np.array([*ends, *((low + high) / 2 for low, high in pairwise(ends))])
    places = [NOWHERE] * len(old.intervals)
    for before, after in zip(old.places(values).tolist(), new.places(values).tolist(), strict=True):
        if places[before] not in (NOWHERE, after):
            raise RefusedError(
                f"analysis {analysis}: these edges of {old.variable.name} part people whom the study counts together, who stand at an "
                f"edge; keep the last edge of the study, {plain(old.edges[-1])}, or let the range end the last bin in its place"
            )
        places[before] = after
    return tuple(places)


def _fewer_bands(statistic: Quantiles, variable: str, kept: Edges) -> Parted:
    asked = statistic.request
    if variable in (one.name for one in asked.variables):
        raise RefusedError(
            f"analysis {statistic.name}: {variable} has both bins and bands, so that this would say too little; leave out the table"
        )
    banded: list[Banded] = []
    axes: list[Axis] = [unchanged(len(asked.variables))]
    axes += (unchanged(len(factor.levels)) for factor in asked.groups.factors)
    for one in asked.groups.banded:
        if one.variable.name != variable:
            banded.append(one)
            axes.append(unchanged(len(one.bands)))
            continue
        _refuse_unknown(statistic.name, variable, kept, set(one.cuts))
        banded.append(replace(one, cuts=kept))
        below = (0, *(sum(cut <= here for cut in kept) for here in one.cuts))
        axes.append(Axis(below, len(kept) + 1))
    groups = replace(asked.groups, banded=tuple(banded))
    new = replace(statistic, request=replace(asked, groups=groups))
    return (new,), moved(statistic.layout(), new.layout(), [axes])


def _fewer_times(statistic: Followed, kept: Edges) -> Parted:
    _refuse_unknown(statistic.name, statistic.time.name, kept, set(statistic.times))
    ends = [
        sum(time < end for time in kept) for end in statistic.times
    ]  # the interval that ends there or later
    last, number = 2 * len(kept), len(kept)
    events = (place if place < number else last for place in ends)
    seen = (number + place if place < number else last for place in ends)
    places = (*events, *seen, last)
    new = replace(statistic, times=kept)
    pairs = zip(statistic.layout(), new.layout(), strict=True)
    return (new,), tuple(Move(before.name, after, places) for before, after in pairs)


def _refuse_unknown(analysis: str, variable: str, kept: Edges, known: set[float]) -> None:
    for edge in kept:
        if edge not in known:
            raise RefusedError(
                f"analysis {analysis}: {variable} has no edge {plain(edge)}; it has {_listed(sorted(known))}"
            )


def _listed(edges: Sequence[float]) -> str:
    """Return edges as words; beyond a dozen the first and the last."""
    words = [plain(edge) for edge in edges]
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:3])} to {words[-1]}"
