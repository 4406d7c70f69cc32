"""A site that lies leaves evidence at the coordinator, or at the site that it dealt to."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cohortsum.coordinator.evidence import EvidenceBook
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.protocol import site
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.evidence import Case
from cohortsum.protocol.messages import (
    Consistency,
    DataShares,
    Delivery,
    GateShares,
    Kind,
    Message,
    Packet,
    Shares,
)
from cohortsum.protocol.seeds import HeldShares, pack_shares
from tests.evidence.stories import (
    Watched,
    answering,
    fit_with_slots,
    passing_on,
    told_to_victim,
    two_signatures,
    watched,
)
from tests.evidence.test_file import PAPERS, ROSTER_1, SIGNED, STUDY, signer
from tests.protocol.iterations import after, first
from tests.protocol.lies import N, opened

LIAR = 3


def wrong_gate(message: Message) -> Message:
    if not isinstance(message, GateShares):
        return message
    return replace(message, gate={owner: share ^ 1 for owner, share in message.gate.items()})


def both_kinds(message: Message) -> Message:
    if not isinstance(message, GateShares):
        return message
    return replace(message, mask=message.gate)


def wrong_data(message: Message) -> Message:
    if not isinstance(message, DataShares):
        return message
    return replace(message, data={**message.data, 0: message.data[0] ^ 1})


def too_few(message: Message) -> Message:
    if not isinstance(message, DataShares):
        return message
    return replace(message, data={owner: message.data[owner] for owner in (1, 2)})


@pytest.mark.parametrize(
    ("lie", "check"),
    [(wrong_gate, "R4.13"), (both_kinds, "R4.9"), (wrong_data, "R4.13"), (too_few, "R4.10")],
    ids=["another gate share", "both kinds of share", "another data share", "shares of some"],
)
def test_a_bad_answer_is_proven(lie: Callable[[Message], Message], check: str) -> None:
    played = answering(LIAR, lie)
    assert played.found == {(f"site{LIAR}", check)}
    assert [held.case for held in played.at_hub] == [Case.BAD_ANSWER]
    assert "single shares" in played.finding(played.at_hub[0]).sensitive


def test_of_answers_only_one_is_kept() -> None:
    """Files of a context that t sites' answers were in would open its seeds."""
    played = Watched(N)

    def to_coordinator(index: int, packet: Packet) -> Packet:
        lied = wrong_gate(opened(packet))
        return Packet(played.signers[index].sign(packet.envelope.context, lied), packet.attachments)

    played.to_coordinator = to_coordinator
    played.run()
    assert [audit.check for audit in played.audits].count("R4.13") == N
    assert len(played.at_hub) == 1


OTHER: dict[Kind, Callable[[Message], Message]] = {
    Kind.ADVERT: lambda message: replace(message, counter=7),  # type: ignore[arg-type]
    Kind.SHARES: lambda message: replace(message, adverts_digest=bytes(32)),  # type: ignore[arg-type]
    Kind.MASKED: lambda message: replace(message, gate_digest=bytes(32)),  # type: ignore[arg-type]
    Kind.CONSISTENCY: lambda _: Consistency(bytes(32)),
    Kind.GATE_SHARES: wrong_gate,
    Kind.DATA_SHARES: wrong_data,
}


def twice(kind: Kind) -> Watched:
    """Play a round in which a site signs a second message of one kind."""
    played = Watched(N)

    def to_coordinator(index: int, packet: Packet) -> Packet:
        if index == LIAR and packet.envelope.kind is kind:
            second = played.signers[index].sign(packet.envelope.context, OTHER[kind](opened(packet)))
            played.queue.append(("coordinator", index, packet))
            played.queue.append(("coordinator", index, Packet(second)))
        return packet

    played.to_coordinator = to_coordinator
    played.run()
    return played


@pytest.mark.parametrize("kind", OTHER)
def test_a_site_that_signs_twice_is_proven_at_the_coordinator_and_the_first_counts(kind: Kind) -> None:
    played = twice(kind)
    assert played.found == {(f"site{LIAR}", "M5")}
    state = played.coordinator.state
    assert isinstance(state, Opened)
    assert state.values.tolist() == played.expected(state.survivors)


def test_two_signatures_in_one_quorum_accuse_their_site_beside_the_coordinator() -> None:
    played = told_to_victim(Kind.QUORUM, two_signatures)
    assert played.found == {("site0", "M5"), ("hub", "R4.4")}


def test_two_signatures_in_two_quorums_accuse_their_site() -> None:
    played = Watched(N)

    def to_site(index: int, packet: Packet) -> Packet:
        if index == 2 and packet.envelope.kind is Kind.QUORUM:
            played.queue.append(("site", index, packet))
            return two_signatures(played, packet)
        return packet

    played.to_site = to_site
    played.run()
    assert ("site0", "M5") in played.found


