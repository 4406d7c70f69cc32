"""Noise for released sums: exact discrete Gaussian and Laplace values on the integers.

Algorithms 1 to 3 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020; CKS20),
on whole vectors of int64. Nothing here is a float: a rounded normal or a probability cut off at 53 bits has another law
than the one the accountant prices, and the gaps between floats give values away (Mironov 2012). Uniform integers are
rejected, not reduced; every chance is a comparison of two integers; so each law is exact as long as the words are
uniform, and those are as good as AES-256 in counter mode under a key of the operating system's generator.

Each step draws for all values that still wait at once and goes on with those that are not decided: an element's own coins
are never another's, so the order in which they are drawn changes nothing.

The time is not constant: rejection takes longer for some values than for others (Jin, McMurtry, Rubinstein and Ohrimenko
2022). What can be timed from outside is the sum over a vector. A site therefore draws whole vectors, after the list of
participants is known and before any row is read: their time then depends on the noise alone, never on a person.
"""

import secrets
from collections.abc import Callable
from operator import index
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.masks import KEY_BYTES, WORDS_PER_BLOCK, add_masks
from cohortsum.crypto.secret import SecretBytes

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_SIGMA = 4000
MOST_SCALE = 2**40
"""Greatest scale of a Laplace law and greatest denominator of a chance; see the headroom beside each use."""

CANDIDATES = 2**16
"""Most values tried at once: memory stays small for any size, and longer vectors are hardly faster."""


