"""A site and a study that a committee answers: what keeps it out, what it brings, and that its ledger knows before anything leaves."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.crypto.errors import ConfigurationError, DataError, PolicyError
from cohortsum.node import committee_rules
from cohortsum.node.committee.study import StudyPart
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.decisions import Decision
from cohortsum.node.joining import Site
from cohortsum.node.session import StudySession
from cohortsum.protocol.approvals import decline
from cohortsum.protocol.audit import DeedKind
from cohortsum.protocol.committee.effects import Finished
from cohortsum.protocol.committee.messages import Opening, RunKey
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_states import CoordinatorSetup
from cohortsum.protocol.effects import Deliver
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Kind
from cohortsum.study.committee import Run, first_run
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.planning import StudyPlan, plan_study
from tests.edges.harness import (
    EPOCH,
    HUB,
    People,
    approving,
    make_site,
    people_at,
    pinned_roster,
    signed_study,
)
from tests.protocol.consortium import identity_key

SITES = 5
ROSTER = pinned_roster(SITES)
TEXT = f"""\
study: closed
title: A study over a committee
version: 1
roster: {ROSTER.version}
expires: 2099-12-31
person: id
variables:
  dx: {{levels: [control, case]}}
  age: {{unit: years, range: [0, 100]}}
cohort: {{epoch: {EPOCH}}}
analyses:
  dx: {{kind: crosstab, factors: [dx]}}
  ages: {{kind: quantiles, variables: [age], step: 0.01, probabilities: [0.5]}}
protection:
  mode: committee
  committee: [site0, site1, site2]
  min_sites: 3
  min_participants: 20
  max_participants: 10000
  min_participants_per_site: 2
  max_colluding_sites: 1
