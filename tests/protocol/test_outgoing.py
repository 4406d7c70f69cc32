"""What may leave: every true message of whole rounds passes, and nothing planted in any field of any message does."""

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import LocalProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.protocol import outgoing
from cohortsum.protocol.approvals import decline
from cohortsum.protocol.messages import (
    Abort,
    Approval,
    Burial,
    Complaint,
    DataShares,
    Envelope,
    GateOpening,
    Kind,
    MaskedInput,
    Message,
    NotTakingPart,
    OpenedGate,
    Opening,
    Packet,
    Regimen,
    Shares,
    Tombstone,
)
from cohortsum.protocol.outgoing import FROM_SITES, RULES, check_message, check_packet
from cohortsum.protocol.outgoing_fields import Known, looks_random
from cohortsum.protocol.plan import PlannedBlock
from tests.protocol.consortium import Consortium
from tests.protocol.iterations import after, first
from tests.protocol.lies import opened
from tests.protocol.two_key import LockedConsortium

PROFILES = frozenset({"dpuk", "open_data"})
SUBJECT = "sub-0042"
NHS = 9434765919
TEXTS = (
    SUBJECT,
    "/data/bids/sub-0042/anat/T1w.nii.gz",
    "Doe, Jane 1951-03-07",
    "0042\tM\t3411.5\n",
    "é" * 16,
)
PLANTS: tuple[object, ...] = (
    *TEXTS,
    *(text.encode() for text in TEXTS),
    SUBJECT.encode().ljust(32, b"\0"),
    (SUBJECT * 4).encode(),
    np.array([3411.5, 2980.0, 3122.25, 0.0]).tobytes(),
    np.array([3411, 2980, 3122, 42]).astype("<i8").tobytes(),
    NHS,
    -1,
    3411.5,
    None,
    [SUBJECT],
    (SUBJECT,),
    (NHS,),
    {0: NHS},
    {0: SUBJECT},
    {SUBJECT: 2**200 + 12345},
    {NHS: 2**200 + 12345},
    {0: OpenedGate(SUBJECT.encode(), NHS)},
    np.arange(4),
    np.int64(4),
)


def known_of(consortium: Consortium) -> Known:
    """Return what both ends of every line know in an attempt."""
    machine = consortium.coordinator
    return Known(
        machine.setup.plan,
        consortium.roster,
        PROFILES,
        frozenset({machine.fixed.context, *({machine.setup.dealt.context} if machine.setup.dealt else ())}),
        machine.fixed.blocks,
    )


def words_of(consortium: Consortium, index: int, packet: Packet) -> Vector | None:
    return consortium.uploads.get(index) if packet.envelope.kind is Kind.MASKED else None


def played() -> list[Consortium]:
    """Return rounds in which every kind of message travels: dropouts, iterations, secrets dealt ahead, an abort."""
    plain = Consortium(
        5,
        blocks=(PlannedBlock("powers", 60, 2**40, "person", (frozenset({"age"}),)),),
        items=("age", "bmi"),
        supplies=lambda _: frozenset({"age"}),
    )
    plain.run()
    lossy = Consortium(5)

    def before_send(index: int, packet: Packet) -> bool:
        if index == 1 and packet.envelope.kind is Kind.MASKED:
            lossy.down.add(1)
        return index not in lossy.down

    lossy.before_send = before_send
    lossy.run()
    aborted = Consortium(5)
    aborted.to_coordinator = lambda index, packet: (
        packet if index < 3 or packet.envelope.kind in (Kind.ADVERT, Kind.TOMBSTONE) else None
    )
    aborted.run()
    fit = first()
    fit.run()
    second = after(fit, ahead=2)
    second.run()
    third = after(second)
    third.run()
    locked = LockedConsortium(5)
    locked.run()
    return [plain, lossy, aborted, fit, second, third, locked]


@cache
def samples() -> dict[type[object], tuple[Message, Known]]:
    """Return one true message of every type."""
    found: dict[type[object], tuple[Message, Known]] = {}
    for consortium in played():
        known = known_of(consortium)
        for _, _, packet in consortium.log:
            message = opened(packet)
            if not isinstance(message, Burial | Complaint):
                found.setdefault(type(message), (message, known))
    consortium = Consortium(5)
    consortium.run()
    known = known_of(consortium)
    plan, context = consortium.plan, consortium.coordinator.fixed.context
    stones = tuple(signer.sign(context, Tombstone()) for signer in consortium.signers.values())
    others: tuple[Message, ...] = (
        Burial(stones),
        Complaint("R2.7", "site3"),
        NotTakingPart(plan.study_digest, plan.roster_digest),
        Approval(plan.study_digest, plan.roster_digest, Regimen("dpuk"), b""),
    )
    return found | {type(message): (message, known) for message in others}


def refused(message: object, known: Known) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        check_message(message, known)
    assert caught.value.check == "O1"
    return str(caught.value)


def test_every_message_type_and_every_field_has_a_rule() -> None:
    assert set(RULES) == set(get_args(Message))
    for kind in get_args(Message):
        assert RULES[kind].keys() == {one.name for one in fields(kind)}, kind.__name__
    assert samples().keys() == RULES.keys()


