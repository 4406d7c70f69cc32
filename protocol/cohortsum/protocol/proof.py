"""Reading a transcript: what the signed messages of one round prove to somebody who does not believe whoever kept them.

Every envelope is verified under the pinned roster; h1, h2 and the statement are derived again and compared with what the reader
itself signed. The keeper can withhold messages, and then less is proven, but cannot add or alter any. A survivor set counts as
named only with t signatures over the very statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol import codec
from cohortsum.protocol.approvals import read_approval, supplied
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.context import RoundKey, context_hash, public_inputs
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.messages import Advert, Approval, Consistency, Envelope, MaskedInput, Opening, Shares
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster, SiteId
from cohortsum.protocol.transcript import adverts_digest, shares_digest, statement

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Transcript:
    """The signed messages of one round, as somebody kept them.

    Attributes:
        opening: the coordinator's.
        adverts: of L1, by roster index; where secrets were dealt ahead, those of the attempt that dealt them.
        shares: of U2, by roster index; likewise.
        masked: of whoever sent one, by roster index.
        survivors: roster indices that were named; empty where none were.
        consistency: the R3 signatures.
    """

    opening: Envelope
    adverts: tuple[Envelope, ...]
    shares: tuple[Envelope, ...]
    masked: tuple[Envelope, ...]
    survivors: tuple[int, ...]
    consistency: tuple[Envelope, ...]


@dataclass(frozen=True, slots=True)
class ProvenRound:
    """What a transcript proves to one of its sites.

    Attributes:
        key: which round it was.
        context: 32 bytes.
        masked: digest of the reader's own masked input.
        h1: hash of L1.
        h2: hash of U2.
        counters: what the sites of U1 advertised, by roster index.
        delivered: U2.
        survivors: U3, if t signatures name it or the reader itself signed it; empty otherwise.
        signed: whether the reader's own signature over these survivors, named or not, is among them.
        statement: what was signed; empty where no survivors are listed.
        signatures: the R3 signatures over it, by roster index.
        supplied: the items that the reader had signed to supply.
    """

    key: RoundKey
    context: bytes
    masked: bytes
    h1: bytes
    h2: bytes
    counters: Mapping[int, int]
    delivered: frozenset[int]
    survivors: tuple[int, ...]
    signed: bool
    statement: bytes
    signatures: tuple[tuple[int, bytes], ...] = field(repr=False)
    supplied: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verified:
    """The messages of a transcript, each under its sender's signature and bound to this round.

    Attributes:
        opening: the coordinator's.
        context: 32 bytes; follows from roster, study and opening.
        approvals: by roster index.
        supplies: the items every approving site signed, by roster index.
        adverts: of L1, by roster index; likewise what follows.
        shares: of U2.
        masked: of whoever sent one.
        consistency: the R3 signatures.
        h1: hash of L1.
        h2: hash of U2.
    """

    opening: Opening
    context: bytes
    approvals: Mapping[int, Approval]
    supplies: Mapping[int, frozenset[str]]
    adverts: Mapping[int, tuple[Envelope, Advert]]
    shares: Mapping[int, tuple[Envelope, Shares]]
    masked: Mapping[int, tuple[Envelope, MaskedInput]]
    consistency: Mapping[int, tuple[Envelope, Consistency]]
    h1: bytes
    h2: bytes

    def signatures(self, stands_by: bytes, survivors: Sequence[int]) -> tuple[tuple[int, bytes], ...]:
        """Return the survivors' signatures over a statement, by roster index."""
        return tuple(
            (index, envelope.signature)
            for index, (envelope, message) in self.consistency.items()
            if message.statement == stands_by and index in survivors
        )


def read_transcript(transcript: Transcript, own: int, plan: RoundPlan, roster: Roster) -> ProvenRound:
    """Return what a transcript proves to the site with roster index ``own``.

    Args:
        transcript: as it was handed out.
        own: the reader's roster index.
        plan: of the study it is said to be of.
        roster: as pinned, denied identities included: what they signed then is still what happened.

    Raises:
        RemoteProtocolError: M1 to M4 and R0.1, M3 where the context is not that of this study, T1 where the reader's own masked
            input is missing or was made under another transcript.
    """
    held = verified(transcript, plan, roster)
    context, adverts, masked, h1, h2 = held.context, held.adverts, held.masked, held.h1, held.h2
    mine = masked.get(own)
    if mine is None or (mine[1].adverts_digest, mine[1].shares_digest) != (h1, h2):
        raise RemoteProtocolError(
            "T1", "the transcript lacks this site's own masked input, or is not the one it was made under"
        )
    listed = [masked[index][0] for index in transcript.survivors if index in masked]
    stands_by = statement(context, h1, h2, listed) if listed else b""
    signatures = held.signatures(stands_by, transcript.survivors)
    complete = len(listed) == len(transcript.survivors)
    named = complete and len(signatures) >= threshold(len(adverts))
    signed = complete and own in dict(signatures)
    return ProvenRound(
        held.opening.key,
        context,
        mine[0].digest,
        h1,
        h2,
        {index: message.counter for index, (_, message) in adverts.items()},
        frozenset(held.shares),
        transcript.survivors if named or signed else (),
        signed or (named and own in transcript.survivors),
        stands_by,
        signatures if named else (),
        held.supplies.get(own, frozenset()),
    )


