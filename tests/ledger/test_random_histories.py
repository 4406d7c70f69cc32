"""A coordinator that chooses people sets, studies, sites, survivors and who hears of it: no history leaks; without rules many do.

Coordinator and liars choose at random, but near what leaks: sets a few people from earlier ones or their sums and differences,
survivors a few sites from earlier ones, retries and iterations that change either. Ledgers get restored and rebuilt, rounds
are opened in silence, buried, or in flight together.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from cohortsum.crypto.errors import RemoteProtocolError, StoreError
from cohortsum.protocol.ledger.history import History
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import ALL, Limits, Rules
from cohortsum.protocol.ledger.sites import NamedRound, Step
from tests.ledger.world import DERIVABLE, PROTECTED, Ask, Moves, Played, Sites, World, code

PEOPLE = 14
K = 3


class Coordinator:
    """Makes every choice of one history."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.rng = np.random.default_rng(seed)
        self.sites: Sites = frozenset(range(int(self.rng.integers(6, 13))))
        colluding = int(self.rng.integers(0, 2)) if len(self.sites) > 6 else 0
        liars = frozenset(range(colluding))
        protected = self.some(self.sites, int(self.rng.integers(0, len(self.sites) + 1)))
        self.world = World(
            {site: PROTECTED if site in protected else DERIVABLE for site in self.sites},
            Limits(k=K, colluding=colluding, honest_minimum=3, max_steps=2000),
            rules,
            liars,
            minimum=K,
        )
        self.masks: list[int] = [2**PEOPLE - 1]
        self.asks: list[Ask] = []
        self.played: list[Played] = []
        self.studies = count()
        self.erased: Sites = frozenset()

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def some(self, sites: Sites, number: int) -> Sites:
        return frozenset(int(site) for site in self.rng.permutation(sorted(sites))[:number])

    def mask(self) -> int:
        """A set of people near what was asked before, its sums and differences."""
        chosen = self.masks[int(self.rng.integers(len(self.masks)))]
        other = self.masks[int(self.rng.integers(len(self.masks)))]
        match int(self.rng.integers(6)):
            case 0:
                chosen &= ~other
            case 1:
                chosen ^= other
            case 2:
                chosen = int(self.rng.integers(1, 2**PEOPLE))
            case _:
                pass
        if self.chance(0.4):
            for person in self.rng.integers(0, PEOPLE, int(self.rng.integers(1, 5))):
                chosen ^= 1 << int(person)
        self.masks.append(chosen or 1)
        return self.masks[-1]

    def sets(self) -> Ask:
        """A new study: a cohort, perhaps by sex, perhaps another set at one site, perhaps not supplied by one."""
        chosen, sex = self.mask(), self.mask()
        names = {"all": chosen}
        cells = {frozenset({"all"})}
        if self.chance(0.4):
            names |= {"men": chosen & sex, "women": chosen & ~sex}
            cells = {frozenset({"all", "men"}), frozenset({"all", "women"})}
        held = {site: dict(names) for site in self.sites}
        if self.chance(0.3):
            held[self.site()]["all"] = self.mask()
        if len(names) > 1 and self.chance(0.2):
            site = self.site()
            held[site]["men"] |= held[site].pop("women")
        sets = {
            site: {name: _people(site, mask) for name, mask in by_name.items() if mask}
            for site, by_name in held.items()
        }
        return Ask(Step(b"%d" % next(self.studies), 1, 1), sets, frozenset(cells))

    def site(self) -> int:
        return int(self.rng.choice(sorted(self.sites)))

    def ask(self) -> Ask:
        """A new study, or a retry or iteration of an earlier one, perhaps with another set somewhere."""
        if not self.asks or self.chance(0.5):
            return self.sets()
        earlier = self.asks[int(self.rng.integers(len(self.asks)))]
        step = earlier.step
        later = (
            replace(step, iteration=step.iteration + 1)
            if self.chance(0.5)
            else replace(step, attempt=step.attempt + 1)
        )
        sets = dict(earlier.sets)
        if self.chance(0.2):
            site = self.site()
            sets[site] = {**sets[site], "all": _people(site, self.mask())}
        return replace(earlier, step=later, sets=sets)

    def moves(self) -> Moves:
        def survivors(wrote: Sites) -> Sites:
            return wrote if self.chance(0.5) else wrote - self.some(wrote, int(self.rng.integers(1, 3)))

        def told(wrote: Sites) -> Sites:
            return wrote if self.chance(0.7) else self.some(wrote, int(self.rng.integers(0, len(wrote) + 1)))

        def answering(signers: Sites) -> Sites:
            if self.chance(0.2):
                return frozenset()
            erased = self.some(
                signers - self.world.liars, int(self.rng.integers(0, 3)) if self.chance(0.3) else 0
            )
            self.erased = erased | (self.sites - signers - self.world.liars)
            return signers - erased

        return Moves(survivors=survivors, answering=answering, told=told)

    def go(self, rounds: int) -> World:
        for _ in range(rounds):
            ask = self.ask()
            invited = self.sites - self.some(
                self.sites, int(self.rng.integers(0, 4)) if self.chance(0.6) else 0
            )
            site = self.site()
            copy = self.world.histories[site]
            played = self.world.attempt(ask, invited, self.moves())
            self.asks.append(ask)
            self.played.append(played)
            if played.wrote and not played.opened:
                # Nobody answered: everybody erases. Some hear of it.
                self.world.bury(
                    played, played.advertisers, self.some(self.sites, int(self.rng.integers(0, 8)))
                )
            if self.chance(0.15):
                self.restore(site, copy)
            if self.chance(0.1):
                flipped = self.site()
                self.world.statuses[flipped] = (
                    PROTECTED if self.world.statuses[flipped] is DERIVABLE else DERIVABLE
                )
        return self.world

    def mislead(self, named: NamedRound, sites: Sites) -> None:
        """Show sites that wrote a survivor set without them."""
        for site in sorted(sites):
            with suppress(RemoteProtocolError, StoreError):
                self.world.tell(site, replace(named, survivors=named.survivors - sites))

    def restore(self, site: int, copy: History) -> None:
        """A site goes back to an older copy of its ledger; half of the time it is rebuilt at once."""
        truth = self.world.histories[site]
        old = copy.seen_by_peers(truth.counter)
        rebuilt = old.rebuilt(truth.writes, truth.status, truth.counter) if self.chance(0.5) else old
        self.world.histories[site] = rebuilt if truth.counter > copy.counter else truth


