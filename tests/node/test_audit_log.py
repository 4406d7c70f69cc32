"""A node's audit log on disk: nothing is done without its line, no line is lost by a crash, and who tampers stops the node."""

import errno
import json
import os
import secrets
import signal
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import PolicyError, StoreError
from cohortsum.node import serve
from cohortsum.node.audit_log import AUDIT
from cohortsum.node.budget import Limit
from cohortsum.node.decisions import Decision, decide
from cohortsum.node.findings import Severity
from cohortsum.node.ledger import Ledger
from cohortsum.node.ledger_file import LedgerFile
from cohortsum.node.status import node_findings
from cohortsum.protocol.audit import Deed, DeedKind, Line, line_digest
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    PeersSeen,
    RoundSeen,
    SetOpened,
    SurvivorsNamed,
    SurvivorsSigned,
)
from cohortsum.protocol.messages import Kind, Packet
from cohortsum.study.spending import spending_of
from tests.admin import desk
from tests.edges.harness import signed_study
from tests.node.test_session import SIGNED, Round, opened, session_of, site_in
from tests.noise.noisy import plan_of, study_of

STUDY, CONTEXT = b"s" * 32, b"c" * 32
DONE = Deed(DeedKind.STUDY_HEARD, STUDY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as held:
        yield held


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The folder of a node that has pinned a roster."""
    consortium = desk.make_consortium(tmp_path)
    site = desk.make_site(tmp_path, "site0")
    desk.admit(consortium, site)
    desk.pin(consortium, site)
    return site


def decided(folder: Path, digest: bytes, approved: bool) -> None:
    decide(folder, Decision(digest, "one", 1, approved, None, None, "auto_approve 1", datetime.now(UTC)))


def lines_in(folder: Path) -> list[Line]:
    """Return the lines of a log that must hold together and end as the ledger remembers."""
    with closing(LedgerFile(folder / "ledger.db")) as file:
        found = file.audit()
    assert (found.fault, found.unconfirmed, found.torn) == (None, 0, 0)
    return list(found.lines)


def kinds_in(folder: Path) -> list[DeedKind]:
    return [line.deed.kind for line in lines_in(folder)]


def test_every_record_of_a_round_has_its_line_with_the_hash_and_nothing_else(path: Path) -> None:
    masked, statement, gate, data = (secrets.token_bytes(32) for _ in range(4))
    with closing(Ledger(path)) as ledger:
        ledger.write(STUDY, RoundSeen(CONTEXT, RoundKey(b"r" * 16, 1, 1)))
        ledger.write(STUDY, PeersSeen(CONTEXT, {1: 3}))
        ledger.write(
            STUDY, ContextSpent(CONTEXT, masked, b"1" * 32, b"2" * 32, frozenset({0, 1}), frozenset({0, 1}))
        )
        ledger.write(STUDY, SurvivorsSigned(CONTEXT, (0, 1), statement))
        ledger.write(STUDY, SurvivorsNamed(CONTEXT, (0, 1), ((0, b"x" * 64),)))
        ledger.write(STUDY, Answered(CONTEXT, "gate", gate))
        ledger.write(STUDY, Answered(CONTEXT, "data", data))
        ledger.write(STUDY, SetOpened(CONTEXT, b"result" * 5 + b"re"))
        ledger.close_write(CONTEXT)
        ledger.close_write(CONTEXT)
        ledger.mark_restored()
        ledger.rebuild((), ("2026-11",))
    assert [line.deed for line in lines_in(path.parent)] == [
        Deed(DeedKind.LOG_BEGUN),
        Deed(DeedKind.ROUND_JOINED, STUDY, CONTEXT),
        Deed(DeedKind.INPUT_MASKED, STUDY, CONTEXT, masked),
        Deed(DeedKind.SURVIVORS_SIGNED, STUDY, CONTEXT, statement),
        Deed(DeedKind.SURVIVORS_NAMED, STUDY, CONTEXT),
        Deed(DeedKind.SHARES_ANSWERED, STUDY, CONTEXT, gate, detail="gate"),
        Deed(DeedKind.SHARES_ANSWERED, STUDY, CONTEXT, data, detail="data"),
        Deed(DeedKind.SUM_OPENED, STUDY, CONTEXT),
        Deed(DeedKind.ATTEMPT_CLOSED, STUDY, CONTEXT),
        Deed(DeedKind.LEDGER_OLDER),
        Deed(DeedKind.EPOCH_CLOSED, detail="2026-11"),
        Deed(DeedKind.LEDGER_REBUILT, detail="incarnation 1"),
    ]
    assert b"result" not in (path.parent / AUDIT).read_bytes()
    assert stat.S_IMODE((path.parent / AUDIT).stat().st_mode) == 0o600


def test_the_budget_has_its_lines(path: Path) -> None:
    study = study_of(privacy="noise: distributed, epsilon: 0.3, delta: 1.0e-6", attempts=2)
    spending = spending_of(plan_of(study))
    assert spending is not None
    with closing(Ledger(path)) as ledger:
        for _ in range(2):
            ledger.budget.reserve(study, spending, Limit(3.0, 1e-5))
        ledger.write(study.digest, RoundSeen(CONTEXT, RoundKey(b"r" * 16, 1, 1)))
        spent = ContextSpent(CONTEXT, b"m" * 32, b"1" * 32, b"2" * 32, frozenset({0}), frozenset({0}))
        ledger.write(study.digest, spent, charged=True)
        ledger.close_write(CONTEXT)
        for _ in range(2):
            ledger.end(study.digest, "released")
        ledger.budget.reserve(study, spending, Limit(3.0, 1e-5))
        with pytest.raises(PolicyError):
            ledger.budget.reserve(replace(study, digest=b"o" * 32), spending, Limit(0.1, 1e-5))
    assert kinds_in(path.parent)[1:] == [
        DeedKind.BUDGET_RESERVED,
        DeedKind.ROUND_JOINED,
        DeedKind.BUDGET_CHARGED,
        DeedKind.INPUT_MASKED,
        DeedKind.BUDGET_REFUNDED,
        DeedKind.ATTEMPT_CLOSED,
        DeedKind.BUDGET_RELEASED,
        DeedKind.STUDY_OVER,
        DeedKind.BUDGET_RESERVED,
    ]


def test_what_is_rolled_back_has_no_line(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        ledger.write(STUDY, RoundSeen(CONTEXT, RoundKey(b"r" * 16, 1, 1)))
        ledger.write(STUDY, Answered(CONTEXT, "gate", b"1" * 32))
        with pytest.raises(StoreError, match="different record"):
            ledger.write(STUDY, Answered(CONTEXT, "gate", b"2" * 32))
        ledger.note(DONE)
    assert kinds_in(path.parent)[1:] == [
        DeedKind.ROUND_JOINED,
        DeedKind.SHARES_ANSWERED,
        DeedKind.STUDY_HEARD,
    ]


def test_the_same_answer_and_the_same_end_are_written_once(path: Path) -> None:
    yes = Deed(DeedKind.APPROVAL_SIGNED, STUDY, digest=b"1" * 32)
    no = Deed(DeedKind.STAYED_OUT, STUDY, digest=b"2" * 32)
    for deeds in ((no, no, yes), (yes, no)):
        with closing(Ledger(path)) as ledger:
            for deed in deeds:
                ledger.note_answer(deed)
            ledger.end(STUDY, "released")
    answers = [line.deed for line in lines_in(path.parent) if line.deed.digest]
    assert answers == [no, yes, no]
    assert kinds_in(path.parent).count(DeedKind.STUDY_OVER) == 1


def test_a_ledger_in_memory_and_one_that_is_only_read_write_no_log(path: Path) -> None:
    with closing(Ledger(None)) as ledger:
        ledger.note(DONE)
        ledger.note_answer(DONE)
        assert ledger.audit().lines == ()
    with closing(Ledger(path)) as ledger:
        assert ledger.audit().lines == ()
    assert not (path.parent / AUDIT).exists()


def test_what_admins_do_is_in_the_log(node: Path) -> None:
    study, _ = signed_study()
    with closing(Ledger(node / "ledger.db")) as ledger:
        ledger.epochs.close("2026-11")
        ledger.epochs.close("2026-11")
    for approved in (True, False, False):
        decided(node, study.digest, approved)
    consortium = node.parent / "consortium"
    desk.ok("coordinator", "revoke", consortium, "site0", "--reason", "stolen from Dr A. N. Other")
    for _ in range(2):
        desk.pin(consortium, node)
        desk.ok("node", "deny", node, consortium / "deny.yaml", consortium / "deny.sig")
    deeds = [line.deed for line in lines_in(node)]
    assert [deed.kind for deed in deeds] == [
        DeedKind.LOG_BEGUN,
        DeedKind.ROSTER_PINNED,
        DeedKind.EPOCH_CLOSED,
        DeedKind.STUDY_APPROVED,
        DeedKind.APPROVAL_REVOKED,
        DeedKind.STUDY_DECLINED,
        DeedKind.DENY_LIST,
    ]
    assert {deed.by for deed in deeds[3:6]} == {"auto_approve 1"}
    assert deeds[1].digest == line_digest((consortium / "consortium.yaml").read_bytes())
    assert b"Other" not in (node / AUDIT).read_bytes()


def test_two_ledgers_and_threads_take_turns_in_one_log(path: Path) -> None:
    def work(number: int) -> None:
        with closing(LedgerFile(path)) as file:
            for turn in range(10):
                file.note(Deed(DeedKind.STARTED, by=f"{number} {turn}"))

    with closing(LedgerFile(path)), ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    said = [line.deed.by for line in lines_in(path.parent)][1:]
    assert sorted(said) == sorted(f"{number} {turn}" for number in range(4) for turn in range(10))


def written_log(path: Path, count: int = 4) -> bytes:
    with closing(LedgerFile(path)) as file:
        for number in range(count):
            file.note(Deed(DeedKind.STARTED, by=f"n{number}"))
    return (path.parent / AUDIT).read_bytes()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2), st.integers(1, 250))
def test_a_torn_last_line_is_cut_and_said(
    tmp_path_factory: pytest.TempPathFactory, whole: int, torn: int
) -> None:
    """A crash between the log and the ledger: lines that the ledger does not know, the last one cut short."""
    folder = tmp_path_factory.mktemp("torn")
    path = folder / "ledger.db"
    before = written_log(path)
    ledger = path.read_bytes()
    later = written_log(path)[len(before) :].splitlines(keepends=True)
    path.write_bytes(ledger)
    left = b"".join(later[:whole]) + later[whole][: min(torn, len(later[whole]) - 1)]
    (folder / AUDIT).write_bytes(before + left)
    with closing(LedgerFile(path)) as file:
        found = file.audit()
        assert (found.fault, found.unconfirmed, found.torn > 0) == (None, whole, True)
        file.note(DONE)
    lines = lines_in(folder)
    assert [line.deed.kind for line in lines[-2:]] == [DeedKind.LOG_REPAIRED, DeedKind.STUDY_HEARD]
    assert lines[-2].deed.detail.startswith(f"{whole} unconfirmed lines kept ")
    assert (folder / AUDIT).read_bytes().startswith(before + b"".join(later[:whole]))


def test_a_line_whose_transaction_fails_stays_and_is_marked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_log(path)
    with closing(Ledger(path)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(LedgerFile, "_set_fact", fail_in_sqlite)
            with pytest.raises(StoreError, match="refuses a write"):
                ledger.write(STUDY, RoundSeen(CONTEXT, RoundKey(b"r" * 16, 1, 1)))
        assert ledger.seen_rounds() == frozenset()
        ledger.note(DONE)
    assert kinds_in(path.parent)[-3:] == [
        DeedKind.ROUND_JOINED,
        DeedKind.LOG_REPAIRED,
        DeedKind.STUDY_HEARD,
    ]


def fail_in_sqlite(*_: object) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 1)


def empty(log: Path) -> None:
    os.truncate(log, 0)


def move_away(log: Path) -> None:
    log.rename(log.with_name("moved"))


def put_back(log: Path) -> None:
    """Put yesterday's copy in its place."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.unlink()
    log.write_bytes(b"".join(lines[:-1]))


def alter_last(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-5] + b'0"}\n\n'[-5:])


