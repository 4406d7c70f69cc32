"""Decisions and states of items as the wire carries them, in both directions."""

from dataclasses import dataclass

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.study.release.decision import Act, Decision
from cohortsum.wire.v1 import service_pb2


@dataclass(frozen=True, slots=True)
class ItemLine:
    """Where one item stands.

    Attributes:
        item: its name.
        state: a word of `study.release.states.State`.
        digest: of its content; empty for those who may not see it.
        missing: what it still needs before it leaves, in words.
    """

    item: str
    state: str
    digest: bytes
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseList:
    """Where a study and its items stand."""

    state: str
    items: tuple[ItemLine, ...]


def list_to_wire(found: ReleaseList) -> service_pb2.ListReleasesReply:
    """Return a list as the wire carries it."""
    lines = [
        service_pb2.ReleaseLine(item=one.item, state=one.state, digest=one.digest, missing=one.missing)
        for one in found.items
    ]
    return service_pb2.ListReleasesReply(state=found.state, items=lines)


def list_from_wire(held: service_pb2.ListReleasesReply) -> ReleaseList:
    """Return the list that the wire carried."""
    lines = (ItemLine(one.item, one.state, one.digest, tuple(one.missing)) for one in held.items)
    return ReleaseList(held.state, tuple(lines))


def decision_to_wire(decision: Decision) -> service_pb2.ReleaseDecision:
    """Return a signed decision as the wire carries it."""
    return service_pb2.ReleaseDecision(
        study=decision.study,
        item=decision.item,
        digest=decision.digest,
        act=decision.act.value,
        reason=decision.reason,
        remedy=decision.remedy,
        confirmed=decision.confirmed,
        by=decision.by,
        at=decision.at,
        signature=decision.signature,
    )


def decision_from_wire(held: service_pb2.ReleaseDecision) -> Decision:
    """Return the decision that the wire carried, not verified; raises RemoteProtocolError (M2) for an unknown act."""
    try:
        act = Act(held.act)
    except ValueError:
        raise RemoteProtocolError("M2", "a decision with an act that this version does not know") from None
    return Decision(
        held.study,
        held.item,
        held.digest,
        act,
        held.reason,
        held.remedy,
        tuple(held.confirmed),
        held.by,
        held.at,
        held.signature,
    )
