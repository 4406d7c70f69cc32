"""What a site may ask back: every masked input it ever signed, and the signed messages of a round it took part in.

A site that was restored from an older copy finds out from the first, and rebuilds its ledger from the second. Nothing here
is about another site's data: transcripts hold public keys, commitments, digests and signatures.
"""

from sqlalchemy import and_, or_, select

from cohortsum.coordinator.store import MessageRow, RoundRow, Store
from cohortsum.crypto.errors import RefusedError
from cohortsum.protocol.codec import decode, packet_from_bytes
from cohortsum.protocol.messages import Envelope, Kind, Opening
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import Roster, SiteId

DEALING = (Kind.ADVERT.name, Kind.SHARES.name)
"""Messages that an attempt whose secrets were dealt ahead has from the attempt that dealt them."""


def trail_of(store: Store, site: str) -> tuple[Envelope, ...]:
    """Return every masked input of a site, the oldest first."""
    query = (
        select(MessageRow.packet)
        .where(MessageRow.sender == site, MessageRow.kind == Kind.MASKED.name)
        .order_by(MessageRow.received)
    )
    with store.transaction() as session:
        return tuple(packet_from_bytes(packet).envelope for packet in session.scalars(query))


def study_of_round(store: Store, context: bytes) -> bytes:
    """Return the digest of the study that a round belongs to; raises RefusedError for an unknown one."""
    with store.transaction() as session:
        row = session.get(RoundRow, context.hex())
        if row is None:
            raise RefusedError("no such round at this coordinator")
        return bytes.fromhex(row.study)


def transcript_of(store: Store, context: bytes, site: str, roster: Roster) -> Transcript:
    """Return the transcript of a round for one of its sites; raises RefusedError for anybody else."""
    transcript = kept_transcript(store, context, roster)
    if site not in {envelope.sender for envelope in transcript.masked}:
        raise RefusedError("this site sent no masked input in that round")
    return transcript


def kept_transcript(store: Store, context: bytes, roster: Roster) -> Transcript:
    """Return the transcript of a round as it is kept; ``roster`` is the study's, denied identities included."""
    with store.transaction() as session:
        row = session.get_one(RoundRow, context.hex())
        if not row.opening:
            raise RefusedError("a committee answered there; its runs leave no transcript")
        opening = packet_from_bytes(row.opening).envelope
        message = decode(opening.kind, opening.payload)
        dealt = message.dealt.hex() if isinstance(message, Opening) else ""
        rows = session.scalars(
            select(MessageRow).where(
                or_(
                    MessageRow.context == row.context,
                    and_(MessageRow.context == dealt, MessageRow.kind.in_(DEALING)),
                )
            )
        )
        kinds: dict[str, dict[int, Envelope]] = {}
        for held in rows:
            if held.packet:
                index = roster.sites[SiteId(held.sender)]
                kinds.setdefault(held.kind, {})[index] = packet_from_bytes(held.packet).envelope
        named = [roster.sites[SiteId(name)] for name in row.survivors.split(",") if row.survivors]

    def of(kind: Kind) -> tuple[Envelope, ...]:
        return tuple(envelope for _, envelope in sorted(kinds.get(kind.name, {}).items()))

    return Transcript(
        opening,
        of(Kind.ADVERT),
        of(Kind.SHARES),
        of(Kind.MASKED),
        tuple(sorted(named)),
        of(Kind.CONSISTENCY),
    )
