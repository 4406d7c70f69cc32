"""Telling people for real: a program that runs, a mail server that speaks STARTTLS, and a file that survives a restart.

The coordinator's messenger makes the same calls in a room of its own, so both stand every test here.
"""

import asyncio
import base64
import json
import os
import select
import ssl
import stat
import sys
import time
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from ipaddress import ip_address
from pathlib import Path

import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from cohortsum.cli import notices as command
from cohortsum.coordinator.notices import Messenger as CoordinatorMessenger
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import NodeConfig, load_node_config, load_tables_config
from cohortsum.node.notices import Messenger as NodeMessenger
from cohortsum.report.notices import Notice, NoticeKind, NoticeSettings

MESSENGERS = pytest.mark.parametrize("kind", [NodeMessenger, CoordinatorMessenger])
Kind = type[NodeMessenger] | type[CoordinatorMessenger]
Lines = list[MutableMapping[str, object]]

NOTICE = Notice(NoticeKind.STUDY_TO_APPROVE, "asd-open", 2, datetime(2026, 11, 30, 8, 0, tzinfo=UTC))
SENT = {"event": "notice.sent", "log_level": "info", "kind": "study_to_approve", "study": "asd-open"}
CANARY = "7351946 canary"
NODE = """\
site: nyu
coordinator: aggregator.example.org:443
identity_key: keys/nyu.identity
epoch: 2026-11
tables: {cov: {path: cov.csv, id: SubjID}}
"""
RECORDER = """\
import json, os, sys
with open(sys.argv[0] + ".heard", "a") as out:
    print(json.dumps([sys.argv[1:], dict(os.environ), json.load(sys.stdin)]), file=out)
"""


def program(folder: Path, text: str, interpreter: str = f"{sys.executable} -I") -> Path:
    path = folder / "hook"
    path.write_text(f"#!{interpreter}\n{text}", encoding="utf-8")
    path.chmod(0o700)
    return path


def heard(hook: Path) -> list[tuple[list[str], dict[str, str], dict[str, object]]]:
    path = hook.with_name("hook.heard")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def by_hook(hook: Path) -> NoticeSettings:
    return NoticeSettings(hook=hook)


def send(messenger: NodeMessenger | CoordinatorMessenger, *notices: Notice) -> Lines:
    """Send and return the lines of the log."""

    async def one_after_the_other() -> None:
        for notice in notices:
            await messenger.send(notice)

    with capture_logs() as lines:
        asyncio.run(one_after_the_other())
    return lines


# -- the hook


