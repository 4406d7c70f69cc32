"""The process that computes one run at one member: ``python -I -m cohortsum.node.committee.worker``.

It gets its job over standard input, speaks with the other members through its node over the same pipe, answers over standard output
and ends. It has no files, no network, no settings and no log; what it imports prints into nothing. When its node dies the pipe
closes, and the worker ends.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.node.committee import locks
from cohortsum.node.committee.engine import Line, OnShares, PeerError, connect, load
from cohortsum.node.committee.frames import Failure, Frame, FrameKind, Frames
from cohortsum.protocol.committee.evaluation import evaluate
from cohortsum.protocol.committee.plain import answers_to_bytes, plan_from_plain

CHUNK = 2**16


def main() -> None:
    """Compute one run."""
    pipe = _own_pipe()
    on = locks.early()
    frames = Frames()
    waiting = _until_job(frames)
    if waiting is None:
        return
    job, early = json.loads(waiting[0].body), waiting[1:]
    plan = plan_from_plain(job["plan"])
    runtime = load(job["member"], len(plan.members))
    loop: asyncio.AbstractEventLoop = runtime._loop
    loop.set_exception_handler(_silent)

    def send(kind: FrameKind, peer: int, body: bytes) -> None:
        _write(pipe, Frame(kind, peer, body).to_bytes())

    def data(peer: int, body: bytes) -> None:
        send(FrameKind.DATA, peer, body)

    async def compute() -> None:
        arithmetic = OnShares(runtime)
        lines = connect(runtime, data)
        inbox = _Inbox(lines, frames, asyncio.get_running_loop().create_future())
        await loop.connect_read_pipe(lambda: inbox, sys.stdin.buffer)
        on.extend(locks.late())
        if locks.ENOUGH.isdisjoint(on):
            send(FrameKind.FAILED, 0, bytes([Failure.OPEN]))
            return
        send(FrameKind.READY, 0, ",".join(on).encode())
        inbox.take(early)
        running = loop.create_task(_computed(plan, job["shares"], arithmetic, runtime))
        either: set[asyncio.Future[Any]] = {running, inbox.broken}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if inbox.broken.done():
            inbox.broken.result()
        send(FrameKind.ANSWERS, 0, running.result())

    _end(loop, compute(), send)


def _silent(_: asyncio.AbstractEventLoop, __: object) -> None:
    """Log nothing: a traceback could hold shares."""


async def _computed(plan: Any, shares: list[int], arithmetic: OnShares, runtime: Any) -> bytes:
    await runtime.parties[runtime.pid].protocol  # every peer is there
    return answers_to_bytes(await evaluate(plan, shares, arithmetic))


class _Inbox(asyncio.Protocol):
    """Deals what comes over the pipe out to the lines.

    Args:
        lines: to the peers, by number.
        frames: what cuts the stream; it may hold the beginning of a frame already.
        broken: gets the error that ends the run.
    """

    def __init__(self, lines: dict[int, Line], frames: Frames, broken: "asyncio.Future[None]") -> None:
        self._lines, self._frames, self.broken = lines, frames, broken

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        try:
            self.take(self._frames.feed(data))
        except RemoteProtocolError as error:
            self._break(error)

    def take(self, frames: list[Frame]) -> None:
        """Hand frames to their lines."""
        for frame in frames:
            try:
                if frame.kind is not FrameKind.DATA or frame.peer not in self._lines:
                    raise RemoteProtocolError("C10", "a frame that no peer sent")
                self._lines[frame.peer].take(frame.body)
            except RemoteProtocolError as error:
                self._break(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the node."""
        os._exit(1)

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)


def _end(
    loop: asyncio.AbstractEventLoop, computing: Any, send: Callable[[FrameKind, int, bytes], None]
) -> None:
    """Run to the end and leave at once, whatever tasks of the engine are still there."""
    try:
        loop.run_until_complete(computing)
    except PeerError as error:
        send(FrameKind.FAILED, error.peer, bytes([Failure.PEER]))
    except Exception:
        # whatever it is, its text could hold shares: the node hears one word
        send(FrameKind.FAILED, 0, bytes([Failure.COMPUTING]))
    os._exit(0)


def _own_pipe() -> int:
    """Return a descriptor of standard output that is only this module's; whatever prints, prints into nothing."""
    pipe = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return pipe


def _until_job(frames: Frames) -> list[Frame] | None:
    """Return the job and what came behind it, or None where the node went away."""
    waiting: list[Frame] = []
    while not waiting:
        data = os.read(0, CHUNK)
        if not data:
            return None
        waiting = frames.feed(data)
    return waiting if waiting[0].kind is FrameKind.JOB else None


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


if __name__ == "__main__":
    main()
