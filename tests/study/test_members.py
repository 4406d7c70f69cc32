"""People sets: who enters which numbers, told by hand, by the numbers themselves, and by rank."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.study.batch import Batch
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.statistics.groups import Banded, Groups
from cohortsum.study.statistics.histogram import Histogram
from cohortsum.study.statistics.interface import Statistic, set_name
from cohortsum.study.statistics.joint import Joint
from cohortsum.study.statistics.kaplan_meier import KaplanMeier
from cohortsum.study.statistics.proportion import Proportion
from cohortsum.study.statistics.quantiles import Quantiles
from cohortsum.study.statistics.summary import Summary
from cohortsum.study.statistics.targets import Count, Event
from cohortsum.study.variables import Factor
from tests.ledger.oracle import rank
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen
from tests.study.every_kind import (
    CENTILES,
    HAND,
    STATISTICS,
    correlation,
    covariance,
    glm,
    older,
)
from tests.study.models import AGE, DX, OUTCOMES, SEX, cohort, regression, seeds
from tests.study.pooled import BITS, contribution, slice_of

NAN = float("nan")
every_statistic = pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)


def batch_of(**columns: Sequence[float]) -> Batch:
    """Return people from columns; factors are those of this module."""
    arrays = {name: np.array(values) for name, values in columns.items()}
    factors = {DX.name, SEX.name, HAND.name}
    return Batch(
        len(next(iter(arrays.values()))),
        {name: values.astype(np.float64) for name, values in arrays.items() if name not in factors},
        {name: values.astype(np.int16) for name, values in arrays.items() if name in factors},
    )


def inside(statistic: Statistic, batch: Batch) -> dict[str, list[int]]:
    """Return the positions of the people of every set."""
    return {name: np.flatnonzero(mask).tolist() for name, mask in statistic.members(batch).items()}


def test_a_cell_of_a_summary_has_those_with_a_value_and_those_without() -> None:
    batch = batch_of(age=[10, NAN, 30, 40, 50, 20], dx=[0, 0, 2, 2, -1, 0])
    sets = {
        "s/age/dx[control]": [0, 5],
        "s/age/dx[control]/missing": [1],
        "s/age/dx[autism]": [],
        "s/age/dx[autism]/missing": [],
        "s/age/dx[other]": [2, 3],
        "s/age/dx[other]/missing": [],
    }
    assert inside(Summary("s", (AGE,), (DX,), BITS), batch) == sets
    blocks = {block.name: block for block in Summary("s", (AGE,), (DX,), BITS).layout()}
    assert blocks["s/age/dx[other]/people"].sets == ("s/age/dx[other]", "s/age/dx[other]/missing")
    assert blocks["s/age/dx[other]/sums"].sets == ("s/age/dx[other]",)


def test_every_bin_of_a_histogram_is_a_set() -> None:
    batch = batch_of(age=[5, 10, 19.9, 20, 30, 30.1, 65, NAN])
    assert inside(Histogram("h", (AGE,), (10.0, 20.0, 30.0)), batch) == {
        "h/age/[5.0, 10.0)": [0],
        "h/age/[10.0, 20.0)": [1, 2],
        "h/age/[20.0, 30.0]": [3, 4],
        "h/age/(30.0, 65.0]": [5, 6],
        "h/age/missing": [7],
    }
    assert list(inside(Histogram("h", (AGE,), (5.0, 65.0)), batch)) == ["h/age/[5.0, 65.0]", "h/age/missing"]


PEOPLE = batch_of(
    age=[10, 20, NAN, 40, 50, 60],
    dx=[0, 1, 1, 0, 1, -1],
    sex=[0, 0, 0, 1, 1, 1],
    y0=[1, 2, 3, NAN, 4, 5],
    y1=[9, 9, 9, 9, NAN, 9],
)


def test_an_outcome_has_its_complete_cases_by_level_and_by_crossings_that_meet() -> None:
    statistic = regression(terms=("dx", "sex", "age"), outcomes=OUTCOMES[:2], effect="dx")
    sets = inside(statistic, PEOPLE)
    assert {name: people for name, people in sets.items() if name.startswith("r/y0")} == {
        "r/y0": [0, 1, 4],
        "r/y0/dx[control]": [0],
        "r/y0/dx[autism]": [1, 4],
        "r/y0/dx[other]": [],
        "r/y0/sex[female]": [0, 1],
        "r/y0/sex[male]": [4],
        "r/y0/dx[control]/sex[female]": [0],
        "r/y0/dx[control]/sex[male]": [],
        "r/y0/dx[autism]/sex[female]": [1],
        "r/y0/dx[autism]/sex[male]": [4],
        "r/y0/dx[other]/sex[female]": [],
        "r/y0/dx[other]/sex[male]": [],
    }
    assert (sets["r/y1"], sets["r/y1/sex[male]"]) == ([0, 1, 3], [3])
    blocks = {block.name: block.sets for block in statistic.layout()}
    levels = ("r/y0/dx[control]", "r/y0/dx[autism]", "r/y0/dx[other]")
    assert blocks["r/y0/people"] == blocks["r/y0/sites"] == ("r/y0", *levels)
    assert blocks["r/y0/products"] == ("r/y0", *levels, "r/y0/sex[female]", "r/y0/sex[male]")
    assert set(blocks["r/y0/covariates"]) == {name for name in sets if name.startswith("r/y0")}


def test_complete_cases_of_all_outcomes_are_one_family_of_sets() -> None:
    statistic = regression(terms=("sex", "age"), outcomes=OUTCOMES[:2], missing="complete")
    assert inside(statistic, PEOPLE) == {
        "r/complete": [0, 1, 5],
        "r/complete/sex[female]": [0, 1],
        "r/complete/sex[male]": [5],
    }


def test_interactions_meet_in_products_and_stand_alone() -> None:
    variables = {"dx": DX, "sex": SEX, "hand": HAND, "age": AGE}
    terms = ("dx", "sex", "hand", "dx:sex")
    statistic = regression(terms=terms, variables=variables, outcomes=OUTCOMES[:1])
    _, _, covariates, products = statistic.layout()
    assert "r/y0/dx[autism]/sex[male]" in products.sets
    assert "r/y0/dx[autism]/sex[male]/hand[left]" in covariates.sets
    assert not any("hand" in name and "dx" in name for name in products.sets)


@every_statistic
def test_a_mask_for_every_set_of_the_layout_and_no_other(statistic: Statistic) -> None:
    batch, _ = cohort(1)
    named = [name for block in statistic.layout() for name in block.sets]
    masks = statistic.members(batch)
    assert masks.keys() == set(named)
    assert all(mask.dtype == np.bool_ and mask.shape == (batch.people,) for mask in masks.values())
    assert all(len(block.sets) == len(set(block.sets)) for block in statistic.layout())
    assert statistic.members(slice_of(batch, np.arange(0))).keys() == masks.keys()


@every_statistic
@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 60))
def test_batches_change_nobodys_membership(statistic: Statistic, seed: int, size: int) -> None:
    batch, _ = cohort(seed, people=60)
    parts = [slice_of(batch, np.arange(start, min(start + size, 60))) for start in range(0, 60, size)]
    masks = [statistic.members(part) for part in parts]
    for name, mask in statistic.members(batch).items():
        assert np.array_equal(np.concatenate([one[name] for one in masks]), mask)


@every_statistic
@settings(max_examples=15, deadline=None)
@given(seeds)
def test_who_is_in_no_set_of_a_block_changes_nothing_in_it(statistic: Statistic, seed: int) -> None:
    batch, _ = cohort(seed, people=50)
    masks = statistic.members(batch)
    sent = contribution(statistic, batch, 50)
    for block in statistic.layout():
        within = np.logical_or.reduce([masks[name] for name in block.sets])
        again = contribution(statistic, slice_of(batch, np.flatnonzero(within)), 50)[block.name]
        # sums in floating point may end one unit of the grid apart, products of two means twice that
        apart = 2 if block.kind == "site" and block.per == "person" else 0
        assert np.all(np.abs(again - sent[block.name]) <= apart), block.name


@every_statistic
@settings(max_examples=15, deadline=None)
@given(seeds)
def test_the_counts_of_a_block_are_those_of_its_sets(statistic: Statistic, seed: int) -> None:
    batch, _ = cohort(seed, people=70)
    counts = {name: int(mask.sum()) for name, mask in statistic.members(batch).items()}
    sent = contribution(statistic, batch, 13)
    counted = [b for b in statistic.layout() if b.fraction_bits == 0 and b.per == "person"]
    assert counted or "/residuals" in statistic.layout()[0].name  # a later round counts nobody again
    for block in counted:
        assert sent[block.name].tolist() == [counts[name] for name in block.sets]


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_counts_of_two_levels_can_be_read_off_the_covariates(seed: int) -> None:
    batch, _ = cohort(seed, people=70)
    statistic = regression(terms=("dx", "sex"), outcomes=OUTCOMES[:1], site_effect="none")
    sent = contribution(statistic, batch, 70)
    counts = {name: int(mask.sum()) for name, mask in statistic.members(batch).items()}
    n = int(sent["r/y0/people"][0])
    # every column is u = 2 x - 1 for an x of 0 or 1; columns: autism, other, male
    autism, other, male, _, autism_other, autism_male, _, other_male, _ = (
        int(total) >> BITS for total in sent["r/y0/covariates"]
    )
    assert (autism + n) // 2 == counts["r/y0/dx[autism]"]
    assert (male + n) // 2 == counts["r/y0/sex[male]"]
    assert (autism_male + autism + male + n) // 4 == counts["r/y0/dx[autism]/sex[male]"]
    assert (other_male + other + male + n) // 4 == counts["r/y0/dx[other]/sex[male]"]
    assert autism_other + autism + other + n == 0  # nobody is at two levels of one factor


VARIABLES = {"dx": DX, "sex": SEX, "hand": HAND, "age": AGE}
EXACT: dict[str, Statistic] = {
    "summary": Summary("s", (AGE, OUTCOMES[0]), (DX, SEX), BITS),
    "four moments": Summary("s", (AGE, OUTCOMES[0]), (DX, SEX), BITS, moments=4),
    "histogram": Histogram("h", (AGE, OUTCOMES[0]), (10.0, 20.0, 65.0)),
    "crosstab": Crosstab("c", (DX, HAND, SEX)),
    "quantiles": Quantiles("q", replace(CENTILES, groups=Groups((SEX,), (Banded(AGE, (20.0,)),)))),
    "proportion": Proportion("p", (AGE, OUTCOMES[1]), (20.0,), (DX, HAND), (SEX,)),
    "correlation": correlation(given=("hand", "dx"), site_effect="none"),
    "correlation per pair": correlation(given=("sex",), site_effect="none", missing="per_pair"),
    "covariance": covariance("none"),
    "no factor": regression(terms=("age",), site_effect="none", outcomes=OUTCOMES[:2]),
    "three factors": regression(
        terms=("hand", "dx", "sex", "age"), variables=VARIABLES, effect="dx", site_effect="none"
    ),
    "interactions": regression(
        terms=("dx", "sex", "hand", "dx:sex", "age", "hand:age"), variables=VARIABLES, site_effect="none"
    ),
    "joint": regression(
        terms=("sex", "hand"),
        variables=VARIABLES,
        site_effect="none",
        missing="complete",
        multivariate={"both": Joint(("y0", "y1"), ("sex",))},
    ),
    "kaplan-meier": KaplanMeier(name="k", time=AGE, event=Event(SEX, "male"), times=(10.0, 65.0), by=(DX,)),
    "logistic": glm("binomial", Event(SEX, "male"), "dx", "age", "hand"),
    "poisson": glm("poisson", Count(OUTCOMES[0]), "dx", "sex", "dx:sex"),
    "complete": regression(
        terms=("sex", "hand", "sex:hand"), variables=VARIABLES, site_effect="none", missing="complete"
    ),
}


@pytest.mark.parametrize("statistic", EXACT.values(), ids=EXACT)
def test_the_sets_span_what_a_block_tells_and_nothing_else(statistic: Statistic) -> None:
    """What a block adds for each kind of person is a combination of its sets, and each set is one of what it adds.

    Values are missing or at the upper end, where the normalised value and all its products are 1.
    """
    kinds = product((65.0, NAN), (5.0, NAN), (9000.0, NAN), (1.0,), (-1, 0, 1, 2), (0, 1), (-1, 0, 1))
    age, y0, y1, y2, dx, sex, hand = zip(*kinds, strict=True)
    people = batch_of(age=age, y0=y0, y1=y1, y2=y2, dx=dx, sex=sex, hand=hand)
    masks = statistic.members(people)
    alone = [
        contribution(statistic, slice_of(people, np.array([place])), 1) for place in range(people.people)
    ]
    checked = 0
    for block in statistic.layout():
        if block.per == "site":
            continue
        scale = 1 << block.fraction_bits
        told = [[int(sent[block.name][number]) // scale for sent in alone] for number in range(block.size)]
        if block.name.endswith("/covariates"):  # n comes with the same supply, in the block before
            told.append([int(sent[block.name.replace("/covariates", "/people")][0]) for sent in alone])
        sets = [[int(member) for member in masks[name]] for name in block.sets]
        dimension = rank(zip(*told, strict=True))
        assert rank(zip(*sets, strict=True)) == dimension == rank(zip(*told, *sets, strict=True)), block.name
        checked += 1
    assert checked >= 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0.0, 70.0) | st.just(NAN), max_size=40),
    st.lists(st.integers(0, 70), min_size=2, max_size=6, unique=True),
)
def test_bins_and_missing_part_the_people_asked_about(ages: list[float], edges: list[int]) -> None:
    statistic = Histogram("h", (AGE,), tuple(float(edge) for edge in sorted(edges)), older)
    batch = Batch(len(ages), {"age": np.array(ages, np.float64)}, {})
    sets = sum(mask.astype(int) for mask in statistic.members(batch).values())
    assert np.array_equal(sets, older(batch).astype(int))


def test_no_two_groups_share_a_name_whatever_levels_are_called() -> None:
    odd = Factor("dx", ("a", "a]/sex[male", "a/", "a//"))
    statistic = regression(terms=("dx", "sex"), variables={"dx": odd, "sex": SEX}, outcomes=OUTCOMES[:1])
    batch = batch_of(y0=[1, 1, 1, 1], dx=[0, 1, 2, 3], sex=[1, 0, 1, 1])
    sets = inside(statistic, batch)
    assert len(sets) == 1 + 4 + 2 + 8
    assert sets[set_name("r", "y0", "dx[a]/sex[male]")] == [1]
    assert sets[set_name("r", "y0", "dx[a]", "sex[male]")] == [0]


STUDY = """\
study: members
title: Members
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, autism]}
  sex: {levels: [female, male]}
  age: {unit: years, range: [5, 65]}
  iq: {unit: points, range: [40, 160], out_of_range: exclude}
