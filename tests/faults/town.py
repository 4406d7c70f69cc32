"""A consortium whose coordinator is a process that can be killed, and whose nodes are daemons in this loop or processes that can.

``COHORTSUM_FAILPOINT`` kills a process at a named point (`cohortsum.crypto.failpoints`), with SIGKILL and nothing flushed.
"""

import asyncio
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from sqlalchemy import select

from cohortsum.coordinator.client import Desk, open_desk
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.store import EventRow, RoundRow, Store
from cohortsum.crypto.errors import CohortsumError
from cohortsum.crypto.failpoints import POINTS, VARIABLE
from cohortsum.node.files import read_key
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.envelope import Signer
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import FrozenStudy
from tests.life.town import LIMIT_S, STATISTICIAN, Town, free_port

KILLED = -signal.SIGKILL


class FaultTown(Town):
    """Five sites; an async context manager.

    Args:
        home: of all folders.
        sites: how many.
        store: URL of the coordinator's database; SQLite in its folder by default.
    """

    patience_s = math.inf

    def __init__(self, home: Path, sites: int = 5, store: str = "") -> None:
        super().__init__(home, sites)
        self._failpoint, self._number = "", 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        if store:
            settings = self.consortium / "coordinator.yaml"
            before = settings.read_text()
            settings.write_text(before.replace("sqlite:///coordinator.db", store))
            assert settings.read_text() != before

    async def start_hub(self) -> None:
        """Start the coordinator; it dies at the failpoint that was asked for."""
        self.coordinator, log = self._coordinator(self.consortium, self._failpoint)
        await self.until(lambda: b"coordinator.listening" in log.read_bytes() or self.hub_is_dead)

    def make_standby(self) -> None:
        """Make a second coordinator in a folder of its own, over the same database and results."""
        self.addresses = (self.target, f"127.0.0.1:{free_port()}")
        first = self.consortium / "coordinator.yaml"
        results = self.consortium / "results"
        text = first.read_text().replace("results: results", f"results: {results}")
        assert text != first.read_text()
        first.write_text(f"{text}lease_s: 2\n")
        self.second = self.home / "second"
        shutil.copytree(self.consortium, self.second)
        (self.second / "coordinator.yaml").write_text(
            f"{text.replace(*self.addresses)}lease_s: 2\nprocess: second\n"
        )
        for index in range(self.count):
            with (self.folder(index) / "node.yaml").open("a") as settings:
                settings.write(f"standby: ['{self.addresses[1]}']\n")

    def start_second(self) -> tuple["subprocess.Popen[bytes]", Path]:
        """Start the second process; return it and its log."""
        return self._coordinator(self.second, "")

    def _coordinator(self, folder: Path, failpoint: str) -> tuple["subprocess.Popen[bytes]", Path]:
        settings = folder / "coordinator.yaml"
        return self._process(folder.name, failpoint, "cohortsum.coordinator.serve", settings)

    async def restart_hub(self, failpoint: str = "") -> None:
        """Start it again, to die at another point or at none."""
        self._failpoint = failpoint
        await self.start_hub()

    async def stop_hub(self) -> None:
        """End the coordinator as a machine that loses power does."""
        self.coordinator.kill()
        self.coordinator.wait()

    async def __aexit__(self, *error: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        await super().__aexit__(None, None, None)

    @property
    def hub_is_dead(self) -> bool:
        return self.coordinator.poll() == KILLED

    def start_process(self, index: int, failpoint: str = "") -> "subprocess.Popen[bytes]":
        """Start a node as a process of its own."""
        self.processes[index], _ = self._process(
            self.names[index], failpoint, "cohortsum.node.serve", self.folder(index)
        )
        return self.processes[index]

    @asynccontextmanager
    async def desk(self, who: str = STATISTICIAN, key: str = "stat1.key") -> AsyncGenerator[Desk]:
        roster = load_pin(self.folder(0)).newest
        async with open_desk(
            self.target, Signer(roster.identities[who], read_key(self.home / key)), roster
        ) as held:
            yield held

    async def state(self, study: FrozenStudy) -> str:
        """Return where a study stands, or nothing while nobody answers."""
        try:
            async with self.desk() as held:
                return (await held.status(study.digest)).state
        except CohortsumError:
            return ""

    async def result(self, study: FrozenStudy) -> ResultDocument:
        async with asyncio.timeout(2 * LIMIT_S):
            while await self.state(study) != "released":
                assert not self.hub_is_dead, "the coordinator died once too often"
                await asyncio.sleep(0.1)
        async with self.desk() as held:
            return await held.result(study.digest)

    def attempts(self, study: FrozenStudy) -> list[tuple[int, int, str]]:
        """Return iteration, number and state of every attempt; none of them has left anything behind that it needed while it was open."""
        with self.store() as store, store.transaction() as session:
            rows = session.scalars(
                select(RoundRow)
                .where(RoundRow.study == study.digest.hex())
                .order_by(RoundRow.iteration, RoundRow.attempt)
            ).all()
            open_ones = {row.context for row in rows if row.state == "open"}
            assert set(session.scalars(select(EventRow.context))) <= open_ones
            return [(row.iteration, row.attempt, row.state) for row in rows]

    def opened(self, study: FrozenStudy) -> list[tuple[bytes, set[str]]]:
        """Return context and survivors of every round that opened."""
        with self.store() as store, store.transaction() as session:
            rows = session.scalars(
                select(RoundRow).where(RoundRow.study == study.digest.hex(), RoundRow.state == "opened")
            )
            return [(bytes.fromhex(row.context), set(row.survivors.split(","))) for row in rows]

    def deeds(self, index: int, context: bytes) -> tuple[str, ...]:
        """Return what a site's ledger says that it did in an attempt; the node must not be running as a daemon of this loop."""
        with closing(Ledger(self.folder(index) / "ledger.db")) as ledger:
            return ledger.deeds(context)

    def store(self) -> "closing[Store]":
        return closing(Store(load_coordinator_config(self.consortium / "coordinator.yaml").store))

    def _process(
        self, name: str, failpoint: str, module: str, argument: Path
    ) -> tuple["subprocess.Popen[bytes]", Path]:
        assert not failpoint or failpoint.partition(":")[0] in POINTS
        self._number += 1
        path = self.home / f"{name}.{self._number}.log"
        environment = {**os.environ, VARIABLE: failpoint} if failpoint else dict(os.environ)
        with path.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", module, str(argument)], env=environment, stdout=log, stderr=log
            )
        return process, path
