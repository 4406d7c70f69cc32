"""The coordinator's own faults: a disk or database that fails once costs a repeated call, not a site and not the study."""

import asyncio
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.record import StudyRecord
from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.spool import Upload
from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.messages import Kind, Packet
from tests.edges.harness import Loopback, study_with
from tests.edges.oracle import check_pooled

LIMIT_S = 4.0


def run(folder: Path) -> Outcome:
    async def play() -> Outcome:
        async with Loopback(folder, 4, study_with(step="1s")) as town, asyncio.timeout(LIMIT_S):
            return await town.run()

    return asyncio.run(play())


def check(outcome: Outcome) -> None:
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(4))


def test_a_store_that_fails_once_for_the_last_message_of_a_step_costs_a_repeated_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = StudyRecord.message
    seen: list[str] = []

    def failing(self: StudyRecord, packet: Packet) -> None:
        if packet.envelope.kind is Kind.ADVERT:
            seen.append(packet.envelope.sender)
            if len(seen) == 4:
                raise StoreError("the disk is full")
        record(self, packet)

    monkeypatch.setattr(StudyRecord, "message", failing)
    check(run(tmp_path))
    assert len(seen) == 5


class Full:
    """A disk that is full once."""

    def __init__(self) -> None:
        self.left = 1

    def check(self) -> None:
        if self.left:
            self.left -= 1
            raise OSError(28, "No space left on device", "/srv/spool/0.words")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Full:
    disk, add = Full(), Upload.add

    def failing(self: Upload, words: bytes, running_digest: bytes) -> None:
        disk.check()
        add(self, words, running_digest)

    monkeypatch.setattr(Upload, "add", failing)
    return disk


def test_a_disk_that_is_full_once_costs_a_repeated_upload(tmp_path: Path, full_disk: Full) -> None:
    check(run(tmp_path))
    assert full_disk.left == 0


def test_a_node_hears_nothing_of_the_coordinator_s_disk(tmp_path: Path, full_disk: Full) -> None:
    with capture_logs() as logs:
        run(tmp_path)
    assert full_disk.left == 0
    assert "/srv/spool" not in repr(
        [line for line in logs if line["event"] in ("message.not_taken", "line.down")]
    )
    assert grpc.StatusCode.UNKNOWN.name not in repr(logs)
