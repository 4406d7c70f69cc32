"""False evidence is refused: altered bytes, foreign keys, and whatever can be put together from what honest parties signed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.sealing import unseal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.evidence import Case, Evidence, Finding, Refusal, evidence_from_bytes
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.evidence_making import of_answer
from cohortsum.protocol.evidence_round import BEFORE
from cohortsum.protocol.messages import Abort, DataShares, Envelope, GateShares, Kind, Packet, Shares
from cohortsum.protocol.roster import Role
from cohortsum.protocol.seeds import sealing_data
from tests.evidence.stories import (
    COORDINATOR_LIES,
    Keeping,
    Watched,
    answering,
    fit_with_slots,
    told_to_victim,
    two_signatures,
)
from tests.evidence.test_site_lies import LIAR, another_share, lying_dealer, wrong_gate
from tests.protocol.lies import N, flip, opened


@cache
def kept() -> tuple[tuple[Keeping, bytes], ...]:
    """Return true evidence of every case."""
    with pytest.MonkeyPatch.context() as patch:
        lying_dealer(patch, another_share)
        dealt = Watched(N)
        dealt.run()
    plays = [
        dealt,
        answering(LIAR, wrong_gate),
        told_to_victim(Kind.QUORUM, two_signatures),
        COORDINATOR_LIES["survivors"][1](),
        COORDINATOR_LIES["gate seed"][1](),
    ]
    return tuple((played, held.to_bytes()) for played in plays for held in played.kept)


def refused(played: Keeping, data: bytes) -> bool:
    return isinstance(check_evidence(data, played.roster, played.plan), Refusal)


def test_there_is_evidence_of_every_case() -> None:
    assert {evidence_from_bytes(data).case for _, data in kept()} == set(Case)
    assert all(not refused(played, data) for played, data in kept())


@given(st.data())
@settings(max_examples=300)
def test_a_flipped_bit_anywhere_is_refused(data: st.DataObject) -> None:
    played, true = data.draw(st.sampled_from(kept()))
    at, bit = data.draw(st.integers(0, len(true) - 1)), data.draw(st.integers(0, 7))
    assert refused(played, true[:at] + bytes([true[at] ^ 1 << bit]) + true[at + 1 :])


def test_every_byte_of_the_smallest_counts() -> None:
    played, true = min(kept(), key=lambda pair: len(pair[1]))
    assert all(refused(played, flip(true, at)) for at in range(len(true)))


@given(st.data())
@settings(max_examples=100)
def test_a_piece_or_more_of_it_is_refused(data: st.DataObject) -> None:
    played, true = data.draw(st.sampled_from(kept()))
    cut = data.draw(st.integers(0, len(true) - 1))
    assert refused(played, true[:cut])
    assert refused(played, true + data.draw(st.binary(min_size=1, max_size=40)))


@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert refused(kept()[0][0], data)


@pytest.mark.parametrize("place", range(5))
def test_evidence_is_about_one_study_and_roster(place: int) -> None:
    played, true = kept()[place]
    other = replace(played.plan, study_digest=bytes(32))
    assert isinstance(check_evidence(true, played.roster, other), Refusal)
    assert isinstance(check_evidence(true, played.roster, replace(played.plan, epoch="2020-01")), Refusal)


@pytest.mark.parametrize("check", ["R2.6", "R4.4", "M1", "", "R9"])
def test_the_check_that_is_named_must_be_the_one_that_is_broken(check: str) -> None:
    for played, true in kept():
        evidence = evidence_from_bytes(true)
        if evidence.check != check:
            assert refused(played, replace(evidence, check=check).to_bytes())


@cache
def honest() -> tuple[Keeping, tuple[Envelope, ...], tuple[bytes, ...]]:
    """Return a round, and everything that was signed in it and in others by honest parties, with all ciphertexts.

    The second round has the same keys, study and sites with one dropout; in the third, site 0 lied to everybody it could.
    """
    everything: list[Envelope] = []
    ciphertexts: list[bytes] = []
    first, second = Watched(N), Watched(N, seed="another")
    second.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)
    for played in (first, second, lied_to()):
        played.run()
        for _, _, packet in played.log:
            everything.append(packet.envelope)
            if packet.envelope.kind is Kind.SHARES:
                ciphertexts += packet.attachments
    genuine = {envelope.digest: envelope for envelope in everything}
    return first, tuple(genuine.values()), tuple(ciphertexts)


def lied_to() -> Watched:
    """Return a round in which site 0 sends something else in the place of all its messages, truly signed."""
    played = Watched(N, seed="third")

    def to_coordinator(index: int, packet: Packet) -> Packet:
        if index != 0 or packet.envelope.kind is Kind.ADVERT:
            return packet
        message = opened(packet)
        if isinstance(message, Shares):
            message = replace(message, gate_commitments=flip(message.gate_commitments, 40))
        elif isinstance(message, GateShares | DataShares):
            message = replace(message, statement=bytes(32))
        return Packet(played.signers[0].sign(packet.envelope.context, message), packet.attachments)

    played.to_coordinator = to_coordinator
    return played


def pool(kind: Kind) -> st.SearchStrategy[Envelope]:
    return st.sampled_from([envelope for envelope in honest()[1] if envelope.kind is kind])


@st.composite
def put_together(draw: st.DrawFn) -> Evidence:
    """Draw evidence from messages that were truly signed, in the shape of any case."""
    case: Case = draw(st.sampled_from(list(Case)))
    opening = draw(pool(Kind.OPENING))
    holder, ciphertext, key = 0, b"", b""
    if case is Case.TWO_MESSAGES:
        kind = draw(st.sampled_from(honest()[1])).kind
        messages: Sequence[Envelope] = sorted(
            (draw(pool(kind)), draw(pool(kind))), key=lambda held: (held.context, held.payload)
        )
    elif case is Case.BROKEN_ROUND:
        last = draw(st.sampled_from(list(BEFORE)))
        messages = [draw(pool(kind)) for kind in (*BEFORE[last], last)]
    elif case is Case.BAD_ANSWER:
        lists = draw(st.lists(pool(Kind.SHARES), min_size=1, max_size=N))
        masked = draw(st.lists(pool(Kind.MASKED), min_size=1, max_size=N))
        messages = [*lists, *masked, draw(pool(draw(st.sampled_from([Kind.GATE_SHARES, Kind.DATA_SHARES]))))]
    elif draw(st.booleans()):
        messages = [draw(pool(Kind.ADVERTS)), draw(pool(Kind.SHARES))]
    else:
        messages, holder = [draw(pool(Kind.SHARES))], draw(st.integers(0, N))
        ciphertext = draw(st.sampled_from(honest()[2]))
        key = draw(st.binary(min_size=44, max_size=44))
    check = draw(st.sampled_from(["M5", "R1.2", "R2.4", "R2.6", "R2.7", "R3.1", "R4.4", "R4.9", "R4.13"]))
    return Evidence(case, check, opening, tuple(messages), holder, ciphertext, key)


@given(put_together())
@settings(max_examples=400)
def test_what_honest_parties_signed_never_accuses_them(evidence: Evidence) -> None:
    found = check_evidence(evidence.to_bytes(), honest()[0].roster, honest()[0].plan)
    assert isinstance(found, Refusal) or found.accused == "site0"


def test_no_message_that_a_coordinator_sends_in_any_round_of_ours_breaks_anything() -> None:
    """Every chain of what one site was told, as it was told, in rounds with dropouts, liars and slots."""
    slots = fit_with_slots()
    slots.run()
    dealing = {held.kind: held for held in next(iter(slots.held.values())).told}
    dropping = Watched(N)
    dropping.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)
    dropping.run()
    lied = lied_to()
    lied.run()
    chains = 0
    for played in (slots, dropping, lied):
        for site in range(N):
            sent = {p.envelope.kind: p.envelope for w, i, p in played.log if (w, i) == ("site", site)}
            told = dealing | sent if played is slots else sent
            for last in BEFORE.keys() & sent.keys():
                messages = tuple(told[kind] for kind in (*BEFORE[last], last))
                evidence = Evidence(Case.BROKEN_ROUND, "R4.4", told[Kind.OPENING], messages)
                found = check_evidence(evidence.to_bytes(), played.roster, played.plan)
                assert isinstance(found, Refusal)
                assert "breaks nothing" in found.reason
                chains += 1
    assert chains > 50


def test_a_dealer_that_signs_two_lists_cannot_frame_whoever_answers() -> None:
    """The answer names the list that its sender had checked: beside another one of the same dealer it proves nothing."""
    played = Watched(N)
    played.run()
    by_kind = {
        kind: sorted(
            (p.envelope for w, _, p in played.log if w == "coordinator" and p.envelope.kind is kind),
            key=lambda held: held.sender,
        )
        for kind in (Kind.SHARES, Kind.MASKED, Kind.GATE_SHARES)
    }
    lists, masked, answers = by_kind.values()
    true = opened(Packet(lists[0]))
    assert isinstance(true, Shares)
    lied = played.signers[0].sign(
        lists[0].context, replace(true, gate_commitments=bytes(len(true.gate_commitments)))
    )
    opening = played.coordinator.opening
    assert of_answer(opening, lists, masked, answers[2], played.roster, played.plan) == ()
    assert of_answer(opening, [lied, *lists[1:]], masked, answers[2], played.roster, played.plan) == ()


def test_a_holder_cannot_frame_a_dealer_with_another_key_or_ciphertext() -> None:
    played = kept()[0][0]
    evidence = evidence_from_bytes(kept()[0][1])
    assert evidence.case is Case.BAD_SHARES
    other = next(
        p for w, i, p in played.log if w == "coordinator" and i == 2 and p.envelope.kind is Kind.SHARES
    )
    for lie in (
        replace(evidence, key=bytes(44)),
        replace(evidence, holder=2),
        replace(evidence, messages=(other.envelope,)),
        replace(evidence, messages=(other.envelope,), ciphertext=other.attachments[1]),
        replace(evidence, ciphertext=other.attachments[1]),
    ):
        assert refused(played, lie.to_bytes())


def test_the_key_in_a_file_opens_one_ciphertext_and_no_other() -> None:
    played = kept()[0][0]
    evidence = evidence_from_bytes(kept()[0][1])
    opens: list[tuple[int, int]] = []
    for where, dealer, packet in played.log:
        message = opened(packet)
        if where != "coordinator" or not isinstance(message, Shares):
            continue
        for holder, ciphertext in zip(message.holders, packet.attachments, strict=True):
            associated = sealing_data(evidence.context, message.adverts_digest, dealer, holder)
            try:
                unseal(SecretBytes(evidence.key, "key"), ciphertext, associated)
            except AuthenticationError:
                continue
            opens.append((dealer, holder))
    assert opens == [(LIAR, 1)]


def test_a_site_accuses_nobody_for_what_it_may_sign_again() -> None:
    """An approval may be given anew, and a complaint or an abort harms nobody."""
    played = Watched(N)
    played.run()
    hub, context = played.coordinator.setup.signer, played.coordinator.fixed.context
    low, high = sorted(
        (hub.sign(context, Abort("one")), hub.sign(context, Abort("another"))), key=lambda held: held.payload
    )
    evidence = Evidence(Case.TWO_MESSAGES, "M5", played.coordinator.opening, (low, high))
    assert refused(played, evidence.to_bytes())


def test_a_finding_holds_no_secret_of_the_file() -> None:
    for played, data in kept():
        found = check_evidence(data, played.roster, played.plan)
        assert isinstance(found, Finding)
        evidence = evidence_from_bytes(data)
        assert evidence.key.hex() not in repr(evidence) or not evidence.key
        for message in evidence.messages:
            assert message.payload.hex() not in repr(found)
        assert played.roster.identities[found.accused].role in (Role.SITE, Role.COORDINATOR)
