"""TLS keys that are renewed with every call, or whose certificate ends in the middle of a step while the line breaks."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from cohortsum.node import client
from tests.edges.harness import Loopback, study_with
from tests.edges.test_line import check_once
from tests.faults.test_lines import BEFORE
from tests.protocol.lies import TO_COORDINATOR

SHORT = timedelta(seconds=4)
SLOW = study_with(step="60s, step_max: 60s")


@pytest.mark.faults
def test_a_key_that_is_new_with_every_call_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    secure_channel = client.secure_channel

    def counted(*arguments: object) -> object:
        made.append(1)
        return secure_channel(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "RENEW_S", -1.0)
    monkeypatch.setattr(client, "secure_channel", counted)

    async def play() -> None:
        async with Loopback(tmp_path, 4, SLOW) as town:
            check_once(town, await town.run())

    asyncio.run(play())
    assert len(made) > 4 * len(BEFORE)


@pytest.mark.faults
@pytest.mark.parametrize("kind", [kind.name for kind in TO_COORDINATOR] + ["CLOSING"])
def test_a_certificate_that_has_ended_when_the_line_breaks_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As after a sleep of the machine: the connection stands on the old certificate, and no other one will."""
    monkeypatch.setattr(client, "CERTIFICATE_LIFETIME", SHORT)

    async def play() -> None:
        async with Loopback(tmp_path, 4, SLOW) as town, asyncio.timeout(90):
            held = town.hold("site2", BEFORE[kind] if kind == "CLOSING" else kind, "before")
            ending = town.start()
            await held.reached.wait()
            await asyncio.sleep(SHORT.total_seconds())
            await town.stop_server()
            await town.start_server()
            held.released.set()
            outcome = await ending
            await asyncio.gather(*town.tasks.values())
            check_once(town, outcome)

    asyncio.run(play())
