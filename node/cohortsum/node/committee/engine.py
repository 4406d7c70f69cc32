"""Comparing and opening on Shamir shares, with MPyC (Schoenmakers; github.com/lschoe/mpyc) as the engine. Used by the worker only.

MPyC keeps module globals, so there is one runtime, one member and one run per process. Of MPyC only the arithmetic is used:

- Its network is not started. Each peer is a `Line` whose transport hands frames to the worker.
- It unpickles bytes of peers in places. Option ``--mix32-64bit`` leads around those for arrays, nothing here calls ``transfer`` or
  ``shutdown``, and its name ``pickle`` is replaced by something that refuses.
- A `Line` takes only whole messages of canonical field elements, each program counter once, and bounded in number.
- Masks of comparisons are ``STATISTICAL`` bits long (`protocol.committee.plan`).

**One protocol of MPyC is replaced.** Its zero test opens a product a * r with a random r, shared by polynomials A and R of degree d, as
the values of A * R at all members. That shows the polynomial A * R, whose factors are A and R up to scale: with three members and d = 1
its two roots leave each member two candidates for a, and in a field as short as ours r * s is opened likewise, so that the common root
leaves one. In a comparison a tells which bits of the masked number and of the mask differ, hence the compared number. Here a fresh
sharing of zero of degree 2 d is added before opening, so that only the value a * r is left. (Ben-Or, Goldwasser and Wigderson 1988
randomise products in this way.)
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.protocol.committee.costs import TOGETHER
from cohortsum.protocol.committee.programs import SUM_BITS

STATISTICAL = 80
INTEGER_BITS = SUM_BITS + 2
HEADER = struct.Struct("<qI")
MOST_WAITING = 512
"""Messages of one peer that this member has not come to yet. A member that is ahead waits for the others within a few exchanges."""


class PeerError(RemoteProtocolError):
    """A peer sent bytes that cannot belong to the run; says which peer, by its number."""

    def __init__(self, peer: int) -> None:
        super().__init__("C10", f"member {peer} of the committee sent what cannot belong to the run")
        self.peer = peer


class _Refusing:
    """Stands where MPyC expects pickle."""

    def dumps(self, *_: object) -> NoReturn:
        raise RuntimeError("nothing is pickled")

    loads = dumps


def load(member: int, members: int) -> Any:
    """Return MPyC's runtime for one member; import it here, since importing is configuring.

    Args:
        member: number in the committee, from 0.
        members: of the committee.
    """
    sys: Any = import_module("sys")
    given, sys.argv = (
        sys.argv,
        [
            "worker",
            f"-M{members}",
            f"-I{member}",
            f"-T{(members - 1) // 2}",
            f"-K{STATISTICAL}",
            f"-L{INTEGER_BITS}",
            "--mix32-64bit",
            "--no-log",
            "--no-uvloop",
            "-W0",
        ],
    )
    try:
        runtime_module: Any = import_module("mpyc.runtime")
    finally:
        sys.argv = given
    import_module("logging").disable(import_module("logging").CRITICAL)
    runtime_module.pickle = _Refusing()
    runtime = runtime_module.mpc
    if not runtime.options.mix32_64bit or runtime.options.sec_param != STATISTICAL:
        raise RuntimeError("MPyC did not take its options")
    return runtime


class Line:
    """What MPyC sees of one peer: it sends, and waits for, messages under program counters.

    The first message of the lower-numbered of two members holds its number and the keys for pseudorandom sharing (PRSS).

    Args:
        runtime: of MPyC.
        peer: number of the other member.
        write: takes the bytes of one message for the peer.
    """

    def __init__(self, runtime: Any, peer: int, write: Callable[[bytes], None]) -> None:
        self._runtime, self._peer, self._write = runtime, peer, write
        self._waiting: dict[int, Any] = {}
        self._taken: set[int] = set()
        self._greeted = runtime.pid < peer
        self.nbytes_sent = 0

    def greet(self) -> None:
        """Send what the first message holds, where this member is the one who does."""
        if self._greeted:
            keys = self._runtime._prss_keys_to_peer(self._peer)
            self._write(b"".join([self._runtime.pid.to_bytes(2, "little"), *keys]))
            self._runtime.set_protocol(self._peer, self)

    def send(self, counter: int, payload: bytes) -> None:
        """Send a message; MPyC calls this."""
        self._write(HEADER.pack(counter, len(payload)) + payload)

    def receive(self, counter: int) -> Any:
        """Return a message, or a future for it; MPyC calls this."""
        if counter in self._waiting:
            return self._waiting.pop(counter)
        self._waiting[counter] = self._runtime._loop.create_future()
        return self._waiting[counter]

    def take(self, message: bytes) -> None:
        """Take one message of the peer; raises PeerError for what cannot be one."""
        if not self._greeted:
            self._greeting(message)
            return
        counter, length = HEADER.unpack_from(message) if len(message) >= HEADER.size else (0, -1)
        payload = message[HEADER.size :]
        sound = length == len(payload) > 0 and _elements(payload)
        if not sound or counter in self._taken or len(self._waiting) >= MOST_WAITING:
            raise PeerError(self._peer)
        self._taken.add(counter)
        if counter in self._waiting:
            self._waiting.pop(counter).set_result(payload)
        else:
            self._waiting[counter] = payload

    def _greeting(self, message: bytes) -> None:
        size = 2 + self._runtime._prss_keys_from_peer(self._peer)
        if len(message) != size or int.from_bytes(message[:2], "little") != self._peer:
            raise PeerError(self._peer)
        self._runtime._prss_keys_from_peer(self._peer, message[2:])
        self._greeted = True
        self._runtime.set_protocol(self._peer, self)


def connect(runtime: Any, write: Callable[[int, bytes], None]) -> dict[int, Line]:
    """Return the lines to all peers, by number, each greeted where it is for this member to begin."""
    runtime.parties[runtime.pid].protocol = runtime._loop.create_future()

    def to(peer: int) -> Callable[[bytes], None]:
        return lambda message: write(peer, message)

    lines = {
        peer: Line(runtime, peer, to(peer)) for peer in range(len(runtime.parties)) if peer != runtime.pid
    }
    for line in lines.values():
        line.greet()
    return lines


class OnShares:
    """The arithmetic of `protocol.committee.evaluation` over MPyC."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._integers = runtime.SecInt(INTEGER_BITS, COMMITTEE.prime)
        self._numpy: Any = import_module("numpy")
        runtime.np_is_zero_public = _zero_test(runtime, self._integers)

    async def at_least(self, shares: Sequence[int], bounds: Sequence[int], greatest: int) -> list[bool]:
        """Open, per share, whether its value is ``bound`` or more."""
        moved = [share - bound for share, bound in zip(shares, bounds, strict=True)]
        bits = greatest.bit_length() + 1
        less = [self._runtime.np_sgn(self._array(piece), l=bits, LT=True) for piece in _pieces(moved)]
        return [not bit for bit in await self._opened(less)]

    async def reveal(self, shares: Sequence[int]) -> list[int]:
        """Open the values."""
        return await self._opened([self._array(piece) for piece in _pieces(shares)])

    def _array(self, values: Sequence[int]) -> Any:
        reduced = self._numpy.array([value % COMMITTEE.prime for value in values], dtype=object)
        return self._integers.array(self._integers.field.array(reduced))

    async def _opened(self, arrays: Sequence[Any]) -> list[int]:
        opened = [self._runtime.output(array) for array in arrays]
        return [int(value) for array in opened for value in await array]


