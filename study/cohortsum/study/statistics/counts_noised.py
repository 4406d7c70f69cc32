"""Counts of people under noise: how far one person moves them, and what may be said of the noised ones.

In a table of counts everybody of the subgroup is in exactly one place: a bin, a cell, or among those without a value; whoever is not
of the subgroup, or in no group, is nowhere. One person more or less so moves one number by 1. Other values move her from one place
to another, two numbers by 1 each, or from nowhere to a place, one number. Tables about the same people add up: the L2 norm over t of
them is sqrt(t) for one person more or less and sqrt(2 t) for other values. Both are attained, by whoever changes place in each.

A share is a count c among numbers that add up to n, or of a number n by itself. With p = c / n the noise of the share is, to first
order, (e(c) - p e(n)) / n: for an n of k numbers with noise of standard deviation s each,

    c one of the k:        s sqrt((1 - p)^2 + (k - 1) p^2) / n
    c none of them:        s sqrt(1 + k p^2) / n

That holds where n is well above its noise; below `LEAST_COUNTS` standard deviations nothing is divided by it.
"""

from math import sqrt

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.results import NO_DATA, Absent, Status
from cohortsum.study.statistics.noised import Forecast, Part
from cohortsum.study.statistics.summary_noised import LEAST_COUNTS

COUNTS_NOTE = (
    "Counts carry noise, of standard deviation count_noise_sd; they are rounded to whole numbers, and those below 0 are shown as 0, so "
    "that they do not add up exactly."
)


def places_part(blocks: tuple[str, ...], tables: int, adjacency: Adjacency) -> Part:
    """Return the part of ``tables`` tables of counts over the same people; the module says why."""
    moved = tables if adjacency == "add_or_remove" else 2 * tables
    return Part(blocks, sqrt(moved), moved)


def whole(count: float) -> int:
    """Return a noised count as it is shown: a whole number, not negative."""
    return max(round(float(count)), 0)


def too_small(n: float, sd: float) -> Absent | None:
    """Return why nothing is divided by a noised number of people, or None."""
    if n < LEAST_COUNTS * sd:
        return Absent(Status.NOISE_TOO_LARGE)
    return NO_DATA if whole(n) == 0 else None


def share_of(count: float, n: float) -> float:
    """Return a noised count as a share of a noised number of people above 0, within 0 and 1."""
    return min(max(float(count) / float(n), 0.0), 1.0)


def share_noise(share: float, n: float, numbers: int, among: bool, sd: float) -> float:
    """Return the standard deviation of the noise of a share, to first order.

    Args:
        share: of ``n`` people.
        n: the sum of ``numbers`` noised counts.
        numbers: how many.
        among: whether what the share is of is one of these counts.
        sd: of the noise of each.
    """
    squared = 1.0 + numbers * share * share - (2.0 * share if among else 0.0)
    return sd * sqrt(max(squared, 0.0)) / float(n)


def forecast_count(what: str, places: int, noise: float, people: float, per: int) -> Forecast:
    """Return the errors of each of ``places`` counts of ``people`` people who are spread evenly over them."""
    return Forecast(what, "people", noise, sqrt(people / places * (1.0 - 1.0 / places)), per)
