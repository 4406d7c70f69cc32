"""The fields in which secrets are shared: integers modulo 2**255 - 19 for seeds, modulo 2**128 - 173 for the committee.

Elements are Python integers in [0, p) and travel as little-endian bytes of one length; anything else is refused, so that an
element has one encoding. Python's big integers are far from constant time: only secrets of one round are ever computed with,
and answers leave on a public time grid.

The committee's prime leaves 3 when divided by 4, so that square roots are one power, and is as long as its comparisons need.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cohortsum.crypto.errors import ShareError


@dataclass(frozen=True, slots=True)
class Field:
    """Integers modulo a prime.

    Attributes:
        prime: its order.
        name: the prime as a formula, for messages.
        size: bytes of an element.
    """

    prime: int
    name: str
    size: int

    def to_bytes(self, element: int) -> bytes:
        """Return an element of [0, p) as little-endian bytes; raises ShareError outside."""
        if not 0 <= element < self.prime:
            raise ShareError(f"a field element must lie in [0, {self.name})")
        return element.to_bytes(self.size, "little")

    def from_bytes(self, data: bytes) -> int:
        """Return the element that bytes encode; raises ShareError for another length or a value of p or more."""
        if len(data) != self.size:
            raise ShareError(f"a field element has {self.size} bytes, got {len(data)}")
        element = int.from_bytes(data, "little")
        if element >= self.prime:
            raise ShareError(f"a field element must lie in [0, {self.name})")
        return element

    def draw(self, randomness: Callable[[int], bytes]) -> int:
        """Return a uniform element from ``randomness(size) -> bytes``, by rejection.

        Both primes lie so close below a power of 2 that a second try is needed less than once in 2**120.
        """
        while True:
            candidate = int.from_bytes(randomness(self.size), "little") & ((1 << self.prime.bit_length()) - 1)
            if candidate < self.prime:
                return candidate


SEEDS = Field(2**255 - 19, "2**255 - 19", 32)
COMMITTEE = Field(2**128 - 173, "2**128 - 173", 16)

PRIME = SEEDS.prime
ELEMENT_BYTES = SEEDS.size
to_bytes = SEEDS.to_bytes
from_bytes = SEEDS.from_bytes
draw = SEEDS.draw