def append_line(log: Path) -> None:
    log.write_bytes(log.read_bytes() + b'{"number":6,"deed":"started"}\n')


def make_folder(log: Path) -> None:
    log.unlink()
    log.mkdir()


def link_elsewhere(log: Path) -> None:
    log.rename(log.with_name("elsewhere"))
    log.symlink_to(log.with_name("elsewhere"))


TAMPERED = [cut, empty, move_away, put_back, alter_last, append_line, make_folder, link_elsewhere]


@pytest.mark.parametrize("tamper", TAMPERED)
@pytest.mark.parametrize("running", [False, True])
def test_whoever_tampers_with_the_end_stops_the_ledger(
    path: Path, tamper: Callable[[Path], None], running: bool
) -> None:
    written_log(path)
    ledger = Ledger(path)
    if running:
        ledger.note(DONE)
    tamper(path.parent / AUDIT)
    with pytest.raises(StoreError, match="audit log"):
        ledger.write(STUDY, RoundSeen(CONTEXT, RoundKey(b"r" * 16, 1, 1)))
    assert ledger.seen_rounds() == frozenset()  # what has no line was not done
    ledger.close()


def test_a_site_that_cannot_write_its_log_sends_nothing_any_more(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    held = Round(tmp_path, pool)

    def tamper(index: int, packet: Packet) -> None:
        if index == 3 and packet.envelope.kind is Kind.DELIVERY:
            cut(tmp_path / "site3" / AUDIT)

    held.before = tamper
    assert opened(held.play()).survivors == (0, 1, 2)
    assert held.kinds(3) == [Kind.ADVERT, Kind.SHARES]
    assert DeedKind.INPUT_MASKED in kinds_in(tmp_path / "site2")


def test_a_site_that_cannot_write_its_log_does_not_even_answer_a_study(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    site = site_in(tmp_path, 3, pool)
    (tmp_path / "site3" / AUDIT).mkdir()
    with session_of(site) as session, pytest.raises(StoreError, match="the audit log refuses a write"):
        session.consider(SIGNED)
    site.ledger.close()


def test_a_full_disk_stops_the_site_until_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_log(path)
    write = os.write

    def half(handle: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[: len(data) // 2])

    with closing(Ledger(path)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(StoreError, match="No space left on device"):
                ledger.note(DONE)
        ledger.note(DONE)
    assert kinds_in(path.parent)[-2:] == [DeedKind.LOG_REPAIRED, DeedKind.STUDY_HEARD]


def append_until_killed(folder: Path, ready: int) -> None:
    """Note deeds, and write down which of them are on disk, until the process ends."""
    known = os.open(folder / "known", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with closing(Ledger(folder / "ledger.db")) as ledger:
        os.write(ready, b"r")
        while True:
            contexts = [secrets.token_bytes(32) for _ in range(1 + secrets.randbelow(4))]
            with ledger._file.transaction():  # pyright: ignore[reportPrivateUsage]  # several lines, one transaction
                for context in contexts:
                    ledger.note(Deed(DeedKind.INPUT_MASKED, STUDY, context))
            os.write(known, b"".join(context.hex().encode() + b"\n" for context in contexts))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_hundred_kills_leave_a_chain_with_every_line_that_was_known(tmp_path: Path) -> None:
    """A forked child appends and is killed at a random instruction; every fourth time its last line is torn as well."""
    repaired = 0
    for turn in range(100):
        told, ready = os.pipe()
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
        with closing(LedgerFile(tmp_path / "ledger.db")) as file:
            found = file.audit()
            assert found.fault is None
            if (
                turn % 4 == 0 and found.unconfirmed
            ):  # what a power cut leaves of a line that was not synchronised yet
                log = tmp_path / AUDIT
                os.truncate(log, log.stat().st_size - 1 - secrets.randbelow(100))
                assert file.audit().fault is None
            before = len(found.lines)
            file.note(Deed(DeedKind.STARTED))
            repaired += len(file.audit().lines) != before + 1
    lines = lines_in(tmp_path)
    known = [bytes.fromhex(line) for line in (tmp_path / "known").read_text().split() if len(line) == 64]
    there = [line.deed.context for line in lines if line.deed.kind is DeedKind.INPUT_MASKED]
    assert len(known) > 100
    assert len(set(there)) == len(there)
    assert set(known) <= set(there)
    assert len(there) - len(known) <= 4 * 100
    assert sum(line.deed.kind is DeedKind.LOG_REPAIRED for line in lines) >= repaired > 0


def test_the_commands_verify_show_and_name_the_first_wrong_line(node: Path) -> None:
    study, _ = signed_study()
    decided(node, study.digest, True)
    screen = desk.run("node", "audit", "verify", node)
    assert screen.code == 0
    assert "3 lines hold together, 1 to 3" in screen.out
    head = screen.out.split()[-1]
    assert desk.run("node", "audit", "verify", node, "--head", head).code == 0
    other = desk.run("node", "audit", "verify", node, "--head", "0" * 64)
    assert (other.code, "rewritten since" in other.said) == (2, True)
    shown = desk.run("node", "audit", "show", node)
    assert "study approved" in shown.out
    assert study.digest.hex()[:8] in shown.out
    one = desk.run("node", "audit", "show", node, "--json", "--study", study.digest.hex()[:8])
    (line,) = map(json.loads, one.out.splitlines())
    assert (line["deed"], line["by"], line["hash"]) == ("study approved", "auto_approve 1", head)
    assert desk.run("node", "audit", "show", node, "--json", "--study", "another").out == ""

    log = node / AUDIT
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"roster pinned", b"roster Pinned"))
    screen = desk.run("node", "audit", "verify", node)
    assert (screen.code, "line 2: altered" in screen.said) == (2, True)
    assert desk.run("node", "audit", "show", node).code == 2
    log.write_bytes(whole + b'{"number":4')
    screen = desk.run("node", "audit", "verify", node)
    assert (screen.code, "11 bytes are no whole line" in screen.said) == (1, True)


def test_a_log_that_was_tampered_with_keeps_the_node_down_until_its_admin_begins_a_new_one(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = node / AUDIT
    assert desk.ok("node", "audit", "renew", node).said.startswith("the audit log holds together")
    log.write_bytes(log.read_bytes().replace(b'"detail":"2"', b'"detail":"9"', 1))
    findings = {finding.name: finding for finding in node_findings(node, datetime.now(UTC))}
    assert findings["audit"].status is Severity.FAILURE
    assert "line 2: altered" in findings["audit"].sentence
    try:
        assert serve.run(node, 0.0) == 2
    finally:
        structlog.reset_defaults()
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["event"], "line 2: altered" in said["sentence"]) == ("node.stopped", True)

    desk.ok("node", "audit", "renew", node)
    (old,) = node.glob("audit.jsonl.*")
    assert b'"detail":"9"' in old.read_bytes()
    with closing(Ledger(node / "ledger.db")) as ledger:
        ledger.note(DONE)
    lines = lines_in(node)
    assert [(line.number, line.deed.kind) for line in lines] == [
        (3, DeedKind.LOG_RENEWED),
        (4, DeedKind.STUDY_HEARD),
    ]
    findings = {finding.name: finding for finding in node_findings(node, datetime.now(UTC))}
    assert findings["audit"].status is Severity.OK


def test_a_node_notes_that_it_started(node: Path) -> None:
    try:
        assert serve.run(node, 0.0) in (2, 4)
    finally:
        structlog.reset_defaults()
    started = [line.deed for line in lines_in(node) if line.deed.kind is DeedKind.STARTED]
    assert started == [Deed(DeedKind.STARTED, by="site0")]
