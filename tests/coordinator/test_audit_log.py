"""The coordinator's audit log on disk: one writer, every deed with the transaction that makes it durable, refusals by their check."""

import asyncio
import json
import os
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from cohortsum.coordinator import serve
from cohortsum.coordinator.attempt import Attempt
from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.store import EventRow, FactRow, Store, note, sqlite_url
from cohortsum.crypto.errors import RemoteProtocolError, StoreError
from cohortsum.protocol.approvals import approve, decline
from cohortsum.protocol.audit import Deed, DeedKind, Line
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator_states import CoordinatorSetup
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope, Kind, Packet, Regimen
from cohortsum.study.planning import plan_study
from tests.admin import desk
from tests.edges.harness import HUB, STATISTICIAN, pinned_roster, signed_study
from tests.protocol.consortium import identity_key

ROSTER = pinned_roster(4)
STUDY, SIGNED = signed_study()
PLAN = plan_study(STUDY, ROSTER).round
KEY = RoundKey(b"r" * 16, 1, 1)
CONTEXT = b"c" * 32
DONE = Deed(DeedKind.STARTED, by="hub")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(sqlite_url(tmp_path / "hub.db"), tmp_path / AUDIT)) as held:
        yield held


def signer(name: str) -> Signer:
    return Signer(ROSTER.identities[name], identity_key(name))


def lines_in(store: Store) -> list[Line]:
    """Return the lines of a log that must hold together and end as the store remembers."""
    found = store.audit()
    assert (found.fault, found.unconfirmed, found.torn) == (None, 0, 0)
    return list(found.lines)


def deeds_in(store: Store) -> list[Deed]:
    return [line.deed for line in lines_in(store)]


def record_in(store: Store) -> StudyRecord:
    record = StudyRecord(store, STUDY, ROSTER)
    record.remember(SIGNED, datetime.now(UTC))
    return record


def events_in(store: Store) -> list[str]:
    with store.transaction() as session:
        return list(session.scalars(select(EventRow.sender)))


@pytest.mark.parametrize("ending", ["opened", "aborted"])
def test_nothing_is_left_of_what_moved_an_attempt_on_and_a_late_message_adds_nothing(
    store: Store, ending: str
) -> None:
    early = replace(
        approve(signer("site1"), PLAN, Regimen("open_data"), frozenset()),
        kind=Kind.CONSISTENCY,
        context=CONTEXT,
    )
    late = replace(early, sender="site3")
    record = record_in(store)
    record.attempt_opened(CONTEXT, KEY, replace(early, kind=Kind.OPENING, sender=HUB), True)
    record.message(Packet(early))
    assert events_in(store) == ["site1"]
    if ending == "opened":
        record.iteration_opened(CONTEXT, (0, 1, 3), (0, 1, 3), {})
    else:
        record.attempt_aborted(CONTEXT, "too few sites", ())
    record.message(Packet(late))
    assert events_in(store) == []
    assert [deed.by for deed in deeds_in(store) if deed.kind is DeedKind.MESSAGE_TAKEN] == ["site1", "site3"]


