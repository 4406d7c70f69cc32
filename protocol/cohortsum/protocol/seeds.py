"""The secrets of one attempt at one site, the keys derived from them, and how their shares are sealed.

Three seeds are shared among U1: S gives the mask key pair (opened only if the site drops out), Bg and Bd give the self masks
of the gate and the data part (opened only if it survives). All are fresh for every attempt, live in memory only and are
wiped when it ends.

An iterative fit may deal for several iterations in one exchange: beside the attempt's own three seeds it then deals three more
per *slot*, bound to a context of the slot. A slot serves one attempt at one later iteration (`ahead`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto import field as gf
from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.commitments import commit_seed, commit_share
from cohortsum.crypto.derivation import CHANNEL, MASK_KEY, PAIR_MASK, SELF_MASK, derive
from cohortsum.crypto.encoding import digest, encode, number
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.shamir import split
from cohortsum.protocol.context import slot_context
from cohortsum.protocol.messages import Advert

PARTS = ("gate", "data")
SHARE_KINDS = ("mask", "gate", "data")


@dataclass(frozen=True, slots=True)
class SharedSeeds:
    """The three seeds of which shares are dealt, each a field element of 32 bytes."""

    mask: SecretBytes
    gate: SecretBytes
    data: SecretBytes

    @classmethod
    def fresh(cls, randomness: Callable[[int], bytes]) -> "SharedSeeds":
        """Return fresh seeds from ``randomness(size) -> bytes``; the edge hands in the system's generator."""

        def element(kind: str) -> SecretBytes:
            return SecretBytes(gf.to_bytes(gf.draw(randomness)), kind)

        return cls(element("mask seed"), element("gate seed"), element("data seed"))

    def element(self, kind: str) -> int:
        """Return the seed of one share kind as a field element."""
        return gf.from_bytes({"mask": self.mask, "gate": self.gate, "data": self.data}[kind].reveal())

    def wipe(self) -> None:
        """Forget every seed."""
        for seed in (self.mask, self.gate, self.data):
            seed.wipe()


@dataclass(frozen=True, slots=True)
class Seeds(SharedSeeds):
    """One attempt's secrets: its three shared seeds, the channel key's seed, and what it deals ahead, by slot."""

    channel: SecretBytes
    ahead: tuple[SharedSeeds, ...] = ()

    @classmethod
    def draw(cls, randomness: Callable[[int], bytes], ahead: int = 0) -> "Seeds":
        """Return fresh seeds for an attempt that deals ``ahead`` slots for later ones."""
        channel, own = SecretBytes(randomness(32), "channel seed"), SharedSeeds.fresh(randomness)
        slots = tuple(SharedSeeds.fresh(randomness) for _ in range(ahead))
        return cls(own.mask, own.gate, own.data, channel, slots)

    @property
    def shared(self) -> SharedSeeds:
        """The attempt's own three seeds."""
        return SharedSeeds(self.mask, self.gate, self.data)

    def wipe(self) -> None:
        """Forget every seed, those dealt ahead too."""
        self.channel.wipe()
        for seeds in (self.shared, *self.ahead):
            seeds.wipe()


@dataclass(frozen=True, slots=True)
class HeldShares:
    """The three shares that one dealer sealed for one holder."""

    mask: int = field(repr=False)
    gate: int = field(repr=False)
    data: int = field(repr=False)

    def commitments(self, context: bytes, dealer: int, holder: int) -> tuple[bytes, bytes, bytes]:
        """Return what the dealer signs about these shares, for mask, gate and data."""
        mask, gate, data = (
            commit_share(context, kind, dealer, holder, share)
            for kind, share in zip(SHARE_KINDS, (self.mask, self.gate, self.data), strict=True)
        )
        return mask, gate, data


def pack_shares(held: Sequence[HeldShares], dealer: int, holder: int, h1: bytes) -> bytes:
    """Return the fixed-length plaintext that is sealed: an attempt's own shares, then those of its slots."""
    shares = (gf.to_bytes(share) for one in held for share in (one.mask, one.gate, one.data))
    return number(dealer) + number(holder) + h1 + b"".join(shares)


def unpack_shares(
    plaintext: bytes, sets: int, dealer: int, holder: int, h1: bytes
) -> tuple[HeldShares, ...] | None:
    """Return the shares of an attempt and its slots, ``sets`` in all, or None where dealer, holder or h1 inside differ."""
    head, size = number(dealer) + number(holder) + h1, gf.ELEMENT_BYTES
    if len(plaintext) != len(head) + 3 * sets * size or not plaintext.startswith(head):
        return None
    shares = [
        gf.from_bytes(plaintext[start : start + size]) for start in range(len(head), len(plaintext), size)
    ]
    return tuple(HeldShares(*shares[start : start + 3]) for start in range(0, len(shares), 3))


