"""Rounds of two-key mode in memory: the sum of the survivors, equal to masking's, and closed without either lock."""

from dataclasses import replace

import numpy as np
import pytest

from cohortsum.crypto.bfv import STANDARD, DecryptionKey
from cohortsum.crypto.errors import ConfigurationError, CryptoError, LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import Aborted, Combining, Opened
from cohortsum.protocol.effects import CoordinatorEffect
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.unlocking import offer_attachments, offered_key, permit
from cohortsum.protocol.witness import OpenedInputs, recomputed_unlocked, witnessed
from tests.protocol.consortium import Consortium, protection
from tests.protocol.two_key import LockedConsortium, gate_told, offer_of


def test_the_sum_is_the_survivors_and_equals_that_of_masking_bit_for_bit() -> None:
    blocks = (PlannedBlock("powers", 8195, 2**40, "person", ()),)  # into a second ciphertext
    locked, masked = LockedConsortium(5, blocks=blocks), Consortium(5, blocks=blocks)
    for consortium in (locked, masked):
        consortium.before_send = lambda index, packet: (
            not (index == 2 and packet.envelope.kind is Kind.MASKED)
        )
        consortium.run()
    assert isinstance(locked.coordinator.state, Opened)
    assert isinstance(masked.coordinator.state, Opened)
    assert locked.coordinator.state.survivors == (0, 1, 3, 4)
    assert locked.coordinator.state.values.tolist() == masked.coordinator.state.values.tolist()
    assert locked.coordinator.state.values.tolist() == locked.expected((0, 1, 3, 4))
    assert locked.errors == []


@pytest.mark.parametrize("pattern", range(2**4))
def test_every_dropout_pattern_gives_the_survivors_sum_or_nothing(pattern: int) -> None:
    gone = {index for index in range(4) if pattern >> index & 1}
    consortium = LockedConsortium(4)
    consortium.before_send = lambda index, packet: not (index in gone and packet.envelope.kind is Kind.MASKED)
    consortium.run()
    state = consortium.coordinator.state
    left = tuple(index for index in range(4) if index not in gone)
    if len(left) >= 3:
        assert isinstance(state, Opened)
        assert state.survivors == left
        assert state.values.tolist() == consortium.expected(left)
    else:
        assert isinstance(state, Aborted)
        assert consortium.decrypted == []


def test_what_the_trustee_decrypts_is_masked_still_and_what_it_signs_lets_an_auditor_add_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consortium = LockedConsortium(4)
    consortium.before_send = lambda index, packet: not (index == 1 and packet.envelope.kind is Kind.MASKED)
    seeds: dict[str, dict[int, int]] = {}
    combined = consortium.coordinator.combined

    def watched(words: Vector) -> tuple[CoordinatorEffect, ...]:
        state = consortium.coordinator.state
        assert isinstance(state, Combining)
        seeds["data"], seeds["mask"] = dict(state.data_seeds), dict(state.mask_seeds)
        return combined(words)

    monkeypatch.setattr(consortium.coordinator, "combined", watched)
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert consortium.masked_sum is not None
    assert consortium.unlocked is not None
    residues = [value % STANDARD.modulus for value in state.values.tolist()]
    assert consortium.masked_sum.tolist() != residues
    kept = replace(consortium.transcript(), survivors=state.survivors)
    proven = witnessed(kept, consortium.plan, consortium.roster)
    packet = Packet(consortium.unlocked, (consortium.masked_sum.astype("<u8").tobytes(),))
    opened = OpenedInputs({}, seeds["data"], seeds["mask"], packet)
    length, modulus = consortium.numbers, STANDARD.modulus
    again = recomputed_unlocked(proven, opened, length, modulus, consortium.roster)
    assert again.tolist() == state.values.tolist()
    other = Packet(consortium.unlocked, (bytes(8 * length),))
    with pytest.raises(RemoteProtocolError, match="not the one that the trustee decrypted"):
        recomputed_unlocked(proven, replace(opened, unlocked=other), length, modulus, consortium.roster)