def statement_of(transcript: Transcript, roster: Roster) -> bytes:
    """Return what its survivors sign in R3, derived from messages that its reader has verified already, 32 bytes.

    Raises RemoteProtocolError M2 or M4 for an opening that is none, and R3.1 for a survivor without a masked input.
    """
    opening = codec.decode(transcript.opening.kind, transcript.opening.payload)
    if not isinstance(opening, Opening):
        raise RemoteProtocolError("M4", "a transcript begins with the opening of its round")
    context = transcript.opening.context
    dealt = opening.dealt or context
    held = {roster.sites[SiteId(envelope.sender)]: envelope for envelope in transcript.masked}
    if not set(transcript.survivors) <= held.keys():
        raise RemoteProtocolError("R3.1", "a survivor without a masked input")
    h1 = adverts_digest(dealt, transcript.adverts)
    h2 = shares_digest(dealt, h1, transcript.shares)
    return statement(context, h1, h2, (held[index] for index in transcript.survivors))


def verified(transcript: Transcript, plan: RoundPlan, roster: Roster) -> Verified:
    """Return the messages of a transcript, every signature verified and the context derived again.

    Args:
        transcript: as it was handed out.
        plan: of the first round of the study it is said to be of.
        roster: as pinned, denied identities included.

    Raises:
        RemoteProtocolError: M1 to M4 and R0.1, M3 where the context is not that of this study.
    """
    opening, approvals = read_opening(transcript.opening, plan, roster)
    context = transcript.opening.context
    dealt = opening.dealt or context
    h1 = adverts_digest(dealt, transcript.adverts)
    return Verified(
        opening,
        context,
        approvals,
        {index: supplied(approval, plan) for index, approval in approvals.items()},
        _opened(transcript.adverts, Advert, dealt, roster),
        _opened(transcript.shares, Shares, dealt, roster),
        _opened(transcript.masked, MaskedInput, context, roster),
        _opened(transcript.consistency, Consistency, context, roster),
        h1,
        shares_digest(dealt, h1, transcript.shares),
    )


def read_opening(
    envelope: Envelope, plan: RoundPlan, roster: Roster
) -> tuple[Opening, Mapping[int, Approval]]:
    """Return an opening and its approvals by roster index, every signature verified and the context derived again.

    Args:
        envelope: the coordinator's.
        plan: of the first round of the study it is said to be of.
        roster: as pinned.

    Raises:
        RemoteProtocolError: M1 to M4 and R0.1, M3 where the context is not that of this study.
    """
    context = envelope.context
    opening = open_envelope(envelope, Opening, context, roster, Role.COORDINATOR)
    digests = [held.digest for held in opening.approvals]
    approvals = _approvals(opening.approvals, plan, roster)
    batch = (opening.ahead, opening.dealt, opening.slot)
    meant = opening.plan or plan.digest  # of an iteration, whose parameters the reader need not know any more
    inputs = public_inputs(meant, digests, opening.survivors, opening.earlier, *batch)
    if context != context_hash(plan.roster_digest, plan.study_digest, opening.key, plan.epoch, inputs):
        raise RemoteProtocolError("M3", "the context is that of another study, version or round")
    return opening, approvals


def _approvals(envelopes: Sequence[Envelope], plan: RoundPlan, roster: Roster) -> Mapping[int, Approval]:
    """Return the approvals by roster index; raises RemoteProtocolError (M1 to M4, R0.1) also where their order is another."""
    approvals: dict[int, Approval] = {}
    for envelope in envelopes:
        index, approval = read_approval(envelope, plan, roster)
        if approvals and index <= max(approvals):
            raise RemoteProtocolError("R0.1", "approvals must come by roster index, once each")
        approvals[index] = approval
    return approvals


def _opened(
    envelopes: tuple[Envelope, ...], expected: type[M], context: bytes, roster: Roster
) -> dict[int, tuple[Envelope, M]]:
    """Return envelopes and messages by roster index; every signature is verified."""
    held: dict[int, tuple[Envelope, M]] = {}
    for envelope in envelopes:
        message = open_envelope(envelope, expected, context, roster, Role.SITE)
        held[roster.sites[SiteId(envelope.sender)]] = (envelope, message)
    return held
