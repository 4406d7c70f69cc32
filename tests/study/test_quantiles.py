"""Quantiles: within their bound of numpy on all rows together, whatever the bins, ties, ends and groups."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.building import statistic_of
from cohortsum.study.results import Absent
from cohortsum.study.statistics.bins import Bins
from cohortsum.study.statistics.groups import Banded, Groups
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.statistics.quantile_table import Request
from cohortsum.study.statistics.quantiles import Quantiles, Zoom
from cohortsum.study.statistics.ranks import bin_of, ranks
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import frozen, with_analysis
from tests.study.pooled import (
    DATA,
    Floats,
    federate,
    federate_rounds,
    floats,
    needs_data,
    number,
    read_columns,
    row,
    split,
)

LENGTH = Number("length", "mm", -3.0, 7.0)
AGE = Number("age", "years", 0.0, 100.0)
DX = Factor("dx", ("control", "autism"))
NAN = float("nan")


def asked(**changes: Any) -> Quantiles:
    wanted: dict[str, Any] = {
        "analysis": "q",
        "variables": (LENGTH,),
        "probabilities": (0.5,),
        "edges": (0.0, 2.0, 4.0),
        "groups": Groups((), ()),
        "refine": None,
        "min_bin": 10,
        "where": None,
    }
    return Quantiles("q", Request(**(wanted | changes)))


def people(
    lengths: Sequence[float] | Floats, ages: Sequence[float] | None = None, **levels: list[int]
) -> Batch:
    array = np.asarray(lengths, np.float64)
    numbers = {"length": array} | ({} if ages is None else {"age": np.asarray(ages, np.float64)})
    return Batch(len(array), numbers, {name: np.asarray(codes, np.int16) for name, codes in levels.items()})


numbers_in_range = st.floats(-3.0, 7.0) | st.sampled_from([-3.0, 0.0, 2.0, 4.0, 7.0, 1.5])
probabilities = st.integers(1, 999).map(lambda part: part / 1000)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(numbers_in_range, min_size=1, max_size=40),
    st.lists(st.integers(-30, 70), min_size=2, max_size=8, unique=True),
    probabilities,
    st.none() | st.sampled_from([0.3, 0.05, 5.0]),
    st.integers(1, 4),
)
def test_a_quantile_is_within_its_bound_of_numpy(
    lengths: list[float], edges: list[int], p: float, refine: float | None, min_bin: int
) -> None:
    parted = tuple(edge / 10 for edge in sorted(edges))
    statistic = asked(edges=parted, probabilities=(p,), refine=refine, min_bin=min_bin)
    sites = [people(lengths[::2]), people(lengths[1::2])]
    (table,), rounds = federate_rounds(statistic, sites)
    found = row(table, variable="length")
    exact = float(np.quantile(lengths, p, method="linear"))
    value, bound = number(found["value"]), number(found["error_bound"])
    widest = max(high - low for low, high in Bins(LENGTH, parted).intervals)
    assert abs(value - exact) <= bound * (1 + 1e-9) + 1e-12
    assert bound <= widest * (1 + 1e-9)
    assert found["n"] == len(lengths)
    if rounds == 2:
        assert refine is not None
        assert found["refined"] == ("yes" if bound <= refine * (1 + 1e-9) else "no")
        if min_bin == 1:
            assert found["refined"] == "yes"


@given(st.integers(1, 400), probabilities)
def test_ranks_weigh_to_one_and_lie_where_the_probability_does(n: int, p: float) -> None:
    weighed = ranks(n, p)
    assert sum(weight for _, weight in weighed) == pytest.approx(1.0, abs=1e-15)
    assert sum(weight * rank for rank, weight in weighed) == pytest.approx(1 + (n - 1) * p, rel=1e-12)
    assert all(1 <= rank <= n for rank, _ in weighed)


def test_a_probability_is_meant_as_it_is_written() -> None:
    assert ranks(11, 0.1) == ((2, 1.0),)
    assert ranks(101, 0.07) == ((8, 1.0),)
    with pytest.raises(ValueError, match="greater than the number"):
        bin_of((1, 2), 4)


def test_a_quantile_between_two_bins_keeps_the_widths_of_its_two_people() -> None:
    """Nobody is between 0 and 4; the median lies there, and is off by the two outer widths at most, not by the gap."""
    statistic = asked(edges=(-1.0, 0.0, 4.0, 5.0))
    (table,) = statistic.finish(federate(statistic, [people([-0.9, -0.8]), people([4.1, 4.7])]))
    found = row(table, variable="length")
    # second of two in [-1, 0) is put at -0.25, first of two in [4, 5] at 4.25
    assert (found["value"], found["error_bound"]) == (2.0, 1.0)


def test_bins_of_few_people_are_not_looked_into_and_it_is_said() -> None:
    statistic = asked(probabilities=(0.1, 0.9), edges=(-3.0, 2.0, 7.0), refine=0.5, min_bin=3)
    batch = people([-2.0, -1.0, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.6])
    (table,), rounds = federate_rounds(statistic, [batch])
    assert rounds == 2
    assert [line[-1] for line in table.rows] == ["no", "yes"]
    assert [line[3] for line in table.rows] == [5.0, pytest.approx(0.5)]
    assert "1 of 2 quantiles are not refined to 0.5: a bin of fewer than 3 people" in table.notes[-1]


def test_nothing_to_look_into_ends_after_one_round() -> None:
    statistic = asked(refine=0.5)
    assert statistic.most_rounds == 2
    (table,), rounds = federate_rounds(statistic, [people([1.0, 1.5, NAN])])
    assert rounds == 1
    found = row(table, variable="length")
    assert (found["refined"], found["missing"], found["status"]) == ("no", 1, "ok")
    assert asked().most_rounds == 1
    assert asked().further(federate(asked(), [people([1.0] * 50)])) is None


def test_the_second_round_follows_from_the_first_sums_alone() -> None:
    statistic = asked(probabilities=(0.25, 0.75), refine=0.1, min_bin=2)
    sites = [people([0.3, 0.4, 3.9]), people([0.5, 3.1, 3.2])]
    further = statistic.further(federate(statistic, sites))
    assert isinstance(further, Zoom)
    assert further.parameters == (0.0, 0.0, 1.0, 0.0, 0.0, 2.0)  # the bins [0, 2) and [2, 4]
    assert [(block.name, block.size) for block in further.layout()] == [
        ("q/length/[0.0, 2.0)/parts", 20),
        ("q/length/[2.0, 4.0]/parts", 20),
    ]
    assert further.most_rounds == 1
    assert further.further({}) is None


def test_a_bin_whose_people_changed_between_the_rounds_is_not_used() -> None:
    statistic = asked(refine=0.1, min_bin=2)
    sites = [people([0.3, 0.4, 0.5]), people([0.5, 0.6, 0.7])]
    further = statistic.further(federate(statistic, sites))
    assert further is not None
    (table,) = further.finish(federate(further, sites[:1]))
    assert (table.rows[0][3], table.rows[0][-1]) == (2.0, "no")
    (table,) = further.finish({})
    assert (table.rows[0][3], table.rows[0][-1]) == (2.0, "no")


def test_groups_cross_levels_and_bands_and_statuses_are_told() -> None:
    groups = Groups((DX,), (Banded(AGE, (20.0, 30.0)),))
    statistic = asked(groups=groups, edges=(0.0, 7.0))
    batch = people(
        [1.0, 2.0, NAN, 4.0, 5.0, 6.0],
        [19.9, 20.0, 20.0, 30.0, NAN, 25.0],
        dx=[0, 0, 1, 0, 0, -1],
    )
    total = federate(statistic, split(batch, list("aabbcc")), batch_size=2)
    del total["q/length/dx[autism]/age[30, 100]"]
    (table,) = statistic.finish(total)
    assert table.columns == (
        *("variable", "dx", "age", "probability", "value", "error_bound", "status", "n", "missing"),
    )
    assert [(line[1], line[2], line[6], line[7], line[8]) for line in table.rows] == [
        ("control", "[0, 20)", "ok", 1, 0),
        ("control", "[20, 30)", "ok", 1, 0),
        ("control", "[30, 100]", "ok", 1, 0),
        ("autism", "[0, 20)", "all missing", 0, 0),
        ("autism", "[20, 30)", "all missing", 0, 1),
        ("autism", "[30, 100]", "too few sites", Absent("too few sites"), Absent("too few sites")),
    ]
    assert table.notes[1] == "People without a value of dx, age are in no row."
    supply = {block.name: block.supply for block in statistic.layout()}
    assert supply["q/length/dx[autism]/age[20, 30)"] == (frozenset({"length", "age", "dx[autism]"}),)


def test_a_study_asks_for_quantiles() -> None:
    entry = (
        "{kind: quantiles, variables: [iq], probabilities: [0.9, 0.1], bins: {from: 40, to: 160, count: 12}, "
        "by: [sex], bands: {age: [20, 40]}, refine: 1}"
    )
    study = frozen(with_analysis(entry))
    spec = study.analyses["a"]
    assert (spec.partings("age"), 50.0 in spec.partings("iq")) == ({20.0, 40.0}, True)
    assert spec.required == {"sex", "age"}
    assert json.loads(study.canonical)["analyses"]["a"] == {
        "kind": "quantiles",
        "variables": ["iq"],
        "probabilities": [0.1, 0.9],
        "edges": [float(edge) for edge in range(40, 170, 10)],
        "by": ["sex"],
        "bands": {"age": [20.0, 40.0]},
        "refine": 1.0,
        "min_bin": 10,
    }
    statistic = statistic_of(study, spec)
    assert isinstance(statistic, Quantiles)
    assert statistic.request.probabilities == (0.1, 0.9)


def test_parts_of_a_bin_keep_its_brackets() -> None:
    bins = Bins(LENGTH, (0.0, 1.0))
    assert bins.names == ("[-3.0, 0.0)", "[0.0, 1.0]", "(1.0, 7.0]")
    assert bins.part_names(1, 0.5) == ("[0.0, 0.5)", "[0.5, 1.0]")
    assert bins.part_names(2, 3.0) == ("(1.0, 4.0)", "[4.0, 7.0]")
    assert len(Bins(LENGTH, (0.0, 0.1)).parts(1, 0.01)) == 11
    assert set_name("q", "length", "[0.0, 0.5)") == "q/length/[0.0, 0.5)"


@needs_data
def test_cnsim_quantiles_are_those_of_all_rows_and_not_the_mean_of_site_quantiles() -> None:
    truth = json.loads((DATA / "cnsim.truth.json").read_text())["LAB_HDL_quantileMean"]
    hdl = Number("LAB_HDL", "mmol/l", 0.0, 5.0)
    columns = [floats(read_columns(f"cnsim{study}.csv")["LAB_HDL"]) for study in (1, 2, 3)]
    sites = [Batch(len(column), {"LAB_HDL": column}, {}) for column in columns]
    pooled = np.concatenate(columns)
    edges = tuple(step / 10 for step in range(0, 51))
    once = asked(variables=(hdl,), probabilities=tuple(truth["probs"]), edges=edges)
    (coarse,), one = federate_rounds(once, sites, batch_size=1001)
    twice = Quantiles("q", replace(once.request, refine=0.001))
    (fine,), two = federate_rounds(twice, sites, batch_size=1001)
    assert (one, two) == (1, 2)
    for table, width in ((coarse, 0.1), (fine, 0.001)):
        values = [number(line[2]) for line in table.rows]
        bounds = [number(line[3]) for line in table.rows]
        assert bounds == pytest.approx([width] * 7, rel=1e-9)
        assert np.all(np.abs(np.array(values) - truth["exact_pooled"]) <= np.array(bounds))
        exact = [float(np.quantile(pooled[~np.isnan(pooled)], p)) for p in once.request.probabilities]
        assert exact == pytest.approx(truth["exact_pooled"], rel=1e-12)
    fine_values = np.array([number(line[2]) for line in fine.rows])
    off, published = (
        np.abs(np.array(values) - truth["exact_pooled"]) for values in (fine_values, truth["weighted"])
    )
    assert off[0] < 0.001 < published[0]  # 5 %: 0.8678 is published, 0.8714 is right


@needs_data
def test_centiles_by_age_band_equal_the_truth_within_their_bound() -> None:
    truth = json.loads((DATA / "fcon1000.truth.json").read_text())["age_band_centiles_meanth"]
    columns = read_columns("fcon1000.csv")
    thickness = (
        floats(columns["lh_MeanThickness_thickness"]) + floats(columns["rh_MeanThickness_thickness"])
    ) / 2
    batch = people(thickness, list(floats(columns["age"])))
    statistic = asked(
        variables=(Number("length", "mm", 1.0, 5.0),),
        probabilities=(0.05, 0.5, 0.95),
        edges=tuple(1.0 + step / 10 for step in range(41)),
        groups=Groups((), (Banded(AGE, (20.0, 25.0, 30.0, 40.0, 60.0)),)),
        refine=0.0005,
        min_bin=1,
    )
    (table,), rounds = federate_rounds(statistic, split(batch, columns["site"]), batch_size=100)
    assert rounds == 2
    for band, known in truth.items():
        name = band if band != "[60, 100)" else "[60, 100]"
        lines = [line for line in table.rows if line[1] == name]
        assert [line[6] for line in lines] == [known["n"]] * 3
        for line, key in zip(lines, ("p5", "p50", "p95"), strict=True):
            assert number(line[4]) <= 0.0005 * (1 + 1e-9)
            assert abs(number(line[3]) - known[key]) <= number(line[4])
