"""Ed25519: RFC 8032 through our API, domains, and one refusal for whatever is wrong."""

import struct

import pytest
from cryptography.exceptions import InvalidSignature
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import AuthenticationError, PublicKeyError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import SIGNATURE_BYTES, IdentityKey, public_key, verify
from tests import slow_crypto
from tests.vectors.make_own import Texts, load, octets

DOMAIN = "cohortsum/v1/test"
ORDER = 2**252 + 27742317777372353535851937790883648493
FIELDS = st.lists(st.binary(max_size=30), max_size=3)


def identity(seed: bytes) -> IdentityKey:
    return IdentityKey(SecretBytes(seed, "identity seed"))


def by_hand(*fields: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(text)) + text for text in (DOMAIN.encode(), *fields))


KEY = identity(bytes(range(32)))
SIGNED = KEY.sign(DOMAIN, b"field", b"other")


@pytest.mark.parametrize("vector", load("rfc8032_ed25519.json", "vectors"), ids=lambda v: v["name"])
def test_the_vectors_of_rfc_8032(vector: Texts) -> None:
    """Through the raw key: what we sign ourselves always stands behind a domain."""
    secret, public, message, signature = octets(vector, "secret", "public", "message", "signature")
    key = identity(secret)
    assert key.public == public
    assert key.private.sign(message) == signature
    public_key(public).verify(signature, message)


@pytest.mark.parametrize("vector", load("own_ed25519_rejected.json", "vectors"), ids=lambda v: v["name"])
def test_altered_vectors_do_not_verify(vector: Texts) -> None:
    public, message, signature = octets(vector, "public", "message", "signature")
    with pytest.raises(InvalidSignature):
        public_key(public).verify(signature, message)


@settings(max_examples=5, deadline=None)
@given(st.binary(min_size=32, max_size=32), FIELDS)
def test_a_signature_is_the_slow_one_over_length_prefixed_fields(seed: bytes, fields: list[bytes]) -> None:
    key = identity(seed)
    signature = key.sign(DOMAIN, *fields)
    assert key.public == slow_crypto.ed25519_public(seed)
    assert signature == slow_crypto.ed25519_sign(seed, by_hand(*fields))
    verify(key.public, signature, DOMAIN, *fields)


REFUSED = "authentication failed"


def refused(public: bytes, signature: bytes, domain: str, *fields: bytes) -> str:
    with pytest.raises(AuthenticationError) as error:
        verify(public, signature, domain, *fields)
    return str(error.value)


def test_any_flipped_bit_of_the_signature_or_the_key_is_refused_alike() -> None:
    def flips(data: bytes) -> list[bytes]:
        value = int.from_bytes(data, "big")
        return [(value ^ 1 << bit).to_bytes(len(data), "big") for bit in range(8 * len(data))]

    reasons = {refused(KEY.public, altered, DOMAIN, b"field", b"other") for altered in flips(SIGNED)}
    reasons |= {refused(altered, SIGNED, DOMAIN, b"field", b"other") for altered in flips(KEY.public)}
    assert reasons == {REFUSED}


@pytest.mark.parametrize(
    ("domain", "fields"),
    [
        ("cohortsum/v1/tesT", (b"field", b"other")),
        ("cohortsum/v1/testf", (b"ield", b"other")),
        (DOMAIN, (b"fieldo", b"ther")),
        (DOMAIN, (b"fieldother",)),
        (DOMAIN, (b"other", b"field")),
        (DOMAIN, (b"field", b"other", b"")),
        (DOMAIN, (b"field",)),
        (DOMAIN, ()),
    ],
)
def test_a_signature_holds_for_its_own_domain_and_fields_only(domain: str, fields: tuple[bytes, ...]) -> None:
    assert refused(KEY.public, SIGNED, domain, *fields) == REFUSED


def test_the_same_signature_plus_the_order_is_refused() -> None:
    """S and S + L satisfy one equation: two byte strings for one signature would be two messages."""
    s = int.from_bytes(SIGNED[32:], "little")
    doubled = SIGNED[:32] + (s + ORDER).to_bytes(32, "little")
    assert refused(KEY.public, doubled, DOMAIN, b"field", b"other") == REFUSED


@pytest.mark.parametrize("size", [0, 32, 63])
def test_a_signature_of_another_length_is_refused(size: int) -> None:
    assert len(SIGNED) == SIGNATURE_BYTES
    refused(KEY.public, SIGNED[:size], DOMAIN, b"field", b"other")
    refused(KEY.public, SIGNED + b"\0", DOMAIN, b"field", b"other")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_no_key(size: int) -> None:
    with pytest.raises(PublicKeyError, match=f"32 bytes, got {size}"):
        verify(bytes(size), SIGNED, DOMAIN, b"field", b"other")


def test_a_key_that_is_no_point_verifies_nothing() -> None:
    assert refused(b"\xff" * 32, SIGNED, DOMAIN, b"field", b"other") == REFUSED


def test_the_private_key_does_not_show() -> None:
    assert repr(KEY) == "<Ed25519 private key>"
