"""Attacks on the second lock: a shared key (A22) and what decryptions give away (A25).

The consortium is that of `tests.protocol.two_key`: real machines, real encryption, a trustee as its checks make it.
"""

from collections.abc import Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import pytest

from cohortsum.crypto.bfv import PRIME, STANDARD, DecryptionKey, EncryptionKey
from cohortsum.crypto.errors import CryptoError, RemoteProtocolError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.tenseal_seam import LIBRARY_ERRORS, library
from cohortsum.protocol.coordinator_states import Combining, Opened
from cohortsum.protocol.effects import Combine, CoordinatorEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import MaskKeys, add_over, signed
from cohortsum.protocol.messages import EncryptionKeyOffer, Packet
from cohortsum.protocol.unlocking import key_digest, offer_attachments, offered_key, parameters_digest
from tests.protocol.consortium import identity_key
from tests.protocol.two_key import LockedConsortium, offer_of

VICTIM = 2
TENSEAL: Any = import_module("tenseal")  # without types


class Watched(LockedConsortium):
    """A consortium that keeps the keys of the masks that lie on the opened sum, as the coordinator learns them."""

    removal: MaskKeys | None = None

    def from_coordinator(self, effects: tuple[CoordinatorEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Combine):
                self.removal = effect.keys
        super().from_coordinator(effects)


def played() -> Watched:
    """Return a round of four sites that opened."""
    consortium = Watched(4)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Opened)
    return consortium


def numbers_of(consortium: LockedConsortium, sites: Sequence[int]) -> list[int]:
    return consortium.expected(sites)


def without(words: Vector, plus: Sequence[SecretBytes], minus: Sequence[SecretBytes]) -> list[int]:
    """Return words with masks taken off, as signed numbers."""
    held = words.copy()
    add_over(held, plus, minus, modulus=PRIME)
    return [int(value) for value in signed(held, PRIME)]


# A22


def test_attack_a22_in_two_key_mode_no_kit_of_a_site_decrypts_anything() -> None:
    """All that a site is ever sent of the lock is a public key; with it nothing decrypts, not even a site's own upload."""
    consortium = played()
    context = library().context_from(consortium.key.public, n_threads=1)
    assert not context.has_secret_key()
    mine = TENSEAL.bfv_vector(context, [1, 2, 3])
    with pytest.raises(LIBRARY_ERRORS):
        mine.decrypt()
    own = DecryptionKey.draw(STANDARD)  # nor does any key that colluders make
    with pytest.raises(CryptoError, match="another key"):
        own.decrypt(consortium.uploads[VICTIM], consortium.numbers)


@pytest.mark.parametrize("shared", [False, True], ids=["the trustee's alone", "a key in every kit"])
def test_attack_a22_one_site_and_the_coordinator_with_a_leaked_key_still_face_the_masks(shared: bool) -> None:
    """Where every kit holds the secret key, as in some systems, a third site's ciphertext decrypts: to words that are masked.

    Without the masks the same leak opens the third site at once.
    """
    consortium = played()
    leaked = consortium.key if shared else DecryptionKey.draw(STANDARD)
    upload = consortium.uploads[VICTIM]
    if not shared:
        with pytest.raises(CryptoError):
            leaked.decrypt(upload, consortium.numbers)
        return
    words = leaked.decrypt(upload, consortium.numbers)
    victim = numbers_of(consortium, (VICTIM,))
    removal = consortium.removal
    assert removal is not None
    assert signed(words, PRIME).tolist() != victim
    for count in range(
        len(removal.minus) + 1
    ):  # what the coordinator knows of masks opens the sum, and no single site
        assert without(words, removal.plus, removal.minus[:count]) != victim
        assert without(words, (), removal.minus[count : count + 1]) != victim
    assert consortium.masked_sum is not None
    assert without(consortium.masked_sum, removal.plus, removal.minus) == numbers_of(consortium, range(4))
    residues = np.array([value % PRIME for value in victim], dtype=np.uint64)
    bare = EncryptionKey.from_bytes(consortium.key.public, STANDARD).encrypt(residues)
    assert signed(leaked.decrypt(bare, len(victim)), PRIME).tolist() == victim


# A25


def approximate_context() -> Any:
    """Return a fresh context of CKKS."""
    return TENSEAL.context(TENSEAL.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 60], n_threads=1)


def test_attack_a25_an_approximate_scheme_is_offered() -> None:
    """CKKS gives its key away with its answers, and masks do not cancel in it: sites take no such key, whoever signs it."""
    consortium = LockedConsortium(4)
    public: bytes = approximate_context().serialize(True, False, False, False)
    signer = Signer(consortium.roster.identities["keyholder"], identity_key("keyholder"))
    said = EncryptionKeyOffer(parameters_digest(STANDARD), key_digest(public))
    offer = Packet(signer.sign(consortium.context, said), (public,))
    with pytest.raises(RemoteProtocolError, match="CKKS is approximate"):
        offered_key(offer_attachments(offer), consortium.context, STANDARD, consortium.roster)
    with pytest.raises(RemoteProtocolError, match="CKKS is approximate"):
        consortium.coordinator.lock(offer)


