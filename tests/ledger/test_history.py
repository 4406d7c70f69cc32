"""A site's record: what counts as opened, what closes an attempt, retries, restores, and the way to plain data."""

import json
from dataclasses import replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError, StoreError
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.ledger import from_data, to_data
from cohortsum.protocol.ledger.decision import Answer, AskedSet, Flag, Refused, Request, may_answer
from cohortsum.protocol.ledger.history import Closed, History, Named, Unresolved, Write
from cohortsum.protocol.ledger.people import PeopleSet
from cohortsum.protocol.ledger.rules import Limits, Reason
from cohortsum.protocol.ledger.sites import Claim, NamedRound, Status, Step, broken_site_rule, proven
from cohortsum.protocol.ledger.tombstones import Answered, Tombstone, tombstone_quorum
from tests.ledger.world import CELL, DERIVABLE, PROTECTED, people

LIMITS = Limits(k=10, colluding=1, honest_minimum=3)
U1 = frozenset(range(9))
STEP = Step(b"study", 1, 1)
EVERYONE = people(0, *range(40))


def named(
    survivors: frozenset[int] = U1, context: bytes = b"c1", step: Step = STEP, signed: int = 9
) -> NamedRound:
    signatures = tuple((site, b"good") for site in sorted(survivors)[:signed])
    return NamedRound(context, step, b"h1", b"h2", U1, frozenset(range(5)), survivors, signatures)


def good(shown: NamedRound, site: int, signature: bytes) -> bool:
    del shown, site
    return signature == b"good"


def genuine(stone: Tombstone) -> bool:
    return stone.signature == b"good"


def write(
    context: bytes = b"c1", step: Step = STEP, held: PeopleSet = EVERYONE, noised: bool = False
) -> Write:
    return Write(context, step, b"h1", b"h2", U1, U1, (("all", held),), noised)


def request(
    context: bytes = b"c2",
    step: Step = STEP,
    held: PeopleSet = EVERYONE,
    status: Status = DERIVABLE,
    minimum: int = 10,
    noised: bool = False,
) -> Request:
    return Request(context, step, status, (AskedSet("all", held, minimum),), CELL, noised=noised)


def asked(history: History, wanted: Request) -> Answer | Reason:
    decision = may_answer(history, wanted, LIMITS, good)
    return decision.reason if isinstance(decision, Refused) else decision


def flag(history: History, wanted: Request) -> Flag:
    answer = asked(history, wanted)
    assert isinstance(answer, Answer)
    return answer.flags.sets[0][1]


def stones(none: int, gate: int = 0, shown: NamedRound | None = None) -> list[Tombstone]:
    buried = [Tombstone(b"c1", site, Answered.NONE, None, b"good") for site in range(none)]
    return buried + [
        Tombstone(b"c1", site, Answered.GATE, shown, b"good") for site in range(none, none + gate)
    ]


PROTECTED_ONCE = History(0).with_write(write(), PROTECTED)
DERIVABLE_ONCE = History(0).with_write(write(), DERIVABLE)


