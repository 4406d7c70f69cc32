"""A line below TLS that can be cut, slowed down, swallow everything, break off in the middle of a record, or flip a byte."""

import asyncio
from typing import Self

MIDDLE = 2
"""A damaged piece keeps this part of its bytes, or is flipped there."""


class Proxy:
    """A TCP proxy on loopback; an async context manager.

    Args:
        target: port of what it leads to.

    Attributes:
        port: where it listens.
        delay_s: how long every piece waits on its way.
        felt: how often something was done to a piece or a connection.
    """

    def __init__(self, target: int) -> None:
        self.port, self.delay_s, self.felt = 0, 0.0, 0
        self._target = target
        self._pumps: set[asyncio.Task[None]] = set()
        self._down = self._swallows = False
        self._damage: tuple[str, int] = ("", 0)

    async def __aenter__(self) -> Self:
        self._near = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = int(self._near.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()
        self._near.close()

    async def cut(self) -> None:
        """Break every connection and take no other, until it is healed."""
        self._down = True
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self.felt += 1

    def swallow(self) -> None:
        """Take everything and pass nothing on: connections stand, and nobody is told."""
        self._swallows = True

    async def heal(self) -> None:
        """Work again; connections whose bytes were swallowed have a gap, and end."""
        if self._swallows:
            await self.cut()
        self._down = self._swallows = False

    def damage(self, how: str, times: int) -> None:
        """Damage the next pieces that come from the site.

        Args:
            how: ``flip`` alters a byte; ``truncate`` passes on the first half and breaks the connection.
            times: of how many pieces.
        """
        self._damage = how, times

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._down:
            self.felt += 1
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink, upstream in ((reader, back, True), (there, writer, False)):
            pump = asyncio.create_task(self._pump(source, sink, upstream))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, upstream: bool) -> None:
        try:
            while data := await source.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self._swallows:
                    self.felt += 1
                    continue
                how = self._due() if upstream else ""
                place = len(data) // MIDDLE
                if how == "flip":
                    data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
                sink.write(data[:place] if how == "truncate" else data)
                await sink.drain()
                if how == "truncate":
                    return
        except OSError:
            pass  # the other end is gone: so is this one
        finally:
            sink.transport.abort()

    def _due(self) -> str:
        how, times = self._damage
        if not times:
            return ""
        self._damage = how, times - 1
        self.felt += 1
        return how
