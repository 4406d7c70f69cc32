"""Frames on the pipe between a node and its worker: kind, peer, length, bytes.

The node hands the job in, both hand frames of peers over, and the worker ends with answers or with a reason. Lengths are bounded
before anything is held; what does not keep to this is refused (C10) and ends the run.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from cohortsum.crypto.errors import RemoteProtocolError

HEADER = struct.Struct(">BBI")
MOST = 2**19
"""Bytes of one frame; the engine compares so few numbers at once that its greatest message is half as long."""


class FrameKind(IntEnum):
    """What a frame holds."""

    JOB = 1
    """To the worker, first: what to compute, and this member's shares."""
    DATA = 2
    """Both ways: bytes from or for one peer."""
    ANSWERS = 3
    """From the worker, last: the encoded answers."""
    FAILED = 4
    """From the worker, last: one of `Failure`, and the peer concerned."""
    READY = 5
    """From the worker, once: which locks it has put on itself, a comma between them."""


class Failure(IntEnum):
    """Why a worker gave up."""

    PEER = 1
    """A peer sent what cannot belong to the run."""
    COMPUTING = 2
    """What the members sent does not fit together."""
    OPEN = 3
    """The system lets the worker lock itself in neither way."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        kind: what it holds.
        peer: number of a member in the committee, where it concerns one; else 0.
        body: bytes, of which some are shares.
    """

    kind: FrameKind
    peer: int
    body: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return the frame as it goes over the pipe."""
        if len(self.body) > MOST:
            raise RemoteProtocolError("C10", f"a frame of more than {MOST} bytes")
        return HEADER.pack(self.kind, self.peer, len(self.body)) + self.body


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete now; raises RemoteProtocolError (C10) for what is none."""
        self._held += data
        frames: list[Frame] = []
        while len(self._held) >= HEADER.size:
            kind, peer, length = HEADER.unpack_from(self._held)
            if kind not in FrameKind.__members__.values() or length > MOST:
                raise RemoteProtocolError("C10", "bytes on the pipe that are no frame")
            end = HEADER.size + length
            if len(self._held) < end:
                break
            frames.append(Frame(FrameKind(kind), peer, bytes(self._held[HEADER.size : end])))
            del self._held[:end]
        return frames