class TestPossiblyOpened:
    def test_an_unresolved_write_counts_as_every_survivor_set_within_u2(self) -> None:
        assert write().may_have_opened(U1)
        assert write().may_have_opened(frozenset({3, 4}))
        assert not write().may_have_opened(U1 | {11})

    def test_t_signatures_leave_one_survivor_set(self) -> None:
        known = PROTECTED_ONCE.with_named(named(U1 - {8}), good)
        (made,) = known.writes
        assert made.may_have_opened(U1 - {8})
        assert not made.may_have_opened(U1)

    def test_t_minus_one_signatures_name_nothing(self) -> None:
        assert threshold(9) == 7
        assert proven(named(signed=7), good)
        with pytest.raises(RemoteProtocolError, match="without t valid signatures"):
            PROTECTED_ONCE.with_named(named(signed=6), good)

    def test_one_signer_counts_once_and_only_if_a_survivor(self) -> None:
        doubled = replace(named(), signatures=((0, b"good"),) * 9)
        assert not proven(doubled, good)
        strangers = replace(
            named(U1 - {7, 8}, signed=6), signatures=tuple((site, b"good") for site in (0, 1, 2, 3, 4, 7, 8))
        )
        assert not proven(strangers, good)

    @pytest.mark.parametrize("shown", [replace(named(), h1=b"other"), replace(named(), h2=b"other")])
    def test_signatures_of_another_view_name_nothing(self, shown: NamedRound) -> None:
        with pytest.raises(RemoteProtocolError, match="named without"):
            PROTECTED_ONCE.with_named(shown, good)

    def test_survivors_outside_u1_are_never_proven(self) -> None:
        assert not proven(named(U1 | {12}, signed=10), good)

    def test_a_context_without_a_masked_input_has_nothing_to_resolve(self) -> None:
        with pytest.raises(StoreError, match="no masked input"):
            DERIVABLE_ONCE.with_named(named(context=b"c5"), good)

    def test_two_named_sets_in_one_attempt_stop_the_site(self) -> None:
        known = PROTECTED_ONCE.with_named(named(), good)
        assert known.with_named(named(), good) == known
        with pytest.raises(StoreError, match="two survivor sets"):
            known.with_named(named(U1 - {8}), good)

    def test_a_protected_site_waits_until_it_knows(self) -> None:
        assert asked(PROTECTED_ONCE, request(status=PROTECTED)) is Reason.UNRESOLVED
        assert (
            asked(PROTECTED_ONCE, request(status=PROTECTED, step=Step(b"study", 1, 2))) is Reason.UNRESOLVED
        )

    def test_a_derivable_site_does_not_wait(self) -> None:
        assert flag(DERIVABLE_ONCE, request()) is Flag.OLD

    def test_a_dropped_protected_site_is_new_again(self) -> None:
        left_out = PROTECTED_ONCE.with_named(named(U1 - {0}), good)
        answer = asked(left_out, request(status=PROTECTED, step=Step(b"other", 1, 1)))
        assert isinstance(answer, Answer)
        assert answer.flags.used is None


class TestTombstones:
    def test_the_quorum_for_34_sites_and_one_liar_is_13(self) -> None:
        assert tombstone_quorum(34, 1) == 13

    @pytest.mark.parametrize("sites", range(3, 41))
    @pytest.mark.parametrize("colluding", range(4))
    def test_the_quorum_is_exact(self, sites: int, colluding: int) -> None:
        """Liars sign and answer; honest sites that signed do not. With the quorum t - 1 can answer, with one fewer t."""
        quorum = tombstone_quorum(sites, colluding)
        for signing, able in ((quorum, threshold(sites) - 1), (quorum - 1, threshold(sites))):
            assert sites - signing + colluding == able

    @pytest.mark.parametrize(("none", "closed"), [(3, False), (4, True)])
    def test_enough_that_answered_nothing_close_the_attempt(self, none: int, closed: bool) -> None:
        assert tombstone_quorum(9, 1) == 4
        after = PROTECTED_ONCE.with_tombstones(b"c1", stones(none), LIMITS, genuine, good)
        assert isinstance(after.writes[0].fate, Closed if closed else Unresolved)
        assert after.recorded() == (frozenset() if closed else {EVERYONE})
        assert after.writes[0].may_have_opened(U1) is not closed

    def test_a_closed_attempt_is_no_write_and_its_retry_is_free(self) -> None:
        after = PROTECTED_ONCE.with_tombstones(b"c1", stones(4), LIMITS, genuine, good)
        answer = asked(
            after, request(status=PROTECTED, step=Step(b"study", 1, 2), held=people(0, *range(39)))
        )
        assert isinstance(answer, Answer)
        assert answer.flags.used is None

    def test_forged_foreign_and_repeated_tombstones_do_not_count(self) -> None:
        three = stones(3)
        more = [
            replace(three[0], site=3, signature=b"bad"),
            replace(three[0], site=20),
            replace(three[0], site=4, context=b"c9"),
            three[0],
        ]
        assert PROTECTED_ONCE.with_tombstones(b"c1", three + more, LIMITS, genuine, good) == PROTECTED_ONCE

    def test_with_a_gate_answered_the_gate_stays_opened_over_its_survivors(self) -> None:
        after = PROTECTED_ONCE.with_tombstones(b"c1", stones(2, 2, named()), LIMITS, genuine, good)
        assert after.writes[0].fate == Named(named(), gate_only=True)
        assert asked(after, request(status=PROTECTED, step=Step(b"other", 1, 1))) is Reason.OPENED_ONCE
        retry = asked(after, request(status=PROTECTED, step=Step(b"study", 1, 2)))
        assert isinstance(retry, Answer)
        assert retry.flags.used == b"c1"

    def test_a_gate_without_proof_closes_nothing(self) -> None:
        unproven = stones(2, 2, named(signed=6))
        assert PROTECTED_ONCE.with_tombstones(b"c1", unproven, LIMITS, genuine, good) == PROTECTED_ONCE

    def test_a_site_that_signs_both_ways_counts_as_gate(self) -> None:
        both = [*stones(4), Tombstone(b"c1", 3, Answered.GATE, named(), b"good")]
        after = PROTECTED_ONCE.with_tombstones(b"c1", both, LIMITS, genuine, good)
        assert after.writes[0].fate == Named(named(), gate_only=True)

    def test_signatures_of_a_closed_attempt_change_nothing(self) -> None:
        after = PROTECTED_ONCE.with_tombstones(b"c1", stones(4), LIMITS, genuine, good)
        assert after.with_named(named(), good) == after


