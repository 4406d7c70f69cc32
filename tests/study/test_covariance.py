"""Covariances and principal components: those of numpy on all rows together."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.components import principal_components
from cohortsum.study.statistics.covariance import Covariance
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.pca import Pca
from cohortsum.study.variables import Number
from tests.study.definitions import frozen, with_analysis
from tests.study.models import AGE, OUTCOMES, cohort, seeds
from tests.study.pooled import (
    BITS,
    DATA,
    Floats,
    federate,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    split,
)

NUMBERS = (*OUTCOMES, AGE)


def covariance(**changes: Any) -> Covariance:
    wanted: dict[str, Any] = {
        "name": "c",
        "numbers": NUMBERS,
        "site_effect": "none",
        "shrinkage": 0.0,
        "fraction_bits": BITS,
    }
    wanted |= changes
    wanted.setdefault("variables", {one.name: one for one in wanted["numbers"]})
    return Covariance(**wanted)


def table_of(statistic: Statistic, batch: Batch, site: NDArray[Any]) -> Table:
    (table,) = statistic.finish(federate(statistic, split(batch, site)))
    return table


def pooled(
    batch: Batch, site: NDArray[Any], site_effect: str, numbers: tuple[Number, ...] = NUMBERS
) -> Floats:
    """Return the covariance of the complete cases, within sites or not."""
    x = np.column_stack([batch.numbers[one.name] for one in numbers])
    known = ~np.isnan(x).any(axis=1)
    x, labels = x[known], site[known]
    if site_effect == "none":
        return np.asarray(np.cov(x.T), np.float64)
    held = np.unique(labels)
    for label in held:
        x[labels == label] -= x[labels == label].mean(axis=0)
    return np.asarray(x.T @ x / (len(x) - len(held)), np.float64)


both = st.sampled_from(["within", "none"])


@settings(max_examples=40, deadline=None)
@given(seeds, both, st.sampled_from([0.0, 0.1, 0.9]))
def test_covariances_equal_numpy_and_shrink_towards_the_diagonal(
    seed: int, site_effect: str, shrinkage: float
) -> None:
    batch, site = cohort(seed, people=90)
    table = table_of(covariance(site_effect=site_effect, shrinkage=shrinkage), batch, site)
    exact = pooled(batch, site, site_effect)
    assert len(table.rows) == 10
    for i, one in enumerate(NUMBERS):
        for j, other in enumerate(NUMBERS[i:], start=i):
            found = row(table, variable_1=one.name, variable_2=other.name)
            expected = exact[i, j] * (1.0 if i == j else 1.0 - shrinkage)
            near = 1e-10 * float(np.sqrt(exact[i, i] * exact[j, j]))
            assert number(found["covariance"]) == pytest.approx(expected, rel=1e-9, abs=near)
    assert table.notes[-1].startswith("Fewer than 200 people")


@settings(max_examples=40, deadline=None)
@given(seeds, both, st.sampled_from(["correlation", "covariance"]), st.sampled_from([0.0, 0.2]))
def test_components_equal_the_eigenvectors_of_all_rows(
    seed: int, site_effect: str, matrix: str, shrinkage: float
) -> None:
    batch, site = cohort(seed, people=90)
    asked: Any = {"site_effect": site_effect, "shrinkage": shrinkage}
    statistic = Pca("c", covariance(**asked), 3, "correlation" if matrix == "correlation" else "covariance")
    table = table_of(statistic, batch, site)
    exact = pooled(batch, site, site_effect)
    if matrix == "correlation":
        exact = exact / np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    exact = exact * (1 - shrinkage) + shrinkage * np.diag(np.diag(exact))
    values, vectors = np.linalg.eigh(exact)
    assert [line[0] for line in table.rows] == [1] * 4 + [2] * 4 + [3] * 4
    for place in range(3):
        lines = table.rows[4 * place : 4 * place + 4]
        for line in lines:
            assert number(line[5]) == pytest.approx(values[-1 - place], rel=1e-8, abs=1e-9 * values[-1])
            assert number(line[1]) == pytest.approx(values[-1 - place] / values.sum(), rel=1e-8, abs=1e-9)
        gap = np.abs(np.delete(values, 3 - place) - values[3 - place]).min() / values[-1]
        if gap < 1e-4:
            continue
        loadings = np.array([number(line[3]) for line in lines])
        assert abs(float(loadings @ vectors[:, -1 - place])) == pytest.approx(1.0, abs=1e-9)
        assert np.linalg.norm(loadings) == pytest.approx(1.0, abs=1e-12)
        assert loadings[np.abs(loadings).argmax()] > 0


def test_directions_that_are_not_determined_are_not_given() -> None:
    matrix = np.diag([3.0, 2.0, 2.0, 1.0])
    first, second, third, fourth = principal_components(matrix, 9)
    assert (first.share, second.share, fourth.share) == (0.375, 0.25, 0.125)
    assert first.loadings is not None
    assert first.loadings.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert second.loadings is None
    assert third.loadings is None
    assert fourth.loadings is not None


def test_of_equal_magnitudes_the_first_loading_is_positive() -> None:
    (_, last) = principal_components(np.array([[1.0, 0.5], [0.5, 1.0]]), 2)
    assert last.loadings is not None
    assert last.loadings == pytest.approx([np.sqrt(0.5), -np.sqrt(0.5)])


def test_statuses() -> None:
    names = tuple(Number(name, "1", -10.0, 10.0) for name in ("a", "b", "same"))
    columns = {"a": [1.0, 2.0, 4.0, 3.0], "b": [2.0, 1.0, 5.0, 0.0], "same": [0.1] * 4}
    batch = Batch(4, {name: np.array(values) for name, values in columns.items()}, {})
    site = np.array(list("abab"))
    matrix = covariance(numbers=names)
    table = table_of(matrix, batch, site)
    assert [line[4] for line in table.rows] == ["ok", "ok", *["constant, not estimated"] * 1, "ok"] + [
        "constant, not estimated"
    ] * 2
    table = table_of(Pca("p", matrix, 3, "correlation"), batch, site)
    assert [line[4] for line in table.rows] == [
        *["ok", "ok", "constant, not estimated"] * 2,
        *["not estimable", "not estimable", "constant, not estimated"],
    ]
    assert sum(number(line[1]) for line in table.rows[:6:3]) == pytest.approx(1.0)
    for statistic in (matrix, Pca("p", matrix, 2, "covariance")):
        (table,) = statistic.finish({})
        assert {line[table.columns.index("status")] for line in table.rows} == {"too few sites"}
        assert {line[table.columns.index("n")] for line in table.rows} == {Absent("too few sites")}
        for people, status in ((0, "all missing"), (1, "not estimable")):
            few = Batch(people, {name: values[:people] for name, values in batch.numbers.items()}, {})
            table = table_of(statistic, few, site[:people] if people else np.array(["a"])[:0])
            assert {line[table.columns.index("status")] for line in table.rows} == {status}
    constant = Batch(4, {name: np.full(4, 0.3) for name in columns}, {})
    table = table_of(Pca("p", matrix, 2, "covariance"), constant, site)
    assert {line[4] for line in table.rows} == {"constant, not estimated"}


def test_a_study_asks_for_components() -> None:
    study = frozen(with_analysis("{kind: pca, variables: [age, iq], components: 2, matrix: covariance}"))
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Pca)
    assert (statistic.components, statistic.matrix, statistic.covariance.site_effect) == (
        2,
        "covariance",
        "within",
    )
    study = frozen(
        with_analysis("{kind: covariance, variables: [age, iq], site_effect: none, shrinkage: 0.1}")
    )
    statistic = statistic_of(study, study.analyses["a"])
    assert isinstance(statistic, Covariance)
    assert statistic.shrinkage == 0.1


@needs_data
def test_impac_components_of_68_regions_equal_the_truth() -> None:
    truth = json.loads((DATA / "impac_asd.truth.json").read_text())["pca_corr_68"]
    columns = read_columns("impac_asd.csv")
    names = [name for name in columns if name.endswith("_thickness") and "MeanThickness" not in name]
    assert len(names) == truth["n_features"]
    numbers = tuple(Number(name, "mm", 0.0, 5.0) for name in names)
    batch = Batch(1150, {name: floats(columns[name]) for name in names}, {})
    sites = split(batch, columns["site"])
    assert len(sites) == 34
    statistic = Pca("p", covariance(numbers=numbers), 10, "correlation")
    (table,) = statistic.finish(federate(statistic, sites, batch_size=60))
    for place in range(10):
        line = table.rows[68 * place]
        assert line[0] == place + 1
        assert number(line[5]) == pytest.approx(truth["eig_top10"][place], rel=1e-9)
        assert number(line[1]) == pytest.approx(truth["explained_top10"][place], rel=1e-9)
    assert number(table.rows[0][1]) == pytest.approx(0.4332, abs=5e-5)
    assert all(number(line[3]) > 0 for line in table.rows[:68])  # overall thickness
