"""X25519: RFC 7748 through our API, one encoding per key, no key of low order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.agreement import LOW_ORDER, AgreementKey, check_public
from cohortsum.crypto.errors import PublicKeyError
from cohortsum.crypto.secret import SecretBytes
from tests import slow_crypto
from tests.vectors.make_own import Texts, load, octets

KEYS = st.binary(min_size=32, max_size=32)
BASE_POINT = (9).to_bytes(32, "little")


def private(seed: bytes) -> AgreementKey:
    return AgreementKey(SecretBytes(seed, "seed"))


def test_a_multiplication_of_rfc_7748() -> None:
    scalar, u, result = octets(load("rfc7748_x25519.json", "multiply")[0], "scalar", "u", "result")
    assert private(scalar).exchange(u).reveal() == result


def test_the_vector_with_the_top_bit_set_is_refused_and_its_canonical_twin_gives_the_result() -> None:
    scalar, u, result = octets(load("rfc7748_x25519.json", "multiply")[1], "scalar", "u", "result")
    assert u[31] & 0x80
    with pytest.raises(PublicKeyError, match="not canonical"):
        private(scalar).exchange(u)
    assert private(scalar).exchange(u[:31] + bytes([u[31] & 0x7F])).reveal() == result


@pytest.mark.parametrize("vector", load("rfc7748_x25519.json", "iterate"), ids=lambda v: v["times"])
def test_the_iterations_of_rfc_7748(vector: Texts) -> None:
    k = u = BASE_POINT
    for _ in range(int(vector["times"])):
        k, u = private(k).exchange(u).reveal(), k
    assert k.hex() == vector["result"]


@pytest.mark.parametrize("vector", load("rfc7748_x25519.json", "agree"))
def test_the_key_agreement_of_rfc_7748(vector: Texts) -> None:
    names = ("private_a", "public_a", "private_b", "public_b", "shared")
    seed_a, public_a, seed_b, public_b, shared = octets(vector, *names)
    a, b = private(seed_a), private(seed_b)
    assert (a.public, b.public) == (public_a, public_b)
    assert a.exchange(b.public).reveal() == b.exchange(a.public).reveal() == shared


@settings(max_examples=20, deadline=None)
@given(KEYS, KEYS)
def test_agreement_equals_the_slow_ladder_at_both_ends(one: bytes, other: bytes) -> None:
    a, b = private(one), private(other)
    assert a.public == slow_crypto.x25519_public(one)
    assert a.exchange(b.public) == b.exchange(a.public)
    assert a.exchange(b.public).reveal() == slow_crypto.x25519(one, b.public)


@pytest.mark.parametrize("vector", load("x25519_rejected.json", "not_canonical"), ids=lambda v: v["name"])
def test_a_key_that_is_not_canonical_is_refused(vector: Texts) -> None:
    (public,) = octets(vector, "u")
    with pytest.raises(PublicKeyError, match="not canonical"):
        check_public(public)
    with pytest.raises(PublicKeyError, match="not canonical"):
        private(bytes(range(32))).exchange(public)


@pytest.mark.parametrize("vector", load("x25519_rejected.json", "low_order"), ids=lambda v: v["name"])
@pytest.mark.parametrize("seed", [bytes(32), bytes(range(32)), b"\xff" * 32], ids=["zero", "count", "ones"])
def test_a_key_of_low_order_is_refused_by_everybody(vector: Texts, seed: bytes) -> None:
    (public,) = octets(vector, "u")
    with pytest.raises(PublicKeyError, match="low order"):
        private(seed).exchange(public)


@given(st.integers(0, 2**256 - 1))
def test_exactly_the_values_below_p_are_canonical(value: int) -> None:
    public = value.to_bytes(32, "little")
    if value < slow_crypto.P and value not in LOW_ORDER:
        check_public(public)
    else:
        with pytest.raises(PublicKeyError):
            check_public(public)


@pytest.mark.parametrize("value", [2, slow_crypto.P - 2])
def test_the_smallest_and_largest_encoding_are_canonical(value: int) -> None:
    check_public(value.to_bytes(32, "little"))


@pytest.mark.parametrize("value", sorted(LOW_ORDER))
def test_every_point_of_the_low_order_list_makes_any_secret_zero(value: int) -> None:
    public = value.to_bytes(32, "little")
    assert slow_crypto.x25519(bytes(range(32)), public) == bytes(32)
    with pytest.raises(PublicKeyError, match="low order"):
        check_public(public)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(PublicKeyError, match=f"32 bytes, got {size}"):
        private(bytes(range(32))).exchange(bytes(size))


def test_neither_private_key_nor_shared_secret_shows() -> None:
    key = private(bytes(range(32)))
    assert repr(key) == "<X25519 private key>"
    assert repr(key.exchange(BASE_POINT)) == "<shared secret, 32 secret bytes>"
