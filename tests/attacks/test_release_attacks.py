"""Sums set against sums: other survivors, other people, later rounds, and a site that has forgotten what it did (A3, A4, A24)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.joining import Site
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.ledger.rules import ALL, Rules
from cohortsum.protocol.messages import Kind, Survivors
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.study.planning import by_block, plan_study
from cohortsum.study.sums import Integers
from tests.attacks import switched_off
from tests.attacks.hand import Hand
from tests.attacks.sessions import Homes, Sessions
from tests.attacks.sites import Machines
from tests.attacks.test_study_attacks import second_round
from tests.edges.harness import STUDY, People, people_at
from tests.edges.test_fits import FIT, protected, without_bands
from tests.ledger.test_attacks import ATTACKS
from tests.ledger.world import World
from tests.protocol.consortium import Consortium
from tests.protocol.iterations import Attempted, after, first

N = 5
EVERYBODY = tuple(range(N))
OTHERS = (0, 1, 2, 3)
LEAVER = 4
PLAIN = without_bands(STUDY)


def opened_over(hand: Hand, survivors: tuple[int, ...]) -> Integers | None:
    """Play a round to the end over these survivors and return the sum, or None if it does not open."""
    hand.open()
    hand.show_adverts()
    hand.deliver()
    there = [index for index in survivors if index in hand.sent.get(Kind.MASKED, {})]
    if len(there) < len(survivors):
        return None
    hand.show_survivors(of=survivors, to=survivors)
    hand.show_quorum()
    hand.open_gate()
    return hand.opened().get(frozenset(survivors))


def finish(hand: Hand) -> None:
    """Tell everybody who was in the sum that it is over."""
    closing, words = hand.closing()
    for index in hand.sent[Kind.CONSISTENCY]:
        assert hand.say(index, closing, words).refused == ""


# A3: over sites


@pytest.mark.parametrize(("rule", "attack"), ATTACKS, ids=[attack.__name__ for _, attack in ATTACKS])
def test_attack_a03_a_history_that_leaks_without_one_rule_of_the_ledger_leaks_nothing_with_it(
    rule: str, attack: Callable[[Rules], World]
) -> None:
    """The ledger's own decisions against exact rank over sites and over people; the coordinator chooses everything else."""
    assert attack(ALL).leaks() == []
    assert attack(replace(ALL, **{rule: False})).leaks() != []


@pytest.mark.parametrize("status", ["protected", "derivable"])
def test_attack_a03_everybody_and_then_everybody_but_one_in_two_studies(tmp_path: Path, status: str) -> None:
    """A derivable site's total may be found, and is; a protected one has been opened once and takes part in no second study."""
    change = dict.fromkeys(EVERYBODY, protected) if status == "protected" else None
    with Homes(tmp_path, N, change) as homes:
        with Sessions(homes, PLAIN) as sites:
            hand = Hand(sites)
            whole = opened_over(hand, EVERYBODY)
            assert whole is not None
            finish(hand)
        with Sessions(homes, PLAIN.replace("study: loopback", "study: another")) as sites:
            if status == "protected":
                assert sites.approvals == {}
                assert all("was opened" in reason for reason in sites.reasons.values())
                return
            fewer = opened_over(Hand(sites, "another"), OTHERS)
            assert fewer is not None
            assert int((whole - fewer)[0]) == people_at(LEAVER)


def test_attack_a03_a_retry_without_one_of_the_survivors(tmp_path: Path) -> None:
    with Homes(tmp_path, N) as homes, Sessions(homes, PLAIN) as sites:
        hand = Hand(sites)
        assert opened_over(hand, EVERYBODY) is not None
        retry = Hand(sites, "retry", OTHERS, attempt=2)
        assert {reply.refused for reply in retry.open().values()} == {"R0.6"}
        bound = Hand(sites, "bound", EVERYBODY, attempt=2)
        bound.open()
        bound.show_adverts(of=OTHERS, to=OTHERS)
        assert {
            index: check for index, check in bound.refusals().items() if index in OTHERS
        } == dict.fromkeys(OTHERS, "R1.6")
        assert (retry.words, bound.words) == ({}, {})


USED, BOTH = b"u" * 32, frozenset({"a", "b"})
BLOCKS = tuple(PlannedBlock(name, 2, 2**40, "person", (frozenset({name}),)) for name in "ab")
TOGETHER: dict[str, tuple[Mapping[int, bytes], Mapping[int, frozenset[str]]]] = {
    "two new protected sites": ({5: b"", 6: b""}, {}),
    "new ones beside one that was opened": ({4: b"", 5: b"", 6: USED}, {}),
    "an attempt that nobody saw": (dict.fromkeys((4, 5, 6), USED), {}),
    "one supplies less than the others": (dict.fromkeys((0, 4, 5, 6), b""), {0: frozenset({"a"})}),
}


