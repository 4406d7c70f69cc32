"""A coordinator that lies while a round runs (A1, A5, A7, A8, A9, A11, A16): what it shows sites, and when, opens nothing it should not.

Scripts run against bare machines and against nodes over gRPC. With the defence taken away from the product, they succeed.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cohortsum.protocol import codec
from cohortsum.protocol.bounds import broken_bound, threshold
from cohortsum.protocol.messages import (
    Abort,
    Adverts,
    Delivery,
    Kind,
    MaskedInput,
    Opening,
    Packet,
    Quorum,
    Survivors,
)
from tests.attacks import switched_off
from tests.attacks.hand import Hand
from tests.attacks.sites import Machines, Sites
from tests.attacks.stages import WHERE, play
from tests.edges.harness import people_at
from tests.protocol.consortium import Consortium, protection

stages = pytest.mark.parametrize("where", WHERE)
N = 5
VICTIM = 4
OTHERS = (0, 1, 2, 3)
EVERYBODY = frozenset(range(N))


def people_in(sites: Sites, members: frozenset[int]) -> int:
    return sum(sites.people(index) for index in members)


def check_opened(hand: Hand, *expected: frozenset[int]) -> None:
    """Fail unless exactly these sums can be computed, and each is that of its sites."""
    opened = hand.opened()
    assert opened.keys() == set(expected)
    for members, values in opened.items():
        assert int(values[0]) == people_in(hand.sites, members)


def hold_and_drop(sites: Sites) -> Hand:
    """Keep the victim's vector, say that it dropped, let the sum open, and ask once more as if it had not."""
    hand = Hand(sites)
    hand.open()
    hand.show_adverts()
    hand.deliver()
    assert VICTIM in hand.words
    hand.show_survivors(of=OTHERS, to=OTHERS)
    hand.show_quorum()
    hand.open_gate()
    return hand


