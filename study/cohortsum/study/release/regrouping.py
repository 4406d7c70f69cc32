"""A statistic whose factor has fewer levels, and where the blocks of the old one go.

Only kinds whose numbers add up over levels are here: counts and sums of powers. A model with terms of the factor is fitted to sums of
products, which do not say what they would be with another coding; it is refused by name.
"""

from collections.abc import Sequence
from dataclasses import replace

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition.names import nearest
from cohortsum.study.release.moves import Axis, Move, Regrouped, moved, unchanged
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.followed import Followed
from cohortsum.study.statistics.group_tests import GroupTests
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.logrank import Logrank
from cohortsum.study.statistics.proportion import Proportion
from cohortsum.study.statistics.quantiles import Quantiles, Zoom
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.variables import Factor

Pieces = tuple[Statistic, tuple[Move, ...]]
"""A coarser statistic, and where the blocks go."""


def factors_of(statistic: Statistic) -> tuple[Factor, ...]:
    """Return the factors of an analysis whose levels can be merged; none where its numbers do not add up over levels."""
    match statistic:
        case Crosstab(factors=factors):
            return factors
        case Summary(by=by) | Followed(by=by):
            return by
        case GroupTests(factor=factor):
            return (factor,)
        case Proportion(factors=factors, by=by):
            return (*factors, *by)
        case Quantiles(request=request) if request.refine is None:
            return request.groups.factors
        case _:
            return ()


def in_totals(statistic: Statistic) -> frozenset[str]:
    """Return the factors whose levels are in the totals of other rows, so that a row cannot leave alone."""
    match statistic:
        case Crosstab(factors=factors) | Proportion(factors=factors) | Logrank(by=factors):
            return frozenset(factor.name for factor in factors)
        case GroupTests(factor=factor):
            return frozenset({factor.name})
        case _:
            return frozenset()


def factor_of(statistic: Statistic, name: str, levels: Sequence[str], remaining: int) -> Factor:
    """Return the factor of a statistic that has these levels.

    Args:
        statistic: of the analysis.
        name: of the factor.
        levels: that are to be merged or left out.
        remaining: how many levels there are afterwards, beside those that are not named.

    Raises:
        RefusedError: the kind does not add up over levels, it has no such factor or level, or fewer than two levels would remain.
    """
    analysis = f"analysis {statistic.name}"
    refuse_refined(statistic)
    known = {factor.name: factor for factor in factors_of(statistic)}
    if not known:
        raise RefusedError(
            f"{analysis}: has no groups, or sums that do not add up over levels of a factor, so that none can be merged afterwards; leave "
            "out rows by outcome or term or the whole table, or ask for a new version of the study with the coarser factor"
        )
    factor = known.get(name)
    if factor is None:
        raise RefusedError(
            f"{analysis}: has no groups by {name!r}; {nearest(name, known, f'it has {_names(known)}')}"
        )
    for level in levels:
        if level not in factor.levels:
            cure = nearest(level, factor.levels, f"it has {_names(factor.levels)}")
            raise RefusedError(f"{analysis}: {name} has no level {level!r}; {cure}")
    if len(factor.levels) - len(set(levels)) + remaining < 2:
        raise RefusedError(
            f"{analysis}: {name} would be left with one level; keep two, or leave out the table"
        )
    return factor


def refuse_refined(statistic: Statistic) -> None:
    """Raise RefusedError for quantiles that are refined: their second round looked into the bins of groups that were."""
    refined = isinstance(statistic, Quantiles) and statistic.request.refine is not None
    if refined or isinstance(statistic, Zoom):
        raise RefusedError(
            f"analysis {statistic.name}: its quantiles are refined in a second round, which looked into bins that follow from the groups "
            "as they are; leave out rows or the table, or ask for a new version of the study"
        )


def regrouped(statistic: Statistic, change: Regrouped) -> Pieces:
    """Return the statistic with the changed factor; the factor is one of `factors_of`."""
    new, runs = _changed(statistic, change)
    return new, moved(statistic.layout(), new.layout(), runs, change.renamed)


def _changed(statistic: Statistic, change: Regrouped) -> tuple[Statistic, list[tuple[Axis, ...]]]:
    """Return the new statistic, and the runs of the layout."""
    match statistic:
        case Crosstab(factors=factors):
            return replace(statistic, factors=change.swapped(factors)), [change.axes(factors), ()]
        case Summary(variables=variables, by=by):
            sums = unchanged(2 if statistic.moments == 2 else 3)
            runs = [(unchanged(len(variables)), *change.axes(by), sums)]
            return replace(statistic, by=change.swapped(by)), runs
        case GroupTests(outcomes=outcomes, factor=factor):
            runs = [(unchanged(len(outcomes)), *change.axes((factor,)), unchanged(2))]
            return replace(statistic, factor=change.new), runs
        case Followed(by=by):
            return replace(statistic, by=change.swapped(by)), [change.axes(by)]
        case Proportion(variables=variables, factors=factors, by=by):
            cells = change.axes(by)
            runs = [(unchanged(len(variables)), *cells)]
            runs += [(*cells, _and_missing(axis)) for axis in change.axes(factors)]
            return replace(statistic, factors=change.swapped(factors), by=change.swapped(by)), runs
        case Quantiles(request=request):
            groups = replace(request.groups, factors=change.swapped(request.groups.factors))
            bands = (unchanged(len(one.bands)) for one in request.groups.banded)
            axes = (unchanged(len(request.variables)), *change.axes(request.groups.factors), *bands)
            return replace(statistic, request=replace(request, groups=groups)), [axes]
        case _:
            raise TypeError(f"analysis {statistic.name}: does not add up over levels")


def _and_missing(axis: Axis) -> Axis:
    """Return the axis with one more place, for those without a level."""
    return Axis((*axis.places, axis.size), axis.size + 1)


def _names(known: Sequence[str] | dict[str, Factor]) -> str:
    return ", ".join(known)
