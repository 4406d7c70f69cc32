"""Two sites compare what they were told: a coordinator with two faces is shown to have them, an honest one never."""

import hashlib
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.node.evidence import EvidenceBook, Presented, compare, evidence_in
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import pin
from cohortsum.node.status import node_findings
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.evidence_record import Record, compared, record_from_bytes
from cohortsum.protocol.messages import Consistency, Kind, Opening, Packet, Quorum
from cohortsum.report.evidence_verdict import check_evidence_file
from cohortsum.study.release.evidence_file import write_evidence
from tests.admin.desk import run
from tests.evidence.stories import (
    Keeping,
    Lie,
    Watched,
    fit_with_slots,
    other_opening,
    passing_on,
    told_to_victim,
)
from tests.evidence.test_file import (
    OPERATOR,
    PAPERS,
    PLAN,
    ROSTER_1,
    SIGNED,
    STUDY,
    TEXT,
    WORDS,
    evidence,
    signer,
)
from tests.protocol.consortium import identity_key
from tests.protocol.lies import VICTIM, N, opened

WITNESS = 0


def record(played: Keeping, index: int) -> Record:
    held = played.machines[index].record
    assert held is not None
    return held


def shown(played: Keeping, found: tuple[Evidence, ...]) -> set[tuple[str, str]]:
    return {(finding.accused, finding.sentence) for finding in map(played.finding, found)}


FACES: dict[Kind, Lie] = {
    Kind.ADVERTS: passing_on(lambda held: held[:4]),
    Kind.DELIVERY: lambda played, packet: replace(
        passing_on(lambda held: held[:4])(played, packet), attachments=packet.attachments[:4]
    ),
    Kind.SURVIVORS: passing_on(lambda held: held[:4]),
    Kind.QUORUM: passing_on(lambda held: held[::-1]),
}


@pytest.mark.parametrize("kind", FACES)
def test_two_faces_show_when_two_records_lie_side_by_side(kind: Kind) -> None:
    """No check of the victim fails on the message itself: all that it is told fits together."""
    played = told_to_victim(kind, FACES[kind])
    assert kind in {message.kind for message in record(played, VICTIM).messages}
    for first, second in ((VICTIM, WITNESS), (WITNESS, VICTIM)):
        found = compared(record(played, first), record(played, second), played.roster, played.plan)
        assert shown(played, found) == {("hub", f"signed two different messages of the kind {kind.name}")}


def test_two_openings_of_one_round_show_too() -> None:
    played = Watched(N)
    played.run()
    ours = record(played, VICTIM)
    opening = opened(Packet(ours.opening))
    assert isinstance(opening, Opening)
    lied = played.coordinator.setup.signer.sign(ours.opening.context, other_opening(opening))
    theirs = replace(ours, opening=lied)
    assert shown(played, compared(ours, theirs, played.roster, played.plan)) == {
        ("hub", "signed two different messages of the kind OPENING")
    }


def test_a_site_that_signed_two_survivor_sets_shows_in_two_quorums() -> None:
    """Each group of sites was shown the signature that it waited for."""
    played = Watched(N)
    played.run()
    ours = record(played, VICTIM)
    hub, context = played.coordinator.setup.signer, ours.opening.context
    lied = played.signers[4].sign(context, Consistency(bytes(32)))
    other = hub.sign(context, Quorum((lied,)))
    own = hub.sign(
        context, Quorum(tuple(played.signers[i].sign(context, Consistency(b"s" * 32)) for i in (3, 4)))
    )
    found = compared(
        replace(ours, messages=(own,)), replace(ours, messages=(other,)), played.roster, played.plan
    )
    assert {accused for accused, _ in shown(played, found)} == {"hub", "site4"}


def test_records_of_an_honest_round_fit_each_other() -> None:
    slots = fit_with_slots()
    dropping = Watched(N)
    dropping.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)
    played: Keeping
    for played in (slots, dropping):
        played.run()
        for first in range(N):
            for second in range(N):
                pair = record(played, first), record(played, second)
                assert compared(*pair, played.roster, played.plan) == ()


def test_a_record_holds_nothing_that_was_opened_and_has_one_encoding() -> None:
    played = Watched(N)
    played.run()
    held = record(played, VICTIM)
    assert [message.kind for message in held.messages] == [
        *(Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS, Kind.QUORUM)
    ]
    assert record_from_bytes(held.to_bytes()) == held
    for wrong in (replace(held, messages=held.messages[::-1]), replace(held, messages=held.messages[:1] * 2)):
        with pytest.raises(AuthenticationError):
            record_from_bytes(wrong.to_bytes())
    with pytest.raises(AuthenticationError):
        record_from_bytes(held.to_bytes()[:-1])


