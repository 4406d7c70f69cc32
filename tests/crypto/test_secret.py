"""Secrets do not show themselves, whatever prints, stores or compares them."""

import base64
import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey

CONTENT = b"correct horse battery staple 12!"


def forms(content: bytes) -> list[str]:
    """Return the shapes in which bytes usually leak."""
    return [
        content.decode("latin-1"),
        content.hex(),
        content.hex(" "),
        base64.b64encode(content).decode(),
        str(list(content))[1:-1],
        str(int.from_bytes(content, "big")),
        str(int.from_bytes(content, "little")),
    ]


def shows(text: str) -> bool:
    return any(form in text for form in forms(CONTENT)) or "battery" in text


def secret() -> SecretBytes:
    return SecretBytes(CONTENT, "mask seed")


@dataclass(frozen=True, slots=True)
class Holder:
    held: SecretBytes


def test_the_watchman_sees_what_shows() -> None:
    assert all(shows(f"key: {form}") for form in forms(CONTENT))
    assert shows(repr(bytearray(CONTENT)))


def test_no_way_of_printing_shows_the_content() -> None:
    held = secret()
    printed = [
        repr(held),
        str(held),
        f"{held}",
        f"{held!r}",
        f"{held!s}",
        f"{held!a}",
        repr([held]),
        str({1: held}),
    ]
    printed += [ascii(held), repr(Holder(held)), format(held)]
    assert not any(map(shows, printed))
    assert repr(held) == "<mask seed, 32 secret bytes>"
    with pytest.raises(TypeError) as error:
        format(held, ">40")
    assert not shows(str(error.value))


def test_neither_log_nor_traceback_with_locals_shows_the_content(caplog: pytest.LogCaptureFixture) -> None:
    def fail(held: SecretBytes) -> None:
        raise RuntimeError(f"no use for {held}")

    held = secret()
    logging.getLogger("cohortsum.test").warning("drawn: %s", held, extra={"held": held})
    with pytest.raises(RuntimeError) as error:
        fail(held)
    shown = "".join(traceback.TracebackException.from_exception(error.value, capture_locals=True).format())
    assert "<mask seed, 32 secret bytes>" in shown
    assert "<mask seed, 32 secret bytes>" in caplog.text
    assert not shows(shown + caplog.text)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_never_pickled(protocol: int) -> None:
    for held in (secret(), Holder(secret()), [secret()]):
        with pytest.raises(TypeError, match="never pickled or copied"):
            pickle.dumps(held, protocol)


def test_a_secret_is_never_copied_or_turned_into_json() -> None:
    held = secret()
    with pytest.raises(TypeError, match="never pickled or copied"):
        copy.copy(held)
    with pytest.raises(TypeError, match="never pickled or copied"):
        copy.deepcopy([held])
    with pytest.raises(TypeError, match="never pickled or copied"):
        asdict(Holder(held))
    with pytest.raises(TypeError) as error:
        json.dumps({"held": held})
    assert not shows(str(error.value))
    assert not shows(json.dumps({"held": held}, default=str))


def test_a_secret_cannot_be_read_as_a_sequence_or_hold_more() -> None:
    held = secret()
    readers: list[Callable[[Any], object]] = [bytes, list, bytearray, memoryview, vars, iter]
    for read in readers:
        with pytest.raises(TypeError):
            read(held)
    with pytest.raises(AttributeError):
        held.note = CONTENT  # type: ignore[attr-defined]


@given(st.binary(min_size=1, max_size=40), st.binary(min_size=1, max_size=40))
def test_secrets_are_equal_exactly_if_their_content_is(one: bytes, other: bytes) -> None:
    assert (SecretBytes(one, "a") == SecretBytes(other, "b")) == (one == other)
    assert (SecretBytes(one, "a") != SecretBytes(other, "b")) == (one != other)
    assert SecretBytes(one, "a") == SecretBytes(bytearray(one), "a")
    assert SecretBytes(one, "a").reveal() == one


def test_a_secret_equals_no_bytes_and_has_no_hash() -> None:
    held: object = secret()
    assert held != CONTENT
    assert held != bytearray(CONTENT)
    with pytest.raises(TypeError, match="unhashable"):
        hash(held)


def test_a_secret_is_a_copy_of_what_it_was_made_from() -> None:
    source = bytearray(CONTENT)
    held = SecretBytes(source, "mask seed")
    source[:] = bytes(len(source))
    assert held.reveal() == CONTENT
    assert len(held) == len(CONTENT)


def test_a_wiped_secret_is_gone_for_good() -> None:
    held, other = secret(), secret()
    held.wipe()
    held.wipe()
    assert len(held) == 0
    assert repr(held) == "<mask seed, 0 secret bytes>"
    assert held != other
    assert other.reveal() == CONTENT
    assert all(not getattr(held, slot) for slot in SecretBytes.__slots__ if slot != "_kind")
    with pytest.raises(ValueError, match="this mask seed has been wiped"):
        held.reveal()


def test_private_keys_are_not_pickled_and_do_not_show() -> None:
    for key in (AgreementKey(secret()), IdentityKey(secret())):
        assert not shows(f"{key} {key!r} {[key]}")
        with pytest.raises(TypeError):
            pickle.dumps(key)
