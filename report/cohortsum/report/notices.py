"""Notices: what an admin is told, by which ways, and that it is told once. Values and rules; nothing here touches a machine.

A notice says that something waits or went wrong and where to look, never what it is: its fields hold ids and dates, and
their forms leave no room for anything else. Two ways lead to an admin, a program of theirs (the hook) and a mail server;
both are optional. A way that carried a notice does not carry it again for 60 days; one that failed is tried again when
the notice comes again. `Courier` holds these rules once for node and coordinator, which share no code of their own: each
adds the four deeds that need a process, a socket or a file.
"""

import json
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from email.message import EmailMessage
from email.policy import SMTP
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from cohortsum.crypto.errors import CohortsumError, ConfigurationError
from cohortsum.crypto.secret import SecretBytes

LIMIT_S = 30.0
"""Longest wait for the hook, and for each answer of a mail server."""
HOOK_ENVIRONMENT = ("PATH", "LANG")
"""All that the hook's environment holds."""
REMEMBERED = timedelta(days=60)
STUDY = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})?")
ROUND = re.compile(r"[0-9a-f]{32}")
TLS_FROM_THE_START = 465
LONGEST_LINE = 998
"""Characters of a line that every mail server takes (RFC 5322, section 2.1.1)."""


class NoticeKind(StrEnum):
    """What a notice is about. Whoever sends one decides when it is due."""

    STUDY_TO_APPROVE = "study_to_approve"
    DEADLINE = "deadline"
    ROUND_FAILED = "round_failed"
    APPROVAL_EXPIRING = "approval_expiring"
    IDENTITY_PROBLEM = "identity_problem"
    RESULTS_RELEASED = "results_released"
    SIGNATURE_WANTED = "signature_wanted"
    TEST = "test"


WORDS: Mapping[NoticeKind, tuple[str, str]] = {
    NoticeKind.STUDY_TO_APPROVE: (
        "a study waits for your approval",
        "run `cohortsum node studies FOLDER`, read the study, then approve or decline it.",
    ),
    NoticeKind.DEADLINE: (
        "a deadline is near",
        "do before then what the study waits for; at a site, `cohortsum node studies FOLDER` shows it.",
    ),
    NoticeKind.ROUND_FAILED: (
        "a round ended without a result",
        "nothing was released; look this round up in the log, which names the reason.",
    ),
    NoticeKind.APPROVAL_EXPIRING: (
        "an approved study expires soon",
        "nothing; if the study is to go on, ask the statistician for a new version.",
    ),
    NoticeKind.IDENTITY_PROBLEM: (
        "roster, deny-list or identity need a look",
        "at a site run `cohortsum node doctor FOLDER`, at the coordinator `cohortsum coordinator roster FOLDER`.",
    ),
    NoticeKind.RESULTS_RELEASED: (
        "results are released",
        "nothing; `cohortsum results show FOLDER` shows them where they were written.",
    ),
    NoticeKind.SIGNATURE_WANTED: (
        "a release waits for a signature",
        "look at the release, then sign or refuse it; until then nothing is released.",
    ),
    NoticeKind.TEST: ("this is a test", "nothing; notices reach you."),
}
"""Per kind: what happened, and what to do."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing an admin should know; raises ValueError for anything but ids and dates.

    Attributes:
        kind: what it is about.
        study: id of the study; empty where it is about none.
        version: version of the study.
        at: when it was noticed, in UTC.
        due: until when something is to be done, in UTC.
        round_id: the round, 32 hex digits.
    """

    kind: NoticeKind
    study: str
    version: int | None
    at: datetime
    due: datetime | None = None
    round_id: str | None = None

    def __post_init__(self) -> None:
        if not STUDY.fullmatch(self.study) or (
            self.round_id is not None and not ROUND.fullmatch(self.round_id)
        ):
            raise ValueError("a notice names study and round by their ids and holds no other text")
        if any(time is not None and time.utcoffset() != timedelta(0) for time in (self.at, self.due)):
            raise ValueError("the times of a notice are in UTC and say so")

    @property
    def key(self) -> str:
        """The same for notices that say the same thing, whenever they are made."""
        due = self.due and self.due.isoformat()
        return "/".join(str(part or "") for part in (self.kind, self.study, self.version, self.round_id, due))

    def subject(self, site: str) -> str:
        """Return one line; ``site`` is the id of the site, or of the coordinator, that tells."""
        version = "" if self.version is None else f" version {self.version}"
        study = f": study {self.study}{version}" if self.study else ""
        return f"[cohortsum {site}] {WORDS[self.kind][0]}{study}"

    def text(self, site: str, zone: tzinfo | None = None) -> str:
        """Return the body for people, with times in ``zone`` (by default the machine's) and in UTC."""
        facts: dict[str, object] = {"at": site, "study": self.study, "version": self.version}
        facts |= {"round": self.round_id, "due": self.due and _both(self.due, zone)}
        facts["noticed"] = _both(self.at, zone)
        lines = [f"{name:<8} {value}" for name, value in facts.items() if value]
        happened, to_do = WORDS[self.kind]
        cure = textwrap.wrap(f"What to do: {to_do}", 76, break_on_hyphens=False)
        return "\n".join([f"{happened.capitalize()}.", "", *lines, "", *cure, ""])

    def to_json(self, site: str) -> bytes:
        """Return one JSON object for programs, times in UTC."""
        due = self.due and self.due.isoformat()
        said = {"kind": self.kind, "site": site, "study": self.study, "version": self.version}
        return json.dumps(said | {"round_id": self.round_id, "at": self.at.isoformat(), "due": due}).encode()


