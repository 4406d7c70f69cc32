"""Pattern pooling: no two outcomes are about nearly the same people, whatever the order of people and outcomes."""

from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.finding import SiteRule
from cohortsum.study.disclosure.site.pooling import Pooled, pool_patterns

Bools = NDArray[np.bool_]
People = frozenset[int]


def columns(people: int, *lacking: set[int]) -> Bools:
    """Return one outcome per set of people who lack it."""
    return np.array([[person not in one for one in lacking] for person in range(people)], np.bool_)


def sets_of(has_value: Bools) -> tuple[People, ...]:
    return tuple(frozenset(map(int, np.flatnonzero(column))) for column in has_value.T)


def both(one: People, other: People) -> People:
    return one & other


def settled(sets: tuple[People, ...], k: int) -> tuple[People, ...]:
    """Return the levels of the module's docstring once more, with Python's sets and no bits."""
    held = list(sets)
    while True:
        held = [one if len(one) >= k else People() for one in held]
        near = {(a, b): len(held[a] ^ held[b]) for a, b in combinations(range(len(held)), 2)}
        levels = [distance for distance in near.values() if 0 < distance < k]
        if not levels:
            return tuple(held)
        group = list(range(len(held)))
        for (a, b), distance in near.items():
            if distance in (0, min(levels)):
                group = [group[a] if one == group[b] else one for one in group]
        held = [
            reduce(both, (held[b] for b in range(len(held)) if group[b] == group[a]))
            for a in range(len(held))
        ]


def fewest_dropped(sets: tuple[People, ...], k: int) -> int:
    """Return the least number of (person, outcome) pairs that any pooling drops, by trying all of them."""
    choices = [
        [frozenset(kept) for size in range(len(one) + 1) for kept in combinations(sorted(one), size)]
        for one in sets
    ]
    return min(
        sum(map(len, sets)) - sum(map(len, kept))
        for kept in product(*choices)
        if all(len(a ^ b) == 0 or len(a ^ b) >= k for a, b in combinations((*kept, frozenset[int]()), 2))
    )


@st.composite
def cases(draw: st.DrawFn, people: int = 14, outcomes: int = 7) -> tuple[Bools, int]:
    """Draw outcomes that few people lack, of few patterns, so that chains and ties are common."""
    number, width = draw(st.integers(0, people)), draw(st.integers(1, outcomes))
    lacking = st.sets(st.integers(0, max(0, number - 1)), max_size=draw(st.integers(0, number)))
    sets = [draw(lacking) for _ in range(width)]
    return columns(number, *sets).reshape(number, width), draw(st.integers(1, 6))


def check(given_values: Bools, k: int, found: Pooled, anchors: Bools | None = None) -> None:
    """Assert what holds of every result: nobody is added, and no two sets are 1 to k-1 people apart."""
    assert not (found.has_value & ~given_values).any()
    empty = frozenset[int]()
    fixed = () if anchors is None else sets_of(anchors)
    for a, b in combinations((empty, *sets_of(found.has_value)), 2):
        assert a == b or len(a ^ b) >= k or {a, b} <= {empty, *fixed}
    for one, anchor in product(sets_of(found.has_value), fixed):
        assert not one or one in fixed or len(one ^ anchor) >= k
    lost = found.has_value.sum(axis=0) < given_values.sum(axis=0)
    assert found.changed.tolist() == lost.tolist()
    assert found.left_out.tolist() == (lost & ~found.has_value.any(axis=0)).tolist()


@given(cases(), st.integers(0, 2**32))
def test_sets_are_equal_or_k_apart_in_any_order_and_stay_so(case: tuple[Bools, int], seed: int) -> None:
    has_value, k = case
    found = pool_patterns(has_value, k)
    check(has_value, k, found)
    assert sets_of(found.has_value) == settled(sets_of(has_value), k)
    again = pool_patterns(found.has_value, k)
    assert again.has_value.tolist() == found.has_value.tolist()
    assert not again.changed.any()
    generator = np.random.default_rng(seed)
    rows, order = generator.permutation(has_value.shape[0]), generator.permutation(has_value.shape[1])
    mixed = pool_patterns(has_value[np.ix_(rows, order)], k)
    assert mixed.has_value.tolist() == found.has_value[np.ix_(rows, order)].tolist()
    assert mixed.left_out.tolist() == found.left_out[order].tolist()


@given(cases(), st.data())
def test_anchors_lose_nobody_and_no_outcome_is_near_one(case: tuple[Bools, int], data: st.DataObject) -> None:
    has_value, k = case
    people = len(has_value)
    sets = st.sets(st.integers(0, max(0, people - 1)), max_size=people)
    drawn = data.draw(st.lists(sets, max_size=2))
    anchors = columns(people, set(), *drawn).reshape(people, 1 + len(drawn))
    found = pool_patterns(has_value, k, anchors)
    check(has_value, k, found, anchors)
    fixed = sets_of(anchors)
    for before, after in zip(sets_of(has_value), sets_of(found.has_value), strict=True):
        assert after == before or before not in fixed
    assert pool_patterns(found.has_value, k, anchors).has_value.tolist() == found.has_value.tolist()


