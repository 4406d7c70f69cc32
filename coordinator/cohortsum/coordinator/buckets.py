"""Token buckets: so many at once after a rest, so many a second in the long run. Kept per caller and per address.

A bucket is two numbers and a time; it is filled when it is looked at. What is known beforehand is taken only if it is there; what is
known afterwards only (bytes) is taken in any case, and a bucket below zero holds up its owner until it is above again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from cohortsum.coordinator.limits import ADDRESSES, COSTLY_AT_ONCE, Limits

Clock = Callable[[], float]
"""Seconds that only grow."""


class Bucket:
    """Tokens of one owner.

    Args:
        per_s: tokens that come in a second.
        burst: tokens that it holds at most, and at the start.
        clock: seconds that only grow.
    """

    def __init__(self, per_s: float, burst: float, clock: Clock) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._level, self._at = burst, clock()

    def wait_s(self, tokens: float) -> float:
        """Return the seconds until so many tokens are there; 0 if they are."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._per_s)
        self._at = now
        return max(0.0, (min(tokens, self._burst) - self._level) / self._per_s)

    def take(self, tokens: float) -> None:
        """Take tokens, whether they are there or not."""
        self.wait_s(tokens)
        self._level -= tokens


@dataclass
class Meter:
    """What one caller, or one address, has open and has used.

    Attributes:
        calls: tokens for calls.
        size: tokens for bytes.
        open: calls that are being served.
        uploads: of these, uploads.
        held: refusals that wait.
        costly: whoever may hold much.
    """

    calls: Bucket
    size: Bucket
    open: int = 0
    uploads: int = 0
    held: int = 0
    costly: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COSTLY_AT_ONCE))


class Meters:
    """The meters of everybody: of identities, whom the operator admitted, and of the addresses that called last.

    Args:
        limits: of the coordinator.
        clock: seconds that only grow.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits, self._clock = limits, clock
        self._callers: dict[str, Meter] = {}
        self._addresses: OrderedDict[str, Meter] = OrderedDict()

    def of_caller(self, caller: str) -> Meter:
        """Return the meter of an identity of the roster."""
        held, limits = self._callers.get(caller), self._limits
        if held is None:
            held = self._callers[caller] = Meter(
                Bucket(limits.calls_per_s, limits.calls_burst, self._clock),
                Bucket(limits.bytes_per_s, limits.bytes_burst, self._clock),
            )
        return held

    def of_address(self, address: str) -> Meter:
        """Return the meter of an address."""
        held, limits = self._addresses.get(address), self._limits
        if held is None:
            held = self._addresses[address] = Meter(
                Bucket(limits.address_calls_per_s, limits.address_calls_burst, self._clock),
                Bucket(limits.address_bytes_per_s, limits.address_bytes_burst, self._clock),
            )
            if len(self._addresses) > ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(address)
        return held
