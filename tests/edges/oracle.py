"""What a pooled computation over the rows of some sites gives: plain numpy, none of the product's statistics."""

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.report.document import ResultDocument
from tests.edges.harness import People, people_at, rows

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
EDGES = (0, 25, 50, 75, 100)


def people_of(sites: Iterable[int]) -> int:
    return sum(people_at(index) for index in sites)


def check_pooled(document: ResultDocument, sites: Iterable[int]) -> None:
    """Fail unless every number of the document is that of the pooled rows of ``sites``."""
    held = {index: People.of(index) for index in sites}
    dx = np.concatenate([people.dx for people in held.values()])
    age = np.concatenate([people.age for people in held.values()])
    thick = np.concatenate([people.thick for people in held.values()])
    place = np.concatenate([np.full(len(people.dx), index) for index, people in held.items()])
    _check_ages(document, dx, age)
    counts, _ = np.histogram(age, EDGES)
    assert [row["count"] for row in rows(document, "bands")] == counts.tolist()
    dummies = (place[:, None] == np.array(sorted(held))[None, :]).astype(np.float64)
    _check_fit(document, np.column_stack((dx.astype(np.float64), age, dummies)), thick)


def _check_ages(document: ResultDocument, dx: Codes, age: Numbers) -> None:
    for code, row in enumerate(rows(document, "ages")):
        group = age[dx == code]
        assert row["n"] == len(group)
        assert row["mean"] == pytest.approx(group.mean(), rel=1e-12)
        assert row["variance"] == pytest.approx(group.var(ddof=1), rel=1e-10)


def _check_fit(document: ResultDocument, design: Numbers, outcome: Numbers) -> None:
    b, squares, rank, _ = np.linalg.lstsq(design, outcome, rcond=None)
    assert rank == design.shape[1]
    df = len(outcome) - int(rank)
    se = np.sqrt(squares[0] / df * np.diag(np.linalg.inv(design.T @ design)))
    fitted = rows(document, "thickness")
    assert [row["term"] for row in fitted] == ["dx[case]", "age"]
    for place, row in enumerate(fitted):
        assert row["n"] == len(outcome)
        assert row["df"] == df
        assert row["b"] == pytest.approx(b[place], rel=1e-9)
        assert row["se"] == pytest.approx(se[place], rel=1e-9)