def test_what_happens_to_a_study_has_its_lines(store: Store, tmp_path: Path) -> None:
    yes, no = (
        approve(signer("site1"), PLAN, Regimen("open_data"), frozenset()),
        decline(signer("site2"), PLAN),
    )
    opening = replace(yes, kind=Kind.OPENING, context=CONTEXT, sender=HUB)
    masked = replace(yes, kind=Kind.MASKED, context=CONTEXT)
    record = record_in(store)
    record.remember(SIGNED, datetime.now(UTC))  # as after a restart
    record.enter("enrolling")
    record.answer(1, Packet(yes))
    record.answer(2, Packet(no))
    record.attempt_opened(CONTEXT, KEY, opening, True)
    record.message(Packet(masked))
    record.survivors(CONTEXT, (0, 1))
    for _ in range(3):
        record.refused(CONTEXT, "site3", "R2.4")
    record.refused(CONTEXT, "site3", "M5")
    record.attempt_aborted(CONTEXT, "three people too few at site2", ())
    record.attempt_opened(b"d" * 32, RoundKey(b"r" * 16, 1, 2), opening, True)
    record.attempts(1)
    for _ in range(2):
        record.enter("withdrawn", "three people too few")
    digest = STUDY.digest
    assert deeds_in(store) == [
        Deed(DeedKind.LOG_BEGUN),
        Deed(DeedKind.STUDY_SUBMITTED, digest, by=STATISTICIAN),
        Deed(DeedKind.APPROVAL_TAKEN, digest, digest=yes.digest, by="site1"),
        Deed(DeedKind.STAY_OUT_TAKEN, digest, digest=no.digest, by="site2"),
        Deed(DeedKind.ATTEMPT_OPENED, digest, CONTEXT, opening.digest),
        Deed(DeedKind.MESSAGE_TAKEN, digest, CONTEXT, masked.digest, by="site1", detail="MASKED"),
        Deed(DeedKind.SURVIVORS_NAMED, digest, CONTEXT),
        Deed(DeedKind.MESSAGE_REFUSED, digest, CONTEXT, by="site3", detail="R2.4"),
        Deed(DeedKind.MESSAGE_REFUSED, digest, CONTEXT, by="site3", detail="M5"),
        Deed(DeedKind.ATTEMPT_ABORTED, digest, CONTEXT),
        Deed(DeedKind.ATTEMPT_OPENED, digest, b"d" * 32, opening.digest),
        Deed(DeedKind.ATTEMPT_ABORTED, digest, b"d" * 32, detail="restart"),
        Deed(DeedKind.STUDY_OVER, digest, detail="withdrawn"),
    ]
    assert b"three" not in (tmp_path / AUDIT).read_bytes()
    assert stat.S_IMODE((tmp_path / AUDIT).stat().st_mode) == 0o600


def test_what_the_store_refuses_has_no_line(store: Store) -> None:
    record = record_in(store)
    opening = approve(signer("site1"), PLAN, Regimen("open_data"), frozenset())
    record.attempt_opened(CONTEXT, KEY, opening, True)
    with pytest.raises(StoreError):
        record.attempt_opened(CONTEXT, KEY, opening, True)
    with pytest.raises(ZeroDivisionError):
        fail_inside(store)
    assert [deed.kind for deed in deeds_in(store)][1:] == [
        DeedKind.STUDY_SUBMITTED,
        DeedKind.ATTEMPT_OPENED,
    ]


def fail_inside(store: Store) -> None:
    with store.transaction() as session:
        note(session, DONE)
        raise ZeroDivisionError


def test_a_message_that_a_check_refuses_is_written_down_before_its_sender_hears_of_it(
    store: Store, tmp_path: Path
) -> None:
    async def play(forged: Envelope) -> str:
        approvals = {
            index: approve(signer(f"site{index}"), PLAN, Regimen("open_data"), frozenset())
            for index in range(4)
        }
        setup = CoordinatorSetup(signer(HUB), ROSTER, PLAN, approvals)
        with ThreadPoolExecutor(1) as pool:
            attempt = Attempt(
                setup, KEY, record_in(store), {}, tmp_path / "spool", pool, (1.0, 1.0), asyncio.Condition()
            )
            with pytest.raises(RemoteProtocolError) as caught:
                await attempt.receive(Packet(forged))
        refused = deeds_in(store)[-1]
        assert refused == Deed(
            DeedKind.MESSAGE_REFUSED,
            STUDY.digest,
            attempt.context,
            by=forged.sender,
            detail=caught.value.check,
        )
        return caught.value.check

    honest = approve(signer("site1"), PLAN, Regimen("open_data"), frozenset())
    assert asyncio.run(play(replace(honest, signature=bytes(64)))) == "M1"
    assert asyncio.run(play(honest)) == "M3"


def test_a_store_without_a_log_writes_none(tmp_path: Path) -> None:
    with closing(Store(sqlite_url(tmp_path / "hub.db"))) as store:
        store.note(DONE)
        assert store.audit().lines == ()
    assert not (tmp_path / AUDIT).exists()


def test_two_coordinators_do_not_write_one_log(store: Store, tmp_path: Path) -> None:
    store.note(DONE)
    with closing(Store(sqlite_url(tmp_path / "hub.db"), tmp_path / AUDIT)) as other:
        assert len(lines_in(other)) == 2  # whoever only looks may
        with pytest.raises(StoreError, match="no other coordinator runs here"):
            other.note(DONE)
    store.note(DONE)
    assert len(lines_in(store)) == 3


