"""What a peer hears of an error: one gRPC status and one public sentence per class. Details stay in the local log."""

import grpc

from cohortsum.crypto.errors import (
    AuthenticationError,
    CohortsumError,
    CryptoError,
    RemoteProtocolError,
    StoreError,
)

PUBLIC: tuple[tuple[type[CohortsumError], grpc.StatusCode, str], ...] = (
    (AuthenticationError, grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster"),
    (RemoteProtocolError, grpc.StatusCode.FAILED_PRECONDITION, "refused"),
    (CryptoError, grpc.StatusCode.INVALID_ARGUMENT, "refused"),
    (StoreError, grpc.StatusCode.UNAVAILABLE, "try again later"),
    (CohortsumError, grpc.StatusCode.INTERNAL, "the coordinator failed; its operator has the details"),
)


def public_fault(error: CohortsumError) -> tuple[grpc.StatusCode, str]:
    """Return status and sentence for an error; the check of a protocol error is public, its details are not."""
    status, sentence = next((status, text) for kind, status, text in PUBLIC if isinstance(error, kind))
    if isinstance(error, RemoteProtocolError):
        sentence = f"{sentence} ({error.check})"
    return status, sentence
