"""Who is told at the coordinator: its settings, its record, and the command. Hook and mail are tested with the node's."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.cli import notices as command
from cohortsum.coordinator.config import CoordinatorConfig, load_coordinator_config
from cohortsum.coordinator.notices import Messenger
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.notices import Notice, NoticeKind, NoticeSettings

SETTINGS = f"""
roster: consortium.yaml
roster_signature: consortium.sig
operator_key: "{"ab" * 32}"
identity: hub
identity_key: keys/hub.identity
listen: 127.0.0.1:0
store: sqlite:///hub.db
spool: spool
results: results
"""
SMTP = "host: m, from: a@b.org, to: [c@d.org]"
NOTICE = Notice(NoticeKind.ROUND_FAILED, "asd-open", 2, datetime(2026, 11, 30, tzinfo=UTC), None, "ab" * 16)


def configured(folder: Path, notices: str) -> CoordinatorConfig:
    path = folder / "coordinator.yaml"
    path.write_text(SETTINGS + notices, encoding="utf-8")
    return load_coordinator_config(path)


def recorder(folder: Path) -> Path:
    path = folder / "hook"
    path.write_text('#!/bin/sh\ncat >> "$0.heard"\necho >> "$0.heard"\n', encoding="utf-8")
    path.chmod(0o700)
    return path


def test_coordinator_yaml_says_who_is_told(tmp_path: Path) -> None:
    assert configured(tmp_path, "").notices is None
    login = "user: hub, password_file: keys/mail"
    notices = configured(tmp_path, f"notices: {{hook: /opt/tell, smtp: {{{SMTP}, {login}}}}}\n").notices
    assert notices is not None
    assert notices.smtp is not None
    assert notices.hook == Path("/opt/tell")
    assert (notices.smtp.port, notices.smtp.starttls) == (587, True)
    assert notices.smtp.password_file == tmp_path / "keys" / "mail"


@pytest.mark.parametrize(
    ("notices", "expectation"),
    [
        ("{hook: bin/tell}", "notices.hook: Value error, expected an absolute path"),
        (f"{{smtp: {{{SMTP}, starttls: false, user: u, password_file: p}}}}", "never crosses an open line"),
        (f"{{smtp: {{{SMTP}, password: 7351946}}}}", "notices.smtp.password: "),
        ("{pager: 7351946}", "notices.pager: "),
    ],
)
def test_faults_are_named_without_their_values(tmp_path: Path, notices: str, expectation: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, f"notices: {notices}\n")
    assert expectation in caught.value.message
    assert "7351946" not in caught.value.message


def test_the_record_survives_a_restart_and_leaves_no_draft(tmp_path: Path) -> None:
    hook = recorder(tmp_path)
    with capture_logs() as lines:
        for _ in range(2):
            asyncio.run(Messenger(NoticeSettings(hook=hook), "hub", tmp_path).send(NOTICE))
    assert [line["event"] for line in lines] == ["notice.sent"]
    heard = [json.loads(line) for line in (tmp_path / "hook.heard").read_text().splitlines()]
    assert [(said["site"], said["kind"], said["round_id"]) for said in heard] == [
        ("hub", "round_failed", "ab" * 16)
    ]
    assert list(json.loads((tmp_path / "notices.json").read_bytes())) == [f"hook/{NOTICE.key}"]
    assert {path.name for path in tmp_path.iterdir()} == {"hook", "hook.heard", "notices.json"}


def test_the_command_sends_a_test_for_the_coordinator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = recorder(tmp_path)
    configured(tmp_path, f"notices: {{hook: {hook}}}\n")
    command.test_notice(tmp_path)
    assert capsys.readouterr().out == "hook   handed over\n"
    said = json.loads((tmp_path / "hook.heard").read_text())
    assert (said["kind"], said["site"], said["study"]) == ("test", "hub", "")
