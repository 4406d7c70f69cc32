"""Histogram: public bins, everybody counted once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.definition import HistogramSpec
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.variables import Number
from tests.study.definitions import frozen, with_analysis
from tests.study.pooled import federate, floats, needs_data, read_columns, split

AGE = Number("age", "years", 5.0, 65.0)


def people(*ages: float) -> Batch:
    return Batch(len(ages), {"age": np.array(ages)}, {})


def counted(statistic: Histogram, *sites: Batch) -> list[tuple[object, ...]]:
    (table,) = statistic.finish(federate(statistic, sites))
    assert table.columns == ("variable", "low", "high", "count", "status", "missing")
    return [line[1:] for line in table.rows]


def test_bins_are_closed_on_the_left_and_the_last_on_both_sides() -> None:
    statistic = Histogram("h", (AGE,), (5.0, 20.0, 40.0, 65.0))
    rows = counted(statistic, people(5.0, 19.999, 20.0), people(40.0, 65.0, float("nan")))
    assert rows == [
        (5.0, 20.0, 2, "ok", 1),
        (20.0, 40.0, 1, "ok", 1),
        (40.0, 65.0, 2, "ok", 1),
    ]


def test_people_beyond_the_edges_are_in_bins_of_their_own() -> None:
    statistic = Histogram("h", (AGE,), (20.0, 40.0))
    rows = counted(statistic, people(5.0, 19.9, 20.0, 40.0, 40.1, 65.0, 64.0))
    assert [line[:3] for line in rows] == [(5.0, 20.0, 2), (20.0, 40.0, 2), (40.0, 65.0, 3)]


def test_a_value_outside_the_public_range_counts_at_its_bound() -> None:
    statistic = Histogram("h", (AGE,), (5.0, 20.0, 65.0))
    assert [line[2] for line in counted(statistic, people(-40.0, 4.9, 66.0, 1e300))] == [2, 2]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.one_of(st.floats(5.0, 65.0), st.just(float("nan"))), max_size=50),
    st.lists(st.integers(0, 70), min_size=2, max_size=6, unique=True),
    st.integers(1, 4),
)
def test_counts_and_missing_add_up_to_the_people(ages: list[float], edges: list[int], sites: int) -> None:
    statistic = Histogram("h", (AGE,), tuple(float(edge) for edge in sorted(edges)))
    total = federate(statistic, [people(*ages[site::sites]) for site in range(sites)], batch_size=3)
    assert int(total["h/age/people"].sum()) == len(ages)
    inside = [age for age in ages if statistic.edges[0] <= age <= statistic.edges[-1]]
    expected, _ = np.histogram(inside, statistic.edges)
    first = int(statistic.edges[0] > AGE.lower)
    assert list(total["h/age/people"][first : first + len(expected)]) == list(expected)


def test_nobody_is_all_missing_and_an_unopened_block_too_few_sites() -> None:
    statistic = Histogram("h", (AGE,), (5.0, 65.0))
    assert counted(statistic, people(float("nan"))) == [(5.0, 65.0, 0, "all missing", 1)]
    (table,) = statistic.finish({})
    assert table.rows[0][4] == "too few sites"


@pytest.mark.parametrize("edges", [(1.0,), (2.0, 1.0), (1.0, 1.0), (0.0, float("inf")), (0.0, float("nan"))])
def test_edges_that_are_no_bins_are_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(StudyFileError, match="field 'edges'"):
        Histogram("h", (AGE,), edges)


def test_where_leaves_other_people_out_of_every_count() -> None:
    statistic = Histogram("h", (AGE,), (5.0, 65.0), where=lambda batch: batch.numbers["age"] > 30)
    assert counted(statistic, people(20.0, 40.0, float("nan"))) == [(5.0, 65.0, 1, "ok", 0)]


@needs_data
def test_fcon_age_bands_equal_numpy_on_all_rows() -> None:
    columns = read_columns("fcon1000.csv")
    ages = floats(columns["age"])
    age = Number("age", "years", 0.0, 100.0)
    statistic = Histogram("h", (age,), (0.0, 20.0, 25.0, 30.0, 40.0, 60.0, 100.0))
    total = federate(statistic, split(Batch(len(ages), {"age": ages}, {}), columns["site"]))
    # n of `age_band_centiles_meanth` in the truth file
    assert list(total["h/age/people"]) == [139, 529, 147, 87, 119, 57, 0]


def test_bins_of_equal_width_have_the_edges_that_somebody_would_write() -> None:
    """Added up in floating point, steps of 0.1 pass by 1.8, and whoever is recorded as 1.8 would be in the bin below."""
    study = frozen(with_analysis("{kind: histogram, variables: [iq], bins: {from: 0, to: 5, count: 50}}"))
    spec = study.analyses["a"]
    assert isinstance(spec, HistogramSpec)
    assert spec.edges == tuple(place / 10 for place in range(51))
    assert sum(0.1 * place != place / 10 for place in range(51)) == 18