def test_a_log_that_was_cut_lets_nothing_be_done(store: Store, tmp_path: Path) -> None:
    record = record_in(store)
    os.truncate(tmp_path / AUDIT, 100)
    with pytest.raises(StoreError, match="audit log"):
        record.attempt_opened(
            CONTEXT, KEY, approve(signer("site1"), PLAN, Regimen("open_data"), frozenset()), True
        )
    assert record.attempts(1) == (0, ())


def test_a_line_whose_transaction_fails_stays_and_is_marked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.note(DONE)
    merge = Session.merge

    def fail(session: Session, row: FactRow) -> FactRow:
        merge(session, row)
        raise OSError("the machine died here")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "merge", fail)
        with pytest.raises(OSError, match="died here"):
            store.note(DONE)
    assert store.audit().unconfirmed == 1
    store.note(DONE)
    assert [deed.kind for deed in deeds_in(store)][1:] == [
        DeedKind.STARTED,
        DeedKind.STARTED,
        DeedKind.LOG_REPAIRED,
        DeedKind.STARTED,
    ]


def append_until_killed(folder: Path, ready: int) -> None:
    known = os.open(folder / "known", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with closing(Store(sqlite_url(folder / "hub.db"), folder / AUDIT)) as store:
        while True:
            context = secrets.token_bytes(32)
            store.note(Deed(DeedKind.ATTEMPT_OPENED, STUDY.digest, context))
            os.write(known, context.hex().encode() + b"\n")
            os.write(ready, b"r")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_hundred_kills_leave_a_chain_with_every_line_that_was_known(tmp_path: Path) -> None:
    for _ in range(100):
        told, ready = os.pipe()  # roomier than what a child writes in its life
        child = os.fork()
        if child == 0:
            try:
                append_until_killed(tmp_path, ready)
            finally:
                os._exit(1)
        os.close(ready)
        os.read(told, 1)
        os.close(told)
        time.sleep(secrets.randbelow(12_000) / 1e6)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    with closing(Store(sqlite_url(tmp_path / "hub.db"), tmp_path / AUDIT)) as store:
        assert store.audit().fault is None
        store.note(DONE)
        there = [deed.context for deed in deeds_in(store) if deed.kind is DeedKind.ATTEMPT_OPENED]
    known = [bytes.fromhex(line) for line in (tmp_path / "known").read_text().split() if len(line) == 64]
    assert len(known) >= 100
    assert len(set(there)) == len(there)
    assert set(known) <= set(there)
    assert len(there) - len(known) <= 100


def test_the_commands_verify_show_and_renew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = desk.make_consortium(tmp_path)
    assert "no line yet" in desk.run("coordinator", "audit", "verify", folder).out
    assert not (folder / "coordinator.db").exists()
    with closing(Store(sqlite_url(folder / "coordinator.db"), folder / AUDIT)) as store:
        record_in(store)
        store.note(DONE)
    screen = desk.run("coordinator", "audit", "verify", folder)
    assert (screen.code, "3 lines hold together, 1 to 3" in screen.out) == (0, True)
    shown = desk.run("coordinator", "audit", "show", folder, "--study", "loopback", "--json")
    (line,) = map(json.loads, shown.out.splitlines())
    assert (line["deed"], line["name"], line["by"]) == ("study submitted", "loopback@1", STATISTICIAN)

    log = folder / AUDIT
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[2] + lines[1])
    screen = desk.run("coordinator", "audit", "verify", folder)
    assert (screen.code, "line 2: out of order" in screen.said) == (2, True)
    try:
        assert serve.run(folder / "coordinator.yaml") == 2
    finally:
        structlog.reset_defaults()
    assert "line 2: out of order" in capsys.readouterr().out
    desk.ok("coordinator", "audit", "renew", folder)
    assert desk.run("coordinator", "audit", "verify", folder).code == 0
    with closing(Store(sqlite_url(folder / "coordinator.db"), folder / AUDIT)) as store:
        store.note(DONE)
        assert [line.number for line in lines_in(store)] == [4, 5]
