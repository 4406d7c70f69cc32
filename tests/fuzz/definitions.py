"""Decoders of what people write and sign: studies, rosters, deny-lists, requests, settings, expressions, remedies."""

from dataclasses import replace

from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.crypto.fingerprint import parse_words
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.node.config import (
    PolicyConfig,
    load_node_config,
    load_policy_config,
    load_tables_config,
)
from cohortsum.node.policy import limits_of, regimen_of
from cohortsum.node.snapshot import with_epoch
from cohortsum.protocol.denylist import DenyList
from cohortsum.protocol.roster import Identity, Role, Roster
from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.definition import FrozenStudy, freeze, load_roster, load_study, parse_canonical
from cohortsum.study.definition.consortium import ConsortiumFile, load_request, read_section, write_roster
from cohortsum.study.definition.deny import load_deny_list, write_deny_list
from cohortsum.study.definition.difference import difference
from cohortsum.study.definition.expressions import Condition, Expression, render
from cohortsum.study.definition.grammar import parse_condition, parse_expression
from cohortsum.study.definition.signing import (
    STUDY_SIGNATURE,
    SignedStudy,
    open_study,
    signed_study_from_json,
    signed_study_to_json,
)
from cohortsum.study.forecasting import forecasts
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.release.actions import Remedy, describe, remedy_from_json, remedy_to_json
from tests.fuzz.target import Target, again, decoder, in_file, same
from tests.protocol.consortium import identity_key, roster_of
from tests.study.definitions import frozen, small

STATISTICIAN = "statistician"
NUMBERS = ("age", "iq", "thick", "Left-Hippocampus")
FACTORS = {"dx": ("control", "autism", "other"), "sex": ("female", "male")}


def roster() -> Roster:
    """Return a roster of seven sites with a statistician."""
    base = roster_of(7)
    author = Identity(STATISTICIAN, Role.STATISTICIAN, None, identity_key(STATISTICIAN).public)
    return Roster(base.consortium, base.version, {**base.identities, STATISTICIAN: author}, base.digest)


ROSTER = roster()
STUDY = frozen(small())


def _study(data: bytes) -> FrozenStudy:
    return freeze(load_study(data, "study.yaml"))


def _frozen(_data: bytes, study: FrozenStudy) -> None:
    assert parse_canonical(study.canonical) == study


def submitted(data: bytes) -> SignedStudy:
    """Return bytes as a statistician of the roster signs them: the worst has a true signature."""
    signature = identity_key(STATISTICIAN).sign(STUDY_SIGNATURE, STATISTICIAN.encode(), data)
    return SignedStudy(data, STATISTICIAN, signature)


def _plan(data: bytes) -> StudyPlan:
    """Do what a coordinator does with a study that is handed in: open, plan, forecast."""
    plan = plan_study(open_study(submitted(data), ROSTER), ROSTER)
    forecasts(plan)
    return plan


def _opened(data: bytes, plan: StudyPlan) -> None:
    """Do what everybody does with a later version, and what a site does before it answers."""
    assert plan.study.canonical == data
    if plan.study.study == STUDY.study:
        difference(STUDY, plan.study)
    unchanged_blocks(plan_study(STUDY, ROSTER), plan)
    limits_of(plan.study, PolicyConfig())


def _roster(data: bytes) -> Roster:
    return load_roster(data, "consortium.yaml")


def _written_roster(data: bytes, held: Roster) -> None:
    entries = read_section(ConsortiumFile, data, "consortium.yaml").identities
    again = _roster(write_roster(held.consortium, held.version, entries))
    assert replace(again, digest=held.digest) == held


def _deny(data: bytes) -> DenyList:
    return load_deny_list(data, "deny.yaml")


def _written_deny(_data: bytes, held: DenyList) -> None:
    whole = (replace(one, since=one.since.replace(microsecond=0)) for one in held.denied)
    assert _deny(write_deny_list(held)) == replace(held, denied=tuple(whole))


def _policy(_data: bytes, held: PolicyConfig) -> None:
    regimen_of(held)
    limits_of(STUDY, held)


def _expression(data: bytes) -> Expression:
    return parse_expression(data.decode("utf-8", "replace"), NUMBERS, FACTORS)


def _condition(data: bytes) -> Condition:
    return parse_condition(data.decode("utf-8", "replace"), NUMBERS, FACTORS)


def _rendered(held: Expression | Condition) -> bytes:
    return render(held).encode()


def _remedy(data: bytes) -> Remedy:
    return remedy_from_json(data.decode("utf-8", "replace"))


def _canonical_remedy(held: Remedy) -> bytes:
    assert describe(held)
    return remedy_to_json(held).encode()


TARGETS = (
    Target("study-yaml", decoder(_study, _frozen), size=2048, examples=30),
    Target("study-canonical", decoder(parse_canonical, same(lambda study: study.canonical)), examples=30),
    Target("study-submitted", decoder(_plan, _opened), examples=30),
    Target(
        "study-signed", decoder(signed_study_from_json, again(signed_study_to_json, signed_study_from_json))
    ),
    Target("roster", decoder(_roster, _written_roster), size=1024, examples=30),
    Target("deny-list", decoder(_deny, _written_deny), size=1024, examples=30),
    Target("request", decoder(lambda data: load_request(data, "request.yaml")), size=1024, examples=30),
    Target("node-settings", decoder(in_file("node.yaml", load_node_config)), size=1024, examples=30),
    Target("tables-settings", decoder(in_file("tables.yaml", load_tables_config)), size=1024, examples=30),
    Target("policy", decoder(in_file("policy.yaml", load_policy_config), _policy), size=1024, examples=30),
    Target(
        "coordinator-settings",
        decoder(in_file("coordinator.yaml", load_coordinator_config)),
        size=1024,
        examples=30,
    ),
    Target("epoch-edit", decoder(lambda data: with_epoch(data, "2026-12")), size=512, examples=30),
    Target("expression", decoder(_expression, again(_rendered, _expression)), size=256),
    Target("condition", decoder(_condition, again(_rendered, _condition)), size=256),
    Target("remedy", decoder(_remedy, again(_canonical_remedy, _remedy)), size=2048),
    Target("key-file", decoder(lambda data: parse_hex(data, 32, "key")), size=128),
    Target("words", decoder(lambda data: parse_words(data.decode("utf-8", "replace"))), size=256),
)
