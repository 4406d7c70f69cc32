"""Decisions about the items of studies whose rounds are over: taken from the store, for as long as the consortium lives.

No round runs and no runner is needed. A decision is verified against the rosters as they are now, and everything that follows from
it is one transaction: the decision, the states, the document, the study's state, the lines of the audit log. The results folder
is written after it; where a crash comes between, the next start writes it.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from cohortsum.coordinator.item_rows import (
    read_review,
    read_turns,
    remedies,
)
from cohortsum.coordinator.items import signature_block
from cohortsum.coordinator.linked_releases import linked_releases
from cohortsum.coordinator.publish import release_folder, write_release
from cohortsum.coordinator.recompute import gated_again, read_material
from cohortsum.coordinator.release_wire import ItemLine, ReleaseList
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.store import OVER, ResultRow, ReviewRow, Store, StudyRow
from cohortsum.coordinator.taking import Standing, take
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, RefusedError
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.roster import Identity, Role
from cohortsum.report.document import OUT, RuleBlock, TableBlock, from_json
from cohortsum.report.item_file import ITEM_SCHEMA, EarlierBlock, ItemFile
from cohortsum.report.page import NO_NOISE
from cohortsum.study.definition import parse_canonical
from cohortsum.study.disclosure.verdict import Gated
from cohortsum.study.planning import plan_study
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import decided
from cohortsum.study.release.panel import Panel, panel_of
from cohortsum.study.release.states import State

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class ReviewDesk:
    """Takes decisions, and shows what there is to decide.

    Args:
        store: the durable store.
        results: releases, in a folder per study and version.
        roll: returns who counts now.
    """

    def __init__(self, store: Store, results: Path, roll: Callable[[], Roll]) -> None:
        self._store, self._results, self._roll = store, results, roll

    async def settle(self) -> None:
        """Write the results folders that a crash left behind the store."""
        with self._store.transaction() as session:
            query = select(ReviewRow.study).where(ReviewRow.written.is_(False))
            behind = session.scalars(query).all()
        for study in behind:
            try:
                await self._write(bytes.fromhex(study))
            except OSError as error:
                log.error("results.not_written", study=study[:16], errno=error.errno)

    def standing(self, digest: bytes) -> Standing:
        """Return how a study stands; raises RefusedError for one that is not here, or has no items yet."""
        with self._store.transaction() as session:
            return self._standing(session, digest)

    def lines(self, digest: bytes, reader: Identity) -> ReleaseList:
        """Return where every item of a study stands; digests for those who may see values."""
        standing = self.standing(digest)
        reads, panel = _reads(standing.panel, reader), standing.panel
        lines = tuple(
            ItemLine(
                held.item.name,
                held.item.state.value,
                held.item.digest if reads or held.item.state in OUT else b"",
                panel.missing(held.item.signatures) if held.item.state is State.QUEUE else (),
            )
            for held in standing.items
        )
        return ReleaseList(standing.state, lines)

    def earlier(self, standing: Standing, name: str) -> tuple[tuple[str, TableBlock], ...]:
        """Return earlier contents of an item, the newest first, each with words that say which.

        What it was before it was returned, and the released tables of that name in earlier versions of the study.
        """
        study = standing.study
        digest = study.digest.hex()
        with self._store.transaction() as session:
            now = standing.item(name).turn
            turns = [
                (f"turn {held.turn}, returned", held.table)
                for held in reversed(read_turns(session, digest))
                if held.item.name == name and held.turn < now and held.table is not None
            ]
            query = (
                select(StudyRow.version, ResultRow.document)
                .join(ResultRow, ResultRow.study == StudyRow.digest)
                .where(StudyRow.name == study.study, StudyRow.version < study.version)
                .order_by(StudyRow.version.desc())
            )
            versions = [
                (f"version {version}", table)
                for version, written in session.execute(query)
                for table in from_json(written).tables
                if table.analysis == name
            ]
        return (*turns, *versions)

    def file(self, digest: bytes, name: str, reader: Identity) -> ItemFile:
        """Return an item with its values, once it is noted who reads it.

        Raises AuthenticationError for whoever may not, RefusedError where there is nothing to show.
        """
        standing = self.standing(digest)
        if not _reads(standing.panel, reader):
            raise AuthenticationError("values of an item are for those who decide about it, and for auditors")
        held = standing.item(name)
        if held.table is None:
            raise RefusedError(f"{name} is {held.item.state}: the rules let nothing of it through")
        document, privacy = standing.document, standing.document.privacy
        file = ItemFile(
            schema=ITEM_SCHEMA,
            study=document.study,
            profile=document.profile,
            waivers=document.waivers,
            item=name,
            state=held.item.state,
            digest=held.item.digest.hex(),
            table=held.table,
            rules=tuple(map(RuleBlock.of, held.rules)),
            signatures=tuple(map(signature_block, held.item.signatures)),
            missing=standing.panel.missing(held.item.signatures) if held.item.state is State.QUEUE else (),
            earlier=tuple(
                EarlierBlock(since=since, table=table) for since, table in self.earlier(standing, name)
            ),
            noise=NO_NOISE if privacy is None else " ".join(privacy.sentences),
        )
        self._store.note(Deed(DeedKind.ITEM_READ, digest, digest=held.item.digest, by=reader.id, detail=name))
        return file

    async def decide(self, decision: Decision) -> Standing:
        """Take a decision with all that follows from it, and return how the study stands then; the same one again changes nothing.

        Raises:
            AuthenticationError: the signature is not that of whom it names.
            RefusedError: the decision has no place.
        """
        async with self._store.releasing:
            standing = self.standing(decision.study)
            held = standing.item(decision.item)
            item = decided(held.item, decision, standing.panel)
            if item is not held.item:
                gated = await self._gated_again(standing, decision) if decision.act is Act.RETURN else None
                with self._store.transaction() as session:
                    take(session, standing, held, item, gated)
                log.info("item.decided", study=standing.study.study, act=decision.act.value, by=decision.by)
            await self._write(decision.study)
            return self.standing(decision.study)

    async def _gated_again(self, standing: Standing, decision: Decision) -> Gated:
        """Return all tables as they would be after a remedy; nothing is kept."""
        study = decision.study.hex()
        with self._store.transaction() as session:
            material = read_material(session, study, standing.review, standing.document)
            wanted = (*remedies(session, study), (decision.item, decision.remedy))
            linked = linked_releases(session, standing.study, standing.document.sites.survivors)
        plan = plan_study(standing.study, self._roll().whole(standing.study.roster))
        try:
            return await asyncio.to_thread(gated_again, plan, material, wanted, linked)
        except ConfigurationError as error:  # about the remedy, which the caller wrote
            raise RefusedError(error.message) from error

    async def _write(self, digest: bytes) -> None:
        """Let the results folder hold what the store holds, where it does not yet."""
        with self._store.transaction() as session:
            if session.get_one(ReviewRow, digest.hex()).written:
                return
            written = session.get_one(ResultRow, digest.hex()).document
            study = parse_canonical(session.get_one(StudyRow, digest.hex()).canonical)
        folder = release_folder(self._results, study)
        await asyncio.to_thread(write_release, folder, from_json(written))
        with self._store.transaction() as session:
            session.get_one(ReviewRow, digest.hex()).written = True

    def _standing(self, session: Session, digest: bytes) -> Standing:
        row, result = session.get(StudyRow, digest.hex()), session.get(ResultRow, digest.hex())
        review = read_review(session, digest.hex())
        if row is None:
            raise RefusedError("no such study at this coordinator")
        if result is None or review is None or row.state not in OVER:
            raise RefusedError(f"study {row.name} is {row.state}; there are no items to decide about")
        study, document = parse_canonical(row.canonical), from_json(result.document)
        roll = self._roll()
        rosters = [roster.identities for roster in roll.rosters.values()]
        panel = panel_of(
            digest,
            study.release.checkers,
            [known[row.statistician] for known in rosters if row.statistician in known],
            roll.now.identities.values(),
            roll.counted(study.roster).identities.values(),
            document.sites.survivors,
        )
        turns = read_turns(session, digest.hex())
        seen = frozenset((held.item.name, held.item.digest) for held in turns)
        items = tuple({held.item.name: held for held in turns}.values())
        return Standing(study, row.state, document, review, items, panel, seen)


def _reads(panel: Panel, reader: Identity) -> bool:
    """Whether somebody may see values that have not left: who decides about them, and auditors."""
    party = panel.parties.get(reader.id)
    decides = party is not None and (party.role, party.key) == (reader.role, reader.key)
    return decides or (reader.role is Role.AUDITOR and panel.independent(reader))
