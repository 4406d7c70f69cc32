"""Masking a vector, and what has to be taken off a sum of masked vectors.

``y_i = x_i + PRG(self_i) + sum over j > i of PRG(m_ij) - sum over j < i of PRG(m_ij)``, over j in U2, modulo 2**64, for the
gate part and the data part under keys of their own. In the sum over the survivors U3 the pair masks between survivors
cancel; the self masks of survivors and their pair masks with dropouts stay, and are taken off once their seeds are open.
In two-key mode the data part is masked modulo the plaintext prime of the encryption instead.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.crypto.modular import add_masks_modulo
from cohortsum.crypto.parallel import add_masks_modulo_parallel, add_masks_parallel
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.seeds import mask_key, pair_mask_key, pair_secret, self_mask_key

WORDS = "cohortsum/v1/words"


class Hasher(Protocol):
    """A running digest."""

    def update(self, data: memoryview | bytes, /) -> None:
        """Take in more bytes."""
        ...

    def digest(self) -> bytes:
        """Return the digest of everything so far."""
        ...


@dataclass(frozen=True, slots=True)
class MaskKeys:
    """Keys whose masks are added and keys whose masks are subtracted."""

    plus: tuple[SecretBytes, ...]
    minus: tuple[SecretBytes, ...]


def site_keys(
    part: str, index: int, self_key: SecretBytes, pairs: Mapping[int, Mapping[str, SecretBytes]]
) -> MaskKeys:
    """Return the keys that site ``index`` masks one part with.

    Args:
        part: gate or data.
        index: its roster index.
        self_key: key of its self mask.
        pairs: the keys of the masks shared with every other site of U2, by index and part.
    """
    above = tuple(keys[part] for peer, keys in sorted(pairs.items()) if peer > index)
    below = tuple(keys[part] for peer, keys in sorted(pairs.items()) if peer < index)
    return MaskKeys((self_key, *above), below)


@dataclass(frozen=True, slots=True)
class Dropouts:
    """The pair masks that dropouts left in the survivors' vectors: the secrets behind them, for both parts.

    Attributes:
        secrets: shared secret by (dropout, survivor).
        publics: public mask keys by index.
    """

    secrets: Mapping[tuple[int, int], SecretBytes] = field(repr=False)
    publics: Mapping[int, bytes]

    @classmethod
    def of(
        cls, context: bytes, seeds: Mapping[int, int], survivors: Iterable[int], publics: Mapping[int, bytes]
    ) -> "Dropouts":
        """Return them from the opened mask seeds of U2 without U3, by index."""
        alive = sorted(survivors)
        keys = {dropped: mask_key(context, seed) for dropped, seed in sorted(seeds.items())}
        secrets = {
            (dropped, survivor): pair_secret(own, publics[survivor])
            for dropped, own in keys.items()
            for survivor in alive
        }
        return cls(secrets, publics)


def removal_keys(
    part: str, context: bytes, h1: bytes, h2: bytes, self_seeds: Mapping[int, int], dropouts: Dropouts
) -> MaskKeys:
    """Return the keys that open the sum of the survivors' masked vectors.

    Args:
        part: gate or data.
        context: the round's context hash.
        h1: digest of L1.
        h2: digest of U2.
        self_seeds: the opened self seeds of every survivor, by index.
        dropouts: what dropouts left behind.
    """
    plus: list[SecretBytes] = []
    minus = [self_mask_key(context, part, owner, seed) for owner, seed in sorted(self_seeds.items())]
    for (dropped, survivor), shared in dropouts.secrets.items():
        ends = ((dropped, dropouts.publics[dropped]), (survivor, dropouts.publics[survivor]))
        key = pair_mask_key(shared, part, ends, context, h1, h2)
        (minus if dropped > survivor else plus).append(key)
    return MaskKeys(tuple(plus), tuple(minus))


class AddMasks(Protocol):
    """`add_over`, or a form of it that an edge spreads over its threads."""

    def __call__(
        self,
        vector: Vector,
        plus: Sequence[SecretBytes],
        minus: Sequence[SecretBytes],
        /,
        *,
        modulus: int = 0,
    ) -> None:
        """Add and subtract masks in place, modulo 2**64 or another modulus."""
        ...


def add_over(
    vector: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes], /, *, modulus: int = 0
) -> None:
    """Add the masks of ``plus`` and subtract those of ``minus``, in place; modulo 2**64, where ``modulus`` is 0."""
    if modulus:
        add_masks_modulo(vector, plus, minus, modulus)
    else:
        add_masks(vector, plus, minus)


def add_over_parallel(
    vector: Vector,
    plus: Sequence[SecretBytes],
    minus: Sequence[SecretBytes],
    modulus: int,
    pool: Executor,
    workers: int,
) -> None:
    """Do what `add_over` does in ranges over a pool that the caller owns."""
    if modulus:
        add_masks_modulo_parallel(vector, plus, minus, modulus, pool, workers)
    else:
        add_masks_parallel(vector, plus, minus, pool, workers)


def mask(values: NDArray[np.int64], keys: MaskKeys, add: AddMasks = add_over, modulus: int = 0) -> Vector:
    """Mask ``values`` in place and return them as words: unmasked values are not kept beside masked ones."""
    if modulus:
        np.remainder(values, modulus, out=values)  # of a divisor above zero: never negative
    words: Vector = values.view(np.uint64)
    add(words, keys.plus, keys.minus, modulus=modulus)
    return words


def add_words(vectors: Iterable[Vector], length: int) -> Vector:
    """Return the sum modulo 2**64 of vectors of ``length`` words."""
    each = iter(vectors)
    first = next(each, None)
    total = np.empty(length, dtype=np.uint64)
    np.copyto(total, np.uint64(0) if first is None else first)
    for vector in each:
        total += vector
    return total


def signed(words: Vector, modulus: int = 0) -> NDArray[np.int64]:
    """Return opened words as signed integers: the plan proves that no true sum leaves the signed range."""
    values = words.view(np.int64)
    if not modulus:
        return values
    return np.where(values > modulus // 2, values - modulus, values)


def words_hasher(size: int) -> Hasher:
    """Return a SHA-256 that already holds the domain and the size in bytes; feed it the words in chunks of any length.

    Its digest is ``digest("cohortsum/v1/words", words)``, without a copy of the words.
    """
    return hashlib.sha256(encode(WORDS.encode("ascii")) + number(size))


def words_digest(words: Vector) -> bytes:
    """Return the digest of masked words as MaskedInput signs it."""
    hasher = words_hasher(words.nbytes)
    hasher.update(words.astype("<u8", copy=False).data.cast("B"))
    return hasher.digest()


def words_to_bytes(words: Vector) -> bytes:
    """Return words as little-endian bytes, as digests cover them and the wire carries them."""
    return words.astype("<u8", copy=False).tobytes()


def words_from_bytes(data: bytes) -> Vector:
    """Return the words behind little-endian bytes; a multiple of 8 of them."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)
