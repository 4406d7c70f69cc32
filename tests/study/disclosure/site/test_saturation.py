"""Degrees of freedom and parameters per person, at their edges."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.study.disclosure.site.finding import SiteRule
from cohortsum.study.disclosure.site.saturation import FitLimits, Fitted, fit_findings

DF, FULL = SiteRule.RESIDUAL_DF, SiteRule.SATURATION


@pytest.mark.parametrize(
    ("fitted", "people", "parameters", "broken"),
    [
        (Fitted.MODEL, 100, 33, []),
        (Fitted.MODEL, 100, 34, [FULL]),
        (Fitted.MODEL, 99, 33, [FULL]),  # 0.33 * 99 = 32.67
        (Fitted.MODEL, 200, 66, []),
        (Fitted.MODEL, 11, 1, []),
        (Fitted.MODEL, 10, 1, [DF]),
        (Fitted.MODEL, 14, 4, []),
        (Fitted.MODEL, 13, 4, [DF]),
        (Fitted.MODEL, 12, 4, [DF, FULL]),  # 4 of 12 is a third, above 0.33
        (Fitted.MODEL, 0, 1, [DF, FULL]),
        (Fitted.SPREAD, 11, 1, []),
        (Fitted.SPREAD, 10, 1, [DF]),  # a standard deviation needs 11 people
        (Fitted.SPREAD, 12, 2, []),
        (Fitted.SPREAD, 20, 10, []),  # one deviation of ten groups
        (Fitted.MATRIX, 12, 3, []),
        (Fitted.MATRIX, 11, 3, [DF]),
        (Fitted.MATRIX, 200, 1000, [FULL]),  # acceptance check 20: 1000 measures of 200 people
        (Fitted.MATRIX, 200, 66, []),
    ],
)
def test_at_the_edges(fitted: Fitted, people: int, parameters: int, broken: list[SiteRule]) -> None:
    assert [found.rule for found in fit_findings("m", fitted, people, parameters)] == broken


@given(st.integers(0, 2000), st.integers(1, 700))
def test_a_model_passes_exactly_where_both_inequalities_hold(people: int, parameters: int) -> None:
    passes = people - parameters >= 10 and 100 * parameters <= 33 * people
    assert (not fit_findings("m", Fitted.MODEL, people, parameters)) is passes


@given(st.sampled_from(Fitted), st.lists(st.integers(0, 300), min_size=1, max_size=5), st.integers(1, 50))
def test_if_every_site_passes_the_cohort_does(fitted: Fitted, people: list[int], parameters: int) -> None:
    """With as many parameters; what sites add of their own, one intercept each, keeps both limits too."""
    if any(fit_findings("m", fitted, n, parameters) for n in people):
        return
    assert not fit_findings("m", fitted, sum(people), parameters)
    assert not fit_findings("m", fitted, sum(people), parameters + len(people) - 1)


def test_sentences_name_the_limit_and_no_count() -> None:
    for fitted in (Fitted.MODEL, Fitted.MATRIX):
        sentences = [found.what for found in fit_findings("thickness", fitted, 7, 6)]
        assert not any(str(count) in sentence for sentence in sentences for count in (7, 6))
        assert any("0.33" in sentence for sentence in sentences)
    assert [found.item for found in fit_findings("thickness", Fitted.MODEL, 7, 6)] == ["thickness"] * 2


def test_limits_can_be_set_and_must_mean_something() -> None:
    assert not fit_findings("m", Fitted.MODEL, 10, 5, FitLimits(5, Fraction(1, 2)))
    for wrong in ((-1, Fraction(1, 3)), (10, Fraction(0)), (10, Fraction(2))):
        with pytest.raises(ValueError, match="residual_df"):
            FitLimits(*wrong)
    for people, parameters in ((-1, 1), (5, 0)):
        with pytest.raises(ValueError, match="at least one parameter"):
            fit_findings("m", Fitted.MODEL, people, parameters)
