"""B1, B2 and B3 against brute force: what they promise holds wherever they allow a round, and only there."""

from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.bounds import (
    Protection,
    allowed_sizes,
    broken_bound,
    check_bounds,
    dropouts_survived,
    threshold,
)
from tests.protocol.consortium import protection

MOST = 12
SIZES = range(1, MOST + 1)


def both_kinds_readable(n: int, t: int, c: int) -> bool:
    """Whether t shares of both kinds of one peer can be had: honest sites give one, corrupt ones both."""
    honest, corrupt = max(n - c, 0), min(n, c)
    return any(
        survivor_kind + corrupt >= t and dropout_kind + corrupt >= t
        for survivor_kind in range(honest + 1)
        for dropout_kind in range(honest - survivor_kind + 1)
    )


def two_sets_signable(n: int, t: int, c: int) -> bool:
    """Whether two quorums of t may share corrupt sites only; up to renaming one is sites 0 to t - 1."""
    return min(sum(site < t for site in other) for other in combinations(range(n), t)) <= c


def fewest_honest_inputs(n: int, t: int, c: int) -> int:
    """Return the least number of honest inputs in any survivor set of t or more sites."""
    return min(
        survivors - corrupt
        for survivors in range(t, n + 1)
        for corrupt in range(min(c, survivors) + 1)
        if survivors - corrupt <= n - min(n, c)
    )


def most_dropouts(n: int, t: int, min_sites: int) -> int | None:
    """Return the largest number of dropouts after which a round still opens, None if not even 0."""
    return max((lost for lost in range(n + 1) if n - lost >= t and n - lost >= min_sites), default=None)


@pytest.mark.parametrize("n", range(1, 201))
def test_the_threshold_is_more_than_two_thirds(n: int) -> None:
    t = threshold(n)
    assert Fraction(t) > Fraction(2 * n, 3) >= t - 1
    assert 1 <= t <= n
    assert t <= threshold(n + 1) <= t + 1


@pytest.mark.parametrize("n", SIZES)
def test_b1_allows_exactly_the_rounds_in_which_no_peer_is_readable(n: int) -> None:
    for c in range(MOST + 2):
        broken = broken_bound(n, protection(max_colluding_sites=c, min_honest_inputs=1, min_sites=1))
        readable = both_kinds_readable(n, threshold(n), c)
        assert (broken is not None and broken.startswith("B1: ")) == readable, (n, c, broken)


@pytest.mark.parametrize("n", SIZES)
def test_b1_allows_exactly_the_rounds_in_which_one_survivor_set_can_be_signed(n: int) -> None:
    for c in range(MOST + 2):
        broken = broken_bound(n, protection(max_colluding_sites=c, min_honest_inputs=1, min_sites=1))
        two = two_sets_signable(n, threshold(n), c)
        assert (broken is not None and broken.startswith("B1: ")) == two, (n, c, broken)


@pytest.mark.parametrize("n", SIZES)
def test_b2_allows_exactly_the_rounds_whose_every_sum_holds_enough_honest_inputs(n: int) -> None:
    for c, h_min in product(range(MOST + 2), range(1, 7)):
        broken = broken_bound(n, protection(max_colluding_sites=c, min_honest_inputs=h_min, min_sites=1))
        if both_kinds_readable(n, threshold(n), c):
            assert broken is not None
            continue
        too_few = fewest_honest_inputs(n, threshold(n), c) < h_min
        assert (broken is not None and broken.startswith("B2: ")) == too_few, (n, c, h_min, broken)


@pytest.mark.parametrize("n", SIZES)
def test_b3_allows_exactly_the_rounds_that_can_run_at_all(n: int) -> None:
    for min_sites in range(1, MOST + 2):
        broken = broken_bound(n, protection(min_honest_inputs=1, min_sites=min_sites))
        survived = most_dropouts(n, threshold(n), min_sites)
        assert (broken is not None and broken.startswith("B3: ")) == (survived is None)
        if survived is None:
            assert dropouts_survived(n, min_sites) < 0
        else:
            assert dropouts_survived(n, min_sites) == survived


@pytest.mark.parametrize("n", SIZES)
def test_a_round_runs_exactly_if_all_three_promises_hold(n: int) -> None:
    allowed = 0
    for c, h_min, min_sites in product(range(MOST + 1), range(1, 6), range(1, MOST + 2)):
        t = threshold(n)
        sound = (
            not both_kinds_readable(n, t, c)
            and fewest_honest_inputs(n, t, c) >= h_min
            and most_dropouts(n, t, min_sites) is not None
        )
        held = protection(max_colluding_sites=c, min_honest_inputs=h_min, min_sites=min_sites)
        assert (broken_bound(n, held) is None) == sound, (n, held)
        assert (n in allowed_sizes(MOST, held)) == sound
        allowed += sound
    assert 0 < allowed < (MOST + 1) * 5 * (MOST + 1)


