"""A member that sends what it should not: the worker ends with a typed error, and runs nothing of it."""

import asyncio
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from cohortsum.crypto.errors import RemoteProtocolError, RoundFailedError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.node.committee.engine import HEADER, PeerError
from cohortsum.node.committee.frames import MOST, Frame, FrameKind, Frames
from cohortsum.node.committee.process import worker
from cohortsum.protocol.committee import Threshold
from tests.committee.ring import Meddle, computed, plan_of

LIAR = 1
PLAN = plan_of(3, Threshold("x", 5, 5))
VECTORS = [[5], [0], [0], [0]]


class Marks:
    """Makes a folder wherever it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self.path),)


def lying(change: Callable[[bytes], list[bytes]], after: int = 1) -> Meddle:
    """Return what changes the messages of the liar to the first member, those after its first ``after``."""
    count = 0

    def meddle(sender: int, receiver: int, message: bytes) -> list[bytes]:
        nonlocal count
        if (sender, receiver) != (LIAR, 0):
            return [message]
        count += 1
        return [message] if count <= after else change(message)

    return meddle


def ends(meddle: Meddle) -> list[Exception]:
    """Return the errors of a run that must not answer."""
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(computed(PLAN, VECTORS, meddle=meddle))
    return list(caught.value.exceptions)


def headed(payload: bytes, counter: int = 77) -> bytes:
    return HEADER.pack(counter, len(payload)) + payload


LIES: dict[str, Callable[[bytes], list[bytes]]] = {
    "junk": lambda message: [b"junk"],
    "nothing": lambda message: [b""],
    "a header alone": lambda message: [HEADER.pack(5, 0)],
    "a length that is not there": lambda message: [HEADER.pack(5, 32) + bytes(16)],
    "half an element": lambda message: [headed(bytes(24))],
    "an element that is none": lambda message: [headed(COMMITTEE.prime.to_bytes(16, "little"))],
    "the greatest length": lambda message: [struct.pack("<qI", 5, 2**32 - 1) + bytes(64)],
    "a message twice": lambda message: [message, message],
    "two messages as one": lambda message: [message + message],
    "a flood": lambda message: [headed(bytes(16), counter) for counter in range(2000)],
}


@pytest.mark.parametrize("lie", LIES)
def test_what_cannot_be_a_message_ends_the_run_and_names_the_member(lie: str) -> None:
    errors = ends(lying(LIES[lie]))
    named = [str(error) for error in errors if isinstance(error, RemoteProtocolError)]
    assert named == [str(PeerError(LIAR))]


def test_a_frame_beyond_the_bound_never_reaches_the_worker() -> None:
    errors = ends(lying(lambda message: [bytes(MOST + 1)]))
    assert any(str(error) == str(PeerError(LIAR)) for error in errors)


def test_a_pickle_is_refused_and_never_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "loaded"
    pickled = pickle.dumps(Marks(mark))
    pickle.loads(pickled)  # noqa: S301  # it does what it should where it is loaded
    mark.rmdir()
    padded = pickled + bytes(-len(pickled) % 16)
    for payload in (pickled, padded):
        errors = ends(lying(lambda message, payload=payload: [message[:8] + headed(payload)[8:]]))  # type: ignore[misc]
        assert all(isinstance(error, RoundFailedError | RemoteProtocolError) for error in errors)
        assert not mark.exists()


def test_another_length_than_the_members_agree_on_ends_the_run() -> None:
    """Two elements too few: it is canonical, so only the computation notices."""
    errors = ends(lying(lambda message: [headed(message[HEADER.size : -32], HEADER.unpack_from(message)[0])]))
    assert all(isinstance(error, RoundFailedError | RemoteProtocolError) for error in errors)


def test_a_worker_that_dies_ends_the_run_with_a_reason() -> None:
    async def killed() -> None:
        async with worker() as one:
            await one.begin(PLAN, 0, [1])
            one.process.kill()
            async for _ in one.messages():
                pass

    with pytest.raises(RoundFailedError, match="ended before it had an answer"):
        asyncio.run(killed())


def test_a_worker_ends_when_its_node_is_gone() -> None:
    async def left() -> int:
        async with worker() as one:
            await one.begin(PLAN, 0, [1])
            assert one.process.stdin is not None
            one.process.stdin.close()
            return await one.process.wait()

    assert asyncio.run(left()) != 0


ESCAPES = {
    "file": "open('/etc/hostname')",
    "socket": "__import__('socket').socket()",
    "child": "os.fork()",
    "program": "os.execv('/bin/true', ['true'])",
    "thread": "__import__('_thread').start_new_thread(print, ())",
}


async def said(script: str) -> tuple[object, frozenset[str]]:
    """Return what a script in a worker's place answers, and its locks."""
    async with worker(("-I", "-c", script)) as one:
        return [message async for message in one.messages()][-1], one.locks


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_locked_worker_opens_nothing(escape: str) -> None:
    """What a taken-over worker would try, after it has locked itself in."""
    script = (
        "import os\n"
        "from cohortsum.node.committee import locks, frames\n"
        "pipe = os.dup(1)\n"
        "on = [*locks.early(), *locks.late()]\n"
        f"try:\n    {ESCAPES[escape]}\n    word = b'escaped'\n"
        "except (OSError, RuntimeError):\n    word = b'kept in'\n"
        "os.write(pipe, frames.Frame(frames.FrameKind.READY, 0, ','.join(on).encode()).to_bytes())\n"
        "os.write(pipe, frames.Frame(frames.FrameKind.ANSWERS, 0, word).to_bytes())\n"
        "os._exit(0)\n"
    )

    word, on = asyncio.run(said(script))
    if escape in {"child", "program", "thread"} and "system calls" not in on:
        pytest.skip(
            "this system has no filter of system calls, and the limit on processes does not bind root"
        )
    assert word == b"kept in"


