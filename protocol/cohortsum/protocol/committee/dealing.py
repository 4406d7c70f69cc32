"""Dealing: a site cuts every number into shares for the members and seals each member's for it alone.

A number is the value at 0 of a polynomial of degree (m - 1)/2 with uniform further coefficients; member j, counted from 0, gets the
value at j + 1. The numbers are checked against the plan first, because nobody can check them afterwards.

Shares are sealed under a key agreed between a key that the dealer drew for this run and the member's key of this run. The key agreement
depends on the run's context and on the keys of all members (h1): a coordinator that shows a dealer other members than it shows the
members gets packages that nobody can open. Members add what the dealers sent them; the sums are all that goes further.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.derivation import COMMITTEE as LABELS
from cohortsum.crypto.derivation import derive
from cohortsum.crypto.encoding import digest, encode, number
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError, ShareError
from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, seal, unseal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.shamir import split
from cohortsum.protocol.committee.messages import Deal, Signed
from cohortsum.protocol.committee.plan import CommitteePlan

KEYS = "cohortsum/v1/committee/keys"
DEALS = "cohortsum/v1/committee/deals"
CIPHERTEXT = "cohortsum/v1/committee/ciphertext"

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Dealt:
    """A dealer's message and the ciphertexts that go with it, one per member."""

    deal: Deal
    ciphertexts: tuple[bytes, ...] = field(repr=False)


def fresh_key(context: bytes, randomness: Randomness) -> AgreementKey:
    """Return a key pair for one run."""
    return AgreementKey(derive(SecretBytes(randomness(32), "committee key seed"), context, LABELS["key"]))


def keys_digest(context: bytes, keys: Sequence[Signed]) -> bytes:
    """Return h1, over the signed keys of all members, in their order."""
    return digest(KEYS, context, *(signed.digest for signed in keys))


def inputs_digest(context: bytes, h1: bytes, deals: Sequence[Signed]) -> bytes:
    """Return h2, over the signed deals of all dealers, by roster index: it fixes every input of the run."""
    return digest(DEALS, context, h1, *(signed.digest for signed in deals))


def ciphertext_digest(ciphertext: bytes) -> bytes:
    """Return the digest of a sealed package, as its dealer signs it."""
    return digest(CIPHERTEXT, ciphertext)


def deal(
    plan: CommitteePlan,
    context: bytes,
    dealer: int,
    values: Sequence[int],
    keys: Sequence[bytes],
    h1: bytes,
    randomness: Randomness,
) -> Dealt:
    """Return a site's numbers as sealed shares.

    Args:
        plan: of the run.
        context: of the run.
        dealer: roster index of this site.
        values: its numbers.
        keys: public keys of the members, in their order.
        h1: digest of the members' signed keys.
        randomness: returns so many random bytes.

    Raises:
        ConfigurationError: the numbers do not keep to the plan.
    """
    plan.check_values(values)
    points = range(1, len(plan.members) + 1)
    shares: list[list[int]] = [[] for _ in plan.members]
    for value in values:
        coefficients = [COMMITTEE.draw(randomness) for _ in range(plan.degree)]
        for point, share in split(value, coefficients, points, COMMITTEE.prime).items():
            shares[point - 1].append(share)
    own = fresh_key(context, randomness)
    ciphertexts = tuple(
        seal(
            _key(own, key, context, dealer, member, h1, own.public, key),
            _head(dealer, member) + b"".join(map(COMMITTEE.to_bytes, part)),
            _associated(context, h1, dealer, member),
        )
        for member, (key, part) in enumerate(zip(keys, shares, strict=True))
    )
    return Dealt(Deal(h1, own.public, b"".join(map(ciphertext_digest, ciphertexts))), ciphertexts)


def opened_shares(
    plan: CommitteePlan,
    context: bytes,
    dealer: int,
    member: int,
    own: AgreementKey,
    dealt: Deal,
    sealed: bytes,
) -> tuple[int, ...]:
    """Return the shares that a dealer sealed for a member.

    Raises:
        RemoteProtocolError: C5, whatever is wrong with the package.
    """
    h1 = dealt.keys_digest
    try:
        key = _key(own, dealt.key, context, dealer, member, h1, dealt.key, own.public)
        plain = unseal(key, sealed, _associated(context, h1, dealer, member))
        head, size = _head(dealer, member), COMMITTEE.size
        if not plain.startswith(head) or len(plain) != len(head) + plan.length * size:
            raise ShareError("a package of another dealer, member or length")
        return tuple(COMMITTEE.from_bytes(plain[at : at + size]) for at in range(len(head), len(plain), size))
    except (AuthenticationError, ShareError) as error:
        raise RemoteProtocolError("C5", f"the shares of dealer {dealer} cannot be opened") from error


def added(plan: CommitteePlan, shares: Mapping[int, Sequence[int]]) -> list[int]:
    """Return a member's shares of the sums over all dealers, from its shares by dealer."""
    sums = [0] * plan.length
    for part in shares.values():
        sums = [(total + share) % COMMITTEE.prime for total, share in zip(sums, part, strict=True)]
    return sums


def _key(
    own: AgreementKey, peer: bytes, context: bytes, dealer: int, member: int, h1: bytes, *keys: bytes
) -> SecretBytes:
    info = (number(dealer), number(member), *keys, h1)
    return derive(own.exchange(peer), context, LABELS["deal"], *info, size=KEY_AND_NONCE_BYTES)


def _head(dealer: int, member: int) -> bytes:
    return number(dealer) + number(member)


def _associated(context: bytes, h1: bytes, dealer: int, member: int) -> bytes:
    return encode(context, h1, number(dealer), number(member))
