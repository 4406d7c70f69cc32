"""Dominance: ACRO's two rules by hand and by Fraction, streamed, from both clamps; sites that pass make a pool that passes."""

from fractions import Fraction
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.dominance import (
    LEVELS,
    Contributions,
    DominanceLimits,
    contributions,
    dominance_findings,
)
from cohortsum.study.disclosure.site.finding import SiteRule
from cohortsum.study.variables import Number

NK, P = SiteRule.DOMINANCE_NK, SiteRule.DOMINANCE_P
INCOME = Number("income", "k", 0, 1024)


def one_group(values: list[float], variable: Number = INCOME) -> Contributions:
    return contributions(np.array(values, np.float64), np.zeros(len(values), np.int16), 1, variable)


def broken(values: list[float], variable: Number = INCOME) -> list[SiteRule]:
    return [found.rule for found in dominance_findings(one_group(values, variable), ("x",))]


def by_hand(values: list[Fraction]) -> set[SiteRule]:
    """Return what ACRO's two rules say about non-negative contributions."""
    ordered = sorted(values, reverse=True)
    first, second = (*ordered, Fraction(0), Fraction(0))[:2]
    if first == 0:
        return set()
    rest = sum(ordered) - first - second
    return {
        rule
        for rule, is_so in (
            (NK, (first + second) / sum(ordered) >= Fraction(9, 10)),
            (P, rest / first < Fraction(1, 10)),
        )
        if is_so
    }


def expected(values: list[float], variable: Number) -> set[SiteRule]:
    """Return what holds of values that lie on the grid, from both clamps and from a 0 between them."""
    low, high = Fraction(variable.lower), Fraction(variable.upper)
    exact = list(map(Fraction, values))
    readings = [[value - low for value in exact], [high - value for value in exact]]
    if low < 0 < high:
        readings.append(list(map(abs, exact)))
    return set[SiteRule]().union(*map(by_hand, readings))


def test_the_two_rules_at_their_edges() -> None:
    # from below: 45 + 45 of 100 is nine tenths exactly; the p% rule looks at the other 10 and the 45
    assert broken([45, 45, *[1] * 10]) == [NK]
    assert broken([44, 45, *[1] * 11]) == []
    # 100 and 1: what is left reaches a tenth of the greatest, or not
    assert broken([100, 1, *[1] * 10]) == [NK]
    assert broken([100, 1, *[1] * 9]) == [NK, P]
    assert broken([100, 50, *[2] * 10]) == []


def test_one_and_two_people_never_pass_and_zeros_are_not_dominated() -> None:
    assert broken([5]) == broken([5, 5]) == [NK, P]
    assert broken([]) == broken([0.0] * 20) == broken([nan] * 3) == []
    assert broken([0.0] * 20 + [3.0]) == [NK, P]


def test_one_person_below_the_ceiling_is_read_from_the_mean() -> None:
    """29 people with the full score and one with 20: n and the mean give the 20 to whoever expects the ceiling."""
    score = Number("mmse", "points", 0, 30)
    assert broken([30.0] * 29 + [20.0], score) == [NK, P]
    assert broken([30.0] * 20 + [20.0, 21.0, 22.0, 25.0, 28.0, 24.0], score) == []


def test_a_known_lower_bound_leaves_less_unknown_than_the_raw_values_say() -> None:
    """Volumes of at least 1024: as raw values nobody dominates, above the bound one person is everything."""
    volume = Number("volume", "mm3", 1024, 4096)
    values = [1024.0] * 30 + [2048.0]
    assert by_hand(list(map(Fraction, values))) == set()
    assert broken(values, volume) == [NK, P]


def test_a_loose_negative_clamp_does_not_hide_who_dominates() -> None:
    change = Number("change", "points", -1024, 1024)
    values = [0.0] * 20 + [512.0]
    assert by_hand([Fraction(value) + 1024 for value in values]) == set()
    assert broken(values, change) == [NK, P]
    assert broken([-value for value in values], change) == [NK, P]
    assert broken([-4.0, 3.0, 5.0, -2.0, 4.0, 1.0, -3.0, 2.0], change) == []


VARIABLES = st.sampled_from(
    [Number("x", "u", lower, upper) for lower, upper in ((0, 64), (16, 80), (-32, 32), (-8, 56), (-80, -16))]
)


@st.composite
def values_of(draw: st.DrawFn, variable: Number, most: int = 8) -> list[float]:
    """Draw values on a coarse grid, bounds and repetitions included."""
    return [
        variable.lower + offset
        for offset in draw(st.lists(st.sampled_from([0, 1, 2, 5, 20, 62, 63, 64]), max_size=most))
    ]