def _people(site: int, mask: int) -> PeopleSet:
    return PeopleSet(frozenset(code(site, person) for person in range(PEOPLE) if mask >> person & 1))


ROUNDS = 12


def search(seeds: range) -> tuple[list[int], int, int]:
    """Return the seeds whose histories leak, the totals opened, and the later ones with protected sites in them."""
    leaking: list[int] = []
    opened = again = 0
    for seed in seeds:
        world = Coordinator(seed, ALL).go(ROUNDS)
        opened += len(world.opened)
        again += sum(bool(total.keys() & world.ever_protected) for total in world.opened[1:])
        if world.leaks():
            leaking.append(seed)
    return leaking, opened, again


def test_no_random_history_leaks() -> None:
    leaking, opened, again = search(range(1000))
    assert leaking == []
    assert opened > 2500
    assert again > 200


@pytest.mark.exhaustive
def test_no_random_history_of_many_leaks() -> None:
    leaking, opened, again = search(range(10_000, 60_000))
    assert leaking == []
    assert opened > 130_000
    assert again > 10_000


OFTEN = (
    "people",
    "combinations",
    "status_fixed",
    "opened_once",
    "same_protected",
    "enough_protected",
    "shared_cells",
    "possibly_opened",
)
SELDOM = ("same_people", "restored_stays_out")


@pytest.mark.parametrize(
    ("rule", "histories"),
    [(rule, 300) for rule in OFTEN]
    + [pytest.param(rule, 6000, marks=pytest.mark.exhaustive) for rule in SELDOM],
)
def test_random_histories_find_the_leak_of_a_missing_rule(rule: str, histories: int) -> None:
    rules = replace(ALL, **{rule: False})
    assert any(Coordinator(seed, rules).go(ROUNDS).leaks() for seed in range(histories))