def test_a_worker_that_cannot_lock_itself_in_does_not_compute() -> None:
    unlocked = (
        "-c",
        "from cohortsum.node.committee import locks, worker\nlocks.late = lambda: ['no children']\nworker.main()",
    )
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(computed(PLAN, VECTORS, command=("-I", *unlocked)))
    assert "lock itself in" in str(caught.value.exceptions[0])


@pytest.mark.parametrize("escape", ["file", "socket"])
def test_the_filter_of_system_calls_stands_alone_where_limits_are_refused(escape: str) -> None:
    script = (
        "import os\n"
        "from cohortsum.node.committee import frames, locks\n"
        "locks._limit = lambda *_: False\n"
        "pipe = os.dup(1)\n"
        "on = [*locks.early(), *locks.late()]\n"
        f"try:\n    {ESCAPES[escape]}\n    word = b'escaped'\n"
        "except OSError:\n    word = b'kept in'\n"
        "os.write(pipe, frames.Frame(frames.FrameKind.READY, 0, ','.join(on).encode()).to_bytes())\n"
        "os.write(pipe, frames.Frame(frames.FrameKind.ANSWERS, 0, word).to_bytes())\n"
        "os._exit(0)\n"
    )
    word, on = asyncio.run(said(script))
    if "system calls" not in on:
        pytest.skip("this system has no filter of system calls")
    assert word == b"kept in"


def test_frames_are_bounded_and_cut_where_they_end() -> None:
    frames, one = Frames(), Frame(FrameKind.DATA, 2, b"abc")
    data = one.to_bytes() * 2
    assert [frame for byte in data for frame in frames.feed(bytes([byte]))] == [one, one]
    for wrong in (b"\x09\0\0\0\0\0", b"\x02\0" + (MOST + 1).to_bytes(4, "big")):
        with pytest.raises(RemoteProtocolError):
            Frames().feed(wrong)
    with pytest.raises(RemoteProtocolError):
        Frame(FrameKind.DATA, 0, bytes(MOST + 1)).to_bytes()
