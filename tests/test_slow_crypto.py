"""The slow oracles against the standards' own vectors, and the vectors against a second implementation."""

import json
from pathlib import Path
from typing import TypedDict, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import slow_crypto
from tests.vectors import make_own
from tests.vectors.make_own import Texts, load, octets

VECTORS = Path(__file__).parent / "vectors"
KEYS = st.binary(min_size=32, max_size=32)


class TooFew(TypedDict):
    points: list[int]
    naive_result: str


class SharedSecret(TypedDict):
    name: str
    threshold: int
    coefficients: list[str]
    shares: dict[str, str]
    combine: list[list[int]]
    too_few: TooFew


def _shamir_vectors() -> list[SharedSecret]:
    content = json.loads((VECTORS / "own_shamir.json").read_text(encoding="utf-8"))
    return cast(list[SharedSecret], content["vectors"])


def test_official_vectors_agree_with_the_cryptography_package() -> None:
    make_own.check_official()


def test_every_vector_file_names_its_origin_and_is_in_the_readme() -> None:
    readme = (VECTORS / "README.md").read_text(encoding="utf-8")
    for path in VECTORS.glob("*.json"):
        assert next(iter(json.loads(path.read_text(encoding="utf-8")))) == "origin", path.name
        assert f"`{path.name}`" in readme, path.name


# X25519


@pytest.mark.parametrize("vector", load("rfc7748_x25519.json", "multiply"))
def test_x25519_multiplies_as_in_rfc_7748(vector: Texts) -> None:
    scalar, u, result = octets(vector, "scalar", "u", "result")
    assert slow_crypto.x25519(scalar, u) == result


@pytest.mark.parametrize("vector", load("rfc7748_x25519.json", "iterate"), ids=lambda v: v["times"])
def test_x25519_iterates_as_in_rfc_7748(vector: Texts) -> None:
    k = u = (9).to_bytes(32, "little")
    for _ in range(int(vector["times"])):
        k, u = slow_crypto.x25519(k, u), k
    assert k.hex() == vector["result"]


@pytest.mark.parametrize("vector", load("rfc7748_x25519.json", "agree"))
def test_x25519_agrees_as_in_rfc_7748(vector: Texts) -> None:
    a, public_a, b, public_b, shared = octets(
        vector, "private_a", "public_a", "private_b", "public_b", "shared"
    )
    assert slow_crypto.x25519_public(a) == public_a
    assert slow_crypto.x25519_public(b) == public_b
    assert slow_crypto.x25519(a, public_b) == slow_crypto.x25519(b, public_a) == shared


@pytest.mark.parametrize("vector", load("x25519_rejected.json", "not_canonical"), ids=lambda v: v["name"])
def test_keys_listed_as_not_canonical_have_a_smaller_twin(vector: Texts) -> None:
    """Two encodings of one point give one secret, which is why the longer one is refused."""
    (public,) = octets(vector, "u")
    number = int.from_bytes(public, "little")
    twin = number % 2**255 % slow_crypto.P
    assert number >= slow_crypto.P
    assert twin < slow_crypto.P
    secret = slow_crypto.x25519(bytes(range(32)), public)
    assert secret == slow_crypto.x25519(bytes(range(32)), twin.to_bytes(32, "little"))
    assert (secret == bytes(32)) == (vector["low_order"] == "yes")


@pytest.mark.parametrize("vector", load("x25519_rejected.json", "low_order"), ids=lambda v: v["name"])
def test_keys_listed_as_low_order_are_canonical_and_give_zero_for_every_scalar(vector: Texts) -> None:
    (public,) = octets(vector, "u")
    assert int.from_bytes(public, "little") < slow_crypto.P
    for scalar in (bytes(32), bytes(range(32)), b"\xff" * 32):
        assert slow_crypto.x25519(scalar, public) == bytes(32)


