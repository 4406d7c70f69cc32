"""Decoders of what comes over the line: messages of every kind, packets, and what the service's calls carry."""

from datetime import UTC, datetime, timedelta
from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Wire

from cohortsum.coordinator.client import status_from_wire
from cohortsum.coordinator.release_wire import (
    decision_from_wire,
    decision_to_wire,
    list_from_wire,
    list_to_wire,
)
from cohortsum.coordinator.spool import Upload
from cohortsum.coordinator.status import StudyStatus
from cohortsum.crypto.certificates import TlsCredentials, certified_name, certify, check_certified
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol import codec
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import Kind, Message
from cohortsum.protocol.proof import ProvenRound, Transcript, read_transcript
from cohortsum.study.definition.withdrawal import Withdrawal, verify_withdrawal
from cohortsum.study.release.decision import Decision
from cohortsum.wire.v1 import service_pb2
from tests.fuzz.target import Reader, Target, decoder, same, scratch
from tests.protocol.consortium import identity_key, plan_of, protection, roster_of

WORDS = 64
"""Of the vector that uploads are tried with."""
SITES = 4
W = TypeVar("W", bound=Wire)


def _message(kind: Kind) -> Target:
    def decode(data: bytes) -> Message:
        return codec.decode(kind, data)

    def look(data: bytes, value: Message) -> None:
        assert codec.encode(value) == (kind, data)

    name = f"message-{kind.name.lower().replace('_', '-')}"
    return Target(name, decoder(decode, look, RemoteProtocolError), examples=40)


def _parsed(held: W, data: bytes) -> W:
    """Fill a request as gRPC does before any code of ours runs; what gRPC refuses is refused."""
    try:
        held.ParseFromString(data)
    except DecodeError:
        raise RemoteProtocolError("M2", "gRPC refuses this itself") from None
    held.DiscardUnknownFields()
    return held


def _decision(data: bytes) -> Decision:
    held = _parsed(service_pb2.ReleaseDecision(), data)
    decision = decision_from_wire(held)
    assert decision_to_wire(decision) == held
    return decision


def _signed(_data: bytes, decision: Decision) -> None:
    try:
        decision.check(identity_key("checker").public)
    except AuthenticationError:
        return


def _status(data: bytes) -> StudyStatus:
    return status_from_wire(_parsed(service_pb2.StudyStatus(), data))


def _releases(data: bytes) -> None:
    held = _parsed(service_pb2.ListReleasesReply(), data)
    assert list_to_wire(list_from_wire(held)) == held


def _withdrawn(data: bytes) -> None:
    held = _parsed(service_pb2.StudyWithdrawal(), data)
    verify_withdrawal(
        Withdrawal(held.digest, held.statistician, held.signature), held.statistician, roster_of(SITES)
    )


def _transcript(data: bytes) -> ProvenRound:
    held = _parsed(service_pb2.Transcript(), data)
    adverts, shares, masked, consistency = (
        tuple(map(codec.envelope_from_wire, part))
        for part in (held.adverts, held.shares, held.masked, held.consistency)
    )
    opening = codec.envelope_from_wire(held.opening)
    transcript = Transcript(opening, adverts, shares, masked, tuple(held.survivors), consistency)
    return read_transcript(transcript, 0, plan_of(SITES, protection()), roster_of(SITES))


def _upload(data: bytes) -> None:
    """Take chunks in, of any length and with a true or a false digest each; a whole upload has every word on disk."""
    reader = Reader(data)
    path = scratch() / "0.words"
    upload = Upload(path, WORDS, SecretBytes(bytes(32), "spool key"))
    hasher, told = words_hasher(8 * WORDS), 0
    try:
        while not reader.empty:
            lie, words = reader.byte() == 1, reader.take(255)
            hasher.update(words)
            told += len(words)
            upload.add(words, bytes(32) if lie else hasher.digest())
        assert upload.finish() == hasher.digest()
        upload.rename()
        assert told == 8 * WORDS == path.stat().st_size - 16
    finally:
        upload.drop()
        path.unlink(missing_ok=True)


def certificate() -> TlsCredentials:
    """Return a certificate of a site."""
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    return certify(identity_key("site0"), "site0", moment, timedelta(days=30))


def _certificate(data: bytes) -> str:
    """Ask whose certificate this is, as the server does of every caller."""
    name = certified_name(data)
    check_certified(data, "site0", identity_key("site0").public)
    return name


TARGETS = (
    *map(_message, Kind),
    Target("packet", decoder(codec.packet_from_bytes, same(codec.packet_to_bytes), RemoteProtocolError)),
    Target("decision-call", decoder(_decision, _signed, RemoteProtocolError)),
    Target("status-reply", decoder(_status)),
    Target("releases-reply", decoder(_releases)),
    Target("withdrawal-call", decoder(_withdrawn)),
    Target("transcript-reply", decoder(_transcript), size=16384, examples=30),
    Target("upload", decoder(_upload, errors=RemoteProtocolError), size=1024),
    Target("certificate", decoder(_certificate), size=2048),
)
