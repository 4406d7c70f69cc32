"""A consortium made for one run: keys, signed roster, signed and approved study, one folder per site, one for a trustee.

The keys are thrown away with the folder. What the study says of enrolment and gathering is for people who are not here and
is ignored; the study's epoch is taken as the label of a snapshot of the input.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cohortsum.cli.yaml_text import to_yaml
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.config import TablesConfig, load_policy_config, load_tables_config
from cohortsum.node.decisions import Decision, decide
from cohortsum.protocol.roster import ROSTER, Roster
from cohortsum.study.definition import FrozenStudy, load_roster
from cohortsum.study.definition.consortium import IdentityEntry, RoleName, format_key, write_roster
from cohortsum.study.definition.signing import SignedStudy, sign_study, signed_study_to_json
from cohortsum.study.disclosure.verdict import PROFILES
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.trustee.config import SETTINGS_FILE

COORDINATOR = "coordinator-service"
STATISTICIAN = "statistician-one"
TRUSTEE = "trustee-service"


@dataclass(frozen=True, slots=True)
class Member:
    """One site: its id, its folder and how its table is read."""

    site: str
    folder: Path
    tables: TablesConfig


@dataclass(frozen=True, slots=True)
class Consortium:
    """Everything that a run needs on disk.

    Attributes:
        folder: holds all of it.
        members: the sites by roster index.
        roster: as signed.
        plan: of the study.
        signed: the study as the statistician signed it.
        coordinator_key: file of the coordinator's identity key.
        operator_key: the operator's public key.
    """

    folder: Path
    members: tuple[Member, ...]
    roster: Roster
    plan: StudyPlan
    signed: SignedStudy
    coordinator_key: Path
    operator_key: bytes


@dataclass(slots=True)
class Local:
    """What sites keep to themselves and only a simulation may show.

    Attributes:
        reasons: why a site stayed out, by its id.
        lacking: sites that do not supply an item, by the item and the reason.
    """

    reasons: dict[str, str] = field(default_factory=dict[str, str])
    lacking: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])

    def hear(self, event: Mapping[str, object]) -> None:
        """Take an event of a site's own log."""
        match event.get("event"):
            case "study.stays_out":
                self.reasons[str(event["site"])] = str(event["reason"])
            case "study.not_supplied":
                item = str(event["item"]), str(event["reason"])
                self.lacking.setdefault(item, []).append(str(event["site"]))
            case _:
                pass


def found(
    study: FrozenStudy,
    tables: dict[str, Path],
    profile: str,
    node_file: Path | None,
    folder: Path,
    policy_file: Path | None = None,
) -> Consortium:
    """Make a consortium of the sites in ``tables`` for one study; every site has the policy file, or a bare profile.

    Raises:
        ConfigurationError: there is no such profile, the node file cannot be shared, or no round can run with these sites.
    """
    if profile not in PROFILES:
        raise ConfigurationError(f"--profile: expected one of {', '.join(PROFILES)}")
    policy = f"profile: {profile}\n"
    if policy_file is not None:
        load_policy_config(policy_file)
        policy = policy_file.read_text("utf-8-sig")
    operator, statistician = _new_key(), _new_key()
    locked = study.protection.mode == "two_key"
    keys = {name: _new_seed() for name in (COORDINATOR, *((TRUSTEE,) if locked else ()), *tables)}
    entries = [
        _entry(site, "site", IdentityKey(keys[site]).public, index) for index, site in enumerate(tables)
    ]
    entries.append(_entry(COORDINATOR, "coordinator", IdentityKey(keys[COORDINATOR]).public))
    entries.append(_entry(STATISTICIAN, "statistician", statistician.public))
    if locked:
        entries.append(_entry(TRUSTEE, "trustee", IdentityKey(keys[TRUSTEE]).public))
    roster_bytes = write_roster("simulated", study.roster, entries)
    roster = load_roster(roster_bytes, "consortium.yaml")
    plan = plan_study(study, roster)
    signed = sign_study(study, STATISTICIAN, statistician)
    shared = TablesConfig() if node_file is None else load_tables_config(node_file.resolve())
    signature = operator.sign(ROSTER, roster_bytes).hex()
    members: list[Member] = []
    for site, table in tables.items():
        home = folder / "sites" / site
        home.mkdir(parents=True)
        _write_secret(home / "identity.key", keys[site])
        _pin(home, roster, roster_bytes, signature)
        (home / "operator.pub").write_text(operator.public.hex())
        (home / "policy.yaml").write_text(policy, "utf-8")
        decide(home, approval_of(study))
        members.append(Member(site, home, shared.for_file(table, study.person)))
    if locked:
        home = folder / "trustee"
        home.mkdir()
        _write_secret(home / "identity.key", keys[TRUSTEE])
        _pin(home, roster, roster_bytes, signature)
        settings = {"identity": TRUSTEE, "identity_key": "identity.key", "listen": "127.0.0.1:0"}
        (home / SETTINGS_FILE).write_text(to_yaml({**settings, "operator_key": operator.public.hex()}))
    hub = folder / "coordinator"
    hub.mkdir()
    _write_secret(hub / "identity.key", keys[COORDINATOR])
    (hub / "consortium.yaml").write_bytes(roster_bytes)
    (hub / "consortium.sig").write_text(signature)
    (hub / "study.json").write_bytes(signed_study_to_json(signed))
    return Consortium(folder, tuple(members), roster, plan, signed, hub / "identity.key", operator.public)


