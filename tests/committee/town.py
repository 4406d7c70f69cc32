"""A coordinator and the nodes of a committee over real gRPC with mutual TLS, in one event loop; workers are processes."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from cohortsum.coordinator.committee_desk import CommitteeDesk, CommitteePace
from cohortsum.coordinator.service import secure_server
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.client import Caller, Connection
from cohortsum.node.committee.bindings import Bindings
from cohortsum.node.committee.client import CommitteeClient
from cohortsum.protocol.committee import CommitteePlan
from cohortsum.protocol.committee.coordinator import Opened
from cohortsum.protocol.committee.effects import Finished, Identity, Part
from cohortsum.protocol.committee.messages import Opening
from tests.edges.harness import EPOCH, HUB, Loopback
from tests.protocol.consortium import identity_key

Vectors = Callable[[int, CommitteePlan], Sequence[int]]


class CommitteeTown(Loopback):
    """A consortium whose coordinator has a desk for committees; an async context manager.

    Args:
        folder: of this consortium alone.
        vectors: the numbers of a site, by its index, for a plan.
        sites: how many.
        pace: of the desk.
    """

    def __init__(
        self, folder: Path, vectors: Vectors, sites: int = 5, pace: CommitteePace | None = None
    ) -> None:
        super().__init__(folder, sites)
        self.vectors = vectors
        self.desk = CommitteeDesk(identity_key(HUB), pace or CommitteePace(20.0, 20.0))
        self.plans: dict[bytes, CommitteePlan] = {}
        self.heard: dict[int, list[Finished]] = {index: [] for index in range(sites)}

    async def start_server(self) -> None:
        """Listen, with a desk for committees."""
        self._server, self.port = secure_server(
            self.service, self.roll, identity_key(HUB), f"127.0.0.1:{self.port}", committee=self.desk
        )
        await self._server.start()

    async def compute(self, plan: CommitteePlan) -> Opened:
        """Have a plan computed that every site believes to be of the study."""
        self.plans[plan.digest] = plan
        return await self.desk.compute(self.roster, plan, self.study.digest, EPOCH)

    def join(self, index: int) -> None:
        """Start the node of a site."""
        self.tasks[f"site{index}"] = asyncio.create_task(self.follow(index))

    async def vanish(self, index: int) -> None:
        """Let the node of a site vanish, and its worker with it."""
        task = self.tasks.pop(f"site{index}")
        task.cancel()
        await asyncio.wait([task])

    def bindings(self, index: int) -> Bindings:
        """Return the record of a site."""
        return Bindings(self.folder / f"site{index}")

    async def everybody_heard(self, times: int = 1) -> None:
        """Wait until every site has so many results."""
        while any(len(heard) < times for heard in self.heard.values()):
            await asyncio.sleep(0.01)

    async def follow(self, index: int) -> None:
        """Take part as a site until cancelled."""
        site = self.sites[index]
        identity = Identity(self.roster, site.signer, self.study.digest, EPOCH)

        def part_of(opening: Opening) -> Part:
            plan = self.plans.get(opening.plan)
            if plan is None:
                raise ConfigurationError("no such plan follows from the study")
            return Part(plan, tuple(self.vectors(index, plan)) if index in plan.dealers else None)

        def on_result(_: Opening, finished: Finished) -> None:
            self.heard[index].append(finished)

        async with Connection(self.line, site.signer, self.roster) as connection:
            caller = Caller(connection, self.line, site.signer.identity.id)
            await CommitteeClient(caller, identity, part_of, self.bindings(index), on_result, 20.0).follow()
