"""A consortium whose daemons run as they do in earnest, in one event loop: folders made by the commands, real gRPC and TLS.

Site ``index`` holds ``4 * 2**index`` people (`tests.edges.harness.People`), so that a missing or doubled site shows in n.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from cohortsum.cli.study_files import read_version
from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.bundle import papers_in
from cohortsum.coordinator.client import Desk, open_desk
from cohortsum.coordinator.config import load_coordinator_config
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.roll import RollBook
from cohortsum.coordinator.runner import AS_WRITTEN, Pace
from cohortsum.coordinator.service import ConsortiumService, secure_server
from cohortsum.coordinator.store import Store
from cohortsum.node.board import StudyLine
from cohortsum.node.client import Caller, Connection, Line
from cohortsum.node.config import load_node_config
from cohortsum.node.daemon import Daemon, Rhythm
from cohortsum.node.decisions import Decision, DecisionBook, decide
from cohortsum.node.files import read_key
from cohortsum.node.joining import site_of
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.envelope import Signer
from cohortsum.report.document import ResultDocument
from cohortsum.report.notices import Notice
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.signing import SignedStudy, sign_study
from tests.admin import desk
from tests.edges.harness import STUDY, People

LIMIT_S = 60.0
EPOCH = "2026-11"
STATISTICIAN = "stat1"


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class Town:
    """One coordinator, some sites and a statistician, all with folders of their own; an async context manager."""

    patience_s = LIMIT_S
    """How long a node's line may be down before the node gives up."""

    def __init__(self, home: Path, sites: int = 5, pace: Pace = AS_WRITTEN) -> None:
        self.home, self.count, self.pace = home, sites, pace
        self.target = f"127.0.0.1:{free_port()}"
        self.consortium = desk.make_consortium(home, self.target)
        self.names = [f"site{index}" for index in range(sites)]
        for index, name in enumerate(self.names):
            self.make_node(index, name)
        desk.admit(self.consortium, *(home / name for name in self.names))
        desk.ok("key", "new", home / "stat1.key")
        desk.ok(
            *("key", "request", home / "stat1.key", "--id", STATISTICIAN, "--role", "statistician"),
            *("--name", "S", "--organisation", "U", "--out", home / "stat1.yaml"),
        )
        desk.ok("coordinator", "admit", self.consortium, home / "stat1.yaml", "--role", "statistician")
        for name in self.names:
            desk.pin(self.consortium, home / name)
        self.daemons: dict[int, Daemon] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()
        self._hub_stack = AsyncExitStack()
        self.pool = ThreadPoolExecutor(2)
        self.notices: list[Notice] = []

    async def _told(self, notice: Notice) -> None:
        self.notices.append(notice)

    def make_node(self, index: int, name: str) -> None:
        folder = desk.make_site(self.home, name, self.target)
        (folder / "people.csv").write_text(
            People.of(index).csv(f"s{index}").replace("id,", "person_id,", 1), encoding="utf-8"
        )
        text = (folder / "node.yaml").read_text()
        (folder / "node.yaml").write_text(text.replace("# exclude:", "exclude:"))
        (folder / "withdrawn.txt").write_text("")
        desk.ok("node", "snapshot", folder, "--epoch", EPOCH)

    async def __aenter__(self) -> Self:
        await self.start_hub()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in list(self._tasks):
            await self.stop_node(index)
        await self.stop_hub()
        self.pool.shutdown()

    async def start_hub(self) -> None:
        self._hub_stack = AsyncExitStack()
        self.hub = await self._hub_stack.enter_async_context(self._serving())

    async def stop_hub(self) -> None:
        await self._hub_stack.aclose()

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[Hub]:
        config = load_coordinator_config(self.consortium / "coordinator.yaml")
        book, key = RollBook(config, self.consortium), read_key(config.identity_key)
        config.spool.mkdir(exist_ok=True)
        with closing(Store(config.store, self.consortium / AUDIT)) as store:
            papers = papers_in(config, self.consortium)
            place = Place(store, config.spool, config.results, self.pool, self.pace, self._told, papers)
            hub = Hub(lambda: book.roll, key, place)
            server, _ = secure_server(ConsortiumService(hub), lambda: book.roll, key, config.listen)
            await hub.resume()
            await server.start()
            try:
                yield hub
            finally:
                await server.stop(None)
                await hub.close()

    def folder(self, index: int) -> Path:
        return self.home / self.names[index]

    def start_nodes(self, indices: Iterable[int] | None = None) -> None:
        for index in range(self.count) if indices is None else indices:
            self._tasks[index] = asyncio.create_task(self._node(index))

    async def node_task(self, index: int) -> None:
        """Wait for the end of a node that ends by itself."""
        await self._tasks[index]

    async def stop_node(self, index: int) -> None:
        task = self._tasks.pop(index)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _node(self, index: int) -> None:
        folder = self.folder(index)
        config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
        signer = Signer(pin.newest.identities[config.site], read_key(config.identity_key))
        line, decisions = Line(config.coordinator, self.patience_s, config.standby), DecisionBook(folder)
        with closing(Ledger(folder / "ledger.db")) as ledger:
            site = partial(site_of, folder, signer, ledger, decisions, self.pool)
            async with Connection(line, signer, pin.newest) as connection:
                self.daemons[index] = Daemon(
                    folder,
                    Caller(connection, line, config.site),
                    site,
                    decisions,
                    rhythm=Rhythm(0.1, 0.5, 0.3),
                )
                await self.daemons[index].run()

    @asynccontextmanager
    async def desk(self, who: str = STATISTICIAN, key: str = "stat1.key") -> AsyncGenerator[Desk]:
        """Open the statistician's line."""
        roster = self.hub.roll.now
        signer = Signer(roster.identities[who], read_key(self.home / key))
        async with open_desk(self.target, signer, roster) as held:
            yield held

    async def submit(self, text: str) -> FrozenStudy:
        """Sign and submit a study, and return it."""
        study, signed = self.signed(text)
        async with self.desk() as held:
            await held.submit(signed)
        return study

    def signed(self, text: str) -> tuple[FrozenStudy, SignedStudy]:
        path = self.home / "study.yaml"
        path.write_text(text)
        study = read_version(path)
        return study, sign_study(study, STATISTICIAN, read_key(self.home / "stat1.key"))

    def decide(
        self,
        index: int,
        study: FrozenStudy,
        approved: bool = True,
        analyses: frozenset[str] | None = None,
        until: date | None = None,
    ) -> None:
        decide(
            self.folder(index),
            Decision(
                study.digest,
                study.study,
                study.version,
                approved,
                analyses,
                until,
                "test",
                datetime.now(UTC),
            ),
        )

    def line(self, index: int, study: FrozenStudy) -> StudyLine | None:
        """Return what a node says of a study."""
        return self.daemons[index].board.studies.get(study.digest.hex()) if index in self.daemons else None

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait for something that daemons do by themselves."""
        async with asyncio.timeout(LIMIT_S):
            while not ready():
                await asyncio.sleep(0.02)

    async def hears(self, index: int, study: FrozenStudy, here: str) -> None:
        """Wait until a node says ``here`` of a study."""
        await self.until(lambda: (line := self.line(index, study)) is not None and line.here == here)

    async def result(self, study: FrozenStudy) -> ResultDocument:
        """Wait until a study has ended, and fetch its result as a statistician does."""
        async with asyncio.timeout(LIMIT_S):
            await self.hub.ended(study.digest)
        async with self.desk() as held:
            return await held.result(study.digest)


def study_of(
    name: str, version: int = 1, changes: Mapping[str, str] = MappingProxyType({}), roster: int = 3
) -> str:
    """Return the small study under another id and version."""
    text = STUDY.replace("study: loopback", f"study: {name}").replace("roster: 1", f"roster: {roster}")
    text = text.replace("version: 1", f"version: {version}").replace("person: id", "person: person_id")
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text
