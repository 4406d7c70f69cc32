"""Some sites of a large round, in one process: ``python benchmarks/scale_sites.py FOLDER FIRST BEYOND``; started by `scale`.

Every site is the daemon that a node runs (`cohortsum.node.daemon`), over its own folder, ledger and mutual TLS channel; what differs
from its process is that they share one interpreter and one pool of threads. One JSON line per site tells the bytes of every message
as gRPC carried it, and a last one the sum of what these sites added, which is computed again from the plan after the round.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cohortsum.crypto.certificates import TLS13_ONLY

os.environ.setdefault(*TLS13_ONLY)  # before grpc is imported, or TLS 1.2 stays possible

import numpy as np
import structlog
from numpy.typing import NDArray

from benchmarks.relay import Relay
from cohortsum.node import daemon as node_daemon
from cohortsum.node.client import Caller, Connection, Line
from cohortsum.node.config import load_node_config
from cohortsum.node.daemon import Daemon, Rhythm
from cohortsum.node.decisions import DecisionBook
from cohortsum.node.files import read_key
from cohortsum.node.joining import site_of
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import load_pin
from cohortsum.node.session import StudySession
from cohortsum.protocol.effects import Contribute, SiteEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Kind
from cohortsum.wire.v1 import service_pb2_grpc

PATIENCE_S = 3600.0
QUIET = Rhythm(look=30.0, reconsider=3600.0, refused=3600.0)
Sizes = Counter[tuple[str, str]]
"""Bytes by direction and kind of message."""


class CountingStub:
    """A stub that counts what its calls carry.

    Args:
        stub: what is called.
        sizes: counted into.
    """

    def __init__(self, stub: "service_pb2_grpc.ConsortiumAsyncStub", sizes: Sizes) -> None:
        self._stub, self._sizes = stub, sizes

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._call, name)

    async def _call(self, name: str, request: Any, timeout: float) -> Any:
        called = getattr(self._stub, name)
        if name == "Upload":
            return await called(self._counted(request), timeout=timeout)
        kind = Kind(request.envelope.kind).name if name == "Submit" else name
        self._sizes["up", kind] += request.ByteSize()
        reply = await called(request, timeout=timeout)
        packed = name == "Next" and reply.HasField("packet")
        kind = Kind(reply.packet.envelope.kind).name if packed else name
        self._sizes["down", kind] += reply.ByteSize()
        return reply

    async def _counted(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for chunk in chunks:
            self._sizes["up", "UPLOAD"] += chunk.ByteSize()
            yield chunk


class CountingConnection(Connection):
    """A connection whose calls are counted."""

    sizes: Sizes

    def stub(self) -> "service_pb2_grpc.ConsortiumAsyncStub":
        """Return what calls go through now, counted."""
        return cast("service_pb2_grpc.ConsortiumAsyncStub", CountingStub(super().stub(), self.sizes))


class Summing(StudySession):
    """A session that computes once more what it added, when it is closed, and adds it to the total of the process."""

    total: NDArray[np.int64] | None = None
    number = 0
    _asked: Contribute | None = None

    def _contribute(self, effect: Contribute) -> tuple[SiteEffect, ...]:
        self._asked = effect
        return super()._contribute(effect)

    def close(self) -> None:
        """Add the site's values to the total, and close the session."""
        joined = self._joined
        if joined is not None and self._asked is not None:
            values = joined.plan.contribution(joined.tables.batches, self._asked.blocks, joined.supplied)[1]
            Summing.total = values if Summing.total is None else Summing.total + values
            Summing.number += 1
        super().close()


async def site(folder: Path, pool: ThreadPoolExecutor, relay: Relay | None) -> Sizes:
    """Run one site until the study is over, and return what it sent and received."""
    config, pin = load_node_config(folder / "node.yaml"), load_pin(folder)
    signer = Signer(pin.newest.identities[config.site], read_key(config.identity_key))
    line = Line(config.coordinator if relay is None else relay.address, PATIENCE_S)
    decisions, sizes = DecisionBook(folder), Sizes()
    with closing(Ledger(folder / "ledger.db")) as ledger:
        brings = partial(site_of, folder, signer, ledger, decisions, pool)
        async with CountingConnection(line, signer, pin.newest) as connection:
            connection.sizes = sizes
            caller = Caller(connection, line, config.site)
            await Daemon(folder, caller, brings, decisions, once=True, rhythm=QUIET).run()
    return sizes


async def run(folders: list[Path], threads: int, metered: bool) -> None:
    """Run the sites; the first one's line is metered where that is asked for."""
    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(threads + 1) as workers:
        asyncio.get_running_loop().set_default_executor(workers)
        port = int(load_node_config(folders[0] / "node.yaml").coordinator.rpartition(":")[2])
        async with Relay(port) as relay:
            relays: list[Relay | None] = [
                relay if metered and place == 0 else None for place in range(len(folders))
            ]
            done = await asyncio.gather(
                *(site(at, pool, held) for at, held in zip(folders, relays, strict=True))
            )
            wire = relay.bytes
    for folder, sizes in zip(folders, done, strict=True):
        print(json.dumps({"site": folder.name, "sizes": [[*key, size] for key, size in sizes.items()]}))
    if metered:
        print(json.dumps({"wire": wire}))


def main() -> None:
    """Run the sites that the command line names, and write their sum beside their folders."""
    home, first, beyond = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    structlog.configure(
        logger_factory=structlog.WriteLoggerFactory((home / f"sites-{first}.log").open("w", encoding="utf-8"))
    )
    folders = [home / "sites" / f"site{place:03d}" for place in range(first, beyond)]
    with patch.object(node_daemon, "StudySession", Summing):
        asyncio.run(run(folders, 1, first == 0))
    assert Summing.number == len(folders), "a site left before the end"
    assert Summing.total is not None
    np.save(home / f"sum-{first}.npy", Summing.total)


if __name__ == "__main__":
    main()
