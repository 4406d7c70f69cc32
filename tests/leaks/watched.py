"""A town of which everything is kept: what its daemons log, print and send, what monitoring reads, and the secrets they draw."""

import asyncio
import contextlib
import io
import logging
import secrets
import urllib.request
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import structlog

from cohortsum.coordinator.hub import Hub
from cohortsum.coordinator.metrics import Tally, served_metrics
from cohortsum.crypto.noise import NoiseStream
from cohortsum.crypto.scrubbing import ScrubbedText, scrub
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.client import Caller, Connection, Line
from cohortsum.node.config import load_node_config
from cohortsum.node.daemon import Daemon, Rhythm
from cohortsum.node.decisions import DecisionBook
from cohortsum.node.files import read_key
from cohortsum.node.joining import site_of
from cohortsum.node.ledger import Ledger
from cohortsum.node.notices import Messenger
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.seeds import Seeds
from tests.admin import desk
from tests.edges.harness import WatchedService, Wire
from tests.leaks.planted import people, table
from tests.life import town as towns
from tests.life.town import EPOCH, LIMIT_S, Town, free_port

HOOK = '#!/bin/sh\n(echo "$@"; env; cat) >> "$0.heard"\n'


@dataclass
class Kept:
    """Everything that could be seen outside the tables, apart from the files of the town, and the secrets to look for.

    Attributes:
        log: lines as both daemons write them.
        stderr: what both daemons and libraries would print there.
        wire: what passed the coordinator's edge, without TLS.
        metrics: what monitoring read.
        screens: what commands and processes showed.
        dealt: mask seed, gate seed and data seed of every attempt at every site.
        never_opened: channel seeds and noise keys.
        drawn: everything that came from the system's generator.
    """

    log: io.StringIO = field(default_factory=io.StringIO)
    stderr: io.StringIO = field(default_factory=io.StringIO)
    wire: Wire = field(default_factory=Wire)
    metrics: list[str] = field(default_factory=list[str])
    screens: list[str] = field(default_factory=list[str])
    dealt: list[tuple[bytes, bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes, bytes]])
    never_opened: set[bytes] = field(default_factory=set[bytes])
    drawn: set[bytes] = field(default_factory=set[bytes])

    def command(self, *arguments: str | Path) -> str:
        """Run a command, whatever comes of it, and keep what it shows."""
        screen = desk.run(*arguments)
        self.screens.append(f"{screen.code}\n{screen.out}\n{screen.said}\n{screen.refusal}")
        return self.screens[-1]

    @property
    def seeds(self) -> set[bytes]:
        """Every secret that was drawn for a round."""
        return self.never_opened | {seed for dealt in self.dealt for seed in dealt}

    def places(self) -> list[tuple[str, bytes]]:
        """Return all of it by name, but not the seeds."""
        return [
            ("log", self.log.getvalue().encode()),
            ("standard error", self.stderr.getvalue().encode()),
            ("metrics", "\n".join(self.metrics).encode()),
            ("screens", "\n".join(self.screens).encode()),
            (
                "what sites sent",
                b"".join(data for entries in self.wire.received.values() for _, data in entries),
            ),
            (
                "what sites were sent",
                b"".join(data for entries in self.wire.sent.values() for _, data in entries),
            ),
        ]


class WatchedTown(Town):
    """A town with planted people, notices at every site, metrics, and a hook around every call."""

    def __init__(self, home: Path, kept: Kept, sites: int = 5) -> None:
        self.kept, self.metrics = kept, f"127.0.0.1:{free_port()}"
        self._leavers: dict[tuple[str, str], int] = {}
        super().__init__(home, sites)

    def leave_after(self, index: int, what: str) -> None:
        """Take a node off the line as soon as the coordinator has something of it."""
        self._leavers[self.names[index], what] = index

    @property
    def left(self) -> bool:
        """Whether everybody has left who was to."""
        return not self._leavers

    async def _after(self, site: str, what: str) -> None:
        index = self._leavers.pop((site, what), None)
        if index is not None:
            self._tasks[index].cancel()

    def make_node(self, index: int, name: str) -> None:
        folder = desk.make_site(self.home, name, self.target)
        self.write_table(index)
        hook = folder / "hook"
        hook.write_text(HOOK)
        hook.chmod(0o700)
        text = (folder / "node.yaml").read_text().replace("# exclude:", "exclude:")
        (folder / "node.yaml").write_text(f"{text}\nnotices: {{hook: {hook}}}\n")
        (folder / "withdrawn.txt").write_text("")
        self.kept.command("node", "snapshot", folder, "--epoch", EPOCH)

    def write_table(self, index: int, change: Callable[[str], str] = str) -> None:
        """Write a site's planted table, changed or as it should be."""
        path = self.home / self.names[index] / "people.csv"
        path.write_text(change(table(people(index))), encoding="utf-8", errors="surrogateescape")

    @property
    def tables(self) -> list[Path]:
        """Where the planted people are, rightly."""
        return [self.folder(index) / "people.csv" for index in range(self.count)]

    async def scrape(self) -> None:
        """Read what monitoring reads."""

        def read() -> str:
            with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
                text: str = answer.read().decode()
            return text

        self.kept.metrics.append(await asyncio.to_thread(read))

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[Hub]:
        def service(hub: Hub) -> WatchedService:
            held = WatchedService(hub, self.kept.wire)
            held.after = self._after
            return held

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(towns, "ConsortiumService", service)
            async with super()._serving() as hub:
                with served_metrics(self.metrics, hub, Tally()):
                    yield hub

    async def _node(self, index: int) -> None:
        folder = self.folder(index)
        config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
        signer = Signer(pin.newest.identities[config.site], read_key(config.identity_key))
        line, decisions = Line(config.coordinator, LIMIT_S), DecisionBook(folder)
        with closing(Ledger(folder / "ledger.db")) as ledger:
            site = partial(site_of, folder, signer, ledger, decisions, self.pool)
            async with Connection(line, signer, pin.newest) as connection:
                self.daemons[index] = Daemon(
                    folder,
                    Caller(connection, line, config.site),
                    site,
                    decisions,
                    Messenger(config.notices, config.site, folder),
                    rhythm=Rhythm(0.05, 0.3, 0.1),
                )
                await self.daemons[index].run()


@contextmanager
def watching(kept: Kept) -> Generator[None]:
    """Log as both daemons do, take what goes to standard error as they do, and note every secret that is drawn."""
    draw, token = Seeds.draw, secrets.token_bytes

    def drawn(randomness: Callable[[int], bytes], ahead: int = 0) -> Seeds:
        seeds = draw(randomness, ahead)
        parts = (seeds.shared, *seeds.ahead)
        kept.dealt += [(part.mask.reveal(), part.gate.reveal(), part.data.reveal()) for part in parts]
        kept.never_opened.add(seeds.channel.reveal())
        return seeds

    def tokens(size: int | None = None) -> bytes:
        held = token(size)
        kept.drawn.add(held)
        return held

    def noise() -> NoiseStream:
        key = tokens(32)
        kept.never_opened.add(key)
        return NoiseStream(SecretBytes(key, "noise key"))

    stream = ScrubbedText(kept.stderr)
    handler = logging.StreamHandler(stream)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(stream):
        patch.setattr(Seeds, "draw", drawn)
        patch.setattr(NoiseStream, "fresh", noise)
        patch.setattr(secrets, "token_bytes", tokens)
        logging.getLogger().addHandler(handler)
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                scrub,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file=kept.log),
        )
        try:
            yield
        finally:
            structlog.reset_defaults()
            logging.getLogger().removeHandler(handler)
