"""Where a study stands: who has answered, who is present, what blocks, and what would be lost.

Everything here is about sites and times, never about people or values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from cohortsum.coordinator.runner import StudyRunner
from cohortsum.coordinator.store import OVER, RoundRow, Store, StudyRow, as_utc
from cohortsum.crypto.errors import RefusedError
from cohortsum.protocol.bounds import Protection, threshold


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """One site: ``answer`` is `approved`, `not taking part` or empty; ``last_seen`` is UTC."""

    id: str
    answer: str
    present: bool
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """One attempt at one of the study's rounds; both count from 1."""

    iteration: int
    attempt: int
    state: str
    reason: str
    survivors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """One study.

    Attributes:
        digest: 32 bytes.
        name: the study's id.
        version: its version.
        state: enrolling, gathering, running, in review, released, ended, withdrawn or superseded.
        reason: why it ended, where it did without a result.
        enrolment_closes: the end of the window, UTC; None where it is not known any more.
        sites: by roster index; empty for a study that is over.
        attempts: in their order.
        blocks: what it waits for, in sentences.
    """

    digest: bytes
    name: str
    version: int
    state: str
    reason: str
    enrolment_closes: datetime | None
    sites: tuple[SiteStatus, ...]
    attempts: tuple[AttemptStatus, ...]
    blocks: tuple[str, ...]


def study_status(store: Store, digest: bytes, runner: StudyRunner | None) -> StudyStatus:
    """Return the status of a study; raises RefusedError for one that the store does not hold.

    Args:
        store: the coordinator's store.
        digest: of the study.
        runner: what runs it; None for a study that is over, or where only the store can be read.
    """
    with store.transaction() as session:
        row = session.get(StudyRow, digest.hex())
        if row is None:
            raise RefusedError("no such study at this coordinator; `cohortsum study list` shows what is")
        rounds = session.scalars(
            select(RoundRow)
            .where(RoundRow.study == row.digest)
            .order_by(RoundRow.iteration, RoundRow.attempt)
        ).all()
        attempts = tuple(
            AttemptStatus(
                held.iteration,
                held.attempt,
                held.state,
                held.reason,
                tuple(held.survivors.split(",")) if held.survivors else (),
            )
            for held in rounds
        )
        closed = None if row.closed is None else as_utc(row.closed)
        name, version, state, reason = row.name, row.version, row.state, row.reason
    sites = () if runner is None else _sites(runner)
    closes = closed if runner is None or closed is not None else runner.enrolment.closes
    blocks = () if runner is None or state in OVER else _blocks(runner, sites, attempts)
    return StudyStatus(digest, name, version, state, reason, closes, sites, attempts, blocks)


def _sites(runner: StudyRunner) -> tuple[SiteStatus, ...]:
    who, said = runner.enrolment, {True: "approved", False: "not taking part", None: ""}
    return tuple(
        SiteStatus(
            name, said[who.answers.get(index)], who.presence.is_present(index), who.presence.last_heard(index)
        )
        for index, name in who.names.items()
    )


def _blocks(
    runner: StudyRunner, sites: Sequence[SiteStatus], attempts: Sequence[AttemptStatus]
) -> tuple[str, ...]:
    """Return what the study waits for, and what would be lost by going on."""
    protection = runner.plan.round.protection
    approved = [site.id for site in sites if site.answer == "approved"]
    silent = [site.id for site in sites if not site.answer]
    absent = [site.id for site in sites if site.answer == "approved" and not site.present]
    sentences: list[str] = []
    if runner.state == "enrolling":
        if silent:
            sentences.append(
                f"no answer yet from {', '.join(silent)}; without them their people are not in the sums"
            )
        if len(approved) < protection.min_sites:
            sentences.append(f"approved by {len(approved)} of at least {protection.min_sites} sites")
    if runner.state in ("gathering", "enrolling") and absent:
        sentences.append(f"approved but not connected: {', '.join(absent)}")
    if runner.state == "gathering":
        sentences.append(_loss(protection, len(approved), len(absent)))
    named = [attempt.survivors for attempt in attempts if attempt.survivors]
    if named and runner.state != "running":
        sentences.append(f"the next attempt needs all of {', '.join(named[-1])}: a survivor set was named")
    return tuple(sentences)


def _loss(protection: Protection, approved: int, absent: int) -> str:
    left = approved - absent
    if left < protection.min_sites:
        return (
            f"going on now would end the study: {left} sites are present, {protection.min_sites} are required"
        )
    spare = left - max(threshold(left), protection.min_sites)
    return f"going on now would leave {absent} sites out for good, and the round would survive {spare} further dropouts"
