"""Transactions of the store take turns over all processes: nothing is lost, nothing is half done, and who waits in vain is told."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, Event

import pytest
from sqlalchemy import create_engine, text

from cohortsum.coordinator import database as module
from cohortsum.coordinator.store import FactRow, Store
from cohortsum.crypto.errors import StoreError

ROUNDS = 30


def value(store: Store, name: str) -> str | None:
    with store.transaction() as session:
        row = session.get(FactRow, name)
        return None if row is None else row.value


def write(store: Store, name: str) -> None:
    with store.transaction() as session:
        session.add(FactRow(name=name, value="yes"))


@pytest.fixture
def two(database: str) -> Iterator[tuple[Store, Store]]:
    """Two stores over one database, with a lock of their own each, as in two processes."""
    with closing(Store(database)) as one, closing(Store(database)) as other:
        yield one, other


def test_what_is_read_and_then_written_is_never_lost(two: tuple[Store, Store]) -> None:
    with two[0].transaction() as session:
        session.add(FactRow(name="count", value="0"))
    together = Barrier(2)

    def add(store: Store) -> None:
        together.wait()
        for _ in range(ROUNDS):
            with store.transaction() as session:
                row = session.get_one(FactRow, "count")
                row.value = str(int(row.value) + 1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, two))
    assert value(two[0], "count") == str(2 * ROUNDS)


def test_two_that_decide_on_what_they_only_read_do_not_both_decide(two: tuple[Store, Store]) -> None:
    """Neither writes what the other reads: only taking turns, or a conflict, keeps one of them from it."""
    together = Barrier(2)

    def first(store: Store, name: str) -> bool:
        together.wait()
        with store.transaction() as session:
            alone = session.query(FactRow).count() == 0
            if alone:
                session.add(FactRow(name=name, value=""))
        return alone

    with ThreadPoolExecutor(2) as pool:
        for turn in range(ROUNDS):
            assert sorted(pool.map(first, two, (f"a{turn}", f"b{turn}"))) == [False, True]
            with two[0].transaction() as session:
                session.query(FactRow).delete()


def test_a_turn_that_does_not_come_is_a_store_error_and_nothing_was_done(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.2)
    with closing(Store(database)) as one, closing(Store(database)) as other:
        with one.transaction() as session:
            session.add(FactRow(name="one", value="yes"))
            session.flush()
            with pytest.raises(StoreError):
                write(other, "other")
        assert (value(other, "one"), value(other, "other")) == ("yes", None)
        write(other, "other")
        assert value(one, "other") == "yes"


def test_a_result_is_read_while_another_is_at_work(two: tuple[Store, Store]) -> None:
    with two[0].transaction():
        assert two[1].result("0" * 64) is None


def failing(store: Store) -> None:
    with store.transaction() as session:
        session.add(FactRow(name="a", value="yes"))
        session.flush()
        raise ZeroDivisionError


def test_a_turn_ends_with_a_fault(two: tuple[Store, Store]) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(two[0])
    assert value(two[1], "a") is None


def process_of(store: Store) -> int:
    with store.transaction() as session:
        return int(session.scalar(text("SELECT pg_backend_pid()")) or 0)


def ended(url: str, process: int) -> None:
    """Wait until the server has ended a connection."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        while connection.scalar(
            text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid"), {"pid": process}
        ):
            Event().wait(0.05)
    engine.dispose()


def test_who_sleeps_in_its_turn_loses_it(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.2)

    def sleep(store: Store) -> None:
        with store.transaction() as session:
            session.add(FactRow(name="sleeper", value="yes"))
            session.flush()
            ended(postgres_url, int(session.scalar(text("SELECT pg_backend_pid()")) or 0))
            write(other, "waker")

    with closing(Store(postgres_url)) as one, closing(Store(postgres_url)) as other:
        with pytest.raises(StoreError):
            sleep(one)
        assert (value(one, "sleeper"), value(one, "waker")) == (None, "yes")


def test_a_line_that_broke_between_transactions_is_made_anew(postgres_url: str) -> None:
    with closing(Store(postgres_url)) as store:
        process = process_of(store)
        engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": process})
        engine.dispose()
        ended(postgres_url, process)
        write(store, "after")
        assert value(store, "after") == "yes"


def test_a_server_that_defaults_to_less_is_not_followed(postgres_url: str) -> None:
    """Whoever set up the database may have changed its defaults: durability and isolation are asked for by name."""
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    name = postgres_url.rpartition("/")[2]
    with engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
        connection.exec_driver_sql(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        )
    engine.dispose()
    with closing(Store(postgres_url)) as store, store.transaction() as session:
        held = [
            session.scalar(text(f"SHOW {what}")) for what in ("synchronous_commit", "transaction_isolation")
        ]
    assert held == ["on", "read committed"]
