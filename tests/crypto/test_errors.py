"""The error tree is the one its module draws, and its bases stay bases."""

import inspect
import re

import pytest

from cohortsum.crypto import errors
from cohortsum.crypto.errors import (
    AuthenticationError,
    CohortsumError,
    ConfigurationError,
    LocalProtocolError,
    NotInThisVersionError,
    ProtocolError,
    RemoteProtocolError,
    refuse,
)


def drawn() -> dict[str, str]:
    """Return the base of every class in the drawing, by indentation."""
    bases: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.search(r"(?<=[ ])([A-Z]\w+Error)\b", line)
        if found is None or line[:4].strip():
            continue
        while above and above[-1][0] >= found.start():
            above.pop()
        if above:
            bases[found.group(1)] = above[-1][1]
        above.append((found.start(), found.group(1)))
    return bases


CLASSES = [
    member
    for _, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, CohortsumError) and member.__module__ == errors.__name__
]
PLAIN = [member for member in CLASSES if not issubclass(member, (ProtocolError, NotInThisVersionError))]


def test_the_tree_is_the_one_that_is_drawn() -> None:
    tree = {
        member.__name__: member.__bases__[0].__name__ for member in CLASSES if member is not CohortsumError
    }
    assert len(tree) >= 15
    assert drawn() == tree
    assert all(len(member.__bases__) == 1 for member in CLASSES)


def test_the_base_refuses_to_be_raised() -> None:
    with pytest.raises(TypeError, match="subclasses"):
        raise CohortsumError("something is wrong")


def test_a_protocol_error_is_local_or_remote() -> None:
    with pytest.raises(TypeError, match="LocalProtocolError or RemoteProtocolError"):
        raise ProtocolError("R1.1", "something is wrong")


@pytest.mark.parametrize("kind", [member for member in PLAIN if member is not CohortsumError])
def test_every_other_error_says_its_message(kind: type[CohortsumError]) -> None:
    error = kind("file roster.yaml, field version: expected 2")
    assert str(error) == error.message == "file roster.yaml, field version: expected 2"


@pytest.mark.parametrize("kind", [LocalProtocolError, RemoteProtocolError])
def test_a_protocol_error_names_its_check(kind: type[LocalProtocolError | RemoteProtocolError]) -> None:
    error = kind("R2.4", "the ciphertext is another one")
    assert error.check == "R2.4"
    assert str(error) == error.message == "R2.4: the ciphertext is another one"


def test_only_a_remote_error_accuses() -> None:
    assert RemoteProtocolError("R2.7", "wrong shares").accused == ""
    assert RemoteProtocolError("R2.7", "wrong shares", "amc").accused == "amc"
    assert not hasattr(LocalProtocolError("R2.7", "wrong shares"), "accused")


def test_an_authentication_error_says_the_same_whatever_failed() -> None:
    assert str(AuthenticationError()) == "authentication failed"


def test_a_feature_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError) as error:
        refuse("privacy.noise: gaussian", "set privacy.noise to none")
    assert isinstance(error.value, NotInThisVersionError)
    assert error.value.feature == "privacy.noise: gaussian"
    assert str(error.value) == "privacy.noise: gaussian: not in this version; set privacy.noise to none"
