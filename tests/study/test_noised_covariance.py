"""Covariances, correlations and principal components under noise.

Simulations have fixed seeds. Where a coverage of 95 % is asked of 2000 runs, less than 93 % would come by chance once in 50,000
simulations; a spread over 2000 runs that is off by 8 % would be 5 of its standard errors.
"""

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Absent, Status, Table
from cohortsum.study.statistics.correlation import Correlation
from cohortsum.study.statistics.covariance import Covariance
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.statistics.pca import Pca
from cohortsum.study.statistics.scatter_noised import nearest_positive, triangle_noise
from cohortsum.study.variables import Factor, Number, Variable
from tests.study.models import seeds
from tests.study.neighbours import (
    Person,
    batch_of,
    column,
    fresh,
    moved,
    noisy_sums,
    numbers_in,
    persons,
    same_numbers,
    within_claims,
)
from tests.study.pooled import number

Floats = NDArray[np.float64]
SiteEffect = Literal["within", "none"]

AGE = Number("age", "years", 5.0, 65.0)
IQ = Number("iq", "points", 40.0, 160.0)
LENGTH = Number("length", "mm", -3.0, 7.0)
DX = Factor("dx", ("control", "autism", "other"))
NUMBERS = (AGE, IQ, LENGTH)
VARIABLES: dict[str, Variable] = {one.name: one for one in (*NUMBERS, DX)}
BITS = 24
"""Of the sums that a site forms before it rounds them to the grid of the noise (`cohortsum.study.building.NOISED_BITS`)."""


def older(batch: Batch) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = batch.numbers["age"] > 30
    return mask


def covariance(site_effect: SiteEffect, **changes: Any) -> Covariance:
    asked: dict[str, Any] = {
        "numbers": NUMBERS,
        "variables": VARIABLES,
        "shrinkage": 0.0,
        "fraction_bits": BITS,
    }
    return Covariance(name="c", site_effect=site_effect, **(asked | changes))


def correlation(site_effect: SiteEffect, **changes: Any) -> Correlation:
    asked: dict[str, Any] = {
        "numbers": NUMBERS,
        "given": (),
        "variables": VARIABLES,
        "missing": "complete",
        "fraction_bits": BITS,
    }
    return Correlation(name="c", site_effect=site_effect, **(asked | changes))


STATISTICS: dict[str, Statistic] = {
    "covariance": covariance("none"),
    "covariance within": covariance("within", shrinkage=0.1),
    "covariance where": covariance("none", where=older, shrinkage=0.2),
    "correlation": correlation("none"),
    "correlation within": correlation("within"),
    "correlation per pair": correlation("none", missing="per_pair"),
    "correlation per pair within": correlation("within", missing="per_pair"),
    "partial": correlation("none", numbers=(AGE, IQ), given=("length", "dx")),
    "partial within": correlation("within", numbers=(AGE, IQ), given=("dx",), where=older),
    "pca": Pca("c", covariance("none"), 2, "correlation"),
    "pca of covariances": Pca("c", covariance("none", shrinkage=0.1), 3, "covariance"),
    "pca within": Pca("c", covariance("within", shrinkage=0.1), 3, "correlation"),
}
each = pytest.mark.parametrize("name", STATISTICS)
anybody = persons(NUMBERS, (DX,))


@each
@settings(max_examples=50, deadline=None)
@given(st.lists(anybody, max_size=5), anybody, anybody)
def test_nobody_moves_products_farther_than_claimed(
    name: str, others: list[Person], one: Person, other: Person
) -> None:
    statistic = STATISTICS[name]
    with_one, with_other, without = (
        batch_of((*others, *last), NUMBERS, (DX,)) for last in ((one,), (other,), ())
    )
    within_claims(statistic, "replace_one", with_one, with_other)
    within_claims(statistic, "add_or_remove", with_one, without)


def corner(*signs: int, dx: int = 0) -> Person:
    ends = zip(NUMBERS, signs, strict=True)
    return Person({one.name: one.middle + sign * one.half_width for one, sign in ends}, {"dx": dx})


