"""A study from its first word to its last, as both audit logs tell it, with people whose ids must be in neither log."""

import io
import json
from collections import Counter
from collections.abc import Mapping, MutableMapping
from contextlib import closing
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import select

from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.overview import audit_of
from cohortsum.coordinator.store import MessageRow, Store, sqlite_url
from cohortsum.crypto.scrubbing import scrub
from cohortsum.node.ledger import Ledger
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.messages import Kind
from tests.admin import desk
from tests.edges.oracle import check_pooled
from tests.life.test_studies import play
from tests.life.town import EPOCH, Town, study_of

PLANTED = ("sub-0042", "7351946", "943 476 5919", "jane.roe@hospital.org", "NDARINV1234567")
"""Ids of site 2, whose people take part, and of site 4, where one of them is the name of the table."""

NODE = [
    DeedKind.LOG_BEGUN,
    DeedKind.ROSTER_PINNED,
    DeedKind.STUDY_HEARD,
    DeedKind.STUDY_APPROVED,
    DeedKind.APPROVAL_SIGNED,
    DeedKind.ROUND_JOINED,
    DeedKind.INPUT_MASKED,
    DeedKind.SURVIVORS_SIGNED,
    DeedKind.SURVIVORS_NAMED,
    DeedKind.SHARES_ANSWERED,
    DeedKind.SHARES_ANSWERED,
    DeedKind.SUM_OPENED,
    DeedKind.STUDY_OVER,
]


def plant(town: Town) -> None:
    """Give site 2 people with ids of every sort, and let site 4 name a table after one, which is not there."""
    table = town.folder(2) / "people.csv"
    text = table.read_text()
    for number, planted in enumerate(PLANTED):
        assert f"s2-{number:05d}" in text
        text = text.replace(f"s2-{number:05d}", planted)
    table.write_text(text)
    for index in range(town.count):
        desk.ok("node", "snapshot", town.folder(index), "--epoch", "planted")
    settings = town.folder(4) / "node.yaml"
    settings.write_text(settings.read_text().replace("people.csv", f"{PLANTED[0]}/{PLANTED[1]}.csv"))


def deeds_of(town: Town, index: int) -> list[Deed]:
    with closing(Ledger(town.folder(index) / "ledger.db")) as ledger:
        found = ledger.audit()
    assert (found.fault, found.unconfirmed, found.torn) == (None, 0, 0)
    return [line.deed for line in found.lines]


def at_coordinator(town: Town) -> list[Deed]:
    found, _ = audit_of(town.consortium)
    assert (found.fault, found.unconfirmed, found.torn) == (None, 0, 0)
    return [line.deed for line in found.lines]


def masked_by_store(town: Town) -> Mapping[str, bytes]:
    """Return the hash of every masked input as the coordinator's store has it, by site."""
    query = select(MessageRow).where(MessageRow.kind == Kind.MASKED.name)
    with (
        closing(Store(sqlite_url(town.consortium / "coordinator.db"))) as store,
        store.transaction() as session,
    ):
        return {row.sender: bytes.fromhex(row.digest) for row in session.scalars(query)}


def test_both_logs_tell_the_study_and_agree_on_every_contribution(tmp_path: Path) -> None:
    raw: list[dict[str, Any]] = []
    written = io.StringIO()

    def keep(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        raw.append(dict(event))
        return event

    async def story(town: Town) -> None:
        plant(town)
        town.start_nodes()
        study = await town.submit(study_of("one", changes={EPOCH: "planted"}))
        for index in range(town.count):
            await town.hears(index, study, "waits for a decision")
            town.decide(index, study)
        await town.hears(4, study, "stays out")
        check_pooled(await town.result(study), range(4))
        for index in range(town.count):
            await town.hears(index, study, "over")
        for index in range(town.count):
            await town.stop_node(index)

        masked = masked_by_store(town)
        assert sorted(masked) == ["site0", "site1", "site2", "site3"]
        for index in range(4):
            deeds = deeds_of(town, index)
            assert [deed.kind for deed in deeds] == NODE
            assert {deed.study for deed in deeds[2:]} == {study.digest}
            (own,) = [deed for deed in deeds if deed.kind is DeedKind.INPUT_MASKED]
            assert own.digest == masked[f"site{index}"]
            (approved,) = [deed for deed in deeds if deed.kind is DeedKind.STUDY_APPROVED]
            assert approved.by == "test"
        kinds = [deed.kind for deed in deeds_of(town, 4)]
        assert kinds[-2:] == [DeedKind.STAYED_OUT, DeedKind.STUDY_OVER]
        assert DeedKind.INPUT_MASKED not in kinds

        central = at_coordinator(town)
        taken = {
            deed.by: deed.digest
            for deed in central
            if deed.detail == Kind.MASKED.name and deed.study == study.digest
        }
        assert taken == masked
        (opened,) = [deed for deed in central if deed.kind is DeedKind.ATTEMPT_OPENED]
        assert {deed.context for deed in deeds_of(town, 0) if deed.context} == {opened.context}
        kinds = [deed.kind for deed in central if deed.kind is not DeedKind.MESSAGE_TAKEN]
        assert kinds[:2] == [DeedKind.LOG_BEGUN, DeedKind.STUDY_SUBMITTED]
        assert Counter(kinds[2:7]) == {DeedKind.APPROVAL_TAKEN: 4, DeedKind.STAY_OUT_TAKEN: 1}
        assert kinds[7:] == [
            DeedKind.ATTEMPT_OPENED,
            DeedKind.SURVIVORS_NAMED,
            DeedKind.SUM_OPENED,
            *[DeedKind.ITEM_RELEASED] * 3,
            DeedKind.RESULT_RELEASED,
            DeedKind.STUDY_OVER,
            DeedKind.RESULT_READ,
        ]
        read = [deed.by for deed in central if deed.kind is DeedKind.RESULT_READ]
        assert read == ["stat1"]
        files = [town.consortium / AUDIT, *(town.folder(index) / AUDIT for index in range(town.count))]
        held = b"".join(path.read_bytes() for path in files).decode()
        for planted in (*PLANTED, *(f"s{index}-0000" for index in range(5))):
            assert planted not in held
            assert planted not in written.getvalue()

    structlog.configure(
        processors=[keep, structlog.processors.format_exc_info, scrub, structlog.processors.JSONRenderer()],
        logger_factory=structlog.WriteLoggerFactory(file=written),
    )
    try:
        play(tmp_path, story)
    finally:
        structlog.reset_defaults()
    said = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len(said) == len(raw) > 100
    changed = {before["event"] for before, after in zip(raw, said, strict=True) if before != after}
    assert changed == {"study.stays_out"}  # the one event that named a person's table; no other lost anything
    assert PLANTED[1] in repr(raw)


def test_a_coordinator_whose_log_is_gone_does_nothing_until_it_is_back(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(4):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        log, elsewhere = town.consortium / AUDIT, town.home / "elsewhere"
        log.rename(elsewhere)
        town.decide(4, study)
        await town.until(lambda: town.daemons[4].board.down_since is not None)
        assert town.hub.running(study.digest).enrolment.answers == dict.fromkeys(range(4), True)
        assert town.hub.attempts() == {}
        elsewhere.rename(log)
        check_pooled(await town.result(study), range(5))
        assert DeedKind.RESULT_READ in [deed.kind for deed in at_coordinator(town)]

    play(tmp_path, story)
