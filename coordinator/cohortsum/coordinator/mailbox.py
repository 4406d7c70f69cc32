"""Packets that wait for one site, in ascending numbers that a restarted coordinator does not give again.

An attempt puts at most nine packets in; of attempts that are over their endings are kept, and only of the newest: who was away for
longer learns from transcripts how they ended.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from cohortsum.coordinator.store import now
from cohortsum.protocol.messages import Kind, Packet

MOST = 256
"""Packets that wait at most, the newest: about fifty endings and an open attempt."""
ENDING = frozenset({Kind.SURVIVORS, Kind.QUORUM, Kind.CLOSING, Kind.ABORT, Kind.BURIAL})


@dataclass
class Mailbox:
    """The packets of one study for one site."""

    packets: dict[int, Packet] = field(default_factory=dict[int, Packet])
    last: int = field(default_factory=lambda: int(now().timestamp() * 1000))
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, packet: Packet) -> None:
        """Add a packet."""
        self.last += 1
        self.packets[self.last] = packet
        while len(self.packets) > MOST:
            del self.packets[next(iter(self.packets))]
        self.arrived.set()

    def after(self, number: int) -> int:
        """Return the number of the first packet beyond ``number``, or 0."""
        return min((held for held in self.packets if held > number), default=0)

    async def next(self, after: int, wait_s: float, over: Callable[[], bool]) -> tuple[int, Packet | None]:
        """Return number and packet that follow ``after``, or (0, None) if none comes in time or nothing will."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not self.after(after) and not over():
                    self.arrived.clear()
                    await self.arrived.wait()
        number = self.after(after)
        return number, self.packets.get(number)

    def keep_ending(self, context: bytes) -> None:
        """Forget all but how rounds ended: what a slow survivor needs to record it, and no opened seed but of ``context``.

        A closing with attachments opens a sum to the sites of an iteration, which go on from it; of the iterations before
        it they have no use any more.
        """
        self.packets = {
            held: packet
            for held, packet in self.packets.items()
            if packet.envelope.kind in ENDING
            and not (packet.attachments and packet.envelope.context != context)
        }