@given(cases(people=4, outcomes=3))
def test_it_never_drops_fewer_than_is_possible_and_nothing_where_nothing_must_go(
    case: tuple[Bools, int],
) -> None:
    has_value, k = case
    sets = sets_of(has_value)
    least = fewest_dropped(sets, k)
    dropped = int(has_value.sum() - pool_patterns(has_value, k).has_value.sum())
    assert least <= dropped
    if least == 0:
        assert dropped == 0


def test_two_outcomes_that_one_person_tells_apart_lose_that_person() -> None:
    has_value = columns(20, set(), {3})
    found = pool_patterns(has_value)
    assert sets_of(found.has_value) == (frozenset(range(20)) - {3},) * 2
    assert found.changed.tolist() == [True, False]
    assert found.findings(("a", "b")) == ()


def test_a_difference_of_k_people_stays() -> None:
    assert not pool_patterns(columns(20, set(), {0, 1, 2, 3, 4})).changed.any()
    assert pool_patterns(columns(20, set(), {0, 1, 2, 3})).changed.tolist() == [True, False]
    # as many people, but not the same: the symmetric difference counts
    assert pool_patterns(columns(20, {0, 1}, {2, 3})).changed.all()
    assert not pool_patterns(columns(20, {0, 1, 2}, {3, 4, 5})).changed.any()


def test_a_chain_is_pooled_as_far_as_it_must() -> None:
    """A to B, B to C: the nearest first. Where C is far enough from what A and B have become, it loses nobody."""
    has_value = columns(30, set(), {0}, {0, 1, 2, 3, 4})
    found = pool_patterns(has_value)
    everybody = frozenset(range(30))
    # the set of A and B is B's, from which C is 4 away: one set of all three is forced here
    assert sets_of(found.has_value) == (everybody - {0, 1, 2, 3, 4},) * 3
    apart = columns(30, {5}, {0}, {0, 1, 2, 3, 4})
    assert sets_of(pool_patterns(apart).has_value) == (
        everybody - {0, 5},
        everybody - {0, 5},
        everybody - {0, 1, 2, 3, 4},
    )


def test_every_link_of_a_long_chain_closes() -> None:
    """Each outcome lacks one person of its own: any two are 2 apart, and all lose everybody who lacks one."""
    has_value = columns(40, *({person} for person in range(10)))
    assert sets_of(pool_patterns(has_value).has_value) == (frozenset(range(10, 40)),) * 10


def test_an_outcome_of_few_people_is_left_out() -> None:
    found = pool_patterns(columns(20, set(), set(range(4, 20))))
    assert found.has_value.sum(axis=0).tolist() == [20, 0]
    (finding,) = found.findings(("thickness", "volume"))
    assert (finding.rule, finding.item) == (SiteRule.PATTERN_DIFFERENCE, "volume")
    assert not any(letter.isdigit() for letter in finding.what)


def test_with_the_cohort_as_anchor_an_outcome_that_lacks_few_is_left_out_and_the_complete_ones_stay() -> None:
    everybody = np.ones((30, 1), np.bool_)
    has_value = columns(30, set(), {1, 2}, set(range(10)))
    found = pool_patterns(has_value, 5, everybody)
    assert found.has_value.sum(axis=0).tolist() == [30, 0, 20]
    assert found.left_out.tolist() == [False, True, False]
    # pooled among themselves first, outcomes can get far enough from the anchor
    several = columns(30, *({person} for person in range(5)))
    assert pool_patterns(several, 5, everybody).has_value.sum(axis=0).tolist() == [25] * 5
    # the other cure: the cohort loses them too
    cohort = np.concatenate((everybody, has_value), axis=1)
    assert pool_patterns(cohort, 5).has_value.sum(axis=0).tolist() == [28, 28, 28, 20]


def test_a_thousand_outcomes_of_ten_thousand_people() -> None:
    generator = np.random.default_rng(5)
    has_value = generator.random((10_000, 1000)) > 0.0003
    found = pool_patterns(has_value)
    distinct = np.unique(np.packbits(found.has_value, axis=0), axis=1)
    apart = [
        int(np.bitwise_count(distinct[:, [place]] ^ distinct[:, place + 1 :]).sum(axis=0).min())
        for place in range(distinct.shape[1] - 1)
    ]
    assert min(apart) >= 5
    assert not (found.has_value & ~has_value).any()


def test_shapes_and_limits_that_mean_nothing_are_refused() -> None:
    has_value = columns(6, set(), {1})
    with pytest.raises(ValueError, match="k is at least 1"):
        pool_patterns(has_value, 0)
    with pytest.raises(ValueError, match="has_value"):
        pool_patterns(has_value[:, 0], 5)
    with pytest.raises(ValueError, match="anchors"):
        pool_patterns(has_value, 5, np.ones((5, 1), np.bool_))
    assert not pool_patterns(has_value, 1).changed.any()
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert pool_patterns(np.ones(shape, np.bool_)).has_value.shape == shape