def test_no_sites_open_nothing() -> None:
    assert broken_bound(0, protection(min_honest_inputs=1, min_sites=1)) is not None
    assert allowed_sizes(0, protection()) == ()


# The table of the protocol reference


@pytest.mark.parametrize(
    ("n", "t", "most_colluding", "dropouts"),
    [
        (3, 3, 2, 0),
        (5, 4, 2, 1),
        (7, 5, 2, 2),
        (10, 7, 3, 3),
        (20, 14, 7, 6),
        (50, 34, 17, 16),
        (100, 67, 33, 33),
        (200, 134, 67, 66),
    ],
)
def test_the_table_of_thresholds_colluders_and_dropouts(
    n: int, t: int, most_colluding: int, dropouts: int
) -> None:
    assert threshold(n) == t
    allowed = [
        c
        for c in range(n)
        if broken_bound(n, protection(max_colluding_sites=c, min_honest_inputs=1, min_sites=1)) is None
    ]
    assert allowed == list(range(most_colluding + 1))
    assert {dropouts_survived(n, min_sites) for min_sites in range(1, t + 1)} == {dropouts}
    assert dropouts_survived(n, n) == 0
    assert dropouts_survived(n, n + 1) == -1


def test_three_sites_run_only_without_colluders() -> None:
    assert broken_bound(3, protection()) is None
    assert (broken_bound(3, protection(max_colluding_sites=1)) or "").startswith("B2: ")


def test_five_sites_bear_one_colluder_though_b1_would_bear_two() -> None:
    assert broken_bound(5, protection(max_colluding_sites=1, min_sites=4)) is None
    assert (broken_bound(5, protection(max_colluding_sites=2, min_sites=4)) or "").startswith("B2: ")
    assert (broken_bound(5, protection(max_colluding_sites=3, min_sites=4)) or "").startswith("B1: ")


# Sizes, and the refusal


def test_allowed_sizes_may_have_gaps() -> None:
    """Against 4 colluders 10 sites open at 7, too few, and 9 and 11 are allowed."""
    assert allowed_sizes(12, protection(max_colluding_sites=4)) == (9, 11, 12)
    assert allowed_sizes(7, protection()) == (3, 4, 5, 6, 7)
    assert allowed_sizes(7, protection(min_sites=6)) == (6, 7)
    assert allowed_sizes(2, protection()) == ()


def test_a_broken_bound_is_refused_under_the_name_of_the_check() -> None:
    check_bounds(5, protection(), "R1.7")
    with pytest.raises(RemoteProtocolError, match=r"^R1\.7: B3: 5 sites advertised, 6 are required") as error:
        check_bounds(5, protection(min_sites=6), "R1.7")
    assert error.value.check == "R1.7"


@pytest.mark.parametrize(
    ("n", "held", "sentence"),
    [
        (7, protection(max_colluding_sites=3), "B1: 7 sites open at 5, too few against 3 colluding sites"),
        (4, protection(max_colluding_sites=1), "B2: 4 sites open at 3, which leaves 2 honest inputs; 3 are"),
        (4, protection(min_sites=5), "B3: 4 sites advertised, 5 are required"),
    ],
)
def test_the_sentence_names_the_bound_and_its_numbers(n: int, held: Protection, sentence: str) -> None:
    assert (broken_bound(n, held) or "").startswith(sentence)


# What follows from a study's thresholds


@given(st.integers(1, 10**6), st.integers(1, 20))
def test_the_gate_cap_is_the_least_with_which_the_fewest_honest_sites_reach_the_minimum(
    min_participants: int, h_min: int
) -> None:
    held = protection(min_participants=min_participants, min_honest_inputs=h_min)
    assert h_min * held.gate_cap >= min_participants > h_min * (held.gate_cap - 1)


@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 2))
def test_a_gate_that_reaches_its_minimum_leaves_enough_people_whatever_colluders_counted(
    min_participants: int, h_min: int, colluding: int
) -> None:
    held = protection(
        min_participants=min_participants, min_honest_inputs=h_min, max_colluding_sites=colluding
    )
    reached = 0
    for counts in product(range(held.gate_cap + 1), repeat=4):
        if sum(counts) >= held.gate_minimum:
            reached += 1
            assert sum(sorted(counts)[: 4 - colluding]) >= min_participants
    assert reached > 0 or 4 * held.gate_cap < held.gate_minimum


def test_suppliers_are_at_least_the_sites_and_the_honest_ones_behind_colluders() -> None:
    assert protection(min_sites=3, max_colluding_sites=1).suppliers_minimum == 4
    assert protection(min_sites=6, max_colluding_sites=1).suppliers_minimum == 6
