"""A coordinator that lies to one site leaves evidence there that a stranger reads the same way."""

from dataclasses import replace

import pytest

from cohortsum.protocol.context import context_hash, public_inputs
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.evidence import Case
from cohortsum.protocol.messages import (
    Adverts,
    Closing,
    Delivery,
    Envelope,
    GateOpening,
    Kind,
    Message,
    OpenedGate,
    Opening,
    Packet,
)
from cohortsum.protocol.plan import PlannedBlock
from tests.evidence.stories import (
    COORDINATOR_LIES,
    Keeping,
    Watched,
    WatchedFit,
    fit_with_slots,
    gate_with,
    passing_on,
    says,
    then_also,
    told_to_victim,
)
from tests.protocol.consortium import protection
from tests.protocol.lies import VICTIM, N, opened
from tests.protocol.test_suppliers import fiq_values, first_three_supply_fiq


@pytest.mark.parametrize("lie", COORDINATOR_LIES)
def test_every_lie_is_proven_under_its_check(lie: str) -> None:
    check, play = COORDINATOR_LIES[lie]
    played = play()
    assert ("hub", check) in played.found
    assert {accused for accused, _ in played.found} <= {"hub", "site0"}  # site 0 helped with some
    assert {index for index, _ in played.at_sites} == {VICTIM}


def test_two_openings_of_one_round_id_are_two_messages_in_any_contexts() -> None:
    """The context of each follows from what it says, so nothing but the random id shows that one is too many."""

    def fewer(played: Keeping, packet: Packet) -> Packet:
        message, plan = opened(packet), played.plan
        assert isinstance(message, Opening)
        kept = message.approvals[:4]
        inputs = public_inputs(plan.digest, [held.digest for held in kept], ())
        context = context_hash(plan.roster_digest, plan.study_digest, message.key, plan.epoch, inputs)
        return Packet(played.coordinator.setup.signer.sign(context, replace(message, approvals=kept)))

    played = then_also(Kind.OPENING, fewer)
    assert played.found == {("hub", "M5")}


