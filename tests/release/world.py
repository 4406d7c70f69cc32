"""A coordinator whose study is over: sums in its store as a round opens them, items in the queue, and nobody connected."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from cohortsum.coordinator.audit_log import AUDIT
from cohortsum.coordinator.course import Course
from cohortsum.coordinator.hub import Hub, Place
from cohortsum.coordinator.item_rows import Review
from cohortsum.coordinator.items import first_items, waits_for, with_items
from cohortsum.coordinator.publish import result_document, write_release
from cohortsum.coordinator.record import OpenedIteration, StudyRecord
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.store import Store, sqlite_url
from cohortsum.protocol.approvals import approve
from cohortsum.protocol.audit import Deed
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.denylist import Denied, DenyList, nobody_denied
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Regimen
from cohortsum.protocol.roster import Identity
from cohortsum.report.document import ResultDocument, from_json
from cohortsum.study.batch import Batch
from cohortsum.study.definition import FrozenStudy, load_roster
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.sums import Integers
from tests.edges.harness import HUB, STUDY, People, roster_yaml, signed_study
from tests.protocol.consortium import identity_key

SITES = 4
SURVIVORS = (0, 1, 3)
"""Of four sites; ``site2`` took part and dropped out."""
AT = "2026-11-30T18:00:00+00:00"
OTHERS = (("chk1", "checker"), ("chk2", "checker"), ("aud1", "auditor"), ("stat2", "statistician"))
ITEMS = ("ages", "bands", "thickness")
COARSER = '{"actions": [{"do": "merge_bins", "variable": "age", "keep_edges": [0, 50, 100]}]}'


def roster_text(version: int) -> bytes:
    """Return a first version with the sites alone, or a second one with checkers, an auditor and a second statistician."""
    first = roster_yaml(SITES)
    if version == 1:
        return first
    return first.replace(b"roster: 1", b"roster: 2") + b"".join(
        f'\n  - {{id: {name}, role: {role}, name: {name}, organisation: test, key: "ed25519:{identity_key(name).public.hex()}"}}'.encode()
        for name, role in OTHERS
    )


ROSTERS = {version: load_roster(roster_text(version), "consortium.yaml") for version in (1, 2)}


def asking(consortium: int = 1, sites: str = "any", version: int = 1) -> str:
    """Return the small study with these checkers."""
    wanted = f"consortium: {consortium}, sites: {sites}"
    return STUDY.replace("consortium: 0, sites: none", wanted).replace("version: 1", f"version: {version}", 1)


def batch_of(index: int) -> Batch:
    people = People.of(index)
    factors = {"dx": people.dx.astype(np.int16)}
    return Batch(len(people.dx), {"age": people.age, "thick": people.thick}, factors)


class World:
    """One coordinator over its folder.

    Attributes:
        hub: as it runs now.
        denied: names whose keys the operator has denied.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.denied = folder, list[str]()
        self.results = folder / "results"

    def roll(self) -> Roll:
        whole = ROSTERS[2].identities
        entries = tuple(Denied(name, whole[name].key, datetime.now(UTC), "left") for name in self.denied)
        consortium = ROSTERS[2].consortium
        deny = DenyList(consortium, 1, entries) if entries else nobody_denied(consortium)
        return Roll(ROSTERS, deny)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["World"]:
        """Start the coordinator, as after a restart."""
        url = sqlite_url(self.folder / "hub.db")
        with closing(Store(url, self.folder / AUDIT)) as self.store, ThreadPoolExecutor(1) as pool:
            self.hub = Hub(self.roll, identity_key(HUB), Place(self.store, self.folder, self.results, pool))
            await self.hub.resume()
            yield self
            await self.hub.close()

    def over(self, text: str, sites: tuple[int, ...] = SURVIVORS) -> FrozenStudy:
        """Put a study into the store whose round has opened over ``sites``, as a runner does."""
        study, signed = signed_study(text)
        plan = plan_study(study, ROSTERS[1])
        record = StudyRecord(self.store, study, ROSTERS[1])
        record.remember(signed, datetime.now(UTC))
        site0 = Signer(ROSTERS[1].identities["site0"], identity_key("site0"))
        opening = approve(site0, plan.round, Regimen("open_data"), frozenset())
        course = Course(plan)
        while not course.over:
            context = sha256(study.digest + bytes([course.iteration])).digest()
            key = RoundKey(study.digest[:16], course.iteration, 1)
            record.attempt_opened(context, key, opening, True)
            sums = sums_of(course.plan, sites)
            if course.plan.round.seen:
                record.iteration_opened(context, range(SITES), sites, sums)
            course.take(OpenedIteration(context, key, tuple(range(SITES)), sites, sums))
        regime = Regime("open_data")
        tables = course.plan.finish(course.sums, course.sites)
        items = first_items(study, tables, cohort_gate(course.plan, tables, course.sums, regime))
        base = result_document(plan, ROSTERS[1], course.opened, regime, names=record.names)
        document = with_items(base, items)
        first = course.opened[0]
        record.computed(first.context, sites, document, first.sums, Review(regime, {}, ""), items)
        write_release(self.results / study.study / f"v{study.version}", document)
        record.wrote()
        record.enter("in review", waits_for(study, document))
        return study

    def identity(self, name: str) -> Identity:
        return ROSTERS[2].identities[name]

    def decision(
        self, by: str, study: FrozenStudy, item: str, act: Act, reason: str = "because", remedy: str = ""
    ) -> Decision:
        """Return a signed decision about an item as it stands now."""
        digest = self.hub.review.standing(study.digest).item(item).item.digest
        confirmed = HUMAN if act is Act.RELEASE else ()
        made = Decision(study.digest, item, digest, act, reason, remedy, confirmed, by, AT)
        return made.sign(identity_key(by))

    async def decide(self, by: str, study: FrozenStudy, item: str, act: Act, remedy: str = "") -> Decision:
        made = self.decision(by, study, item, act, remedy=remedy)
        await self.hub.decide(made)
        return made

    def states(self, study: FrozenStudy) -> dict[str, str]:
        return {
            held.item.name: held.item.state.value for held in self.hub.review.standing(study.digest).items
        }

    def written(self, study: FrozenStudy) -> ResultDocument:
        """Return the document in the results folder, which the CSV files beside it must fit."""
        folder = self.results / study.study / f"v{study.version}"
        document = from_json((folder / "result.json").read_bytes())
        tables = {path.stem for path in folder.glob("results/*.csv")}
        assert tables == {block.analysis for block in document.tables}
        return document

    def deeds(self) -> list[Deed]:
        found = self.store.audit()
        assert (found.fault, found.unconfirmed, found.torn) == (None, 0, 0)
        return [line.deed for line in found.lines]


def sums_of(plan: StudyPlan, sites: tuple[int, ...]) -> dict[str, Integers]:
    """Return the plain sums over some sites, as a round opens them."""

    def people(index: int) -> list[Batch]:
        return [batch_of(index)]

    blocks, supplied = plan.round.blocks, frozenset(plan.round.items)
    given = [plan.contribution(partial(people, index), blocks, supplied)[1] for index in sites]
    return dict(by_block(blocks, np.sum(given, axis=0)))


Story = Callable[[World], Awaitable[None]]


def play(folder: Path, *acts: Story) -> None:
    """Play acts one after another, with a restart of the coordinator between them."""

    async def told() -> None:
        world = World(folder)
        for act in acts:
            async with asyncio.timeout(30), world.running():
                await act(world)

    asyncio.run(told())