@pytest.mark.parametrize("who", TOGETHER)
@pytest.mark.parametrize("defended", [True, False])
def test_attack_a03_protected_sites_that_may_not_stand_in_one_sum(
    monkeypatch: pytest.MonkeyPatch, who: str, defended: bool
) -> None:
    used, supplies = TOGETHER[who]
    consortium = Consortium(
        7,
        blocks=BLOCKS,
        items=("a", "b"),
        supplies=lambda index: supplies.get(index, BOTH),
        people=lambda _: 4,
    )
    honest = consortium.values

    def values(index: int, length: int) -> Integers:
        held = honest(index, length)
        if index in supplies:
            held[3:] = 0
        return held

    consortium.values = values  # type: ignore[method-assign]
    for index, context in used.items():
        named = {} if who == "an attempt that nobody saw" or defended else {USED: tuple(range(7))}
        consortium.machines[index] = consortium.site(index, protected=True, used=context, named=named)
    if not defended:
        switched_off.protected(monkeypatch)
    hand = Hand(Machines(consortium))
    whole = opened_over(hand, tuple(range(7)))
    if defended:
        assert hand.refusals() == dict.fromkeys(range(7), "R3.8")
        assert whole is None
    else:
        assert whole is not None


# A3: over people


def careful(site: Site) -> Site:
    return replace(site, policy=PolicyConfig(profile="open_data", thresholds=Thresholds(set_difference=5)))


def neighbours() -> tuple[float, float, float]:
    """Return an age at the last site between whose neighbours nobody else of the consortium is, and cuts below and above it."""
    ages = np.sort(np.concatenate([People.of(index).age for index in EVERYBODY]))
    own = set(People.of(LEAVER).age.tolist())
    alone = [
        at for at in range(1, len(ages) - 1) if ages[at] in own and ages[at - 1] < ages[at] < ages[at + 1]
    ]
    place = alone[-1]
    below, age, above = (float(ages[place + step]) for step in (-1, 0, 1))
    return age, (below + age) / 2, (age + above) / 2


@pytest.mark.parametrize("rule", [True, False], ids=["with the people rule", "without it"])
def test_attack_a03_people_below_one_age_and_then_below_the_next(tmp_path: Path, rule: bool) -> None:
    """The two sums differ by one person, whose age is read off them; a site with a people rule answers the first alone."""
    age, *cuts = neighbours()
    sums: list[Mapping[str, Integers]] = []
    with Homes(tmp_path, N, {LEAVER: careful} if rule else None) as homes:
        for number, cut in enumerate(cuts):
            text = PLAIN.replace("study: loopback", f"study: cut{number}")
            text = text.replace("epoch: 2026-11", f"epoch: 2026-11, include: age < {cut!r}")
            with Sessions(homes, text) as sites:
                if number and rule:
                    assert LEAVER not in sites.approvals
                    assert "differ from people answered for before by fewer than 5" in sites.reasons[LEAVER]
                    return
                assert set(sites.approvals) == set(EVERYBODY), sites.reasons
                hand = Hand(sites, f"cut{number}")
                values = opened_over(hand, EVERYBODY)
                assert values is not None
                finish(hand)
                sums.append(by_block(plan_study(sites.study, sites.roster).round.blocks, values))
    assert int((sums[1]["people"] - sums[0]["people"])[0]) == 1
    differences = [
        int((sums[1][name] - sums[0][name])[0])
        for name in sums[0]
        if name.startswith("ages/") and name.endswith("/sums")
    ]
    (found,) = [value for value in differences if value]
    assert 50 + 50 * found / 2**45 == pytest.approx(age, abs=1e-6)


# A4


def fit_of(protected_sites: bool) -> Attempted:
    """Return the second round of a fit, everybody at the same parameter; the first was opened over all."""
    one = first()
    one.run()
    two = after(one)
    if protected_sites:
        used = one.coordinator.fixed.context
        for index in EVERYBODY:
            two.machines[index] = two.site(index, protected=True, used=used, named={used: EVERYBODY})
    return two