def test_somebody_moves_products_about_one_mean_as_far_as_claimed() -> None:
    """Three numbers and 1 make four: half of the signs change."""
    statistic, rest = covariance("none"), [corner(1, 0, 0)] * 3
    cases: list[tuple[Adjacency, list[Person], float, int]] = [
        ("replace_one", [corner(1, -1, -1)], 16.0, 4),
        ("add_or_remove", [], 10.0, 10),
    ]
    for adjacency, others, squares, numbers in cases:
        first, second = (batch_of(rest + last, NUMBERS, (DX,)) for last in ([corner(1, 1, 1)], others))
        products, sites = moved(statistic, adjacency, first, second)
        assert products[0] ** 2 == pytest.approx(squares, rel=1e-14)
        assert products[0] == pytest.approx(products[2], rel=1e-6)
        assert products[1] == numbers
        assert products[3] == 10
        assert sites[:2] == (0.0, 0)


def test_a_site_with_its_first_person_moves_what_nobody_reads() -> None:
    _, sites = moved(
        covariance("none"),
        "add_or_remove",
        *(batch_of(one, NUMBERS, (DX,)) for one in ([corner(1, 1, 1)], [])),
    )
    assert sites == (1.0, 1, 1.0, 1)


@pytest.mark.parametrize("missing", ["complete", "per_pair"])
def test_sets_of_products_add_up_in_squares(missing: str) -> None:
    statistic = correlation("none", missing=missing)
    replaced, removed = (
        statistic.parts(adjacency)[0].l2 ** 2 for adjacency in ("replace_one", "add_or_remove")
    )
    assert replaced == pytest.approx(16 if missing == "complete" else 3 * 9, rel=1e-6)
    assert removed == pytest.approx(10 if missing == "complete" else 3 * 6, rel=1e-6)


@pytest.mark.parametrize("others", [1, 20, 1000])
def test_somebody_moves_products_about_site_means_nearly_as_far_as_claimed(others: int) -> None:
    statistic, rest = covariance("within"), [corner(-1, -1, -1)] * others
    first, second = (batch_of([*rest, corner(sign, sign, sign)], NUMBERS, (DX,)) for sign in (1, -1))
    products, _ = moved(statistic, "replace_one", first, second)
    share = others / (others + 1)
    assert products[0] == pytest.approx(4 * np.sqrt(6) * share, rel=1e-6)
    assert products[2] == pytest.approx(np.sqrt(16 * 6 + 1), rel=1e-3)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_no_corner_and_no_other_point_beats_the_bound_on_products(size: int) -> None:
    """Over 200,000 pairs, half of them corners: the best corners reach it where their number of signs is even."""
    rng = np.random.default_rng(size)
    z, w = (np.sign(rng.uniform(-1, 1, (100_000, size))) for _ in range(2))
    z, w = (np.vstack((one, rng.uniform(-1.2, 1.2, one.shape).clip(-1, 1))) for one in (z, w))
    z[:, 0] = w[:, 0] = 1.0
    rows, columns = np.triu_indices(size)
    squares = ((z[:, rows] * z[:, columns] - w[:, rows] * w[:, columns]) ** 2).sum(axis=1)
    assert squares.max() <= size**2
    assert squares.max() == (size**2 if size % 2 == 0 else size**2 - 1)


@cache
def cohort(seed: int, people: int = 600) -> tuple[Batch, ...]:
    """Return three sites with site effects, correlated numbers and holes."""
    rng = np.random.default_rng(seed)
    sites: list[Batch] = []
    for site in range(3):
        size = people // 3
        common = rng.standard_normal(size)
        u = 0.15 * common[:, np.newaxis] + 0.2 * rng.standard_normal((size, 3)) + 0.05 * site
        values = {
            one.name: one.middle + one.half_width * np.clip(u[:, k], -1, 1) for k, one in enumerate(NUMBERS)
        }
        values["iq"][rng.random(size) < 0.05] = np.nan
        dx = np.where(rng.random(size) < 0.05, -1, rng.integers(0, 3, size)).astype(np.int16)
        sites.append(Batch(size, values, {"dx": dx}))
    return tuple(sites)


@each
@pytest.mark.parametrize("seed", [1, 2])
def test_without_noise_every_number_is_the_exact_one(name: str, seed: int) -> None:
    statistic = STATISTICS[name]
    noisy = noisy_sums(statistic, cohort(seed))
    bits = {block.name: block.fraction_bits for block in statistic.layout()}
    exact = statistic.finish(
        {block: np.ldexp(sums, bits[block]).astype(np.int64) for block, sums in noisy.values.items()}
    )
    same_numbers(statistic.finish_noised(noisy)[0], exact[0], near=1e-9)


