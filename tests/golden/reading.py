"""What today's program finds in a folder of stored state, as plain values that a file can keep.

A field that a later version adds is not added here: what stands here is what every version before it is compared by.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.item_rows import read_turns
from cohortsum.coordinator.overview import audit_of, overview
from cohortsum.coordinator.store import ResultRow, RoundRow, Store, StudyRow
from cohortsum.coordinator.trail import kept_transcript
from cohortsum.crypto.fingerprint import phrase, roster_words
from cohortsum.node.board import read_board
from cohortsum.node.decisions import read_decisions
from cohortsum.node.files import read_public
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.audit_check import Examined
from cohortsum.protocol.roster import roster_digest
from cohortsum.protocol.witness import witnessed
from cohortsum.report.document import from_json, to_json
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.planning import plan_study

Found = dict[str, Any]
NOW = datetime(2099, 1, 1, tzinfo=UTC)
CONSORTIUM = "consortium"


def found_in(home: Path) -> Found:
    """Return what the coordinator and every node find in their folders below ``home``."""
    sites = sorted(path.name for path in home.glob("site*"))
    return {
        "coordinator": coordinator(home / CONSORTIUM),
        "sites": {name: site(home / name, int(name.removeprefix("site"))) for name in sites},
    }


def coordinator(folder: Path) -> Found:
    config = load_coordinator_config(folder / "coordinator.yaml")
    lines = overview(config, NOW)
    examined, names = audit_of(folder)
    with closing(Store(config.store, folder / AUDIT)) as store:
        with store.transaction() as session:
            studies = session.scalars(select(StudyRow).order_by(StudyRow.submitted)).all()
            canonical = {row.digest: row.canonical for row in studies}
            documents = {row.study: row.document for row in session.scalars(select(ResultRow))}
            opened = [
                (row.context, row.study)
                for row in session.scalars(select(RoundRow).order_by(RoundRow.opened))
                if row.state == "opened"
            ]
            items = {
                digest: [
                    [held.item.name, held.turn, held.item.state.value, held.item.digest.hex()]
                    + [[one.decision.by, one.decision.act.value] for one in held.item.signatures]
                    for held in read_turns(session, digest)
                ]
                for digest in canonical
            }
        return {
            "overview": [
                [line.name, line.version, line.state, list(line.approved), line.attempts, line.note]
                for line in lines
            ],
            "studies": {
                f"{study.study}@{study.version}": study.digest.hex()
                for study in map(parse_canonical, canonical.values())
            },
            "results": {digest: sha(to_json(from_json(document))) for digest, document in documents.items()},
            "stored results": {digest: sha(store.result(digest) or b"") for digest in documents},
            "items": items,
            "rounds": {
                context: proven(folder, store, bytes.fromhex(context), canonical[study])
                for context, study in opened
            },
            "audit": audited(examined),
            "audited studies": sorted(names.values()),
        }


def proven(folder: Path, store: Store, context: bytes, canonical: bytes) -> Found:
    """Return what the signed messages of a kept round prove to a witness."""
    study = parse_canonical(canonical)
    text = (folder / "rosters" / f"{study.roster}.yaml").read_bytes()
    signature = bytes.fromhex((folder / "rosters" / f"{study.roster}.sig").read_text())
    operator = read_public(folder / "operator.pub")
    roster = open_roster(text, signature, operator, "roster")
    transcript = kept_transcript(store, context, roster)
    found = witnessed(transcript, plan_study(study, roster).round, roster)
    return {
        "study": study.study,
        "messages": [
            len(transcript.adverts),
            len(transcript.shares),
            len(transcript.masked),
            len(transcript.consistency),
        ],
        "iteration": found.key.iteration,
        "survivors": list(found.survivors),
        "signers": list(found.signers),
        "h1": found.h1.hex(),
        "h2": found.h2.hex(),
        "fingerprint": phrase(roster_words(operator, roster_digest(text))),
    }


def site(folder: Path, index: int) -> Found:
    """Return what a node finds in its folder; the ledger is opened as by a node that starts."""
    board = read_board(folder)
    with closing(Ledger(folder / "ledger.db")) as ledger:
        history = ledger.history(index)
        return {
            "audit": audited(ledger.audit()),
            "writes": [
                [
                    write.context.hex(),
                    write.step.study.hex(),
                    [write.step.iteration, write.step.attempt],
                    write.h1.hex(),
                    write.h2.hex(),
                    sorted(write.advertisers),
                    sorted(write.delivered),
                    sorted(name for name, _ in write.people),
                    write.noised,
                    type(write.fate).__name__,
                ]
                for write in history.writes
            ],
            "signed": [
                [context.hex(), study.hex(), list(sites)] for context, study, sites in ledger.signed_rounds()
            ],
            "seen": sorted(
                [key.hex(), iteration, attempt] for key, iteration, attempt in ledger.seen_rounds()
            ),
            "budget": [
                [account.name, account.version, account.cost.nano_rho, account.reserved, account.charged]
                for account in ledger.budget.accounts()
            ],
            "counter": ledger.counter(),
            "peers": sorted(ledger.peers().items()),
            "decisions": sorted(
                [held.study, held.version, held.approved, held.by] for held in read_decisions(folder).values()
            ),
            "studies": []
            if board is None
            else [[line.name, line.version, line.here] for line in board.studies],
            "roster": load_pin(folder).newest.version,
        }


def audited(found: Examined) -> Found:
    """Return what the examination of an audit log found."""
    return {
        "fault": None if found.fault is None else str(found.fault),
        "unconfirmed": found.unconfirmed,
        "torn": found.torn,
        "deeds": [line.deed.kind.value for line in found.lines],
        "last": found.digests[-1].hex(),
    }


def columns_of(database: Path) -> dict[str, list[str]]:
    """Return the columns of every table of an SQLite file."""
    with closing(sqlite3.connect(database)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}


def rows_of(database: Path, columns: Mapping[str, list[str]]) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of these tables, in these columns: the bytes as they are stored."""
    held: dict[str, list[tuple[object, ...]]] = {}
    with closing(sqlite3.connect(database)) as connection:
        for name, wanted in columns.items():
            quoted = ", ".join(f'"{column}"' for column in wanted)
            held[name] = sorted(connection.execute(f'SELECT {quoted} FROM "{name}"'), key=repr)  # noqa: S608
    return held


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
