"""Telling the operator, from the coordinator: a program of theirs, a mail server, and the file that remembers.

What is told, when a way is tried and what counts as told is decided in `cohortsum.report.notices`; here are only the calls
that need a process, a socket or a file. The hook runs without a shell, in a process group of its own that dies with it
when it is too slow. Mail goes out over TLS that verifies against the system's certificate authorities, or those in the
file that the environment variable ``SSL_CERT_FILE`` names. A failure is one line of the log and never more.
"""

import asyncio
import os
import signal
import smtplib
import ssl
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

import structlog

from cohortsum.coordinator.config import read_file
from cohortsum.report.notices import (
    HOOK_ENVIRONMENT,
    LIMIT_S,
    Courier,
    Notice,
    NoticeSettings,
    SmtpSettings,
    parse_password,
)

log: structlog.stdlib.BoundLogger = structlog.get_logger()

RECORD = "notices.json"


class Messenger(Courier):
    """Tells the operator of a coordinator.

    Args:
        settings: the key ``notices`` of coordinator.yaml; None tells nobody.
        identity: the coordinator's id.
        folder: the folder of coordinator.yaml, where ``notices.json`` remembers what was told.
        limit_s: longest wait for the hook and for each answer of a mail server.
    """

    def __init__(
        self, settings: NoticeSettings | None, identity: str, folder: Path, limit_s: float = LIMIT_S
    ) -> None:
        super().__init__(settings, identity, limit_s)
        self._record = folder / RECORD

    async def send(self, notice: Notice) -> None:
        """Tell the operator once, by every way there is; a failure becomes one line of the log."""
        for outcome in await self.tell(notice):
            facts = {"kind": notice.kind, "study": notice.study, "way": outcome.way}
            if outcome.failure:
                log.warning("notice.failed", **facts, failure=outcome.failure)
            else:
                log.info("notice.sent", **facts)

    async def run(self, argv: Sequence[str], data: bytes) -> int:
        """Run a program without a shell and return its exit code; whatever it writes is dropped."""
        environment = {name: os.environ[name] for name in HOOK_ENVIRONMENT if name in os.environ}
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=environment, start_new_session=True
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # a start that is cancelled half-way waits for ever where a child of the program listens: let it end, and kill both
            await asyncio.wait((starting,))
            if starting.exception() is None:
                await self._killed(starting.result())
            raise
        try:
            async with asyncio.timeout(self._limit_s):
                await process.communicate(data)
        except BaseException:  # too slow, or the coordinator stops
            await self._killed(process)
            raise
        return await process.wait()

    async def _killed(self, process: asyncio.subprocess.Process) -> None:
        """Kill a program with its children, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def post(self, smtp: SmtpSettings, message: EmailMessage) -> None:
        """Hand a mail to a server: TLS first, then the password, then the mail."""
        await asyncio.to_thread(self._post, smtp, message)

    def load(self) -> bytes:
        """Return the record, or nothing where there is none."""
        return read_file(self._record) if self._record.exists() else b""

    def save(self, data: bytes) -> None:
        """Put a new record in the place of the old one."""
        draft = self._record.with_name(f".{RECORD}.draft")
        draft.write_bytes(data)
        draft.replace(self._record)

    def _post(self, smtp: SmtpSettings, message: EmailMessage) -> None:
        with smtplib.SMTP(smtp.host, smtp.port, timeout=self._limit_s) as server:
            if smtp.starttls:
                server.starttls(context=ssl.create_default_context())
            if smtp.user is not None and smtp.password_file is not None:
                password = parse_password(read_file(smtp.password_file), smtp.password_file.name)
                server.login(smtp.user, password.reveal().decode())
            server.send_message(message)