def test_every_packet_of_whole_rounds_passes() -> None:
    kinds: set[Kind] = set()
    for consortium in played():
        known = known_of(consortium)
        for where, index, packet in consortium.log:
            kinds.add(packet.envelope.kind)
            assert (packet.envelope.kind in FROM_SITES) is (where == "coordinator")
            check_packet(packet, known, words_of(consortium, index, packet))
        for envelope in consortium.approvals.values():
            check_packet(Packet(envelope), replace(known, contexts=frozenset(), blocks=None))
        no = decline(consortium.signers[0], consortium.plan)
        check_packet(Packet(no), replace(known, contexts=frozenset(), blocks=None))
    assert kinds >= set(Kind) - {Kind.APPROVAL, Kind.NOT_TAKING_PART, Kind.COMPLAINT}


@pytest.mark.parametrize("kind", get_args(Message), ids=lambda kind: str(kind.__name__))
def test_nothing_planted_in_any_field_leaves(kind: type[Message]) -> None:
    message, known = samples()[kind]
    check_message(message, known)
    for one in fields(message):
        for plant in PLANTS:
            planted = replace(message, **{one.name: plant})  # type: ignore[arg-type]  # of a wrong type on purpose
            sentence = refused(planted, known)
            assert f"{kind.__name__}.{one.name} " in sentence
            for secret in (SUBJECT, str(NHS), "Doe", "3411", "bids"):
                assert secret not in sentence


def test_a_part_of_a_column_or_a_share_among_others_is_found() -> None:
    shares, known = samples()[Shares]
    assert isinstance(shares, Shares)
    for name in ("ciphertext_digests", "mask_commitments", "gate_commitments", "data_commitments"):
        column = getattr(shares, name)
        planted = column[:64] + SUBJECT.encode().rjust(32) + column[96:]
        assert f"Shares.{name}" in refused(replace(shares, **{name: planted}), known)
        assert f"Shares.{name}" in refused(replace(shares, **{name: column[:-32]}), known)
    assert "Shares.holders" in refused(replace(shares, holders=shares.holders[::-1]), known)
    opening, known = samples()[GateOpening]
    assert isinstance(opening, GateOpening)
    owner, gate = next(iter(opening.survivors.items()))
    for wrong in (replace(gate, words=SUBJECT.encode() * 2), replace(gate, seed=NHS)):
        planted = {**opening.survivors, owner: wrong}
        assert "GateOpening.survivors" in refused(replace(opening, survivors=planted), known)


def test_names_and_indices_are_those_of_the_roster_and_bits_those_of_items() -> None:
    complaint, known = samples()[Complaint]
    assert isinstance(complaint, Complaint)
    for accused in ("hub", "site9"):
        assert "Complaint.accused" in refused(replace(complaint, accused=accused), known)
    shares, known = samples()[DataShares]
    assert isinstance(shares, DataShares)
    assert "DataShares.data" in refused(replace(shares, data={**shares.data, 99: shares.data[0]}), known)
    assert "DataShares.data" in refused(replace(shares, data={**shares.data, 0: 2**255 - 1}), known)
    two = replace(known, plan=replace(known.plan, items=("age", "bmi")))
    approval = Approval(two.plan.study_digest, two.plan.roster_digest, Regimen("dpuk"), b"\x03")
    check_message(approval, two)
    for bits in (b"\x04", b"\x83", b"\x03\0", b""):
        assert "Approval.supplies" in refused(replace(approval, supplies=bits), two)


def test_a_signed_message_inside_another_is_judged_like_one_outside() -> None:
    """An approval that names a profile nobody has: signed truly, and still no word for the wire."""
    opening, known = samples()[Opening]
    assert isinstance(opening, Opening)
    consortium = Consortium(5)
    signer = consortium.signers[2]
    plan = known.plan
    bad = Approval(plan.study_digest, plan.roster_digest, Regimen(SUBJECT), b"")
    envelope = signer.sign(known.approvals, bad)
    for wrong in (
        envelope,
        replace(opening.approvals[2], sender="hub"),
        replace(opening.approvals[2], sender=SUBJECT),
        replace(opening.approvals[2], signature=SUBJECT.encode() * 8),
        replace(opening.approvals[2], context=SUBJECT.encode() * 4),
        replace(opening.approvals[2], payload=SUBJECT.encode()),
        replace(opening.approvals[2], kind=Kind.ADVERT),
    ):
        changed = replace(opening, approvals=(*opening.approvals[:2], wrong, *opening.approvals[3:]))
        assert "Opening.approvals" in refused(changed, known)


