"""The file in which evidence is handed on: who may have made it, what a stranger needs, and every way in which it can be wrong."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.fingerprint import Words, roster_words
from cohortsum.node.evidence import EvidenceBook, Presented
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.audit import DeedKind
from cohortsum.protocol.context import RoundKey, context_hash, public_inputs
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import Case, Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.messages import MaskedInput, Opening, Survivors
from cohortsum.protocol.roster import ROSTER, Roster, roster_digest
from cohortsum.report.evidence_verdict import EvidenceVerdict, check_evidence_file
from cohortsum.study.definition import load_roster
from cohortsum.study.planning import plan_study
from cohortsum.study.release.bundle import Paper, Papers
from cohortsum.study.release.evidence_file import is_evidence, read_evidence, write_evidence
from tests.admin.desk import refused, run
from tests.edges.harness import HUB, roster_yaml, signed_study, study_with
from tests.protocol.consortium import identity_key
from tests.protocol.lies import flip

OPERATOR = identity_key("operator")
STUDY, SIGNED = signed_study()


def paper(text: bytes) -> Paper:
    return Paper(text, OPERATOR.sign(ROSTER, text))


TEXT = roster_yaml(5)
NEWEST = roster_yaml(6).replace(b"roster: 1\n", b"roster: 2\n")
PAPERS = Papers(OPERATOR.public, paper(TEXT))
ROSTER_1: Roster = load_roster(TEXT, "consortium.yaml")
PLAN = plan_study(STUDY, ROSTER_1).round
WORDS = roster_words(OPERATOR.public, roster_digest(TEXT))


def signer(name: str) -> Signer:
    return Signer(ROSTER_1.identities[name], identity_key(name))


@cache
def evidence() -> Evidence:
    """Return proof that the coordinator signed two survivor sets."""
    key, hub = RoundKey(b"r" * 16, 1, 1), signer(HUB)
    context = context_hash(
        PLAN.roster_digest, PLAN.study_digest, key, PLAN.epoch, public_inputs(PLAN.digest, (), ())
    )
    opening = hub.sign(context, Opening(key, PLAN.study_digest, PLAN.roster_digest, PLAN.epoch, (), ()))
    masked = signer("site1").sign(context, MaskedInput(*4 * (bytes(32),)))  # whom it names is of no concern
    low, high = sorted(
        (hub.sign(context, Survivors(())), hub.sign(context, Survivors((masked,)))),
        key=lambda held: held.payload,
    )
    return Evidence(Case.TWO_MESSAGES, "M5", opening, (low, high))


def file(**changes: object) -> bytes:
    parts = {"papers": PAPERS, "study": SIGNED, "evidence": evidence().to_bytes(), "signer": signer("site2")}
    return write_evidence(**{**parts, **changes})  # type: ignore[arg-type]


def checked(data: bytes, words: Words = WORDS) -> EvidenceVerdict:
    return check_evidence_file(data, "found.evidence", words)


def failed(data: bytes, words: Words = WORDS) -> tuple[str, str]:
    failure = checked(data, words).failure
    assert failure is not None
    return failure.check, failure.sentence


def test_a_stranger_reads_who_did_what_in_which_round() -> None:
    verdict = checked(file())
    assert [one.check for one in verdict.passed] == ["file", "roster", "presented by", "study", "evidence"]
    assert verdict.proof is not None
    assert verdict.proof.sentences == (
        "coordinator hub signed two different messages of the kind SURVIVORS: M5, two messages",
        f"study loopback version 1, round 1, attempt 1, context {evidence().context.hex()[:16]}; kept by site2",
    )


def test_the_fingerprint_of_a_later_roster_serves_too() -> None:
    later = replace(PAPERS, newest=paper(NEWEST))
    words = roster_words(OPERATOR.public, roster_digest(NEWEST))
    assert checked(file(papers=later), words).proof is not None
    assert checked(file(papers=later)).proof is not None
    assert failed(file(), words)[0] == "roster"


def test_rosters_of_another_operator_or_consortium_are_refused() -> None:
    stranger = identity_key("stranger")
    swapped = Papers(stranger.public, Paper(TEXT, stranger.sign(ROSTER, TEXT)))
    assert failed(file(papers=swapped)) == (
        "roster",
        "rosters and operator's key have another fingerprint than the one given; read it again, and ask the operator or a site of "
        "the consortium for it on a way of your own",
    )
    unsigned = Papers(OPERATOR.public, Paper(TEXT, bytes(64)))
    assert failed(file(papers=unsigned))[0] == "roster"
    foreign = replace(PAPERS, newest=paper(NEWEST.replace(b"consortium: loopback", b"consortium: another")))
    assert failed(file(papers=foreign))[0] == "roster"
    forged = replace(PAPERS, newest=Paper(NEWEST, bytes(64)))
    assert failed(file(papers=forged))[0] == "roster"


def test_who_presents_it_must_be_of_the_roster_and_have_signed_it() -> None:
    nobody = replace(signer("site2").identity, id="site9")
    assert failed(file(signer=Signer(nobody, identity_key("site2"))))[0] == "presented by"
    other = replace(signer("site2").identity, id="site3")
    assert failed(file(signer=Signer(other, identity_key("site2"))))[0] == "presented by"


def test_another_study_is_refused() -> None:
    assert failed(file(study=replace(SIGNED, signature=bytes(64))))[0] == "study"
    _, other = signed_study(study_with(title="Other"))
    assert failed(file(study=other))[0] == "evidence"


def test_evidence_that_is_none_is_refused_with_its_reason() -> None:
    same = replace(evidence(), messages=(evidence().messages[0],) * 2)
    assert failed(file(evidence=same.to_bytes())) == (
        "evidence",
        "the messages say the same, or are not in order; get the file again; if it is the same, it proves nothing",
    )


@given(st.data())
@settings(max_examples=200)
def test_a_flipped_bit_anywhere_is_refused(data: st.DataObject) -> None:
    true = file()
    at, bit = data.draw(st.integers(0, len(true) - 1)), data.draw(st.integers(0, 7))
    altered = true[:at] + bytes([true[at] ^ 1 << bit]) + true[at + 1 :]
    assert checked(altered).failure is not None


@given(st.binary(max_size=300))
def test_any_bytes_behind_a_true_beginning_are_refused(data: bytes) -> None:
    verdict = checked(file()[:40] + data)
    assert not verdict.readable
    assert verdict.failure is not None


def test_the_command_says_what_is_wrong_and_with_which_code(tmp_path: Path) -> None:
    path, words = tmp_path / "found.evidence", " ".join(WORDS)
    path.write_bytes(file())
    assert run("verify", path, "--roster-fingerprint", words).code == 0
    assert "--roster-fingerprint is missing" in refused("verify", path)
    key = tmp_path / "seal.key"
    assert run("key", "seal", key).code == 0
    sentence = refused("verify", path, "--roster-fingerprint", words, "--key", key, "--id", "auditor")
    assert "nothing in a file of evidence is sealed" in sentence
    path.write_bytes(flip(file(), len(file()) - 1))
    screen = run("verify", path, "--roster-fingerprint", words)
    assert (screen.code, "site2 did not sign this file" in " ".join(screen.out.split())) == (1, True)
    path.write_bytes(file()[:-1])
    assert run("verify", path, "--roster-fingerprint", words).code == 2


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    held = Ledger(tmp_path / "ledger.db")
    yield held
    held.close()


def found() -> Finding:
    held = check_evidence(evidence().to_bytes(), ROSTER_1, PLAN)
    assert isinstance(held, Finding)
    return held


def test_a_lie_is_kept_once_and_no_file_is_written_over(tmp_path: Path, ledger: Ledger) -> None:
    book = EvidenceBook(tmp_path / "evidence", lambda _: PAPERS)
    held = Presented(STUDY.digest, 1, SIGNED)
    path = book.keep(evidence(), found(), held, signer("site2"), ledger.note)
    assert path is not None
    assert is_evidence(path.read_bytes())
    assert read_evidence(path.read_bytes(), path.name).by == "site2"
    path.write_bytes(b"as it was")
    assert book.keep(evidence(), found(), held, signer("site2"), ledger.note) is None
    assert path.read_bytes() == b"as it was"
    assert [path.name for path in path.parent.iterdir()] == [path.name]  # no draft is left
    deeds = [line.deed.kind for line in ledger.audit().lines]
    assert deeds.count(DeedKind.EVIDENCE_KEPT) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "evidence").write_bytes(b"in the way")
    book = EvidenceBook(tmp_path / "evidence", lambda _: PAPERS)
    with pytest.raises(ConfigurationError, match="evidence: cannot be made"):
        book.keep(evidence(), found(), Presented(STUDY.digest, 1, SIGNED), signer("site2"), ledger.note)
    assert ledger.audit().lines == ()
