"""A transcript as the wire carries it: to whoever took part in its round, and to a trustee.

Reading checks the form of every envelope and nothing else: what a transcript proves is `proof`'s and `witness`'s to say.
"""

from cohortsum.protocol.codec import envelope_from_wire, envelope_to_wire
from cohortsum.protocol.proof import Transcript
from cohortsum.wire.v1 import service_pb2


def transcript_to_wire(transcript: Transcript) -> service_pb2.Transcript:
    """Return the protobuf form of a transcript."""
    return service_pb2.Transcript(
        opening=envelope_to_wire(transcript.opening),
        adverts=map(envelope_to_wire, transcript.adverts),
        shares=map(envelope_to_wire, transcript.shares),
        masked=map(envelope_to_wire, transcript.masked),
        survivors=transcript.survivors,
        consistency=map(envelope_to_wire, transcript.consistency),
    )


def transcript_from_wire(held: service_pb2.Transcript) -> Transcript:
    """Return the transcript behind its protobuf form; raises RemoteProtocolError M2."""
    return Transcript(
        envelope_from_wire(held.opening),
        tuple(map(envelope_from_wire, held.adverts)),
        tuple(map(envelope_from_wire, held.shares)),
        tuple(map(envelope_from_wire, held.masked)),
        tuple(held.survivors),
        tuple(map(envelope_from_wire, held.consistency)),
    )
