"""The coordinator's database: what happened once is there once, survives reopening, and faults are StoreErrors."""

from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from cohortsum.coordinator.store import (
    AnswerRow,
    MessageRow,
    ResultRow,
    RoundRow,
    Store,
    StudyRow,
    now,
    sqlite_url,
)
from cohortsum.crypto.errors import StoreError

STUDY, CONTEXT = "5" * 64, "c" * 64


def study(session: Session) -> None:
    session.add(
        StudyRow(
            digest=STUDY,
            name="s",
            version=1,
            canonical=b"{}",
            statistician="stat",
            signature=bytes(64),
            state="gathering",
        )
    )


def attempt(session: Session, context: str = CONTEXT) -> None:
    session.add(
        RoundRow(
            context=context,
            study=STUDY,
            round_id="0" * 32,
            iteration=1,
            attempt=1,
            state="open",
            opened=now(),
        )
    )


def answer(session: Session, site: str = "amc") -> None:
    session.add(AnswerRow(study=STUDY, site=site, packet=b"p", received=now()))


def message(session: Session, sender: str = "amc", kind: str = "ADVERT", context: str = CONTEXT) -> None:
    session.add(MessageRow(context=context, sender=sender, kind=kind, digest="d" * 64, received=now()))


@pytest.fixture
def url(database: str) -> str:
    """A database with a study and an open round."""
    store = Store(database)
    with store.transaction() as session:
        study(session)
    with store.transaction() as session:
        attempt(session)
    store.close()
    return database


def count(store: Store, table: type[AnswerRow | MessageRow | RoundRow]) -> int:
    with store.transaction() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_message_is_there_once_per_round_sender_and_kind(url: str) -> None:
    store = Store(url)
    with store.transaction() as session:
        message(session)
        message(session, kind="SHARES")
        message(session, sender="nyu")
    with pytest.raises(StoreError), store.transaction() as session:
        message(session)
    assert count(store, MessageRow) == 3
    store.close()


def test_a_site_answers_a_study_once(url: str) -> None:
    store = Store(url)
    with store.transaction() as session:
        answer(session)
        answer(session, "nyu")
    with pytest.raises(StoreError), store.transaction() as session:
        answer(session)
    assert count(store, AnswerRow) == 2
    store.close()


def test_a_context_is_opened_once(url: str) -> None:
    store = Store(url)
    with pytest.raises(StoreError), store.transaction() as session:
        attempt(session)
    assert count(store, RoundRow) == 1
    store.close()


def test_a_message_of_an_unknown_round_is_refused(url: str) -> None:
    store = Store(url)
    with pytest.raises(StoreError), store.transaction() as session:
        message(session, context="a" * 64)
    store.close()


def twice_in_one_transaction(store: Store) -> None:
    with store.transaction() as session:
        message(session)
        session.flush()
        message(session)


def failing_in_a_transaction(store: Store) -> None:
    with store.transaction() as session:
        message(session)
        session.flush()
        raise ZeroDivisionError


def test_a_transaction_is_taken_whole_or_not_at_all(url: str) -> None:
    store = Store(url)
    with pytest.raises(StoreError):
        twice_in_one_transaction(store)
    assert count(store, MessageRow) == 0
    with pytest.raises(ZeroDivisionError):
        failing_in_a_transaction(store)
    assert count(store, MessageRow) == 0
    store.close()


def test_a_result_is_readable_after_reopening(url: str) -> None:
    store = Store(url)
    assert store.result(STUDY) is None
    with store.transaction() as session:
        session.add(ResultRow(study=STUDY, context=CONTEXT, document=b'{"n": 1}', released=now()))
    store.close()
    again = Store(url)
    assert again.result(STUDY) == b'{"n": 1}'
    assert again.result("0" * 64) is None
    again.close()


def test_sqlite_writes_ahead_and_syncs_fully(tmp_path: Path) -> None:
    store = Store(sqlite_url(tmp_path / "hub.db"))
    with store.transaction() as session:
        held = [
            session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    store.close()
    assert held == ["wal", 2, 1]


def test_a_path_that_cannot_be_opened_is_a_store_error_with_a_cure_and_no_path(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="check disk and database") as caught:
        Store(sqlite_url(tmp_path / "absent" / "hub.db"))
    assert "absent" not in caught.value.message


def test_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "hub.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError):
        Store(sqlite_url(tmp_path / "hub.db"))


def test_a_url_that_is_none_is_a_store_error() -> None:
    with pytest.raises(StoreError):
        Store("hub.db")


def test_error_messages_hold_nothing_of_a_row(url: str) -> None:
    store = Store(url)
    with store.transaction() as session:
        answer(session, "canary-7351946")
    with pytest.raises(StoreError) as caught, store.transaction() as session:
        answer(session, "canary-7351946")
    assert "7351946" not in caught.value.message
    store.close()