@each
def test_what_too_few_sites_supply_says_so(name: str) -> None:
    statistic = STATISTICS[name]
    (table,) = statistic.finish_noised(
        Noisy({}, dict.fromkeys((one.name for one in statistic.layout()), 1.0), 0, 0)
    )
    (exact,) = statistic.finish({})
    for line, expected in zip(table.rows, exact.rows, strict=True):
        assert line[: len(expected)] == expected
        assert all(cell == Absent(Status.TOO_FEW_SITES) for cell in line[len(expected) :])


@each
def test_few_people_in_much_noise_have_no_matrix(name: str) -> None:
    statistic = STATISTICS[name]
    noisy = noisy_sums(statistic, cohort(1, people=30))
    table = statistic.finish_noised(Noisy(noisy.values, dict.fromkeys(noisy.values, 11.0), 30, 3))[0]
    assert set(column(table, "status")) == {"noise too large"}
    assert set(column(table, "n_noise_sd")) == {11.0}
    value = {"correlation": "r", "covariance": "covariance", "pca": "loading"}[table.kind]
    assert set(column(table, value)) == {Absent(Status.NOISE_TOO_LARGE)}


def scores(statistic: Statistic, value: str, noise: str, sd: float, runs: int = 1500) -> tuple[Floats, Table]:
    """Return how many standard deviations of its stated noise each number is off, (runs, rows), and the last table."""
    rng = np.random.default_rng(11)
    exact = noisy_sums(statistic, cohort(5, people=3000))
    truth = numbers_in(statistic.finish_noised(exact)[0], value)
    tables = [statistic.finish_noised(fresh(exact, sd, rng))[0] for _ in range(runs)]
    return np.array([(numbers_in(one, value) - truth) / numbers_in(one, noise) for one in tables]), tables[-1]


@pytest.mark.parametrize(
    ("name", "value", "sd"),
    [
        ("covariance", "covariance", 5.0),
        ("covariance within", "covariance", 5.0),
        ("correlation", "r", 5.0),
        ("correlation per pair within", "r", 5.0),
        ("partial", "r", 3.0),
    ],
)
def test_the_noise_of_each_entry_is_as_large_as_stated(name: str, value: str, sd: float) -> None:
    found, table = scores(STATISTICS[name], value, f"{value}_noise_se", sd)
    assert set(column(table, "status")) == {"ok"}
    assert np.all(np.abs(found.std(axis=0) - 1.0) < 0.1)
    assert np.all(np.abs(found.mean(axis=0)) < 0.15)


@pytest.mark.parametrize(("r", "sd", "people"), [(0.0, 3.0, 500), (0.6, 3.0, 500), (0.9, 1.0, 300)])
def test_intervals_of_correlations_cover_the_correlation_of_the_population(
    r: float, sd: float, people: int
) -> None:
    statistic = correlation("none", numbers=(AGE, IQ))
    rng = np.random.default_rng(12)
    covered = 0
    for _ in range(2000):
        one, rest = rng.standard_normal((2, people))
        u = 0.25 * np.clip([one, r * one + np.sqrt(1 - r * r) * rest], -4, 4)
        values = {x.name: x.middle + x.half_width * row for x, row in zip((AGE, IQ), u, strict=True)}
        sums = statistic.contribute(statistic.accumulate(Batch(people, values, {})))
        bits = {block.name: block.fraction_bits for block in statistic.layout()}
        exact = {name: np.ldexp(total.astype(np.float64), -bits[name]) for name, total in sums.items()}
        noisy = fresh(Noisy(exact, {}, people, 1), sd, rng)
        (table,) = statistic.finish_noised(noisy)
        assert column(table, "status") == ["ok"]
        low, high = (number(column(table, end)[0]) for end in ("low", "high"))
        assert -1.0 <= low <= high <= 1.0
        covered += low <= r <= high
    assert covered >= 0.93 * 2000


