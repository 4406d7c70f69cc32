"""Are policy, tables and mapping in order, and does the disk hold what a round writes?

Without a study only headers are read; with one, everything is read as a round would read it, and what a round would log is
judged here. Sentences name tables, columns and counts of faulty rows, never an id or a value; like the node's log they stay
at the site.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cohortsum.crypto.errors import CohortsumError, ConfigurationError, DataError, NotInThisVersionError
from cohortsum.node.config import NodeConfig, load_policy_config, refuse_unbuilt_policy
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.policy import floors_for
from cohortsum.node.setup import NO_EPOCH
from cohortsum.node.snapshot import held_snapshot
from cohortsum.node.tables.locate import place_of
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import content_digest, open_tables
from cohortsum.node.tables.source import source_of
from cohortsum.study.cohort import Cohort
from cohortsum.study.definition import FrozenStudy

LEAST_FREE_BYTES = 200 * 2**20
GOOD_FREE_BYTES = 2 * 2**30


def check_policy(folder: Path, study: FrozenStudy | None) -> Finding:
    """Return whether the policy loads, can be used in this version, and allows ``study``."""
    try:
        policy = load_policy_config(folder / "policy.yaml")
        refuse_unbuilt_policy(policy)
        if study is not None:
            floors_for(study, policy)
    except NotInThisVersionError as error:
        return from_error("policy", error.message)
    except CohortsumError as error:
        return failure("policy", error.message, "correct policy.yaml, or decline the study")
    allowed = "" if study is None else f" and allows study {study.study}"
    return ok("policy", f"profile {policy.profile}; can be used{allowed}")


def check_tables(config: NodeConfig, study: FrozenStudy | None, scratch: Path) -> Iterator[Finding]:
    """Yield whether tables and mapping are in order: by their headers, or for a study by reading them whole."""
    problems: list[str] = []
    names: dict[str, list[str]] = {}
    for name, table in config.tables.items():
        source = source_of(name, table)
        try:
            names[name] = [table.renamed(column) for column in source.layout().names]
            place_of(table.id, names[name], source.label)
            if table.rows is not None:
                place_of(table.rows.order, names[name], source.label)
        except DataError as error:
            problems.append(error.message)
    if problems:
        yield failure("tables", "; ".join(problems), "correct the tables, or path and columns in node.yaml")
        yield skipped("mapping", "not tried: a table cannot be read")
        return
    yield ok("tables", f"{len(names)} can be read: {', '.join(names)}")
    lacking = [
        f"variable {name}: no column {entry.source.column} in table {entry.source.table}"
        for name, entry in config.variables.items()
        if entry.source is not None and entry.source.column not in names[entry.source.table]
    ]
    if lacking:
        yield failure("mapping", "; ".join(lacking), "name the right column under variables in node.yaml")
    elif study is None:
        yield ok(
            "mapping", "every column that node.yaml names is there; give --study FILE to read for a study"
        )
    else:
        yield _mapping(config, study, scratch)


def check_snapshot(folder: Path, config: NodeConfig, study: FrozenStudy | None) -> Finding:
    """Return whether the tables are those of the snapshot that node.yaml names, and the study is about it."""
    remedy = "run `cohortsum node snapshot` with a new label; studies name it"
    if config.epoch == NO_EPOCH:
        return warning("snapshot", "there is none yet, so no study can be answered", remedy)
    try:
        held = held_snapshot(folder, config.epoch)
        if held is None:
            return warning(
                "snapshot", f"epoch {config.epoch} was not made by `cohortsum node snapshot`", remedy
            )
        if content_digest(config) != held:
            return failure("snapshot", f"the tables have changed since snapshot {config.epoch}", remedy)
    except (DataError, ConfigurationError) as error:
        return failure(
            "snapshot", error.message, "repair what the line of tables says, then run doctor again"
        )
    if study is not None and study.epoch != config.epoch:
        return failure(
            "snapshot",
            f"study {study.study} is about epoch {study.epoch}; this site's is {config.epoch}",
            "agree with the statistician on the epoch, or make a snapshot with the study's label",
        )
    return ok("snapshot", f"the tables are those of snapshot {config.epoch}")


def check_disk(folder: Path) -> Finding:
    """Return whether the node's folder takes a synchronised write and has room."""
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(2**20))
            trial.flush()
            os.fsync(trial.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return failure(
            "disk",
            f"the folder does not take a write ({error.strerror})",
            "check free space, quota and rights; the ledger must be on disk before anything leaves",
        )
    said = f"{free / 2**30:.1f} GiB free"
    if free < LEAST_FREE_BYTES:
        return failure("disk", said, "make room: tables are copied here while a study reads them")
    if free < GOOD_FREE_BYTES:
        return warning("disk", said, "make room: tables are copied here while a study reads them")
    return ok("disk", f"{said}; writes are synchronised")


def _mapping(config: NodeConfig, study: FrozenStudy, scratch: Path) -> Finding:
    cohort = Cohort(study)
    needs = Needs(study.variables, cohort.required, cohort.reads - cohort.required)
    try:
        with open_tables(config, needs, scratch) as tables:
            absent = [f"{name}: {why}" for name, why in sorted(tables.missing_variables.items())]
    except DataError as error:
        return failure("mapping", error.message, "repair the tables, or their mapping in node.yaml")
    if absent:
        return warning(
            "mapping",
            f"study {study.study} can be answered without {len(absent)} of its outcomes ({'; '.join(absent)})",
            "map these columns in node.yaml, if the site has them",
        )
    return ok("mapping", f"every variable of study {study.study} is found and can be read")
