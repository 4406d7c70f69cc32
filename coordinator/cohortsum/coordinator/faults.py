"""What a peer hears of an error: one gRPC status and one public sentence per class. Details stay in the local log."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc
import structlog

from cohortsum.coordinator.callers import Context
from cohortsum.coordinator.metrics import Tally
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

PUBLIC: tuple[tuple[type[CohortsumError], grpc.StatusCode, str], ...] = (
    (AuthenticationError, grpc.StatusCode.PERMISSION_DENIED, "not an identity of the roster"),
    (RemoteProtocolError, grpc.StatusCode.FAILED_PRECONDITION, "refused"),
    (RefusedError, grpc.StatusCode.FAILED_PRECONDITION, "refused"),
    (LimitError, grpc.StatusCode.RESOURCE_EXHAUSTED, "too much"),
    (CryptoError, grpc.StatusCode.INVALID_ARGUMENT, "refused"),
    (StoreError, grpc.StatusCode.UNAVAILABLE, "try again later"),
    (CohortsumError, grpc.StatusCode.INTERNAL, "the coordinator failed; its operator has the details"),
)

log: structlog.stdlib.BoundLogger = structlog.get_logger()

SAID = frozenset({"A1", "S1", "W1"})
"""Checks whose sentence is about the study or the versions alone, and helps whoever reads it."""


def public_fault(error: CohortsumError) -> tuple[grpc.StatusCode, str]:
    """Return status and sentence for an error; the check of a protocol error is public, its details are not."""
    status, sentence = next((status, text) for kind, status, text in PUBLIC if isinstance(error, kind))
    if isinstance(error, RemoteProtocolError):
        sentence = error.message if error.check in SAID else f"{sentence} ({error.check})"
    if isinstance(error, RefusedError | LimitError):
        sentence = error.message
    return status, sentence


def public_hints(error: CohortsumError) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata of a refusal: after how many milliseconds the same call may be taken."""
    if not isinstance(error, LimitError) or error.retry_after_s is None:
        return ()
    return ((RETRY_AFTER, str(max(1, math.ceil(error.retry_after_s * 1000)))),)


@asynccontextmanager
async def guarded(call: str, context: Context, tally: Tally) -> AsyncGenerator[None]:
    """Turn our errors into a status and a public sentence, and log and count what happened."""
    try:
        yield
    except CohortsumError as error:
        tally.note(call, error)
        log.warning("call.refused", call=call, error=type(error).__name__, sentence=error.message)
        await context.abort(*public_fault(error), public_hints(error))
    except OSError as error:  # the spool's disk
        log.error("call.failed", call=call, error=type(error).__name__, errno=error.errno)
        await context.abort(*public_fault(StoreError("the spool's disk refuses a write")))