@settings(max_examples=20, deadline=None)
@given(KEYS)
def test_x25519_equals_the_library(scalar: bytes) -> None:
    library = X25519PrivateKey.from_private_bytes(scalar).public_key().public_bytes_raw()
    assert slow_crypto.x25519_public(scalar) == library


# HKDF


@pytest.mark.parametrize("vector", load("rfc5869_hkdf.json", "vectors"), ids=lambda v: v["name"])
def test_hkdf_as_in_rfc_5869(vector: Texts) -> None:
    secret, salt, info, extracted, result = octets(vector, "secret", "salt", "info", "extracted", "result")
    assert slow_crypto.hkdf_extract(salt, secret) == extracted
    assert slow_crypto.hkdf(salt, secret, info, int(vector["length"])) == result


# ChaCha20-Poly1305


@pytest.mark.parametrize("vector", load("rfc8439_aead.json", "vectors"))
def test_aead_as_in_rfc_8439(vector: Texts) -> None:
    key, nonce, associated, plain = octets(vector, "key", "nonce", "associated", "plaintext")
    sealed = slow_crypto.chacha20_poly1305_seal(key, nonce, plain, associated)
    assert sealed.hex() == vector["ciphertext"] + vector["tag"]
    assert slow_crypto.chacha20_poly1305_open(key, nonce, sealed, associated) == plain


@settings(max_examples=50, deadline=None)
@given(KEYS, st.binary(min_size=12, max_size=12), st.binary(max_size=200), st.binary(max_size=40), st.data())
def test_aead_equals_the_library_and_refuses_any_flipped_bit(
    key: bytes, nonce: bytes, plain: bytes, associated: bytes, data: st.DataObject
) -> None:
    sealed = slow_crypto.chacha20_poly1305_seal(key, nonce, plain, associated)
    assert sealed == ChaCha20Poly1305(key).encrypt(nonce, plain, associated)
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    altered = bytearray(sealed)
    altered[bit // 8] ^= 1 << bit % 8
    assert slow_crypto.chacha20_poly1305_open(key, nonce, bytes(altered), associated) is None
    assert slow_crypto.chacha20_poly1305_open(key, nonce, sealed, associated + b"\0") is None


# AES-256 and masks


@pytest.mark.parametrize("vector", load("nist_aes256.json", "block"))
def test_aes_as_in_fips_197(vector: Texts) -> None:
    key, plain = octets(vector, "key", "plaintext")
    assert slow_crypto.aes256(key, plain).hex() == vector["ciphertext"]


@pytest.mark.parametrize("vector", load("nist_aes256.json", "ctr"))
def test_counter_mode_as_in_sp_800_38a(vector: Texts) -> None:
    key, counter, plain, cipher = octets(vector, "key", "counter", "plaintext", "ciphertext")
    assert slow_crypto.aes256_ctr(key, counter, plain) == cipher
    assert slow_crypto.aes256_ctr(key, counter, cipher[:37]) == plain[:37]


@settings(max_examples=30, deadline=None)
@given(KEYS, st.binary(min_size=16, max_size=16) | st.just(b"\xff" * 16), st.binary(max_size=80))
def test_counter_mode_equals_the_library_even_where_the_counter_wraps(
    key: bytes, counter: bytes, text: bytes
) -> None:
    library = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(text)
    assert slow_crypto.aes256_ctr(key, counter, text) == library


@pytest.mark.parametrize("vector", load("own_masks.json", "vectors"), ids=lambda v: v["name"])
def test_own_masks_equal_slow_and_library_streams(vector: Texts) -> None:
    (key,) = octets(vector, "key")
    first = [int(word) for word in vector["first_words"].split()]
    assert slow_crypto.mask_words(key, len(first)) == first
    assert slow_crypto.mask_words(key, len(first) - 1) == first[:-1]
    length = int(vector["words"])
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * length))
    words = [int.from_bytes(stream[at : at + 8], "little") for at in range(0, len(stream), 8)]
    assert words[: len(first)] == first
    assert words[-1] == int(vector["last_word"])
    assert sum(words) % 2**64 == int(vector["sum_mod_2_64"])


