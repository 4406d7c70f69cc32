"""Sums as if the people were as many as is printed.

Where n is printed rounded, everything else that contains it would give it back: degrees of freedom, t beside d, a standard error beside
a standard deviation. So the sums themselves are scaled by the printed n over the true one, and the analysis is finished again from
them: same means, same coefficients, same correlations, and errors, tests and intervals of the printed number of people.

It holds for analyses whose sums are counts and sums over people. Every block belongs to the block of people with the longest name
that begins like it; counts of sites stay.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.disclosure.rounding import Figure, Rounding
from cohortsum.study.statistics.correlation import Correlation
from cohortsum.study.statistics.covariance import Covariance
from cohortsum.study.statistics.group_tests import GroupTests
from cohortsum.study.statistics.interface import Statistic, Sums
from cohortsum.study.statistics.pca import Pca
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.variables import Factor

PEOPLE, SITES = "/people", "/sites"
SCALED = (Regression, GroupTests, Correlation, Covariance, Pca)


def scales(statistic: Statistic) -> bool:
    """Whether the sums of an analysis can be scaled: all of them are of one round, and of people."""
    return isinstance(statistic, SCALED) and statistic.most_rounds == 1


Enclosing = Callable[[Statistic, Sums, str, int], int | None]
"""Given an analysis, its sums, a block of people and a place in it: how many people there are of whom these are a part, if known."""


def printed_people(people: int, around: int | None, rounding: Rounding) -> Figure:
    """Return a number of people as it is printed.

    Where only a few of a larger number are not among them, it is printed as the larger one: else the few could be told by
    subtraction, and a model cannot do without its n.
    """
    if around is not None and 0 < around - people < rounding.rule.threshold:
        return rounding.count(around)
    return rounding.count(people)


def of_printed_people(
    statistic: Statistic, sums: Sums, rounding: Rounding, enclosing: Enclosing
) -> Mapping[str, NDArray[np.int64]]:
    """Return the sums of an analysis with the printed numbers of people, by block name.

    Blocks whose number of people is too small to be printed stay as they are: their rows are not shown.
    """
    blocks = [block.name for block in statistic.layout() if block.name in sums]
    owners = sorted((name for name in blocks if name.endswith(PEOPLE)), key=len)
    found: dict[str, NDArray[np.int64]] = {}
    for name in blocks:
        owner = next(one for one in reversed(owners) if name.startswith(one.removesuffix("people")))
        people = int(sums[owner][0])
        printed = printed_people(people, enclosing(statistic, sums, owner, 0), rounding)
        if not isinstance(printed, int) or not people or name.endswith(SITES):
            found[name] = sums[name]
        elif name.endswith(PEOPLE):
            counts = (
                _count(int(count), enclosing(statistic, sums, name, place), rounding)
                for place, count in enumerate(sums[name])
            )
            found[name] = np.fromiter(counts, np.int64, len(sums[name]))
        else:
            found[name] = _scaled(sums[name], Fraction(printed, people))
    return found


def enclosing_of(people: int, level_total: Callable[[str, str], int | None]) -> Enclosing:
    """Return how a cohort of ``people`` encloses the people of an analysis, given how many have a level of a factor."""

    def enclosing(statistic: Statistic, sums: Sums, block: str, place: int) -> int | None:
        if isinstance(statistic, GroupTests):
            return int(sums[block].sum()) if place == 0 else None
        if getattr(statistic, "where", None) is not None:
            return None
        if place == 0:
            return people
        if isinstance(statistic, Regression) and statistic.effect is not None:
            factor = statistic.variables[statistic.effect]
            return level_total(factor.name, factor.levels[place - 1]) if isinstance(factor, Factor) else None
        return None

    return enclosing


def small_groups(statistic: Statistic, sums: Sums, least: int) -> frozenset[str]:
    """Return the outcomes of tests between groups of which some group has fewer than ``least`` people."""
    if not isinstance(statistic, GroupTests):
        return frozenset()
    return frozenset(
        name.split("/")[1]
        for name, values in sums.items()
        if name.startswith(f"{statistic.name}/") and name.endswith(PEOPLE) and 0 < int(values[0]) < least
    )


def _count(people: int, around: int | None, rounding: Rounding) -> int:
    printed = printed_people(people, around, rounding)
    return printed if isinstance(printed, int) else people


def _scaled(values: NDArray[np.int64], factor: Fraction) -> NDArray[np.int64]:
    """Return whole numbers times a fraction, rounded to nearest, exactly."""
    scaled = (round(int(value) * factor) for value in values)
    return np.fromiter(scaled, np.int64, len(values))