def test_an_advertiser_without_an_approval_is_proven() -> None:
    """Site 4 approved nothing and advertises; the coordinator puts it on the list of the victim."""
    played = Watched(N, members=(0, 1, 2, 3))
    stranger = Watched(N)

    def to_site(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is Kind.ADVERTS:
            message = opened(packet)
            assert isinstance(message, Adverts)
            own = opened(Packet(message.adverts[0]))
            lied = stranger.signers[4].sign(packet.envelope.context, own)
            return passing_on(lambda held: (*held, lied))(played, packet)
        return packet

    played.to_site = to_site
    played.run()
    assert ("hub", "R1.3") in played.found


def test_lists_under_other_adverts_than_those_told_are_proven() -> None:
    """Two faces: the victim is told of four advertisers, and then gets what was dealt among five."""
    played = Watched(N)

    def to_site(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is Kind.ADVERTS:
            return passing_on(lambda held: held[:4])(played, packet)
        return packet

    def to_coordinator(index: int, packet: Packet) -> Packet:
        if packet.envelope.kind is Kind.SHARES:
            dealt[index] = packet.envelope
            if len(dealt) == N:
                everybody = Delivery(tuple(envelope for _, envelope in sorted(dealt.items())))
                signed = played.coordinator.setup.signer.sign(packet.envelope.context, everybody)
                played.queue.append(("site", VICTIM, Packet(signed, (b"",) * N)))
        return packet

    dealt: dict[int, Envelope] = {}
    played.to_site, played.to_coordinator = to_site, to_coordinator
    played.run()
    assert ("hub", "R2.4") in played.found


def test_a_wrong_mask_seed_of_a_dropout_is_proven() -> None:
    played = Watched(N)
    played.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)

    def wrong(message: Message) -> Message:
        assert isinstance(message, GateOpening)
        return GateOpening(message.survivors, {4: message.dropped[4] ^ 1})

    told_to_victim(Kind.GATE_OPENING, says(wrong), played)
    assert played.found == {("hub", "R4.7")}


def test_a_gate_below_the_minimum_is_proven_and_one_below_a_sites_own_is_not() -> None:
    played = Watched(N, protection=protection(min_participants=40))
    played.people = lambda _: 7
    played.coordinator.setup = replace(
        played.coordinator.setup, plan=replace(played.plan, protection=protection(min_participants=1))
    )
    played.run()
    assert played.found == {("hub", "R4.8")}
    assert {finding.sensitive for finding in map(played.finding, played.kept)} == {
        "how many people there were at the gate, over all survivors together"
    }
    strict = Watched(N)
    strict.machines[VICTIM] = strict.site(VICTIM, min_participants=61)
    strict.run()
    assert strict.errors[0][1].check == "R4.8"
    assert strict.kept == []


def test_stricter_thresholds_of_a_site_accuse_nobody() -> None:
    played = Watched(N)
    played.machines[VICTIM] = played.site(VICTIM, min_sites=6)
    played.run()
    assert played.errors[0][1].check == "R1.6"
    assert played.kept == []


def test_survivors_with_too_few_suppliers_of_a_block_are_proven() -> None:
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    played = Watched(N, blocks=blocks, items=("fiq",), supplies=first_three_supply_fiq)
    played.values = fiq_values  # type: ignore[method-assign]
    told_to_victim(Kind.SURVIVORS, passing_on(lambda held: held[1:]), played)
    assert played.found == {("hub", "R3.6")}


def test_a_closing_under_another_statement_is_proven() -> None:
    def wrong(message: Message) -> Message:
        assert isinstance(message, Closing)
        return replace(message, statement=bytes(32))

    assert told_to_victim(Kind.CLOSING, says(wrong)).found == {("hub", "R5.1")}


@pytest.mark.parametrize("kind", [Kind.SURVIVORS, Kind.QUORUM, Kind.GATE_OPENING])
def test_lies_in_an_iteration_whose_secrets_were_dealt_ahead_are_proven(kind: Kind) -> None:
    """They are read behind the adverts and lists of the attempt that dealt."""
    check, lie = {
        Kind.SURVIVORS: ("R3.1", passing_on(lambda held: (held[0], *held))),
        Kind.QUORUM: ("R4.3", passing_on(lambda held: held[:2])),
        Kind.GATE_OPENING: ("R4.6", gate_with("seed")),
    }[kind]
    played = told_to_victim(kind, lie, fit_with_slots())
    assert played.found == {("hub", check)}
    assert played.finding(played.kept[0]).iteration == 3


def test_two_gates_that_name_different_sites_are_not_kept_together() -> None:
    """Both kinds of seed of one site would show its number of people; the second alone is proof enough."""

    def other(message: Message) -> Message:
        assert isinstance(message, GateOpening)
        survivors: dict[int, OpenedGate] = dict(message.survivors)
        gone = survivors.pop(0)
        return GateOpening(survivors, {0: gone.seed})

    played = then_also(Kind.GATE_OPENING, says(other))
    assert played.errors[0][1].check == "M5"
    assert all(sum(m.kind is Kind.GATE_OPENING for m in held.messages) < 2 for held in played.kept)


def test_a_gate_with_the_other_seed_of_a_survivor_is_not_kept() -> None:
    """Should a coordinator ever hold it, a file would hand it to everybody."""

    def both(message: Message) -> Message:
        assert isinstance(message, GateOpening)
        return GateOpening(message.survivors, {0: message.survivors[0].seed})

    def only_the_other(message: Message) -> Message:
        assert isinstance(message, GateOpening)
        survivors = dict(message.survivors)
        return GateOpening(survivors, {0: survivors.pop(0).seed})

    for lie in (both, only_the_other):
        played = told_to_victim(Kind.GATE_OPENING, says(lie))
        assert played.errors[0][1].check == "R4.5"
        assert played.kept == []


def test_a_closing_with_seeds_is_never_kept() -> None:
    def wrong(message: Message) -> Message:
        assert isinstance(message, Closing)
        assert message.data
        return replace(message, statement=bytes(32))

    played = told_to_victim(Kind.CLOSING, says(wrong), WatchedFit(N, protection()))
    assert [error.check for _, error in played.errors] == ["R5.1"]
    assert played.kept == []


def test_an_honest_round_gives_no_evidence() -> None:
    played = Watched(N)
    played.run()
    assert isinstance(played.coordinator.state, Opened)
    assert played.kept == []


def test_each_case_is_told() -> None:
    cases = {held.case for _, play in COORDINATOR_LIES.values() for held in play().kept}
    assert cases == {Case.TWO_MESSAGES, Case.BROKEN_ROUND}
