"""A line between one node and the coordinator that can go bad: a TCP relay on loopback, with faults by name.

It knows no TLS and no gRPC; it carries bytes, counts them, and

=============  ====================================================================================================
fault          what happens until the line is mended
=============  ====================================================================================================
``cut``        connections are reset, new ones too
``hole``       bytes vanish from sight in both directions; they come when the line is mended, as TCP sends them again
``deaf``       what the node sends arrives, what it is answered does not; mending resets the connections
``dumb``       what the node sends does not arrive; mending resets the connections
``half``       the node's end of every connection hears that nothing will come any more, and may still send
``slow``       every piece comes late
=============  ====================================================================================================
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

FAULTS = ("cut", "hole", "deaf", "dumb", "half", "slow")
PIECE = 65536
LATE_S = 0.3
LOOK_S = 0.05
UP, DOWN = "up", "down"
STOPPED = {"hole": (UP, DOWN), "deaf": (DOWN,), "dumb": (UP,)}


class Relay:
    """One line; an async context manager that listens while inside.

    Args:
        port: of the coordinator, on loopback.

    Attributes:
        fault: what is wrong with the line, or nothing.
        bytes: carried so far, by direction.
        address: where the node connects to.
    """

    def __init__(self, port: int) -> None:
        self.fault = ""
        self.bytes = {UP: 0, DOWN: 0}
        self.address = ""
        self._port = port
        self._lines: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begin to listen, on a port that stays the same from then on."""
        self._server = await asyncio.start_server(self._begin, "127.0.0.1", 0, limit=PIECE)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening and reset what is open."""
        if self._server is not None:
            self._server.close()
        self._reset()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def spoil(self, fault: str) -> None:
        """Make the line bad in one of the ways of `FAULTS`."""
        self.fault = fault
        if fault == "cut":
            self._reset()
        elif fault == "half":
            for node, _ in self._lines:
                with suppress(OSError, RuntimeError):
                    node.write_eof()

    def mend(self) -> None:
        """Make the line good again."""
        before, self.fault = self.fault, ""
        if before in ("deaf", "dumb", "half"):
            self._reset()

    def _reset(self) -> None:
        for line in self._lines:
            for end in line:
                end.transport.abort()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._accept(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.fault == "cut":
            writer.transport.abort()
            return
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self._port, limit=PIECE)
        except OSError:  # the coordinator is down: the node is told as it would be
            writer.transport.abort()
            return
        line = (writer, outer)
        self._lines.add(line)
        try:
            await asyncio.gather(self._carry(UP, reader, outer), self._carry(DOWN, inner, writer))
        finally:
            self._lines.discard(line)
            for end in line:
                end.transport.abort()

    async def _carry(self, way: str, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(PIECE):
                if self.fault == "slow":
                    await asyncio.sleep(LATE_S)
                while way in STOPPED.get(self.fault, ()):
                    await asyncio.sleep(LOOK_S)
                if self.fault == "half" and way == DOWN:
                    continue  # what was said to be over
                self.bytes[way] += len(piece)
                target.write(piece)
                await target.drain()
            with suppress(OSError, RuntimeError):
                target.write_eof()
        except (OSError, RuntimeError):  # reset, by an end or by this relay
            target.transport.abort()
