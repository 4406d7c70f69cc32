"""What monitoring asks a node: does it run, does it reach the coordinator, does anything wait for its admin?"""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from cohortsum.crypto.errors import CohortsumError
from cohortsum.node.audit_log import AUDIT
from cohortsum.node.board import BoardFile, read_board
from cohortsum.node.config import load_node_config
from cohortsum.node.daemon import FINAL
from cohortsum.node.decisions import read_decisions
from cohortsum.node.doctor_data import check_disk
from cohortsum.node.evidence import EVIDENCE
from cohortsum.node.findings import Finding, failure, from_error, ok, skipped, warning
from cohortsum.node.ledger import Ledger
from cohortsum.study.enrolment import local_time
from cohortsum.study.release.evidence_file import SUFFIX

DOWN_FOR = timedelta(minutes=10)
ENDS_SOON = timedelta(days=30)


def node_findings(folder: Path, now: datetime) -> tuple[Finding, ...]:
    """Return what monitoring should know; nothing here connects to anything."""
    return tuple(_findings(folder, now))


def _findings(folder: Path, now: datetime) -> Iterator[Finding]:
    try:
        board = read_board(folder)
    except CohortsumError as error:
        yield from_error("running", error.message)
        board = None
    else:
        yield _running(board, now, folder)
    if board is None or not board.is_running(now):
        yield skipped("line", "not known: the node does not run")
    else:
        yield _line(board, now)
    yield from _studies(board, folder)
    yield _approvals(folder, now)
    yield _epoch(folder)
    yield _audit(folder)
    yield from _evidence(folder)
    yield check_disk(folder)


def _running(board: BoardFile | None, now: datetime, folder: Path) -> Finding:
    start = f"start it: cohortsum node run {folder}, or the service that does"
    if board is None:
        return failure("running", "the node has never run here", start)
    if not board.is_running(now):
        return failure("running", f"the node was last alive {local_time(board.at)}", start)
    return ok("running", "the node runs")


def _line(board: BoardFile, now: datetime) -> Finding:
    if board.refused:
        return failure(
            "line",
            board.refused,
            "ask the operator whether this site's key is in the newest roster and not revoked",
        )
    if board.down_since is None:
        return ok("line", "the coordinator answers")
    said = f"the coordinator has not answered since {local_time(board.down_since)}"
    cure = "run `cohortsum node doctor`: it says where the line ends"
    return failure("line", said, cure) if now - board.down_since > DOWN_FOR else warning("line", said, cure)


def _studies(board: BoardFile | None, folder: Path) -> Iterator[Finding]:
    lines = () if board is None else board.studies
    waiting = [f"{line.name}@{line.version}" for line in lines if line.here == "waits for a decision"]
    if waiting:
        yield warning(
            "studies",
            f"waiting for a decision: {', '.join(waiting)}",
            f"run `cohortsum node studies {folder}`",
        )
    troubled = [
        line
        for line in lines
        if line.here in ("stays out", "failed", "too late", "cannot be used") and line.state not in FINAL
    ]
    for line in troubled:
        yield warning(
            "studies", f"{line.name}@{line.version} {line.here}: {line.reason}", "follow what it says"
        )
    if not waiting and not troubled:
        yield ok("studies", f"{sum(line.here == 'takes part' for line in lines)} under way, none waits")


def _approvals(folder: Path, now: datetime) -> Finding:
    try:
        decisions = read_decisions(folder).values()
    except CohortsumError as error:
        return from_error("approvals", error.message)
    ending = [
        f"{held.study}@{held.version} on {held.until}"
        for held in decisions
        if held.approved and held.until is not None and now.date() <= held.until < (now + ENDS_SOON).date()
    ]
    if ending:
        return warning(
            "approvals", f"approvals end soon: {', '.join(ending)}", "approve again if they shall go on"
        )
    return ok("approvals", "no approval ends within 30 days")


def _epoch(folder: Path) -> Finding:
    try:
        epoch = load_node_config(folder / "node.yaml").epoch
        with closing(Ledger(folder / "ledger.db")) as ledger:
            closed, restored = ledger.epochs.closed(epoch), ledger.restored_since()
    except CohortsumError as error:
        return from_error("epoch", error.message)
    if restored is not None:
        return failure(
            "ledger",
            f"it was found to be an older copy {local_time(restored)}; nothing is answered",
            "stop the node and run `cohortsum node recover`",
        )
    if closed is not None:
        return warning(
            "epoch",
            f"epoch {epoch} was closed {local_time(closed[0])} because {closed[1]}",
            "make a snapshot with a new label: cohortsum node snapshot",
        )
    return ok("epoch", f"epoch {epoch} is open")


def _audit(folder: Path) -> Finding:
    try:
        load_node_config(folder / "node.yaml")
        with closing(Ledger(folder / "ledger.db")) as ledger:
            found = ledger.audit()
    except CohortsumError as error:
        return from_error("audit", error.message)
    if found.fault is not None:
        return failure(
            "audit",
            f"the audit log was tampered with ({found.fault}); nothing is sent once it does not fit the ledger",
            f"keep {AUDIT} for whoever investigates; cohortsum node audit renew {folder} begins a new one",
        )
    if found.unconfirmed or found.torn:
        return warning(
            "audit",
            f"the ledger does not confirm the last {found.unconfirmed} lines of the audit log",
            "after a crash or a restored ledger this is expected: the node says so in its next line",
        )
    return ok("audit", f"{len(found.lines)} lines of the audit log hold together")


def _evidence(folder: Path) -> Iterator[Finding]:
    names = [path.stem.split("-", 2) for path in sorted((folder / EVIDENCE).glob(f"*{SUFFIX}"))]
    if names:
        accused = sorted({f"{name[-1]} ({name[1]})" for name in names if len(name) == 3})
        yield warning(
            "evidence",
            f"{len(names)} files of evidence in {EVIDENCE}: {', '.join(accused)}",
            "docs/evidence.md says what to do; move the files to where you keep them, and this line ends",
        )
