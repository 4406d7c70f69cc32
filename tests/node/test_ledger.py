"""The site's durable log: nothing is done twice, survivors bind every retry, and it remembers after reopening."""

from pathlib import Path

import pytest

from cohortsum.crypto.errors import PolicyError, StoreError
from cohortsum.node.epochs import Epochs
from cohortsum.node.ledger import Ledger
from cohortsum.node.ledger_file import LedgerFile
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.effects import (
    Answered,
    ContextSpent,
    Record,
    RoundSeen,
    SetOpened,
    SurvivorsSigned,
)

STUDY, OTHER = b"s" * 32, b"o" * 32
CONTEXT, NEXT = b"c" * 32, b"n" * 32
ROUND = b"r" * 16


def seen(context: bytes = CONTEXT, attempt: int = 1, round_id: bytes = ROUND) -> RoundSeen:
    return RoundSeen(context, RoundKey(round_id, 1, attempt))


def spent(context: bytes, masked: bytes) -> ContextSpent:
    return ContextSpent(context, masked, b"1" * 32, b"2" * 32, frozenset({0, 1}), frozenset({0, 1}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def begun(path: Path | None) -> Ledger:
    ledger = Ledger(path)
    ledger.write(STUDY, seen())
    return ledger


FIRST_AND_OTHER: list[tuple[Record, Record]] = [
    (spent(CONTEXT, b"1" * 32), spent(CONTEXT, b"2" * 32)),
    (SurvivorsSigned(CONTEXT, (0, 1, 2), b"1" * 32), SurvivorsSigned(CONTEXT, (0, 1, 3), b"2" * 32)),
    (Answered(CONTEXT, "gate", b"1" * 32), Answered(CONTEXT, "gate", b"2" * 32)),
    (Answered(CONTEXT, "data", b"1" * 32), Answered(CONTEXT, "data", b"2" * 32)),
    (SetOpened(CONTEXT, b"1" * 32), SetOpened(CONTEXT, b"2" * 32)),
]


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(("first", "other"), FIRST_AND_OTHER, ids=lambda record: type(record).__name__)
def test_a_deed_is_done_once_per_context(path: Path, first: Record, other: Record, reopened: bool) -> None:
    ledger = begun(path)
    ledger.write(STUDY, first)
    held = ledger.deeds(CONTEXT)
    if reopened:
        ledger.close()
        ledger = Ledger(path)
    with pytest.raises(StoreError):
        ledger.write(STUDY, other)
    assert ledger.deeds(CONTEXT) == held
    ledger.close()


@pytest.mark.parametrize(("first", "other"), FIRST_AND_OTHER, ids=lambda record: type(record).__name__)
def test_a_ledger_in_memory_refuses_the_same(first: Record, other: Record) -> None:
    ledger = begun(None)
    ledger.write(STUDY, first)
    with pytest.raises(StoreError):
        ledger.write(STUDY, other)
    ledger.close()


def test_two_ledgers_in_memory_share_nothing() -> None:
    first, second = begun(None), Ledger(None)
    assert first.seen_rounds() == {(ROUND, 1, 1)}
    assert second.seen_rounds() == frozenset()
    first.close()
    second.close()


def test_both_answers_of_one_context_are_recorded_in_order(path: Path) -> None:
    ledger = begun(path)
    deeds: list[Record] = [
        spent(CONTEXT, b"1" * 32),
        SurvivorsSigned(CONTEXT, (0, 1), b"2" * 32),
        Answered(CONTEXT, "gate", b"3" * 32),
        Answered(CONTEXT, "data", b"4" * 32),
        SetOpened(CONTEXT, b"5" * 32),
    ]
    for deed in deeds:
        ledger.write(STUDY, deed)
    assert ledger.deeds(CONTEXT) == ("spent", "signed", "answered gate", "answered data", "opened")
    assert ledger.deeds(NEXT) == ()
    ledger.close()


def test_rounds_seen_survive_reopening_and_are_not_seen_again(path: Path) -> None:
    ledger = begun(path)
    ledger.write(STUDY, seen(NEXT, attempt=2))
    ledger.close()
    again = Ledger(path)
    assert again.seen_rounds() == {(ROUND, 1, 1), (ROUND, 1, 2)}
    with pytest.raises(StoreError):
        again.write(STUDY, seen(b"x" * 32, attempt=2))
    again.close()


def test_one_context_is_not_two_rounds(path: Path) -> None:
    ledger = begun(path)
    with pytest.raises(StoreError):
        ledger.write(STUDY, seen(CONTEXT, round_id=b"q" * 16))
    ledger.close()


def test_a_deed_of_a_round_never_seen_is_refused(path: Path) -> None:
    ledger = Ledger(path)
    with pytest.raises(StoreError):
        ledger.write(STUDY, spent(CONTEXT, b"1" * 32))
    assert ledger.deeds(CONTEXT) == ()
    ledger.close()


def test_signed_survivors_bind_every_later_attempt_of_that_study_only(path: Path) -> None:
    ledger = begun(path)
    assert ledger.signed_survivors(STUDY, 1) is None
    ledger.write(STUDY, SurvivorsSigned(CONTEXT, (0, 2, 10), b"1" * 32))
    ledger.write(STUDY, seen(NEXT, attempt=2))
    ledger.write(STUDY, SurvivorsSigned(NEXT, (0, 2, 10), b"2" * 32))
    ledger.close()
    again = Ledger(path)
    assert again.signed_survivors(STUDY, 1) == (0, 2, 10)
    assert again.signed_survivors(OTHER, 1) is None
    again.close()


def test_an_epoch_is_bound_to_one_content(path: Path) -> None:
    ledger = Ledger(path)
    ledger.epochs.bind("2026-11", b"1" * 32)
    ledger.epochs.bind("2026-11", b"1" * 32)
    ledger.epochs.bind("2026-12", b"2" * 32)
    ledger.close()
    again = Ledger(path)
    with pytest.raises(PolicyError, match="epoch 2026-11"):
        again.epochs.bind("2026-11", b"2" * 32)
    again.epochs.bind("2026-11", b"1" * 32)
    again.close()


def test_versions_of_a_study_only_grow(path: Path) -> None:
    ledger = Ledger(path)
    for version in (2, 2, 3):
        ledger.epochs.bind_version("asd", version)
    ledger.epochs.bind_version("other", 1)
    ledger.close()
    again = Ledger(path)
    with pytest.raises(PolicyError, match="older"):
        again.epochs.bind_version("asd", 2)
    again.epochs.bind_version("asd", 3)
    again.close()


def test_every_record_is_on_disk_before_write_returns(path: Path) -> None:
    ledger = begun(path)
    ledger.write(STUDY, spent(CONTEXT, b"1" * 32))
    reader = Ledger(path)  # as another process would see it, without a close
    assert reader.deeds(CONTEXT) == ("spent",)
    reader.close()
    ledger.close()


def test_a_path_that_cannot_be_opened_is_a_store_error_without_the_path(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="check disk space and rights") as caught:
        Ledger(tmp_path / "absent" / "ledger.db")
    assert "absent" not in caught.value.message


def test_a_file_that_is_no_database_is_a_store_error(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError):
        Ledger(path)


def test_a_ledger_that_was_closed_takes_nothing(path: Path) -> None:
    ledger = begun(path)
    ledger.close()
    with pytest.raises(StoreError):
        ledger.write(STUDY, spent(CONTEXT, b"1" * 32))


def test_a_transaction_inside_another_is_a_part_of_it(path: Path) -> None:
    file = LedgerFile(path)
    epochs = Epochs(file)

    def rebuilt() -> None:
        with file.transaction():
            epochs.close("2026-11")
            epochs.bind_version("asd", 2)
            raise StoreError("the machine died here")

    with pytest.raises(StoreError, match="died here"):
        rebuilt()
    assert not epochs.knows("2026-11")
    assert epochs.seen_version("asd") is None
    epochs.close("2026-11")
    file.close()
    again = LedgerFile(path)
    assert Epochs(again).closed("2026-11") is not None
    again.close()
