"""HKDF with the whole context: the fixed construction against RFC 5869 as the slow code has it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.derivation import CHANNEL, MASK_KEY, PAIR_MASK, SELF_MASK, derive
from cohortsum.crypto.secret import SecretBytes
from tests import slow_crypto
from tests.vectors.make_own import Texts, load, octets

LABELS = [CHANNEL, MASK_KEY, *PAIR_MASK.values(), *SELF_MASK.values()]
FIELDS = st.lists(st.binary(max_size=40), max_size=4)


def info_of(label: str, fields: list[bytes]) -> bytes:
    """Return the info by hand: every field behind its length."""
    return b"".join(struct.pack(">Q", len(text)) + text for text in [label.encode(), *fields])


@pytest.mark.parametrize("vector", load("rfc5869_hkdf.json", "vectors"), ids=lambda v: v["name"])
@pytest.mark.parametrize("label", LABELS)
def test_the_inputs_of_rfc_5869_under_our_info(vector: Texts, label: str) -> None:
    secret, salt, info = octets(vector, "secret", "salt", "info")
    size = int(vector["length"])
    derived = derive(SecretBytes(secret, "input"), salt, label, info, size=size)
    assert derived.reveal() == slow_crypto.hkdf(salt, secret, info_of(label, [info]), size)


@given(
    st.binary(min_size=1, max_size=80),
    st.binary(min_size=32, max_size=32),
    st.sampled_from(LABELS),
    FIELDS,
    st.sampled_from([32, 44]),
)
def test_derive_is_hkdf_with_the_context_as_salt_and_length_prefixed_info(
    secret: bytes, context: bytes, label: str, fields: list[bytes], size: int
) -> None:
    derived = derive(SecretBytes(secret, "input"), context, label, *fields, size=size)
    assert derived.reveal() == slow_crypto.hkdf(context, secret, info_of(label, fields), size)


def test_every_purpose_has_its_own_label() -> None:
    assert sorted(LABELS) == [
        "cohortsum/v1/chan",
        "cohortsum/v1/mask/data",
        "cohortsum/v1/mask/gate",
        "cohortsum/v1/mask/key",
        "cohortsum/v1/self/data",
        "cohortsum/v1/self/gate",
    ]


def test_secret_context_label_and_every_field_change_the_key() -> None:
    secret, context = SecretBytes(bytes(32), "input"), bytes(32)
    keys = [
        derive(secret, context, CHANNEL, b"1", b"23"),
        derive(SecretBytes(bytes(31) + b"\1", "input"), context, CHANNEL, b"1", b"23"),
        derive(secret, bytes(31) + b"\1", CHANNEL, b"1", b"23"),
        derive(secret, context, MASK_KEY, b"1", b"23"),
        derive(secret, context, CHANNEL, b"12", b"3"),
        derive(secret, context, CHANNEL, b"123"),
        derive(secret, context, CHANNEL, b"1", b"23", b""),
        derive(secret, context, CHANNEL, b"23", b"1"),
        derive(secret, context, CHANNEL),
    ]
    assert len({key.reveal() for key in keys}) == len(keys)


def test_a_derived_key_does_not_show_and_a_wiped_secret_derives_nothing() -> None:
    secret = SecretBytes(bytes(32), "input")
    assert repr(derive(secret, bytes(32), CHANNEL)) == "<cohortsum/v1/chan, 32 secret bytes>"
    secret.wipe()
    with pytest.raises(ValueError, match="wiped"):
        derive(secret, bytes(32), CHANNEL)
