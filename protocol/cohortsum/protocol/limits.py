"""How large a message of every call may be, in both directions; the same table for whoever calls and whoever answers.

Sizes follow from what an honest peer can have to say in a consortium of `MAX_SITES` sites:

- *A packet of a site* is greatest when it deals shares ahead: per holder and secret three commitments of 32 bytes, and a sealed
  package of three shares with their tags, for this round and up to `MAX_AHEAD` more: 1000 * 65 * 192 bytes, below 13 MB.
- *A packet for a site* is one payload and its attachments, half of `MAX_MESSAGE_BYTES` each.
- *A committee member's inputs* are one sealed package of every dealer, 200 of 64 KiB; its frames leave in pieces of a megabyte.
- *A study* is its canonical text. *A list* has `MAX_LISTED` entries at most. What has no such bound (result documents, bundles, data
  words) travels in pieces of `MAX_CHUNK_BYTES`.

The caller's side is enforced by gRPC per call (a service configuration, not to be replaced by anything that a name server says); the
answering side has one greatest length in gRPC, and its interceptor holds every call to its own. Nothing is compressed: a few bytes
that unpack to millions are refused by name of their encoding.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cohortsum.protocol.codec import MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES

RETRY_AFTER = "retry-after-ms"
"""Key in the trailing metadata of a refused call: whole milliseconds after which the same call may be taken."""
SERVICE = "cohortsum.wire.v1.Consortium"
COMMITTEE = "cohortsum.wire.v1.Committee"
TRUSTEE = "cohortsum.wire.v1.Trustee"
HEALTH = "grpc.health.v1.Health"
KIB, MIB = 1024, 1024 * 1024

MAX_SUBMIT_BYTES = 16 * MIB
MAX_STUDY_BYTES = 8 * MIB + 64 * KIB
"""Of a signed study on the wire."""
MAX_LISTED = 10_000
"""Studies in one list, the newest."""
MAX_DOCUMENT_BYTES = 1024 * MIB
"""Of a result, item or bundle that comes in pieces."""

QUESTION = KIB
"""A request that holds digests, numbers and one name."""
DONE = KIB
"""A reply that says nothing but that it was taken."""
PIECE = MAX_CHUNK_BYTES + KIB


@dataclass(frozen=True, slots=True)
class Sizes:
    """The greatest message of one call, in bytes, each way; in a stream of every message."""

    request: int
    reply: int


SIZES: Mapping[str, Sizes] = {
    f"/{SERVICE}/ListStudies": Sizes(QUESTION, 2 * MIB),
    f"/{SERVICE}/GetStudy": Sizes(QUESTION, MAX_STUDY_BYTES),
    f"/{SERVICE}/Next": Sizes(QUESTION, MAX_MESSAGE_BYTES),
    f"/{SERVICE}/Submit": Sizes(MAX_SUBMIT_BYTES, DONE),
    f"/{SERVICE}/Upload": Sizes(PIECE, DONE),
    f"/{SERVICE}/GetTrail": Sizes(QUESTION, MAX_MESSAGE_BYTES),
    f"/{SERVICE}/GetTranscript": Sizes(QUESTION, MAX_MESSAGE_BYTES),
    f"/{SERVICE}/SubmitStudy": Sizes(MAX_STUDY_BYTES, DONE),
    f"/{SERVICE}/WithdrawStudy": Sizes(QUESTION, DONE),
    f"/{SERVICE}/GetStatus": Sizes(QUESTION, 16 * MIB),
    f"/{SERVICE}/GetResult": Sizes(QUESTION, PIECE),
    f"/{SERVICE}/ListReleases": Sizes(QUESTION, 16 * MIB),
    f"/{SERVICE}/GetReleaseItem": Sizes(QUESTION, PIECE),
    f"/{SERVICE}/Decide": Sizes(MIB, DONE),
    f"/{SERVICE}/GetBundle": Sizes(QUESTION, PIECE),
    f"/{COMMITTEE}/CommitteeNext": Sizes(QUESTION, 16 * MIB),
    f"/{COMMITTEE}/CommitteeSend": Sizes(2 * MIB, DONE),
    f"/{HEALTH}/Check": Sizes(QUESTION, DONE),
}
"""Every call of the coordinator, by its path."""

TRUSTEE_SIZES: Mapping[str, Sizes] = {
    f"/{TRUSTEE}/Offer": Sizes(MAX_SUBMIT_BYTES, 8 * MIB),
    f"/{TRUSTEE}/Unlock": Sizes(MAX_MESSAGE_BYTES, PIECE),
    f"/{HEALTH}/Check": Sizes(QUESTION, DONE),
}
"""Every call of the trustee. Of an unlock the first message holds a study and a transcript, every other one is a piece."""

MAX_REQUEST_BYTES = max(sizes.request for sizes in SIZES.values())
MAX_REPLY_BYTES = max(sizes.reply for sizes in SIZES.values())

Option = tuple[str, str | int]

COMMON: tuple[Option, ...] = (
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none but "as it is"
    ("grpc.max_metadata_size", 8 * KIB),
    ("grpc.absolute_max_metadata_size", 16 * KIB),
)


def asked_to_wait_s(metadata: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Return after how many seconds a refused call may be taken, by its trailing metadata; None where they do not say so."""
    said = [value for key, value in metadata if key == RETRY_AFTER]
    if len(said) != 1 or not isinstance(said[0], str) or not re.fullmatch(r"[0-9]{1,9}", said[0]):
        return None
    return int(said[0]) / 1000


def caller_options(served: Mapping[str, Sizes] = SIZES) -> tuple[Option, ...]:
    """Return the options of a channel to the coordinator, or to whoever else serves these calls."""
    calls = [
        {
            "name": [{"service": path.split("/")[1], "method": path.split("/")[2]}],
            "maxRequestMessageBytes": sizes.request,
            "maxResponseMessageBytes": sizes.reply,
        }
        for path, sizes in served.items()
    ]
    return (
        ("grpc.max_send_message_length", max(sizes.request for sizes in served.values())),
        ("grpc.max_receive_message_length", max(sizes.reply for sizes in served.values())),
        ("grpc.service_config", json.dumps({"methodConfig": calls})),
        ("grpc.service_config_disable_resolution", 1),
        *COMMON,
    )


def answering_options(served: Mapping[str, Sizes] = SIZES) -> tuple[Option, ...]:
    """Return the options of a server of these calls that concern the sizes of messages."""
    return (
        ("grpc.max_receive_message_length", max(sizes.request for sizes in served.values())),
        ("grpc.max_send_message_length", max(sizes.reply for sizes in served.values())),
        *COMMON,
    )
