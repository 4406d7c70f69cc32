"""Nodes in trouble: refused, revoked, or tripped up by a fault of the coordinator; they say so and go on trying."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cohortsum.coordinator.hub import Hub
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.board import read_board
from cohortsum.node.daemon import Daemon
from cohortsum.node.findings import Severity
from cohortsum.node.status import node_findings
from cohortsum.protocol.messages import Envelope
from tests.admin import desk
from tests.edges.oracle import check_pooled
from tests.life.test_studies import play
from tests.life.town import Town, study_of


def failing(times: int, real: Callable[..., object]) -> Callable[..., object]:
    """Return a method that fails as a fault of the coordinator does, for some calls, and then works."""
    left = [times]

    def method(*arguments: object) -> object:
        if left[0]:
            left[0] -= 1
            raise ConfigurationError("a file of the coordinator is broken")
        return real(*arguments)

    return method


def test_a_revoked_node_goes_on_running_and_says_what_to_do(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes((3,))
        await town.until(lambda: 3 in town.daemons and town.daemons[3].board.down_since is None)
        desk.ok("coordinator", "revoke", town.consortium, "site3", "--reason", "stolen")
        study = await town.submit(study_of("one"))  # a change of the list: the long poll ends
        await town.until(lambda: bool(town.daemons[3].board.refused))
        await town.until(lambda: (held := read_board(town.folder(3))) is not None and bool(held.refused))
        line = next(
            finding for finding in node_findings(town.folder(3), datetime.now(UTC)) if finding.name == "line"
        )
        assert line.status is Severity.FAILURE
        assert "ask the operator" in line.cure
        told = town.line(3, study)  # a poll that was open may still have named the study; nothing of it came
        assert told is None or told.here == "cannot be used"

    play(tmp_path, story)


def test_a_fault_of_the_coordinator_ends_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list fails three times and the trail twice; everybody takes part all the same."""
    monkeypatch.setattr(Hub, "entries", failing(3, Hub.entries))
    monkeypatch.setattr(Hub, "trail", failing(2, Hub.trail))

    async def story(town: Town) -> None:
        town.start_nodes()
        await asyncio.sleep(1)
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            town.decide(index, study)
            await town.hears(index, study, "takes part")
        check_pooled(await town.result(study), range(5))

    play(tmp_path, story)


def test_a_fault_of_the_node_itself_is_raised_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_daemon: Daemon) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Daemon, "_look_around", broken)

    async def story(town: Town) -> None:
        town.start_nodes((0,))
        async with asyncio.timeout(20):
            with pytest.raises(ZeroDivisionError):
                await town.node_task(0)

    play(tmp_path, story)


def test_trails_are_lists_of_what_the_site_signed(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        study = await town.submit(study_of("one"))
        for index in range(town.count):
            town.decide(index, study)
        await town.result(study)
        held: tuple[Envelope, ...] = town.hub.trail("site2")
        assert [envelope.sender for envelope in held] == ["site2"]

    play(tmp_path, story)
