"""The people rule: examples of daily life, and the exact search against plain enumeration."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.ledger.people import Allowed, NearDuplicate, PeopleSet, StaysOut, atoms, judge
from cohortsum.protocol.ledger.rules import Limits, Reason
from cohortsum.protocol.ledger.span import Finding, independent, least_support, vanishing
from tests.ledger.oracle import fewest_people, rank
from tests.ledger.world import people

TEN = Limits(k=10, colluding=1, honest_minimum=3)
FIRST, OLD = Allowed(first_time=True), Allowed(first_time=False)
ALL_OF_THEM = people(0, *range(100))


def test_the_first_set_is_allowed_and_again_it_is_old() -> None:
    assert judge([], ALL_OF_THEM, TEN) == FIRST
    assert judge([ALL_OF_THEM], people(0, *range(100)), TEN) == OLD


def test_a_set_of_fewer_than_k_people_is_never_first() -> None:
    assert judge([], people(0, *range(9)), TEN) == StaysOut(Reason.FEW_LEFT)
    assert judge([], people(0, *range(10)), TEN) == FIRST


@pytest.mark.parametrize(("more", "allowed"), [(5, False), (9, False), (10, True)])
def test_next_year_needs_k_new_people_or_waits(more: int, allowed: bool) -> None:
    outcome = judge([ALL_OF_THEM], people(0, *range(100 + more)), TEN)
    assert outcome == (FIRST if allowed else NearDuplicate((ALL_OF_THEM,)))


def test_one_consent_withdrawn_leaves_one_person() -> None:
    assert judge([ALL_OF_THEM], people(0, *range(1, 100)), TEN) == NearDuplicate((ALL_OF_THEM,))


def test_under_65_and_under_66_are_near_duplicates() -> None:
    under_65 = people(0, *range(80))
    assert judge([under_65], people(0, *range(83)), TEN) == NearDuplicate((under_65,))


def test_the_nearest_of_several_comes_first() -> None:
    farther = people(0, *range(88))
    nearer = people(0, *range(98))
    assert judge([farther, nearer], people(0, *range(95)), TEN) == NearDuplicate((nearer, farther))


def test_a_set_that_leaves_few_together_with_two_others_stays_out() -> None:
    men = people(0, *range(50))
    assert judge([ALL_OF_THEM, men], people(0, *range(53, 100)), TEN) == StaysOut(Reason.FEW_LEFT)
    assert judge([ALL_OF_THEM, men], people(0, *range(60, 100)), TEN) == FIRST
    assert judge([ALL_OF_THEM, men], people(0, *range(50, 100)), TEN) == FIRST


def test_fractions_leave_few_people_too() -> None:
    """(a + b + c) / 2 of three pairwise unions is everybody in them; the whole set then shows who is in none."""
    parts = [range(20), range(20, 40), range(40, 60)]
    pairs = [people(0, *one, *two) for one, two in combinations(parts, 2)]
    assert judge(pairs, people(0, *range(63)), TEN) == StaysOut(Reason.FEW_LEFT)
    assert judge(pairs, people(0, *range(70)), TEN) == FIRST


def union(*groups: int) -> PeopleSet:
    """Return fifty people of each group."""
    return people(0, *(100 * group + person for group in groups for person in range(50)))


def test_too_many_overlaps_keep_the_site_out() -> None:
    recorded = [union(*(group for group in range(8) if group != left)) for left in range(7)]
    new = union(0, 1, 2, 3)
    assert judge(recorded, new, TEN) == FIRST
    few = Limits(k=10, colluding=1, honest_minimum=3, max_atoms=7)
    assert judge(recorded, new, few) == StaysOut(Reason.TOO_MANY_ATOMS)


def test_a_search_without_end_keeps_the_site_out() -> None:
    rows = [(1, 0, 1, 1), (0, 1, 1, 0)]
    assert least_support(rows, [4, 4, 4, 4], 10, steps=2) is Finding.TOO_LONG
    assert least_support(rows, [4, 4, 4, 4], 10, steps=100) is Finding.FEW
    stopped = Limits(k=10, colluding=1, honest_minimum=3, max_steps=0)
    assert judge([], people(0, *range(9)), stopped) == StaysOut(Reason.SEARCH_TOO_LONG)
    assert judge([], people(0, *range(10)), stopped) == FIRST


masks = st.lists(st.integers(1, 2**9 - 1), min_size=1, max_size=5)


def chosen(mask: int) -> PeopleSet:
    return people(0, *(person for person in range(9) if mask >> person & 1))


@given(masks, st.integers(2, 6))
@settings(max_examples=400, deadline=None)
def test_the_rule_allows_exactly_what_enumeration_finds_harmless(recorded: list[int], k: int) -> None:
    """Sets are taken in one by one where the rule allows it; the first refusal is the first set that enumeration refuses."""
    limits = Limits(k=k, colluding=0, honest_minimum=3)
    answered: list[PeopleSet] = []
    for mask in recorded:
        new = chosen(mask)
        totals = [{0: held.codes} for held in [*answered, new]]
        harmless = fewest_people(totals, 0, k) is None
        assert isinstance(judge(answered, new, limits), Allowed) is harmless
        if harmless:
            answered.append(new)


rows = st.lists(st.tuples(*[st.integers(-2, 2)] * 5), min_size=1, max_size=5)


@given(rows)
def test_a_basis_has_as_many_rows_as_the_rank(vectors: list[tuple[int, ...]]) -> None:
    basis = independent(vectors)
    assert len(basis) == rank(vectors) == rank([*vectors, *basis])


@given(rows, st.integers(0, 4))
def test_vanishing_keeps_all_that_is_zero_there(vectors: list[tuple[int, ...]], column: int) -> None:
    basis = independent(vectors)
    rest = vanishing(basis, column)
    assert all(row[column] == 0 for row in rest)
    assert len(rest) == rank(rest) == len(basis) - any(row[column] for row in basis)
    assert rank([*basis, *rest]) == len(basis)


@given(masks)
def test_atoms_count_everybody_once(sets: list[int]) -> None:
    cells = atoms([chosen(mask) for mask in sets])
    assert sum(cells.values()) == sum(any(mask >> person & 1 for mask in sets) for person in range(9))
    for position, mask in enumerate(sets):
        assert sum(number for cell, number in cells.items() if cell[position]) == mask.bit_count()


def test_codes_depend_on_the_key_and_stay_from_snapshot_to_snapshot() -> None:
    this_year = PeopleSet.of(["ann", "ben"], b"key")
    assert PeopleSet.of(["ben", "ann", "eve"], b"key").distance(this_year) == 1
    assert PeopleSet.of(["ann", "ben"], b"other").distance(this_year) == 4


def test_a_people_set_shows_nobody() -> None:
    held = PeopleSet.of(["ann"], b"key")
    assert next(iter(held.codes)).hex() not in repr(held)
    assert repr(next(iter(held.codes))) not in repr(held)


@pytest.mark.parametrize("data", ["zz", "00", "ab" * 17])
def test_a_damaged_set_is_refused(data: str) -> None:
    with pytest.raises(StoreError, match="node recover"):
        PeopleSet.from_data(data)