class NoiseStream:
    """Uniform integers from one AES-256-CTR keystream, each of its words used once.

    One thread at a time may draw. The words that make up a value are dropped with the call that drew them.

    Args:
        key: 32 uniform bytes that nothing else uses; kept, and wiped by `wipe`. Raises ValueError for another length.
    """

    __slots__ = ("_key", "_next")

    def __init__(self, key: SecretBytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a noise key has {KEY_BYTES} bytes, got {len(key)}")
        self._key = key
        self._next = 0

    @classmethod
    def fresh(cls) -> "NoiseStream":
        """Return a stream under a key that the operating system's generator has just made."""
        return cls(SecretBytes(secrets.token_bytes(KEY_BYTES), "noise key"))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next words, (count,) uint64, uniform. Raises ValueError once wiped."""
        drawn = np.zeros(count, dtype=np.uint64)
        add_masks(drawn, [self._key], [], start=self._next)
        self._next += count + count % WORDS_PER_BLOCK  # masks start at whole blocks: an odd word is left out
        return drawn

    def below(self, bound: int, count: int) -> Integers:
        """Return integers that are exactly uniform on 0 to ``bound - 1``, (count,) int64.

        Args:
            bound: 1 to 2**63 - 1; ValueError outside.
            count: how many.
        """
        bound = _in_range("a bound", bound, 2**63 - 1)
        if bound == 1:
            return np.zeros(count, dtype=np.int64)
        # Every value below the bound is the quotient of exactly ``share`` words; the words left over, fewer than
        # ``bound`` of 2**64, have greater quotients and are drawn again.
        share = np.uint64(2**64 // bound)
        drawn = self.words(count) // share
        while len(over := np.flatnonzero(drawn >= bound)):
            drawn[over] = self.words(len(over)) // share
        return drawn.astype(np.int64)

    def wipe(self) -> None:
        """Forget the key; nothing can be drawn any more."""
        self._key.wipe()

    def __repr__(self) -> str:
        return "<noise stream>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise stream is never pickled or copied: the copy would draw the same noise")


def discrete_gaussian(sigma: int, size: int, stream: NoiseStream) -> Integers:
    """Return values of N_Z(0, sigma^2), (size,) int64: P(x) is proportional to exp(-x^2 / (2 sigma^2)).

    CKS20, algorithm 3, with t = sigma. The paper takes floor(sigma) + 1 so that t is positive for every sigma; here sigma
    is an integer, and for any t

        exp(-x^2 / (2 sigma^2)) = exp(-|x| / t) exp(-(|x| - sigma^2 / t)^2 / (2 sigma^2)) exp(sigma^2 / (2 t^2)),

    whose last factor is the same for all x: a Laplace value of scale t, kept with the chance in the middle, has the law.

    Args:
        sigma: 1 to MOST_SIGMA; ValueError outside, TypeError for what is not an integer.
        size: how many.
        stream: where the randomness comes from.
    """
    sigma = _in_range("sigma", sigma, MOST_SIGMA)

    def some(count: int) -> Integers:
        drawn = _laplace(sigma, count, stream)
        # Headroom: |x| < sigma (v + 1), v counted in `_whole_scales`. With sigma at most 4000 the square is below 2**63
        # while v < 759,000; a greater v has probability exp(-759,000) and would take as many rounds.
        distance = np.abs(drawn) - sigma
        return drawn[bernoulli_exp(distance * distance, 2 * sigma * sigma, stream)]

    return _first(size, some)


def discrete_laplace(scale: int, size: int, stream: NoiseStream) -> Integers:
    """Return values of Lap_Z(scale), (size,) int64: P(x) is proportional to exp(-|x| / scale). CKS20, algorithm 2.

    Args:
        scale: 1 to MOST_SCALE; ValueError outside, TypeError for what is not an integer.
        size: how many.
        stream: where the randomness comes from.
    """
    scale = _in_range("a scale", scale, MOST_SCALE)
    return _first(size, lambda count: _laplace(scale, count, stream))


def bernoulli_exp(numerators: Integers, denominator: int, stream: NoiseStream) -> Flags:
    """Return one coin per numerator a, (count,) bool: true with probability exp(-a / b). CKS20, algorithm 1.

    Args:
        numerators: a, (count,) int64, none negative; ValueError otherwise.
        denominator: b, 1 to MOST_SCALE; ValueError outside.
        stream: where the randomness comes from.
    """
    denominator = _in_range("a denominator", denominator, MOST_SCALE)
    if numerators.dtype != np.int64 or np.any(numerators < 0):
        raise ValueError("numerators are int64 and not negative: exp(-a / b) is a probability for a >= 0")
    whole = numerators // denominator
    coins = _exp_of_fraction(numerators - whole * denominator, denominator, stream)
    # exp(-(n + r)) = exp(-1)^n exp(-r): a coin that is still true has to survive n more throws.
    waiting = np.flatnonzero(coins & (whole > 0))
    left = whole[waiting]
    while len(waiting):
        survives = _exp_of_fraction(np.ones(len(waiting), dtype=np.int64), 1, stream)
        coins[waiting[~survives]] = False
        survives &= left > 1
        waiting, left = waiting[survives], left[survives] - 1
    return coins


def _exp_of_fraction(numerators: Integers, denominator: int, stream: NoiseStream) -> Flags:
    """Return coins true with probability exp(-g), g = numerator / denominator from 0 to 1.

    Coins of g/1, g/2, g/3, ... are thrown up to the first that is false, the k-th. k > j has probability g^j / j!, so an
    odd k has 1 - g + g^2/2! - g^3/3! + ... = exp(-g).
    """
    odd = np.ones(len(numerators), dtype=np.bool_)
    waiting = np.arange(len(numerators))
    k = 1
    while len(waiting):
        # Headroom: k b < 2**63 while k < 2**23, as b <= 2**40; a throw with k = 2**23 would be refused by `below`,
        # and is reached with probability at most 1 / (2**23 - 1)!.
        again = stream.below(k * denominator, len(waiting)) < numerators
        waiting, numerators = waiting[again], numerators[again]
        k += 1
        odd[waiting] = k % 2 == 1
    return odd


def _whole_scales(count: int, stream: NoiseStream) -> Integers:
    """Return how many coins of exp(-1) are true before the first false one: v with probability exp(-v) (1 - exp(-1))."""
    totals = np.zeros(count, dtype=np.int64)
    waiting = np.arange(count)
    while len(waiting):
        waiting = waiting[_exp_of_fraction(np.ones(len(waiting), dtype=np.int64), 1, stream)]
        totals[waiting] += 1
    return totals


def _laplace(scale: int, count: int, stream: NoiseStream) -> Integers:
    """Return the values of Lap_Z(scale) among ``count`` candidates.

    |x| = u + scale v: u uniform below the scale and kept with the chance exp(-u / scale), v as many whole scales; so |x|
    has probability proportional to exp(-|x| / scale). Under a fair sign 0 would come twice: the negative one is refused.
    """
    drawn = stream.below(2 * scale, count)  # u and the sign, in one uniform integer
    drawn = drawn[_exp_of_fraction(drawn >> 1, scale, stream)]
    # Headroom: scale (v + 1) < 2**63 while v < 2**23 - 1; a greater v has probability exp(1 - 2**23).
    magnitude = (drawn >> 1) + scale * _whole_scales(len(drawn), stream)
    negative: Flags = (drawn & 1) == 1
    values: Integers = np.where(negative, -magnitude, magnitude)
    return values[(magnitude > 0) | ~negative]


def _first(size: int, some: Callable[[int], Integers]) -> Integers:
    """Return the first ``size`` values that pass.

    How many candidates are tried depends on how many values are missing, never on a value, and whether a candidate passes
    says nothing about those before it: the values kept are independent and have the law of each.
    """
    values = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        missing = size - done  # about half of the candidates pass
        passed = some(min(CANDIDATES, 9 * missing // 4 + 64))[:missing]
        values[done : done + len(passed)] = passed
        done += len(passed)
    return values


def _in_range(what: str, value: int, most: int) -> int:
    value = index(value)  # a float, even a whole one, is a TypeError
    if not 1 <= value <= most:
        raise ValueError(f"{what} is an integer from 1 to {most}, got {value}")
    return value
