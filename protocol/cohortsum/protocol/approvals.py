"""Approvals: a site's signed yes to one study under one roster, with what it supplies.

An approval is bound to study and roster, not to a round, and holds yes or no per supply item, never a number. From the
approvals of a round every site works out by itself which blocks travel.
"""

from collections.abc import Mapping, Sequence

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.protocol.envelope import Signer, open_envelope
from cohortsum.protocol.messages import Approval, Envelope, Kind, NotTakingPart, Regimen
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster, SiteId

APPROVAL = "cohortsum/v1/approval"


def approval_context(study_digest: bytes, roster_digest: bytes) -> bytes:
    """Return the digest that stands in the place of a round's context."""
    return digest(APPROVAL, study_digest, roster_digest)


def approve(signer: Signer, plan: RoundPlan, regimen: Regimen, supplies: frozenset[str]) -> Envelope:
    """Return a site's signed approval of the study behind ``plan``; raises LocalProtocolError for items it lacks."""
    if not supplies <= set(plan.items):
        raise LocalProtocolError("R0.1", "an approval names items that the study does not")
    bits = sum(1 << place for place, item in enumerate(plan.items) if item in supplies)
    approval = Approval(
        plan.study_digest, plan.roster_digest, regimen, bits.to_bytes(_bitmap_bytes(plan), "little")
    )
    return signer.sign(approval_context(plan.study_digest, plan.roster_digest), approval)


def decline(signer: Signer, plan: RoundPlan) -> Envelope:
    """Return a site's signed `not taking part`; the same bytes whatever the reason."""
    message = NotTakingPart(plan.study_digest, plan.roster_digest)
    return signer.sign(approval_context(plan.study_digest, plan.roster_digest), message)


def read_answer(envelope: Envelope, plan: RoundPlan, roster: Roster) -> tuple[int, Approval | None]:
    """Return roster index and approval, or None for a site that stays out; raises like `read_approval`."""
    if envelope.kind is Kind.NOT_TAKING_PART:
        context = approval_context(plan.study_digest, plan.roster_digest)
        open_envelope(envelope, NotTakingPart, context, roster, Role.SITE)
        return roster.sites[SiteId(envelope.sender)], None
    return read_approval(envelope, plan, roster)


def read_approval(envelope: Envelope, plan: RoundPlan, roster: Roster) -> tuple[int, Approval]:
    """Return roster index and approval; raises RemoteProtocolError (M1 to M4, R0.1) unless it fits study and roster."""
    context = approval_context(plan.study_digest, plan.roster_digest)
    approval = open_envelope(envelope, Approval, context, roster, Role.SITE)
    if (approval.study_digest, approval.roster_digest) != (plan.study_digest, plan.roster_digest):
        raise RemoteProtocolError("R0.1", f"{envelope.sender} approved another study or roster")
    bits = int.from_bytes(approval.supplies, "little")
    if len(approval.supplies) != _bitmap_bytes(plan) or bits >> len(plan.items):
        raise RemoteProtocolError("R0.1", f"{envelope.sender} supplies something the study does not name")
    return roster.sites[SiteId(envelope.sender)], approval


def supplied(approval: Approval, plan: RoundPlan) -> frozenset[str]:
    """Return the items that an approval says yes to."""
    bits = int.from_bytes(approval.supplies, "little")
    return frozenset(item for place, item in enumerate(plan.items) if bits >> place & 1)


class ApprovalBook:
    """The approvals of one study that were read before: each signature is verified once, not in every attempt.

    Sites that supply the same share one set: of thousands of outcomes and hundreds of sites there are few different ones.

    Args:
        plan: the study's plan.
        roster: its roster.
    """

    def __init__(self, plan: RoundPlan, roster: Roster) -> None:
        self._plan, self._roster = plan, roster
        self._read: dict[bytes, tuple[int, frozenset[str]]] = {}
        self._sets: dict[bytes, frozenset[str]] = {}

    def read(self, envelopes: Sequence[Envelope]) -> Mapping[int, frozenset[str]]:
        """Return what every approving site supplies, by roster index.

        Raises RemoteProtocolError (M1 to M4, R0.1) unless every envelope is a true approval and they come by roster
        index, once each.
        """
        supplies: dict[int, frozenset[str]] = {}
        for envelope in envelopes:
            key = envelope.digest
            if key not in self._read:
                index, approval = read_approval(envelope, self._plan, self._roster)
                if approval.supplies not in self._sets:
                    self._sets[approval.supplies] = supplied(approval, self._plan)
                self._read[key] = index, self._sets[approval.supplies]
            index, items = self._read[key]
            if supplies and index <= max(supplies):
                raise RemoteProtocolError("R0.1", "approvals must come by roster index, once each")
            supplies[index] = items
        return supplies


def _bitmap_bytes(plan: RoundPlan) -> int:
    return (len(plan.items) + 7) // 8