def test_a_type_or_a_field_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Rows:
        rows: tuple[float, ...]

    @dataclass(frozen=True, slots=True)
    class Longer(Tombstone):
        note: str

    message, known = samples()[Complaint]
    for stranger in (Rows((3411.5,)), Longer(SUBJECT), SUBJECT, None):
        assert "no message of the protocol" in refused(stranger, known)
    assert isinstance(message, Complaint)
    short = {**RULES, Complaint: {"check": RULES[Complaint]["check"]}}
    monkeypatch.setattr(outgoing, "RULES", short)
    assert "Complaint.accused" in refused(message, known)


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("masking: too few sites answered in time", True),
        ("too few sites with block powers survive", True),
        ("B1: 4 sites open at 3, too few against 2 colluding sites (2 t > n + c)", True),
        ("R4.8: too few participants: the gate must reach 200 in capped counts", True),
        ("site3 withdrew", True),
        ("patient sub-0042 withdrew", False),
        ("cannot read C:\\study\\rows.csv", False),
        ("see /srv/data", False),
        ("mail jane.doe@example.org", False),
        (f"number {NHS}", False),
        ("value 3411.52", False),
        ("", False),
    ],
)
def test_a_sentence_has_plain_words_and_what_the_plan_names(reason: str, passes: bool) -> None:
    _, known = samples()[Abort]
    if passes:
        check_message(Abort(reason), known)
    else:
        assert "Abort.reason" in refused(Abort(reason), known)


def a_masked_packet() -> tuple[Consortium, Packet, Vector, Known]:
    consortium = Consortium(3, blocks=(PlannedBlock("powers", 63, 2**40, "person", ()),))
    consortium.run()
    packet = next(p for _, index, p in consortium.log if index == 1 and p.envelope.kind is Kind.MASKED)
    return consortium, packet, consortium.uploads[1], known_of(consortium)


def packet_refused(packet: Packet, known: Known, words: Vector | None = None) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        check_packet(packet, known, words)
    return str(caught.value)


def test_words_have_the_plans_length_and_look_masked() -> None:
    consortium, packet, words, known = a_masked_packet()
    check_packet(packet, known, words)
    unmasked = consortium.values(1, len(words)).view(np.uint64)
    for wrong in (
        None,
        words[:-1],
        np.append(words, words[:1]),
        unmasked,
        words.view(np.int64),
        np.zeros_like(words),
    ):
        assert "the words behind MaskedInput" in packet_refused(packet, known, wrong)  # type: ignore[arg-type]  # one is of another type
    assert "the words" in packet_refused(packet, replace(known, blocks=None), words)
    other = next(p for _, _, p in consortium.log if p.envelope.kind is Kind.CONSISTENCY)
    assert "the words behind Consistency" in packet_refused(other, known, words)


def test_attachments_are_those_that_the_message_signs() -> None:
    consortium, packet, words, known = a_masked_packet()
    for attachments in ((), (b"sub-0042",), (*packet.attachments, b""), (packet.attachments[0] + b"x",)):
        assert "attachments of MaskedInput" in packet_refused(
            replace(packet, attachments=attachments), known, words
        )
    shared = next(p for _, _, p in consortium.log if p.envelope.kind is Kind.SHARES)
    first_one, *others = shared.attachments
    for held in (SUBJECT.encode().ljust(len(first_one)), first_one + b"\0", b""):
        changed = replace(shared, attachments=(held, *others))
        assert "attachments of Shares" in packet_refused(changed, known)
    answer = next(p for _, _, p in consortium.log if p.envelope.kind is Kind.GATE_SHARES)
    assert "attachments" in packet_refused(replace(answer, attachments=(SUBJECT.encode(),)), known)


def test_an_envelope_names_its_sender_and_a_known_context_and_holds_a_payload_of_its_kind() -> None:
    consortium, packet, words, known = a_masked_packet()
    envelope = packet.envelope

    def changed(**what: object) -> Packet:
        return replace(packet, envelope=replace(envelope, **what))  # type: ignore[arg-type]  # checked by what it must refuse

    assert "Envelope" in packet_refused(changed(sender=SUBJECT), known, words)
    assert "Envelope" in packet_refused(changed(sender="hub"), known, words)
    assert "Envelope" in packet_refused(changed(context=bytes(range(32))), known, words)
    assert "Envelope" in packet_refused(changed(signature=SUBJECT.encode() * 8), known, words)
    assert "Envelope" in packet_refused(changed(payload=SUBJECT.encode()), known, words)
    # behind a true message: a field that the type does not have
    assert "Envelope" in packet_refused(changed(payload=envelope.payload + b"\x7a\x08sub-0042"), known, words)
    # a site sends nothing of the coordinator's
    sign = consortium.signers[1].sign(envelope.context, Abort("stop"))
    assert "Envelope.sender" in packet_refused(Packet(sign), known)


@given(st.binary(min_size=8, max_size=8), st.integers(0, 2**63 - 1))
def test_padded_text_and_padded_numbers_never_look_random(filling: bytes, value: int) -> None:
    assert not looks_random(filling.ljust(32, b"\0"))
    assert not looks_random(value.to_bytes(32, "big"))
    assert not looks_random(filling.hex().encode() * 2)
    assert looks_random(bytes(range(100, 132)))
    assert not looks_random(("Müller " + filling.hex()).encode().ljust(32))


def test_no_repr_or_error_shows_what_was_planted() -> None:
    _, known = samples()[MaskedInput]
    envelope = Envelope(b"c" * 32, Kind.MASKED, SUBJECT, SUBJECT.encode(), b"")
    assert SUBJECT not in packet_refused(Packet(envelope, (SUBJECT.encode(),)), known)