derive: {age2: "age^2"}
cohort: {include: "age >= 10", epoch: 2026-11}
analyses:
  who: {kind: summary, variables: [iq], by: [dx]}
  men: {kind: summary, variables: [age2], where: sex == male}
  r: {kind: regression, outcomes: [iq], terms: [age]}
protection:
  {min_sites: 3, min_participants: 3, max_participants: 1000, min_participants_per_site: 2, max_colluding_sites: 0}
privacy: {noise: none}
"""


def plan() -> StudyPlan:
    return plan_study(frozen(STUDY), roster_of(4))


RAW = batch_of(
    age=[9, 80, 20, NAN, 30, 10],
    iq=[100, 100, 200, 100, 90, NAN],
    dx=[0, 0, 1, 0, 1, 0],
    sex=[1, 1, 0, 1, 1, 0],
)


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_the_sets_of_a_study_are_over_the_raw_people_and_hold_the_cohort(size: int) -> None:
    parts = [slice_of(RAW, np.arange(start, min(start + size, 6))) for start in range(0, 6, size)]
    masks = list(plan().members(parts))
    assert [one["people"].shape for one in masks] == [(part.people,) for part in parts]
    assert {
        name: np.flatnonzero(np.concatenate([one[name] for one in masks])).tolist() for name in masks[0]
    } == {
        "people": [1, 2, 4, 5],
        "who/iq/dx[control]": [1],
        "who/iq/dx[control]/missing": [5],
        "who/iq/dx[autism]": [4],
        "who/iq/dx[autism]/missing": [2],
        "men/age2": [1, 4],
        "men/age2/missing": [],
        "r/iq": [1, 4],
    }


def test_the_cohort_keeps_those_it_includes() -> None:
    kept = plan().cohort.included(RAW)
    assert kept.tolist() == [False, True, True, False, True, True]
    assert plan().cohort.prepare(RAW).numbers["age"].tolist() == [65, 20, 30, 10]


def test_a_site_sends_for_the_sets_of_what_it_supplies() -> None:
    study = plan()
    everything = frozenset(study.round.items)
    assert study.people_sets(everything) == next(study.members([RAW])).keys()
    assert study.people_sets(everything - {"age2", "dx[control]"}) == {
        "people",
        "who/iq/dx[autism]",
        "who/iq/dx[autism]/missing",
        "r/iq",
    }
    assert study.people_sets(frozenset()) == {"people"}
