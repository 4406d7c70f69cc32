"""What was opened of a round, sealed to the consortium's auditors and to nobody else.

An auditor adds the sum up again as sites do where they recompute one (R5.0): from the survivors' masked words and data seeds, and
the mask seeds of dropouts. That shows the sum, small cells included, and no single input; the masks between two honest survivors
stay unknown. Hence it is sealed: a fresh key per round, wrapped for every auditor by a key agreement with a fresh X25519 key
(hybrid encryption; HKDF-SHA256, ChaCha20-Poly1305), with study, roster, round and receiver in every derivation and as associated
data. Each site's words are a piece of their own, so that whoever writes holds one of them in memory. The key is forgotten once
the round is sealed, so a stolen coordinator opens nothing. In two-key mode there is one piece in the place of all words: the masked sum
with the trustee's signature, for no auditor could decrypt a site's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto import field as gf
from cohortsum.crypto.agreement import PUBLIC_BYTES, AgreementKey
from cohortsum.crypto.derivation import AUDIT, derive
from cohortsum.crypto.encoding import encode, number
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, CryptoError, RemoteProtocolError
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, OVERHEAD_BYTES, seal, unseal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.codec import MAX_SITES, packet_from_bytes
from cohortsum.protocol.roster import Identity, Role, Roster
from cohortsum.protocol.witness import OpenedInputs, WitnessedRound
from cohortsum.study.release.bundle import split

SEALED = b"cohortsum.sealed/1"
KEY_BYTES = 32
UNLOCKED_PIECE = 2**32
"""In the place of a roster index: the packet of the trustee's word about the masked sum, and that sum."""
LEAST_WORD, MOST_WORD = 200, 1024
"""Bytes of that word: context, id, three digests, signature and what marks them as fields."""


@dataclass(frozen=True, slots=True)
class RoundSeal:
    """What a sealed round is bound to: digests of study and roster, and the round's context, 32 bytes each."""

    study: bytes
    roster: bytes
    context: bytes

    def associated(self, *more: bytes) -> bytes:
        """Return the associated data of one piece."""
        return encode(SEALED, self.study, self.roster, self.context, *more)


def auditors_of(roster: Roster) -> tuple[Identity, ...]:
    """Return the auditors with a sealing key, by id."""
    held = (one for one in roster.of_role(Role.AUDITOR) if one.seal)
    return tuple(sorted(held, key=lambda one: one.id))


class Sealer:
    """Seals one round, piece by piece: `head`, then the words of every survivor by roster index, then the seeds.

    Args:
        bound: what the round is.
        auditors: who can open it; at least one.
        randomness: returns that many random bytes.
    """

    def __init__(
        self, bound: RoundSeal, auditors: Sequence[Identity], randomness: Callable[[int], bytes]
    ) -> None:
        self._bound = bound
        self._key = SecretBytes(randomness(KEY_BYTES), "bundle key")
        self.head: bytes = encode(
            SEALED, bound.context, encode(*(self._wrap(one, randomness) for one in auditors))
        )

    def words(self, owner: int, words: bytes) -> bytes:
        """Return a survivor's masked words, sealed, as a piece of the file."""
        key = derive(self._key, self._bound.context, AUDIT["words"], number(owner), size=KEY_AND_NONCE_BYTES)
        return encode(seal(key, words, self._bound.associated(b"words", number(owner))))

    def seeds(self, data: Mapping[int, int], mask: Mapping[int, int]) -> bytes:
        """Return the data seeds of survivors and the mask seeds of dropouts, by roster index, sealed, as the last piece."""
        seeds = [seed for part in (data, mask) for _, seed in sorted(part.items())]
        key = derive(self._key, self._bound.context, AUDIT["seeds"], size=KEY_AND_NONCE_BYTES)
        return encode(seal(key, b"".join(map(gf.to_bytes, seeds)), self._bound.associated(b"seeds")))

    def forget(self) -> None:
        """Wipe the key."""
        self._key.wipe()

    def _wrap(self, auditor: Identity, randomness: Callable[[int], bytes]) -> bytes:
        ephemeral = AgreementKey(SecretBytes(randomness(KEY_BYTES), "ephemeral seed"))
        key = _wrapping_key(self._bound, ephemeral.exchange(auditor.seal), auditor, ephemeral.public)
        name = auditor.id.encode()
        return encode(
            name, ephemeral.public, seal(key, self._key.reveal(), self._bound.associated(b"key", name))
        )


@dataclass(frozen=True, slots=True)
class SealedRound:
    """A sealed round as it lies in a bundle.

    Attributes:
        context: of the round.
        wrapped: by auditor: the fresh public key, and the round's key under it.
        words: of every survivor, by roster index.
        seeds: of survivors and dropouts.
    """

    context: bytes
    wrapped: Mapping[str, tuple[bytes, bytes]] = field(repr=False)
    words: tuple[bytes, ...] = field(repr=False)
    seeds: bytes = field(repr=False)


