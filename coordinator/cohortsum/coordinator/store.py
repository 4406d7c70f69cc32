"""The coordinator's durable store: studies, answers, rounds, messages and results.

One SQLAlchemy schema for SQLite and PostgreSQL; nothing here uses what either lacks. A message row is unique per round,
site and kind, so that a message has one effect however often it arrives. Rows hold digests of messages, and the signed
messages that a transcript is made of, never shares, seeds or masked vectors. SQLite runs with a write-ahead log and full synchronisation.
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import (
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    select,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry

from cohortsum.crypto.errors import StoreError


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
    """One attempt at a round; ``opening`` is the coordinator's signed message that opened it."""

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


class ResultRow(Base):
    """The released result of a study: its typed JSON, and the opened sums behind it."""

    __tablename__ = "results"

    study: Mapped[str] = mapped_column(ForeignKey("studies.digest"), primary_key=True)
    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"))
    document: Mapped[bytes] = mapped_column(LargeBinary)
    sums: Mapped[bytes] = mapped_column(LargeBinary, default=b"")
    released: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class IterationRow(Base):
    """An opened round of a study that has several, and its sums: what comes after goes on from them."""

    __tablename__ = "iterations"

    context: Mapped[str] = mapped_column(ForeignKey("rounds.context"), primary_key=True)
    survivors: Mapped[str] = mapped_column(Text)
    advertised: Mapped[str] = mapped_column(Text)
    sums: Mapped[bytes] = mapped_column(LargeBinary)


class PresenceRow(Base):
    """When a site was last heard of; written at most once a minute."""

    __tablename__ = "presence"

    site: Mapped[str] = mapped_column(String(64), primary_key=True)
    seen: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class Store:
    """Access to one database.

    Args:
        url: SQLAlchemy URL, for example ``sqlite:///coordinator.db``.
    """

    def __init__(self, url: str) -> None:
        with self._errors():
            self.engine = create_engine(url)
            if self.engine.dialect.name == "sqlite":
                event.listen(self.engine, "connect", _make_durable)
            Base.metadata.create_all(self.engine)

    @contextmanager
    def transaction(self) -> Generator[Session]:
        """Commit everything done inside, or nothing; raises StoreError."""
        with self._errors(), Session(self.engine) as session, session.begin():
            yield session

    def result(self, study: str) -> bytes | None:
        """Return the released document of a study digest (hex), or None."""
        with self._errors(), Session(self.engine) as session:
            return session.scalar(select(ResultRow.document).where(ResultRow.study == study))

    def close(self) -> None:
        """Release all connections."""
        self.engine.dispose()

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


def now() -> datetime:
    """Return the time as rows store it: UTC."""
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """Return a stored moment with its zone, which SQLite drops."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _make_durable(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