def test_a_trustee_handed_one_site_gets_a_uniform_vector() -> None:
    blocks = (PlannedBlock("powers", 8191, 2**40, "person", ()),)
    consortium = LockedConsortium(4, blocks=blocks)
    consortium.run()
    words = consortium.key.decrypt(consortium.uploads[2], consortium.numbers)
    counts = np.bincount((words // np.uint64(STANDARD.modulus // 64 + 1)).astype(np.int64), minlength=64)
    expected = len(words) / 64
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 140, (
        "63 degrees of freedom: above 140 once in ten million times"
    )  # fixed seeds: no flakes
    plain = [value % STANDARD.modulus for value in consortium.values(2, consortium.numbers).tolist()]
    assert not np.any(words == np.array(plain, dtype=np.uint64))


def test_without_the_trustee_nothing_opens_although_every_seed_is_open() -> None:
    consortium = LockedConsortium(4, trusted=False)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    assert "did not decrypt" in consortium.coordinator.state.reason
    assert consortium.coordinator.state.survivors == (0, 1, 2, 3), "a retry is bound to them"


def test_a_ciphertext_of_another_round_or_key_is_refused_by_the_trustee() -> None:
    consortium = LockedConsortium(4)
    other = DecryptionKey.draw(STANDARD)
    consortium.run()
    with pytest.raises(CryptoError, match="another key"):
        other.decrypt(consortium.uploads[0], consortium.numbers)


# K0


def test_sites_take_no_key_but_the_trustees_for_this_very_context() -> None:
    consortium = LockedConsortium(4)
    roster, context = consortium.roster, consortium.context
    good = offer_attachments(consortium.offer)
    assert offered_key(good, context, STANDARD, roster) is not None
    another = DecryptionKey.draw(STANDARD)
    for attachments, sentence in (
        ((), "without the key"),
        (good[:1], "without the key"),
        ((good[0], another.public), "another one than the trustee signed"),
        (offer_attachments(offer_of(bytes(32), roster, another)), "another round"),
        ((good[0], good[1][:-1]), "another one than the trustee signed"),
    ):
        with pytest.raises(RemoteProtocolError, match=sentence):
            offered_key(attachments, context, STANDARD, roster)
    with pytest.raises(RemoteProtocolError, match="does not encrypt"):
        offered_key(good, context, None, roster)
    assert offered_key((), context, None, roster) is None


def test_a_site_that_is_offered_no_key_says_nothing() -> None:
    consortium = LockedConsortium(4)
    consortium.to_site = lambda _, packet: (
        Packet(packet.envelope) if packet.envelope.kind is Kind.OPENING else packet
    )
    consortium.run()
    assert {error.check for _, error in consortium.errors} == {
        "K0",
        "M4",
    }  # M4: the end of a round that none of them is in
    assert consortium.uploads == {}


def test_two_keys_for_one_context_are_two_openings_and_the_second_is_refused() -> None:
    consortium = LockedConsortium(4)
    site = consortium.machines[0]
    site.receive(Packet(consortium.coordinator.opening, offer_attachments(consortium.offer)))
    second = offer_of(consortium.context, consortium.roster, DecryptionKey.draw(STANDARD))
    with pytest.raises(RemoteProtocolError, match="M5"):
        site.receive(Packet(consortium.coordinator.opening, offer_attachments(second)))


def test_a_coordinator_invites_nobody_without_a_key_and_takes_none_but_the_trustees() -> None:
    consortium = LockedConsortium(4)
    bare = CoordinatorRound(consortium.coordinator.setup, consortium.coordinator_key)
    with pytest.raises(LocalProtocolError, match="K0"):
        bare.open()
    with pytest.raises(RemoteProtocolError, match="another round"):
        bare.lock(offer_of(bytes(32), consortium.roster, consortium.key))
    masked = Consortium(4)
    with pytest.raises(LocalProtocolError, match="does not encrypt"):
        masked.coordinator.lock(consortium.offer)


# K1, K2, K4


def test_the_trustee_opens_no_second_set_of_a_study_and_nothing_that_too_few_signed() -> None:
    consortium = LockedConsortium(5)
    consortium.run()
    (request,) = consortium.asked
    assert request.gate == gate_told(consortium)
    plan, roster = consortium.plan, consortium.roster
    assert permit(request, plan, roster, [(0, 1, 2, 3, 4)]).survivors == (0, 1, 2, 3, 4)
    with pytest.raises(RemoteProtocolError, match="K4"):
        permit(request, plan, roster, [(0, 1, 2, 3)])
    few = replace(request.transcript, consistency=request.transcript.consistency[:1])
    with pytest.raises(RemoteProtocolError, match=r"R4\.3"):
        permit(replace(request, transcript=few), plan, roster, ())
    fewer = replace(request.transcript, survivors=(0, 1, 2, 3))
    with pytest.raises(RemoteProtocolError, match=r"R4\.3"):
        permit(replace(request, transcript=fewer), plan, roster, ())
    with pytest.raises(RemoteProtocolError, match="M"):
        permit(replace(request, gate=request.transcript.opening), plan, roster, ())


def test_a_gate_below_the_least_is_refused_by_the_trustee_too() -> None:
    demanding = protection(min_participants=50)
    consortium = LockedConsortium(4, protection=demanding)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    assert consortium.decrypted == []


# The plan


def test_the_modulus_is_the_prime_and_the_plan_says_so() -> None:
    consortium = LockedConsortium(4)
    plan = consortium.plan
    assert plan.modulus == STANDARD.modulus
    assert plan.digest != replace(plan, encryption=None).digest
    assert plan.upload_words(plan.blocks) == STANDARD.words(plan.length)
    wide = (PlannedBlock("wide", 1, 2**50, "person", ()),)
    with pytest.raises(ConfigurationError, match=f"wrap modulo {STANDARD.modulus}"):
        replace(plan, blocks=(plan.blocks[0], *wide))
    with pytest.raises(ConfigurationError, match="one round"):
        replace(plan, seen=True)
