"""When an attempt is closed for good: enough sites have erased their secrets before they answered anything.

With n advertisers, threshold t and at most c liars, n - t + c + 1 tombstones leave at most t - 1 sites, the liars among the
signers included, that could still answer (`ledger.tombstones`). One fewer leaves t, and the round could be opened after all.
What was masked in a closed attempt counts as not made: a retry is bound to nobody.
"""

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.ledger.tombstones import tombstone_quorum
from cohortsum.protocol.messages import Burial, Envelope, Tombstone
from cohortsum.protocol.roster import Role, Roster, SiteId


def read_burial(envelope: Envelope, advertisers: frozenset[int], colluding: int, roster: Roster) -> None:
    """Return if a burial closes its context.

    Args:
        envelope: the coordinator's message; its context is the attempt's.
        advertisers: U1 as the reader was shown it, roster indices.
        colluding: the study's c.
        roster: of the study.

    Raises:
        RemoteProtocolError: M1 to M4, or B4 where fewer than the quorum of distinct advertisers signed a tombstone.
    """
    burial = open_envelope(envelope, Burial, envelope.context, roster, Role.COORDINATOR)
    buried: set[int] = set()
    for stone in burial.tombstones:
        open_envelope(stone, Tombstone, envelope.context, roster, Role.SITE)
        buried.add(roster.sites[SiteId(stone.sender)])
    quorum = tombstone_quorum(len(advertisers), colluding)
    if len(buried & advertisers) < quorum:
        raise RemoteProtocolError(
            "B4", f"{len(buried & advertisers)} tombstones of advertisers, {quorum} close an attempt"
        )
