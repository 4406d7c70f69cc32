"""A ledger that went back in time: the site finds out and halts, recovers to no less than the truth, and goes on."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.hub import Hub
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.client import Caller, Connection, Line
from cohortsum.node.config import load_node_config
from cohortsum.node.files import read_key
from cohortsum.node.findings import Severity
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.node.recovery import Rebuilt, rebuild
from cohortsum.node.status import node_findings
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope
from cohortsum.study.definition import FrozenStudy
from tests.edges.oracle import check_pooled
from tests.life.test_studies import play
from tests.life.town import Town, study_of

RESTORED = 2


async def whole(town: Town, name: str) -> FrozenStudy:
    """Run a study with everybody."""
    study = await town.submit(study_of(name))
    for index in range(town.count):
        town.decide(index, study)
    check_pooled(await town.result(study), range(town.count))
    return study


def deeds(folder: Path) -> set[tuple[bytes, str]]:
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        return set(database.execute("SELECT context, deed FROM deeds"))


async def recover(town: Town, index: int) -> Rebuilt:
    folder = town.folder(index)
    config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
    signer = Signer(pin.newest.identities[config.site], read_key(config.identity_key))
    line = Line(config.coordinator, 10)
    async with Connection(line, signer, pin.newest) as connection:
        return await rebuild(folder, Caller(connection, line, config.site), signer)


def set_back(town: Town, index: int) -> None:
    """Put yesterday's ledger in the place of today's."""
    folder = town.folder(index)
    for left in folder.glob("ledger.db-*"):
        left.unlink()
    shutil.copy(town.home / "yesterday.db", folder / "ledger.db")


def lose(town: Town, index: int) -> None:
    for left in town.folder(index).glob("ledger.db*"):
        left.unlink()


@pytest.mark.parametrize("damage", [set_back, lose])
def test_a_restored_node_halts_and_goes_on_after_recovery(
    tmp_path: Path, damage: Callable[[Town, int], None]
) -> None:
    async def story(town: Town) -> None:
        folder = town.folder(RESTORED)
        town.start_nodes()
        await whole(town, "before")
        await town.stop_node(RESTORED)
        with closing(Ledger(folder / "ledger.db")):
            pass  # the write-ahead log is in the file now
        shutil.copy(folder / "ledger.db", town.home / "yesterday.db")
        town.start_nodes((RESTORED,))
        await whole(town, "today")
        await town.stop_node(RESTORED)
        truth = deeds(folder)
        damage(town, RESTORED)

        town.start_nodes((RESTORED,))
        study = await town.submit(study_of("after"))
        town.decide(RESTORED, study)
        await town.hears(RESTORED, study, "stays out")
        line = town.line(RESTORED, study)
        assert line is not None
        assert "cohortsum node recover" in line.reason
        findings = {finding.name: finding for finding in node_findings(folder, datetime.now(UTC))}
        assert findings["ledger"].status is Severity.FAILURE
        await town.stop_node(RESTORED)

        done = await recover(town, RESTORED)
        assert (done.rounds, done.incarnation) == (2, 1)
        assert done.forgotten == (1 if damage is set_back else 2)
        rebuilt = deeds(folder)
        assert {deed for deed in truth if deed[1] != "opened"} <= rebuilt
        assert done.closed == ()  # the snapshot's record says what the label stands for

        town.start_nodes((RESTORED,))
        await town.hears(RESTORED, study, "takes part")
        for index in set(range(town.count)) - {RESTORED}:
            town.decide(index, study)
        check_pooled(await town.result(study), range(town.count))

    play(tmp_path, story)


def test_an_epoch_whose_content_is_not_known_any_more_is_closed(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        await whole(town, "before")
        await town.stop_node(RESTORED)
        lose(town, RESTORED)
        shutil.rmtree(town.folder(RESTORED) / "snapshots")
        assert (await recover(town, RESTORED)).closed == ("2026-11",)
        town.start_nodes((RESTORED,))
        study = await town.submit(study_of("after"))
        town.decide(RESTORED, study)
        await town.hears(RESTORED, study, "stays out")
        line = town.line(RESTORED, study)
        assert line is not None
        assert "the ledger was rebuilt" in line.reason

    play(tmp_path, story)


def test_where_the_coordinator_hides_the_trail_the_other_sites_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        await whole(town, "before")
        await town.stop_node(RESTORED)
        lose(town, RESTORED)

        def hidden(_hub: Hub, _site: str) -> tuple[Envelope, ...]:
            return ()

        monkeypatch.setattr(Hub, "trail", hidden)
        town.start_nodes((RESTORED,))
        study = await town.submit(
            study_of("after", changes={"step: 20s": "step: 2s, step_max: 2s, gather: 5s"})
        )
        for index in range(town.count):
            town.decide(index, study)
        async with asyncio.timeout(60):
            outcome = await town.hub.ended(study.digest)
        assert outcome.document is None

    with capture_logs() as logs:
        play(tmp_path, story)
    refused = [line for line in logs if line["event"] == "message.refused"]
    first = {str(line["site"]): line["check"] for line in reversed(refused)}
    assert first == dict.fromkeys(("site0", "site1", "site3", "site4"), "R1.9")


def test_a_coordinator_that_does_not_prove_a_round_is_named_and_nothing_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(town: Town) -> None:
        town.start_nodes()
        await whole(town, "before")
        await town.stop_node(RESTORED)
        lose(town, RESTORED)
        held = Hub.transcript

        def cut(hub: Hub, context: bytes, site: str) -> object:
            transcript = held(hub, context, site)
            return type(transcript)(
                transcript.opening,
                transcript.adverts[1:],
                transcript.shares,
                transcript.masked,
                transcript.survivors,
                transcript.consistency,
            )

        monkeypatch.setattr(Hub, "transcript", cut)
        with pytest.raises(ConfigurationError, match=r"does not prove round .*T1"):
            await recover(town, RESTORED)
        assert not (town.folder(RESTORED) / "ledger.db").exists()

    play(tmp_path, story)
