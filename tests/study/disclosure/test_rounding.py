"""Rounding: nothing below the threshold is printed, and no figure contains a number of people that is not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.study.disclosure.rounding import (
    SMALL,
    Rounding,
    mean_of_parts,
    percent,
)
from cohortsum.study.disclosure.rules import DEFAULT, Knowledge, Rule
from cohortsum.study.disclosure.suppression import Suppression, suppress
from cohortsum.study.results import HIDDEN, NO_DATA, Absent
from cohortsum.study.variables import Factor
from tests.study.disclosure.linking import Counted, linked
from tests.study.disclosure.tables import T2, called

WMH = linked([Counted("t", (Factor("wmh", ("> 100", "rest")),), np.array([7, 73]))], people=80)


def protected(rule: Rule = DEFAULT) -> Suppression:
    found = suppress(WMH, rule)
    assert isinstance(found, Suppression)
    return found


def test_seven_of_eighty() -> None:
    """Acceptance check 18: no figure below 10, the complement hidden, the rest multiples of 5, percentages of printed parts."""
    figures = Rounding().table(WMH, protected())
    assert figures == {"people": 80, "t": 80, "t/wmh[> 100]": HIDDEN, "t/wmh[rest]": HIDDEN}
    assert percent(figures["t/wmh[> 100]"], figures["people"]) == HIDDEN
    assert percent(figures["t/wmh[rest]"], figures["people"]) == HIDDEN
    # neither mark tells which of the two is small
    assert figures["t/wmh[> 100]"] == figures["t/wmh[rest]"]
    marks = replace(DEFAULT, knowledge=Knowledge.MARKS)
    assert Rounding(marks).table(WMH, protected(marks)) == {**figures, "t/wmh[> 100]": SMALL}
    assert Absent("below threshold") == SMALL


def test_every_figure_is_rounded_from_its_true_value() -> None:
    found = suppress(T2)
    assert isinstance(found, Suppression)
    figures = Rounding().table(T2, found)
    assert {name for name, figure in figures.items() if figure == HIDDEN} == set(
        called("A/mid", "A/high", "C/mid", "C/high")
    )
    assert [figures[f"t/r[{row}]"] for row in "ABC"] == [70, 90, 85]
    assert figures["t"] == 245


def test_a_total_is_not_the_sum_of_rounded_cells() -> None:
    rounding = Rounding(Rule(threshold=1))
    assert [rounding.count(people) for people in (12, 7, 25)] == [10, 5, 25]
    assert rounding.count(12 + 7 + 25) == 45


@given(st.integers(0, 100_000), st.sampled_from([1, 3, 5, 15]), st.integers(0, 20))
def test_rounding_is_nearest_and_never_goes_below_the_threshold(people: int, base: int, times: int) -> None:
    threshold = max(1, base * times)
    rounding = Rounding(Rule(threshold=threshold), base)
    figure = rounding.count(people)
    if 1 <= people < threshold:
        assert figure == SMALL
        return
    assert isinstance(figure, int)
    assert figure % base == 0
    assert abs(figure - people) <= base // 2
    assert figure >= threshold or figure == people == 0 or threshold == 1
    assert rounding.count(people) == figure


@given(st.integers(10, 10_000), st.integers(0, 10_000))
def test_a_share_is_at_most_all(whole: int, part: int) -> None:
    rounding = Rounding()
    share = percent(rounding.count(min(part, whole)), rounding.count(whole))
    assert share == SMALL or (isinstance(share, float) and 0.0 <= share <= 100.0)


def test_percentages_of_nobody_and_of_hidden_counts_are_absent() -> None:
    assert percent(0, 0) == NO_DATA
    assert percent(20, HIDDEN) == HIDDEN
    assert percent(SMALL, HIDDEN) == SMALL
    assert percent(75, 80) == 93.75


def test_an_empty_count_is_printed_unless_it_is_disclosive() -> None:
    assert Rounding().count(0) == 0
    assert Rounding(Rule(zeros_are_disclosive=True)).count(0) == SMALL


@pytest.mark.parametrize("base", [0, -5, 2, 10])
def test_a_base_with_ties_is_refused(base: int) -> None:
    with pytest.raises(ValueError, match="has ties"):
        Rounding(base=base)


def test_a_threshold_that_is_no_multiple_is_refused() -> None:
    """12 would be printed as 10."""
    with pytest.raises(ValueError, match="no multiple"):
        Rounding(Rule(threshold=12))
    assert Rounding(Rule(threshold=50)).count(50) == 50


def test_a_standard_deviation_needs_eleven_people() -> None:
    assert [Rounding().has_spread(people) for people in (9, 10, 11)] == [False, False, True]
    assert Rounding(spread_df=None).has_spread(10)
    assert not Rounding(spread_df=None).has_spread(9)


# --- nothing gives the count back


def test_an_exact_mean_of_whole_numbers_names_the_people_and_one_of_parts_does_not() -> None:
    """A score of 73 people: the fraction nearest to ten decimals of its mean has the denominator 73."""
    exact = Fraction(2492, 73)
    assert Fraction(round(float(exact), 10)).limit_denominator(200).denominator == 73
    printed = mean_of_parts(exact, 75)
    assert 75 % printed.denominator == 0
    assert abs(printed - exact) <= Fraction(1, 150)
    fine = mean_of_parts(Fraction(31, 73), 75, Fraction(1, 100))
    assert abs(fine - Fraction(31, 73)) <= Fraction(1, 15_000)