def test_a_test_of_no_correlation_keeps_its_level() -> None:
    """5 % of 2000 draws are rejected where there is nothing; more than 7 % would come by chance once in 20,000 simulations."""
    statistic = correlation("within", numbers=(AGE, IQ))
    rng = np.random.default_rng(13)
    rejected = 0
    for _ in range(2000):
        # what sites would open of 400 people without correlation: a Wishart matrix
        x = 0.25 * rng.standard_normal((400, 2))
        x -= x.mean(axis=0)
        values = {"c/complete/people": np.array([400.0]), "c/complete/sites": np.ones(1)}
        values["c/complete/products"] = (x.T @ x)[np.triu_indices(2)]
        (table,) = statistic.finish_noised(fresh(Noisy(values, {}, 400, 1), 2.0, rng))
        rejected += number(column(table, "p")[0]) < 0.05
    assert 0.03 * 2000 <= rejected <= 0.07 * 2000


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 8), st.floats(-3, 3))
def test_the_repaired_matrix_is_the_nearest_positive_one(seed: int, size: int, shift: float) -> None:
    """X is nearest to A among the positive semidefinite matrices exactly if X and X - A are such and <X, X - A> = 0."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((size, size))
    a = (a + a.T) / 2 + shift * np.eye(size)
    x = nearest_positive(a)
    assert np.array_equal(x, x.T)
    assert np.linalg.eigvalsh(x).min() >= -1e-12
    assert np.linalg.eigvalsh(x - a).min() >= -1e-12
    assert abs(np.sum(x * (x - a))) <= 1e-10
    assert np.all(np.diag(x) >= 0.0)
    for _ in range(5):
        root = rng.standard_normal((size, size))
        assert np.linalg.norm(root @ root.T - a) >= np.linalg.norm(x - a) - 1e-12
    if np.linalg.eigvalsh(a).min() >= 0:
        assert np.array_equal(x, a)


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 6))
def test_the_noise_of_a_bilinear_form_is_that_of_its_coefficients(seed: int, size: int) -> None:
    v, w = np.random.default_rng(seed).standard_normal((2, size))
    coefficients = np.outer(v, w)
    upper = np.triu(coefficients + coefficients.T, 1) + np.diag(np.diag(coefficients))
    found = triangle_noise(np.vstack((v, w)))
    assert found[0, 1] == pytest.approx(np.sum(upper**2), rel=1e-12)
    assert found[1, 0] == found[0, 1]


def drowned() -> Noisy:
    """Return products of 1000 people of whom the second number hardly varies, in noise that shows."""
    values = {"c/complete/people": np.array([1000.0]), "c/complete/sites": np.ones(1)}
    values["c/complete/products"] = np.array([60.0, 9.0, 5.0, -4.0, 3.0, 50.0])
    return Noisy(values, dict.fromkeys(values, 5.0), 1000, 3)


def test_a_variance_below_its_noise_is_flagged_and_never_negative() -> None:
    (table,) = covariance("within").finish_noised(drowned())
    statuses = dict(
        zip(
            zip(column(table, "variable_1"), column(table, "variable_2"), strict=True),
            column(table, "status"),
            strict=True,
        )
    )
    flagged = {pair for pair, status in statuses.items() if status == "variance below noise"}
    assert flagged == {pair for pair in statuses if "iq" in pair}
    assert set(statuses.values()) == {"ok", "variance below noise"}
    values = numbers_in(table, "covariance")
    assert values[3] > 0.0
    assert any("nearest one" in note for note in table.notes)
    matrix = np.zeros((3, 3))
    matrix[np.triu_indices(3)] = values
    assert np.linalg.eigvalsh(matrix + np.triu(matrix, 1).T).min() >= -1e-9


def test_nothing_correlates_with_a_variance_below_its_noise() -> None:
    (table,) = correlation("within").finish_noised(drowned())
    floored = Absent(Status.VARIANCE_FLOORED)
    assert column(table, "status") == ["variance below noise", "ok", "variance below noise"]
    r = column(table, "r")
    assert r[0] == r[2] == floored
    assert -1.0 <= number(r[1]) <= 1.0
    (table,) = Pca("c", covariance("within"), 3, "correlation").finish_noised(drowned())
    by_variable = {line[2]: line[4] for line in table.rows[:3]}
    assert by_variable["iq"] == "variance below noise"
    assert column(table, "status")[6:] == ["not estimable", "variance below noise", "not estimable"]


def test_a_column_held_fixed_that_noise_drowns_takes_every_correlation_with_it() -> None:
    statistic = correlation("within", numbers=(AGE, LENGTH), given=("iq",))
    noisy = drowned()
    values = dict(noisy.values)  # what is held fixed comes first
    values["c/complete/products"] = np.array([-4.0, 9.0, 3.0, 60.0, 5.0, 50.0])
    (table,) = statistic.finish_noised(Noisy(values, noisy.sd, 1000, 3))
    assert column(table, "status") == ["noise too large"]
    assert column(table, "r") == [Absent(Status.NOISE_TOO_LARGE)]


def wide(numbers: int, people: int, strong: float) -> tuple[Pca, Noisy, Floats]:
    """Return components of many numbers, the sums of people of whom they share one factor, and their correlations."""
    variables = tuple(Number(f"v{place}", "1", -1.0, 1.0) for place in range(numbers))
    asked = covariance("within", numbers=variables, variables={one.name: one for one in variables})
    rng = np.random.default_rng(14)
    x = 0.25 * (
        np.sqrt(strong) * rng.standard_normal((people, 1))
        + np.sqrt(1 - strong) * rng.standard_normal((people, numbers))
    )
    x -= x.mean(axis=0)
    values = {"c/complete/people": np.array([float(people)]), "c/complete/sites": np.ones(1)}
    values["c/complete/products"] = (x.T @ x)[np.triu_indices(numbers)]
    return (
        Pca("c", asked, numbers, "correlation"),
        Noisy(values, dict.fromkeys(values, 0.0), people, 1),
        np.corrcoef(x.T),
    )


def test_eigenvalues_move_by_as_much_as_is_said() -> None:
    """The root mean square over all of them, and 20 draws, is that of the noise within a factor of 2."""
    statistic, exact, matrix = wide(30, 4000, 0.4)
    truth = np.linalg.eigvalsh(matrix)[::-1]
    rng = np.random.default_rng(15)
    ratios: list[float] = []
    for _ in range(20):
        (table,) = statistic.finish_noised(fresh(exact, 8.0, rng))
        found = numbers_in(table, "eigenvalue")[::30]
        level = numbers_in(table, "eigenvalue_noise_sd")[0]
        ratios.append(float(np.sqrt(np.mean((found - truth) ** 2)) / level))
    assert 0.5 < np.mean(ratios) < 2.0


def test_only_a_component_that_stands_out_of_the_noise_has_loadings() -> None:
    statistic, exact, _ = wide(10, 4000, 0.4)
    (table,) = statistic.finish_noised(fresh(exact, 8.0, np.random.default_rng(16)))
    assert column(table, "status") == ["ok"] * 10 + ["noise too large"] * 90
    assert np.sum(
        numbers_in(Table("c", "pca", table.columns, table.rows[:10]), "loading") ** 2
    ) == pytest.approx(1.0)
    assert set(column(table, "loading")[10:]) == {Absent(Status.NOISE_TOO_LARGE)}


def test_forecasts_are_of_the_noise_that_the_table_has() -> None:
    """Of numbers that spread as ranges are assumed to and do not go together."""
    statistic, exact, _ = wide(4, 20_000, 0.0)
    sd = dict.fromkeys(exact.values, 20.0)
    noisy = Noisy(exact.values, sd, exact.people, 1)
    (forecast,) = statistic.forecast(sd, 20_000.0)
    assert forecast.noise_se == pytest.approx(
        numbers_in(statistic.finish_noised(noisy)[0], "eigenvalue_noise_sd")[0], rel=0.2
    )
    (forecast,) = statistic.covariance.forecast(sd, 20_000.0)
    assert forecast.noise_se == pytest.approx(20 / 20_000)
    assert forecast.sampling_se == pytest.approx(0.0625 / np.sqrt(20_000))
    numbers = statistic.covariance.numbers
    asked = correlation("within", numbers=numbers, variables={one.name: one for one in numbers})
    (forecast,) = asked.forecast(sd, 20_000.0)
    assert forecast.noise_se == pytest.approx(
        numbers_in(asked.finish_noised(noisy)[0], "r_noise_se").mean(), rel=0.05
    )
    assert forecast.sampling_se == pytest.approx(1 / np.sqrt(20_000))
    assert forecast.per == 6
