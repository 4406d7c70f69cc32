"""Whatever a liar does, the evidence that the honest keep accuses the liar or nobody."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.protocol.messages import Kind, Packet
from tests.evidence.stories import Keeping, Watched, passing_on
from tests.evidence.test_site_lies import LIAR, OTHER
from tests.protocol.lies import VICTIM, N, opened

DEEDS = ("as it should", "something else", "both", "both, the lie first", "nothing", "twice the same")


@given(st.fixed_dictionaries({kind: st.sampled_from(DEEDS) for kind in OTHER}))
@settings(max_examples=30)
def test_whatever_one_site_sends_nobody_else_is_accused(deeds: dict[Kind, str]) -> None:
    played = Watched(N)

    def to_coordinator(index: int, packet: Packet) -> Packet | None:
        kind = packet.envelope.kind
        if index != LIAR or kind not in deeds:
            return packet
        lie = Packet(
            played.signers[index].sign(packet.envelope.context, OTHER[kind](opened(packet))),
            packet.attachments,
        )
        sent = {
            "as it should": [packet],
            "something else": [lie],
            "both": [packet, lie],
            "both, the lie first": [lie, packet],
            "nothing": [],
            "twice the same": [packet, packet],
        }[deeds[kind]]
        played.queue.extend(("coordinator", index, one) for one in sent)
        return None

    played.to_coordinator = to_coordinator
    played.run()
    assert {accused for accused, _ in played.found} <= {f"site{LIAR}"}
    if set(deeds.values()) <= {"as it should", "twice the same"}:
        assert played.kept == []


@given(
    st.sampled_from([Kind.ADVERTS, Kind.DELIVERY, Kind.SURVIVORS, Kind.QUORUM]),
    st.lists(st.integers(0, N - 1), max_size=N + 1),
    st.booleans(),
)
@settings(max_examples=40)
def test_whatever_a_coordinator_passes_on_no_site_is_accused(
    kind: Kind, which: list[int], besides: bool
) -> None:
    """Any selection of what sites truly sent, in any order, in the place of the true message or after it."""
    played = Watched(N)

    def lie(played: Keeping, packet: Packet) -> Packet:
        told = passing_on(lambda held: tuple(held[place] for place in which if place < len(held)))(
            played, packet
        )
        attached = packet.attachments
        return Packet(told.envelope, tuple(attached[place] for place in which if place < len(attached)))

    def to_site(index: int, packet: Packet) -> Packet | None:
        if index != VICTIM or packet.envelope.kind is not kind:
            return packet
        if besides:
            played.queue.append(("site", index, packet))
        played.queue.append(("site", index, lie(played, packet)))
        return None

    played.to_site = to_site
    played.run()
    assert {accused for accused, _ in played.found} <= {"hub"}
