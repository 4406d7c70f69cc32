"""The secrets of one attempt at one site, the keys derived from them, and how their shares are sealed.

Three seeds are shared among U1: S gives the mask key pair (opened only if the site drops out), Bg and Bd give the self masks
of the gate and the data part (opened only if it survives). All are fresh for every attempt, live in memory only and are
wiped when it ends.
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
from cohortsum.protocol.messages import Advert

PARTS = ("gate", "data")
SHARE_KINDS = ("mask", "gate", "data")
SHARES_PLAINTEXT_BYTES = 8 + 8 + 32 + 3 * gf.ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class Seeds:
    """One attempt's secrets: the channel key's seed and the three shared seeds, each a field element of 32 bytes."""

    channel: SecretBytes
    mask: SecretBytes
    gate: SecretBytes
    data: SecretBytes

    @classmethod
    def draw(cls, randomness: Callable[[int], bytes]) -> "Seeds":
        """Return fresh seeds from ``randomness(size) -> bytes``; the edge hands in the system's generator."""

        def element(kind: str) -> SecretBytes:
            return SecretBytes(gf.to_bytes(gf.draw(randomness)), kind)

        return cls(
            SecretBytes(randomness(32), "channel seed"),
            element("mask seed"),
            element("gate seed"),
            element("data seed"),
        )

    def element(self, kind: str) -> int:
        """Return the seed of one share kind as a field element."""
        return gf.from_bytes({"mask": self.mask, "gate": self.gate, "data": self.data}[kind].reveal())

    def wipe(self) -> None:
        """Forget every seed."""
        for seed in (self.channel, self.mask, self.gate, self.data):
            seed.wipe()


@dataclass(frozen=True, slots=True)
class HeldShares:
    """The three shares that one dealer sealed for one holder."""

    mask: int = field(repr=False)
    gate: int = field(repr=False)
    data: int = field(repr=False)

    def pack(self, dealer: int, holder: int, h1: bytes) -> bytes:
        """Return the fixed-length plaintext that is sealed."""
        shares = b"".join(gf.to_bytes(share) for share in (self.mask, self.gate, self.data))
        return number(dealer) + number(holder) + h1 + shares

    @classmethod
    def unpack(cls, plaintext: bytes, dealer: int, holder: int, h1: bytes) -> "HeldShares | None":
        """Return the shares, or None where dealer, holder or h1 inside differ."""
        head = number(dealer) + number(holder) + h1
        if len(plaintext) != SHARES_PLAINTEXT_BYTES or not plaintext.startswith(head):
            return None
        size, start = gf.ELEMENT_BYTES, len(head)
        mask, gate, data = (
            gf.from_bytes(plaintext[start + i * size : start + (i + 1) * size]) for i in range(3)
        )
        return cls(mask, gate, data)

    def commitments(self, context: bytes, dealer: int, holder: int) -> tuple[bytes, bytes, bytes]:
        """Return what the dealer signs about these shares, for mask, gate and data."""
        mask, gate, data = (
            commit_share(context, kind, dealer, holder, share)
            for kind, share in zip(SHARE_KINDS, (self.mask, self.gate, self.data), strict=True)
        )
        return mask, gate, data


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
    return Advert(
        channel_key(context, seeds).public,
        mask_key(context, seeds.element("mask")).public,
        commit_seed(context, "gate", index, seeds.element("gate")),
        commit_seed(context, "data", index, seeds.element("data")),
        counter,
        protected,
        used,
    )


def deal(
    seeds: Seeds, threshold: int, holders: Sequence[int], randomness: Callable[[int], bytes]
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
