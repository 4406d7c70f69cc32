"""A whole two-key study over three lines: sites, coordinator and trustee, each with keys of its own."""

import asyncio
from functools import partial
from pathlib import Path

from cohortsum.coordinator.locking import RoundLock
from cohortsum.coordinator.trail import kept_transcript
from cohortsum.coordinator.trustee_client import TrusteeClient
from cohortsum.trustee.server import secure_server
from cohortsum.trustee.service import TrusteeService
from tests.edges.harness import HUB
from tests.edges.oracle import check_pooled
from tests.edges.test_two_key import LockedLoopback
from tests.protocol.consortium import identity_key
from tests.trustee.world import TRUSTEE


class Away(LockedLoopback):
    """A consortium whose trustee is reached over gRPC; it begins to serve when a test says so."""

    target = "127.0.0.1:0"

    def make_lock(self) -> RoundLock:
        transcript = partial(kept_transcript, self.store, roster=self.roster)
        client = TrusteeClient(self.target, identity_key(HUB), self.roll)
        return RoundLock(client, self.signed, transcript, 20.0)


def test_a_study_is_opened_by_sites_and_a_trustee_that_is_far_away(tmp_path: Path) -> None:
    async def play() -> None:
        town = Away(tmp_path, 3)
        service = TrusteeService(town.trustee.desk, lambda: town.trustee.roll)
        key = identity_key(TRUSTEE)
        server, port = secure_server(service, lambda: town.trustee.roll, TRUSTEE, key, "127.0.0.1:0")
        town.target = f"127.0.0.1:{port}"
        await server.start()
        async with town:
            town.begin()
            locked = (await town.whole()).document
            assert locked is not None
            check_pooled(locked, range(3))
            (row,) = town.trustee.ledger.of_study(town.study.digest)
            assert row.survivors == (0, 1, 2)
        await server.stop(grace=None)

    asyncio.run(play())
