"""Sealed rounds at the coordinator: whole or not there, of opened rounds only, and a disk that refuses ends no round."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.sealing import SealedRounds, sealed_folder
from cohortsum.protocol.masking import words_to_bytes
from cohortsum.study.definition import load_roster
from tests.edges.harness import Loopback, pinned_roster, roster_yaml
from tests.protocol.test_witness import opened
from tests.release.bundles import GUESTS

CONTEXTS = tuple(bytes([number]) * 32 for number in range(3))


def kept(folder: Path, guests: tuple[str, ...] = GUESTS) -> SealedRounds:
    roster = load_roster(roster_yaml(5, guests), "consortium.yaml")
    return SealedRounds(folder, bytes(32), lambda: roster)


def words(index: int) -> bytes:
    return words_to_bytes(opened()[0].uploads[index])


def test_a_round_is_kept_until_it_is_dropped(tmp_path: Path) -> None:
    held, state = kept(tmp_path / "sealed"), opened()[0].held[0]
    held.keep_only(())
    for context in CONTEXTS:
        assert held.read(context) is None
        held.write(context, state, words)
    first = held.read(CONTEXTS[0])
    assert first is not None
    assert first != held.read(CONTEXTS[1])
    for index in state.u3.inputs:
        assert words(index) not in first
    held.drop(CONTEXTS[1])
    held.drop(CONTEXTS[1])
    assert held.read(CONTEXTS[1]) is None
    (tmp_path / "sealed" / "torn.part").write_bytes(b"torn")
    held.keep_only(CONTEXTS[:1])
    assert [path.name for path in (tmp_path / "sealed").iterdir()] == [f"{CONTEXTS[0].hex()}.sealed"]
    assert held.read(CONTEXTS[0]) == first


def test_without_auditors_nothing_is_written(tmp_path: Path) -> None:
    kept(tmp_path / "sealed", GUESTS[:3]).write(CONTEXTS[0], opened()[0].held[0], words)
    assert not (tmp_path / "sealed").exists()


def test_half_a_round_leaves_nothing(tmp_path: Path) -> None:
    def torn(index: int) -> bytes:
        if index:
            raise OSError(28, "No space left on device")
        return words(index)

    with pytest.raises(OSError, match="No space"):
        kept(tmp_path).write(CONTEXTS[0], opened()[0].held[0], torn)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_ends_no_round_and_is_reported(tmp_path: Path) -> None:
    async def play() -> None:
        async with Loopback(tmp_path, 5, guests=GUESTS) as town:
            sealed_folder(town.results).write_text("in the way")
            outcome = await town.run()
            assert outcome.document is not None, outcome.reason

    with capture_logs() as logs:
        asyncio.run(play())
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["round.not_sealed"]


def test_the_roster_of_these_tests_has_two_auditors() -> None:
    identities = pinned_roster(5, GUESTS).identities.values()
    assert sorted(one.id for one in identities if one.seal) == ["aud1", "aud2"]