def mask_key(context: bytes, seed: int) -> AgreementKey:
    """Return the mask key pair that belongs to a mask seed S."""
    return AgreementKey(derive(SecretBytes(gf.to_bytes(seed), "mask seed"), context, MASK_KEY))


def channel_key(context: bytes, seeds: Seeds) -> AgreementKey:
    """Return the key pair that seals shares."""
    return AgreementKey(derive(seeds.channel, context, CHANNEL))


def advertise(
    context: bytes, index: int, seeds: Seeds, counter: int = 0, protected: bool = False, used: bytes = b""
) -> Advert:
    """Return the advert of site ``index``, with its standing as `Advert` has it."""

    def public(bound_to: bytes, shared: SharedSeeds) -> tuple[bytes, bytes, bytes]:
        return (
            mask_key(bound_to, shared.element("mask")).public,
            commit_seed(bound_to, "gate", index, shared.element("gate")),
            commit_seed(bound_to, "data", index, shared.element("data")),
        )

    slots = [public(slot_context(context, slot), shared) for slot, shared in enumerate(seeds.ahead, start=1)]
    own = public(context, seeds)
    ahead = b"".join(part for slot in slots for part in slot)
    return Advert(channel_key(context, seeds).public, *own, counter, protected, used, ahead)


def deal(
    seeds: SharedSeeds, threshold: int, holders: Sequence[int], randomness: Callable[[int], bytes]
) -> Mapping[int, HeldShares]:
    """Return fresh shares of the three seeds for every holder, by roster index; the share point is index + 1."""
    points = [holder + 1 for holder in holders]
    dealt = {
        kind: split(seeds.element(kind), [gf.draw(randomness) for _ in range(threshold - 1)], points)
        for kind in SHARE_KINDS
    }
    return {holder: HeldShares(*(dealt[kind][holder + 1] for kind in SHARE_KINDS)) for holder in holders}


def channel_secret(own: AgreementKey, peer: bytes, context: bytes) -> SecretBytes:
    """Return what two sites share for sealing, in both directions: one key agreement per pair."""
    return derive(own.exchange(peer), context, CHANNEL, *sorted((own.public, peer)))


def sealing_key(channel: SecretBytes, context: bytes, dealer: int, holder: int, h1: bytes) -> SecretBytes:
    """Return the one-use key and nonce for what ``dealer`` seals for ``holder``."""
    return derive(channel, context, CHANNEL, number(dealer), number(holder), h1, size=KEY_AND_NONCE_BYTES)


def sealing_data(context: bytes, h1: bytes, dealer: int, holder: int) -> bytes:
    """Return the associated data of a sealed share package."""
    return encode(context, h1, number(dealer), number(holder))


def ciphertext_digest(ciphertext: bytes) -> bytes:
    """Return the digest of a sealed share package, as its dealer signs it."""
    return digest("cohortsum/v1/ciphertext", ciphertext)


def self_mask_key(context: bytes, part: str, owner: int, seed: int) -> SecretBytes:
    """Return the key of a site's self mask for ``part``."""
    return derive(SecretBytes(gf.to_bytes(seed), "self seed"), context, SELF_MASK[part], number(owner))


def pair_secret(own: AgreementKey, peer: bytes) -> SecretBytes:
    """Return the shared secret of two mask keys, behind the masks of both parts."""
    return own.exchange(peer)


def pair_mask_key(
    shared: SecretBytes, part: str, ends: Iterable[tuple[int, bytes]], context: bytes, h1: bytes, h2: bytes
) -> SecretBytes:
    """Return the key of the mask that two sites share for one part.

    One key agreement serves gate and data under different labels. h1 and h2 bind what both saw of U1 and U2, a second
    line behind the context.

    Args:
        shared: `pair_secret` of the two.
        part: gate or data.
        ends: (roster index, public mask key) of both sites, in any order.
        context: the round's context hash.
        h1: digest of L1.
        h2: digest of U2.
    """
    (low, low_key), (high, high_key) = sorted(ends)
    return derive(shared, context, PAIR_MASK[part], number(low), number(high), low_key, high_key, h1, h2)


def pair_mask_keys(
    own: AgreementKey, own_index: int, peer: bytes, peer_index: int, context: bytes, h1: bytes, h2: bytes
) -> dict[str, SecretBytes]:
    """Return the keys of the masks that two sites share, for gate and data."""
    shared, ends = pair_secret(own, peer), ((own_index, own.public), (peer_index, peer))
    return {part: pair_mask_key(shared, part, ends, context, h1, h2) for part in PARTS}
