"""Every rule of the ledger is needed: the history that leaks without it opens nothing too much with it."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.ledger.history import History
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import ALL, Limits, Rules
from cohortsum.protocol.ledger.sites import Step
from tests.ledger.world import CELL, DERIVABLE, PROTECTED, Ask, Moves, Sites, World, one_set, people

SITES: Sites = frozenset(range(9))
SMALL: Sites = frozenset(range(4))
"""Protected in every attack on totals; the others are derivable."""
FULL = range(12)


def world(rules: Rules, protected: Sites = SMALL, colluding: int = 0) -> World:
    return World(
        {site: PROTECTED if site in protected else DERIVABLE for site in SITES},
        Limits(k=3, colluding=colluding, honest_minimum=3),
        rules,
        liars=frozenset({8}) if colluding else frozenset(),
    )


def full(changed: Mapping[int, PeopleSet] | None = None) -> dict[int, PeopleSet]:
    return {site: people(site, *FULL) for site in SITES} | dict(changed or {})


def without(*sites: int) -> Moves:
    return Moves(survivors=lambda wrote: wrote - set(sites))


def near_set(rules: Rules) -> World:
    played = world(rules, protected=frozenset())
    played.attempt(one_set(full(), b"1"), SITES)
    played.attempt(one_set(full({5: people(5, *range(11))}), b"2"), SITES)
    return played


def third_set(rules: Rules) -> World:
    """All, men, then all women but one: far from each, and together they leave one woman."""
    played = world(rules, protected=frozenset())
    for study, chosen in enumerate((FULL, range(6), range(7, 12))):
        played.attempt(one_set({site: people(site, *chosen) for site in SITES}, b"%d" % study), SITES)
    return played


def changed_status(rules: Rules) -> World:
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES)
    played.statuses[0] = DERIVABLE
    played.attempt(one_set(full(), b"2"), SITES - {1, 2, 3})
    return played


def follow_up_without_one(rules: Rules) -> World:
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES)
    played.attempt(one_set(full(), b"2"), SITES, without(3))
    return played


def iteration_with_fewer_people(rules: Rules) -> World:
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES)
    played.attempt(one_set(full({0: people(0, *range(8))}), b"1", iteration=2), SITES)
    return played


def iteration_without_one(rules: Rules) -> World:
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES)
    played.attempt(one_set(full(), b"1", iteration=2), SITES, without(3))
    return played


def iteration_with_a_new_one(rules: Rules) -> World:
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES, without(3))
    played.attempt(one_set(full(), b"1", iteration=2), SITES)
    return played


def two_protected(rules: Rules) -> World:
    played = world(rules, protected=frozenset({0, 1}))
    played.attempt(one_set(full(), b"1"), SITES)
    return played


def three_protected_and_a_liar(rules: Rules) -> World:
    """With c = 1 four are needed: of three, one may be the liar's."""
    played = world(rules, protected=frozenset({0, 1, 8}), colluding=1)
    played.attempt(one_set(full(), b"1"), SITES)
    return played


def one_lacks_a_block(rules: Rules) -> World:
    """Site 3 lacks the second outcome, whose cross-product the others send over the same people."""
    played = world(replace(rules, shared_cells=False))
    sets = {
        site: {"cortex": people(site, *FULL)} | ({} if site == 3 else {"bmi": people(site, *FULL)})
        for site in SITES
    }
    played.attempt(Ask(Step(b"1", 1, 1), sets, frozenset({frozenset({"cortex", "bmi"})})), SITES)
    return played


def one_lacks_values(rules: Rules) -> World:
    """Four people of site 3 have no value of the second outcome; everywhere else all have."""
    played = world(rules)
    sets = {
        site: {"cortex": people(site, *FULL), "bmi": people(site, *range(8 if site == 3 else 12))}
        for site in SITES
    }
    played.attempt(Ask(Step(b"1", 1, 1), sets, frozenset({frozenset({"cortex", "bmi"})})), SITES)
    return played


def one_has_another_sex(rules: Rules) -> World:
    """Only site 3 has women; all and men are asked, so their difference is site 3's women."""
    played = world(rules)
    sets = {
        site: {"all": people(site, *FULL), "men": people(site, *range(8 if site == 3 else 12))}
        for site in SITES
    }
    cells = frozenset({frozenset({"all", "men"}), frozenset({"all"})})
    played.attempt(Ask(Step(b"1", 1, 1), sets, cells), SITES)
    return played


