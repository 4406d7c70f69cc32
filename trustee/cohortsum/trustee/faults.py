"""What the coordinator hears of an error: one gRPC status and one sentence. Only the coordinator calls, so a check is said in full."""

import grpc

from cohortsum.crypto.errors import (
    AuthenticationError,
    CohortsumError,
    CryptoError,
    LimitError,
    RefusedError,
    RemoteProtocolError,
    StoreError,
)
from cohortsum.protocol.limits import RETRY_AFTER

FAILED = "the trustee failed; its admin has the details"
PUBLIC: tuple[tuple[type[CohortsumError], grpc.StatusCode, str], ...] = (
    (AuthenticationError, grpc.StatusCode.PERMISSION_DENIED, "not the coordinator of the roster"),
    (RemoteProtocolError, grpc.StatusCode.FAILED_PRECONDITION, ""),
    (RefusedError, grpc.StatusCode.FAILED_PRECONDITION, ""),
    (LimitError, grpc.StatusCode.RESOURCE_EXHAUSTED, ""),
    (CryptoError, grpc.StatusCode.INVALID_ARGUMENT, "refused"),
    (
        StoreError,
        grpc.StatusCode.UNAVAILABLE,
        "the trustee cannot write its ledger; its admin has the details",
    ),
    (CohortsumError, grpc.StatusCode.INTERNAL, FAILED),
)
"""Class, status, and the sentence; an empty one stands for the error's own."""


def public_fault(error: CohortsumError) -> tuple[grpc.StatusCode, str]:
    """Return status and sentence for an error."""
    status, sentence = next((status, text) for kind, status, text in PUBLIC if isinstance(error, kind))
    return status, sentence or error.message


def public_hints(error: CohortsumError) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata of a refusal: after how many milliseconds the same call may be taken."""
    if not isinstance(error, LimitError) or error.retry_after_s is None:
        return ()
    return ((RETRY_AFTER, str(max(1, round(error.retry_after_s * 1000)))),)
