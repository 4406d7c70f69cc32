"""What a peer hears: a status and a public sentence for every error of the tree, and nothing of its details."""

import grpc
import pytest

from cohortsum.coordinator.faults import public_fault, public_hints
from cohortsum.crypto import errors
from cohortsum.crypto.errors import (
    AuthenticationError,
    CohortsumError,
    ConfigurationError,
    DataError,
    LimitError,
    LocalProtocolError,
    NotInThisVersionError,
    PolicyError,
    PublicKeyError,
    RefusedError,
    RemoteProtocolError,
    RoundFailedError,
    ShareError,
    StoreError,
    StudyFileError,
)

DETAILS = "canary 7351946 at /srv/hub"
INTERNAL = (grpc.StatusCode.INTERNAL, "the coordinator failed; its operator has the details")


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (AuthenticationError(DETAILS), grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster"),
        (RemoteProtocolError("R2.4", DETAILS), grpc.StatusCode.FAILED_PRECONDITION, "refused (R2.4)"),
        (PublicKeyError(DETAILS), grpc.StatusCode.INVALID_ARGUMENT, "refused"),
        (ShareError(DETAILS), grpc.StatusCode.INVALID_ARGUMENT, "refused"),
        (RefusedError("for you"), grpc.StatusCode.FAILED_PRECONDITION, "for you"),
        (LimitError("for you", "calls", 2.0), grpc.StatusCode.RESOURCE_EXHAUSTED, "for you"),
        (StoreError(DETAILS), grpc.StatusCode.UNAVAILABLE, "try again later"),
        (LocalProtocolError("R2", DETAILS), *INTERNAL),
        (ConfigurationError(DETAILS), *INTERNAL),
        (StudyFileError(DETAILS), *INTERNAL),
        (NotInThisVersionError(DETAILS, DETAILS), *INTERNAL),
        (DataError(DETAILS), *INTERNAL),
        (PolicyError(DETAILS), *INTERNAL),
        (RoundFailedError(DETAILS), *INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, CohortsumError) else None,
)
def test_an_error_has_its_status_and_a_public_sentence(
    error: CohortsumError, status: grpc.StatusCode, sentence: str
) -> None:
    assert public_fault(error) == (status, sentence)


def test_no_sentence_of_any_error_class_holds_its_details() -> None:
    classes = [
        held for held in vars(errors).values() if isinstance(held, type) and issubclass(held, CohortsumError)
    ]
    assert len(classes) > 10
    for kind in classes:
        if kind in (CohortsumError, errors.ProtocolError, RefusedError, LimitError):
            continue
        takes_two = issubclass(kind, errors.ProtocolError | NotInThisVersionError)
        error = kind("R1", DETAILS) if takes_two else kind(DETAILS)  # type: ignore[call-arg]
        _, sentence = public_fault(error)
        assert "7351946" not in sentence


def test_only_a_limit_that_passes_says_when_to_come_again() -> None:
    assert public_hints(LimitError("for you", "calls", 1.2345)) == (("retry-after-ms", "1235"),)
    assert public_hints(LimitError("for you", "idle", 0.0)) == (("retry-after-ms", "1"),)
    assert public_hints(LimitError("for you", "message_bytes")) == ()
    assert public_hints(RefusedError("for you")) == ()