def _both(time: datetime, zone: tzinfo | None) -> str:
    local, utc = (moment.isoformat(" ", "minutes") for moment in (time.astimezone(zone), time))
    return f"{local} ({utc.removesuffix('+00:00')} UTC)"


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("expected an absolute path")
    return path


def _anchored(path: Path, info: ValidationInfo) -> Path:
    """Paths in a file are relative to the folder of that file."""
    return path if info.context is None else cast("Mapping[str, Path]", info.context)["folder"] / path


Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SmtpSettings(_Model):
    """A mail server and whom to write to.

    Attributes:
        host: the server's name; its certificate must be for it.
        port: where it listens for mail to be submitted.
        sender: the key ``from``: the address that writes.
        to: the addresses that are written to.
        starttls: refuse to write unless the line is encrypted and the server's certificate verifies.
        user: name to log in with; only over an encrypted line.
        password_file: file with the password, one line of printable ASCII; read for every mail.
    """

    host: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:-]+$")]
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    sender: Annotated[Address, Field(alias="from")]
    to: Annotated[tuple[Address, ...], Field(min_length=1)]
    starttls: bool = True
    user: Annotated[str, StringConstraints(pattern=r"^[ -~]+$")] | None = None
    password_file: Annotated[Path, AfterValidator(_anchored)] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("expected user and password_file together")
        if self.user is not None and not self.starttls:
            raise ValueError("expected starttls: yes with user; a password never crosses an open line")
        if self.port == TLS_FROM_THE_START:
            raise ValueError("TLS from the first byte (port 465): not in this version; use 587 with starttls")
        return self


class NoticeSettings(_Model):
    """The key ``notices``: how an admin is told; without either way nobody is.

    Attributes:
        hook: absolute path of an executable; gets the kind as its argument and the notice as JSON on its input.
        smtp: a mail server.
    """

    hook: Annotated[Path, AfterValidator(_absolute)] | None = None
    smtp: SmtpSettings | None = None


def parse_password(data: bytes, name: str) -> SecretBytes:
    """Return the password in a file; raises ConfigurationError for anything but one line of printable ASCII."""
    line = data.rstrip(b"\r\n")
    if not re.fullmatch(rb"[ -~]+", line):
        raise ConfigurationError(f"{name}: expected one line of printable ASCII; write the password alone")
    return SecretBytes(line, "password")


