"""The coordinator's desk without a line: boxes that fill up, sites that ask about everything, studies that are over."""

import asyncio

import pytest

from cohortsum.coordinator.committee_desk import BOX_BYTES, MOST_BOXES, Box, CommitteeDesk, CommitteePace
from cohortsum.crypto.errors import RefusedError, RoundFailedError
from cohortsum.protocol.committee.messages import Kind, Packet, Sealed
from tests.protocol.committee.played import EPOCH, HUB, STUDY, roster_of, table_plan
from tests.protocol.consortium import identity_key

ROSTER = roster_of(5)


def test_a_box_holds_so_much_and_no_more_until_something_is_taken_out() -> None:
    box, large = Box(), Sealed(bytes(32), 0, 1, 0, bytes(BOX_BYTES // 2))
    box.put(large)
    with pytest.raises(RefusedError):
        box.put(large)
    box.drop(list(box.items))
    assert box.size == 0
    box.put(large)


def test_a_site_may_look_at_many_studies_but_not_at_all_there_could_be() -> None:
    async def play() -> None:
        desk, site = CommitteeDesk(identity_key(HUB)), ROSTER.identities["site0"]
        for study in range(MOST_BOXES):
            assert await desk.next(site, bytes([study]), 0, 0.0) == []
        with pytest.raises(RefusedError, match="ask about fewer"):
            await desk.next(site, b"one more", 0, 0.0)
        desk.forget(bytes([7]))
        assert await desk.next(site, b"one more", 0, 0.0) == []
        assert await desk.next(ROSTER.identities["site1"], b"one more", 0, 0.0) == []

    asyncio.run(play())


def test_a_run_that_nobody_answers_ends_with_the_names_and_leaves_nothing_but_its_end() -> None:
    async def play() -> None:
        desk = CommitteeDesk(identity_key(HUB), CommitteePace(0.01, 0.01, attempts=2))
        with pytest.raises(RoundFailedError, match="no key of site0, site2, site3 in time"):
            await desk.compute(ROSTER, table_plan(), STUDY, EPOCH)
        items = await desk.next(ROSTER.identities["site1"], STUDY, 0, 0.0)
        kinds = [item.signed.kind for _, item in items if isinstance(item, Packet)]
        assert kinds == [Kind.END, Kind.END]
        assert len(items) == 2
        last, _ = items[-1]
        assert await desk.next(ROSTER.identities["site1"], STUDY, last, 0.0) == []

    asyncio.run(play())
