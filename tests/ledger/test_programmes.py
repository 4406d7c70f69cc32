"""Ordinary programmes of studies over 34 real site sizes, with dropouts: do the rules leave them possible?

An honest coordinator leaves protected sites out of a survivor set that their rule forbids, shows every site the transcript or
the tombstones, and tries once a day for twelve days. A site drops out at each of the six steps of an attempt with the stated
probability; it is back the next day (90 %), after a week (7 %) or after a month (3 %). The next study comes a month later. A
programme is complete if all its rounds open. Every history goes through the differencing oracle.
"""

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.ledger.history import Named
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import Limits
from cohortsum.protocol.ledger.sites import Step
from cohortsum.protocol.ledger.tombstones import tombstone_quorum
from tests.ledger.world import DERIVABLE, PROTECTED, Ask, Moves, Sites, World, one_set, people

SIZES = {
    0: 45, 1: 32, 2: 35, 3: 32, 4: 17, 5: 102, 6: 21, 7: 48, 8: 18, 9: 55, 10: 32, 11: 23, 12: 20, 13: 20, 14: 23, 15: 16,
    16: 32, 17: 18, 18: 19, 19: 40, 20: 106, 21: 11, 22: 24, 23: 38, 25: 19, 26: 23, 27: 19, 28: 32, 29: 38, 30: 15,
    31: 59, 32: 28, 33: 62, 34: 28,
}  # fmt: skip
SITES: Sites = frozenset(SIZES)
SMALLEST: Sites = frozenset(sorted(SITES, key=lambda site: (SIZES[site], site))[:5])
TABLE = Path(__file__).resolve().parents[3] / "shared/data/impac_asd.csv"
LIMITS = Limits(k=10, colluding=1, honest_minimum=3)
TRIES = 12
MONTH = 30
Band = tuple[float, float]


def test_the_sizes_are_those_of_the_real_table() -> None:
    if not TABLE.exists():
        pytest.skip("the table impac_asd.csv is not beside the repository; its licence keeps it out")
    with TABLE.open(encoding="utf-8") as lines:
        assert Counter(int(row["site"]) for row in csv.DictReader(lines)) == SIZES


def cohort(band: Band = (0, 1), growth: Mapping[int, int] | None = None) -> dict[int, PeopleSet]:
    """Return everybody of every site within a band of its people, with ``growth`` more of them."""
    grown = growth or {}
    return {
        site: people(site, *range(round(band[0] * n), round(band[1] * n)), *range(n, n + grown.get(site, 0)))
        for site, n in SIZES.items()
    }


class Programme:
    """One history of studies by an honest coordinator."""

    def __init__(self, seed: int, dropouts: float, protected: Sites) -> None:
        self.rng = np.random.default_rng(seed)
        self.dropouts = dropouts
        self.world = World(
            {site: PROTECTED if site in protected else DERIVABLE for site in SITES},
            LIMITS,
            min_sites=5,
            minimum=10,
        )
        self.survivors: list[Sites] = []
        self.day = 0
        self.back: dict[int, int] = {}

    def stay(self, sites: Sites) -> Sites:
        """Return the sites that are there today and do not drop out in this step."""
        here = sorted(site for site in sites if self.back.get(site, 0) <= self.day)
        lost = [site for site in here if self.rng.random() < self.dropouts]
        for site in lost:
            self.back[site] = self.day + int(self.rng.choice([1, 7, 30], p=[0.90, 0.07, 0.03]))
        return frozenset(here) - frozenset(lost)

    def lawful(self, wrote: Sites) -> Sites:
        """U3: all that wrote, without protected sites where the rule does not let them in together."""
        protected = frozenset(site for site in wrote if self.world.statuses[site] is PROTECTED)
        earlier = [
            held.round
            for site in protected
            for held in (write.fate for write in self.world.histories[site].exact())
            if isinstance(held, Named) and site in held.round.survivors
        ]
        whole = (
            earlier[0].opened_protected == protected
            if earlier
            else len(protected) >= LIMITS.protected_minimum
        )
        return wrote if whole else wrote - protected

    def round(self, ask: Ask, invited: Sites, needed: Sites = frozenset()) -> bool:
        """Try until the round opens, over ``needed`` at least; attempts count up."""
        for attempt in range(TRIES):
            self.day += 1
            tried = replace(ask, step=replace(ask.step, attempt=ask.step.attempt + attempt))
            present = self.stay(invited)
            if not needed <= present:
                continue
            moves = Moves(
                masked=lambda sites: self.stay(self.stay(sites)),
                survivors=lambda wrote: self.lawful(wrote) if needed <= wrote else frozenset(),
                signing=self.stay,
                answering=lambda signers: self.stay(self.stay(signers)),
            )
            played = self.world.attempt(tried, present, moves)
            if played.opened:
                assert played.named is not None
                self.survivors.append(played.named.survivors)
                return True
            if len(self.stay(played.advertisers)) >= tombstone_quorum(max(3, len(played.advertisers)), 1):
                self.world.bury(played, played.advertisers, played.wrote)
        return False

    def fit(self, study: bytes, rounds: int, invited: Sites = SITES) -> bool:
        """Iterate: over what is left of derivable sites, with exactly the protected ones of the first round."""
        ask = one_set(cohort(), study)
        if not self.round(ask, invited):
            return False
        needed = self.survivors[-1] & self.world.ever_protected
        for iteration in range(2, rounds + 1):
            if not self.round(replace(ask, step=Step(study, iteration, 1)), self.survivors[-1], needed):
                return False
        return True