class TestDecision:
    def test_a_context_is_spent_once(self) -> None:
        assert asked(DERIVABLE_ONCE, request(context=b"c1")) is Reason.SPENT
        with pytest.raises(StoreError, match="spent once"):
            DERIVABLE_ONCE.with_write(write(), DERIVABLE)

    def test_survivors_without_a_masked_input_are_refused(self) -> None:
        assert asked(DERIVABLE_ONCE, replace(request(), claims={})) is Reason.NOT_WRITTEN

    def test_flags_that_changed_since_the_advert_send_nothing(self) -> None:
        before = asked(History(0), request())
        assert isinstance(before, Answer)
        assert asked(History(0), replace(request(), advertised=before.flags)) == before
        assert asked(DERIVABLE_ONCE, replace(request(), advertised=before.flags)) is Reason.CHANGED

    def test_the_status_is_fixed_by_the_first_masked_input(self) -> None:
        resolved = PROTECTED_ONCE.with_named(named(), good)
        assert asked(resolved, request(status=DERIVABLE)) is Reason.STATUS
        assert asked(DERIVABLE_ONCE, request(status=PROTECTED)) is Reason.STATUS

    def test_a_derivable_site_has_the_minimum_in_every_block(self) -> None:
        seven_women = AskedSet("women", people(0, *range(7)), 10)
        wanted = request()
        assert (
            asked(History(0), replace(wanted, sets=(*wanted.sets, seven_women)))
            is Reason.TOO_FEW_FOR_DERIVABLE
        )

    def test_the_blocks_of_one_round_are_judged_together(self) -> None:
        other = AskedSet("bmi", people(0, *range(36)), 10)
        wanted = request()
        assert asked(History(0), replace(wanted, sets=(*wanted.sets, other))) is Reason.NEAR_DUPLICATE
        far = AskedSet("bmi", people(0, *range(30)), 10)
        answer = asked(History(0), replace(wanted, sets=(*wanted.sets, far)))
        assert isinstance(answer, Answer)
        assert dict(answer.people) == {"all": EVERYONE, "bmi": people(0, *range(30))}

    def test_open_data_has_no_people_rule(self) -> None:
        near = request(held=people(0, *range(39)), minimum=1)
        assert asked(DERIVABLE_ONCE, near) is Reason.NEAR_DUPLICATE
        assert flag(DERIVABLE_ONCE, replace(near, people_rule=False)) is Flag.FIRST_TIME

    def test_noise_covers_a_near_duplicate_and_an_opened_protected_site(self) -> None:
        near = request(held=people(0, *range(39)), noised=True)
        assert flag(DERIVABLE_ONCE, near) is Flag.FIRST_TIME
        opened = PROTECTED_ONCE.with_named(named(), good)
        assert flag(opened, replace(near, status=PROTECTED)) is Flag.FIRST_TIME

    def test_a_noised_answer_does_not_enter_the_people_rule(self) -> None:
        noised = History(0).with_write(write(noised=True), DERIVABLE)
        assert flag(noised, request(held=people(0, *range(39)))) is Flag.FIRST_TIME

    def test_charged_attempts_are_bounded_and_closed_ones_refunded(self) -> None:
        history = History(0)
        for attempt in (1, 2):
            history = history.with_write(
                write(b"c%d" % attempt, Step(b"study", 1, attempt), noised=True), DERIVABLE
            )
        third = request(b"c3", Step(b"study", 1, 3), noised=True)
        assert asked(history, third) is Reason.ATTEMPTS
        refunded = history.with_tombstones(b"c1", stones(4), LIMITS, genuine, good)
        assert isinstance(asked(refunded, third), Answer)
        assert isinstance(asked(history, replace(third, step=Step(b"study", 2, 1))), Answer)

    def test_a_near_duplicate_is_reused_if_the_study_says_so(self) -> None:
        next_year = replace(request(held=people(0, *range(42))), reuse=True)
        answer = asked(DERIVABLE_ONCE, next_year)
        assert isinstance(answer, Answer)
        assert answer.flags.sets == (("all", Flag.REUSED),)
        assert dict(answer.people) == {"all": EVERYONE}

    def test_a_reused_set_has_the_minimum_too(self) -> None:
        next_year = replace(request(held=people(0, *range(42)), minimum=41), reuse=True)
        assert asked(DERIVABLE_ONCE, next_year) is Reason.TOO_FEW_FOR_DERIVABLE

    def test_nobody_who_withdrew_is_answered_for_again(self) -> None:
        withdrawn = DERIVABLE_ONCE.with_withdrawn(people(0, 7).codes)
        assert asked(withdrawn, request()) is Reason.WITHDRAWN
        assert asked(withdrawn, request(noised=True)) is Reason.WITHDRAWN
        rest = people(0, *(person for person in range(40) if person != 7))
        assert asked(withdrawn, replace(request(held=rest), reuse=True)) is Reason.NEAR_DUPLICATE
        ten_others = people(0, *(person for person in range(49) if person != 7))
        assert flag(withdrawn, request(held=ten_others)) is Flag.FIRST_TIME

    def test_a_protected_site_repeats_only_its_own_round(self) -> None:
        opened = PROTECTED_ONCE.with_named(named(), good)
        for step in (Step(b"study", 1, 2), Step(b"study", 2, 1)):
            answer = asked(opened, request(status=PROTECTED, step=step))
            assert isinstance(answer, Answer)
            assert answer.flags.used == b"c1"
        assert asked(opened, request(status=PROTECTED, step=STEP)) is Reason.OPENED_ONCE
        assert asked(opened, request(status=PROTECTED, step=Step(b"other", 2, 1))) is Reason.OPENED_ONCE
        more = request(status=PROTECTED, step=Step(b"study", 2, 1), held=people(0, *range(52)))
        assert asked(opened, more) is Reason.OTHER_PEOPLE

    def test_a_protected_site_has_the_cells_of_the_plan(self) -> None:
        cases = AskedSet("bmi", people(0, *range(30)), 10)
        wanted = request(status=PROTECTED)
        plan = frozenset({frozenset({"all", "bmi"})})
        assert (
            asked(History(0), replace(wanted, sets=(*wanted.sets, cases), cells=plan)) is Reason.OTHER_CELLS
        )
        same = replace(cases, people=EVERYONE)
        assert isinstance(asked(History(0), replace(wanted, sets=(*wanted.sets, same), cells=plan)), Answer)