privacy: {{noise: none}}
"""
STUDY, SIGNED = signed_study(TEXT)
PLAN = plan_study(STUDY, ROSTER)
DEALERS = tuple(range(SITES))


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as held:
        yield held


@contextmanager
def considered(site: Site, signed: SignedStudy = SIGNED) -> Generator[tuple[StudySession, Kind]]:
    session = StudySession(site)
    try:
        yield session, session.consider(signed).envelope.kind
    finally:
        session.close()
        site.ledger.close()


def part_of(session: StudySession) -> StudyPart:
    held = session.committee()
    assert held is not None, session.reason
    identity, part = held
    assert (identity.study_digest, identity.epoch) == (STUDY.digest, EPOCH)
    return part


def opening(run: Run, attempt: int = 1, run_id: bytes = b"r" * 16) -> Opening:
    plan = run.plan
    key = RunKey(run_id, plan.stage, attempt)
    return Opening(key, STUDY.digest, ROSTER.digest, EPOCH, plan.dealers, plan.earlier, plan.digest)


def first() -> Run:
    return first_run(PLAN, ROSTER, DEALERS)


def test_a_site_brings_its_numbers_and_its_ledger_knows(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = make_site(tmp_path, 3, ROSTER, STUDY, pool)
    with considered(site) as (session, kind):
        assert kind is Kind.APPROVAL
        part = part_of(session)
        asked = opening(first())
        brought = part.part_of(asked)
        assert brought.plan.digest == first().plan.digest
        assert brought.values == (people_at(3),)
        history = site.ledger.history(3)
        assert [write.context for write in history.writes] == [asked.context]
        assert site.ledger.counter() == 0  # of masked inputs
        lines = site.ledger.audit()
        assert lines.fault is None
        part.heard(asked, Finished(((1,),), ()))
        second = first().after([(1,)])
        assert isinstance(second, Run)
        counts = part.part_of(opening(second, run_id=b"s" * 16)).values
        assert counts == (people_at(3), people_at(3) // 2, people_at(3) // 2)
    audit = (tmp_path / "audit.jsonl").read_text()
    assert audit.count(DeedKind.SHARES_DEALT.value) == 2


def test_a_member_that_is_no_dealer_brings_nothing(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = make_site(tmp_path, 0, ROSTER, STUDY, pool)
    with considered(site) as (session, _):
        run = first_run(PLAN, ROSTER, (1, 2, 3, 4))
        assert part_of(session).part_of(opening(run)).values is None
        assert not site.ledger.history(0).writes


def test_a_run_that_does_not_follow_from_answers_heard_here_is_refused(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    site = make_site(tmp_path, 3, ROSTER, STUDY, pool)
    with considered(site) as (session, _):
        part = part_of(session)
        second = first().after([(1,)])
        assert isinstance(second, Run)
        with pytest.raises(ConfigurationError, match="has not heard"):
            part.part_of(opening(second))
        asked = opening(first())
        part.part_of(asked)
        part.heard(
            asked, Finished(((0,),), ())
        )  # too few people: nothing follows, whatever a coordinator wants
        with pytest.raises(ConfigurationError, match="has not heard"):
            part.part_of(opening(second, run_id=b"s" * 16))


def test_too_few_dealers_changed_tables_a_closed_epoch_and_an_ended_approval_stop_a_deal(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    site = make_site(tmp_path / "a", 3, ROSTER, STUDY, pool)
    site = replace(site, policy=PolicyConfig(profile="open_data", thresholds=Thresholds(min_sites=5)))
    with considered(site) as (session, _):
        run = first_run(PLAN, ROSTER, (0, 1, 2, 3))
        with pytest.raises(PolicyError, match="min_sites 5"):
            part_of(session).part_of(opening(run))
        (table,) = site.tables.tables.values()
        assert table.path is not None
        table.path.write_text(table.path.read_text() + "s3-99999,case,50,2.5\n")
        with pytest.raises(DataError, match="changed after approval"):
            part_of(session).part_of(opening(first()))
    site = make_site(tmp_path / "b", 3, ROSTER, STUDY, pool)
    decisions = [approving(STUDY.digest)]

    def decided(digest: bytes) -> Decision | None:
        return decisions[0](digest)

    site = replace(site, decision=decided)
    with considered(site) as (session, _):
        decisions[0] = approving()
        with pytest.raises(PolicyError, match="not approved"):
            part_of(session).part_of(opening(first()))


def test_under_a_people_rule_whoever_was_dealt_for_is_not_nearly_dealt_for_again(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    policy = PolicyConfig(profile="open_data", thresholds=Thresholds(set_difference=5))
    site = replace(make_site(tmp_path, 3, ROSTER, STUDY, pool), policy=policy)
    with considered(site) as (session, _):
        part = part_of(session)
        part.part_of(opening(first()))
        part.part_of(opening(first(), attempt=2, run_id=b"s" * 16))  # the same people
        names = {name for write in site.ledger.history(3).writes for name, _ in write.people}
        assert {"people", "dx/dx[case]", "ages/age/people"} <= names
        cut = sorted(People.of(3).age)[-2]  # two people are left out
        include = f'epoch: {EPOCH}, include: "age < {cut}"'
        near = TEXT.replace(f"epoch: {EPOCH}", include).replace("study: closed", "study: near")
        study, signed = signed_study(near)
        again = replace(site, decision=approving(study.digest))
        other = StudySession(again)
        assert other.consider(signed).envelope.kind is Kind.NOT_TAKING_PART
        assert "differ from people answered for before" in other.reason
        other.close()


def stays_out(site: Site, signed: SignedStudy = SIGNED) -> str:
    with considered(site, signed) as (session, kind):
        assert kind is Kind.NOT_TAKING_PART
        assert session.committee() is None
        return session.reason


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (
            PolicyConfig(profile="open_data", thresholds=Thresholds(site_totals="protected")),
            "site_totals: protected",
        ),
        (PolicyConfig(profile="open_data", thresholds=Thresholds(min_participants=30)), "asks for 30"),
        (PolicyConfig(profile="open_data", thresholds=Thresholds(count=20)), "the rules here ask for 20"),
    ],
)
def test_rules_that_ask_for_more_than_the_study_keep_a_site_out(
    tmp_path: Path, pool: ThreadPoolExecutor, policy: PolicyConfig, sentence: str
) -> None:
    assert sentence in stays_out(replace(make_site(tmp_path, 3, ROSTER, STUDY, pool), policy=policy))


def test_a_site_supplies_the_whole_study_or_stays_out(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    site = make_site(tmp_path, 3, ROSTER, STUDY, pool)
    held = approving(STUDY.digest)(STUDY.digest)
    assert held is not None
    part = replace(held, analyses=frozenset({"dx"}))

    def decided(_: bytes) -> Decision:
        return part

    assert "does not supply analysis:ages" in stays_out(replace(site, decision=decided))


def test_a_member_without_the_engine_stays_out_and_others_do_not_need_it(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(committee_rules, "find_spec", nothing)
    assert "cohortsum[committee]" in stays_out(make_site(tmp_path / "0", 0, ROSTER, STUDY, pool))
    with considered(make_site(tmp_path / "3", 3, ROSTER, STUDY, pool)) as (_, kind):
        assert kind is Kind.APPROVAL


def test_a_masked_round_of_such_a_study_is_refused(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    sites = [make_site(tmp_path / f"{index}", index, ROSTER, STUDY, pool) for index in DEALERS]
    sessions = [StudySession(site) for site in sites]
    approvals = {index: session.consider(SIGNED).envelope for index, session in enumerate(sessions)}
    assert all(approval.kind is Kind.APPROVAL for approval in approvals.values())
    signer = Signer(ROSTER.coordinator, identity_key(HUB))
    hub = CoordinatorRound(CoordinatorSetup(signer, ROSTER, PLAN.round, approvals), RoundKey(b"r" * 16, 1, 1))
    packets = [effect for effect in hub.open() if isinstance(effect, Deliver)]
    assert packets
    with capture_logs() as logs:
        assert [
            send for effect in packets for session in sessions for send in session.handle(effect.packet)
        ] == []
    assert {entry.get("check") for entry in logs} >= {"R0.13"}
    assert all(not site.ledger.history(0).writes for site in sites)
    for session, site in zip(sessions, sites, strict=True):
        session.close()
        site.ledger.close()


def test_a_study_in_another_mode_has_no_committee(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    study, signed = signed_study()
    roster = pinned_roster(4)
    with considered(make_site(tmp_path, 1, roster, study, pool), signed) as (session, kind):
        assert kind is Kind.APPROVAL
        assert session.committee() is None


def test_staying_out_says_no_more_than_that(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    policy = PolicyConfig(profile="open_data", thresholds=Thresholds(count=20))
    site = replace(make_site(tmp_path, 3, ROSTER, STUDY, pool), policy=policy)
    plan: StudyPlan = PLAN
    with considered(site) as (session, _):
        assert session.consider(SIGNED).envelope.payload == decline(site.signer, plan.round).payload
