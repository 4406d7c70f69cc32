"""Iterations: sums that sites recompute, parameters bound into the context, and secrets dealt ahead for several of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cohortsum.crypto.masks import add_masks
from cohortsum.protocol import site
from cohortsum.protocol.ahead import commitments_for
from cohortsum.protocol.context import slot_context
from cohortsum.protocol.coordinator_states import Aborted, CoordinatorState, Opened
from cohortsum.protocol.masking import words_to_bytes
from cohortsum.protocol.messages import Advert, Adverts, Closing, Kind, Opening, Packet, Shares
from cohortsum.protocol.seeds import HeldShares, self_mask_key
from tests.protocol.consortium import Consortium, protection
from tests.protocol.iterations import EVERYBODY, Attempted, N, after, first, parameter_of
from tests.protocol.lies import first_errors, opened, resign


def run(attempt: Attempted) -> Attempted:
    attempt.run()
    return attempt


def one_more(parameter: int) -> int:
    return parameter + 1


def stopped_at(attempt: Attempted) -> dict[int, str]:
    """Return the check that each site stopped at."""
    return {index: error.check for index, error in first_errors(attempt).items()}


def values_of(attempt: Attempted) -> list[int]:
    state = attempt.coordinator.state
    assert isinstance(state, Opened), state
    return [int(value) for value in state.values]


def test_every_site_recomputes_the_sum_and_goes_on_from_it() -> None:
    attempt = run(first())
    for iteration in (2, 3, 4):
        state = attempt.coordinator.state
        assert isinstance(state, Opened)
        assert set(attempt.seen_sums) == set(EVERYBODY)
        assert all(np.array_equal(state.values, seen) for seen in attempt.seen_sums.values())
        attempt = run(after(attempt))
        assert attempt.coordinator.setup.plan.iteration == iteration
        assert values_of(attempt) == attempt.expected(EVERYBODY)


def test_a_sum_with_dropouts_is_recomputed_too() -> None:
    attempt = first()

    def before_send(index: int, packet: Packet) -> bool:
        if index == 1 and packet.envelope.kind is Kind.MASKED:
            attempt.down.add(1)
            return False
        return True

    attempt.before_send = before_send
    run(attempt)
    survivors = (0, 2, 3, 4)
    assert values_of(attempt) == attempt.expected(survivors)
    assert set(attempt.seen_sums) == set(survivors)
    assert all(seen.tolist() == values_of(attempt) for seen in attempt.seen_sums.values())


def test_iterations_after_the_second_need_no_new_keys_or_shares() -> None:
    attempt = run(after(run(first()), ahead=3))
    kinds_sent: list[set[Kind]] = []
    for slot in (1, 2, 3):
        attempt = run(after(attempt))
        assert attempt.slot == slot
        assert values_of(attempt) == attempt.expected(EVERYBODY)
        kinds_sent.append({packet.envelope.kind for _, _, packet in attempt.log})
    expected = {
        *(Kind.OPENING, Kind.MASKED, Kind.SURVIVORS, Kind.CONSISTENCY, Kind.QUORUM),
        *(Kind.GATE_SHARES, Kind.GATE_OPENING, Kind.DATA_SHARES, Kind.CLOSING),
    }
    assert kinds_sent == [expected] * 3


def test_one_parameter_binds_the_masks_of_every_slot() -> None:
    """The same slot under another parameter has other masks: nothing of one attempt fits another."""
    second = run(after(run(first()), ahead=2))
    one, other = after(second), after(second, told=one_more)
    assert one.coordinator.fixed.context != other.coordinator.fixed.context
    run(one)
    assert values_of(one) == one.expected(EVERYBODY)


@pytest.mark.parametrize("ahead", [0, 2], ids=["dealt anew", "dealt ahead"])
def test_a_coordinator_that_chooses_the_parameter_is_refused_by_every_site_before_it_computes(
    ahead: int,
) -> None:
    second = run(after(run(first()), ahead=ahead))
    lying = after(second, told=one_more)
    contributed: list[int] = []

    def before_send(index: int, _: Packet) -> bool:
        contributed.append(index)
        return True

    lying.before_send = before_send
    run(lying)
    assert stopped_at(lying) == dict.fromkeys(EVERYBODY, "R5.2")
    assert contributed == []
    assert isinstance(lying.coordinator.state, Aborted)


def announce(attempt: Attempted, change: str) -> None:
    """Let the coordinator close with a lie, truly signed."""

    def to_site(_: int, packet: Packet) -> Packet:
        if packet.envelope.kind is not Kind.CLOSING:
            return packet
        closing = opened(packet)
        assert isinstance(closing, Closing)
        words = list(packet.attachments)
        match change:
            case "another sum":
                closing = replace(closing, result_digest=bytes(32))
            case "another input":
                words[2] = bytes([words[2][0] ^ 1]) + words[2][1:]
            case "another seed":
                closing = replace(closing, data={**closing.data, 2: closing.data[2] ^ 1})
            case "without a survivor":
                closing = replace(closing, data={k: v for k, v in closing.data.items() if k != 2})
                del words[2]
            case "an input too few":
                del words[2]
            case "a dropout that was none":
                closing = replace(closing, mask={1: 5})
            case _:
                words[2] = words[2] + bytes(8)
        return resign(attempt, Packet(packet.envelope, tuple(words)), closing)

    attempt.to_site = to_site


@pytest.mark.parametrize(
    "lie",
    [
        "another sum",
        "another input",
        "another seed",
        "without a survivor",
        "an input too few",
        "a dropout that was none",
        "a longer input",
    ],
)
def test_a_false_sum_is_caught_by_every_site_and_nobody_can_be_led_on(lie: str) -> None:
    attempt = first()
    announce(attempt, lie)
    run(attempt)
    assert stopped_at(attempt) == dict.fromkeys(EVERYBODY, "R5.0")
    assert attempt.seen_sums == {}


def test_sums_of_a_round_that_feeds_nothing_are_not_taken() -> None:
    consortium = Consortium(N)

    def to_site(_: int, packet: Packet) -> Packet:
        if packet.envelope.kind is not Kind.CLOSING:
            return packet
        closing = opened(packet)
        assert isinstance(closing, Closing)
        words = tuple(words_to_bytes(consortium.uploads[index]) for index in EVERYBODY)
        return resign(
            consortium, Packet(packet.envelope, words), replace(closing, data=dict.fromkeys(EVERYBODY, 1))
        )

    consortium.to_site = to_site
    consortium.run()
    assert {index: error.check for index, error in first_errors(consortium).items()} == dict.fromkeys(
        EVERYBODY, "R5.0"
    )


def test_an_iteration_may_lose_a_site_but_never_gain_one() -> None:
    second = run(after(run(first())))
    fewer = run(after(second, members=(0, 1, 2, 4), coordinator_bound=(0, 1, 2, 4), dealt=None, slot=0))
    assert values_of(fewer) == fewer.expected((0, 1, 2, 4))
    again = after(fewer, members=EVERYBODY, coordinator_bound=EVERYBODY, dealt=None, slot=0)
    again = replace_parameters(again, parameter_of(next(iter(fewer.seen_sums.values()))))
    run(again)
    assert set(stopped_at(again).values()) == {"R0.14"}


def replace_parameters(attempt: Attempted, parameter: int) -> Attempted:
    """Return the attempt with every site at this parameter, those that were away too."""
    return Attempted(
        sites=attempt.sites,
        protection=attempt.protection,
        members=attempt.members,
        coordinator_bound=attempt.coordinator_bound,
        iteration=attempt.iteration,
        parameters=dict.fromkeys(EVERYBODY, parameter),
        previous=attempt.previous,
        seed=attempt.seed,
    )


def test_another_iteration_than_a_site_stands_at_is_refused() -> None:
    second = after(run(first()))
    skipping = after(run(first()), iteration=3)
    for index in EVERYBODY:
        skipping.machines[index] = second.machines[index]
    run(skipping)
    assert stopped_at(skipping) == dict.fromkeys(EVERYBODY, "R0.13")


def test_a_slot_is_spent_once_and_never_goes_back() -> None:
    second = run(after(run(first()), ahead=3))
    third = run(after(second, slot=2))
    assert values_of(third) == third.expected(EVERYBODY)
    for slot in (1, 2, 4):
        again = run(after(third, slot=slot))
        assert stopped_at(again) == dict.fromkeys(EVERYBODY, "R0.16"), slot
    assert values_of(run(after(third, slot=3)))


def test_secrets_dealt_ahead_serve_nobody_else() -> None:
    second = run(after(run(first()), ahead=2))
    four = after(second, coordinator_bound=(0, 1, 2, 3), members=(0, 1, 2, 3))
    run(four)
    assert set(stopped_at(four).values()) == {"R0.16"}
    stranger = run(after(second, held={}))
    assert stopped_at(stranger) == dict.fromkeys(EVERYBODY, "R0.16")


def test_nothing_is_dealt_ahead_in_the_first_round_or_of_secrets_dealt_ahead() -> None:
    early = run(first(ahead=2))
    assert stopped_at(early) == dict.fromkeys(EVERYBODY, "R0.15")
    second = run(after(run(first()), ahead=2))
    nested = run(after(second, ahead=2))
    assert stopped_at(nested) == dict.fromkeys(EVERYBODY, "R0.15")


def test_a_dealer_that_commits_to_other_slots_than_it_seals_is_named(monkeypatch: pytest.MonkeyPatch) -> None:

    def lying(context: bytes, slots: Sequence[HeldShares], dealer: int, holder: int) -> tuple[bytes, ...]:
        parts = commitments_for(context, slots, dealer, holder)
        return (*parts[:-1], bytes(32)) if dealer == 1 else parts

    attempt = after(run(first()), ahead=2)
    monkeypatch.setattr(site, "commitments_for", lying)
    run(attempt)
    assert {error.check for _, error in attempt.errors} >= {"R2.7"}
    assert all(error.accused == "site1" for _, error in attempt.errors if error.check == "R2.7")
    assert attempt.uploads == {}


def test_an_advert_with_fewer_slots_costs_its_sender_its_place() -> None:
    attempt = after(run(first()), ahead=2, protection=protection())

    def to_coordinator(index: int, packet: Packet) -> Packet:
        if index == 1 and packet.envelope.kind is Kind.ADVERT:
            advert = opened(packet)
            assert isinstance(advert, Advert)
            return Packet(attempt.signers[1].sign(packet.envelope.context, replace(advert, ahead=b"")))
        return packet

    attempt.to_coordinator = to_coordinator
    run(attempt)
    assert ("R1.10", "site1") in {(audit.check, audit.sender) for audit in attempt.audits}


def test_slots_have_keys_commitments_and_shares_of_their_own() -> None:
    second = run(after(run(first()), ahead=3))
    (adverts,) = {
        packet.envelope.digest: opened(packet)
        for _, _, packet in second.log
        if packet.envelope.kind is Kind.ADVERTS
    }.values()
    assert isinstance(adverts, Adverts)
    parts: list[bytes] = []
    for envelope in adverts.adverts:
        advert = opened(Packet(envelope))
        assert isinstance(advert, Advert)
        ahead = advert.ahead
        parts += [ahead[start : start + 32] for start in range(0, len(ahead), 32)]
    assert len(parts) == 3 * 3 * N
    assert len(set(parts)) == len(parts)
    shares = [
        opened(packet)
        for where, _, packet in second.log
        if where == "coordinator" and packet.envelope.kind is Kind.SHARES
    ]
    columns = [held.ahead_commitments for held in shares if isinstance(held, Shares)]
    pieces = [column[start : start + 32] for column in columns for start in range(0, len(column), 32)]
    assert len(pieces) == 3 * 3 * N * N
    assert len(set(pieces)) == len(pieces)
    context = second.coordinator.fixed.context
    assert len({slot_context(context, slot) for slot in range(4)} | {context}) == 5


def test_what_is_not_spent_is_wiped() -> None:
    second = run(after(run(first()), ahead=3))
    third = run(after(second, slot=2))
    held = third.held[0]
    with pytest.raises(ValueError, match="wiped"):
        held.seeds[0].element("data")  # skipped
    with pytest.raises(ValueError, match="wiped"):
        held.seeds[1].element("data")  # spent and closed
    assert held.has(3)
    held.wipe()
    assert not held.has(3)
    with pytest.raises(ValueError, match="wiped"):
        held.seeds[2].element("data")


def test_a_late_upload_cannot_be_opened_with_seeds_of_the_slot_it_did_not_use() -> None:
    """Opened seeds of one iteration say nothing about a vector of another: they belong to other slots."""
    second = run(after(run(first()), ahead=2))
    third, fourth = run(after(second)), None
    fourth = run(after(third))
    closing = next(opened(packet) for _, _, packet in third.log if packet.envelope.kind is Kind.CLOSING)
    assert isinstance(closing, Closing)
    masked = fourth.uploads[0].copy()
    seed = closing.data[0]
    key = self_mask_key(fourth.coordinator.fixed.context, "data", 0, seed)
    add_masks(masked, (), (key,))
    truth = fourth.values(0, fourth.coordinator.length).view(np.uint64)
    assert not np.any(masked == truth)


def test_a_round_of_a_one_round_study_is_as_it_was() -> None:
    """Nothing of iterations is on the wire where there are none."""
    consortium = Consortium(N)
    consortium.run()
    for _, _, packet in consortium.log:
        message = opened(packet)
        match message:
            case Opening():
                assert (message.plan, message.ahead, message.dealt, message.slot) == (b"", 0, b"", 0)
            case Closing():
                assert (dict(message.data), dict(message.mask), packet.attachments) == ({}, {}, ())
            case _:
                pass
    state: CoordinatorState = consortium.coordinator.state
    assert isinstance(state, Opened)