def claim(used: NamedRound | None = None, supplies: str = "all", status: Status = PROTECTED) -> Claim:
    return Claim(status, used, frozenset({supplies}))


LATER = Step(b"study", 2, 1)
OPENED = named()


class TestSurvivors:
    @pytest.mark.parametrize(
        ("claims", "step", "reason"),
        [
            ({8: claim(status=DERIVABLE)}, STEP, None),
            ({site: claim() for site in range(4)}, STEP, None),
            ({site: claim() for site in range(3)}, STEP, Reason.PROTECTED_TOO_FEW),
            ({site: claim(OPENED) for site in range(5)}, LATER, None),
            ({site: claim(OPENED) for site in range(4)}, LATER, Reason.PROTECTED_OTHERS),
            ({site: claim(OPENED) for site in range(6)}, LATER, Reason.PROTECTED_OTHERS),
            ({site: claim(OPENED) for site in range(5)}, STEP, Reason.NOT_A_CONTINUATION),
            ({site: claim(OPENED) for site in range(5)}, Step(b"other", 2, 1), Reason.NOT_A_CONTINUATION),
            ({site: claim(OPENED if site else None) for site in range(5)}, LATER, Reason.PROTECTED_MIXED),
            (
                {site: claim(OPENED if site else named(context=b"c7")) for site in range(5)},
                LATER,
                Reason.PROTECTED_MIXED,
            ),
            ({site: claim(named(signed=6)) for site in range(5)}, LATER, Reason.NO_PROOF),
            (
                {site: claim(supplies="bmi" if site else "all") for site in range(5)},
                STEP,
                Reason.PROTECTED_SUPPLIES,
            ),
        ],
    )
    def test_protected_sites_come_all_new_or_all_again(
        self, claims: dict[int, Claim], step: Step, reason: Reason | None
    ) -> None:
        assert broken_site_rule(claims, step, LIMITS, good) is reason

    def test_a_derivable_site_checks_the_protected_ones_and_finds_itself(self) -> None:
        wanted = request(context=b"c1")
        fine = {site: claim() for site in range(1, 5)} | {0: claim(status=DERIVABLE)}
        assert isinstance(asked(DERIVABLE_ONCE, replace(wanted, claims=fine)), Answer)
        too_few = {site: held for site, held in fine.items() if site != 4}
        assert asked(DERIVABLE_ONCE, replace(wanted, claims=too_few)) is Reason.PROTECTED_TOO_FEW
        for wrong in ({site: held for site, held in fine.items() if site}, fine | {0: claim()}):
            assert asked(DERIVABLE_ONCE, replace(wanted, claims=wrong)) is Reason.NOT_A_SURVIVOR