def study(programme: Programme, name: bytes, sets: dict[int, PeopleSet], invited: Sites = SITES) -> bool:
    programme.day += MONTH
    return programme.round(replace(one_set(sets, name), reuse=name.startswith(b"year")), invited)


def follow_up(programme: Programme) -> bool:
    return study(programme, b"1", cohort()) and study(programme, b"2", cohort())


def one_declines(programme: Programme) -> bool:
    decliner = int(programme.rng.choice(sorted(SITES)))
    return study(programme, b"1", cohort()) and study(programme, b"2", cohort(), SITES - {decliner})


def two_join(programme: Programme) -> bool:
    late = {int(site) for site in programme.rng.choice(sorted(SITES), 2, replace=False)}
    return study(programme, b"1", cohort(), SITES - late) and study(programme, b"2", cohort())


def eight_iterations(programme: Programme) -> bool:
    return programme.fit(b"1", 8)


def three_rounds(programme: Programme) -> bool:
    return programme.fit(b"1", 3)


def yearly_enrolment(programme: Programme) -> bool:
    """Three years, each with 5 % more people, and `near_duplicate: reuse`."""
    return all(
        study(
            programme,
            b"year %d" % year,
            cohort(growth={site: round(n * (1.05**year - 1)) for site, n in SIZES.items()}),
        )
        for year in range(3)
    )


def withdrawal(programme: Programme) -> bool:
    """One person withdraws: that site stays out, the others go on."""
    site = int(programme.rng.choice(sorted(SITES)))
    if not study(programme, b"1", cohort()):
        return False
    gone = people(site, 0).codes
    programme.world.histories[site] = programme.world.histories[site].with_withdrawn(gone)
    sets = cohort()
    sets[site] = PeopleSet(sets[site].codes - gone)
    done = study(programme, b"2", sets)
    assert not done or site not in programme.survivors[-1] or site not in programme.survivors[0]
    return done


def overlapping(programme: Programme) -> bool:
    """All, the younger 40 %, and a band across; sites where too few would be left over stay out."""
    bands: list[Band] = [(0, 1), (0, 0.4), (0.2, 0.7)]
    return all(study(programme, b"%d" % at, cohort(band)) for at, band in enumerate(bands))


PROGRAMMES: list[tuple[Callable[[Programme], bool], float]] = [
    (follow_up, 0.95),
    (one_declines, 0.95),
    (two_join, 0.95),
    (eight_iterations, 0.90),
    (three_rounds, 0.95),
    (yearly_enrolment, 0.95),
    (withdrawal, 0.95),
    (overlapping, 0.95),
]
IDS = [programme.__name__ for programme, _ in PROGRAMMES]


def run(
    steps: Callable[[Programme], bool], dropouts: float, protected: Sites, histories: int
) -> tuple[float, float, float]:
    """Return the part of histories that complete, and the sites and the protected ones in their last round, on average."""
    complete: list[Programme] = []
    for seed in range(histories):
        programme = Programme(seed, dropouts, protected)
        if steps(programme):
            complete.append(programme)
        assert programme.world.leaks() == []
    last = [programme.survivors[-1] for programme in complete]
    return (
        len(complete) / histories,
        float(np.mean([len(sites) for sites in last])) if last else 0.0,
        float(np.mean([len(sites & protected) for sites in last])) if last else 0.0,
    )


@pytest.mark.parametrize("dropouts", [0.01, 0.03])
@pytest.mark.parametrize(("steps", "wanted"), PROGRAMMES, ids=IDS)
def test_programmes_complete_with_derivable_sites(
    steps: Callable[[Programme], bool], wanted: float, dropouts: float, capsys: pytest.CaptureFixture[str]
) -> None:
    rate, sites, _ = run(steps, dropouts, frozenset(), 20)
    report(
        capsys,
        f"{steps.__name__}, {dropouts:.0%} dropouts, all derivable: {rate:.0%} complete, {sites:.1f} sites",
    )
    assert rate >= wanted


@pytest.mark.parametrize("dropouts", [0.01, 0.03])
@pytest.mark.parametrize("steps", [programme for programme, _ in PROGRAMMES], ids=IDS)
def test_programmes_with_five_protected_small_sites_never_leak(
    steps: Callable[[Programme], bool], dropouts: float, capsys: pytest.CaptureFixture[str]
) -> None:
    rate, sites, small = run(steps, dropouts, SMALLEST, 20)
    report(
        capsys,
        f"{steps.__name__}, {dropouts:.0%} dropouts, five protected: {rate:.0%} complete, {sites:.1f} sites, "
        f"{small:.1f} of them protected",
    )
    assert rate >= 0.7


@pytest.mark.exhaustive
@pytest.mark.parametrize("dropouts", [0.01, 0.03])
@pytest.mark.parametrize(("steps", "wanted"), PROGRAMMES, ids=IDS)
def test_programmes_complete_in_long_runs(
    steps: Callable[[Programme], bool], wanted: float, dropouts: float
) -> None:
    rate, _, _ = run(steps, dropouts, frozenset(), 400)
    assert rate >= wanted


def report(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n{line}", end="")


def test_thirteen_tombstones_of_34_sites_suffice() -> None:
    assert threshold(len(SITES)) == 23
    assert tombstone_quorum(len(SITES), LIMITS.colluding) == 13
