"""The studies as the store has them: for the operator on the coordinator's own machine, whether it runs or not."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.config import SQLITE, CoordinatorConfig, load_coordinator_config
from cohortsum.coordinator.store import OVER, AnswerRow, PresenceRow, RoundRow, Store, StudyRow, as_utc
from cohortsum.protocol.audit import Head
from cohortsum.protocol.audit_check import Examined, examine
from cohortsum.protocol.codec import packet_from_bytes
from cohortsum.protocol.messages import Kind
from cohortsum.study.definition import parse_canonical
from cohortsum.study.enrolment import closes_at

LATELY = timedelta(minutes=5)
STUCK = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class OverviewLine:
    """One study.

    Attributes:
        name: its id.
        version: its version.
        state: as in `StudyStatus`.
        closes: the end of enrolment, UTC.
        approved: sites that have said yes.
        lately: those of them that were heard of in the last five minutes.
        attempts: at its round.
        note: why it ended, or what is odd.
        needs_a_look: whether the operator should do something.
    """

    name: str
    version: int
    state: str
    closes: datetime | None
    approved: tuple[str, ...]
    lately: tuple[str, ...]
    attempts: int
    note: str
    needs_a_look: bool


def overview(config: CoordinatorConfig, now: datetime) -> tuple[OverviewLine, ...]:
    """Return every study in the store of a coordinator, the newest last."""
    file = config.store.removeprefix(SQLITE)
    if file != config.store and not Path(file).exists():
        return ()  # it has never run, and looking does not make a store
    with closing(Store(config.store)) as store, store.transaction() as session:
        seen = {row.site: as_utc(row.seen) for row in session.scalars(select(PresenceRow))}
        lines: list[OverviewLine] = []
        for row in session.scalars(select(StudyRow).order_by(StudyRow.submitted)):
            packets = session.scalars(select(AnswerRow.packet).where(AnswerRow.study == row.digest))
            approved = tuple(
                sorted(
                    packet.envelope.sender
                    for packet in map(packet_from_bytes, packets)
                    if packet.envelope.kind is Kind.APPROVAL
                )
            )
            attempts = len(
                session.scalars(select(RoundRow.context).where(RoundRow.study == row.digest)).all()
            )
            study = parse_canonical(row.canonical)
            closes = as_utc(row.closed) if row.closed is not None else closes_at(study, as_utc(row.submitted))
            late = row.state not in OVER and now - closes > STUCK
            note = row.reason or ("enrolment ended more than a day ago" if late else "")
            lately = tuple(site for site in approved if site in seen and now - seen[site] < LATELY)
            lines.append(
                OverviewLine(row.name, row.version, row.state, closes, approved, lately, attempts, note, late)
            )
    return tuple(lines)


def audit_of(folder: Path) -> tuple[Examined, Mapping[bytes, str]]:
    """Return the audit log of the coordinator in a folder, and its studies as ``ID@VERSION`` by digest."""
    config = load_coordinator_config(folder / "coordinator.yaml")
    file = config.store.removeprefix(SQLITE)
    if file != config.store and not Path(file).exists():
        return examine(b"", Head()), {}
    with closing(Store(config.store, folder / AUDIT, config.process)) as store:
        query = select(StudyRow.digest, StudyRow.name, StudyRow.version)
        with store.transaction() as session:
            names = {
                bytes.fromhex(digest): f"{name}@{version}" for digest, name, version in session.execute(query)
            }
        return store.audit(), names
