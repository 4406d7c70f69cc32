"""BFV: exact sums of packed residues, frames of one size, keys and ciphertexts that are refused, and nothing that shows a key."""

import contextlib
import copy
import pickle
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.bfv import MOST_INPUTS, PRIME, STANDARD, DecryptionKey, EncryptionKey, Parameters
from cohortsum.crypto.bfv_bytes import ciphertext_in, seal_content, seal_object, vector_of
from cohortsum.crypto.errors import ConfigurationError, CryptoError, PublicKeyError
from cohortsum.crypto.masks import Vector
from cohortsum.crypto.modular import add_masks_modulo, expand_modulo
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.tenseal_seam import Context, decompressed, library
from tests.crypto import seal_form

tenseal = pytest.importorskip("tenseal", reason="no wheel of TenSEAL for this Python")

N = STANDARD.ring_degree
BITS = STANDARD.coefficient_bits
EDGES = [0, 1, PRIME // 2 - 1, PRIME // 2, PRIME // 2 + 1, PRIME // 2 + 2, PRIME - 2, PRIME - 1]


@pytest.fixture(scope="module")
def trustee() -> DecryptionKey:
    return DecryptionKey.draw(STANDARD)


@pytest.fixture(scope="module")
def site(trustee: DecryptionKey) -> EncryptionKey:
    return EncryptionKey.from_bytes(trustee.public, STANDARD)


@pytest.fixture(scope="module")
def frame(site: EncryptionKey) -> Vector:
    """One good framed ciphertext."""
    return site.encrypt(residues("frame", 100))


def residues(label: str, length: int) -> Vector:
    """Return residues that look random, the same for a label."""
    return expand_modulo(SecretBytes(label.encode().ljust(32), "mask key"), length, PRIME)


def joined(frames: list[Vector]) -> Vector:
    return np.concatenate(frames) if frames else np.empty(0, dtype=np.uint64)


def summed(site: EncryptionKey, inputs: list[Vector], length: int) -> Vector:
    """Return the words of the encrypted sum of encrypted inputs."""
    total = site.sum(length)
    for words in inputs:
        total.add(STANDARD.frames(words))
    return joined(list(total.framed()))


# Exact


@pytest.mark.parametrize("length", [0, 1, 2, N - 1, N, N + 1, 2 * N + 5])
def test_what_is_encrypted_is_decrypted(site: EncryptionKey, trustee: DecryptionKey, length: int) -> None:
    values = residues("round trip", length)
    words = site.encrypt(values)
    assert words.dtype == np.uint64
    assert len(words) == STANDARD.words(length)
    assert np.array_equal(trustee.decrypt(words, length), values)


def test_the_edges_of_the_range_survive(site: EncryptionKey, trustee: DecryptionKey) -> None:
    words = site.encrypt(np.array(EDGES, dtype=np.uint64))
    assert trustee.decrypt(words, len(EDGES)).tolist() == EDGES
    twice = summed(site, [words, words], len(EDGES))
    assert trustee.decrypt(twice, len(EDGES)).tolist() == [2 * value % PRIME for value in EDGES]


def test_a_last_ciphertext_is_filled_up_with_zeros_and_not_with_repetitions(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    words = site.encrypt(np.array([7, 8, 9], dtype=np.uint64))
    assert trustee.decrypt(words, N).tolist() == [7, 8, 9] + [0] * (N - 3)


@settings(max_examples=10)
@given(st.lists(st.lists(st.integers(0, PRIME - 1), min_size=4, max_size=4), min_size=1, max_size=4))
def test_sums_are_exact_modulo_p(inputs: list[list[int]]) -> None:
    key = DecryptionKey.draw(STANDARD)
    site = EncryptionKey.from_bytes(key.public, STANDARD)
    words = summed(site, [site.encrypt(np.array(row, dtype=np.uint64)) for row in inputs], 4)
    expected = [sum(column) % PRIME for column in zip(*inputs, strict=True)]
    assert key.decrypt(words, 4).tolist() == expected


def test_two_hundred_inputs_have_an_exact_sum_and_masks_cancel_in_it(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    """Every pair of neighbours shares a mask, as in a round; what is decrypted is the sum of the values alone."""
    length, sites = N + 100, 200
    total = site.sum(length)
    expected = np.zeros(length, dtype=np.uint64)
    keys = [SecretBytes(f"pair {place}".encode().ljust(32), "mask key") for place in range(sites)]
    for place in range(sites):
        values = np.arange(length, dtype=np.uint64) * np.uint64(place + 1)
        expected += values
        add_masks_modulo(values, [keys[place]], [keys[place - 1]], PRIME)
        total.add(STANDARD.frames(site.encrypt(values)))
    assert np.array_equal(trustee.decrypt(joined(list(total.framed())), length), expected % np.uint64(PRIME))


def test_thousands_of_additions_keep_the_noise_that_the_bound_allows(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    """65,535 additions by doubling: v of the sum is 65,535 times one v, more than independent noises would add up to."""
    values = residues("noise", N)
    one = site.encrypt(values)
    fresh = noise_budget(trustee, one)
    assert fresh >= 34, "the bound in the module's text: -log2(2 * 2**-35.9)"
    doubled = [one]
    for _ in range(15):
        doubled.append(summed(site, [doubled[-1], doubled[-1]], N))
    words = summed(site, doubled, N)
    assert noise_budget(trustee, words) >= 18
    assert noise_budget(trustee, words) >= fresh - 17
    assert trustee.decrypt(words, N).tolist() == [value * 65_535 % PRIME for value in values.tolist()]


def test_two_thousand_fresh_ciphertexts_add_up(site: EncryptionKey, trustee: DecryptionKey) -> None:
    total, rounds, many = site.sum(8), 20, 100
    fresh = [site.encrypt(residues(f"fresh {place}", 8)) for place in range(many)]
    for place in range(rounds * many):
        total.add([fresh[place % many]])
    rows = [residues(f"fresh {place}", 8).tolist() for place in range(many)]
    expected = [rounds * sum(column) % PRIME for column in zip(*rows, strict=True)]
    assert trustee.decrypt(joined(list(total.framed())), 8).tolist() == expected


def secret_context(key: DecryptionKey) -> Context:
    context: Context | None = key._context  # pyright: ignore[reportPrivateUsage]
    assert context is not None
    return context


def noise_budget(key: DecryptionKey, frame: Vector) -> int:
    """Return SEAL's own figure, which the product never gives out, from a key opened up for the test."""
    context = secret_context(key)
    vector = seal_form.vector_of_frame(context, frame)
    return context.decryptor().data.invariant_noise_budget(vector.ciphertext()[0])


# Sizes tell nothing (A20)


def test_the_sizes_of_extreme_data_are_the_same(site: EncryptionKey) -> None:
    length = 2 * N + 1
    zeros, top = np.zeros(length, dtype=np.uint64), np.full(length, PRIME - 1, dtype=np.uint64)
    sizes = {site.encrypt(values).nbytes for values in (zeros, top, residues("extreme", length))}
    assert sizes == {3 * STANDARD.frame_bytes}
    sums = {summed(site, [site.encrypt(values)] * 2, length).nbytes for values in (zeros, top)}
    assert sums == sizes


def test_a_frame_is_the_coefficients_of_two_polynomials_and_nothing_else(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    """Read coefficient by coefficient off TenSEAL's own ciphertext."""
    words = site.encrypt(residues("coefficients", N))
    assert words.nbytes == STANDARD.frame_bytes == 2 * 2 * N * 8 == 262_144
    held = seal_form.vector_of_frame(secret_context(trustee), words).ciphertext()[0]
    places = [0, 1, N - 1, N, 2 * N, 3 * N + 7, 4 * N - 1]
    read: list[int] = [getattr(held, "__getitem__")(place) for place in places]  # noqa: B009  # not in the seam
    assert read == words[places].tolist()
    assert [STANDARD.ciphertexts(length) for length in (0, 1, N, N + 1, 100_000)] == [0, 1, 1, 2, 13]


def test_two_encryptions_of_the_same_numbers_differ(site: EncryptionKey) -> None:
    values = residues("twice", 10)
    assert not np.array_equal(site.encrypt(values), site.encrypt(values))


# What is not encrypted


@pytest.mark.parametrize("value", [PRIME, PRIME + 5, 2**60, 2**63, 2**64 - 1])
def test_a_number_that_is_no_residue_is_refused_before_encoding(site: EncryptionKey, value: int) -> None:
    """TenSEAL takes it, and reduces it without a word."""
    context = library().context_from(DecryptionKey.draw(STANDARD).public, n_threads=1)
    library().bfv_vector(context, library().plain_tensor(np.array([PRIME + 5], dtype=np.int64), dtype="int"))
    with pytest.raises(ValueError, match="less than the plaintext modulus"):
        site.encrypt(np.array([0, value], dtype=np.uint64))


@pytest.mark.parametrize(
    "values", [np.zeros(2), np.zeros(2, dtype=np.int64), np.zeros((2, 2), dtype=np.uint64)]
)
def test_other_arrays_are_refused(site: EncryptionKey, values: Vector) -> None:
    with pytest.raises(ValueError, match="one-dimensional uint64"):
        site.encrypt(values)


# Keys that are refused


def made(scheme: str = "BFV", degree: int = N, modulus: int = PRIME, bits: tuple[int, ...] = BITS) -> Context:
    return library().context(getattr(library().SCHEME_TYPE, scheme), degree, modulus, list(bits), n_threads=1)


def shared(context: Context, secret: bool = False, galois: bool = False, relin: bool = False) -> bytes:
    return context.serialize(True, secret, galois, relin)


def galois() -> bytes:
    context = made()
    tenseal.Context.generate_galois_keys(context)
    return shared(context, galois=True)


def symmetric(secret: bool) -> bytes:
    context: Context = tenseal.context(
        tenseal.SCHEME_TYPE.BFV, N, PRIME, list(BITS), tenseal.ENCRYPTION_TYPE.SYMMETRIC, n_threads=1
    )
    return context.serialize(False, secret, False, False)


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "a secret key": (lambda: shared(made(), secret=True), "without secret"),
    "a secret key alone": (lambda: made().serialize(False, True, False, False), "such as a secret key"),
    "Galois keys": (galois, "without secret, Galois"),
    "relinearisation keys": (lambda: shared(made(), relin=True), "relinearisation"),
    "no key": (lambda: made().serialize(False, False, False, False), "public key alone"),
    "a symmetric context": (lambda: symmetric(False), "symmetric"),
    "a symmetric key": (lambda: symmetric(True), "symmetric"),
    "CKKS": (lambda: shared(made("CKKS")), "CKKS is approximate"),
    "CKKS as it is usual": (lambda: shared(made("CKKS", bits=(60, 40, 40))), "CKKS is approximate"),
    "a smaller ring": (
        lambda: shared(made(degree=4096, modulus=1032193, bits=(36, 36))),
        "expected ring degree 8192",
    ),
    "another plain modulus": (
        lambda: shared(made(modulus=1032193)),
        f"expected plain modulus {PRIME}, got 1032193",
    ),
    "other coefficient moduli": (lambda: shared(made(bits=(54, 54, 53))), "expected coefficient moduli"),
    "smaller coefficient moduli": (lambda: shared(made(bits=(40, 40, 40))), "expected coefficient moduli"),
    "nothing": (lambda: b"", "not a context"),
    "text": (lambda: b"trustee" * 100, "not a context"),
    "zeros": (lambda: bytes(1000), "not a context"),
    "too long": (lambda: bytes(STANDARD.most_key_bytes + 1), "at most"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_key_that_is_not_the_rounds_public_key_is_refused(name: str) -> None:
    data, message = REFUSED[name][0](), REFUSED[name][1]
    with pytest.raises(PublicKeyError, match=message):
        EncryptionKey.from_bytes(data, STANDARD)


@pytest.mark.parametrize(
    ("secret", "relin", "message"), [(True, False, "such as a secret"), (False, True, "without Galois")]
)
def test_keys_below_the_limit_of_size_are_found_by_their_fields(
    secret: bool, relin: bool, message: str
) -> None:
    """A smaller ring's secret and evaluation keys would pass the limit of size."""
    data = shared(made(degree=2048, modulus=12289, bits=(27, 27)), secret=secret, relin=relin)
    assert len(data) < STANDARD.most_key_bytes
    with pytest.raises(PublicKeyError, match=message):
        EncryptionKey.from_bytes(data, STANDARD)


def test_the_trustees_public_bytes_hold_no_other_key(trustee: DecryptionKey) -> None:
    context = library().context_from(trustee.public, n_threads=1)
    assert context.has_public_key()
    assert not any((context.has_secret_key(), context.has_galois_keys(), context.has_relin_keys()))
    assert len(trustee.public) <= STANDARD.most_key_bytes


@settings(max_examples=60)
@given(st.data())
def test_altered_keys_raise_only_their_error(trustee: DecryptionKey, data: st.DataObject) -> None:
    """Flips near the front meet the fields and parameters; a flip in coefficients may give another key, which is no fault."""
    public = bytearray(trustee.public)
    for _ in range(data.draw(st.integers(1, 3))):
        reach = data.draw(st.sampled_from([8, 120, len(public)]))
        public[data.draw(st.integers(0, reach - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.sampled_from([len(public), len(public) - 1, 100, 60, 20]))
    try:
        EncryptionKey.from_bytes(bytes(public[:cut]), STANDARD)
    except PublicKeyError:
        return
    assert cut == len(public)


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_junk_is_no_key_and_no_message(junk: bytes) -> None:
    with pytest.raises(PublicKeyError):
        EncryptionKey.from_bytes(junk, STANDARD)
    assert ciphertext_in(junk, N) is None
    assert seal_content(junk, 10) is None


# Bytes of SEAL and TenSEAL


def test_what_is_put_around_coefficients_is_what_seal_writes(trustee: DecryptionKey) -> None:
    """The product reads the form off a ciphertext of its own; the test has it written down."""
    context = secret_context(trustee)
    vector = library().bfv_vector(context, library().plain_tensor(np.arange(N), dtype="int"))
    seal = ciphertext_in(vector.serialize(), N)
    assert seal is not None
    content = seal_content(seal, 97 + STANDARD.frame_bytes)
    assert content is not None
    coefficients = np.frombuffer(content[97:], dtype="<u8").astype(np.uint64)
    again = seal_form.ciphertext(context, coefficients, 2)
    assert seal_object(seal[:8], content) == again
    assert vector_of(again, N) == seal_form.message(again)
    assert library().bfv_vector_from(context, vector_of(again, N)).decrypt() == list(range(N))


def test_unfolding_gives_the_size_that_was_asked_for_or_nothing(trustee: DecryptionKey) -> None:
    context = secret_context(trustee)
    vector = library().bfv_vector(context, library().plain_tensor(np.arange(N), dtype="int"))
    seal = ciphertext_in(vector.serialize(), N) or b""
    size = 97 + STANDARD.frame_bytes
    assert seal_content(seal, size) is not None
    for other in (0, 1, size - 1, size + 1):
        assert seal_content(seal, other) is None
    for broken in (seal[:-1], seal + b"\0", seal[:40], seal[:15], b""):
        assert seal_content(broken, size) is None
    assert decompressed(b"", 5) is None
    assert decompressed(b"no zstd", 5) is None


BAD_MESSAGES: dict[str, bytes] = {
    "nothing": b"",
    "sizes alone": b"\x0a\x02\x80\x40",
    "another size": seal_form.message(b"seal", N - 1),
    "another field": seal_form.message(b"seal") + b"\x18\x01",
    "two ciphertexts": seal_form.message(b"seal") + b"\x12\x01\x00",
    "ten thousand ciphertexts": b"\x0a\x02\x80\x40" + 10_000 * b"\x12\x01\x00",
    "cut": seal_form.message(b"seal")[:-1],
    "a length beyond everything": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "another wire type": b"\x0b\x00",
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_message_of_other_fields_holds_no_ciphertext(name: str) -> None:
    assert ciphertext_in(seal_form.message(b"seal"), N) == b"seal"
    assert ciphertext_in(BAD_MESSAGES[name], N) is None


def test_a_key_whose_metadata_lie_is_refused_before_seal_reads_them(trustee: DecryptionKey) -> None:
    """Without polynomials SEAL sets no limit to the array: it would reserve 8 GB for this one. The size is refused here."""
    context = library().context_from(trustee.public, n_threads=1)
    data = trustee.public
    begin = 2 + data[1]
    liar = seal_form.ciphertext(context, np.zeros(4, dtype=np.uint64), 0).replace(
        seal_form.words(4), seal_form.words(2**30)
    )
    public = b"\x0a" + seal_form.varint(len(liar)) + liar + b"\x10\x07\x19" + bytes(8)
    lie = data[:begin] + b"\x12" + seal_form.varint(len(public)) + public
    with pytest.raises(PublicKeyError, match="expected a public key of these parameters"):
        EncryptionKey.from_bytes(lie, STANDARD)


# Ciphertexts that are refused


def test_any_residues_of_the_coefficient_moduli_are_a_ciphertext(site: EncryptionKey) -> None:
    site.check(np.ones(4 * N, dtype=np.uint64))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [(0, 2**54, "not those of a ciphertext"), (4 * N - 1, 2**64 - 1, "not those of a ciphertext")],
)
def test_a_coefficient_beyond_its_modulus_is_refused(
    site: EncryptionKey, frame: Vector, place: int, value: int, message: str
) -> None:
    altered = frame.copy()
    altered[place] = value
    with pytest.raises(CryptoError, match=message):
        site.check(altered)


def test_a_transparent_ciphertext_is_refused(site: EncryptionKey, frame: Vector) -> None:
    """One whose second polynomial is zero is its plaintext."""
    with pytest.raises(CryptoError, match="everybody could read it"):
        site.check(np.append(frame[: 2 * N], np.zeros(2 * N, dtype=np.uint64)))


def test_a_sum_of_opposites_is_a_typed_error_and_spoils_the_sum(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    """A ciphertext and its negative add up to zeros, which SEAL refuses to make."""
    context = tenseal.context_from(trustee.public, n_threads=1)
    moduli = [q.value() for q in context.seal_context().data.first_context_data().parms().coeff_modulus()]
    total = site.sum(N)
    total.add([np.ones(4 * N, dtype=np.uint64)])
    with pytest.raises(CryptoError, match="ciphertext 0 of an input: cannot be added"):
        total.add([np.repeat(np.array([q - 1 for q in moduli] * 2, dtype=np.uint64), N)])
    with pytest.raises(ValueError, match="spoilt"):
        list(total.framed())


@settings(max_examples=60)
@given(st.data())
def test_flipped_bytes_in_frames_raise_only_typed_errors(
    site: EncryptionKey, frame: Vector, trustee: DecryptionKey, data: st.DataObject
) -> None:
    raw = bytearray(frame.tobytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    flipped = np.frombuffer(bytes(raw), dtype=np.uint64)
    try:
        site.check(flipped)
    except CryptoError:
        return
    with contextlib.suppress(CryptoError):
        assert len(trustee.decrypt(summed(site, [flipped], 1), 1)) == 1


def test_altered_ciphertexts_have_more_noise_than_any_sum(
    site: EncryptionKey, trustee: DecryptionKey, frame: Vector
) -> None:
    """A step of one in one residue is a leap modulo q: the noise of all coefficients becomes as good as random."""
    altered = frame.copy()
    altered[:N] -= np.uint64(1)
    altered[:N][frame[:N] == 0] = 0
    site.check(altered)
    with pytest.raises(CryptoError, match="no sum of freshly encrypted inputs"):
        trustee.decrypt(altered, 1)


def test_the_least_budget_is_what_the_bound_leaves() -> None:
    assert STANDARD.least_budget == 17
    bound = 4098 * MOST_INPUTS * Fraction(PRIME, 2**108)
    assert bound * 2 * 2**STANDARD.least_budget < Fraction(1, 2)
    assert Parameters(2048, 12289, (27, 27)).least_budget == 1


BAD_FRAMES: dict[str, Callable[[Vector], Vector]] = {
    "too short": lambda words: words[:-1],
    "too long": lambda words: np.append(words, np.uint64(0)),
    "empty": lambda words: words[:0],
    "two rows": lambda words: words.reshape(2, -1),
    "signed": lambda words: words.astype("i8"),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_frame_of_another_form_is_refused(site: EncryptionKey, frame: Vector, name: str) -> None:
    with pytest.raises(CryptoError, match="frame of 32768 words"):
        site.check(BAD_FRAMES[name](frame))


# Sums


def test_an_input_of_another_number_of_ciphertexts_spoils_the_sum(site: EncryptionKey, frame: Vector) -> None:
    for frames in ([], [frame], [frame] * 3):
        total = site.sum(N + 1)
        total.add([frame] * 2)
        with pytest.raises(CryptoError, match="2 ciphertexts"):
            total.add(frames)
        with pytest.raises(ValueError, match="spoilt"):
            total.add([frame] * 2)
        with pytest.raises(ValueError, match="spoilt"):
            list(total.framed())


def test_a_malformed_ciphertext_spoils_the_sum_and_is_named(site: EncryptionKey, frame: Vector) -> None:
    total = site.sum(2 * N)
    with pytest.raises(CryptoError, match="ciphertext 1 of an input"):
        total.add([frame, frame[1:]])
    with pytest.raises(ValueError, match="spoilt"):
        total.add([frame] * 2)


def test_a_sum_of_nothing_is_none(site: EncryptionKey) -> None:
    with pytest.raises(ValueError, match="at least one input"):
        list(site.sum(5).framed())


def test_a_sum_of_empty_vectors_is_empty(site: EncryptionKey, trustee: DecryptionKey) -> None:
    total = site.sum(0)
    total.add([])
    assert list(total.framed()) == []
    assert len(trustee.decrypt(np.empty(0, dtype=np.uint64), 0)) == 0


# The secret key


def test_a_sum_under_another_key_is_refused_where_seal_gives_garbage(
    site: EncryptionKey, trustee: DecryptionKey
) -> None:
    values = residues("wrong key", 5)
    other = EncryptionKey.from_bytes(DecryptionKey.draw(STANDARD).public, STANDARD)
    words = other.encrypt(values)
    garbage = seal_form.vector_of_frame(secret_context(trustee), words).decrypt()
    assert [value % PRIME for value in garbage[:5]] != values.tolist()
    with pytest.raises(CryptoError, match="ciphertext 0 of the sum: made under another key"):
        trustee.decrypt(words, 5)
    mixed = summed(site, [site.encrypt(values), words], 5)
    with pytest.raises(CryptoError, match="made under another key"):
        trustee.decrypt(mixed, 5)


def test_a_sum_of_another_length_is_refused(site: EncryptionKey, trustee: DecryptionKey) -> None:
    words = site.encrypt(residues("length", 5))
    with pytest.raises(CryptoError, match="a sum of 8193 numbers has 65536 words, got 32768"):
        trustee.decrypt(words, N + 1)


def test_a_wiped_key_decrypts_nothing_and_keeps_its_public_part(site: EncryptionKey) -> None:
    key = DecryptionKey.draw(STANDARD)
    key.wipe()
    with pytest.raises(ValueError, match="wiped"):
        key.decrypt(site.encrypt(residues("wiped", 1)), 1)
    assert EncryptionKey.from_bytes(key.public, STANDARD).parameters == STANDARD


def test_a_key_shows_nothing_and_is_never_copied() -> None:
    key = DecryptionKey.draw(STANDARD)
    assert repr(key) == str(key) == "<decryption key of one round>"
    assert not hasattr(key, "__dict__")
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never pickled or copied"):
            copier(key)
    key.wipe()
    assert repr(key) == "<decryption key of one round, wiped>"
    assert "ontext" not in repr(EncryptionKey.from_bytes(key.public, STANDARD))


def test_every_key_is_a_new_one() -> None:
    assert DecryptionKey.draw(STANDARD).public != DecryptionKey.draw(STANDARD).public


# Parameters


def test_the_prime_is_the_greatest_that_the_slots_allow() -> None:
    def is_prime(value: int) -> bool:
        return all(pow(base, value - 1, value) == 1 for base in (2, 3, 5, 7, 11, 13))

    assert PRIME % (2 * N) == 1
    assert is_prime(PRIME)
    assert [value for value in range(PRIME + 2 * N, 2**60, 2 * N) if is_prime(value)] == []
    assert STANDARD.modulus == PRIME < 2**60


@pytest.mark.parametrize(
    ("degree", "modulus", "bits"),
    [(8192, PRIME, (60, 60, 60, 60)), (8192, PRIME, (50,)), (8192, 2**60, (50, 50)), (5000, PRIME, (50, 50))],
)
def test_parameters_that_are_not_secure_or_have_no_slots_are_refused(
    degree: int, modulus: int, bits: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"128-bit security|slots"):
        Parameters(degree, modulus, bits)


def test_parameters_encode_to_one_string_each() -> None:
    other = [
        Parameters(8192, 65537, BITS),
        Parameters(8192, PRIME, (50, 50)),
        Parameters(8192, PRIME, (54, 54, 53)),
        Parameters(4096, PRIME, (50, 50)),
    ]
    assert len({parameters.encode() for parameters in [STANDARD, *other]}) == 5
    assert STANDARD.encode() == b"".join(
        len(part).to_bytes(8, "big") + part
        for part in [b"cohortsum/v1/bfv", *(value.to_bytes(8, "big") for value in (8192, PRIME, *BITS))]
    )


def test_without_tenseal_two_key_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(
        ConfigurationError, match=r"two_key: needs the package tenseal.*or write mode: masking"
    ):
        DecryptionKey.draw(STANDARD)
