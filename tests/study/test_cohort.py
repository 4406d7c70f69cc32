"""The cohort: who is in, with which values, and what a site must have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.study.batch import Batch
from cohortsum.study.cohort import Cohort
from cohortsum.study.definition import freeze, load_study

TEXT = b"""\
study: cohort
title: Cohort
version: 1
roster: 1
expires: 2027-06-30
person: id
variables:
  dx: {levels: [control, autism]}
  sex: {levels: [female, male]}
  scanner: {levels: [a, b]}
  age: {unit: years, range: [5, 65]}
  fd: {unit: mm, range: [0, 1], out_of_range: exclude}
  iq: {unit: points, range: [40, 160]}
  bmi: {unit: kg/m2, range: [10, 60]}
  height: {unit: cm, range: [50, 250]}
  weight: {unit: kg, range: [10, 300]}
  unused: {unit: mm, range: [0, 1]}
derive:
  age2: "age^2"
  age4: "age2^2"
  slenderness: "height / weight"
cohort: {include: "age < 70 and dx == autism or fd > 5", epoch: "1"}
analyses:
  s: {kind: summary, variables: [bmi, age], by: [sex]}
  h: {kind: histogram, variables: [slenderness], edges: [0, 1, 30]}
  r: {kind: regression, outcomes: [iq], terms: [dx, age4], where: scanner == a}
protection: {min_participants: 1, max_participants: 10}
privacy: {noise: none}
"""
COHORT = Cohort(freeze(load_study(TEXT, "cohort.yaml")))


def batch(age: list[float], fd: list[float], dx: list[int], **more: list[float]) -> Batch:
    people = len(age)
    numbers = {"age": age, "fd": fd, **more}
    return Batch(
        people,
        {name: np.array(values, dtype=np.float64) for name, values in numbers.items()},
        {
            "dx": np.array(dx, dtype=np.int16),
            "sex": np.zeros(people, dtype=np.int16),
            "scanner": np.zeros(people, dtype=np.int16),
        },
    )


def test_a_site_must_have_what_decides_who_is_in_and_what_is_adjusted_for() -> None:
    assert COHORT.required == {"age", "dx", "fd", "scanner", "sex"}


def test_a_site_may_lack_outcomes_and_described_variables() -> None:
    assert COHORT.suppliable == {"bmi", "iq", "slenderness"}
    assert COHORT.sources(["slenderness"]) == {"height", "weight"}
    assert COHORT.reads == {"age", "dx", "fd", "scanner", "sex", "bmi", "iq", "height", "weight"}


def test_inclusion_is_judged_on_raw_values_before_clamping() -> None:
    nan = float("nan")
    prepared = COHORT.prepare(
        batch(age=[69, 70, nan, 30, 3, 30], fd=[0, 0, 0, nan, 0.5, 6], dx=[1, 1, 1, 1, -1, 0])
    )
    assert prepared.people == 3  # 69 years; 30 years with fd unknown; fd 6
    assert prepared.numbers["age"].tolist() == [65.0, 30.0, 30.0]
    assert prepared.levels["dx"].tolist() == [1, 1, 0]


def test_excluded_values_become_missing_and_clamped_ones_move_to_the_nearer_end() -> None:
    prepared = COHORT.prepare(batch(age=[-1, 30], fd=[0.25, 6], dx=[1, 0], iq=[20, 200]))
    assert prepared.numbers["age"].tolist() == [5.0, 30.0]
    assert prepared.numbers["iq"].tolist() == [40.0, 160.0]
    assert prepared.numbers["fd"][0] == 0.25
    assert np.isnan(prepared.numbers["fd"][1])


def test_derived_variables_are_computed_from_clamped_values() -> None:
    nan = float("nan")
    prepared = COHORT.prepare(batch(age=[69, 3], fd=[0, 0], dx=[1, 1], height=[180, nan], weight=[90, 80]))
    assert prepared.numbers["age2"].tolist() == [4225.0, 25.0]
    assert prepared.numbers["age4"].tolist() == [4225.0**2, 625.0]
    assert prepared.numbers["slenderness"][0] == 2.0
    assert np.isnan(prepared.numbers["slenderness"][1])


def test_what_a_site_lacks_is_absent_with_what_is_derived_from_it() -> None:
    prepared = COHORT.prepare(batch(age=[30], fd=[0], dx=[1], height=[180]))
    assert prepared.numbers.keys() == {"age", "fd", "age2", "age4", "height"}


def test_a_site_without_a_required_column_is_told_which() -> None:
    raw = batch(age=[30], fd=[0], dx=[1])
    with pytest.raises(DataError, match=r"^no column for fd, sex; map"):
        COHORT.prepare(
            Batch(1, {"age": raw.numbers["age"]}, {"dx": raw.levels["dx"], "scanner": raw.levels["dx"]})
        )


def test_an_empty_batch_stays_empty() -> None:
    prepared = COHORT.prepare(batch(age=[], fd=[], dx=[]))
    assert prepared.people == 0
    assert prepared.numbers["age4"].shape == (0,)


_value = st.floats(-1e6, 1e6) | st.just(float("nan"))
_people = st.lists(st.tuples(_value, _value, st.integers(-1, 1)), max_size=20)


@settings(max_examples=100, deadline=None)
@given(_people, st.integers(0, 20))
def test_preparing_batch_by_batch_is_preparing_at_once(
    people: list[tuple[float, float, int]], cut: int
) -> None:
    def prepare(part: list[tuple[float, float, int]]) -> Batch:
        return COHORT.prepare(
            batch([row[0] for row in part], [row[1] for row in part], [row[2] for row in part])
        )

    whole, first, second = prepare(people), prepare(people[:cut]), prepare(people[cut:])
    assert whole.people == first.people + second.people
    for name, values in whole.numbers.items():
        np.testing.assert_array_equal(values, np.concatenate([first.numbers[name], second.numbers[name]]))
        bounds = COHORT.study.numbers[name]
        known = values[~np.isnan(values)]
        assert np.all((known >= bounds.lower) & (known <= bounds.upper))