def untold(rules: Rules) -> World:
    """Nobody hears that the first round opened."""
    played = world(rules)
    played.attempt(one_set(full(), b"1"), SITES, Moves(told=lambda _: frozenset()))
    played.attempt(one_set(full(), b"2"), SITES, without(3))
    return played


def misled(rules: Rules) -> World:
    """The first round opened over all; protected sites are shown survivors without them, which nobody signed."""
    played = world(rules)
    first = played.attempt(one_set(full(), b"1"), SITES, Moves(told=lambda _: frozenset()))
    assert first.named is not None
    false = replace(first.named, survivors=SITES - SMALL)
    for site in SMALL:
        with suppress(RemoteProtocolError):
            played.tell(site, false)
    played.attempt(one_set(full(), b"2"), SITES, without(3))
    return played


def buried_alive(rules: Rules) -> World:
    """n = 9, t = 7, c = 1: five erase their secrets or say so; four with the liar leave seven that can answer, and do."""
    protected = frozenset(range(5))
    played = world(rules, protected, colluding=1)
    tombs: Sites = frozenset({6, 7, 8})
    first = played.attempt(
        one_set(full(), b"1"),
        SITES,
        Moves(answering=lambda signers: signers - {6, 7}, told=lambda _: frozenset()),
    )
    assert first.opened
    played.bury(first, tombs, SITES)
    played.attempt(one_set(full(), b"2"), SITES, without(4))
    return played


def restored(rules: Rules) -> World:
    """One derivable site runs on with a copy of its ledger from before the first round; its peers have seen more."""
    played = world(rules, protected=frozenset())
    played.attempt(one_set(full(), b"1"), SITES)
    seen = played.histories[5].counter
    played.histories[5] = History(5).seen_by_peers(seen)
    played.attempt(one_set(full({5: people(5, *range(11))}), b"2"), SITES)
    return played


ATTACKS: list[tuple[str, Callable[[Rules], World]]] = [
    ("people", near_set),
    ("combinations", third_set),
    ("status_fixed", changed_status),
    ("opened_once", follow_up_without_one),
    ("same_people", iteration_with_fewer_people),
    ("same_protected", iteration_without_one),
    ("same_protected", iteration_with_a_new_one),
    ("enough_protected", two_protected),
    ("enough_protected", three_protected_and_a_liar),
    ("shared_supplies", one_lacks_a_block),
    ("shared_cells", one_lacks_values),
    ("shared_cells", one_has_another_sex),
    ("possibly_opened", untold),
    ("proof", misled),
    ("whole_quorum", buried_alive),
    ("restored_stays_out", restored),
]


@pytest.mark.parametrize(("rule", "attack"), ATTACKS, ids=[attack.__name__ for _, attack in ATTACKS])
def test_a_rule_stops_what_leaks_without_it(rule: str, attack: Callable[[Rules], World]) -> None:
    guarded = attack(ALL)
    assert guarded.leaks() == []
    assert attack(replace(ALL, **{rule: False})).leaks() != []


def test_every_rule_has_an_attack() -> None:
    assert {rule for rule, _ in ATTACKS} == {field.name for field in fields(Rules)}


@pytest.mark.parametrize("rechecks", [True, False])
def test_two_rounds_in_flight_leak_unless_flags_are_computed_again_at_the_masked_input(
    rechecks: bool,
) -> None:
    played = world(ALL, protected=frozenset())
    played.rechecks = rechecks
    asks = [one_set(full(), b"1"), one_set(full({5: people(5, *range(11))}), b"2")]
    begun = [(ask, *played.adverts(ask, SITES)) for ask in asks]
    # Without the second look a site sends, and signs, by what it advertised.
    played.rules = ALL if rechecks else replace(ALL, people=False)
    opened = [played.finish(ask, context, flags, SITES, Moves()).opened for ask, context, flags in begun]
    assert opened == [True, not rechecks]
    assert (played.leaks() == []) is rechecks


def test_a_plan_without_groups_has_one_cell() -> None:
    assert one_set(full(), b"1").cells == CELL