class TestRestore:
    def test_peers_that_saw_more_silence_a_site_until_it_is_rebuilt(self) -> None:
        resolved = DERIVABLE_ONCE.with_named(named(), good)
        restored = History(0).seen_by_peers(resolved.counter)
        assert asked(restored, request(held=people(0, *range(39)))) is Reason.RESTORED
        assert asked(restored, request(noised=True)) is Reason.RESTORED
        rebuilt = restored.rebuilt([write()], DERIVABLE, resolved.counter)
        assert rebuilt.recorded() == resolved.recorded()
        assert rebuilt.counter > resolved.counter
        assert asked(rebuilt, request(held=people(0, *range(39)))) is Reason.NEAR_DUPLICATE
        assert flag(rebuilt, request()) is Flag.OLD

    def test_the_counter_grows_with_every_change_and_peers_that_saw_it_change_nothing(self) -> None:
        grown = DERIVABLE_ONCE.with_named(named(), good).with_withdrawn(people(0, 1).codes)
        assert grown.counter == 3
        assert grown.seen_by_peers(3) is grown
        assert grown.seen_by_peers(4).restored

    def test_a_rebuilt_record_keeps_what_it_had(self) -> None:
        noted = DERIVABLE_ONCE.with_named(named(), good).seen_by_peers(99)
        rebuilt = noted.rebuilt([write(), write(b"c2", LATER)], DERIVABLE, 99)
        assert [made.context for made in rebuilt.writes] == [b"c1", b"c2"]
        assert rebuilt.writes[0] == noted.writes[0]
        with pytest.raises(StoreError, match="another status"):
            noted.rebuilt([], PROTECTED, 99)


class TestPlainData:
    def test_a_record_survives_json(self) -> None:
        history = (
            PROTECTED_ONCE.with_named(named(), good)
            .with_write(write(b"c2", LATER, noised=True), PROTECTED)
            .with_write(write(b"c3", Step(b"study", 3, 1)), PROTECTED)
            .with_withdrawn(people(0, 3).codes)
            .seen_by_peers(99)
        )
        closed = replace(history, writes=(*history.writes, replace(write(b"c4"), fate=Closed())))
        read = from_data(json.loads(json.dumps(to_data(closed))))
        assert read == closed
        fate = read.writes[0].fate
        assert isinstance(fate, Named)
        assert fate.round.signatures == named().signatures

    def test_a_set_is_stored_once(self) -> None:
        twice = DERIVABLE_ONCE.with_write(write(b"c2"), DERIVABLE)
        assert json.dumps(to_data(twice)).count(EVERYONE.to_data()) == 1

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("counter", "1"),
            ("more", 1),
            ("status", "open"),
            ("people", None),
            ("people", EVERYONE.name),
            ("withdrawn", "zz"),
            ("writes", [None]),
        ],
    )
    def test_anything_else_is_refused_without_showing_it(self, field: str, value: object) -> None:
        data = to_data(DERIVABLE_ONCE) | {field: value}
        with pytest.raises(StoreError) as caught:
            from_data(data)
        assert caught.value.__cause__ is None

    def test_a_missing_or_exchanged_people_set_is_refused(self) -> None:
        for held in ({}, {EVERYONE.name: people(0, 1).to_data()}):
            with pytest.raises(StoreError, match="node recover"):
                from_data(to_data(DERIVABLE_ONCE) | {"people": held})

    def test_two_sets_of_one_name_are_refused(self) -> None:
        with pytest.raises(StoreError, match="same name"):
            replace(write(), people=(("all", EVERYONE), ("all", people(0, 1))))
