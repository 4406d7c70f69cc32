"""Sums and means that are mostly one person's value: the (n,k) rule and the p% rule, per variable and group at one site.

With the non-negative contributions ``a >= b >= ...`` of the people of a group to a sum S:

- ``dominance_nk`` breaks where ``(a + b) / S >= 9/10``: two people are nearly all of it;
- ``dominance_p`` breaks where ``(S - a - b) / a < 1/10``: the person behind b subtracts it, and knows a to within a tenth.

``a = 0`` breaks neither. (Everybody at the bound is a fact about the group, for the rules about zeros.)

**What a contribution is.** The rules bound what an insider learns who knows that nobody else adds less than nothing. Values have more
to subtract: the clamp is public and n is printed beside every mean, so the sums of ``x - lower`` and of ``upper - x`` are as public as
that of x, and the insider bounds everybody else by a clamp instead of by 0. The true measure of what is left unknown is the sum of
distances from the clamp. So both are judged, and no value is negative in either:

- from ``lower``: where ``0 <= lower`` it is stricter than the raw values, which need no judgement of their own. For with n people whose
  contributions pass, not all 0, n is at least 3 (and so is ``k n`` 2), and ``lower`` more per person turns ``a + b < k S`` into
  ``a + b + 2 lower < k (S + n lower)`` and ``S - a - b >= p a`` into ``S - a - b + (n - 2) lower >= p (a + lower)``.
- from ``upper``: one low score among people at the ceiling is read from the mean as well as one high score among zeros.

Where 0 lies inside the range, neither is the strictest: values that are all above 0 under a loose negative clamp, or scores that are
0 for everybody but one. There ``|x|`` is judged too, which is the raw value if none is negative. ACRO asks a person to look at every
group with a negative value; this answers instead, and alike whatever the values are. Each reading can be broken alone, and any that
is breaks the group.

**Sites are enough.** If every site's part of a group keeps a rule, the pooled group does, so that no maximum needs to leave a site.
Let the pooled ``a >= b`` come from site i, or from sites i and j, whose own greatest are ``a_i, b_i`` (0 where there is none).
(n,k): ``a + b <= (a_i + b_i) + (a_j + b_j) < k (S_i + S_j) <= k S``; from one site alone, drop j. p%, one site:
``S - a - b >= S_i - a_i - b_i >= p a``; two sites: ``S - a - b >= (S_i - a_i) + (S_j - a_j) >= S_i - a_i >= b_i + p a_i >= p a``. This
needs one origin for all sites, which the public clamp is, and contributions that add exactly: they are whole multiples of 2**-32 of
the range, and the limits are compared in whole numbers. Since it holds of any sites that pass, it also holds of those that are left
when some subtract what is their own. The converse is false: a small group fails at a site and may pass in the pool.

The state of a batch holds n, S, a and b per reading and group; states merge in any order, so data may stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.finding import Finding, SiteRule
from cohortsum.study.variables import Ranged

Integers = NDArray[np.int64]

LEVELS = 2**32
"""Of a contribution; the sum of 2**30 people stays exact."""


@dataclass(frozen=True, slots=True)
class DominanceLimits:
    """``share``: what the two greatest stay below, of the sum; ``rest``: what the others reach, of the greatest."""

    share: Fraction = Fraction(9, 10)
    rest: Fraction = Fraction(1, 10)

    def __post_init__(self) -> None:
        """Refuse limits under which the rules mean nothing."""
        if not 0 < self.share <= 1 or self.rest < 0:
            raise ValueError("share is above 0 and at most 1, rest at least 0")


@dataclass(frozen=True, slots=True)
class Contributions:
    """What the rules need of one variable's groups. It never leaves the site.

    Attributes:
        people: (groups,) people with a value.
        total: (readings, groups) sum of the contributions, in units of 2**-32 of the range.
        greatest: (readings, groups), 0 where there is nobody.
        second: (readings, groups), 0 where there are fewer than two people.
    """

    people: Integers = field(repr=False)
    total: Integers = field(repr=False)
    greatest: Integers = field(repr=False)
    second: Integers = field(repr=False)

    def merged(self, other: "Contributions") -> "Contributions":
        """Return the contributions of both states' people, of the same variable and groups."""
        return Contributions(
            self.people + other.people,
            self.total + other.total,
            np.maximum(self.greatest, other.greatest),
            np.maximum(np.minimum(self.greatest, other.greatest), np.maximum(self.second, other.second)),
        )


def contributions(
    values: NDArray[np.float64], groups: NDArray[np.integer], number: int, variable: Ranged
) -> Contributions:
    """Return the contributions of a batch; an empty one gives the state that changes nothing.

    Args:
        values: (people,) inside the variable's public range; NaN is missing.
        groups: (people,) from 0 to ``number`` - 1; negative for somebody in no group.
        number: of groups.
        variable: whose range is public.
    """
    there = (groups >= 0) & ~np.isnan(values)
    group, held = groups[there].astype(np.intp), values[there]
    readings = [_of_group(reading, group, number) for reading in _readings(held, variable)]
    total, greatest, second = (np.stack(part) for part in zip(*readings, strict=True))
    return Contributions(
        np.bincount(group, minlength=number).astype(np.int64, copy=False), total, greatest, second
    )


def dominance_findings(
    state: Contributions, items: Sequence[str], limits: DominanceLimits | None = None
) -> tuple[Finding, ...]:
    """Return the rules that groups break, by group.

    Args:
        state: of all the site's people.
        items: what each group is called: the variable, and the cell.
        limits: of the profile; None for the defaults.
    """
    held = DominanceLimits() if limits is None else limits
    found: list[Finding] = []
    for group, item in enumerate(items):
        readings = [
            (int(total), int(greatest), int(second))
            for total, greatest, second in zip(
                state.total[:, group], state.greatest[:, group], state.second[:, group], strict=True
            )
            if greatest > 0
        ]
        if any(greatest + second >= held.share * total for total, greatest, second in readings):
            found.append(Finding(SiteRule.DOMINANCE_NK, item, "two people make up most of a sum"))
        if any(total - greatest - second < held.rest * greatest for total, greatest, second in readings):
            found.append(
                Finding(
                    SiteRule.DOMINANCE_P, item, "a sum gives away its greatest value to whoever is second"
                )
            )
    return tuple(found)


def _readings(values: NDArray[np.float64], variable: Ranged) -> tuple[Integers, ...]:
    """Return the contributions by reading, (people,) each: from the lower and the upper clamp, and from a 0 between them."""
    lower, upper = variable.lower, variable.upper
    shifted = np.clip(np.rint((values - lower) / (upper - lower) * LEVELS), 0, LEVELS).astype(np.int64)
    if not lower < 0 < upper:
        return shifted, LEVELS - shifted
    size = np.clip(np.rint(np.abs(values) / max(-lower, upper) * LEVELS), 0, LEVELS).astype(np.int64)
    return shifted, LEVELS - shifted, size


def _of_group(values: Integers, group: NDArray[np.intp], number: int) -> tuple[Integers, Integers, Integers]:
    """Return sum, greatest and second greatest of every group, (groups,) each; ``values`` are not negative."""
    order = np.lexsort((values, group))
    ordered, edges = values[order], np.searchsorted(group[order], np.arange(number + 1))
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(ordered)))
    padded = np.concatenate((np.zeros(2, np.int64), ordered))
    ends, sizes = edges[1:], np.diff(edges)
    greatest = np.where(sizes > 0, padded[ends + 1], 0)
    second = np.where(sizes > 1, padded[ends], 0)
    return np.diff(sums[edges]), greatest, second