# Ed25519


@pytest.mark.parametrize("vector", load("rfc8032_ed25519.json", "vectors"), ids=lambda v: v["name"])
def test_ed25519_as_in_rfc_8032(vector: Texts) -> None:
    secret, public, message, signature = octets(vector, "secret", "public", "message", "signature")
    assert slow_crypto.ed25519_public(secret) == public
    assert slow_crypto.ed25519_sign(secret, message) == signature
    assert slow_crypto.ed25519_verify(public, message, signature)


@pytest.mark.parametrize("vector", load("own_ed25519_rejected.json", "vectors"), ids=lambda v: v["name"])
def test_altered_signatures_do_not_verify(vector: Texts) -> None:
    public, message, signature = octets(vector, "public", "message", "signature")
    assert not slow_crypto.ed25519_verify(public, message, signature)


@settings(max_examples=5, deadline=None)
@given(KEYS, st.binary(max_size=100))
def test_ed25519_equals_the_library(secret: bytes, message: bytes) -> None:
    library = Ed25519PrivateKey.from_private_bytes(secret)
    signature = slow_crypto.ed25519_sign(secret, message)
    assert signature == library.sign(message)
    assert slow_crypto.ed25519_verify(library.public_key().public_bytes_raw(), message, signature)


# Shares


@pytest.mark.parametrize("vector", _shamir_vectors(), ids=lambda v: v["name"])
def test_own_shares_lie_on_their_polynomial_and_combine_to_its_secret(vector: SharedSecret) -> None:
    coefficients = [int(a, 16) for a in vector["coefficients"]]
    shares = {int(x): int(y, 16) for x, y in vector["shares"].items()}
    for x, y in shares.items():
        value = 0
        for a in reversed(coefficients):  # Horner's rule, where the oracle sums powers
            value = (value * x + a) % (2**255 - 19)
        assert value == y
    for points in vector["combine"]:
        assert len(points) == vector["threshold"] == len(coefficients)
        assert slow_crypto.shamir_combine({x: shares[x] for x in points}) == coefficients[0]
    naive = slow_crypto.shamir_combine({x: shares[x] for x in vector["too_few"]["points"]})
    assert naive == int(vector["too_few"]["naive_result"], 16) != coefficients[0]


FIELD = st.integers(0, slow_crypto.P - 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(FIELD, min_size=1, max_size=6), FIELD, st.data())
def test_any_threshold_shares_combine_and_one_fewer_fit_any_secret(
    coefficients: list[int], other: int, data: st.DataObject
) -> None:
    threshold = len(coefficients)
    shares = slow_crypto.shamir_split(coefficients, range(1, 10))
    points = data.draw(st.permutations(range(1, 10)))
    assert slow_crypto.shamir_combine({x: shares[x] for x in points[:threshold]}) == coefficients[0]
    # The polynomial through t - 1 shares and any other secret at 0 is one the dealer could have drawn.
    fitting = {x: shares[x] for x in points[: threshold - 1]} | {10: 0}
    gap = other - slow_crypto.shamir_combine(fitting)
    weight = slow_crypto.shamir_combine({x: int(x == 10) for x in fitting})
    fitting[10] = gap * pow(weight, -1, slow_crypto.P) % slow_crypto.P
    assert slow_crypto.shamir_combine(fitting) == other


@pytest.mark.parametrize("name", ["own_shamir.json", "own_ed25519_rejected.json"])
def test_own_files_are_what_the_script_makes(name: str) -> None:
    """The masks take a minute of slow AES; their test above recomputes them another way."""
    made = {"own_shamir.json": make_own.shamir, "own_ed25519_rejected.json": make_own.ed25519_rejected}[
        name
    ]()
    assert json.loads((VECTORS / name).read_text(encoding="utf-8")) == made