@given(VARIABLES, st.data())
def test_every_reading_is_judged_as_by_hand(variable: Number, data: st.DataObject) -> None:
    values = data.draw(values_of(variable, 14))
    assert set(broken(values, variable)) == expected(values, variable)


@given(VARIABLES, st.data())
def test_if_the_values_pass_from_the_lower_clamp_the_raw_ones_do(
    variable: Number, data: st.DataObject
) -> None:
    exact = list(map(Fraction, data.draw(values_of(variable, 14))))
    low = Fraction(variable.lower)
    if low >= 0 and any(value > low for value in exact):
        assert by_hand(exact) <= by_hand([value - low for value in exact])


@given(VARIABLES, st.integers(1, 4), st.data())
def test_if_every_site_passes_the_pool_passes(variable: Number, sites: int, data: st.DataObject) -> None:
    """The theorem of the docstring, rule by rule and reading by reading, on values of any kind."""
    fractions = st.lists(st.floats(0, 1, allow_subnormal=False), max_size=9)
    states: list[Contributions] = []
    for _ in range(sites):
        shares = data.draw(fractions)
        values = data.draw(values_of(variable)) + [
            min(
                max(variable.lower + share * (variable.upper - variable.lower), variable.lower),
                variable.upper,
            )
            for share in shares
        ]
        states.append(one_group(values, variable))
    pool = states[0]
    for state in states[1:]:
        pool = pool.merged(state)
    at_sites = {found.rule for state in states for found in dominance_findings(state, ("x",))}
    assert {found.rule for found in dominance_findings(pool, ("x",))} <= at_sites


@given(st.data())
def test_the_theorem_on_triples_of_sum_and_two_greatest(data: st.DataObject) -> None:
    """Where it is tight: sums that just pass, equal greatest values, sites without anybody."""
    limits = DominanceLimits()
    states: list[Contributions] = []
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, 50))
        second = data.draw(st.integers(0, first))
        least = first + second
        while first and (
            first + second >= limits.share * least or least - first - second < limits.rest * first
        ):
            least += 1
        total = least + data.draw(st.sampled_from([0, 0, 1, 7])) * (first > 0)
        states.append(Contributions(np.array([9]), *(np.array([[x]]) for x in (total, first, second))))
    pool = states[0]
    for state in states[1:]:
        pool = pool.merged(state)
    assert all(dominance_findings(state, ("x",)) == () for state in states)
    assert dominance_findings(pool, ("x",)) == ()


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 5), st.integers(1, 15))
def test_batches_merge_to_the_whole_in_any_order(seed: int, people: int, groups: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.choice([*np.linspace(-3, 9, 13), nan], people)
    group = generator.integers(-1, groups, people)
    variable = Number("x", "u", -3, 9)

    def state(rows: NDArray[np.intp]) -> Contributions:
        return contributions(values[rows], group[rows], groups, variable)

    order = generator.permutation(people)
    merged = state(np.zeros(0, np.intp))
    for start in range(0, people, size):
        merged = merged.merged(state(order[start : start + size]))
    whole = state(np.arange(people))
    for part in ("people", "total", "greatest", "second"):
        np.testing.assert_array_equal(getattr(merged, part), getattr(whole, part))
    for one in range(groups):
        held = values[(group == one) & ~np.isnan(values)]
        assert whole.people[one] == len(held)
        for reading, exact in enumerate((held + 3, 9 - held)):
            ordered = sorted(exact, reverse=True)
            first, second = (*ordered, 0.0, 0.0)[:2]
            found = [whole.total[reading, one], whole.greatest[reading, one], whole.second[reading, one]]
            assert [value * 12 / LEVELS for value in found] == pytest.approx([sum(ordered), first, second])


def test_findings_name_the_group_and_no_value() -> None:
    values, group = np.array([7.0, 100.0, 90.0, 80.0, 70.0]), np.array([0, 1, 1, 1, 1])
    found = dominance_findings(contributions(values, group, 3, INCOME), ("income/A", "income/B", "income/C"))
    assert [(one.rule, one.item) for one in found] == [(NK, "income/A"), (P, "income/A")]
    assert not any(letter.isdigit() for one in found for letter in one.what)
    assert repr(one_group([7.0])) == "Contributions()"


def test_limits_can_be_tightened_and_must_mean_something() -> None:
    values = [100.0, 90.0, 80.0, 70.0, 60.0]
    strict = DominanceLimits(Fraction(1, 3), Fraction(3))
    assert [found.rule for found in dominance_findings(one_group(values), ("x",), strict)] == [NK, P]
    for wrong in ((Fraction(0), Fraction(0)), (Fraction(2), Fraction(0)), (Fraction(1), Fraction(-1))):
        with pytest.raises(ValueError, match="share"):
            DominanceLimits(*wrong)
