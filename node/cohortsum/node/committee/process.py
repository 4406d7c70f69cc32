"""A worker as its node has it: a process with two pipes, a deadline, and nothing left behind.

The node starts one per run, hands it the job, carries frames, and takes the answers. Whatever ends the run ends the process: it leaves
when its pipe closes, and is killed if it has not left soon.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec

from cohortsum.crypto.errors import RemoteProtocolError, RoundFailedError
from cohortsum.node.committee.engine import PeerError
from cohortsum.node.committee.frames import MOST, Failure, Frame, FrameKind, Frames
from cohortsum.protocol.committee.plain import plan_to_plain
from cohortsum.protocol.committee.plan import CommitteePlan

COMMAND = ("-I", "-m", "cohortsum.node.committee.worker")
"""What Python runs: isolated, so that neither the working directory nor variables add to what it imports."""
CHUNK = 2**16
GRACE_S = 2.0
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LC_ALL": "C.UTF-8",
}
"""All that a worker sees of the environment: numpy starts no threads, which would take memory and no work."""


class Worker:
    """A running worker.

    Attributes:
        process: of the system.
        locks: what it gave up, once it is ready.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._frames, self.locks = Frames(), frozenset[str]()

    async def hand(self, peer: int, body: bytes) -> None:
        """Hand over a message of a peer.

        Raises:
            RemoteProtocolError: C10, the message is longer than any may be.
            RoundFailedError: the worker is gone.
        """
        if len(body) > MOST:
            raise PeerError(peer)
        await self._write(Frame(FrameKind.DATA, peer, body))

    async def _write(self, frame: Frame) -> None:
        if self.process.stdin is None or self.process.stdin.is_closing():
            raise RoundFailedError("committee: the worker has ended")
        try:
            self.process.stdin.write(frame.to_bytes())
            await self.process.stdin.drain()
        except ConnectionError as error:
            raise RoundFailedError("committee: the worker has ended") from error

    async def begin(self, plan: CommitteePlan, member: int, shares: Sequence[int]) -> None:
        """Hand the job in."""
        job = {"plan": plan_to_plain(plan), "member": member, "shares": list(shares)}
        await self._write(Frame(FrameKind.JOB, 0, json.dumps(job).encode()))

    async def messages(self) -> AsyncIterator[tuple[int, bytes] | bytes]:
        """Yield messages for peers, with their numbers, and at last the encoded answers.

        Raises:
            RemoteProtocolError: C10, a member sent what cannot belong to the run, or the worker speaks nonsense.
            RoundFailedError: the worker ended without answers.
        """
        if self.process.stdout is None:
            raise RoundFailedError("committee: the worker has no pipe")
        while data := await self.process.stdout.read(CHUNK):
            for frame in self._frames.feed(data):
                if frame.kind is FrameKind.DATA:
                    yield frame.peer, frame.body
                elif frame.kind is FrameKind.READY:
                    self.locks = frozenset(frame.body.decode().split(","))
                elif frame.kind is FrameKind.ANSWERS:
                    yield frame.body
                    return
                else:
                    raise _failed(frame)
        raise RoundFailedError("committee: the worker ended before it had an answer")


@asynccontextmanager
async def worker(command: Sequence[str] = COMMAND) -> AsyncGenerator[Worker]:
    """Start a worker, and end it when the block is left.

    Raises RoundFailedError where the engine is not installed, or the system cannot lock a worker in.
    """
    if find_spec("resource") is None:
        raise RoundFailedError(
            "committee: a member needs Linux or macOS, where its worker can lock itself in"
        )
    if find_spec("mpyc") is None:
        raise RoundFailedError(
            "committee: the engine is not installed at this member; pip install 'cohortsum[committee]'"
        )
    environment = ENVIRONMENT | {key: os.environ[key] for key in ("SYSTEMROOT",) if key in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd="/",
        close_fds=True,
    )
    try:
        yield Worker(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), GRACE_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _failed(frame: Frame) -> RoundFailedError | RemoteProtocolError:
    if frame.kind is FrameKind.FAILED and frame.body == bytes([Failure.PEER]):
        return PeerError(frame.peer)
    if frame.kind is FrameKind.FAILED and frame.body == bytes([Failure.OPEN]):
        return RoundFailedError(
            "committee: the system does not let the worker lock itself in; see docs/committee.md"
        )
    return RoundFailedError("committee: what the members sent does not fit together")
