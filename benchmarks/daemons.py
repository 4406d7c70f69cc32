"""A consortium of real daemons, one process each, every node behind a line of its own that can go bad.

Folders are made by the commands, as admins make them. A daemon is killed with SIGKILL, paused with SIGSTOP, and its disk filled by
a limit on the size of files (prlimit(2)): every write beyond it fails, as on a full disk. What a daemon prints goes through a pipe
into a log beside its folder, so that a full disk is about its own files only.
"""

import asyncio
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.relay import DOWN, Relay
from benchmarks.resident import process_mib
from benchmarks.soak_studies import EPOCH, Rows
from cohortsum.coordinator.admission import load_consortium
from cohortsum.node.files import read_key
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import Roster
from tests.admin import desk
from tests.life.town import free_port

HUB = "coordinator"
STATISTICIAN = "stat1"
POLICY = """profile: open_data
budget: {epsilon: 1000, delta: 1.0e-5}
auto_approve:
  - statisticians: [stat1]
    statistics: [summary, histogram, crosstab, regression, glm]
    outcomes: [dx, sex, age, thick]
    until: 2099-12-31
"""
DISK_FULL = 2
"""Exit code of a daemon whose ledger or store cannot be written."""
START_S = 120.0
GREETING = 2000
"""Bytes that the coordinator sends before its first answer: TLS alone."""
STOP_S = 60.0


def folder_of(home: Path, name: str) -> Path:
    """Return the folder of a daemon."""
    return home / ("consortium" if name == HUB else name)


class Daemons:
    """One coordinator and its nodes; an async context manager, which ends every process that it started.

    Args:
        home: empty folder for all of it.
        tables: rows of every site by its id, in the order of the roster.

    Attributes:
        home: as given.
        names: of the sites.
        ended: exit codes of daemons that ended by themselves, with their name.
        refused: how many did so because their disk was full, as they are documented to.
        most_mib: greatest resident memory seen, of the coordinator and of a node.
    """

    def __init__(self, home: Path, tables: Mapping[str, Rows]) -> None:
        self.home, self.names = home, tuple(tables)
        self.ended: list[tuple[str, int]] = []
        self.refused = 0
        self._full: set[str] = set()
        self.most_mib = {HUB: 0.0, "node": 0.0}
        self._tables = tables
        self._port = free_port()
        self.target = f"127.0.0.1:{self._port}"
        self.relays = {name: Relay(self._port) for name in self.names}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._asked: set[int] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for relay in self.relays.values():
            await self._stack.enter_async_context(relay)
        await asyncio.to_thread(self._make)
        (self.home / "logs").mkdir()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in tuple(self._running):
            await self.kill(name)
        await self._stack.aclose()

    def folder(self, name: str) -> Path:
        """Return the folder of a daemon."""
        return folder_of(self.home, name)

    def signer(self) -> tuple[Signer, Roster]:
        """Return the statistician's identity, and the newest roster."""
        rosters = load_consortium(self.folder(HUB)).rosters
        roster = rosters[max(rosters)]
        return Signer(roster.identities[STATISTICIAN], read_key(self.home / "stat1.key")), roster

    def is_running(self, name: str) -> bool:
        """Whether the process of a daemon lives."""
        process = self._running.get(name)
        return process is not None and process.returncode is None

    async def start(self, name: str) -> None:
        """Start a daemon; the coordinator is listening afterwards."""
        part = "coordinator" if name == HUB else "node"
        what = self.folder(name) / "coordinator.yaml" if name == HUB else self.folder(name)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"cohortsum.{part}.serve", str(what)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            limit=2**20,
        )
        ready = asyncio.Event()
        self._running[name] = process
        self._readers[name] = asyncio.create_task(self._read(name, process, ready))
        if name == HUB:
            with suppress(TimeoutError):
                await asyncio.wait_for(ready.wait(), START_S)

    async def all_called(self) -> None:
        """Return once every node was answered something; 20 of them start slowly on two cores. Raises TimeoutError."""
        async with asyncio.timeout(START_S):
            while not all(relay.bytes[DOWN] > GREETING for relay in self.relays.values()):
                await asyncio.sleep(0.1)

    async def stop(self, name: str) -> int:
        """Ask a daemon to end, and return its exit code; one that does not within `STOP_S` is killed."""
        return await self._end(name, signal.SIGTERM)

    async def kill(self, name: str) -> int:
        """End a daemon as a power cut does."""
        return await self._end(name, signal.SIGKILL)

    def send(self, name: str, number: int) -> None:
        """Send a signal that does not end a daemon."""
        if self.is_running(name):
            self._running[name].send_signal(number)

    def fill_disk(self, name: str) -> None:
        """Let every write of a daemon fail that makes a file larger than a page."""
        if self.is_running(name):
            _, hard = resource.prlimit(self._running[name].pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._running[name].pid, resource.RLIMIT_FSIZE, (4096, hard))
            self._full.add(name)

    def empty_disk(self, name: str) -> None:
        """Let a daemon write again."""
        self._full.discard(name)
        if self.is_running(name):
            _, hard = resource.prlimit(self._running[name].pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._running[name].pid, resource.RLIMIT_FSIZE, (hard, hard))

    def look_at_memory(self) -> None:
        """Note how much memory the daemons have now."""
        for name, process in self._running.items():
            held = process_mib(process.pid) if process.returncode is None else None
            part = HUB if name == HUB else "node"
            self.most_mib[part] = max(self.most_mib[part], held or 0.0)

    def sets_aside(self, name: str) -> bool:
        """Whether a site's ledger still sets something aside for a study with noise."""
        path = self.folder(name) / "ledger.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
            (held,) = ledger.execute("SELECT count(*) FROM reservations WHERE released IS NULL").fetchone()
        return bool(held)

    async def _end(self, name: str, number: signal.Signals) -> int:
        process = self._running[name]
        self._asked.add(process.pid)
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
        try:
            code = await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            code = await process.wait()
        await self._readers[name]
        del self._running[name]
        return code

    async def _read(self, name: str, process: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
        """Copy what a daemon prints into its log, and tell when the coordinator listens."""
        assert process.stdout is not None
        with (self.home / "logs" / f"{name}.jsonl").open("ab") as log:
            async for line in process.stdout:
                log.write(line)
                log.flush()
                if b'"coordinator.listening"' in line:
                    ready.set()
        code = await process.wait()
        ready.set()
        if process.pid not in self._asked:
            if name in self._full and code == DISK_FULL:
                self.refused += 1
            else:
                self.ended.append((name, code))

    def _make(self) -> None:
        consortium = desk.make_consortium(self.home, self.target)
        for place, name in enumerate(self.names):
            folder = desk.make_site(self.home, name, self.relays[name].address)
            (folder / "people.csv").write_text(self._tables[name].csv(place), encoding="utf-8")
            (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
            desk.ok("node", "snapshot", folder, "--epoch", EPOCH)
        desk.admit(consortium, *(self.home / name for name in self.names))
        desk.ok("key", "new", self.home / "stat1.key")
        desk.ok(
            *("key", "request", self.home / "stat1.key", "--id", STATISTICIAN, "--role", "statistician"),
            *("--name", "S", "--organisation", "U", "--out", self.home / "stat1.yaml"),
        )
        desk.ok("coordinator", "admit", consortium, self.home / "stat1.yaml", "--role", "statistician")
        for name in self.names:
            desk.pin(consortium, self.home / name)