def _zero_test(runtime: Any, integers: Any) -> Callable[[Any], Any]:
    """Return MPyC's public zero test of an array with a sharing of zero in what is opened; see the module."""
    asyncoro: Any = import_module("mpyc.asyncoro")
    thresha: Any = import_module("mpyc.thresha")

    async def np_is_zero_public(array: Any) -> Any:
        await runtime.returnType(asyncio.Future)
        field, size, shape = integers.field, array.size, array.shape
        factors = runtime._np_randoms(field, size)
        zeros = thresha.np_pseudorandom_share_0(
            field, len(runtime.parties), runtime.pid, runtime.prfs(field.order), runtime._prss_uci(), size
        )
        values = (await runtime.gather(array)).reshape(-1)
        opened = await runtime.output(values * factors + zeros, threshold=2 * runtime.threshold)
        return opened.reshape(shape) == 0

    np_is_zero_public.__annotations__.clear()  # MPyC would make what they name; it is told in the first await
    return asyncoro.mpc_coro(np_is_zero_public)  # type: ignore[no-any-return]  # MPyC has no types


def _pieces(values: Sequence[int]) -> list[Sequence[int]]:
    return [values[start : start + TOGETHER] for start in range(0, len(values), TOGETHER)]


def _elements(payload: bytes) -> bool:
    """Return whether bytes are canonical elements of the field, one behind the other."""
    size = COMMITTEE.size
    return len(payload) % size == 0 and all(
        int.from_bytes(payload[at : at + size], "little") < COMMITTEE.prime
        for at in range(0, len(payload), size)
    )
