"""ChaCha20-Poly1305: RFC 8439 through our API, and one refusal for whatever is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, OVERHEAD_BYTES, seal, unseal
from cohortsum.crypto.secret import SecretBytes
from tests import slow_crypto
from tests.vectors.make_own import Texts, load, octets

RAW = bytes(range(KEY_AND_NONCE_BYTES))
PLAIN, ASSOCIATED = b"three shares", b"dealer, holder"


def keyed(raw: bytes) -> SecretBytes:
    return SecretBytes(raw, "sealing key")


def flips(data: bytes) -> list[bytes]:
    """Return every neighbour of ``data`` at one bit."""
    value, size = int.from_bytes(data, "big"), len(data)
    return [(value ^ 1 << bit).to_bytes(size, "big") for bit in range(8 * size)]


SEALED = seal(keyed(RAW), PLAIN, ASSOCIATED)


@pytest.mark.parametrize("vector", load("rfc8439_aead.json", "vectors"))
def test_the_vector_of_rfc_8439(vector: Texts) -> None:
    names = ("key", "nonce", "associated", "plaintext", "ciphertext", "tag")
    key, nonce, associated, plain, ciphertext, tag = octets(vector, *names)
    assert seal(keyed(key + nonce), plain, associated) == ciphertext + tag
    assert unseal(keyed(key + nonce), ciphertext + tag, associated) == plain


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=44, max_size=44), st.binary(max_size=200), st.binary(max_size=40))
def test_sealing_equals_the_slow_code(raw: bytes, plain: bytes, associated: bytes) -> None:
    sealed = seal(keyed(raw), plain, associated)
    assert sealed == slow_crypto.chacha20_poly1305_seal(raw[:32], raw[32:], plain, associated)
    assert len(sealed) == len(plain) + OVERHEAD_BYTES
    assert unseal(keyed(raw), sealed, associated) == plain


def refused(raw: bytes, sealed: bytes, associated: bytes) -> str:
    with pytest.raises(AuthenticationError) as error:
        unseal(keyed(raw), sealed, associated)
    return str(error.value)


def test_any_flipped_bit_of_ciphertext_tag_key_nonce_or_associated_data_is_refused_alike() -> None:
    reasons = {refused(RAW, altered, ASSOCIATED) for altered in flips(SEALED)}
    reasons |= {refused(altered, SEALED, ASSOCIATED) for altered in flips(RAW)}
    reasons |= {refused(RAW, SEALED, altered) for altered in flips(ASSOCIATED)}
    assert reasons == {"authentication failed"}


def test_a_shorter_or_longer_text_is_refused() -> None:
    for size in range(len(SEALED)):
        assert refused(RAW, SEALED[:size], ASSOCIATED) == "authentication failed"
    refused(RAW, SEALED + b"\0", ASSOCIATED)
    refused(RAW, b"\0" + SEALED, ASSOCIATED)
    refused(RAW, SEALED, ASSOCIATED + b"\0")
    refused(RAW, SEALED, ASSOCIATED[:-1])
    refused(RAW, SEALED, b"")


def test_what_is_hidden_and_what_is_associated_cannot_trade_places() -> None:
    sealed = seal(keyed(RAW), b"", PLAIN)
    with pytest.raises(AuthenticationError):
        unseal(keyed(RAW), PLAIN + sealed, b"")


@pytest.mark.parametrize("size", [32, 43, 45])
def test_a_key_of_another_length_is_our_own_fault(size: int) -> None:
    with pytest.raises(ValueError, match=f"44 derived bytes, got {size}"):
        seal(keyed(bytes(size)), PLAIN, ASSOCIATED)
    with pytest.raises(ValueError, match=f"44 derived bytes, got {size}"):
        unseal(keyed(bytes(size)), SEALED, ASSOCIATED)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_number_is_added_to_the_nonce_bit_by_bit(number: int, other: int) -> None:
    nonce = int.from_bytes(RAW[32:], "big") ^ number
    moved = keyed(RAW[:32] + nonce.to_bytes(12, "big"))
    sealed = seal(keyed(RAW), PLAIN, ASSOCIATED, number)
    assert sealed == seal(moved, PLAIN, ASSOCIATED)
    assert unseal(keyed(RAW), sealed, ASSOCIATED, number) == PLAIN
    if other != number:
        with pytest.raises(AuthenticationError):
            unseal(keyed(RAW), sealed, ASSOCIATED, other)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_beyond_64_bits_is_our_own_fault(number: int) -> None:
    with pytest.raises(ValueError, match="outside 64 bits"):
        seal(keyed(RAW), PLAIN, ASSOCIATED, number)
