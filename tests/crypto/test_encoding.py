"""Bytes that mean one thing."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.encoding import digest, encode, number

FIELDS = st.lists(st.binary(max_size=20), max_size=5)


def decode(data: bytes) -> list[bytes]:
    """Return the fields of an encoding; that this exists makes the encoding injective."""
    fields: list[bytes] = []
    while data:
        size = int.from_bytes(data[:8], "big")
        assert len(data) >= 8 + size
        fields.append(data[8 : 8 + size])
        data = data[8 + size :]
    return fields


@given(FIELDS)
def test_fields_can_be_read_back(fields: list[bytes]) -> None:
    assert decode(encode(*fields)) == fields


@given(FIELDS, FIELDS)
def test_two_lists_of_fields_never_share_bytes(one: list[bytes], other: list[bytes]) -> None:
    assert (encode(*one) == encode(*other)) == (one == other)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_one_text_cut_at_two_places_gives_two_encodings(text: bytes, here: int, there: int) -> None:
    one, other = (text[:here], text[here:]), (text[:there], text[there:])
    assert (encode(*one) == encode(*other)) == (one == other)


def test_an_encoding_inside_a_field_is_not_its_fields() -> None:
    assert encode(encode(b"a", b"b")) != encode(b"a", b"b")
    assert encode() == b""
    assert encode(b"") == bytes(8)
    assert encode(b"ab", b"") == b"\0\0\0\0\0\0\0\2ab" + bytes(8)


@given(st.text(st.characters(max_codepoint=127), max_size=20), FIELDS)
def test_a_digest_is_sha_256_over_domain_and_fields(domain: str, fields: list[bytes]) -> None:
    assert digest(domain, *fields) == hashlib.sha256(encode(domain.encode(), *fields)).digest()


def test_domain_and_first_field_cannot_trade_bytes() -> None:
    assert len({digest("ab", b"c"), digest("a", b"bc"), digest("abc"), digest("abc", b"")}) == 4


def test_a_domain_is_ascii() -> None:
    with pytest.raises(UnicodeEncodeError):
        digest("cohortsüm")


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_eight_big_endian_bytes(value: int) -> None:
    assert int.from_bytes(number(value), "big") == value
    assert len(number(value)) == 8


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_number_outside_64_bits_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        number(value)
