"""Hat values against statsmodels and against what they must add up to; people who decide a fit are found."""

from collections.abc import Callable, Iterable
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.finding import SiteRule
from cohortsum.study.disclosure.site.leverage import (
    ROWS,
    Triangle,
    hat_values,
    leverage_findings,
    triangle,
)

Floats = NDArray[np.float64]


def hats(design: Floats, size: int = 7) -> Floats:
    """Return the hat values of a design that comes in batches of ``size`` people."""
    batches = [design[start : start + size] for start in range(0, len(design), size)]
    basis = triangle(batches, design.shape[1]).basis()
    return np.concatenate([hat_values(basis, rows) for rows in batches] or [np.zeros(0)])


def by_statsmodels(design: Floats) -> Floats:
    """Return what the reference computes of a design of full rank, its columns scaled: its pseudoinverse minds units."""
    api = import_module("statsmodels.api")
    influence = import_module("statsmodels.stats.outliers_influence").OLSInfluence
    outcome = np.random.default_rng(1).normal(size=len(design))
    fit = api.OLS(outcome, design / np.abs(design).max(axis=0)).fit()
    return np.asarray(influence(fit).hat_matrix_diag, np.float64)


def study_design(seed: int, people: int, aliases: bool) -> Floats:
    """Return intercept, age, sex, sex x age and a volume in its own unit; with ``aliases`` both sexes and a constant too."""
    generator = np.random.default_rng(seed)
    age, sex = generator.uniform(18, 80, people), generator.integers(0, 2, people).astype(np.float64)
    volume = generator.normal(1.5e6, 1.2e5, people)
    columns = [np.ones(people), age, sex, sex * age, volume]
    if aliases:
        columns += [1 - sex, np.full(people, 7.0), np.zeros(people), 2 * age - 3]
    return np.column_stack(columns)


def of(design: Floats) -> Callable[[], Iterable[Floats]]:
    return lambda: [design[:5], design[5:]]


@pytest.mark.parametrize("aliases", [False, True])
@pytest.mark.parametrize("people", [12, 60, 900])
def test_hat_values_are_those_of_statsmodels(people: int, aliases: bool) -> None:
    independent = study_design(people, people, aliases=False)
    expected = by_statsmodels(independent)
    np.testing.assert_allclose(hats(study_design(people, people, aliases)), expected, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.integers(0, 3), st.integers(1, 50))
def test_they_add_up_to_the_rank(seed: int, people: int, columns: int, aliases: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    base = generator.integers(-3, 4, (people, columns)).astype(np.float64)
    design = np.concatenate((base, base @ generator.integers(-2, 3, (columns, aliases))), axis=1)
    found = hats(design, size)
    assert found.sum() == pytest.approx(np.linalg.matrix_rank(design), abs=1e-8)
    assert ((found >= 0) & (found <= 1)).all()
    # units and the order of columns are no matter, nor is the order of people
    order = generator.permutation(design.shape[1])
    units = 10.0 ** generator.integers(-6, 7, (design.shape[1],)).astype(np.float64)
    scaled = (design * units)[:, order]
    np.testing.assert_allclose(hats(scaled, size), found, atol=1e-7)
    mixed = generator.permutation(people)
    np.testing.assert_allclose(hats(design[mixed], size), found[mixed], atol=1e-8)


@given(st.integers(0, 10**6), st.integers(12, 60))
def test_somebody_alone_at_a_level_decides_it(seed: int, people: int) -> None:
    design = study_design(seed, people, aliases=False)
    alone = np.zeros((people + 1, design.shape[1] + 1))
    alone[:people, :-1] = design
    alone[people] = np.append(design[0], 1.0)
    assert hats(alone)[people] == pytest.approx(1.0, abs=1e-9)
    (finding,) = leverage_findings("thickness", of(alone), alone.shape[1])
    assert (finding.rule, finding.item) == (SiteRule.HIGH_LEVERAGE, "thickness")
    assert not any(letter.isdigit() for letter in finding.what)


def test_two_who_share_a_level_pass_and_so_does_a_large_design() -> None:
    """Each has a half exactly, whatever rounding makes of it; by a covariate in which they differ it is more."""
    generator = np.random.default_rng(3)
    for people in (30, 3000):
        level = np.zeros(people)
        level[:2] = 1.0
        design = np.column_stack((np.ones(people), level))
        assert hats(design)[:2] == pytest.approx([0.5, 0.5])
        assert leverage_findings("m", of(design), 2) == ()
        assert leverage_findings("m", of(design), 2, limit=0.4) != ()
        assert leverage_findings("m", of(np.column_stack((design, generator.normal(size=people)))), 3)
    many = generator.normal(size=(2 * ROWS + 10, 40))
    assert leverage_findings("m", of(many), 40) == ()


def test_rounding_above_a_half_finds_nobody() -> None:
    beyond = 0
    for seed in range(20):
        people = 30 + seed
        level = np.random.default_rng(seed).integers(1, 5, people)
        level[:2] = 0
        design = np.column_stack((np.ones(people), *(level == one for one in range(4)))).astype(np.float64)
        beyond += bool((hats(design) > 0.5).any())
        assert leverage_findings("m", of(design), design.shape[1]) == ()
    assert beyond


def test_one_who_is_far_out_is_found_and_weights_count() -> None:
    age = np.append(np.linspace(40, 60, 50), 500.0)
    design = np.column_stack((np.ones(51), age))
    assert leverage_findings("m", of(design), 2)
    assert not leverage_findings("m", of(design[:50]), 2)
    heavy = np.ones(50)
    heavy[10] = 200.0
    assert leverage_findings("m", of(design[:50] * np.sqrt(heavy)[:, None]), 2)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30))
def test_fewer_people_never_lower_a_hat_value(seed: int, people: int, others: int) -> None:
    """So a fit of part of the people is asked for itself: passing with everybody is no pass."""
    design = np.random.default_rng(seed).integers(-2, 3, (people + others, 4)).astype(np.float64)
    assert (hats(design[:people]) >= hats(design)[:people] - 1e-9).all()


@given(st.integers(0, 10**6), st.integers(0, 20), st.integers(0, 20))
def test_triangles_merge(seed: int, first: int, second: int) -> None:
    design = np.random.default_rng(seed).normal(size=(first + second, 3))
    parts = triangle([design[:first]], 3).merged(triangle([design[first:]], 3))
    assert parts.people == first + second
    np.testing.assert_allclose(parts.upper.T @ parts.upper, design.T @ design, atol=1e-9)
    whole = triangle([design], 3)
    np.testing.assert_allclose(
        hat_values(parts.basis(), design), hat_values(whole.basis(), design), atol=1e-9
    )


def test_nobody_and_rows_that_are_none() -> None:
    assert leverage_findings("m", lambda: [], 3) == ()
    assert leverage_findings("m", lambda: [np.zeros((4, 3))], 3) == ()
    for rows, sentence in ((np.zeros((4, 2)), "3 columns"), (np.full((1, 3), np.nan), "not finite")):
        with pytest.raises(ValueError, match=sentence):
            Triangle.nobody(3).with_rows(rows)


def test_no_repr_shows_a_number_of_the_data() -> None:
    assert repr(triangle([np.full((3, 2), 1234.5)], 2)) == "Triangle()"