class Way(StrEnum):
    """How a notice travels; ``record`` is the file that remembers what was told."""

    HOOK = "hook"
    SMTP = "smtp"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a notice on one way; ``failure`` is empty where it arrived, and never quotes anybody."""

    way: Way
    failure: str = ""


class Courier(ABC):
    """Tells an admin, each notice once; a subclass supplies the deeds that touch a machine.

    Args:
        settings: the ways; None tells nobody.
        site: id of the site, or of the coordinator, that tells.
        limit_s: longest wait for the hook and for each answer of a mail server.
    """

    def __init__(self, settings: NoticeSettings | None, site: str, limit_s: float = LIMIT_S) -> None:
        self._settings = settings or NoticeSettings()
        self._site = site
        self._limit_s = limit_s
        self._told: dict[str, datetime] | None = None
        self._under_way: set[str] = set()

    async def tell(self, notice: Notice) -> tuple[Outcome, ...]:
        """Return what became of a notice on every way that has not carried it yet; no failure is raised."""
        if self._told is None:
            self._told = self._remembered()
        outcomes: list[Outcome] = []
        for way, carrier in ((Way.HOOK, self._settings.hook), (Way.SMTP, self._settings.smtp)):
            entry = f"{way}/{notice.key}"
            if carrier is None or entry in self._told or entry in self._under_way:
                continue
            self._under_way.add(entry)
            try:
                failure = await self._carry(carrier, notice)
            except Exception as error:  # whatever a program or server does, the daemon goes on
                failure = _failure(error)
            finally:
                self._under_way.discard(entry)
            outcomes.append(Outcome(way, failure))
            if not failure and notice.kind is not NoticeKind.TEST:
                outcomes += self._remember(self._told, entry, notice.at)
        return tuple(outcomes)

    @abstractmethod
    async def run(self, argv: Sequence[str], data: bytes) -> int:
        """Run a program without a shell, with ``data`` as its input; return its exit code or raise OSError."""

    @abstractmethod
    async def post(self, smtp: SmtpSettings, message: EmailMessage) -> None:
        """Hand a mail to a server, or raise OSError."""

    @abstractmethod
    def load(self) -> bytes:
        """Return what `save` was given last, or nothing."""

    @abstractmethod
    def save(self, data: bytes) -> None:
        """Keep ``data``, all or nothing."""

    async def _carry(self, carrier: Path | SmtpSettings, notice: Notice) -> str:
        if isinstance(carrier, SmtpSettings):
            await self.post(carrier, _mail(carrier, notice, self._site))
            return ""
        code = await self.run((str(carrier), notice.kind), notice.to_json(self._site))
        return f"exit code {code}" if code else ""

    def _remembered(self) -> dict[str, datetime]:
        """Return when each entry was told; a file that cannot be used costs a second telling and nothing else."""
        try:
            held = cast("Mapping[str, str]", json.loads(self.load() or b"{}"))
            return {entry: datetime.fromisoformat(when).astimezone(UTC) for entry, when in held.items()}
        except (
            ArithmeticError,
            AttributeError,
            CohortsumError,
            OSError,
            RecursionError,
            TypeError,
            ValueError,
        ):
            return {}

    def _remember(self, told: dict[str, datetime], entry: str, now: datetime) -> tuple[Outcome, ...]:
        told[entry] = now
        for old in [entry for entry, when in told.items() if now - when > REMEMBERED]:
            del told[old]
        try:
            self.save(json.dumps({entry: when.isoformat() for entry, when in told.items()}).encode())
        except (OSError, CohortsumError) as error:
            return (Outcome(Way.RECORD, _failure(error)),)
        return ()


def _mail(smtp: SmtpSettings, notice: Notice, site: str) -> EmailMessage:
    message = EmailMessage(SMTP.clone(max_line_length=LONGEST_LINE))  # no subject is folded
    message["From"], message["To"] = smtp.sender, ", ".join(smtp.to)
    message["Subject"], message["Date"] = notice.subject(site), notice.at
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(notice.text(site))
    return message


def _failure(error: Exception) -> str:
    """Return what went wrong by name: a server's own words may repeat what it was sent."""
    return error.message if isinstance(error, CohortsumError) else type(error).__name__
