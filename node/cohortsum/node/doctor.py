"""`cohortsum node doctor`: every check an admin would otherwise make by hand, each with its cure.

Files and rights first, then what is pinned, then the line to the coordinator, then policy, data and disk. A check whose
precondition failed is skipped and says so; all others run, so that one visit shows everything.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cohortsum.crypto.errors import CohortsumError
from cohortsum.crypto.fingerprint import phrase
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.config import NodeConfig, load_node_config
from cohortsum.node.doctor_data import check_disk, check_policy, check_snapshot, check_tables
from cohortsum.node.doctor_line import LineSetup, check_line, skip_after
from cohortsum.node.files import read_key
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.pinning import Pin, load_pin, own_identity
from cohortsum.study.definition import FrozenStudy

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Visit:
    """What one run of the doctor is about.

    Attributes:
        folder: the node's folder.
        environment: where proxies are named.
        now: the current time, with a time zone.
        study: a study to read the tables for, if any.
        offline: leave the line to the coordinator alone.
    """

    folder: Path
    environment: Mapping[str, str]
    now: datetime
    study: FrozenStudy | None = None
    offline: bool = False


def examine(visit: Visit) -> tuple[Finding, ...]:
    """Return the findings of all checks, in their order."""
    return tuple(_examine(visit))


def _examine(visit: Visit) -> Iterator[Finding]:
    folder = visit.folder
    if not folder.is_dir():
        yield failure("files", f"{folder} is no folder", "make it with `cohortsum node init`")
        return
    config: NodeConfig | None = None
    try:
        config = load_node_config(folder / "node.yaml")
        yield ok("files", "node.yaml can be used")
    except CohortsumError as error:
        yield failure("files", error.message, "correct node.yaml")
    yield from _rights(folder, config)
    key: IdentityKey | None = None
    pin: Pin | None = None
    if config is None:
        yield skipped("key", "not tried: node.yaml names the key")
    else:
        try:
            key = read_key(config.identity_key)
            yield ok("key", "the identity key can be read")
        except CohortsumError as error:
            yield failure(
                "key",
                error.message,
                "restore it from backup, or make a new node and ask the operator to replace the key",
            )
    try:
        pin = load_pin(folder)
        yield ok(
            "pin", f"roster version {pin.newest.version} of {pin.newest.consortium}: {phrase(pin.words)}"
        )
    except CohortsumError as error:
        yield failure("pin", error.message, "pin the operator's newest roster with `cohortsum node pin`")
    yield from _copies(folder, pin)
    yield _place(config, key, pin)
    yield _denials(config, pin)
    if config is None or key is None or pin is None:
        yield from skip_after("", "it needs node.yaml, the key and a pinned roster")
    elif visit.offline:
        yield from skip_after("", "left out on request")
    else:
        hub = pin.newest.coordinator
        yield from check_line(
            LineSetup(config.coordinator, hub, config.site, key, visit.environment, folder, visit.now)
        )
    yield check_policy(folder, visit.study)
    if config is None:
        for name in ("tables", "mapping", "snapshot"):
            yield skipped(name, "not tried: node.yaml names the tables")
    else:
        yield from check_tables(config, visit.study, folder)
        yield check_snapshot(folder, config, visit.study)
    yield check_disk(folder)


def _rights(folder: Path, config: NodeConfig | None) -> Iterator[Finding]:
    """Judge who else can enter the folder, read the key or change what the node believes."""
    state = folder.stat()
    if state.st_uid != os.geteuid():
        yield warning(
            "folder",
            "the folder belongs to another account",
            "run doctor under the account that runs the node",
        )
    elif state.st_mode & OTHERS:
        yield failure("folder", "other accounts can enter the node's folder", f"chmod 700 {folder}")
    else:
        yield ok("folder", "only its owner enters the folder")
    secret = [] if config is None else [config.identity_key]
    secret += [path for path in (folder / "ledger.db",) if path.exists()]
    names = ("node.yaml", "policy.yaml", "operator.pub", "consortium.yaml", "deny.yaml")
    open_ones = [
        f"chmod 600 {path.name}" for path in secret if path.exists() and path.stat().st_mode & OTHERS
    ]
    open_ones += [
        f"chmod go-w {name}"
        for name in names
        if (folder / name).exists() and (folder / name).stat().st_mode & OTHERS_WRITE
    ]
    private = not state.st_mode & OTHERS
    if not open_ones:
        yield ok("rights", "keys are private; nobody else writes settings")
        return
    sentence = "other accounts have rights on: " + ", ".join(cure.rpartition(" ")[2] for cure in open_ones)
    # a ledger that sqlite made with the account's umask is behind the folder's own wall
    only_ledger = open_ones == ["chmod 600 ledger.db"]
    if private and only_ledger:
        yield ok("rights", "keys are private; the ledger lies behind the folder's rights")
    else:
        yield failure("rights", sentence, "; ".join(open_ones))


def _copies(folder: Path, pin: Pin | None) -> Iterator[Finding]:
    """Compare the copies that a node reads with what is pinned under ``rosters/`` and ``denials/``."""
    if pin is None:
        return
    series = [("consortium", "rosters", pin.newest.version)]
    series += [("deny", "denials", pin.deny.serial)] if pin.deny.serial else []
    wrong = [
        f"{name}{suffix}"
        for name, home, number in series
        for suffix in (".yaml", ".sig")
        if not _same(folder / f"{name}{suffix}", folder / home / f"{number}{suffix}")
    ]
    if wrong:
        yield failure(
            "copies",
            f"{' and '.join(wrong)} is not what was pinned",
            "pin the newest roster again with `cohortsum node pin`, and the deny-list with `cohortsum node deny`",
        )
    else:
        yield ok("copies", "roster and deny-list are the pinned ones")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _place(config: NodeConfig | None, key: IdentityKey | None, pin: Pin | None) -> Finding:
    if config is None or key is None or pin is None:
        return skipped("roster", "not tried: it needs node.yaml, the key and a pinned roster")
    wrong = own_identity(pin.newest, config.site, key.public)
    if wrong is not None:
        return from_error("roster", wrong)
    return ok("roster", f"the key is the one of site {config.site}")


def _denials(config: NodeConfig | None, pin: Pin | None) -> Finding:
    if config is None or pin is None:
        return skipped("deny-list", "not tried: it needs node.yaml and a pinned roster")
    for name, what in (
        (config.site, "this site's key"),
        (pin.newest.coordinator.id, "the coordinator's key"),
    ):
        identity = pin.newest.identities.get(name)
        entry = None if identity is None else pin.deny.entry_for(identity)
        if entry is not None:
            return failure(
                "deny-list",
                f"{what} was revoked on {entry.since.date()}: {entry.reason}",
                "call the operator; a new key is admitted with `cohortsum coordinator admit --replace`",
            )
    said = f"serial {pin.deny.serial}, {len(pin.deny.denied)} keys" if pin.deny.serial else "none yet"
    return ok("deny-list", f"{said}; neither this site nor the coordinator is on it")