def lying_dealer(monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes], liar: int = LIAR) -> None:
    """Let a dealer seal something else than it signs for one holder."""

    def pack(held: Sequence[HeldShares], dealer: int, holder: int, h1: bytes) -> bytes:
        packed = pack_shares(held, dealer, holder, h1)
        return change(packed) if (dealer, holder) == (liar, 1) else packed

    monkeypatch.setattr(site, "pack_shares", pack)


def another_share(packed: bytes) -> bytes:
    return packed[:-1] + bytes([packed[-1] ^ 1])


SEALED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "another share": ("R2.7", another_share),
    "no field element": ("R2.7", lambda packed: packed[:-32] + b"\xff" * 32),
    "another dealer": ("R2.6", lambda packed: bytes(8) + packed[8:]),
    "too short": ("R2.6", lambda packed: packed[:-32]),
    "nothing": ("R2.6", lambda _: b""),
}
"""What a dealer seals in the place of the shares that it signs, and the check that it breaks."""


@pytest.mark.parametrize("what", SEALED)
def test_bad_shares_are_proven_with_the_key_of_one_ciphertext(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    check, change = SEALED[what]
    lying_dealer(monkeypatch, change)
    played = Watched(N)
    played.run()
    assert {index for index, _ in played.at_sites} == {1}
    assert played.found == {(f"site{LIAR}", check)}
    (evidence,) = (held for _, held in played.at_sites)
    assert (evidence.case, evidence.holder, len(evidence.key)) == (Case.BAD_SHARES, 1, 44)


def test_bad_shares_of_a_slot_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dealt ahead for later iterations is sealed with the rest."""
    before = first()
    before.run()
    lying_dealer(monkeypatch, another_share)
    played = watched(after(before, ahead=2))
    played.run()
    assert played.found == {(f"site{LIAR}", "R2.7")}


def test_a_ciphertext_that_does_not_open_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the holder's channel key to show that, and that key opens what honest sites sealed."""

    def garble(_key: object, plaintext: bytes, _associated: object) -> bytes:
        return bytes(len(plaintext) + 16)

    monkeypatch.setattr(site, "seal", garble)
    played = Watched(N)
    played.run()
    assert {error.check for _, error in played.errors} >= {"R2.5"}
    assert played.kept == []


def test_a_list_that_leaves_an_advertiser_out_is_proven_without_a_key() -> None:
    played = Watched(N)

    def to_site(index: int, packet: Packet) -> Packet:
        message = opened(packet)
        if index != 1 or not isinstance(message, Delivery):
            return packet
        listed = opened(Packet(message.shares[LIAR]))
        assert isinstance(listed, Shares)
        entries = [listed.entry(holder) for holder in (0, 1, 2)]
        lied = played.signers[LIAR].sign(packet.envelope.context, Shares.of(listed.adverts_digest, entries))
        shares = (*message.shares[:LIAR], lied, *message.shares[LIAR + 1 :])
        return passing_on(lambda _: shares)(played, packet)

    played.to_site = to_site
    played.run()
    assert (f"site{LIAR}", "R2.7") in played.found
    assert ("hub", "R2.7") in played.found  # which had to refuse it
    assert all(not held.key for held in played.kept)


def test_a_bad_answer_in_an_iteration_whose_secrets_were_dealt_ahead_is_proven() -> None:
    played = fit_with_slots()

    def to_coordinator(index: int, packet: Packet) -> Packet:
        message = opened(packet)
        if index != LIAR:
            return packet
        lied = wrong_data(message)
        return Packet(played.signers[index].sign(packet.envelope.context, lied), packet.attachments)

    played.to_coordinator = to_coordinator
    played.run()
    assert played.found == {(f"site{LIAR}", "R4.13")}
    assert played.finding(played.at_hub[0]).iteration == 3


def test_of_files_with_answers_there_is_one_per_attempt_after_a_restart_too(tmp_path: Path) -> None:
    """Another process has no memory of what was kept, but the folder."""
    played = [answering(liar, lie) for liar, lie in ((LIAR, wrong_gate), (1, wrong_data), (LIAR, wrong_gate))]
    played[2].at_hub[0] = twice(Kind.CONSISTENCY).at_hub[0]  # holds no shares
    with closing(Store(sqlite_url(tmp_path / "coordinator.db"))) as store:
        record = StudyRecord(store, STUDY, ROSTER_1)
        book = EvidenceBook(tmp_path / "evidence", lambda _: PAPERS)
        for one in played:
            book.keep(one.at_hub[0], one.plan, one.roster, SIGNED, signer("hub"), record)
    names = sorted(path.name[65:] for path in (tmp_path / "evidence").iterdir())
    assert names == [f"M5-site{LIAR}.evidence", f"R4.13-site{LIAR}.evidence"]
