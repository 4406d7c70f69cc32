"""Daily life between studies, played through: who can follow up, who waits, who stays out."""

import pytest

from cohortsum.protocol.ledger.history import Closed, Named
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import Limits
from tests.ledger.world import DERIVABLE, PROTECTED, Moves, Sites, World, one_set, people

SITES: Sites = frozenset(range(9))
NOBODY: Sites = frozenset()


def world(protected: Sites = NOBODY) -> World:
    return World(
        {site: PROTECTED if site in protected else DERIVABLE for site in SITES},
        Limits(k=10, colluding=0, honest_minimum=3),
        minimum=10,
    )


def everyone(number: int = 40) -> dict[int, PeopleSet]:
    return {site: people(site, *range(number)) for site in SITES}


def without(*sites: int) -> Moves:
    return Moves(survivors=lambda wrote: wrote - set(sites))


SILENT = Moves(answering=lambda _: NOBODY)
"""Everybody sends and signs; nobody answers, so nothing opens."""


def test_a_follow_up_runs_with_one_derivable_site_less_and_one_more() -> None:
    played = world()
    assert played.attempt(one_set(everyone(), b"1"), SITES - {8}).opened
    assert played.attempt(one_set(everyone(), b"2"), SITES - {3}).opened
    assert played.leaks() == []


def test_u_and_then_u_without_one_opens_for_derivable_sites_only() -> None:
    for protected, opened in ((NOBODY, True), (SITES, False)):
        played = world(protected)
        assert played.attempt(one_set(everyone(), b"1"), SITES).opened
        assert played.attempt(one_set(everyone(), b"2"), SITES, without(3)).opened is opened
        assert played.attempt(one_set(everyone(), b"1", attempt=2), SITES, without(3)).opened is opened


def test_a_follow_up_goes_on_without_opened_protected_sites() -> None:
    small: Sites = frozenset({0, 1, 2})
    played = world(small)
    assert played.attempt(one_set(everyone(), b"1"), SITES).opened
    second = played.attempt(one_set(everyone(), b"2"), SITES)
    assert second.advertisers == SITES - small
    assert second.opened


@pytest.mark.parametrize("changed", [NOBODY, frozenset({3})])
def test_a_closed_attempt_is_repeated_by_protected_sites_in_any_company(changed: Sites) -> None:
    played = world(SITES)
    first = played.attempt(one_set(everyone(), b"1"), SITES, SILENT)
    assert not first.opened
    assert played.attempt(one_set(everyone(), b"1", attempt=2), SITES).advertisers == NOBODY
    assert played.bury(first, SITES, SITES)
    assert played.attempt(one_set(everyone(), b"1", attempt=2), SITES - changed).opened


def test_after_an_attempt_of_unknown_end_protected_sites_wait_and_derivable_ones_do_not() -> None:
    small: Sites = frozenset({0, 1, 2})
    played = world(small)
    played.attempt(one_set(everyone(), b"1"), SITES, SILENT)
    retry = played.attempt(one_set(everyone(), b"1", attempt=2), SITES)
    assert retry.advertisers == SITES - small
    assert retry.opened


def test_a_late_protected_site_waits_for_enough_others_and_a_late_derivable_one_for_nobody() -> None:
    small: Sites = frozenset({0, 1, 2, 3})
    late = world(small)
    assert late.attempt(one_set(everyone(), b"1"), SITES - {3, 8}).opened
    assert not late.attempt(one_set(everyone(), b"2"), SITES).opened  # site 3 alone is new
    assert late.attempt(one_set(everyone(), b"2"), SITES - {3}).opened
    assert 8 in late.opened[-1]


def test_an_iteration_keeps_its_protected_sites_and_may_lose_derivable_ones() -> None:
    played = world(frozenset({0, 1, 2}))
    assert played.attempt(one_set(everyone(), b"1"), SITES).opened
    assert played.attempt(one_set(everyone(), b"1", iteration=2), SITES - {8}).opened
    assert not played.attempt(one_set(everyone(), b"1", iteration=3), SITES, without(0)).opened
    assert played.attempt(one_set(everyone(), b"1", iteration=3, attempt=2), SITES).advertisers == SITES - {
        0,
        1,
        2,
    }


def test_an_untold_survivor_learns_it_later_from_the_transcript() -> None:
    played = world(SITES)
    first = played.attempt(one_set(everyone(), b"1"), SITES, Moves(told=lambda wrote: wrote - {4}))
    assert first.named is not None
    assert played.attempt(one_set(everyone(), b"1", iteration=2), SITES).advertisers == SITES - {4}
    played.tell(4, first.named)
    assert played.attempt(one_set(everyone(), b"1", iteration=2, attempt=2), SITES - {4}).opened is False
    write = played.histories[4].find(first.context)
    assert write is not None
    assert isinstance(write.fate, Named)


def test_next_year_with_few_new_people_stays_out_or_reuses() -> None:
    played = world()
    assert played.attempt(one_set(everyone(), b"1"), SITES).opened
    next_year = everyone(42) | {5: people(5, *range(50))}
    assert played.attempt(one_set(next_year, b"2"), SITES).advertisers == frozenset({5})


def test_a_liar_cannot_reopen_what_tombstones_closed() -> None:
    """All sign nothing more; even with the liar's answer there are not t."""
    played = World(
        dict.fromkeys(SITES, PROTECTED),
        Limits(k=10, colluding=1, honest_minimum=3),
        liars=frozenset({8}),
        minimum=10,
    )
    first = played.attempt(one_set(everyone(), b"1"), SITES, SILENT)
    assert not first.opened
    assert not played.bury(first, frozenset({0, 1, 8}), SITES)
    assert played.bury(first, frozenset({0, 1, 2, 8}), SITES)
    write = played.histories[3].find(first.context)
    assert write is not None
    assert isinstance(write.fate, Closed)
