"""The gRPC edge of committee runs: who is calling, and bytes to items. Everything else is the desk's."""

from collections.abc import Callable

from cohortsum.coordinator.callers import Context, identify
from cohortsum.coordinator.committee_desk import CommitteeDesk, Item
from cohortsum.coordinator.faults import guarded
from cohortsum.coordinator.metrics import Tally
from cohortsum.coordinator.roll import Roll
from cohortsum.crypto.errors import AuthenticationError
from cohortsum.protocol.committee.codec import (
    packet_from_wire,
    packet_to_wire,
    sealed_from_wire,
    sealed_to_wire,
)
from cohortsum.protocol.committee.messages import Sealed
from cohortsum.protocol.roster import Identity, Role
from cohortsum.wire.v1 import committee_pb2, committee_pb2_grpc

MAX_WAIT_S = 30.0


class CommitteeService(committee_pb2_grpc.CommitteeServicer):
    """Serves the sites of one consortium.

    Args:
        desk: the runs.
        roll: returns who may call now.
        tally: counts what is refused.
    """

    def __init__(self, desk: CommitteeDesk, roll: Callable[[], Roll], tally: Tally) -> None:
        self._desk, self._roll, self._tally = desk, roll, tally

    async def CommitteeNext(
        self, request: committee_pb2.CommitteeNextRequest, context: Context
    ) -> committee_pb2.CommitteeNextReply:
        """Return what waits for the caller, waiting for something for a while."""
        async with guarded("CommitteeNext", context, self._tally):
            caller, wait_s = self._caller(context), min(request.wait_ms / 1000, MAX_WAIT_S)
            items = await self._desk.next(caller, request.study, request.after, wait_s)
            return committee_pb2.CommitteeNextReply(items=[_to_wire(*entry) for entry in items])
        raise AssertionError("a refused call was aborted")

    async def CommitteeSend(
        self, request: committee_pb2.CommitteeSendRequest, context: Context
    ) -> committee_pb2.CommitteeSendReply:
        """Take messages and frames of the caller, in their order: frames first, since a result ends its run."""
        async with guarded("CommitteeSend", context, self._tally):
            caller = self._caller(context)
            frames = [sealed_from_wire(held) for held in request.frames]
            packets = [packet_from_wire(held) for held in request.packets]
            for frame in frames:
                self._desk.carry(caller, frame)
            for packet in packets:
                self._desk.submit(caller, packet)
        return committee_pb2.CommitteeSendReply()

    def _caller(self, context: Context) -> Identity:
        identity = identify(context, self._roll().now)
        if identity.role is not Role.SITE:
            raise AuthenticationError
        return identity


def _to_wire(number: int, item: Item) -> committee_pb2.CommitteeItem:
    if isinstance(item, Sealed):
        return committee_pb2.CommitteeItem(number=number, frame=sealed_to_wire(item))
    return committee_pb2.CommitteeItem(number=number, packet=packet_to_wire(item))
