"""The field of integers modulo p = 2**255 - 19, in which seeds are shared.

Elements are Python integers in [0, p) and travel as 32 little-endian bytes; anything else is refused, so that an element
has one encoding. Python's big integers are far from constant time: only secrets of one round are ever computed with, and
answers leave on a public time grid.
"""

from collections.abc import Callable

from cohortsum.crypto.errors import ShareError

PRIME = 2**255 - 19
ELEMENT_BYTES = 32


def to_bytes(element: int) -> bytes:
    """Return an element of [0, p) as 32 little-endian bytes; raises ShareError outside."""
    if not 0 <= element < PRIME:
        raise ShareError("a field element must lie in [0, 2**255 - 19)")
    return element.to_bytes(ELEMENT_BYTES, "little")


def from_bytes(data: bytes) -> int:
    """Return the element that 32 bytes encode; raises ShareError for another length or a value of p or more."""
    if len(data) != ELEMENT_BYTES:
        raise ShareError(f"a field element has {ELEMENT_BYTES} bytes, got {len(data)}")
    element = int.from_bytes(data, "little")
    if element >= PRIME:
        raise ShareError("a field element must lie in [0, 2**255 - 19)")
    return element


def draw(randomness: Callable[[int], bytes]) -> int:
    """Return a uniform element from ``randomness(size) -> bytes``, by rejection.

    255 random bits reach p or more with probability 19 / 2**255.
    """
    while True:
        candidate = int.from_bytes(randomness(ELEMENT_BYTES), "little") & (2**255 - 1)
        if candidate < PRIME:
            return candidate