@pytest.mark.parametrize("status", ["protected", "derivable", "protected, and R3.8 off"])
def test_attack_a04_a_late_drop_in_an_iteration(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """The sum without the leaver, set against that of everybody at the same point, is the leaver's own: its Hessian, in a fit."""
    if "off" in status:
        switched_off.protected(monkeypatch)
    attempt = fit_of(status.startswith("protected"))
    sites = Machines(attempt)
    hand = Hand(sites, "fit", EVERYBODY, iteration=2, plan=attempt.coordinator.setup.plan)
    fewer = opened_over(hand, OTHERS)
    if status == "protected":
        assert hand.refusals() == dict.fromkeys(OTHERS, "R3.8")
        assert hand.opened() == {}
        return
    assert fewer is not None
    same_point = np.sum([attempt.values(index, 3) for index in EVERYBODY], axis=0)
    assert (same_point - fewer).tolist() == attempt.values(LEAVER, 3).tolist()


WAITS = "the release ledger: an earlier masked input may have been opened; fetch its transcript or tombstones"


@pytest.mark.parametrize("survivors", [EVERYBODY, OTHERS], ids=["all of them", "all but one"])
def test_attack_a04_a_fit_of_protected_sites_at_real_nodes_goes_on_with_all_or_not_at_all(
    tmp_path: Path, survivors: tuple[int, ...]
) -> None:
    """Not even in a new attempt over those who are left: until all are back, nothing more is masked."""
    text = without_bands(FIT)
    with Homes(tmp_path, N, dict.fromkeys(EVERYBODY, protected)) as homes, Sessions(homes, text) as sites:
        one = Hand(sites)
        one.play()
        plan = second_round(one, plan_study(sites.study, sites.roster)).round
        two = Hand(sites, "second", EVERYBODY, 2, plan=plan)
        opened = opened_over(two, survivors)
        if survivors == EVERYBODY:
            assert opened is not None
            return
        assert {index: two.refusals()[index] for index in OTHERS} == dict.fromkeys(OTHERS, "R3.8")
        fewer = Hand(sites, "third", OTHERS, 2, attempt=2, plan=plan)
        fewer.open(to=OTHERS)
        fewer.show_adverts()
        replies = fewer.deliver()
        assert {reply.stopped for reply in replies.values()} == {WAITS}
        assert (opened, two.opened(), fewer.words) == (None, {}, {})


# A24


def test_attack_a24_a_machine_image_from_before_the_signature_is_restored(tmp_path: Path) -> None:
    """Its secrets were in memory alone: it has dropped out, answers nothing, and does not begin the attempt again."""
    with Homes(tmp_path, N, on_disk=True) as homes, Sessions(homes) as sites:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        kept = homes.keep_ledger(LEAVER)
        hand.show_survivors(to=OTHERS)
        homes.set_back(LEAVER, kept)
        sites.start(LEAVER)
        reply = hand.say(LEAVER, Survivors(hand.envelopes(Kind.MASKED)))
        assert (reply.refused, reply.sends) == ("M4", ())
        reply = hand.say(LEAVER, hand.opening)
        assert (reply.refused, reply.sends) == ("R0.3", ())
        hand.shown[LEAVER].masked = hand.envelopes(Kind.MASKED)
        hand.show_quorum()
        hand.open_gate()
        assert hand.opened().keys() == {frozenset(EVERYBODY)}  # t others sufficed


def test_attack_a24_an_image_from_before_the_round_cannot_begin_it_a_second_time(tmp_path: Path) -> None:
    """It would, because it has forgotten the round; its peers have answered for its first keys and take no others."""
    with Homes(tmp_path, N, on_disk=True) as homes, Sessions(homes) as sites:
        kept = homes.keep_ledger(LEAVER)
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        homes.set_back(LEAVER, kept)
        sites.start(LEAVER)
        second = hand.say(LEAVER, hand.opening).of(Kind.ADVERT)
        assert second is not None
        assert second.packet != hand.sent[Kind.ADVERT][LEAVER]
        hand.sent[Kind.ADVERT][LEAVER] = second.packet
        told = {index: hand.shown[index] for index in OTHERS}
        assert {reply.refused for reply in hand.show_adverts(to=OTHERS).values()} == {"M5"}
        hand.shown.update(told)
        hand.show_adverts(to=(LEAVER,))
        reply = hand.deliver(of=OTHERS, to=(LEAVER,))[LEAVER]
        assert reply.refused == "R2.4"  # they were dealt under the first L1
        assert reply.of(Kind.MASKED) is None


@pytest.mark.parametrize("defended", [True, False])
def test_attack_a24_an_older_ledger_is_restored_between_two_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """The coordinator hides it from the site; the other sites remember how many masked inputs it has made."""
    if not defended:
        monkeypatch.setattr(Ledger, "peers", switched_off.no_peers)
    with Homes(tmp_path, N, on_disk=True) as homes:
        kept = homes.keep_ledger(LEAVER)
        with Sessions(homes, PLAIN) as sites:
            hand = Hand(sites)
            assert opened_over(hand, EVERYBODY) is not None
            finish(hand)
        homes.set_back(LEAVER, kept)
        with Sessions(homes, PLAIN.replace("study: loopback", "study: another")) as sites:
            hand = Hand(sites, "another")
            again = opened_over(hand, EVERYBODY)
            if defended:
                assert {index: hand.refusals()[index] for index in OTHERS} == dict.fromkeys(OTHERS, "R1.9")
                assert again is None
            else:
                assert again is not None


def test_attack_a24_a_site_that_knows_its_ledger_is_older_stays_out(tmp_path: Path) -> None:
    with Homes(tmp_path, N, on_disk=True) as homes:
        homes.sites[LEAVER].ledger.mark_restored()
        with Sessions(homes, PLAIN) as sites:
            assert set(sites.approvals) == set(OTHERS)
            assert "cohortsum node recover" in sites.reasons[LEAVER]