@MESSENGERS
def test_the_hook_hears_the_notice_and_nothing_of_the_process(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("COHORTSUM_SECRET", CANARY)
    hook = program(tmp_path, RECORDER)
    assert send(kind(by_hook(hook), "nyu", tmp_path), NOTICE) == [SENT | {"way": "hook"}]
    [(arguments, environment, said)] = heard(hook)
    assert arguments == ["study_to_approve"]
    assert environment == {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    assert said == json.loads(NOTICE.to_json("nyu"))


@MESSENGERS
def test_a_hook_that_is_too_slow_dies_with_its_children(kind: Kind, tmp_path: Path) -> None:
    line = tmp_path / "line"
    os.mkfifo(line)
    reader = os.open(line, os.O_RDONLY | os.O_NONBLOCK)
    try:
        hook = program(
            tmp_path, f"exec 3>{line}\necho started >&3\nsleep 20 &\nwait\necho ended >&3\n", "/bin/sh"
        )
        [logged] = send(kind(by_hook(hook), "nyu", tmp_path, limit_s=1.0), NOTICE)
        assert logged["failure"] == "TimeoutError"
        assert os.read(reader, 100) == b"started\n"
        assert select.select([reader], [], [], 5.0)[0], "somebody still holds the line"
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)


@MESSENGERS
def test_a_daemon_that_stops_while_it_starts_a_hook_does_stop(kind: Kind, tmp_path: Path) -> None:
    """Told to stop before, in the midst of, and after the start of a program whose child waits for what it is told."""
    hook = program(tmp_path, "cat > /dev/null\nexit 0\n", "/bin/sh")

    async def stopped(steps: int, blocked_s: float) -> bool:
        folder = tmp_path / f"{steps}-{blocked_s}"
        folder.mkdir()
        sending = asyncio.create_task(kind(by_hook(hook), "nyu", folder).send(NOTICE))
        for _ in range(steps):
            await asyncio.sleep(0)
        time.sleep(blocked_s)  # the program goes on meanwhile
        sending.cancel()
        done, _ = await asyncio.wait({sending}, timeout=3)
        return bool(done)

    async def hanging() -> list[tuple[int, float]]:
        return [
            (steps, blocked_s)
            for steps in range(15)
            for blocked_s in (0.0, 0.02)
            if not await stopped(steps, blocked_s)
        ]

    assert asyncio.run(asyncio.wait_for(hanging(), 60)) == []


@MESSENGERS
def test_a_hook_that_fails_is_one_line_and_is_tried_again(
    kind: Kind, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hook = program(tmp_path, f"echo '{CANARY}'; echo '{CANARY}' >&2; exit 3\n", "/bin/sh")
    messenger = kind(by_hook(hook), "nyu", tmp_path)
    [logged] = send(messenger, NOTICE)
    assert logged == SENT | {
        "event": "notice.failed",
        "log_level": "warning",
        "way": "hook",
        "failure": "exit code 3",
    }
    assert capfd.readouterr() == ("", "")
    program(tmp_path, RECORDER)
    assert send(messenger, NOTICE, NOTICE) == [SENT | {"way": "hook"}]
    assert len(heard(hook)) == 1


@MESSENGERS
def test_a_hook_that_cannot_start_is_one_line(kind: Kind, tmp_path: Path) -> None:
    [logged] = send(kind(by_hook(tmp_path / "none"), "nyu", tmp_path), NOTICE)
    assert logged["failure"] == "FileNotFoundError"
    program(tmp_path, RECORDER).chmod(0o600)
    [logged] = send(kind(by_hook(tmp_path / "hook"), "nyu", tmp_path), NOTICE)
    assert logged["failure"] == "PermissionError"


@MESSENGERS
def test_a_hook_need_not_listen(kind: Kind, tmp_path: Path) -> None:
    hook = program(tmp_path, "exec <&-\nexit 0\n", "/bin/sh")
    assert send(kind(by_hook(hook), "nyu", tmp_path), NOTICE) == [SENT | {"way": "hook"}]


# -- the record


@MESSENGERS
def test_a_restart_repeats_nothing(kind: Kind, tmp_path: Path) -> None:
    hook = program(tmp_path, RECORDER)
    send(kind(by_hook(hook), "nyu", tmp_path), NOTICE)
    later = replace(NOTICE, at=NOTICE.at + timedelta(hours=1))
    assert send(kind(by_hook(hook), "nyu", tmp_path), later) == []
    newer = replace(later, version=3)
    assert send(kind(by_hook(hook), "nyu", tmp_path), newer) == [SENT | {"way": "hook"}]
    assert [said["version"] for _, _, said in heard(hook)] == [2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hook", "hook.heard", "notices.json"]


@MESSENGERS
def test_a_record_that_cannot_be_kept_is_one_line_and_stops_nothing(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "notices.json").mkdir()
    hook = program(tmp_path, RECORDER)
    sent, failed = send(kind(by_hook(hook), "nyu", tmp_path), NOTICE, NOTICE)
    assert sent["event"] == "notice.sent"
    assert (failed["event"], failed["way"]) == ("notice.failed", "record")
    assert len(heard(hook)) == 1


@MESSENGERS
def test_without_settings_nobody_is_told(kind: Kind, tmp_path: Path) -> None:
    assert send(kind(None, "nyu", tmp_path), NOTICE) == []
    assert list(tmp_path.iterdir()) == []


# -- mail


@dataclass
class MailServer:
    """A mail server on loopback that keeps what it hears.

    Attributes:
        tls: what it offers STARTTLS with; None offers none.
        password: what it lets in; None asks for nothing.
        lines: every command, and whether it came encrypted.
        mails: what it took.
    """

    tls: ssl.SSLContext | None = None
    password: str | None = None
    port: int = 0
    lines: list[tuple[bool, str]] = field(default_factory=list[tuple[bool, str]])
    mails: list[bytes] = field(default_factory=list[bytes])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client does not trust this server and leaves
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        safe, over = False, False
        while not over:
            line = (await reader.readuntil(b"\r\n")).decode().rstrip()
            self.lines.append((safe, line))
            verb, _, rest = line.partition(" ")
            match verb.upper():
                case "EHLO":
                    offers = ["STARTTLS"] if self.tls and not safe else []
                    offers += ["AUTH PLAIN"] if self.password else []
                    said = "".join(f"250-{offer}\r\n" for offer in ("mail", *offers)) + "250 HELP"
                case "STARTTLS" if self.tls is not None:
                    writer.write(b"220 go\r\n")
                    await writer.start_tls(self.tls)
                    safe, said = True, ""
                case "AUTH":
                    user, password = base64.b64decode(rest.split()[1]).decode().split("\0")[1:]
                    right = (user, password) == ("node", self.password)
                    said = "235 in" if right else f"535 {password} is wrong"
                case "DATA":
                    writer.write(b"354 go on\r\n")
                    self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                    said = "250 taken"
                case "QUIT":
                    said, over = "221 bye", True
                case _:
                    said = "250 fine"
            if said:
                writer.write(said.encode() + b"\r\n")


@asynccontextmanager
async def listening(server: MailServer) -> AsyncGenerator[MailServer]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        server.port = listener.sockets[0].getsockname()[1]
        yield server


def certified(folder: Path, host: str) -> tuple[ssl.SSLContext, Path]:
    """Return a server's context with a certificate for ``host``, and the file of the authority behind it."""
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("root", "mail")
    )
    now = datetime.now(UTC)

    def started(
        subject: x509.Name, public: ec.EllipticCurvePublicKey, authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(root_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False
            )
            .add_extension(
                x509.KeyUsage(not authority, False, False, False, False, authority, authority, False, False),
                critical=True,
            )
        )

    root = started(root_name, root_key.public_key(), authority=True).sign(root_key, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
    leaf = started(name, key.public_key(), authority=False).add_extension(names, critical=False)
    pem, anchor = folder / "server.pem", folder / "root.pem"
    pem.write_bytes(
        leaf.sign(root_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    anchor.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context, anchor


def mail(kind: Kind, folder: Path, server: MailServer, **more: object) -> Lines:
    """Send the notice to ``server`` and return the lines of the log."""

    async def through() -> None:
        async with listening(server):
            smtp = {"host": "127.0.0.1", "port": server.port, "from": "node@example.org", **more}
            settings = NoticeSettings.model_validate(
                {"smtp": {"to": ["a@example.org", "b@example.org"]} | smtp}
            )
            await kind(settings, "nyu", folder, limit_s=10.0).send(NOTICE)

    with capture_logs() as lines:
        asyncio.run(through())
    return lines


@MESSENGERS
def test_mail_goes_over_tls_that_verifies_and_the_password_only_there(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, anchor = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(anchor))
    (tmp_path / "password").write_text(CANARY + "\n")
    server = MailServer(tls, CANARY)
    lines = mail(kind, tmp_path, server, user="node", password_file=tmp_path / "password")
    assert lines == [SENT | {"way": "smtp"}]
    verbs = [(safe, line.partition(" ")[0].upper()) for safe, line in server.lines]
    assert verbs[:4] == [(False, "EHLO"), (False, "STARTTLS"), (True, "EHLO"), (True, "AUTH")]
    recipients = [line for safe, line in server.lines if safe and line.upper().startswith("RCPT")]
    assert len(recipients) == 2
    [raw] = server.mails
    taken = message_from_bytes(raw.removesuffix(b".\r\n"), policy=policy.default)
    assert taken["Subject"] == NOTICE.subject("nyu")
    assert taken.get_content_type() == "text/plain"
    assert str(taken.get_content()).replace("\r\n", "\n") == NOTICE.text("nyu")


@MESSENGERS
def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(kind: Kind, tmp_path: Path) -> None:
    tls, _ = certified(tmp_path, "127.0.0.1")
    server = MailServer(tls)
    [logged] = mail(kind, tmp_path, server)
    assert logged["failure"] == "SSLCertVerificationError"
    assert [line.partition(" ")[0].upper() for _, line in server.lines] == ["EHLO", "STARTTLS"]
    assert server.mails == []


@MESSENGERS
def test_a_certificate_for_another_server_is_refused(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, anchor = certified(tmp_path, "127.0.0.2")
    monkeypatch.setenv("SSL_CERT_FILE", str(anchor))
    server = MailServer(tls)
    [logged] = mail(kind, tmp_path, server)
    assert logged["failure"] == "SSLCertVerificationError"
    assert server.mails == []


@MESSENGERS
def test_a_server_that_offers_no_tls_gets_nothing_unless_that_is_allowed(kind: Kind, tmp_path: Path) -> None:
    refused, taken = MailServer(), MailServer()
    [logged] = mail(kind, tmp_path, refused)
    assert logged["failure"] == "SMTPNotSupportedError"
    assert refused.mails == []
    assert mail(kind, tmp_path, taken, starttls="no") == [SENT | {"way": "smtp"}]
    assert len(taken.mails) == 1


@MESSENGERS
def test_a_password_that_the_server_refuses_and_repeats_stays_out_of_log_and_record(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, anchor = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(anchor))
    (tmp_path / "password").write_text(CANARY)
    server = MailServer(tls, "another")
    lines = mail(kind, tmp_path, server, user="node", password_file=tmp_path / "password")
    assert [line["failure"] for line in lines] == ["SMTPAuthenticationError"]
    assert CANARY not in repr(lines)
    assert not (tmp_path / "notices.json").exists()
    assert server.mails == []


@MESSENGERS
@pytest.mark.parametrize("content", [None, b"", "pässwörd\n".encode(), CANARY.encode() + b"\nmore\n"])
def test_a_password_file_that_cannot_be_used_is_named_and_not_shown(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    tls, anchor = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(anchor))
    if content is not None:
        (tmp_path / "word.txt").write_bytes(content)
    [logged] = mail(kind, tmp_path, MailServer(tls), user="node", password_file=tmp_path / "word.txt")
    assert str(logged["failure"]).startswith("word.txt: ")
    assert CANARY not in repr(logged)
    assert "sswör" not in repr(logged)


@MESSENGERS
def test_a_server_that_does_not_answer_is_one_line(kind: Kind, tmp_path: Path) -> None:
    async def never() -> None:
        async with listening(MailServer()) as gone:
            pass
        smtp = {"host": "127.0.0.1", "port": gone.port, "from": "n@example.org", "to": ["a@example.org"]}
        settings = NoticeSettings.model_validate({"smtp": smtp})
        await kind(settings, "nyu", tmp_path).send(NOTICE)

    with capture_logs() as lines:
        asyncio.run(never())
    assert [line["failure"] for line in lines] == ["ConnectionRefusedError"]


# -- settings and the command


def configured(folder: Path, notices: str) -> NodeConfig:
    (folder / "node.yaml").write_text(NODE + notices, encoding="utf-8")
    return load_node_config(folder / "node.yaml")


def test_node_yaml_says_who_is_told(tmp_path: Path) -> None:
    assert configured(tmp_path, "").notices is None
    smtp = "host: m, from: a@b.org, to: [c@d.org], starttls: no"
    notices = configured(tmp_path, f"notices: {{hook: /opt/tell, smtp: {{{smtp}}}}}\n").notices
    assert notices is not None
    assert notices.smtp is not None
    assert (notices.hook, notices.smtp.starttls) == (Path("/opt/tell"), False)
    login = "user: node, password_file: keys/mail"
    notices = configured(
        tmp_path, f"notices: {{smtp: {{host: m, from: a@b.org, to: [c@d.org], {login}}}}}\n"
    ).notices
    assert notices is not None
    assert notices.smtp is not None
    assert notices.smtp.password_file == tmp_path / "keys" / "mail"
    assert load_tables_config(tmp_path / "node.yaml").tables.keys() == {"cov"}


def test_faults_in_node_yaml_have_their_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, "notices:\n  hook: tell\n  smtp:\n    host: m\n    port: many\n    sms: 1\n")
    for expected in (
        "node.yaml:7: notices.hook: expected an absolute path",
        "node.yaml:8: notices.smtp.from: required key is absent; add it",
        "node.yaml:10: notices.smtp.port: ",
        "node.yaml:11: notices.smtp.sms: unknown key",
    ):
        assert expected in caught.value.message


def test_the_command_sends_a_test_as_often_as_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = program(tmp_path, RECORDER)
    configured(tmp_path, f"notices: {{hook: {hook}}}\n")
    command.test_notice(tmp_path)
    command.test_notice(tmp_path)
    assert capsys.readouterr().out == "hook   handed over\n" * 2
    assert [(said["kind"], said["site"]) for _, _, said in heard(hook)] == [("test", "nyu")] * 2
    assert not (tmp_path / "notices.json").exists()


def test_the_command_says_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configured(tmp_path, f"notices: {{hook: {tmp_path / 'none'}}}\n")
    with pytest.raises(typer.Exit) as caught:
        command.test_notice(tmp_path)
    assert caught.value.exit_code == 2
    said = capsys.readouterr()
    assert said.out == "hook   failed: FileNotFoundError\n"
    assert "correct node.yaml" in said.err


@pytest.mark.parametrize("notices", ["", "notices: {}\n"])
def test_the_command_refuses_to_tell_nobody(tmp_path: Path, notices: str) -> None:
    configured(tmp_path, notices)
    with pytest.raises(ConfigurationError, match=r"node\.yaml: nobody is told"):
        command.test_notice(tmp_path)


def test_the_command_needs_the_folder_of_a_daemon(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"neither node\.yaml nor coordinator\.yaml"):
        command.test_notice(tmp_path)


def test_the_record_is_ids_and_times_and_closed_to_writers(tmp_path: Path) -> None:
    send(NodeMessenger(by_hook(program(tmp_path, RECORDER)), "nyu", tmp_path), NOTICE)
    record = tmp_path / "notices.json"
    assert json.loads(record.read_bytes()) == {f"hook/{NOTICE.key}": NOTICE.at.isoformat()}
    assert not record.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