def read_sealed(data: bytes, name: str) -> SealedRound:
    """Return the pieces of a sealed round; nothing is opened. Raises ConfigurationError naming the file."""
    fields = split(data, name, MAX_SITES + 4)
    if len(fields) < 5 or fields[0] != SEALED:
        raise ConfigurationError(f"{name}: not a sealed round of this version; get the bundle again")
    wrapped: dict[str, tuple[bytes, bytes]] = {}
    for one in split(fields[2], name, MAX_SITES):
        parts = split(one, name, 3)
        if [len(part) for part in parts[1:]] != [PUBLIC_BYTES, KEY_BYTES + OVERHEAD_BYTES]:
            raise ConfigurationError(f"{name}: a wrapped key of another size; get the bundle again")
        wrapped[parts[0].decode("utf-8", "replace")] = parts[1], parts[2]
    return SealedRound(fields[1], wrapped, fields[3:-1], fields[-1])


def check_sealed(
    held: SealedRound,
    proven: WitnessedRound,
    auditors: Sequence[Identity],
    length: int | None,
    name: str,
    encrypted: bool = False,
) -> None:
    """Raise AuthenticationError unless a sealed round has everything it must, for every auditor.

    Whether the right things are sealed only an auditor sees, by opening it.

    Args:
        held: the sealed round.
        proven: the round that it must be.
        auditors: who must be able to open it.
        length: how many numbers travelled, where that is known.
        name: the file.
        encrypted: whether the round was one of two-key mode.
    """
    if held.context != proven.context:
        raise AuthenticationError(f"{name}: of another round than the one beside it")
    lacking = [one.id for one in auditors if one.id not in held.wrapped]
    if lacking:
        raise AuthenticationError(f"{name}: not sealed to {', '.join(lacking)}, an auditor of the roster")
    sizes = {len(words) - OVERHEAD_BYTES for words in held.words}
    if encrypted:  # one packet: an envelope and the masked sum
        beside = {size - 8 * (length or 0) for size in sizes}
        whole, pieces = all(one >= LEAST_WORD and (length is None or one <= MOST_WORD) for one in beside), 1
    else:
        whole = len(sizes) == 1 and (min(sizes) % 8 == 0 if length is None else sizes == {8 * length})
        pieces = len(proven.survivors)
    seeds = (len(proven.survivors) + len(proven.dropped)) * gf.ELEMENT_BYTES
    if len(held.words) != pieces or not whole or len(held.seeds) != seeds + OVERHEAD_BYTES:
        raise AuthenticationError(
            f"{name}: holds another number of words or seeds than the survivors and dropouts of the round have"
        )


def open_sealed(
    held: SealedRound,
    bound: RoundSeal,
    proven: WitnessedRound,
    auditor: Identity,
    key: AgreementKey,
    name: str,
    encrypted: bool = False,
) -> OpenedInputs:
    """Return what was opened of a round.

    Args:
        held: a round that `check_sealed` found complete.
        bound: what it is bound to.
        proven: the round.
        auditor: whose key it is.
        key: the auditor's private sealing key.
        name: the file.
        encrypted: whether the round was one of two-key mode.

    Raises:
        AuthenticationError: it is not sealed to this key, or is not what was sealed.
    """
    public, wrapped = held.wrapped.get(auditor.id, (b"", b""))
    cure = "use the private half of the auditor's `seal` key; if it is that, the coordinator sealed something else"
    try:
        wrapping = _wrapping_key(bound, key.exchange(public), auditor, public)
        content = SecretBytes(
            unseal(wrapping, wrapped, bound.associated(b"key", auditor.id.encode())), "bundle key"
        )
        words: dict[int, bytes] = {}
        owners = (UNLOCKED_PIECE,) if encrypted else proven.survivors
        for owner, piece in zip(owners, held.words, strict=True):
            own = derive(content, bound.context, AUDIT["words"], number(owner), size=KEY_AND_NONCE_BYTES)
            words[owner] = unseal(own, piece, bound.associated(b"words", number(owner)))
        last = derive(content, bound.context, AUDIT["seeds"], size=KEY_AND_NONCE_BYTES)
        opened = unseal(last, held.seeds, bound.associated(b"seeds"))
        size = gf.ELEMENT_BYTES
        seeds = [gf.from_bytes(opened[start : start + size]) for start in range(0, len(opened), size)]
    except CryptoError:
        raise AuthenticationError(f"{name}: does not open for {auditor.id}; {cure}") from None
    data = dict(zip(proven.survivors, seeds, strict=False))
    mask = dict(zip(proven.dropped, seeds[len(proven.survivors) :], strict=True))
    if not encrypted:
        return OpenedInputs(words, data, mask)
    try:
        return OpenedInputs({}, data, mask, packet_from_bytes(words[UNLOCKED_PIECE]))
    except RemoteProtocolError as error:
        raise AuthenticationError(f"{name}: {error.message}; the coordinator sealed something else") from None


def _wrapping_key(bound: RoundSeal, shared: SecretBytes, auditor: Identity, ephemeral: bytes) -> SecretBytes:
    info = (auditor.id.encode(), ephemeral, auditor.seal)
    return derive(shared, bound.context, AUDIT["key"], *info, size=KEY_AND_NONCE_BYTES)