def _pin(home: Path, roster: Roster, text: bytes, signature: str) -> None:
    """Put the signed roster where a node or a trustee looks for it."""
    (home / "rosters").mkdir()
    (home / "rosters" / f"{roster.version}.sig").write_text(signature)
    (home / "rosters" / f"{roster.version}.yaml").write_bytes(text)


def approval_of(study: FrozenStudy) -> Decision:
    """Return the yes of a simulated admin."""
    return Decision(
        study.digest, study.study, study.version, True, None, None, "simulation", datetime.now(UTC)
    )


def write_node_file(consortium: Consortium, member: Member, coordinator: str) -> Path:
    """Write a site's node.yaml, now that the coordinator's address is known, and return its path."""
    facts = member.tables.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {
        "site": member.site,
        "coordinator": coordinator,
        "identity_key": "identity.key",
        "epoch": consortium.plan.study.epoch,
    }
    path = member.folder / "node.yaml"
    path.write_text(to_yaml(facts), encoding="utf-8")
    return path


def write_coordinator_file(
    consortium: Consortium, results: Path, gather_s: float, trustee: str | None = None
) -> Path:
    """Write coordinator.yaml, with the address of the trustee where the study has one, and return its path."""
    from cohortsum.coordinator.store import sqlite_url  # loads SQLAlchemy

    hub = consortium.folder / "coordinator"
    settings = {
        "roster": "consortium.yaml",
        "roster_signature": "consortium.sig",
        "operator_key": consortium.operator_key.hex(),
        "identity": COORDINATOR,
        "identity_key": "identity.key",
        "listen": "127.0.0.1:0",
        "store": sqlite_url((hub / "coordinator.db").resolve()),
        "spool": "spool",
        "results": str(results.resolve()),
        "enrol_s": gather_s,
        "gather_s": gather_s,
        # a process that has died here never comes back: no step waits longer than its deadline
        "step_max_s": consortium.plan.study.deadlines_s.step,
        "grace_s": 2.0,
    } | ({} if trustee is None else {"trustee": trustee})
    path = hub / "coordinator.yaml"
    path.write_text(to_yaml(settings))
    return path


def _entry(name: str, role: RoleName, key: bytes, index: int | None = None) -> IdentityEntry:
    return IdentityEntry(
        id=name,
        role=role,
        index=index,
        name=f"simulated {role}",
        organisation="simulated",
        key=format_key(key),
    )


def _new_seed() -> SecretBytes:
    return SecretBytes(secrets.token_bytes(32), "identity seed")


def _new_key() -> IdentityKey:
    return IdentityKey(_new_seed())


def _write_secret(path: Path, seed: SecretBytes) -> None:
    path.touch(mode=0o600)
    path.write_text(seed.reveal().hex())
