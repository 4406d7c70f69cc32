"""The coordinator's durable store: studies, answers, rounds, messages, results, and what is decided about each of their items.

One SQLAlchemy schema for SQLite and PostgreSQL; nothing here uses what either lacks. Opening a store brings an older database up to
this schema; a change here needs a new revision (`cohortsum.coordinator.migrations`), which a test compares with it. A message row is unique per round,
site and kind, so that a message has one effect however often it arrives. Rows hold digests of messages, and the signed
messages that a transcript is made of, never shares, seeds or masked vectors. One transaction runs at a time, over all processes
(`cohortsum.coordinator.database`). SQLite runs with a write-ahead log and full synchronisation.

What was done goes into the audit log with the transaction that makes it durable: its lines are on disk before that commits, and
the log's head is in it.
"""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import (
    Boolean,
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    select,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from cohortsum.coordinator.audit_log import AUDIT, AuditLog
from cohortsum.coordinator.database import open_database, take_turn
from cohortsum.coordinator.items import IN_REVIEW
from cohortsum.coordinator.migrating import bring_up
from cohortsum.crypto.errors import FencedError, StoreError
from cohortsum.protocol.audit import Deed, Head
from cohortsum.protocol.audit_check import Examined, examine

FINAL = frozenset({"released", "ended", "withdrawn", "superseded"})
"""States that a study does not leave."""
OVER = FINAL | {IN_REVIEW}
"""States in which no round of a study follows."""
HEAD = "audit head"
FENCED = "another coordinator has taken over this store; this process ends, and may be started again to wait"
LEASE = "coordinator"
"""The name of the one lease."""
DEEDS = "deeds"
TRIES = 5


class Base(DeclarativeBase):
    """Base of every table."""


class StudyRow(Base):
    """A signed study. ``closed`` is when its enrolment window closed; None while it is open."""

    __tablename__ = "studies"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    version: Mapped[int] = mapped_column(Integer)
    canonical: Mapped[bytes] = mapped_column(LargeBinary)
    statistician: Mapped[str] = mapped_column(String(64))
    signature: Mapped[bytes] = mapped_column(LargeBinary)
    state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text, default="")
    submitted: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=lambda: now())
    closed: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class AnswerRow(Base):
    """A site's newest signed answer to a study: its approval, or that it stays out."""

    __tablename__ = "answers"
    __table_args__ = (UniqueConstraint("study", "site"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"))
    site: Mapped[str] = mapped_column(String(64))
    packet: Mapped[bytes] = mapped_column(LargeBinary)
    received: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class RoundRow(Base):
    """One attempt at a round; ``opening`` is the coordinator's signed message that opened it.

    ``exact`` says whether none of the survivors that it is bound to may be missing.
    """

    __tablename__ = "rounds"

    context: Mapped[str] = mapped_column(String(64), primary_key=True)
    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"))
    round_id: Mapped[str] = mapped_column(String(32))
    iteration: Mapped[int] = mapped_column(Integer)
    attempt: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text, default="")
    survivors: Mapped[str] = mapped_column(Text, default="")
    opening: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    exact: Mapped[bool] = mapped_column(Boolean, default=True)
    opened: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    ended: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class MessageRow(Base):
    """A message of a round that had its effect: its digest, and the signed message itself where it holds no share."""

    __tablename__ = "messages"
    __table_args__ = (UniqueConstraint("context", "sender", "kind"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"))
    sender: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(32))
    digest: Mapped[str] = mapped_column(String(64))
    packet: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    received: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class EventRow(Base):
    """What moved an open attempt on, in order: it is rebuilt from these after a restart. Gone once the attempt has ended.

    A message is here with what it carries: sealed shares and masked words of the gate, which only their receivers and t sites
    together can open. Messages that open anything are not here; their sites send them again.
    """

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"))
    kind: Mapped[str] = mapped_column(String(32))
    sender: Mapped[str] = mapped_column(String(64), default="")
    content: Mapped[bytes] = mapped_column(LargeBinary, default=b"")


class ResultRow(Base):
    """What of a study's results has left: the typed JSON with the released tables; and the opened sums behind all of them."""

    __tablename__ = "results"

    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"), primary_key=True)
    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"))
    document: Mapped[bytes] = mapped_column(LargeBinary)
    sums: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    released: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class IterationRow(Base):
    """An opened round and its sums: written before any site hears of it, and what comes after goes on from them."""

    __tablename__ = "iterations"

    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"), primary_key=True)
    survivors: Mapped[str] = mapped_column(Text)
    advertised: Mapped[str] = mapped_column(Text)
    sums: Mapped[bytes] = mapped_column(LargeBinary)


class ReviewRow(Base):
    """Under which rules the items of a study stand, and what their tables are computed from besides its opened sums.

    ``written`` says whether the results folder holds what the store holds.
    """

    __tablename__ = "reviews"

    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"), primary_key=True)
    profile: Mapped[str] = mapped_column(String(32))
    held: Mapped[str] = mapped_column(Text)
    waivers: Mapped[str] = mapped_column(Text)
    count: Mapped[int] = mapped_column(Integer)
    earlier: Mapped[bytes] = mapped_column(LargeBinary)
    unfinished: Mapped[str] = mapped_column(Text)
    written: Mapped[bool] = mapped_column(Boolean)


class ItemRow(Base):
    """One content of an item, one row for every time it was computed; the newest turn is the item as it stands.

    ``content`` is the table's canonical JSON, empty where the gate let nothing through.
    """

    __tablename__ = "items"
    __table_args__ = (UniqueConstraint("study", "name", "turn"), UniqueConstraint("study", "name", "digest"))

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"))
    name: Mapped[str] = mapped_column(String(255))
    place: Mapped[int] = mapped_column(Integer)
    turn: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(32))
    digest: Mapped[str] = mapped_column(String(64))
    content: Mapped[bytes] = mapped_column(LargeBinary)
    rules: Mapped[str] = mapped_column(Text)
    computed: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class DecisionRow(Base):
    """A signed decision that had its effect, and role and key of its signer then; rows are added and never changed."""

    __tablename__ = "decisions"
    __table_args__ = (UniqueConstraint("item", "act", "by"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    item: Mapped[int] = mapped_column(ForeignKey("items.id"))
    act: Mapped[str] = mapped_column(String(32))
    by: Mapped[str] = mapped_column(String(64))
    role: Mapped[str] = mapped_column(String(32))
    key: Mapped[str] = mapped_column(String(64))
    reason: Mapped[str] = mapped_column(Text)
    remedy: Mapped[str] = mapped_column(Text)
    confirmed: Mapped[str] = mapped_column(Text)
    at: Mapped[str] = mapped_column(String(64))
    signature: Mapped[bytes] = mapped_column(LargeBinary)
    taken: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class PresenceRow(Base):
    """When a site was last heard of; written at most once a minute."""

    __tablename__ = "presence"

    site: Mapped[str] = mapped_column(String(64), primary_key=True)
    seen: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class LeaseRow(Base):
    """Which process may write. ``token`` rises with every change of hands and never falls: a process with an older one is fenced off."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    token: Mapped[int] = mapped_column(Integer)
    holder: Mapped[str] = mapped_column(String(64))
    until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class FactRow(Base):
    """A single value that the store keeps under a name."""

    __tablename__ = "facts"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class Store:
    """Access to one database.

    Args:
        url: SQLAlchemy URL, for example ``sqlite:///coordinator.db``; an older database is brought up to this version.
        audit: the file of the audit log; None writes none, for simulations and for whoever only looks.
        process: name of a further coordinator process over the same database, whose audit log is one of its own.

    Attributes:
        releasing: held while tables are judged and kept: each release must know what the ones before it showed.
        token: of the lease under which this process writes (`lease`); None where it holds none, as commands that only look.
    """

    def __init__(self, url: str, audit: Path | None = None, process: str = "") -> None:
        self._head_name = f"{HEAD} {process}".rstrip()
        self.releasing = asyncio.Lock()
        self.token: int | None = None
        self._lock = threading.RLock()
        self._audit = None if audit is None else AuditLog(audit)
        with self._errors():
            self.engine = open_database(url)
            try:
                bring_up(self.engine)
            except BaseException:
                self.engine.dispose()
                raise

    @contextmanager
    def transaction(self) -> Generator[Session]:
        """Commit everything done and noted inside, or nothing; raises StoreError, FencedError where the lease is another's.

        No other transaction runs meanwhile, in this process or another: keep it short, and do not begin a second one inside.
        """
        with self._lock, self._errors(), Session(self.engine) as session, session.begin():
            take_turn(session.connection())
            if self.token is not None and session.get_one(LeaseRow, LEASE).token != self.token:
                raise FencedError(FENCED)
            yield session
            self._write_deeds(session)

    def note(self, deed: Deed) -> None:
        """Write a line of the audit log in a transaction of its own; raises StoreError."""
        with self.transaction() as session:
            note(session, deed)

    def audit(self) -> Examined:
        """Return whether the audit log holds together and ends as this store remembers; raises StoreError.

        A running coordinator writes meanwhile: where the file is ahead of the head, both are read again.
        """
        found = examine(b"", Head())
        for _ in range(TRIES):
            head = self._head()
            found = examine(b"" if self._audit is None else self._audit.read(), head)
            if found.fault is None and not found.unconfirmed and not found.torn:
                break
        return found

    def renew_audit(self) -> str:
        """Give the audit log's file another name and begin a new one that goes on with the chain; return that name."""
        name = f"{AUDIT}.{now():%Y%m%dT%H%M%SZ}"
        with self.transaction() as session:
            if self._audit is not None:
                head = self._head_in(session)
                self._audit.set_aside(name)
                value = self._audit.append(head.renewed(), ()).to_text()
                session.merge(FactRow(name=self._head_name, value=value))
        return name

    def result(self, study: str) -> bytes | None:
        """Return the released document of a study digest (hex), or None."""
        with self._errors(), Session(self.engine) as session:
            return session.scalar(select(ResultRow.document).where(ResultRow.study == study))

    def close(self) -> None:
        """Release all connections."""
        self.engine.dispose()
        if self._audit is not None:
            self._audit.close()

    def _head(self) -> Head:
        with self.transaction() as session:
            return self._head_in(session)

    def _write_deeds(self, session: Session) -> None:
        """Put the lines of this transaction on disk; the last thing before it commits."""
        deeds: list[Deed] = session.info.pop(DEEDS, [])
        if deeds and self._audit is not None:
            session.flush()  # what contradicts the store is refused before a line says that it was done
            head = self._audit.append(self._head_in(session), deeds)
            session.merge(FactRow(name=self._head_name, value=head.to_text()))

    def _head_in(self, session: Session) -> Head:
        row = session.get(FactRow, self._head_name)
        return Head.from_text(None if row is None else row.value)

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (
            SQLAlchemyError,
            ModuleNotFoundError,
        ) as error:  # a URL may name a driver that is not installed
            raise StoreError(
                f"the coordinator's store refuses: {type(error).__name__}; check disk and database"
            ) from error


def sqlite_url(path: Path) -> str:
    """Return the URL of an SQLite file."""
    return f"sqlite:///{path}"


def note(session: Session, deed: Deed) -> None:
    """Write a line of the audit log with a transaction."""
    session.info.setdefault(DEEDS, []).append(deed)


def now() -> datetime:
    """Return the time as rows store it: UTC."""
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """Return a stored moment in UTC: SQLite drops the zone, PostgreSQL answers in the session's."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
