"""How much memory the large packets on their way to the sites may hold.

A delivery grows with the square of the number of sites, and a closing that opens a sum holds every site's words; both are due at every
site at the same moment. A packet is shared until it is sent, but gRPC then holds a copy per call until the site has taken it: with 200
sites more than a gigabyte. So a large packet waits here until there is room. Room is given back when its call has ended, and after
`SLOW_S` in any case: a site that does not read cannot hold up the others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from cohortsum.protocol.messages import Packet

MOST_BYTES = 64 * 1024 * 1024
SMALL_BYTES = 64 * 1024
"""Packets below it never wait."""
SLOW_S = 10.0


class Call(Protocol):
    """What is known of a call here: when it has ended."""

    def add_done_callback(self, callback: Callable[..., None], /) -> None:
        """Have ``callback`` called once the answer has been handed over, or the caller has gone."""
        ...


class Outlet:
    """Room for large packets, given in the order in which they are asked for; one for all studies of a coordinator.

    Args:
        most: bytes that may be on their way at once; a packet that is larger goes alone.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._held = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, packet: Packet, call: Call) -> None:
        """Return once there is room for a packet that leaves with ``call``."""
        size = len(packet.envelope.payload) + sum(map(len, packet.attachments))
        if size < SMALL_BYTES:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn had come already
                self._leave(size)
            raise
        inside = [size]

        def leave(*_: object) -> None:
            if inside:
                self._leave(inside.pop())

        asyncio.get_running_loop().call_later(SLOW_S, leave)
        call.add_done_callback(leave)

    def _leave(self, size: int) -> None:
        self._held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if self._held and self._held + size > self._most:
                    return
                self._held += size
                turn.set_result(None)
            self._waiting.popleft()