def test_attack_a25_succeeds_where_the_scheme_is_approximate() -> None:
    """What a CKKS decryption adds to the true value is noise of the key and the encryption, and different every time: the leak."""
    context = approximate_context()
    context.global_scale = 2.0**40
    truth = [3411.5, 2980.0, 3122.25]
    first, second = (
        [float(value) for value in TENSEAL.ckks_vector(context, truth).decrypt()] for _ in range(2)
    )
    assert first != truth
    assert first != second
    key = DecryptionKey.draw(STANDARD)
    site = EncryptionKey.from_bytes(key.public, STANDARD)
    words = np.array([3411, PRIME - 1, 0], dtype=np.uint64)
    one, other = site.encrypt(words), site.encrypt(words)
    assert one.tolist() != other.tolist()
    assert key.decrypt(one, 3).tolist() == key.decrypt(other, 3).tolist() == words.tolist()


def test_attack_a25_a_sum_at_the_edge_of_its_noise_is_exact_or_refused() -> None:
    """Which ciphertexts decrypt wrongly tells of a key of an exact scheme too. So none is: noise is doubled until it is refused."""
    key = DecryptionKey.draw(STANDARD)
    site = EncryptionKey.from_bytes(key.public, STANDARD)
    words = np.array([1, PRIME - 2, 123_456_789], dtype=np.uint64)
    held, factor = site.encrypt(words), 1
    answers: list[list[int] | None] = []
    for _ in range(64):
        doubled = site.sum(3)
        doubled.add(STANDARD.frames(held))
        doubled.add(STANDARD.frames(held))
        held, factor = np.concatenate(list(doubled.framed())), 2 * factor % PRIME
        answer = decrypted(key, held)
        answers.append(answer)
        assert answer in (None, [int(word) * factor % PRIME for word in words])
    exact = answers.index(None)
    assert exact > 20
    assert answers[exact:] == [None] * (64 - exact), "what was refused stays refused"


def decrypted(key: DecryptionKey, words: Vector) -> list[int] | None:
    """Return what a key gives out, or None where it gives nothing."""
    try:
        return [int(word) for word in key.decrypt(words, 3)]
    except CryptoError:
        return None


def test_attack_a25_the_trustee_is_asked_for_single_sites_and_for_one_sum_after_the_other() -> None:
    """Decryptions are no oracle: one per context, of words that stay masked, and for one survivor set of a study."""
    consortium = LockedConsortium(4)
    consortium.run()
    (request,) = consortium.asked
    single = consortium.key.decrypt(consortium.uploads[VICTIM], consortium.numbers)
    assert signed(single, PRIME).tolist() != numbers_of(consortium, (VICTIM,))
    other = LockedConsortium(4, seed="another round")
    other.down = {3}
    other.run()
    assert isinstance(other.coordinator.state, Opened)
    (smaller,) = other.asked
    consortium.decrypted = [(0, 1, 2, 3)]
    for asked in (smaller, request):
        if asked is request:
            consortium.unlock(asked, consortium.ciphertexts((0, 1, 2, 3)))
            continue
        with pytest.raises(RemoteProtocolError, match="K4"):
            consortium.unlock(asked, consortium.ciphertexts((0, 1, 2)))
    assert isinstance(consortium.coordinator.state, Opened | Combining)
    foreign = offer_of(other.context, other.roster, other.key)
    with pytest.raises(RemoteProtocolError, match="another round"):
        offered_key(offer_attachments(foreign), consortium.context, STANDARD, consortium.roster)


def crafted(times: int) -> Vector:
    """Return a ciphertext that nobody encrypted: (0, times q / p), whose phase is the secret key's own polynomial, scaled."""
    primes = library().context(
        library().SCHEME_TYPE.BFV, STANDARD.ring_degree, PRIME, list(STANDARD.coefficient_bits), n_threads=1
    )
    moduli = [int(one.value()) for one in coefficient_moduli(primes)]
    scaled = times * (prod(moduli) // PRIME)
    words = np.zeros((2, len(moduli), STANDARD.ring_degree), dtype=np.uint64)
    words[1, :, 0] = [scaled % modulus for modulus in moduli]
    return words.reshape(-1)


def coefficient_moduli(context: Any) -> Any:
    """Return the moduli of ciphertexts as SEAL chose them."""
    return context.seal_context().data.first_context_data().parms().coeff_modulus()


def test_attack_a25_a_crafted_ciphertext_gets_the_key_out_and_the_masks_hold() -> None:
    """No exact scheme stands chosen ciphertexts: the one answer of a round can be made to be its key.

    A trustee cannot tell. So its answer comes after the checks of the sites and its own, once, and what the key then opens is
    masked: the coordinator is where it would be under masking, with the opened sum and no single site.
    """
    consortium = played()
    key, length = consortium.key, STANDARD.ring_degree
    once, twice = key.decrypt(crafted(1), length), key.decrypt(crafted(2), length)
    assert np.any(once != 0)
    doubled = [2 * int(word) % PRIME for word in once]
    assert twice.tolist() == doubled, "the answer is the key's polynomial, as exact as any sum"
    # with the whole key in hand: a third site is as masked as test_attack_a22 shows
    words = key.decrypt(consortium.uploads[VICTIM], consortium.numbers)
    removal = consortium.removal
    assert removal is not None
    for minus in removal.minus:
        assert without(words, removal.plus, (minus,)) != numbers_of(consortium, (VICTIM,))