@stages
def test_attack_a05_a_vector_is_held_and_its_site_said_to_have_dropped(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = hold_and_drop(sites)
        assert hand.refusals() == {}
        check_opened(hand, frozenset(OTHERS))  # the victim's mask seed is known, its self seed is not
        assert hand.loot().seed("mask", VICTIM) is not None
        everybody = Survivors(hand.envelopes(Kind.MASKED))
        for index in OTHERS:
            assert hand.say(index, everybody).refused in ("M4", "M5")
            again = hand.say(index, Quorum(hand.envelopes(Kind.CONSISTENCY)[:3]))
            assert (again.refused, again.sends) == ("M5", ())
        check_opened(hand, frozenset(OTHERS))

    play(where, tmp_path, script)


@stages
def test_attack_a05_succeeds_where_sites_answer_both_kinds_of_share(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched_off.one_kind_of_share(monkeypatch)

    def script(sites: Sites) -> None:
        check_opened(hold_and_drop(sites), *(frozenset({index}) for index in range(N)))

    play(where, tmp_path, script)


def allowed_settings() -> list[tuple[int, int]]:
    """Return every number of sites up to 7 and of hostile ones that the bounds allow."""
    return [
        (n, c)
        for n in range(3, 8)
        for c in range(n)
        if broken_bound(n, protection(max_colluding_sites=c)) is None
    ]


@pytest.mark.parametrize(("n", "c"), allowed_settings(), ids=str)
def test_attack_a05_whatever_part_of_the_sites_is_told_that_one_dropped(n: int, c: int) -> None:
    """Hostile sites sign and answer everything; honest ones are told either story, in every proportion."""
    honest, t = range(n - c), threshold(n)
    assert len(allowed_settings()) == 10
    for told in range(n - c):
        sites = Machines(Consortium(n, protection(max_colluding_sites=c)), frozenset(range(n - c, n)))
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        dropped = [index for index in honest if 0 < index <= told]  # site 0 is said to have dropped
        kept = [index for index in honest if index not in dropped]
        for group, survivors in ((kept, range(n)), (dropped, range(1, n))):
            hand.show_survivors(of=survivors, to=group)
            signed = [index for index in group if index in hand.sent.get(Kind.CONSISTENCY, {})]
            if not signed:
                continue
            statement = codec.decode(
                Kind.CONSISTENCY, hand.sent[Kind.CONSISTENCY][signed[0]].envelope.payload
            )
            forged = [
                sites.consortium.signers[index].sign(hand.context, statement) for index in range(n - c, n)
            ]
            quorum = Quorum((*hand.envelopes(Kind.CONSISTENCY, signed), *forged))
            for index in signed:
                hand.say(index, quorum)
        hand.open_gate()
        stories = ((kept, frozenset(honest)), (dropped, frozenset(honest) - {0}))
        expected = {told for group, told in stories if len(group) + c >= t}
        assert len(expected) <= 1
        check_opened(hand, *expected)
        assert all(len(members) >= 3 for members in expected)


# A7


@stages
@pytest.mark.parametrize("floor", ["as it is", "one lower"])
def test_attack_a07_survivors_are_dropped_to_one_below_the_threshold(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: str
) -> None:
    few = OTHERS[:3]
    least: Callable[[int], int] = threshold
    if floor == "one lower":
        least = switched_off.one_lower
        switched_off.thresholds(monkeypatch)

    def script(sites: Sites) -> None:
        assert len(few) == threshold(N) - 1
        hand = Hand(sites, least=least)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        hand.show_survivors(of=few, to=few)
        if least is threshold:
            assert hand.refusals() == dict.fromkeys(few, "R3.3")
            assert hand.opened() == hand.opened("gate") == {}
            return
        hand.show_quorum()
        hand.open_gate()
        check_opened(hand, frozenset(few))

    play(where, tmp_path, script)


@stages
@pytest.mark.parametrize(("step", "check"), [("adverts", "R1.7"), ("delivery", "R2.3")])
def test_attack_a07_sites_are_dropped_before_there_is_a_sum(
    where: str, tmp_path: Path, step: str, check: str
) -> None:
    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        if step == "adverts":
            hand.show_adverts(of=(0, 1), to=(0, 1))
        else:
            hand.show_adverts()
            hand.deliver(of=(0, 1, 2), to=(0, 1, 2))
        assert set(hand.refusals().values()) <= {check, "R1.6"}
        assert hand.refusals()
        assert hand.words == {}

    play(where, tmp_path, script)


# A8


@stages
def test_attack_a08_a_quorum_of_one_too_few_is_shown(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        hand.show_survivors()
        hand.show_quorum(of=range(threshold(N) - 1))
        assert hand.refusals() == dict.fromkeys(range(N), "R4.3")
        assert hand.opened("gate") == hand.opened() == {}

    play(where, tmp_path, script)


@pytest.mark.parametrize("policy", [5, 3])
def test_attack_a08_a_study_of_fewer_sites_than_a_sites_own_policy_wants(policy: int) -> None:
    """The study says three; with a policy of five the site does not deal for four."""
    consortium = Consortium(N)
    for index in OTHERS:
        consortium.machines[index] = consortium.site(index, min_sites=policy)
    hand = Hand(Machines(consortium))
    hand.open()
    hand.show_adverts(of=OTHERS, to=OTHERS)
    if policy == 5:
        assert hand.refusals() == dict.fromkeys(OTHERS, "R1.6")
        assert Kind.SHARES not in hand.sent
    else:
        for step in (hand.deliver, hand.show_survivors, hand.show_quorum, hand.open_gate):
            step()
        assert hand.opened().keys() == {frozenset(OTHERS)}


# A9


def test_attack_a09_another_study_roster_or_epoch_for_one_site(tmp_path: Path) -> None:
    lies = {"study_digest": "R0.1", "roster_digest": "R0.2", "epoch": "R0.7"}
    for where in WHERE:

        def script(sites: Sites) -> None:
            hand = Hand(sites)
            for name, check in lies.items():
                value: object = "2027-01" if name == "epoch" else bytes(32)
                opening: Opening = replace(hand.opening, **{name: value})  # type: ignore[arg-type]
                reply = hand.say(VICTIM, opening)
                assert (reply.refused, reply.sends) == (check, ())

        play(where, tmp_path / where, script)


@stages
def test_attack_a09_another_l1_for_one_site(where: str, tmp_path: Path) -> None:
    """What it deals under the other L1 serves nobody, and it takes nobody's shares."""

    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts(to=OTHERS)
        hand.show_adverts(of=(0, 1, 2, VICTIM), to=(VICTIM,))
        hand.deliver(of=range(N), to=OTHERS[:3])
        hand.deliver(of=(0, 1, 2, VICTIM), to=(VICTIM,))
        assert hand.refusals() == dict.fromkeys((0, 1, 2, VICTIM), "R2.4")
        assert hand.words == {}
        complaints = {
            index: send.packet.envelope.kind
            for index, replies in hand.replies.items()
            for reply in replies
            for send in reply.sends
            if send.packet.envelope.kind is Kind.COMPLAINT
        }
        assert complaints.keys() == {0, 1, 2, VICTIM}

    play(where, tmp_path, script)


@stages
def test_attack_a09_two_groups_under_two_l1_share_no_honest_site(where: str, tmp_path: Path) -> None:
    """Seven sites, two legal lists of five with three sites in both: each of these answers for the first list alone."""

    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        one, other = range(5), range(2, 7)
        hand.show_adverts(of=one, to=one)
        hand.show_adverts(of=other, to=(5, 6))
        for index in (2, 3, 4):
            reply = hand.say(index, Adverts(hand.envelopes(Kind.ADVERT, other)))
            assert (reply.refused, reply.sends) == ("M5", ())
        hand.deliver(of=one, to=one)
        hand.deliver(of=(5, 6), to=(5, 6))
        assert hand.refusals() == {2: "M5", 3: "M5", 4: "M5", 5: "R2.3", 6: "R2.3"}
        hand.show_survivors(to=one)
        hand.show_quorum()
        hand.open_gate()
        check_opened(hand, frozenset(one))

    play(where, tmp_path, script, sites=7)


@stages
def test_attack_a09_another_u2_for_one_site(where: str, tmp_path: Path) -> None:
    """Its vector is masked under another h2, and nobody signs a list with it."""

    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver(to=OTHERS)
        hand.deliver(of=(0, 1, 2, VICTIM), to=(VICTIM,))
        assert len(hand.words) == N
        hand.show_survivors()
        assert hand.refusals() == dict.fromkeys(range(N), "R3.7")
        assert hand.opened() == {}

    play(where, tmp_path, script)


def seven_stories(sites: Sites) -> Hand:
    """Show each of seven sites survivors without the two after it: five others list every site."""
    hand = Hand(sites)
    hand.open()
    hand.show_adverts()
    hand.deliver()
    for index in range(7):
        hand.show_survivors(of=[(index + step) % 7 for step in (0, 3, 4, 5, 6)], to=(index,))
    assert len({packet.envelope.payload for packet in hand.sent[Kind.CONSISTENCY].values()}) == 7
    return hand


@stages
def test_attack_a09_another_u3_for_every_site(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = seven_stories(sites)
        for index in range(7):
            own = hand.say(index, Quorum(hand.envelopes(Kind.CONSISTENCY, [index])))
            assert (own.refused, own.sends) == ("R4.3", ())
        assert hand.opened("gate") == {}

    play(where, tmp_path, script, sites=7)


@stages
def test_attack_a09_signatures_of_other_lists_make_no_quorum(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = seven_stories(sites)
        hand.show_quorum(of=range(7))
        assert hand.refusals() == dict.fromkeys(range(7), "R4.4")
        assert hand.opened("gate") == {}

    play(where, tmp_path, script, sites=7)


@stages
def test_attack_a09_succeeds_where_the_quorum_is_not_looked_at(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate opens over seven sites, none of which agreed to that."""
    switched_off.quorum(monkeypatch)

    def script(sites: Sites) -> None:
        hand = seven_stories(sites)
        hand.show_quorum(of=range(7))
        assert hand.refusals() == {}
        assert hand.opened("gate").keys() == {frozenset(range(7))}

    play(where, tmp_path, script, sites=7)


@stages
def test_attack_a09_a_second_list_of_survivors_for_sites_that_signed_one(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        hand.show_survivors()
        for index in OTHERS:
            reply = hand.say(index, Survivors(hand.envelopes(Kind.MASKED, OTHERS)))
            assert (reply.refused, reply.sends) == ("M5", ())

    play(where, tmp_path, script)


# A11


def replayed_into_the_next(sites: Sites) -> tuple[set[str], int, Hand]:
    """Abort one attempt, play the next, and hand every message of the first to one site at every step of it.

    Return the checks that refused them, how many were handed over, and the second attempt; it ends at the first that is taken.
    """
    old = Hand(sites, "old")
    for step in (old.open, old.show_adverts, old.deliver):
        step()
    for index in range(N):
        old.say(index, Abort("over"))
    if isinstance(sites, Machines):
        sites.consortium.__post_init__()  # machines serve one attempt
    hand = Hand(sites, "new", attempt=2)
    recorded = [packet for told in old.told.values() for packet in told]
    checks, replayed = set[str](), 0
    for step in (
        hand.open,
        hand.show_adverts,
        hand.deliver,
        hand.show_survivors,
        hand.show_quorum,
        hand.open_gate,
    ):
        step()
        for packet in recorded:
            checks.add(sites.tell(VICTIM, packet).refused)
            replayed += 1
            if "" in checks:
                return checks, replayed, hand
    return checks, replayed, hand


@stages
def test_attack_a11_every_message_of_a_round_is_replayed_at_every_step_of_the_next(
    where: str, tmp_path: Path
) -> None:
    def script(sites: Sites) -> None:
        checks, replayed, hand = replayed_into_the_next(sites)
        assert checks <= {"M3", "M4", "M5", "R0.3"}
        assert replayed == 6 * 4 * N
        check_opened(hand, EVERYBODY)  # nothing of it has cost the site its place

    play(where, tmp_path, script)


def test_attack_a11_succeeds_where_the_context_does_not_depend_on_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched_off.contexts(monkeypatch)
    play("machines", tmp_path, lambda sites: _obeyed(replayed_into_the_next(sites)))


def _obeyed(found: tuple[set[str], int, Hand]) -> None:
    checks, replayed, _ = found
    assert "" in checks
    assert replayed < 6 * 4 * N


@stages
def test_attack_a11_what_other_sites_said_in_another_round_is_shown_in_this_one(
    where: str, tmp_path: Path
) -> None:
    """Adverts, shares, masked inputs and signatures of an old attempt inside the coordinator's new, truly signed messages."""

    def script(sites: Sites) -> None:
        old = Hand(sites, "old")
        for step in (old.open, old.show_adverts, old.deliver, old.show_survivors):
            step()
        for index in range(N):
            old.say(index, Abort("over"))
        if isinstance(sites, Machines):
            sites.consortium.__post_init__()
        hand = Hand(sites, "new", survivors=tuple(range(N)), attempt=2)
        hand.open()
        own = hand.envelopes(Kind.ADVERT, (0,))
        assert hand.say(0, Adverts((*own, *old.envelopes(Kind.ADVERT, range(1, N))))).refused == "M3"
        hand.show_adverts()
        for index in OTHERS:
            shares = (*old.envelopes(Kind.SHARES, OTHERS), *hand.envelopes(Kind.SHARES, (VICTIM,)))
            attached = tuple(packet.attachments[index] for packet in old.sent[Kind.SHARES].values())
            assert hand.say(index, Delivery(shares), attached).refused == "M3"
        hand.deliver()
        for index in OTHERS:
            masked = (*hand.envelopes(Kind.MASKED, OTHERS), *old.envelopes(Kind.MASKED, (VICTIM,)))
            assert hand.say(index, Survivors(masked)).refused == "M3"
        hand.show_survivors()
        stale = Quorum(old.envelopes(Kind.CONSISTENCY))
        for index in range(N):
            assert hand.say(index, stale).refused == "M3"
        hand.show_quorum()
        hand.open_gate()
        check_opened(hand, EVERYBODY)  # the true messages that followed were taken

    play(where, tmp_path, script)


# A16


def lied_gate(hand: Hand) -> dict[int, str]:
    """Play to the gate, add a million people to one site's opened gate, and return who refused and why."""
    hand.open()
    hand.show_adverts()
    hand.deliver()
    hand.show_survivors()
    hand.show_quorum()
    for index in range(N):
        opening = hand.gate_opening(index)
        assert opening is not None
        first = opening.survivors[0]
        words = (int.from_bytes(first.words, "little") + 10**6) % 2**64
        survivors = {**opening.survivors, 0: replace(first, words=words.to_bytes(8, "little"))}
        hand.say(index, replace(opening, survivors=survivors))
    return hand.refusals()


TOO_MANY = 200
"""The five sites have 124 people."""


@stages
def test_attack_a16_a_count_is_claimed_that_the_sites_do_not_have(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        assert people_in(sites, EVERYBODY) == 124
        hand = Hand(sites)
        assert lied_gate(hand) == dict.fromkeys(range(N), "R4.5")
        assert hand.opened() == {}

    play(where, tmp_path, script, min_participants=TOO_MANY)


@stages
def test_attack_a16_an_honest_gate_over_too_few_people_opens_no_data(where: str, tmp_path: Path) -> None:
    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.play()
        assert hand.refusals() == dict.fromkeys(range(N), "R4.8")
        assert hand.opened() == {}

    play(where, tmp_path, script, min_participants=TOO_MANY)


@stages
def test_attack_a16_succeeds_where_sites_do_not_compare_digests(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched_off.comparisons(monkeypatch)

    def script(sites: Sites) -> None:
        hand = Hand(sites)
        assert lied_gate(hand) == {}
        check_opened(hand, EVERYBODY)

    play(where, tmp_path, script, min_participants=TOO_MANY)


@stages
def test_attack_a16_the_gate_digest_of_a_site_that_does_not_sign_is_forged(
    where: str, tmp_path: Path
) -> None:
    def script(sites: Sites) -> None:
        hand = Hand(sites)
        hand.open()
        hand.show_adverts()
        hand.deliver()
        held = hand.sent[Kind.MASKED][VICTIM]
        masked = codec.decode(Kind.MASKED, held.envelope.payload)
        assert isinstance(masked, MaskedInput)
        _, payload = codec.encode(replace(masked, gate_digest=bytes(32)))
        hand.sent[Kind.MASKED][VICTIM] = Packet(replace(held.envelope, payload=payload), held.attachments)
        hand.show_survivors(to=OTHERS)
        assert hand.refusals() == dict.fromkeys(OTHERS, "M1")
        assert Kind.CONSISTENCY not in hand.sent

    play(where, tmp_path, script)


def test_attack_a16_a_hostile_site_lifts_the_gate_and_honest_people_still_suffice() -> None:
    """The stated limit: the gate passes; what opens holds the people of at least t - c honest sites."""
    study = protection(max_colluding_sites=1, min_participants=10**5, max_participants=10**6)
    consortium = Consortium(N, study, people=people_at)
    sites = Machines(consortium, frozenset({VICTIM}), poisoned={VICTIM: (10**6, 0)})
    hand = Hand(sites)
    hand.play()
    assert hand.refusals() == {}
    ((members, values),) = hand.opened().items()
    assert len(members) >= threshold(N) - 1
    assert int(values[0]) == people_in(sites, members) >= (threshold(N) - 1) * study.min_participants_per_site