@given(st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes_are_no_record(data: bytes) -> None:
    with pytest.raises(AuthenticationError):
        record_from_bytes(data)


def two_records() -> tuple[Record, Record]:
    """Return the records of two sites that were told of two survivor sets, in a study that can be planned."""
    held = evidence()
    first, second = ((message,) for message in held.messages)
    assert {message.kind for message in held.messages} == {Kind.SURVIVORS}
    return Record(held.opening, first), Record(held.opening, second)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return the folder of site 2, with the roster pinned and a record of what it was told."""
    folder = tmp_path / "node"
    screen = run(
        "node", "init", folder, "--site", "site2", "--coordinator", "localhost:1", "--organisation", "test"
    )
    assert screen.code == 0
    key = folder / "identity.key"
    key.write_text(hashed_key("site2"), encoding="ascii")
    pin(folder, TEXT, PAPERS.roster.signature, OPERATOR.public)
    own, _ = two_records()
    evidence_in(folder).remember(own, Presented(STUDY.digest, 1, SIGNED), signer("site2"))
    return folder


def hashed_key(name: str) -> str:
    assert identity_key(name).public == signer(name).identity.key
    return hashlib.sha256(name.encode()).hexdigest() + "\n"


def test_an_admin_compares_the_record_of_another_site(node: Path, tmp_path: Path) -> None:
    own, theirs = two_records()
    other = tmp_path / "theirs.told"
    other.write_bytes(write_evidence(PAPERS, SIGNED, own.to_bytes(), signer("site3")))
    assert run("node", "compare", node, other).code == 0
    other.write_bytes(write_evidence(PAPERS, SIGNED, theirs.to_bytes(), signer("site3")))
    screen = run("node", "compare", node, other)
    assert screen.code == 1
    path = Path("".join(screen.out.split()))
    proof = check_evidence_file(path.read_bytes(), path.name, WORDS).proof
    assert proof is not None
    assert (proof.finding.accused, proof.finding.check, proof.by) == ("hub", "M5", "site2")
    assert run("node", "compare", node, other).code == 0  # it is on file


def test_a_record_that_was_altered_or_is_of_another_study_is_refused(node: Path) -> None:
    _, theirs = two_records()
    true = write_evidence(PAPERS, SIGNED, theirs.to_bytes(), signer("site3"))
    with pytest.raises(AuthenticationError):
        compare(node, true[:-1] + bytes([true[-1] ^ 1]), "theirs.told")
    for path in evidence_in(node).records():
        path.unlink()
    with pytest.raises(ConfigurationError, match="no record of study loopback"):
        compare(node, true, "theirs.told")


def test_a_record_by_itself_is_no_evidence() -> None:
    own, _ = two_records()
    verdict = check_evidence_file(
        write_evidence(PAPERS, SIGNED, own.to_bytes(), signer("site3")), "own.told", WORDS
    )
    assert verdict.proof is None
    assert verdict.failure is not None
    assert "accuses nobody by itself" in verdict.failure.sentence
    found = check_evidence(own.to_bytes(), ROSTER_1, PLAN)
    assert not isinstance(found, Finding)


def test_the_oldest_records_make_way_and_the_newest_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = EvidenceBook(tmp_path / "evidence", lambda _: PAPERS)
    own, _ = two_records()
    size = len(write_evidence(PAPERS, SIGNED, own.to_bytes(), signer("site2")))

    def remember(number: int) -> set[int]:
        opening = replace(own.opening, context=number.to_bytes(32, "big"))
        book.remember(replace(own, opening=opening), Presented(STUDY.digest, 1, SIGNED), signer("site2"))
        return {int(path.stem, 16) for path in book.records()}

    monkeypatch.setattr("cohortsum.node.evidence.MOST_RECORDED", 3 * size)
    assert [remember(number) for number in range(5)][-1] == {2, 3, 4}
    monkeypatch.setattr("cohortsum.node.evidence.MOST_RECORDED", size - 1)
    assert remember(5) == {5}


def test_the_status_of_a_node_names_whom_its_evidence_accuses(node: Path) -> None:
    def said() -> list[str]:
        return [
            found.sentence for found in node_findings(node, datetime.now(UTC)) if found.name == "evidence"
        ]

    _, theirs = two_records()
    assert said() == []  # a record accuses nobody
    compare(node, write_evidence(PAPERS, SIGNED, theirs.to_bytes(), signer("site3")), "theirs.told")
    assert said() == ["1 files of evidence in evidence: hub (M5)"]


def test_the_audit_log_has_a_line_for_what_a_comparison_found(node: Path, tmp_path: Path) -> None:
    _, theirs = two_records()
    compare(node, write_evidence(PAPERS, SIGNED, theirs.to_bytes(), signer("site3")), "theirs.told")
    with closing(Ledger(node / "ledger.db")) as ledger:
        assert [line.deed.detail for line in ledger.audit().lines if line.deed.by == "hub"] == ["M5"]
