"""The round as it should go, and every way in which sites may vanish from it."""

from itertools import combinations, combinations_with_replacement, product

import pytest

from cohortsum.protocol.bounds import broken_bound, threshold
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.messages import Kind, Packet
from tests.protocol.consortium import Consortium, protection


@pytest.mark.parametrize("sites", [3, 4, 5, 7, 10])
def test_the_sum_over_all_sites_opens(sites: int) -> None:
    consortium = Consortium(sites)
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened), state
    assert state.survivors == tuple(range(sites))
    assert state.values.tolist() == consortium.expected(range(sites))
    assert not consortium.errors
    assert not consortium.audits


NEVER = 0
# The last packet a site sends before it vanishes.
LAST: list[int | None] = [
    None,
    NEVER,
    Kind.ADVERT,
    Kind.SHARES,
    Kind.MASKED,
    Kind.CONSISTENCY,
    Kind.GATE_SHARES,
]


def vanish(consortium: Consortium, fates: dict[int, int | None]) -> None:
    """Make every site in ``fates`` die right after it has sent the named packet."""

    def before_send(index: int, packet: Packet) -> bool:
        fate = fates.get(index)
        if fate is None:
            return True
        if packet.envelope.kind > fate:
            consortium.down.add(index)
            return False
        return True

    consortium.before_send = before_send


def expected_outcome(n: int, fates: dict[int, int | None], min_sites: int) -> tuple[int, ...] | None:
    """Return the survivor set that must open, or None, worked out from the fates alone."""

    last = [fates.get(index) for index in range(n)]

    def reached(kind: Kind) -> list[int]:
        return [index for index, fate in enumerate(last) if fate is None or fate >= kind]

    u1 = reached(Kind.ADVERT)
    if broken_bound(len(u1), protection(min_sites=min_sites)) is not None:
        return None
    t = threshold(len(u1))
    u2, u3 = reached(Kind.SHARES), reached(Kind.MASKED)
    enough = min(len(u2), len(u3)) >= max(t, min_sites)
    answering = min(
        len(reached(Kind.CONSISTENCY)), len(reached(Kind.GATE_SHARES)), len(reached(Kind.DATA_SHARES))
    )
    return tuple(u3) if enough and answering >= t else None


def check_pattern(n: int, fates: dict[int, int | None]) -> bool:
    consortium = Consortium(n)
    vanish(consortium, fates)
    consortium.run()
    state, survivors = consortium.coordinator.state, expected_outcome(n, fates, 3)
    if survivors is None:
        assert isinstance(state, Aborted), (n, fates, state)
        return False
    assert isinstance(state, Opened), (n, fates, state)
    assert state.survivors == survivors
    assert state.values.tolist() == consortium.expected(survivors), (n, fates)
    return True


def test_every_placement_of_every_pattern_of_three_sites() -> None:
    opened = sum(check_pattern(3, dict(enumerate(fates))) for fates in product(LAST, repeat=3))
    assert 0 < opened < len(LAST) ** 3


@pytest.mark.parametrize(("n", "most"), [(4, 4), (5, 5), (6, 4), (7, 4)])
def test_every_dropout_pattern_gives_the_survivors_sum_or_nothing(n: int, most: int) -> None:
    """Sites are interchangeable but for their place, so every multiset of fates is played once.

    Beyond ``most`` dropouts of 6 and 7 sites nothing can open any more: 4 are at least one too many for both.
    """
    assert most == n or n - most < threshold(n)
    patterns = [fates for fates in _multisets(n) if sum(fate is not None for fate in fates) <= most]
    opened = sum(check_pattern(n, dict(enumerate(fates))) for fates in patterns)
    assert len(patterns) >= 200
    assert 0 < opened < len(patterns)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [4, 5])
def test_every_placement_of_every_pattern(n: int) -> None:
    opened = sum(check_pattern(n, dict(enumerate(fates))) for fates in product(LAST, repeat=n))
    assert 0 < opened < len(LAST) ** n


def _multisets(n: int) -> list[tuple[int | None, ...]]:
    """Return every multiset of n fates, placed so that neighbours in the roster differ."""
    placed: list[tuple[int | None, ...]] = []
    for chosen in combinations_with_replacement(range(len(LAST)), n):
        order = [LAST[i] for i in chosen]
        placed.append(tuple(order[::2] + order[1::2]))
    return placed


def test_a_retry_keeps_the_survivors_and_opens_the_same_sum() -> None:
    first = Consortium(5)
    # 4 signatures are required, and 2 of the 4 survivors are gone.
    vanish(first, {4: Kind.SHARES, 3: Kind.MASKED, 2: Kind.MASKED})
    first.run()
    assert isinstance(first.coordinator.state, Aborted)
    survivors = first.coordinator.state.survivors
    assert survivors == (0, 1, 2, 3)
    again = Consortium(
        5, attempt=2, bound=first.signed, coordinator_bound=survivors, members=survivors, seed="again"
    )
    again.run()
    assert isinstance(again.coordinator.state, Opened), again.coordinator.state
    assert again.coordinator.state.values.tolist() == again.expected(survivors)


def test_a_retry_with_other_survivors_is_refused_by_whoever_signed() -> None:
    first = Consortium(5)
    vanish(first, {3: Kind.MASKED, 4: Kind.MASKED})
    first.run()
    assert first.signed
    for others in [(), *combinations(range(5), 4)]:
        members = others or tuple(range(5))
        again = Consortium(
            5, attempt=2, bound=first.signed, coordinator_bound=others, members=members, seed="again"
        )
        again.run()
        first_error: dict[int, str] = {}
        for index, error in again.errors:
            first_error.setdefault(index, error.check)
        assert first_error == dict.fromkeys(set(first.signed) & set(members), "R0.6")
        assert isinstance(again.coordinator.state, Aborted)


def test_too_few_participants_open_no_data() -> None:
    consortium = Consortium(5, protection(min_participants=61))
    consortium.run()  # 10 + 11 + 12 + 13 + 14 = 60
    state = consortium.coordinator.state
    assert isinstance(state, Aborted)
    assert "too few participants" in state.reason
    assert not [packet for _, _, packet in consortium.log if packet.envelope.kind is Kind.DATA_SHARES]


def test_the_gate_minimum_counts_capped_and_allows_for_colluders() -> None:
    one = protection(min_participants=30, max_colluding_sites=1)
    assert one.gate_cap == 10
    assert one.gate_minimum == 40
    reached = Consortium(5, one, people=lambda _: 8)  # 5 x 8 = 40
    reached.run()
    assert isinstance(reached.coordinator.state, Opened)
    missed = Consortium(5, one, people=lambda index: 7 if index == 0 else 8)
    missed.run()
    assert isinstance(missed.coordinator.state, Aborted)
    capped = Consortium(5, one, people=lambda index: 1000 if index == 0 else 7)  # 10 + 28 in capped counts
    capped.run()
    assert isinstance(capped.coordinator.state, Aborted)


def test_more_people_than_planned_for_publish_nothing() -> None:
    consortium = Consortium(5, protection(max_participants=59))
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Aborted)
    assert "max_participants" in state.reason
